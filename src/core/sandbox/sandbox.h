/* sandbox — one sandbox from its acceptance to its removal.
 * Owner:   the registry (core/sandbox/sandboxes.h).
 * States:  SandboxState in the record, as clients see it; SBX-1 lists the changes. A sandbox also
 *          has a goal, an instance state and a link state: see core/box/box_state.h.
 * Events:  every event (an intent is durable, an instance is ready, the guest answers or is gone, a
 *          retry is due) calls sandbox_converge, which takes the next step towards the goal.
 * Restart: a new daemon reads the record, adopts the instance and calls sandbox_converge.
 * Bounds:  limits.execs running execs.
 * Errors:  SANDBOX_EXISTS, SANDBOX_STALE, SANDBOX_PAUSED, SANDBOX_STOPPED, SANDBOX_NOT_READY,
 *          SANDBOX_FAILED, SANDBOX_DELETED, STORE_FULL.          Spec: spec/behavior.md, SBX
 * A change returns 0 once its entry is pending; c->wait ends from the loop. */
#pragma once

#include "base/waiter.h"
#include "core/change.h"
#include "core/driver.h"
#include "loop/deadline.h"

struct execs;
struct files;
struct sandbox;

/* incarnation 0 = any. grace_ms is as in StopSandboxRequest. */
MUST_USE int sandbox_stop(struct sandbox *sb, uint64_t incarnation, int64_t grace_ms,
                          const struct change *c, struct err *e);
MUST_USE int sandbox_start(struct sandbox *sb, uint64_t incarnation, const struct change *c,
                           struct err *e);
MUST_USE int sandbox_pause(struct sandbox *sb, uint64_t incarnation, const struct change *c,
                           struct err *e);
MUST_USE int sandbox_resume(struct sandbox *sb, uint64_t incarnation, const struct change *c,
                            struct err *e);
MUST_USE int sandbox_delete(struct sandbox *sb, uint64_t incarnation, const struct change *c,
                            struct err *e);
/* Replaces the spec. `spec` is the whole new spec, checked; `parts` names the members that the
 * caller sent ("labels", …), for the event. The driver applies new limits first; if the driver
 * refuses, the update fails. */
MUST_USE int sandbox_update(struct sandbox *sb, uint64_t incarnation,
                            const Berm__V1__SandboxSpec *spec, const char *const *parts,
                            size_t n_parts, const struct change *c, struct err *e);

/* Returns the record, borrowed until the next turn of the loop. Report it only when
 * ledger_wait(sandbox_recorded) has nothing to wait for. */
const Berm__V1__Sandbox *sandbox_record(const struct sandbox *sb);
/* Sets the fields that are not stored, in a record that was read from the store. */
void sandbox_put_live(const struct sandbox *sb, Berm__V1__Sandbox *copy);
const struct recorded *sandbox_recorded(const struct sandbox *sb);
uint64_t sandbox_number(const struct sandbox *sb);
/* Returns whether the next start runs spec.copies. */
bool sandbox_needs_copies(struct sandbox *sb);
/* Return the sets that exec calls and file calls use. */
struct execs *sandbox_execs(struct sandbox *sb);
struct files *sandbox_files(struct sandbox *sb);
/* Returns 0 when bermd may send an exec or file call to the guest now, else the error of SBX-8. */
MUST_USE int sandbox_check_ready(const struct sandbox *sb, uint64_t incarnation, struct err *e);

/* Waits until the sandbox has reached its goal and its record is durable. Zero the struct before
 * its first use. */
struct sandbox_wait {
    struct waiter waiter;
    struct deadline deadline;
    struct deadlines *deadlines;
    struct sandbox *sandbox;
    bool until_deleted; /* false: wait until the state is final for the current goal */
};
/* Wakes `w` once, from the loop: when the wait has ended, when the sandbox is freed, or after
 * wait_ms. */
void sandbox_wait(struct sandbox *sb, struct sandbox_wait *w, int64_t wait_ms,
                  void (*on_done)(struct waiter *w));
void sandbox_wait_cancel(struct sandbox_wait *w);

/* Asks the driver for the usage of the sandbox and wakes `w` exactly once: later, from the loop, or
 * before this function returns if the driver is lost. Fails with SANDBOX_STOPPED or a similar error when the sandbox does not run. */
MUST_USE int sandbox_measure(struct sandbox *sb, struct waiter *w, struct err *e);
/* Returns the last measurement. NULL: the driver failed, or the sandbox does not run. */
const struct instance_usage *sandbox_usage(const struct sandbox *sb);
uint64_t sandbox_output_bytes(struct sandbox *sb);
/* Fails with SANDBOX_STALE unless `asked` is the current incarnation; 0 = any. */
MUST_USE int sandbox_check_incarnation(const struct sandbox *sb, uint64_t asked, struct err *e);
