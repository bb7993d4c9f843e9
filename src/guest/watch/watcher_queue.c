#include <errno.h>

#include "base/limits.h"
#include "guest/watch/watcher.h"

int watcher_queue_init(struct watcher_queue *q) {
    *q = (struct watcher_queue){.max = (size_t)limit_table[LIMIT_WATCH_QUEUE].value};
    q->of = calloc(q->max, sizeof *q->of);
    return q->of ? 0 : -ENOMEM;
}

const char *watcher_change_name(enum change_kind kind) {
    static const char *const names[] = {"created", "modified", "removed", "renamed", "attributes"};
    return names[kind];
}

/* Returns the slot of a path, or a free one. There are more slots than changes. */
static uint16_t *watcher_queue_slot(struct watcher_queue *q, const char *path) {
    uint32_t hash = 2166136261u;
    for (const char *p = path; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    for (;; hash++) {
        uint16_t *slot = &q->last[hash % WATCHER_QUEUE_SLOTS];
        if (*slot == 0 || strcmp(q->of[*slot - 1].path, path) == 0)
            return slot;
    }
}

/* Merges a change into the newest change of its path. Returns false when both must be reported. */
static bool watcher_queue_merge(struct change *c, enum change_kind kind) {
    if (c->kind == kind)
        return kind != CHANGE_RENAMED && c->cookie == 0;
    if (kind == CHANGE_MODIFIED && c->kind == CHANGE_ATTRIBUTES) {
        c->kind = CHANGE_MODIFIED;
        return true;
    }
    bool is_small = kind == CHANGE_MODIFIED || kind == CHANGE_ATTRIBUTES;
    return is_small && (c->kind == CHANGE_CREATED || c->kind == CHANGE_MODIFIED);
}

void watcher_queue_clear(struct watcher_queue *q) {
    for (size_t i = 0; i < q->n; i++) {
        free(q->of[i].path);
        free(q->of[i].old_path);
    }
    if (q->n > 0)
        memset(q->last, 0, sizeof q->last);
    q->n = 0;
}

static void watcher_queue_overflow(struct watcher_queue *q) {
    watcher_queue_clear(q);
    q->is_full = true;
}

void watcher_queue_add(struct watcher_queue *q, enum change_kind kind, const char *path,
                       uint32_t cookie, bool is_dir) {
    if (q->is_full)
        return;
    uint16_t *slot = watcher_queue_slot(q, path);
    if (*slot > 0 && watcher_queue_merge(&q->of[*slot - 1], kind))
        return;
    char *copy = q->n < q->max ? strdup(path) : NULL;
    if (!copy) {
        watcher_queue_overflow(q);
        return;
    }
    q->of[q->n++] = (struct change){.kind = kind, .cookie = cookie, .is_dir = is_dir, .path = copy};
    *slot = (uint16_t)q->n;
}

/* Rebuilds the hash table after changes have moved. */
static void watcher_queue_reindex(struct watcher_queue *q) {
    memset(q->last, 0, sizeof q->last);
    for (size_t i = 0; i < q->n; i++)
        *watcher_queue_slot(q, q->of[i].path) = (uint16_t)(i + 1);
}

const char *watcher_queue_rename(struct watcher_queue *q, uint32_t cookie, const char *path) {
    for (size_t i = q->n; cookie != 0 && i-- > 0;) {
        struct change *c = &q->of[i];
        if (c->cookie != cookie)
            continue;
        char *copy = strdup(path);
        if (!copy) {
            watcher_queue_overflow(q);
            return NULL;
        }
        /* Append the rename, because the queued changes of other paths happened before it. */
        struct change renamed = {
            .kind = CHANGE_RENAMED, .is_dir = c->is_dir, .path = copy, .old_path = c->path};
        bool is_newest = i == q->n - 1;
        memmove(c, c + 1, (q->n - i - 1) * sizeof *c);
        q->of[q->n - 1] = renamed;
        if (is_newest) /* the slot of the old path stays in use, for a change with another path */
            *watcher_queue_slot(q, copy) = (uint16_t)q->n;
        else
            watcher_queue_reindex(q);
        return renamed.old_path;
    }
    return NULL;
}
