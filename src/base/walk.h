/* walk — everything below a directory, in byte order of the paths: one entry at a call.
 *
 * Safety: the start is one descriptor; each directory is opened below it without following a link, so no race
 *         leads elsewhere. None stays open between two calls, however deep the tree. /proc and /sys are not
 *         entered from outside: their files are not contents.
 * Order:  names are read whole and sorted, a directory's contents under its name and "/": so "a.txt" comes
 *         before "a/b", as the paths do. What is made or removed meanwhile may be met or not; what is met may
 *         be gone when it is opened.
 * Bounds: entries_left and names_left, counted down; deadline_us. When one is met `is_cut` is set and the walk
 *         ends. Paths longer than WALK_PATH_MAX cannot be told and count as unreadable. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

#define WALK_PATH_MAX 4095
#define WALK_NAMES_MAX ((size_t)64 << 20)

enum walk_want {
    WALK_SKIP = 0,
    WALK_VISIT = 1, /* the entry, in its place */
    WALK_ENTER = 2, /* and what lies below, when it is a directory */
};

enum walk_event {
    WALK_END,
    WALK_ENTRY, /* `path` and `relative` name it */
    WALK_UNREADABLE, /* a directory that is not entered, or one with a path in it that is too long; `error` */
};

struct walk_dir;

struct walk {
    int root;
    char path[WALK_PATH_MAX + 1]; /* absolute: the start, and after a call the entry */
    const char *relative;         /* of the entry, inside `path` */
    unsigned char type;           /* of the entry, when its name was read: that of dirent */
    struct walk_dir *dir;         /* being told, with those above it */
    bool has_begun;
    uint64_t entries_left;
    size_t names_left;
    uint64_t deadline_us; /* 0: none */
    uint64_t root_dev;
    uint64_t unreadable; /* how often that was told */
    int error;           /* an errno */
    bool is_cut;
    /* As a name is read, in any order; `type` is that of dirent. Answers walk_want together. */
    unsigned (*on_name)(struct walk *w, unsigned char type);
};

/* The start is a directory, taken, and its path; -errno in its place is the answer. */
MUST_USE int walk_init(struct walk *w, int root, const char *path);
/* The next walk_event. -ENOMEM, or the errno of a start that cannot be read: then it is over. */
MUST_USE int walk_next(struct walk *w);
void walk_done(struct walk *w);
/* Whether the time is over; sets is_cut. */
bool walk_is_late(struct walk *w);
