/* child — a helper process of the guest. The pid is cleared as soon as the process is reaped, so that
 * child_kill never hits an unrelated process with the same number. */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/list.h"

struct child {
    struct list node;
    pid_t pid; /* 0: none */
};

static inline void child_add(struct list *all, struct child *c, pid_t pid) {
    c->pid = pid;
    list_push_back(all, &c->node);
}

static inline void child_forget(struct child *c) {
    if (c->pid > 0)
        list_remove(&c->node);
    c->pid = 0;
}

/* Moves the process from one owner to another. */
static inline void child_move(struct child *to, struct child *from) {
    to->pid = from->pid;
    if (to->pid > 0) {
        list_push_back(&from->node, &to->node);
        list_remove(&from->node);
    }
    from->pid = 0;
}

static inline void child_kill(struct child *c) {
    if (c->pid > 0)
        kill(c->pid, SIGKILL);
    child_forget(c);
}

/* Call when a child of the guest was reaped. */
static inline void children_on_exit(struct list *all, pid_t pid) {
    LIST_FOR_EACH(it, all) {
        struct child *c = container_of(it, struct child, node);
        if (c->pid == pid) {
            child_forget(c);
            return;
        }
    }
}
