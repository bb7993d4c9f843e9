/* driver — the contract that a driver implements. A driver creates an instance for a guest to run
 * in, opens a byte stream to that guest, and finds both again after a restart.
 *
 * Tables:  struct driver_ops is mandatory. The other tables are capabilities: a driver that lacks
 *          one leaves its pointer in struct driver NULL, and core refuses or avoids what needs it.
 *          docs/writing-a-driver.md has the whole contract.
 * Owner:   the daemon owns the driver, a sandbox owns its instance.
 * States:  create → on_ready → on_gone (last), or create → on_failed (last). An adopted instance is
 *          ready when adopt returns.
 * Restart: no process of an instance is a child of bermd. adopt finds an instance by its id alone.
 * Bounds:  the driver answers every request once; a lost driver fails all of them.
 * Callbacks come from the loop, never from inside the requesting function, and never after
 * instance_close. One exception: a lost driver may answer a request at once. Inside a callback you
 * may call every function here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

#define INSTANCE_ID_MAX 64 /* including the NUL */
#define INSTANCE_MOUNTS_MAX 64
#define INSTANCE_CLAIM_MOUNTS_MAX 8
#define INSTANCE_TARGET_MAX 256 /* including the NUL */

struct driver;
struct instance;

enum instance_profile { INSTANCE_USER = 1, INSTANCE_ROOT = 2 };
enum instance_layer { INSTANCE_DISK = 1, INSTANCE_MEMORY = 2 };
/* A driver refuses EGRESS and OPEN with UNSUPPORTED when its features lack them. */
enum instance_network {
    INSTANCE_NETWORK_NONE = 1,
    INSTANCE_NETWORK_EGRESS = 2,
    INSTANCE_NETWORK_OPEN = 3
};

/* A limit of 0 means no limit. */
struct instance_limits {
    uint64_t memory_bytes;
    uint64_t cpu_milli;
    uint64_t pids;
    uint64_t disk_bytes;
    uint64_t disk_inodes;
    /* Largest file that a process in the instance may write, including output logs. */
    uint64_t file_bytes;
};

/* Only a driver with DRIVER_HAS_MOUNTS gets mounts. */
struct instance_mount {
    int dir_fd; /* borrowed until the function returns */
    const char *target;
    bool writable;
    /* Programs lack the owner's rights, so they can read only world-readable files. */
    bool is_public;
    bool is_layered; /* writes go to the instance's own layer; never set with the other two flags */
};

struct instance_spec {
    const char *id;       /* characters a-z, 0-9 and hyphen; at most 63 */
    const char *hostname; /* NULL: use the id */
    uint64_t slot; /* from driver.slots, the same at each start; 0 if the driver has no slots */
    enum instance_profile profile;
    enum instance_layer layer;
    enum instance_network network;
    struct instance_limits limits;
    const struct instance_mount *mounts;
    size_t n_mounts;
    bool is_parked; /* created for the pool: core claims it at most once, before any program runs */
};

struct instance_usage {
    uint64_t memory_bytes;
    uint64_t memory_peak_bytes;
    uint64_t cpu_us;
    uint64_t pids;
    uint64_t oom_kills;
};

struct exec_cgroup_usage {
    uint64_t cpu_user_us;
    uint64_t cpu_system_us;
    uint64_t memory_peak_bytes;
    uint64_t pids_peak;
};

struct instance_events {
    /* The guest runs; instance_connect succeeds now or soon. */
    void (*on_ready)(struct instance *p);
    /* The driver could not create the instance and has removed all of it. Last callback. */
    void (*on_failed)(struct instance *p, const struct err *e);
    /* The guest and every other process in the instance have ended. Last callback. */
    void (*on_gone)(struct instance *p);
};

/* The result of a request to a running instance; e is NULL on success. */
struct instance_answer {
    const struct err *e;
    struct instance_usage usage; /* set by usage.measure, and by exec_cgroups.kill if known */
    /* Set by exec_cgroups.make: per_cgroup descriptors per cgroup; `done` takes them. */
    const int *fds;
    size_t n_fds;
    size_t per_cgroup;
};
typedef void instance_done(struct instance *p, const struct instance_answer *a, void *user);

typedef void driver_done(void *user, const struct err *e); /* e is NULL on success */

