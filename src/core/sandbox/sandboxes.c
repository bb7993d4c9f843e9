#include "core/sandbox/sandboxes.h"

#include "base/log.h"
#include "core/sandbox/sandbox_impl.h"

int sandboxes_init(struct sandboxes *all, struct env *env, const struct sandbox_owner_ops *ops,
                   const struct db_facts *facts) {
    all->env = env;
    all->ops = ops;
    all->newest = facts->sandbox_number;
    list_init(&all->list);
    list_init(&all->dormant);
    int r = map_init(&all->by_id);
    if (r < 0)
        return r;
    r = exec_table_init(&all->execs, facts->exec_number);
    if (r < 0)
        map_done(&all->by_id);
    return r;
}

void sandboxes_done(struct sandboxes *all) {
    for (struct list *node; (node = list_pop_front(&all->list));)
        sandbox_free(sandbox_at(node));
    exec_table_done(&all->execs);
    map_done(&all->by_id);
}

struct sandbox *sandboxes_find(const struct sandboxes *all, const char *id) {
    struct map_node *node = map_find(&all->by_id, id);
    return node ? container_of(node, struct sandbox, by_id) : NULL;
}

struct sandbox *sandbox_at(struct list *node) {
    return container_of(node, struct sandbox, in_all);
}

bool sandboxes_wake_next(struct sandboxes *all) {
    if (list_is_empty(&all->dormant))
        return false;
    sandbox_wake(&container_of(all->dormant.next, struct sandbox, in_dormant)->box);
    return true;
}

void sandbox_recover(struct sandbox *sb) {
    if (!sb->box.driver) { /* the record stays until a daemon has the driver */
        log_text(LOG_WARN, "start", "%s: the driver \"%s\" is not loaded",
                 sb->box.record->sandbox_id, sb->box.record->spec->driver);
        sb->all->ops->on_recovered(sb->all);
        return;
    }
    sb->is_recovering = true;
    if (sb->execs.n_running > 0)
        execs_count_output(&sb->execs);
    sandbox_lifetime_update(sb);
    if (!box_is(&sb->box, SB_STOPPED) && !box_is(&sb->box, SB_FAILED))
        sandbox_adopt(sb);
    else
        execs_gone(&sb->execs);
    sandbox_converge(sb);
}

void sandbox_recovery_timeout(struct sandbox *sb) {
    if (!sb->is_recovering || !box_is_up(&sb->box))
        return;
    log_text(LOG_WARN, "start", "%s: its guest does not answer", sb->box.record->sandbox_id);
    execs_take_reported(&sb->execs);
    sandbox_converge(sb);
}

void sandbox_let_go(struct sandbox *sb) {
    sandbox_disconnect(sb);
    imports_end(&sb->imports);
    if (sb->box.instance)
        instance_close(TAKE(sb->box.instance));
    if (box_has_instance(&sb->box))
        box_set_instance(&sb->box, INST_NONE);
}

void sandbox_flush(struct sandbox *sb) {
    if (sb->transcript)
        transcript_flush(sb->transcript);
}

struct box *sandbox_box(struct sandbox *sb) {
    return &sb->box;
}

const char *sandbox_instance_id(const struct sandbox *sb) {
    return sb->instance_id;
}

bool sandbox_is_down(const struct sandbox *sb) {
    bool has_stopped =
        !box_has_instance(&sb->box) && sb->recorded.n_pending == 0 && sb->box.goal >= GOAL_STOP;
    return !sb->box.driver || has_stopped || box_is(&sb->box, SB_FAILED);
}
