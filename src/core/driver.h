/* driver — what a driver implements: it makes an instance for a guest to live in, gives one byte stream to
 * that guest, and can find both again after a restart.
 *
 * Owner:   the registry owns the driver, a sandbox its place.
 * States:  instance_create → on_ready (or on_failed, and it is over) → on_gone, last; an adopted instance is
 *          ready from the start.
 * Restart: nothing of an instance is bermd's child. instance_adopt finds it by its id alone.
 * Bounds:  every request to a driver is answered or fails; a driver that is lost fails them all.
 * Callbacks come from the loop, never from inside the function that asked, and never after
 * instance_close. Inside a callback you may call anything here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

#define INSTANCE_ID_MAX 64 /* with the NUL */
#define INSTANCE_MOUNTS_MAX 64
#define INSTANCE_CLAIM_MOUNTS_MAX 8
#define INSTANCE_TARGET_MAX 256 /* with the NUL */

struct driver;
struct instance;

enum instance_profile { INSTANCE_USER = 1, INSTANCE_ROOT = 2 };
enum instance_layer { INSTANCE_DISK = 1, INSTANCE_MEMORY = 2 };
/* EGRESS and OPEN are refused with UNSUPPORTED by a driver whose features lack them. */
enum instance_network {
    INSTANCE_NETWORK_NONE = 1,
    INSTANCE_NETWORK_EGRESS = 2,
    INSTANCE_NETWORK_OPEN = 3
};

/* 0 = no limit. */
struct instance_limits {
    uint64_t memory_bytes;
    uint64_t cpu_milli;
    uint64_t pids;
    uint64_t disk_bytes;
    uint64_t disk_inodes;
    uint64_t file_bytes; /* largest file anything inside may write, its output logs included */
};

struct instance_mount {
    int dir_fd; /* borrowed for the call */
    const char *target;
    bool writable;
    bool
        is_public; /* nobody inside has its owner's rights: what all may read is what can be read */
    bool
        is_layered; /* what is written goes to the instance's own layer and not there; not with the others */
};

struct instance_spec {
    const char *id;       /* [a-z0-9-], at most 63 */
    const char *hostname; /* NULL: the id */
    uint32_t slot;        /* its range of uids; the same at each start */
    enum instance_profile profile;
    enum instance_layer layer;
    enum instance_network network;
    int image_fd; /* a directory as root, borrowed; -1 = the host's own toolchain */
    struct instance_limits limits;
    const struct instance_mount *mounts;
    size_t n_mounts;
    bool
        is_parked; /* nobody's yet: at most one instance_claim follows, before anything runs in it */
};

struct instance_usage {
    uint64_t memory_bytes;
    uint64_t memory_peak_bytes;
    uint64_t cpu_us;
    uint64_t pids;
    uint64_t oom_kills;
};

struct instance_events {
    /* The guest lives and can be reached by instance_link. */
    void (*on_ready)(struct instance *p);
    /* It could not be made, or not be found; nothing of it is left. Last. */
    void (*on_failed)(struct instance *p, const struct err *e);
    /* The guest has ended, whatever ended it, and so has everything in it. Last. */
    void (*on_gone)(struct instance *p);
};

/* How one request to a living instance ended; e is NULL on success. */
struct instance_answer {
    const struct err *e;
    struct instance_usage usage; /* of instance_usage */
    const int
        *fds; /* of instance_make_exec_cgroups: per_cgroup for each exec cgroup, yours from here */
    size_t n_fds;
    size_t per_cgroup;
};
typedef void instance_done(struct instance *p, const struct instance_answer *a, void *user);

typedef void driver_done(void *user, const struct err *e); /* NULL on success */

/* What a driver can do; DRIVER_HAS_x of what an instance_spec asks for. */
enum driver_feature {
    DRIVER_HAS_PAUSE = 1 << 0,
    DRIVER_HAS_LIMIT_MEMORY = 1 << 1,
    DRIVER_HAS_LIMIT_CPU = 1 << 2,
    DRIVER_HAS_LIMIT_PIDS = 1 << 3,
    DRIVER_HAS_LIMIT_DISK = 1 << 4,
    DRIVER_HAS_EGRESS = 1 << 5,
    DRIVER_HAS_OPEN = 1 << 6,
    DRIVER_HAS_EXEC_CGROUPS = 1 << 7, /* a cgroup for each program */
};

