/* watcher — the child of a watch: watches the tree below a path, the root, with inotify and sends messages to the
 * guest.
 *
 * Reports: every change after the reply, or `resync`. Changes of one path within COALESCE_MS become one, and so
 *          does a rename within the tree. When changes were lost (a queue was full, or a path is too long to
 *          report) the watcher scans the whole tree and then reports `resync`.
 * Root:    the watcher also watches the parent of the root, if the user may. When another file takes the name
 *          of the root, the watcher watches that one and reports `resync` "root_changed". When the root is
 *          removed it reports `removed`.
 * End:     `ended`, when the root is gone and its parent cannot be watched, or with more than watch.dirs
 *          directories.
 * Bounds:  watch.dirs directories, watch.queue changes, WATCHER_MESSAGE_MAX bytes per message. The watcher
 *          blocks while the guest does not read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "guest/path.h"

#define WATCHER_MESSAGE_MAX ((size_t)(1 << 20) - 4096)

/* Precedes each message. The message consists of the members of `changed`. */
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
    uint32_t cookie; /* inotify cookie of a REMOVED that may become a RENAMED; 0: none */
    bool is_dir;
    char *path; /* absolute */
    char *old_path;
};

#define WATCHER_QUEUE_SLOTS 16384

/* Changes that are not reported yet, in order. Implemented in watcher_queue.c. */
struct watcher_queue {
    struct change *of;
    size_t n, max;
    bool is_full; /* changes were dropped */
    uint16_t last
        [WATCHER_QUEUE_SLOTS]; /* hash table with open addressing: path → 1 + index of its newest change */
};

MUST_USE int watcher_queue_init(struct watcher_queue *q);
/* Adds a change, or merges it with the newest change of the same path. */
void watcher_queue_add(struct watcher_queue *q, enum change_kind kind, const char *path,
                       uint32_t cookie, bool is_dir);
/* Turns the removal with this cookie into a rename. Returns the old path, or NULL without such a removal. */
const char *watcher_queue_rename(struct watcher_queue *q, uint32_t cookie, const char *path);
void watcher_queue_clear(struct watcher_queue *q);
const char *watcher_change_name(enum change_kind kind);

/* A watched directory, by its inotify watch descriptor. */
struct watcher_dir {
    struct watcher_dir *next; /* next directory in the same hash bucket */
    int wd;
    char path[]; /* absolute */
};

#define WATCHER_DIR_BUCKETS 4096

/* All watched directories, in a hash table. Implemented in watcher_dirs.c. */
struct watcher_dirs {
    int inotify;
    struct watcher_dir *buckets[WATCHER_DIR_BUCKETS];
    size_t n;
};

/* Returns NULL for an unknown descriptor. */
struct watcher_dir *watcher_dirs_find(struct watcher_dirs *t, int wd);
MUST_USE int watcher_dirs_add(struct watcher_dirs *t, int wd, const char *path);
void watcher_dirs_drop_wd(struct watcher_dirs *t, int wd);
/* Forgets a directory that left the tree, and everything below it. If `to` is not NULL, changes
 * their paths to it instead. */
void watcher_dirs_move(struct watcher_dirs *t, const char *from, const char *to);
/* Removes all watches. */
void watcher_dirs_clear(struct watcher_dirs *t);

struct work;
int watcher_work(struct work *w, struct err *e);
