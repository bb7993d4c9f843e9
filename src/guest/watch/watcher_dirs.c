#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>

#include "guest/watch/watcher.h"

struct dir *dir_find(struct dir_table *t, int wd) {
    struct dir *d = t->buckets[(unsigned)wd % DIR_BUCKETS];
    while (d && d->wd != wd)
        d = d->next;
    return d;
}

int dir_add(struct dir_table *t, int wd, const char *path) {
    struct dir *d = malloc(sizeof *d + strlen(path) + 1);
    if (!d)
        return -ENOMEM;
    struct dir **bucket = &t->buckets[(unsigned)wd % DIR_BUCKETS];
    d->wd = wd;
    d->next = *bucket;
    strcpy(d->path, path);
    *bucket = d;
    t->n++;
    return 0;
}

static void dir_drop(struct dir_table *t, struct dir **at) {
    struct dir *d = *at;
    *at = d->next;
    free(d);
    t->n--;
}

void dir_drop_wd(struct dir_table *t, int wd) {
    for (struct dir **at = &t->buckets[(unsigned)wd % DIR_BUCKETS]; *at; at = &(*at)->next)
        if ((*at)->wd == wd) {
            dir_drop(t, at);
            return;
        }
}

static bool is_at_or_below(const char *path, const char *top) {
    size_t n = strlen(top);
    return strncmp(path, top, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

void dirs_moved(struct dir_table *t, const char *from, const char *to) {
    for (size_t i = 0; i < DIR_BUCKETS; i++) {
        for (struct dir **at = &t->buckets[i]; *at;) {
            struct dir *d = *at;
            if (!is_at_or_below(d->path, from)) {
                at = &d->next;
                continue;
            }
            char path[2 * PATH_LENGTH_MAX + 2];
            snprintf(path, sizeof path, "%s%s", to ? to : "", d->path + strlen(from));
            int wd = d->wd;
            dir_drop(t, at);
            if (!to || strlen(path) > PATH_LENGTH_MAX || dir_add(t, wd, path) < 0)
                inotify_rm_watch(t->inotify, wd);
            else if (&t->buckets[i] == at)
                at = &(*at)->next; /* the new one is in front of us */
        }
    }
}

void dirs_drop_all(struct dir_table *t) {
    for (size_t i = 0; i < DIR_BUCKETS; i++)
        while (t->buckets[i]) {
            inotify_rm_watch(t->inotify, t->buckets[i]->wd);
            dir_drop(t, &t->buckets[i]);
        }
}
