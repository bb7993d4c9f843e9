#include "guest/exec/exec.h"

#include <string.h>

#include "base/clock.h"
#include "guest/guest.h"
#include "guest/params.h"

void execs_init(struct execs *all, struct guest *g) {
    *all = (struct execs){.guest = g};
    list_init(&all->all);
    list_init(&all->lingering);
}

void execs_done(struct execs *all) {
    for (struct list *it;
         (it = list_pop_front(&all->all)) || (it = list_pop_front(&all->lingering));)
        exec_free(container_of(it, struct exec, node));
    free(all->spare);
}

bool execs_hold_output(const struct execs *all) {
    LIST_FOR_EACH(it, (struct list *)&all->all)
        if (container_of(it, struct exec, node)->output.owns_logs)
            return true;
    return false;
}

struct exec *execs_find(struct execs *all, struct str id) {
    LIST_FOR_EACH(it, &all->all) {
        struct exec *x = container_of(it, struct exec, node);
        if (str_is(id, str_of(x->id)))
            return x;
    }
    return NULL;
}

struct exec *exec_new(struct guest *g, struct str id) {
    struct exec *x = TAKE(g->execs->spare);
    if (!x)
        x = malloc(sizeof *x);
    if (!x)
        return NULL;
    *x = (struct exec){.guest = g, .tree = {.cgroup = -1}, .terminal = -1};
    memcpy(x->id, id.p, id.n);
    list_init(&x->node);
    exec_input_init(&x->input);
    exec_output_init(&x->output);
    exec_end_init(&x->end);
    return x;
}

void exec_free(struct exec *x) {
    struct execs *all = x->guest->execs;
    exec_output_done(x);
    exec_input_close(x);
    exec_end_done(x);
    if (x->terminal >= 0)
        close(x->terminal);
    tree_done(&x->tree);
    free(all->spare);
    all->spare = x;
}

static void exec_on_grave(struct later *l) {
    exec_free(container_of(l, struct exec, grave));
}

void exec_free_later(struct exec *x) {
    list_remove(&x->node);
    exec_state_set_life(&x->life, EXEC_FREED);
    loop_free_later(&x->guest->loop, &x->grave, exec_on_grave);
}

void exec_register(struct exec *x) {
    struct execs *all = x->guest->execs;
    list_push_back(&all->all, &x->node);
    all->count++;
    all->running++;
    x->started_unix_ms = (uint64_t)clock_unix_ms();
}

int exec_of_request(struct request *r, struct exec **ret, struct err *e) {
    struct str id;
    if (params_id(r->params, "exec_id", &id, e) < 0)
        return -(int)e->code;
    *ret = execs_find(r->guest->execs, id);
    if (!*ret)
        return err_set(e, ERR_EXEC_NOT_FOUND, "no exec has the id %.*s", (int)id.n, id.p);
    return 0;
}

int exec_check_running(const struct exec *x, struct err *e) {
    return x->life == EXEC_RUNNING ? 0 : err_set(e, ERR_EXEC_ENDED, "%s has ended", x->id);
}

/* Forgets the exec. When descendants still write, the guest keeps reading their pipes until they close. */
int exec_method_done(struct request *r, struct err *e) {
    struct str id;
    if (params_id(r->params, "exec_id", &id, e) < 0)
        return -(int)e->code;
    struct execs *all = r->guest->execs;
    struct exec *x = execs_find(all, id);
    if (!x)
        return 0; /* a repeated `done`: the exec is already gone */
    if (x->life != EXEC_EXITED)
        return err_field(e, "exec_id", "must name an exec that has exited, got %s", x->id);
    all->count--;
    if (exec_output_is_closed(x)) {
        exec_free_later(x);
        return 0;
    }
    list_remove(&x->node);
    list_push_back(&all->lingering, &x->node);
    exec_state_set_life(&x->life, EXEC_LINGERING);
    return 0;
}