/* What an instance_spec may ask for. Other abilities are tables; see struct driver. */
enum driver_feature {
    DRIVER_HAS_LIMIT_MEMORY = 1 << 0,
    DRIVER_HAS_LIMIT_CPU = 1 << 1,
    DRIVER_HAS_LIMIT_PIDS = 1 << 2,
    DRIVER_HAS_LIMIT_DISK = 1 << 3,
    DRIVER_HAS_EGRESS = 1 << 4,
    DRIVER_HAS_OPEN = 1 << 5,
    DRIVER_HAS_MOUNTS = 1 << 6, /* host directories, passed as descriptors */
    DRIVER_HAS_LAYER_MEMORY = 1 << 7,
    DRIVER_HAS_PROFILE_ROOT = 1 << 8,
};

/* --- the mandatory table --- */

struct driver_ops {
    const char *name;
    void (*close)(struct driver *d);
    struct instance *(*create)(struct driver *d, const struct instance_spec *spec,
                               const struct instance_events *events, void *user, struct err *e);
    struct instance *(*adopt)(struct driver *d, const char *id,
                              const struct instance_events *events, void *user, struct err *e);
    int (*connect)(struct instance *p, struct err *e);
    void (*stop)(struct instance *p);
    void (*close_instance)(struct instance *p);
    void (*discard)(struct driver *d, const char *id, bool with_files, driver_done *done,
                    void *user);
    void (*sweep)(struct driver *d, const char *const *ids, size_t n, driver_done *done,
                  void *user);
};

/* --- capabilities; each request answers through `done`, which may be NULL --- */

struct driver_pause_ops {
    void (*pause)(struct instance *p, instance_done *done, void *user);
    void (*resume)(struct instance *p, instance_done *done, void *user);
};

struct driver_usage_ops {
    void (*measure)(struct instance *p, instance_done *done, void *user);
};

/* Limits of a running instance. Limits at its creation are features. */
struct driver_limits_ops {
    void (*set)(struct instance *p, const struct instance_limits *l, instance_done *done,
                void *user);
};

/* A cgroup for each exec, identified by a number that core chooses. Core passes the first
 * descriptor of a cgroup to the guest, which writes to it to join the cgroup, and to read_usage. */
struct driver_exec_cgroup_ops {
    /* Creates cgroups, or opens those that exist already. */
    void (*make)(struct instance *p, uint32_t first, uint32_t count, instance_done *done,
                 void *user);
    /* Kills every process in the cgroup and removes the cgroup. */
    void (*kill)(struct instance *p, uint32_t cgroup, instance_done *done, void *user);
    /* Updates the counters without blocking. A counter that cannot be read keeps its value; a peak
     * never decreases. `cgroup_fd` is a directory. */
    void (*read_usage)(int cgroup_fd, struct exec_cgroup_usage *usage);
};

/* Instances that are created ahead of their sandbox. */
struct driver_parking_ops {
    /* Applies the differences: hostname (NULL = unchanged), limits (0 = unchanged) and read-only
     * mounts. Core does not call this when nothing differs. Core discards the instance after a
     * failure. */
    void (*claim)(struct instance *p, const struct instance_spec *spec, instance_done *done,
                  void *user);
    /* Returns whether the driver has answered every request. The pool creates instances only
     * then. */
    bool (*is_idle)(const struct driver *d);
};

/* For a driver whose adopt does not contact the guest. Such a driver calls on_gone only after
 * watch_exit, connect or stop. */
struct driver_dormant_ops {
    /* Makes the driver report the exit, even if the instance has already ended. -number: a resource
     * is short at the moment. */
    int (*watch_exit)(struct instance *p);
};

/* Numbers that core records with a sandbox and passes to each create, such as a range of uids. */
struct driver_slot_ops {
    int64_t (*take)(struct driver *d); /* -1: all slots are in use */
    /* Marks the slot of a record as used. False: the driver has no such slot. */
    bool (*keep)(struct driver *d, uint64_t slot);
    void (*give_back)(struct driver *d, uint64_t slot);
};

/* The head of every driver and every instance; the driver's own members follow. */
struct driver {
    const struct driver_ops *ops;
    /* Capabilities, final when on_open fires. NULL: the driver lacks the capability. */
    const struct driver_pause_ops *pause;
    const struct driver_usage_ops *usage;
    const struct driver_limits_ops *limits;
    const struct driver_exec_cgroup_ops *exec_cgroups;
    const struct driver_parking_ops *parking;
    const struct driver_dormant_ops *dormant;
    const struct driver_slot_ops *slots;
    unsigned features;     /* enum driver_feature, final when on_open fires */
    const char *user_name; /* account that runs programs of profile USER; NULL: "user" */
    uv_loop_t *loop;
    void (*on_open)(struct driver *d, const struct err *e); /* e NULL: ready to create instances */
    void (*on_lost)(struct driver *d); /* the driver fails every request from now on; may be NULL */
    void (*on_closed)(struct driver *d); /* the last callback */
    void *user;
};

