/* packer — a tree, or one file, as a tar stream; whoever asks takes the bytes where they belong.
 *
 * Order:   byte order of the paths, names and contents exact. Hard links are packed as files.
 * Races:   what is gone when its turn comes was not there. A file has the size it had when opened: one that
 *          grows is cut there, one that shrinks or cannot be read to its end is filled up with zeros, and told.
 * Told:    what is left out, as events; member.path is its path. The archive stays whole whatever is told:
 *          whether to go on is the caller's to say.
 * Bounds:  those of walk.h for names. Of contents no more is held than `out` has room for. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/pattern.h"
#include "base/tar.h"
#include "base/walk.h"

#define PACKER_EXCLUDES_MAX 256
#define PACKER_HEADERS ((size_t)8 * TAR_PATH_MAX) /* the most that a member's take */

enum packer_event {
    PACKER_FULL = 1,   /* `out` is to be emptied before the next call */
    PACKER_END,        /* the archive is whole */
    PACKER_SPECIAL,    /* left out: neither file, directory nor symlink */
    PACKER_LEADS_OUT,  /* left out: a symlink to outside of the tree */
    PACKER_UNREADABLE, /* left out; `error` says why */
    PACKER_SHORT, /* a file ended early, or could not be read on (`error`, else 0): zeros follow */
};

struct packer {
    /* Set before packer_begin; the rest is zero then. */
    uint32_t mode_mask;    /* of the permissions: what is told */
    bool has_owners;       /* else all is root's */
    bool refuses_ways_out; /* PACKER_LEADS_OUT, else symlinks are packed whatever they say */
    bool has_start;        /* the directory itself is a member too, "./" */
    struct pattern *excludes[PACKER_EXCLUDES_MAX];
    size_t n_excludes;

    struct walk walk;
    struct tar_member member;
    int error; /* an errno */
    int file;  /* being packed; -1: none */
    uint64_t left;
    uint64_t zeros; /* to be put next */
    bool has_begun, is_one, is_over;
    uint64_t files, directories, total_bytes; /* of what was packed; symlinks are files */
};

/* Entries it matches, and what is below them, are not looked at. INVALID_ARGUMENT, LIMIT_REACHED. */
MUST_USE int packer_exclude(struct packer *p, struct arena *a, struct str pattern, struct err *e);
/* The source is taken: a directory; or with a `name`, a regular file, which gets it. -errno. */
MUST_USE int packer_begin(struct packer *p, int source, const char *name);
/* Appends to `out`, whose maximum is PACKER_HEADERS and as much again as is wanted of contents at once, until
 * there is a packer_event. -ENOMEM, -E2BIG past a bound of the walk, or the start's errno: then it is over. */
MUST_USE int packer_next(struct packer *p, struct buf *out);
/* The same with the bytes written to `fd`, by way of `out`: PACKER_FULL is never told. An error may be write's. */
MUST_USE int packer_write(struct packer *p, struct buf *out, int fd);
void packer_done(struct packer *p);
