/* packer — writes a directory tree, or one file, as a tar stream into a buffer.
 *
 * Order:   byte order of the paths; names and contents are exact. Hard links are packed as files.
 * Races:   the packer skips an entry that disappears before it is packed. A file is packed with the
 *          size it had when it was opened: a file that grows is cut there; a file that shrinks or
 *          fails to read is filled up with zeros and reported as PACKER_SHORT.
 * Events:  packer_next reports each entry that it leaves out; member.path is the path. The archive
 *          stays valid after any event, so the caller decides whether to continue.
 * Bounds:  the bounds of walk.h for names. The packer holds no file contents except those in
 *          `out`. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/pattern.h"
#include "base/tar.h"
#include "base/walk.h"

#define PACKER_EXCLUDES_MAX 256
#define PACKER_HEADERS ((size_t)8 * TAR_PATH_MAX) /* maximum size of the headers of one member */

enum packer_event {
    PACKER_FULL = 1,   /* `out` is full; empty it before the next call */
    PACKER_END,        /* the archive is complete */
    PACKER_SPECIAL,    /* left out: not a file, directory or symlink */
    PACKER_LEADS_OUT,  /* left out: a symlink that points outside the tree */
    PACKER_UNREADABLE, /* left out; `error` is the errno */
    PACKER_SHORT,      /* a file ended early, or a read failed (`error`, else 0); zeros follow */
};

struct packer {
    /* Set these before packer_begin, and zero the other fields. */
    uint32_t mode_mask;    /* permission bits to store */
    bool has_owners;       /* store uid and gid; otherwise root owns everything */
    bool refuses_ways_out; /* report PACKER_LEADS_OUT; otherwise pack every symlink */
    bool has_start;        /* also pack the start directory itself, as "./" */
    struct pattern *excludes[PACKER_EXCLUDES_MAX];
    size_t n_excludes;

    struct walk walk;
    struct tar_member member;
    int error; /* an errno */
    int file;  /* open file; -1: none */
    uint64_t left;
    uint64_t zeros; /* bytes of zeros to write next */
    bool has_begun, is_one, is_over;
    uint64_t files, directories, total_bytes; /* what was packed; symlinks count as files */
};

/* Excludes entries that match the pattern, and everything below them. Fails with INVALID_ARGUMENT
 * or OUT_OF_MEMORY. */
MUST_USE int packer_exclude(struct packer *p, struct arena *a, struct str pattern, struct err *e);
/* Takes ownership of `source`: a directory, or, if `name` is given, a regular file, which gets that
 * name in the archive. Fails with -errno. */
MUST_USE int packer_begin(struct packer *p, int source, const char *name);
/* Appends to `out` until a packer_event occurs, and returns it. The maximum of `out` must be
 * PACKER_HEADERS plus the size of contents to read at once. Fails with -ENOMEM, -E2BIG past a bound
 * of the walk, or the errno of the start directory; the packer is then finished. */
MUST_USE int packer_next(struct packer *p, struct buf *out);
/* Like packer_next, but writes the bytes from `out` to `fd`, so PACKER_FULL does not occur. Also
 * fails with the errno of write. */
MUST_USE int packer_write(struct packer *p, struct buf *out, int fd);
void packer_done(struct packer *p);
