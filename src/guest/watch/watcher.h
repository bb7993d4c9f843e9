/* watcher — the child of a watch: looks below a path with inotify and hands messages to the guest.
 *
 * Tells:  every change after the answer, or `resync`. Changes of one path within COALESCE_MS are told as one, a
 *         rename within the tree as one. When changes were missed (the kernel's queue or ours was full, or a
 *         path is too long to tell) everything is looked at anew and `resync` told. The directory of the
 *         path is watched too, where it may be: when the path itself is replaced the new one is watched
 *         from then on, told as `resync`, "root_changed"; when it is gone that is told as removed, and
 *         whatever takes its name later as replaced.
 * Ends:   with `ended`, when the path is gone and nobody could tell its return, or when there are more than
 *         watch.dirs directories.
 * Bounds: watch.dirs directories, watch.queue changes, messages of WATCHER_MESSAGE_MAX. It blocks while the
 *         guest does not take them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "guest/path.h"

#define WATCHER_MESSAGE_MAX ((size_t)(1 << 20) - 4096)

/* Before each message: members of `changed`. */
struct watcher_head {
    uint32_t bytes;
    uint32_t is_last;
};

enum change_kind {
    CHANGE_CREATED,
    CHANGE_MODIFIED,
    CHANGE_REMOVED,
    CHANGE_RENAMED,
    CHANGE_ATTRIBUTES
};

struct change {
    enum change_kind kind;
    uint32_t cookie; /* of a REMOVED that may become RENAMED; 0: none */
    bool is_dir;
    char *path; /* absolute */
    char *old_path;
};

#define QUEUE_SLOTS 16384

/* Changes not yet told, in order; watcher_queue.c. */
struct change_queue {
    struct change *of;
    size_t n, max;
    bool is_full;               /* some were dropped */
    uint16_t last[QUEUE_SLOTS]; /* by path: 1 + the newest change of it; open addressing */
};

MUST_USE int queue_init(struct change_queue *q);
/* May be merged with the newest of the same path. */
void queue_add(struct change_queue *q, enum change_kind kind, const char *path, uint32_t cookie,
               bool is_dir);
/* Makes the removal with this cookie a rename; answers the old path, or NULL when there is none. */
const char *queue_rename(struct change_queue *q, uint32_t cookie, const char *path);
void queue_clear(struct change_queue *q);
const char *change_name(enum change_kind kind);

/* A directory that is watched, by what inotify calls it. */
struct dir {
    struct dir *next; /* in its bucket */
    int wd;
    char path[]; /* absolute */
};

#define DIR_BUCKETS 4096

/* watcher_dirs.c */
struct dir_table {
    int inotify;
    struct dir *buckets[DIR_BUCKETS];
    size_t n;
};

struct dir *dir_find(struct dir_table *t, int wd);
MUST_USE int dir_add(struct dir_table *t, int wd, const char *path);
void dir_drop_wd(struct dir_table *t, int wd);
/* A directory went away with all below it, or (`to`) has another path now. */
void dirs_moved(struct dir_table *t, const char *from, const char *to);
/* And watches none of them any more. */
void dirs_drop_all(struct dir_table *t);

struct work;
int work_watch(struct work *w, struct err *e);
