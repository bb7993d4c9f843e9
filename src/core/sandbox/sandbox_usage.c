/* usage — what a sandbox uses, for whoever asks: one question to the driver at a time, however many. */
#include "core/sandbox/sandbox_impl.h"

static void on_measured(struct instance *p, const struct instance_answer *a, void *user) {
    (void)user;
    struct sandbox *sb = sandbox_of(p->user);
    struct list now;
    list_init(&now);
    for (struct list *node; (node = list_pop_front(&sb->measures));)
        list_push_back(&now, node);
    for (struct list *node; (node = list_pop_front(&now));) {
        struct sandbox_measure *m = container_of(node, struct sandbox_measure, in_sandbox);
        m->on_done(m, a->e ? NULL : &a->usage);
    }
}

void sandbox_measure_init(struct sandbox_measure *m,
                          void (*on_done)(struct sandbox_measure *m,
                                          const struct instance_usage *u)) {
    list_init(&m->in_sandbox);
    m->on_done = on_done;
}

void sandbox_measure_cancel(struct sandbox_measure *m) {
    list_remove(&m->in_sandbox);
}

int sandbox_measure(struct sandbox *sb, struct sandbox_measure *m, struct err *e) {
    if (box_check_driver(&sb->box, 0, e) < 0)
        return -(int)e->code;
    if (!box_is_up(&sb->box))
        return box_refuse(&sb->box, e);
    if (!sb->box.driver->usage)
        return err_set(e, ERR_UNSUPPORTED, "the driver %s does not measure usage",
                       sb->box.driver->ops->name);
    bool is_asked = !list_is_empty(&sb->measures);
    list_push_back(&sb->measures, &m->in_sandbox);
    if (!is_asked)
        instance_measure(sb->box.instance, on_measured, NULL);
    return 0;
}

/* The driver will not answer any more. */
void sandbox_measures_end(struct sandbox *sb) {
    for (struct list *node; (node = list_pop_front(&sb->measures));) {
        struct sandbox_measure *m = container_of(node, struct sandbox_measure, in_sandbox);
        m->on_done(m, NULL);
    }
}
