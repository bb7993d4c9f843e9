/* guest — everything berm-guest has: the loop, the link, the programs, the open files, the sandbox's
 * settings. One value, made in main.c and passed down; there are no globals. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/rpc.h"
#include "guest/exec/exec.h"
#include "guest/jobs.h"
#include "guest/link.h"
#include "guest/loop.h"
#include "guest/user.h"
#include "guest/watch.h"

#define GUEST_VERSION_SPOKEN 1
#define GUEST_LEASE_DEFAULT_MS UINT64_C(86400000)
#define GUEST_WORKSPACE "/workspace" /* where most sandboxes have it */
#define GUEST_ENV_MAX 65536
#define GUEST_ENV_COUNT 512

/* What `configure` brought; each text ends with NUL. */
struct settings {
    bool configured;
    bool is_new;     /* the workspace may have to be made */
    char *workspace; /* NULL: / */
    char *user;      /* NULL: whoever the guest is */
    char *path;      /* PATH of programs where env has none; NULL: the usual */
    char **env;      /* NAME=value; NULL at the end; NULL when none */
};

void settings_free(struct settings *s);

struct guest {
    struct loop loop;
    struct link link;
    struct arena arena; /* of the message at hand */
    struct buf text;    /* the answer being written */
    struct settings settings;
    struct execs execs;
    struct jobs jobs;
    struct watches watches;
    struct source signals;
    struct timer lease;
    uint64_t lease_ms; /* 0: for ever */
    struct timer end;  /* shutdown: when programs are killed */
    bool ending;
    struct privileges privileges;
    struct user_cache users;
    uint8_t *scratch; /* GUEST_SCRATCH bytes for one read at a time */
};
#define GUEST_SCRATCH 65536

/* One request while it is being answered. A handler writes the members of its result to `out` and
 * answers 0; GUEST_LATER when the answer comes by request_answer_later; or fails with `e`. */
struct request {
    struct guest *guest;
    int64_t id;
    uint64_t generation; /* of the connection that asked */
    const struct json *params;
    int fds[RPC_MESSAGE_FDS_MAX]; /* came with it; those a handler takes are set to -1 */
    size_t n_fds;
    struct json_out *out;
    int64_t next_offset; /* for the error's data; -1: absent */
};
#define GUEST_LATER 1
#define GUEST_WAIT 2 /* it has to be asked again when a job has ended */

/* The method table and the answer to everything that comes in; methods.c. */
extern const struct link_events guest_link_events;
/* Queues an answer whose result is JSON already. Descriptors are closed when nobody is there to take
 * them. Returns whether it was queued. */
bool guest_answer(struct guest *g, uint64_t generation, int64_t id, struct str result,
                  const int *fds, size_t n_fds);
void guest_answer_error(struct guest *g, uint64_t generation, int64_t id, const struct err *e);
/* Sends the text in g->text, which is one whole message. -ENOBUFS */
MUST_USE int guest_send_text(struct guest *g);

/* Begins file requests that had to wait; once per turn. */
void guest_serve_waiting(struct guest *g);
void guest_make_workspace(struct guest *g);

/* Ends every program, SIGTERM first when grace_ms > 0, and then the guest. */
void guest_end(struct guest *g, uint64_t grace_ms);
