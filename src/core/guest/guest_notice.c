#include "core/guest/guest_notice.h"

#include "core/guest/guest_exec_read.h"
#include "core/guest/guest_field.h"

#define CHANGES_MAX 4096 /* guest.schema.json */

static int notice_read_grew(const struct json *params, struct arena *a, struct guest_notice *ret,
                            struct err *e) {
    uint64_t *sizes = ret->grew.output_bytes;
    (void)a;
    if (guest_field_exec_id(params, &ret->grew.exec_id, e) < 0 ||
        guest_field_u64(params, "stdout_bytes", &sizes[0], e) < 0 ||
        guest_field_u64(params, "stderr_bytes", &sizes[1], e) < 0)
        return -(int)e->code;
    return 0;
}

static int notice_read_exited(const struct json *params, struct arena *a, struct guest_notice *ret,
                              struct err *e) {
    (void)a;
    return guest_exec_state_read(params, &ret->exited, e);
}

static int notice_read_stdin(const struct json *params, struct arena *a, struct guest_notice *ret,
                             struct err *e) {
    (void)a;
    if (guest_field_exec_id(params, &ret->stdin_room.exec_id, e) < 0)
        return -(int)e->code;
    return guest_field_u64(params, "next_offset", &ret->stdin_room.next_offset, e);
}

static int notice_read_change(const struct json *node, struct arena *a, struct guest_change *ret,
                              struct err *e) {
    static const char *const kinds[] = {"created", "modified", "removed", "renamed", "attributes"};
    int kind = 0;
    *ret = (struct guest_change){0};
    if (guest_field_word(node, "kind", kinds, COUNT_OF(kinds), &kind, e) < 0 ||
        guest_field_path(node, "path", a, &ret->path, e) < 0 ||
        guest_field_path(node, "old_path", a, &ret->old_path, e) < 0)
        return -(int)e->code;
    ret->kind = (enum guest_change_kind)(GUEST_CHANGE_CREATED + kind);
    ret->has_info = json_get(node, "info") != NULL;
    return ret->has_info ? guest_field_info(json_get(node, "info"), a, &ret->info, e) : 0;
}

static int notice_read_changes(const struct json *params, struct arena *a,
                               struct guest_changed *ret, struct err *e) {
    const struct json *list = guest_field_list(params, "changes", CHANGES_MAX, e);
    if (!list)
        return -(int)e->code;
    struct guest_change *changes =
        arena_alloc(a, MAX(list->items.count, (size_t)1) * sizeof *changes);
    if (!changes)
        return guest_field_no_memory(e);
    ret->changes = changes;
    JSON_FOR_EACH(it, list)
    if (notice_read_change(it, a, &changes[ret->n_changes++], e) < 0)
        return -(int)e->code;
    return 0;
}

static int notice_read_changed(const struct json *params, struct arena *a, struct guest_notice *ret,
                               struct err *e) {
    static const char *const reasons[] = {"", "overflow", "restarted", "root_changed"};
    int resync = 0;
    if (guest_field_id(params, "watch_id", &ret->changed.watch_id, e) < 0 ||
        notice_read_changes(params, a, &ret->changed, e) < 0 ||
        guest_field_bool(params, "ended", &ret->changed.has_ended, e) < 0 ||
        (json_get(params, "resync") &&
         guest_field_word(params, "resync", reasons, COUNT_OF(reasons), &resync, e) < 0))
        return -(int)e->code;
    ret->changed.resync = (enum guest_resync)resync;
    return 0;
}

static int notice_read_tree(const struct json *params, struct arena *a, struct guest_notice *ret,
                            struct err *e) {
    struct guest_tree_done *t = &ret->tree_done;
    const struct json *error = json_get(params, "error");
    (void)a;
    if (guest_field_id(params, "handle", &t->handle, e) < 0 ||
        (error && guest_field_error(error, &t->failure, e) < 0) ||
        guest_field_u64(params, "files", &t->files, e) < 0 ||
        guest_field_u64(params, "directories", &t->directories, e) < 0 ||
        guest_field_u64(params, "total_bytes", &t->total_bytes, e) < 0 ||
        guest_field_u64(params, "skipped_special", &t->skipped_special, e) < 0)
        return -(int)e->code;
    return guest_field_u64(params, "skipped_unreadable", &t->skipped_unreadable, e);
}

int guest_notice_read(struct str method, const struct json *params, struct arena *a,
                      struct guest_notice *ret, struct err *e) {
    static const struct {
        const char *method;
        int (*read)(const struct json *params, struct arena *a, struct guest_notice *ret,
                    struct err *e);
    } notices[] = {
        [GUEST_GREW] = {"grew", notice_read_grew},
        [GUEST_EXITED] = {"exited", notice_read_exited},
        [GUEST_STDIN_ROOM] = {"stdin_room", notice_read_stdin},
        [GUEST_CHANGED] = {"changed", notice_read_changed},
        [GUEST_TREE_DONE] = {"tree_done", notice_read_tree},
    };
    for (size_t i = 0; i < COUNT_OF(notices); i++) {
        if (!str_is(method, str_of(notices[i].method)))
            continue;
        *ret = (struct guest_notice){.kind = (enum guest_notice_kind)i};
        return notices[i].read(params, a, ret, e) < 0 ? -(int)e->code : 1;
    }
    return 0;
}
