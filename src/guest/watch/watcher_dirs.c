#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>

#include "guest/watch/watcher.h"

struct watcher_dir *watcher_dirs_find(struct watcher_dirs *t, int wd) {
    struct watcher_dir *d = t->buckets[(unsigned)wd % WATCHER_DIR_BUCKETS];
    while (d && d->wd != wd)
        d = d->next;
    return d;
}

int watcher_dirs_add(struct watcher_dirs *t, int wd, const char *path) {
    struct watcher_dir *d = malloc(sizeof *d + strlen(path) + 1);
    if (!d)
        return -ENOMEM;
    struct watcher_dir **bucket = &t->buckets[(unsigned)wd % WATCHER_DIR_BUCKETS];
    d->wd = wd;
    d->next = *bucket;
    strcpy(d->path, path);
    *bucket = d;
    t->n++;
    return 0;
}

static void watcher_dirs_drop(struct watcher_dirs *t, struct watcher_dir **at) {
    struct watcher_dir *d = *at;
    *at = d->next;
    free(d);
    t->n--;
}

void watcher_dirs_drop_wd(struct watcher_dirs *t, int wd) {
    for (struct watcher_dir **at = &t->buckets[(unsigned)wd % WATCHER_DIR_BUCKETS]; *at;
         at = &(*at)->next)
        if ((*at)->wd == wd) {
            watcher_dirs_drop(t, at);
            return;
        }
}

static bool watcher_dirs_contains(const char *path, const char *top) {
    size_t n = strlen(top);
    return strncmp(path, top, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

void watcher_dirs_move(struct watcher_dirs *t, const char *from, const char *to) {
    for (size_t i = 0; i < WATCHER_DIR_BUCKETS; i++) {
        for (struct watcher_dir **at = &t->buckets[i]; *at;) {
            struct watcher_dir *d = *at;
            if (!watcher_dirs_contains(d->path, from)) {
                at = &d->next;
                continue;
            }
            char path[2 * PATH_LENGTH_MAX + 2];
            snprintf(path, sizeof path, "%s%s", to ? to : "", d->path + strlen(from));
            int wd = d->wd;
            watcher_dirs_drop(t, at);
            if (!to || strlen(path) > PATH_LENGTH_MAX || watcher_dirs_add(t, wd, path) < 0)
                inotify_rm_watch(t->inotify, wd);
            else if (&t->buckets[i] == at)
                at = &(*at)->next; /* skip the new entry at the front of this bucket */
        }
    }
}

void watcher_dirs_clear(struct watcher_dirs *t) {
    for (size_t i = 0; i < WATCHER_DIR_BUCKETS; i++)
        while (t->buckets[i]) {
            inotify_rm_watch(t->inotify, t->buckets[i]->wd);
            watcher_dirs_drop(t, &t->buckets[i]);
        }
}