struct driver_ops {
    const char *name;
    void (*close)(struct driver *d);
    struct instance *(*create)(struct driver *d, const struct instance_spec *spec,
                               const struct instance_events *events, void *user, struct err *e);
    struct instance *(*adopt)(struct driver *d, const char *id,
                              const struct instance_events *events, void *user, struct err *e);
    int (*watch_exit)(struct instance *p);
    int (*link)(struct instance *p, struct err *e);
    void (*stop)(struct instance *p);
    void (*close_instance)(struct instance *p);
    void (*discard)(struct driver *d, const char *id, bool with_files, driver_done *done,
                    void *user);
    void (*sweep)(struct driver *d, const char *const *ids, size_t n);
    /* Each answers through `done`, which may be NULL. */
    void (*pause)(struct instance *p, instance_done *done, void *user);
    void (*resume)(struct instance *p, instance_done *done, void *user);
    void (*set_limits)(struct instance *p, const struct instance_limits *l, instance_done *done,
                       void *user);
    void (*usage)(struct instance *p, instance_done *done, void *user);
    void (*make_exec_cgroups)(struct instance *p, uint32_t first, uint32_t count,
                              instance_done *done, void *user);
    void (*kill_exec_cgroup)(struct instance *p, uint32_t cgroup, instance_done *done, void *user);
    void (*claim)(struct instance *p, const struct instance_spec *spec, instance_done *done,
                  void *user);
    bool (*is_idle)(const struct driver *d);
};

/* The head of every driver and every instance; a driver's own come behind them. */
struct driver {
    const struct driver_ops *ops;
    uv_loop_t *loop;
    unsigned features; /* enum driver_feature, once on_open has come */
    void (*on_open)(struct driver *d, const struct err *e); /* NULL error: it can make instances */
    void (*on_swept)(struct driver *d, const struct err *e);
    void (*on_lost)(struct driver *d);   /* it can do nothing any more; NULL: nobody minds */
    void (*on_closed)(struct driver *d); /* last */
    void *user;
    void *sweeper; /* whoever asked for a sweep */
};

struct instance {
    struct driver *driver;
    const struct instance_events *events;
    void *user;
    char id[INSTANCE_ID_MAX];
};

/* NULL and an error when the request itself is wrong; everything later comes as an event. */
static inline struct instance *instance_create(struct driver *d, const struct instance_spec *spec,
                                               const struct instance_events *events, void *user,
                                               struct err *e) {
    return d->ops->create(d, spec, events, user, e);
}
/* Finds a living instance; one that is returned is ready, and only on_gone follows. It may have been found without
 * a word to its guest: then its end is told from instance_watch_exit, instance_link or instance_stop on. */
static inline struct instance *instance_adopt(struct driver *d, const char *id,
                                              const struct instance_events *events, void *user,
                                              struct err *e) {
    return d->ops->adopt(d, id, events, user, e);
}
/* Looks after an instance that was found, so that its end is told, also when that was before; -number when something
 * is short for that now. */
MUST_USE static inline int instance_watch_exit(struct instance *p) {
    return p->driver->ops->watch_exit(p);
}
/* A new connection to the guest, yours from here; -number when nobody answers. */
static inline int instance_link(struct instance *p, struct err *e) {
    return p->driver->ops->link(p, e);
}
/* Ends everything in it, frozen or not; its files stay. on_gone follows. */
static inline void instance_stop(struct instance *p) {
    p->driver->ops->stop(p);
}
/* Each answers through `done`, which may be NULL. A driver that is lost answers at once. */
static inline void instance_pause(struct instance *p, instance_done *done, void *user) {
    p->driver->ops->pause(p, done, user);
}
static inline void instance_resume(struct instance *p, instance_done *done, void *user) {
    p->driver->ops->resume(p, done, user);
}
static inline void instance_set_limits(struct instance *p, const struct instance_limits *l,
                                       instance_done *done, void *user) {
    p->driver->ops->set_limits(p, l, done, user);
}
static inline void instance_measure(struct instance *p, instance_done *done, void *user) {
    p->driver->ops->usage(p, done, user);
}
/* Cgroups for programs, by number; one that is there already is given again. */
static inline void instance_make_exec_cgroups(struct instance *p, uint32_t first, uint32_t count,
                                              instance_done *done, void *user) {
    p->driver->ops->make_exec_cgroups(p, first, count, done, user);
}
static inline void instance_kill_exec_cgroup(struct instance *p, uint32_t cgroup,
                                             instance_done *done, void *user) {
    p->driver->ops->kill_exec_cgroup(p, cgroup, done, user);
}
/* Gives a parked one what differs: hostname (NULL = as it was made), limits (0 = as it was made) and mounts that
 * nobody writes to. One that is as wanted needs none. After a failure it is of no use. */
static inline void instance_claim(struct instance *p, const struct instance_spec *spec,
                                  instance_done *done, void *user) {
    p->driver->ops->claim(p, spec, done, user);
}
/* Lets go of it: the instance itself lives on, for the next bermd to adopt. */
static inline void instance_close(struct instance *p) {
    p->driver->ops->close_instance(p);
}
/* Clears away what is left of an instance that is gone, its files too when that is asked, and then says
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
