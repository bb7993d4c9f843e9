/* native_ask — requests to a running instance. berm-spawn answers each request once. */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "drivers/native/native_impl.h"

static void on_answered(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                        size_t n_fds) {
    struct native_instance *p = a->subject;
    const struct spawn_usage *u = &reply->usage;
    struct err e;
    struct instance_answer answer = {
        .usage = {u->memory_bytes, u->memory_peak_bytes, u->cpu_us, u->pids, u->oom_kills},
        .fds = fds,
        .n_fds = n_fds,
        .per_cgroup = reply->fds_per_cgroup,
    };
    if (reply->error != 0) {
        native_explain(p->native, &e, reply);
        answer.e = &e;
    }
    ((instance_done *)a->done)(&p->instance, &answer, a->user);
    for (size_t i = 0; !answer.e && i < n_fds; i++)
        fds[i] = -1; /* `done` owns the descriptor now */
}

/* Sets the id through by_id, because every request kind in this file has the id at the same
 * offset. */
static struct spawn_ask *native_ask_new(struct native_instance *p, uint32_t kind, size_t size,
                                        instance_done *done, void *user) {
    struct spawn_ask *a = spawn_ask_new(kind, size, done ? on_answered : NULL, p);
    if (!a)
        return NULL;
    a->done = (void (*)(void))done;
    a->user = user;
    snprintf(a->message->by_id.id, SPAWN_ID_MAX, "%s", p->instance.id);
    return a;
}

/* Sends the request. Calls `done` with an error at once if `a` is NULL (out of memory) or
 * berm-spawn has exited. */
static void native_ask_send(struct native_instance *p, struct spawn_ask *a, instance_done *done,
                            void *user) {
    struct err e;
    if (a && !p->native->link.lost) {
        spawn_link_send(&p->native->link, a);
        return;
    }
    if (a)
        err_set(&e, ERR_DRIVER_UNAVAILABLE, "berm-spawn has exited: restart bermd");
    else
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
    if (a)
        spawn_ask_free(a);
    struct instance_answer answer = {.e = &e};
    if (done)
        done(&p->instance, &answer, user);
}

void native_pause(struct instance *instance, instance_done *done, void *user) {
    struct native_instance *p = native_instance_of(instance);
    native_ask_send(p, native_ask_new(p, SPAWN_FREEZE, sizeof(struct spawn_by_id), done, user),
                    done, user);
}

void native_resume(struct instance *instance, instance_done *done, void *user) {
    struct native_instance *p = native_instance_of(instance);
    native_ask_send(p, native_ask_new(p, SPAWN_THAW, sizeof(struct spawn_by_id), done, user), done,
                    user);
}

void native_measure(struct instance *instance, instance_done *done, void *user) {
    struct native_instance *p = native_instance_of(instance);
    native_ask_send(p, native_ask_new(p, SPAWN_USAGE, sizeof(struct spawn_by_id), done, user), done,
                    user);
}

void native_set_limits(struct instance *instance, const struct instance_limits *l,
                       instance_done *done, void *user) {
    struct native_instance *p = native_instance_of(instance);
    struct spawn_ask *a =
        native_ask_new(p, SPAWN_LIMITS, sizeof(struct spawn_set_limits), done, user);
    if (a)
        a->message->set_limits.limits = (struct spawn_limits){
            .memory_bytes = l->memory_bytes, .cpu_milli = l->cpu_milli, .pids = l->pids};
    native_ask_send(p, a, done, user);
}

void native_make_exec_cgroups(struct instance *instance, uint32_t first, uint32_t count,
                              instance_done *done, void *user) {
    struct native_instance *p = native_instance_of(instance);
    struct spawn_ask *a =
        native_ask_new(p, SPAWN_EXEC_CGROUP, sizeof(struct spawn_exec_cgroup), done, user);
    if (a) {
        a->message->exec_cgroup.first = first;
        a->message->exec_cgroup.count = count;
    }
    native_ask_send(p, a, done, user);
}

void native_kill_exec_cgroup(struct instance *instance, uint32_t cgroup, instance_done *done,
                             void *user) {
    struct native_instance *p = native_instance_of(instance);
    struct spawn_ask *a =
        native_ask_new(p, SPAWN_KILL_CGROUP, sizeof(struct spawn_kill_cgroup), done, user);
    if (a)
        a->message->kill_exec_cgroup.cgroup = cgroup;
    native_ask_send(p, a, done, user);
}

static uint64_t cgroup_stat(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static uint64_t cgroup_value(int cgroup_fd, const char *name) {
    char text[64];
    return fd_read_text(cgroup_fd, name, text, sizeof text) > 0 ? strtoull(text, NULL, 10) : 0;
}

void native_read_exec_cgroup(int cgroup_fd, struct exec_cgroup_usage *usage) {
    char text[4096];
    if (fd_read_text(cgroup_fd, "cpu.stat", text, sizeof text) > 0) {
        usage->cpu_user_us = cgroup_stat(text, "user_usec ");
        usage->cpu_system_us = cgroup_stat(text, "system_usec ");
    }
    /* Store the values in variables, because MAX evaluates its arguments twice. */
    uint64_t memory = cgroup_value(cgroup_fd, "memory.peak");
    uint64_t pids = cgroup_value(cgroup_fd, "pids.peak");
    usage->memory_peak_bytes = MAX(usage->memory_peak_bytes, memory);
    usage->pids_peak = MAX(usage->pids_peak, pids);
}

/* berm-spawn keeps the current value of a limit that is 0, and of an empty hostname. */
void native_claim(struct instance *instance, const struct instance_spec *spec, instance_done *done,
                  void *user) {
    struct native_instance *p = native_instance_of(instance);
    struct spawn_ask *a = native_ask_new(p, SPAWN_CLAIM, sizeof(struct spawn_claim), done, user);
    struct err e;
    if (a) {
        struct spawn_claim *c = &a->message->claim;
        snprintf(c->hostname, sizeof c->hostname, "%s", spec->hostname ? spec->hostname : "");
        c->limits = (struct spawn_limits){.memory_bytes = spec->limits.memory_bytes,
                                          .cpu_milli = spec->limits.cpu_milli,
                                          .pids = spec->limits.pids};
        c->n_mounts = (uint32_t)spec->n_mounts;
        if (native_fill_mounts(a, c->mounts, COUNT_OF(c->mounts), spec, &e) < 0) {
            spawn_ask_free(a);
            done(instance, &(struct instance_answer){.e = &e}, user);
            return;
        }
    }
    native_ask_send(p, a, done, user);
}
