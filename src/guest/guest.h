/* guest — the state of berm-guest. life.c makes the one value and passes it down; there are no globals. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/rpc.h"
#include "guest/handles.h"
#include "guest/jobs.h"
#include "guest/link.h"
#include "guest/loop.h"
#include "guest/settings.h"
#include "guest/user.h"

#define GUEST_SCRATCH 65536

struct execs;
struct watches;

struct guest {
    struct loop loop;
    struct link link;
    struct arena arena; /* memory for the message that is being handled */
    struct buf text;    /* the message that is being written */
    struct settings settings;
    struct execs *execs;
    struct watches *watches;
    struct jobs jobs;
    struct handles handles;
    struct source signals;
    struct timer lease;
    uint64_t lease_ms; /* how long the guest lives without a daemon; 0: forever */
    struct timer end;  /* stops the loop when a shutdown takes too long */
    bool ending;       /* a shutdown has begun */
    struct privileges privileges;
    struct user_cache users;
    uint8_t *scratch; /* GUEST_SCRATCH bytes, valid for one read */
};

/* One request while its handler runs. A handler writes the members of its result to `out` and returns 0,
 * returns REQUEST_LATER or REQUEST_WAIT, or fails with `e`. */
struct request {
    struct guest *guest;
    int64_t id;
    uint64_t generation; /* of the connection that sent the request */
    const struct json *params;
    int fds[RPC_MESSAGE_FDS_MAX]; /* a handler that takes a descriptor sets its entry to -1 */
    size_t n_fds;
    struct json_out *out;
    int64_t next_offset; /* for error.data of the reply; -1: absent */
};
#define REQUEST_LATER 1 /* the reply is sent later, by reply_send or reply_error */
#define REQUEST_WAIT 2  /* too many jobs run; methods.c repeats the request when one has ended */
