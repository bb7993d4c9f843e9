/* driver — what a driver implements: it makes a place for a guest to live in, gives one byte stream to
 * that guest, and can find both again after a restart.
 *
 * Owner:   the registry owns the driver, a sandbox its place.
 * States:  place_create → on_ready (or on_failed, and it is over) → on_gone, last; an adopted place is
 *          ready from the start.
 * Restart: nothing of a place is bermd's child. place_adopt finds it by its id alone.
 * Bounds:  every request to a driver is answered or fails; a driver that is lost fails them all.
 * Callbacks come from the loop, never from inside the function that asked, and never after
 * place_close. Inside a callback you may call anything here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

#define PLACE_ID_MAX 64 /* with the NUL */
#define PLACE_MOUNTS_MAX 64
#define PLACE_CLAIM_MOUNTS_MAX 8
#define PLACE_TARGET_MAX 256 /* with the NUL */

struct driver;
struct place;

enum place_profile { PLACE_USER = 1, PLACE_ROOT = 2 };
enum place_layer { PLACE_DISK = 1, PLACE_MEMORY = 2 };
/* EGRESS and OPEN are refused with UNSUPPORTED by a driver whose features lack them. */
enum place_network { PLACE_NETWORK_NONE = 1, PLACE_NETWORK_EGRESS = 2, PLACE_NETWORK_OPEN = 3 };

/* 0 = no limit. */
struct place_limits {
    uint64_t memory_bytes;
    uint64_t cpu_milli;
    uint64_t pids;
    uint64_t disk_bytes;
    uint64_t disk_inodes;
    uint64_t file_bytes; /* largest file anything inside may write, its output logs included */
};

struct place_mount {
    int dir_fd; /* borrowed for the call */
    const char *target;
    bool writable;
    bool
        is_public; /* nobody inside has its owner's rights: what all may read is what can be read */
    bool
        is_layered; /* what is written goes to the place's own layer and not there; not with the others */
};

struct place_spec {
    const char *id;       /* [a-z0-9-], at most 63 */
    const char *hostname; /* NULL: the id */
    uint32_t slot;        /* its range of uids; the same at each start */
    enum place_profile profile;
    enum place_layer layer;
    enum place_network network;
    int image_fd; /* a directory as root, borrowed; -1 = the host's own toolchain */
    struct place_limits limits;
    const struct place_mount *mounts;
    size_t n_mounts;
    bool is_parked; /* nobody's yet: at most one place_claim follows, before anything runs in it */
};

struct place_usage {
    uint64_t memory_bytes;
    uint64_t memory_peak_bytes;
    uint64_t cpu_us;
    uint64_t pids;
    uint64_t oom_kills;
};

struct place_events {
    /* The guest lives and can be reached by place_link. */
    void (*on_ready)(struct place *p);
    /* It could not be made, or not be found; nothing of it is left. Last. */
    void (*on_failed)(struct place *p, const struct err *e);
    /* The guest has ended, whatever ended it, and so has everything in it. Last. */
    void (*on_gone)(struct place *p);
};

/* How one request to a living place ended; e is NULL on success. */
struct place_answer {
    const struct err *e;
    struct place_usage usage; /* of place_usage */
    const int *fds;           /* of place_leaves: per_leaf for each leaf, yours from here */
    size_t n_fds;
    size_t per_leaf;
};
typedef void place_done(struct place *p, const struct place_answer *a, void *user);

typedef void driver_done(void *user, const struct err *e); /* NULL on success */

/* What a driver can do; DRIVER_HAS_x of what a place_spec asks for. */
enum driver_feature {
    DRIVER_HAS_PAUSE = 1 << 0,
    DRIVER_HAS_LIMIT_MEMORY = 1 << 1,
    DRIVER_HAS_LIMIT_CPU = 1 << 2,
    DRIVER_HAS_LIMIT_PIDS = 1 << 3,
    DRIVER_HAS_LIMIT_DISK = 1 << 4,
    DRIVER_HAS_EGRESS = 1 << 5,
    DRIVER_HAS_OPEN = 1 << 6,
    DRIVER_HAS_LEAVES = 1 << 7, /* a cgroup for each program */
};

struct driver_ops {
    const char *name;
    void (*close)(struct driver *d);
    struct place *(*create)(struct driver *d, const struct place_spec *spec,
                            const struct place_events *events, void *user, struct err *e);
    struct place *(*adopt)(struct driver *d, const char *id, const struct place_events *events,
                           void *user, struct err *e);
    int (*meet)(struct place *p);
    int (*link)(struct place *p, struct err *e);
    void (*stop)(struct place *p);
    void (*close_place)(struct place *p);
    void (*discard)(struct driver *d, const char *id, bool with_files, driver_done *done,
                    void *user);
    void (*sweep)(struct driver *d, const char *const *ids, size_t n);
    /* Each answers through `done`, which may be NULL. */
    void (*pause)(struct place *p, place_done *done, void *user);
    void (*resume)(struct place *p, place_done *done, void *user);
    void (*set_limits)(struct place *p, const struct place_limits *l, place_done *done, void *user);
    void (*usage)(struct place *p, place_done *done, void *user);
    void (*leaves)(struct place *p, uint32_t first, uint32_t count, place_done *done, void *user);
    void (*kill_leaf)(struct place *p, uint32_t leaf, place_done *done, void *user);
    void (*claim)(struct place *p, const struct place_spec *spec, place_done *done, void *user);
    bool (*is_idle)(const struct driver *d);
};