struct instance {
    struct driver *driver;
    const struct instance_events *events;
    void *user;
    bool is_bytes_only; /* the link cannot pass descriptors */
    char id[INSTANCE_ID_MAX];
};

/* --- calls of core --- */

/* -1: all slots are in use. */
static inline int64_t driver_take_slot(struct driver *d) {
    return d->slots ? d->slots->take(d) : 0;
}
static inline bool driver_keep_slot(struct driver *d, uint64_t slot) {
    return !d->slots || d->slots->keep(d, slot);
}
static inline void driver_give_slot_back(struct driver *d, uint64_t slot) {
    if (d->slots)
        d->slots->give_back(d, slot);
}

/* Returns NULL and an error when the request is invalid; events report every later outcome. */
static inline struct instance *instance_create(struct driver *d, const struct instance_spec *spec,
                                               const struct instance_events *events, void *user,
                                               struct err *e) {
    return d->ops->create(d, spec, events, user, e);
}
/* Finds a running instance. The returned instance is ready, and only on_gone follows. NULL: no
 * guest runs under this id. */
static inline struct instance *instance_adopt(struct driver *d, const char *id,
                                              const struct instance_events *events, void *user,
                                              struct err *e) {
    return d->ops->adopt(d, id, events, user, e);
}
/* Makes sure that the exit of an adopted instance is reported. */
MUST_USE static inline int instance_watch_exit(struct instance *p) {
    return p->driver->dormant ? p->driver->dormant->watch_exit(p) : 0;
}
/* Returns a new connection to the guest: a stream socket that the caller owns and that carries no
 * byte of an earlier connection. -number if the guest does not accept the connection. The socket
 * passes descriptors, unless is_bytes_only is set or the guest's hello says otherwise. */
static inline int instance_connect(struct instance *p, struct err *e) {
    return p->driver->ops->connect(p, e);
}
/* Kills every process in the instance, even in a frozen instance. The files stay. on_gone
 * follows. */
static inline void instance_stop(struct instance *p) {
    p->driver->ops->stop(p);
}
/* Frees the handle only: the instance keeps running, and the next bermd can adopt it. */
static inline void instance_close(struct instance *p) {
    p->driver->ops->close_instance(p);
}
static inline void instance_pause(struct instance *p, instance_done *done, void *user) {
    p->driver->pause->pause(p, done, user);
}
static inline void instance_resume(struct instance *p, instance_done *done, void *user) {
    p->driver->pause->resume(p, done, user);
}
static inline void instance_set_limits(struct instance *p, const struct instance_limits *l,
                                       instance_done *done, void *user) {
    p->driver->limits->set(p, l, done, user);
}
static inline void instance_measure(struct instance *p, instance_done *done, void *user) {
    p->driver->usage->measure(p, done, user);
}
static inline void instance_make_exec_cgroups(struct instance *p, uint32_t first, uint32_t count,
                                              instance_done *done, void *user) {
    p->driver->exec_cgroups->make(p, first, count, done, user);
}
static inline void instance_kill_exec_cgroup(struct instance *p, uint32_t cgroup,
                                             instance_done *done, void *user) {
    p->driver->exec_cgroups->kill(p, cgroup, done, user);
}
static inline void instance_claim(struct instance *p, const struct instance_spec *spec,
                                  instance_done *done, void *user) {
    p->driver->parking->claim(p, spec, done, user);
}
/* Removes the remains of an instance, with its files if `with_files`, and then calls `done`. Ends
 * the instance first if it still runs. */
static inline void driver_discard(struct driver *d, const char *id, bool with_files,
                                  driver_done *done, void *user) {
    d->ops->discard(d, id, with_files, done, user);
}
/* Ends and removes every instance of this driver whose id is not in the list, and then calls
 * `done`. A new daemon does this once, after it has adopted running instances and before it
 * listens. */
static inline void driver_sweep(struct driver *d, const char *const *ids, size_t n,
                                driver_done *done, void *user) {
    d->ops->sweep(d, ids, n, done, user);
}
static inline void driver_close(struct driver *d) {
    d->ops->close(d);
}
