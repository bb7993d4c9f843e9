/* spawn_link — our end of the socket to berm-spawn: fixed-layout requests out, replies in, in any order.
 *
 * Owner:   the native driver.          Ends: spawn_link_close, then on_closed from the loop.
 * A request is answered once, by its own on_reply, from the loop: with berm-spawn's reply, or, when
 * berm-spawn is gone, with `lost` set and an error. After spawn_link_close nothing is answered.
 * Bounds:  one outstanding request costs its message; one that the socket does not take waits in
 *          order. */
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
    struct list asked; /* sent, waiting for the reply */
    bool lost;         /* berm-spawn is gone */
    bool closing;
    void (*on_lost)(struct spawn_link *l); /* berm-spawn is gone, and all who waited know it */
    void (*on_closed)(struct spawn_link *l);
};

/* Descriptors of a reply are borrowed: one that is kept is set to -1. */
typedef void spawn_on_reply(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                            size_t n_fds);

struct spawn_ask {
    struct list in_link;
    spawn_on_reply *on_reply; /* NULL: nobody waits */
    void *subject;            /* the asker's: NULL once it has gone */
    void (*done)(void);       /* the asker's own callback, cast back by its on_reply */
    void *user;
    size_t n_fds;
    int fds[SPAWN_MOUNTS_MAX + 2]; /* ours until they are sent */
    uint32_t size;
    union spawn_request message[]; /* only the first `size` bytes are there */
};

/* Takes the descriptor over, also when it fails. */
MUST_USE int spawn_link_open(struct spawn_link *l, uv_loop_t *loop, int fd,
                             void (*on_lost)(struct spawn_link *l),
                             void (*on_closed)(struct spawn_link *l));
void spawn_link_close(struct spawn_link *l);

/* NULL: out of memory. Until it is sent, spawn_ask_free takes it back. */
struct spawn_ask *spawn_ask_new(uint32_t kind, size_t size, spawn_on_reply *on_reply,
                                void *subject);
void spawn_ask_free(struct spawn_ask *a);
void spawn_link_send(struct spawn_link *l, struct spawn_ask *a);
/* Nothing more is heard of by this asker; what was asked goes on. */
void spawn_link_forget(struct spawn_link *l, const void *subject);
