/* box — the part of a sandbox that its execs, file calls and imports use.
 *
 * Owner:   its sandbox, which embeds the box and keeps it up to date. Execs, file calls and
 *          imports borrow it, and call back through `ops`.
 * States:  goal, instance state and link state: see box_state.h.
 * Errors:  SANDBOX_STALE, SANDBOX_NOT_READY, SANDBOX_PAUSED, SANDBOX_STOPPED, SANDBOX_FAILED,
 *          SANDBOX_DELETED, DRIVER_UNAVAILABLE.          Spec: spec/behavior.md, SBX-8 */
#pragma once

#include "core/box/box_dir.h"
#include "core/box/box_state.h"
#include "core/env.h"
#include "core/guest/guest_link.h"

struct box;
struct execs;

struct box_ops {
    /* Greets the guest of a dormant sandbox. */
    void (*wake)(struct box *b);
    /* An exec or a file call started or ended: wakes a dormant sandbox and restarts its idle
     * time. */
    void (*touch)(struct box *b);
};

struct box {
    const struct box_ops *ops;
    struct env *env;
    /* NULL: the driver is not loaded, and bermd leaves the record unchanged. */
    struct driver *driver;
    Berm__V1__Sandbox *record;
    enum sandbox_goal goal;                     /* set with box_set_goal */
    enum sandbox_instance_state instance_state; /* set with box_set_instance */
    enum sandbox_link_state link_state;         /* set with box_set_link */
    struct instance
        *instance;           /* its `user` is the box; NULL in NONE, OPENING, CLEARING, REMOVING */
    struct guest_link *link; /* NULL in LINK_NONE and LINK_LOST */
    struct execs *execs;
    int dir_fd; /* opened by box_dir; -1 = not open */
};

#define SB_PENDING BERM__V1__SANDBOX_STATE__SANDBOX_STATE_PENDING
#define SB_READY BERM__V1__SANDBOX_STATE__SANDBOX_STATE_READY
#define SB_PAUSED BERM__V1__SANDBOX_STATE__SANDBOX_STATE_PAUSED
#define SB_STOPPING BERM__V1__SANDBOX_STATE__SANDBOX_STATE_STOPPING
#define SB_STOPPED BERM__V1__SANDBOX_STATE__SANDBOX_STATE_STOPPED
#define SB_FAILED BERM__V1__SANDBOX_STATE__SANDBOX_STATE_FAILED
#define SB_DELETING BERM__V1__SANDBOX_STATE__SANDBOX_STATE_DELETING
#define SB_DELETED BERM__V1__SANDBOX_STATE__SANDBOX_STATE_DELETED

static inline bool box_is(const struct box *b, int state) {
    return b->record->state == (Berm__V1__SandboxState)state;
}
/* The user of execs whose spec names none. */
static inline const char *box_user(const struct box *b) {
    bool is_root = b->record->spec->profile == BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_ROOT;
    return is_root ? "root" : b->driver->user_name ? b->driver->user_name : "user";
}

/* Returns 0 when `asked` is the current incarnation or 0, which means any incarnation. */
MUST_USE int box_check_incarnation(const struct box *b, uint64_t asked, struct err *e);
/* Returns 0 when the incarnation matches and the driver is loaded. */
MUST_USE int box_check_driver(const struct box *b, uint64_t incarnation, struct err *e);
/* Returns 0 when bermd may send an exec or file call to the guest now. */
MUST_USE int box_check_ready(const struct box *b, uint64_t incarnation, struct err *e);
/* Sets the error of a call that needs the sandbox in another state. */
int box_refuse(const struct box *b, struct err *e);
/* Initializes an event about the sandbox with actor, owner and ids. `who` NULL: the actor is the
 * daemon, or the sandbox if `by_sandbox`. */
void box_event_init(const struct box *b, Berm__V1__Event *event, Berm__V1__Actor *actor,
                    const struct caller *who, bool by_sandbox, const char *request_id);
