/* The native driver's internals. native.c is the driver, native_instance.c has the life of an
 * instance, native_ask.c the requests to a running instance, native_slots.c the ranges of uids. */
#pragma once

#include "drivers/native/listeners.h"
#include "drivers/native/native.h"
#include "drivers/native/spawn_link.h"

struct native {
    struct driver driver;
    struct spawn_link link;
    int run_dir_fd;
    struct list instances;
    int ends_fd; /* epoll of all guests' pidfds; a uv_poll_t per guest costs four system calls */
    uv_poll_t ends;
    struct listeners *listeners; /* snapshot for adoption, freed by the sweep; may be NULL */
    bool has_listed; /* `listeners` was read; not repeated, because each try may load a module */
    uint8_t *slots;  /* a bit for each range of uids in use */
    uint32_t next_slot;
};

struct native_instance {
    struct instance instance;
    struct native *native;
    struct list in_native;
    int pid_fd;      /* pidfd of the guest, or -1 */
    int found_link;  /* connection that found the guest, until instance_connect takes it; or -1 */
    bool is_dormant; /* adopted through `listeners`, without a connection or pidfd */
    bool closing;
    bool ended;    /* the guest has exited */
    bool clearing; /* a DESTROY is pending */
    bool is_clear; /* berm-spawn has answered a DESTROY */
};

static inline struct native *native_of(struct driver *d) {
    return container_of(d, struct native, driver);
}
static inline struct native_instance *native_instance_of(struct instance *p) {
    return container_of(p, struct native_instance, instance);
}

/* Converts a failed reply, or the loss of berm-spawn, into an error. */
void native_explain(const struct native *n, struct err *e, const struct spawn_reply *reply);
/* Sends a DESTROY. Returns NULL when berm-spawn has exited or memory runs out; the sweep at the
 * next start then removes the instance. */
struct spawn_ask *native_destroy(struct native *n, const char *id, uint32_t flags,
                                 spawn_on_reply *on_reply, void *subject);

/* Functions of native_instance.c. */
/* Handles guests that have exited. */
void native_on_ends(uv_poll_t *ends, int status, int events);
struct instance *native_create(struct driver *d, const struct instance_spec *spec,
                               const struct instance_events *events, void *user, struct err *e);
struct instance *native_adopt(struct driver *d, const char *id,
                              const struct instance_events *events, void *user, struct err *e);
int native_watch_exit(struct instance *instance);
int native_connect(struct instance *instance, struct err *e);
void native_stop(struct instance *instance);
void native_close_instance(struct instance *instance);
/* Frees the instance without a callback. berm-spawn still carries out requests that were sent. */
void native_instance_end(struct native_instance *p);
/* Fills the mounts of a request and duplicates their descriptors. */
MUST_USE int native_fill_mounts(struct spawn_ask *a, struct spawn_mount *to, size_t max,
                                const struct instance_spec *spec, struct err *e);

/* Functions of native_ask.c. */
void native_claim(struct instance *instance, const struct instance_spec *spec, instance_done *done,
                  void *user);
void native_pause(struct instance *instance, instance_done *done, void *user);
void native_resume(struct instance *instance, instance_done *done, void *user);
void native_set_limits(struct instance *instance, const struct instance_limits *l,
                       instance_done *done, void *user);
void native_measure(struct instance *instance, instance_done *done, void *user);
void native_make_exec_cgroups(struct instance *instance, uint32_t first, uint32_t count,
                              instance_done *done, void *user);
void native_kill_exec_cgroup(struct instance *instance, uint32_t cgroup, instance_done *done,
                             void *user);
void native_read_exec_cgroup(int cgroup_fd, struct exec_cgroup_usage *usage);

/* native_slots.c */
extern const struct driver_slot_ops native_slot_ops;
MUST_USE int native_slots_init(struct native *n); /* -ENOMEM */
