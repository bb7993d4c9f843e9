/* walk — visits everything below a directory in byte order of the paths, one entry per call.
 *
 * Safety: the start is one descriptor. The walk opens each directory beneath it without following
 *         links, so no race leads outside. No directory stays open between calls, however deep the
 *         tree. The walk does not enter /proc or /sys from another file system, because their files
 *         are not contents.
 * Order:  the walk reads all names of a directory and sorts them. A directory's contents sort under
 *         its name and "/", so "a.txt" comes before "a/b", as the paths do. The walk may or may not
 *         report entries that are created or removed meanwhile; a reported entry may be gone when
 *         the caller opens it.
 * Bounds: entries_left and names_left count down; deadline_us. When a bound is reached, the walk
 *         sets `is_cut` and ends. A path longer than WALK_PATH_MAX is reported as unreadable. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

#define WALK_PATH_MAX 4095
#define WALK_NAMES_MAX ((size_t)64 << 20)

enum walk_want {
    WALK_SKIP = 0,
    WALK_VISIT = 1, /* report the entry */
    WALK_ENTER = 2, /* visit the entry's contents, if it is a directory */
};

enum walk_event {
    WALK_END,
    WALK_ENTRY,      /* `path` and `relative` name the entry */
    WALK_UNREADABLE, /* a directory that cannot be read, or a path that is too long; see `error` */
};

struct walk_dir;

struct walk {
    int root;
    char path[WALK_PATH_MAX + 1]; /* absolute; first the start, then the current entry */
    const char *relative;         /* path of the entry from the start; points into `path` */
    unsigned char type;           /* d_type of the entry at the time its name was read */
    struct walk_dir *dir;         /* current directory, linked to its parents */
    bool has_begun;
    uint64_t entries_left;
    size_t names_left;
    uint64_t deadline_us; /* 0: no deadline */
    uint64_t root_dev;
    uint64_t unreadable; /* how often WALK_UNREADABLE was reported */
    int error;           /* an errno */
    bool is_cut;
    /* Called as each name is read, in any order. `type` is the d_type. Returns an OR of
     * walk_want. */
    unsigned (*on_name)(struct walk *w, unsigned char type);
};

/* Takes ownership of the start directory. `path` is its path. If `root` is an -errno, walk_init
 * returns it. */
MUST_USE int walk_init(struct walk *w, int root, const char *path);
/* Returns the next walk_event. Fails with -ENOMEM, or the errno of a start that cannot be read; the
 * walk is then over. */
MUST_USE int walk_next(struct walk *w);
void walk_done(struct walk *w);
/* Returns whether the deadline has passed, and then sets is_cut. */
bool walk_is_late(struct walk *w);
