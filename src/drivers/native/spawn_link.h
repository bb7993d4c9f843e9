/* spawn_link — bermd's end of the socket to berm-spawn. Replies arrive in any order.
 *
 * Owner:   the native driver.          End: spawn_link_close, then on_closed from the loop.
 * Replies: on_reply fires once per request, from the loop, with berm-spawn's reply. When berm-spawn
 *          has exited, `lost` is set and on_reply gets an error. After spawn_link_close, on_reply
 *          does not fire.
 * Bounds:  one message per pending request. Requests that the socket does not accept yet wait in
 *          order.
 * Inside a callback you may call every function here. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/list.h"
#include "spawn/request.h"

struct spawn_ask;

struct spawn_link {
    uv_poll_t poll;
    int fd;
    uint32_t seq;
    struct list unsent;
    struct list asked; /* sent; the reply is pending */
    bool lost;         /* berm-spawn has exited */
    bool closing;
    void (*on_lost)(struct spawn_link *l); /* called after every pending request has failed */
    void (*on_closed)(struct spawn_link *l);
};

/* The link closes the descriptors of a reply, except those that on_reply sets to -1 to keep
 * them. */
typedef void spawn_on_reply(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                            size_t n_fds);

struct spawn_ask {
    struct list in_link;
    spawn_on_reply *on_reply; /* NULL: the reply is ignored */
    void *subject;            /* the requesting object; NULL after spawn_link_forget */
    void (*done)(void);       /* callback of the requester; on_reply casts it back */
    void *user;
    size_t n_fds;
    int fds[SPAWN_MOUNTS_MAX + 2]; /* the link closes them after sending */
    uint32_t size;
    union spawn_request message[]; /* only the first `size` bytes are allocated */
};

/* Takes ownership of the descriptor, even on failure. */
MUST_USE int spawn_link_open(struct spawn_link *l, uv_loop_t *loop, int fd,
                             void (*on_lost)(struct spawn_link *l),
                             void (*on_closed)(struct spawn_link *l));
void spawn_link_close(struct spawn_link *l);

/* NULL: out of memory. The caller frees a request that it does not send. */
struct spawn_ask *spawn_ask_new(uint32_t kind, size_t size, spawn_on_reply *on_reply,
                                void *subject);
void spawn_ask_free(struct spawn_ask *a);
void spawn_link_send(struct spawn_link *l, struct spawn_ask *a);
/* Drops the callbacks of this subject's requests. berm-spawn still carries out the requests. */
void spawn_link_forget(struct spawn_link *l, const void *subject);
