/* sandbox_usage — measures what a sandbox uses: one request to the driver at a time for all
 * waiters. */
#include "core/sandbox/sandbox_impl.h"

static void on_measured(struct instance *p, const struct instance_answer *a, void *user) {
    (void)user;
    struct sandbox *sb = sandbox_of(p->user);
    sb->has_usage = !a->e;
    sb->usage = a->usage;
    waiters_end(&sb->measures);
}

const struct instance_usage *sandbox_usage(const struct sandbox *sb) {
    return sb->has_usage ? &sb->usage : NULL;
}

int sandbox_measure(struct sandbox *sb, struct waiter *w, struct err *e) {
    if (box_check_driver(&sb->box, 0, e) < 0)
        return -(int)e->code;
    if (!box_is_up(&sb->box))
        return box_refuse(&sb->box, e);
    if (!sb->box.driver->usage)
        return err_set(e, ERR_UNSUPPORTED, "the driver %s does not measure usage",
                       sb->box.driver->ops->name);
    bool is_asked = !list_is_empty(&sb->measures);
    waiter_add(&sb->measures, w);
    if (!is_asked)
        instance_measure(sb->box.instance, on_measured, NULL);
    return 0;
}

/* Wakes all waiters, because the driver will not reply any more. */
void sandbox_measures_end(struct sandbox *sb) {
    sb->has_usage = false;
    waiters_end(&sb->measures);
}