/* The head of every driver and every place; a driver's own come behind them. */
struct driver {
    const struct driver_ops *ops;
    uv_loop_t *loop;
    unsigned features; /* enum driver_feature, once on_open has come */
    void (*on_open)(struct driver *d, const struct err *e); /* NULL error: it can make places */
    void (*on_swept)(struct driver *d, const struct err *e);
    void (*on_lost)(struct driver *d);   /* it can do nothing any more; NULL: nobody minds */
    void (*on_closed)(struct driver *d); /* last */
    void *user;
    void *sweeper; /* whoever asked for a sweep */
};

struct place {
    struct driver *driver;
    const struct place_events *events;
    void *user;
    char id[PLACE_ID_MAX];
};

/* NULL and an error when the request itself is wrong; everything later comes as an event. */
static inline struct place *place_create(struct driver *d, const struct place_spec *spec,
                                         const struct place_events *events, void *user,
                                         struct err *e) {
    return d->ops->create(d, spec, events, user, e);
}
/* Finds a living place; one that is returned is ready, and only on_gone follows. It may have been found without
 * a word to its guest: then its end is told from place_meet, place_link or place_stop on. */
static inline struct place *place_adopt(struct driver *d, const char *id,
                                        const struct place_events *events, void *user,
                                        struct err *e) {
    return d->ops->adopt(d, id, events, user, e);
}
/* Looks after a place that was found, so that its end is told, also when that was before; -number when something
 * is short for that now. */
MUST_USE static inline int place_meet(struct place *p) {
    return p->driver->ops->meet(p);
}
/* A new connection to the guest, yours from here; -number when nobody answers. */
static inline int place_link(struct place *p, struct err *e) {
    return p->driver->ops->link(p, e);
}
/* Ends everything in it, frozen or not; its files stay. on_gone follows. */
static inline void place_stop(struct place *p) {
    p->driver->ops->stop(p);
}
/* Each answers through `done`, which may be NULL. A driver that is lost answers at once. */
static inline void place_pause(struct place *p, place_done *done, void *user) {
    p->driver->ops->pause(p, done, user);
}
static inline void place_resume(struct place *p, place_done *done, void *user) {
    p->driver->ops->resume(p, done, user);
}
static inline void place_set_limits(struct place *p, const struct place_limits *l, place_done *done,
                                    void *user) {
    p->driver->ops->set_limits(p, l, done, user);
}
static inline void place_measure(struct place *p, place_done *done, void *user) {
    p->driver->ops->usage(p, done, user);
}
/* Cgroups for programs, by number; one that is there already is given again. */
static inline void place_leaves(struct place *p, uint32_t first, uint32_t count, place_done *done,
                                void *user) {
    p->driver->ops->leaves(p, first, count, done, user);
}
static inline void place_kill_leaf(struct place *p, uint32_t leaf, place_done *done, void *user) {
    p->driver->ops->kill_leaf(p, leaf, done, user);
}
/* Gives a parked one what differs: hostname (NULL = as it was made), limits (0 = as it was made) and mounts that
 * nobody writes to. One that is as wanted needs none. After a failure it is of no use. */
static inline void place_claim(struct place *p, const struct place_spec *spec, place_done *done,
                               void *user) {
    p->driver->ops->claim(p, spec, done, user);
}
/* Lets go of it: the place itself lives on, for the next bermd to adopt. */
static inline void place_close(struct place *p) {
    p->driver->ops->close_place(p);
}
/* Clears away what is left of a place that is gone, its files too when that is asked, and then says
 * so. Ends it, should it live. */
static inline void driver_discard(struct driver *d, const char *id, bool with_files,
                                  driver_done *done, void *user) {
    d->ops->discard(d, id, with_files, done, user);
}
/* Ends and removes everything of this driver's that is none of these; on_swept follows. A new daemon
 * does it once, after it has read its records and before it listens. */
static inline void driver_sweep(struct driver *d, const char *const *ids, size_t n) {
    d->ops->sweep(d, ids, n);
}
/* Whether everything asked of it is answered. */
static inline bool driver_is_idle(const struct driver *d) {
    return d->ops->is_idle(d);
}
static inline void driver_close(struct driver *d) {
    d->ops->close(d);
}
