/* tar — reads and writes archives without I/O: bytes in, members and contents out, and headers to
 * write.
 *
 * Read:    ustar, pax (path, linkpath, size, mtime), GNU long names and base-256 numbers. Names are
 *          bytes. The reader ignores owners, device numbers and everything else. An archive ends
 *          with a block of zeros; the reader ignores what follows.
 * Refused: types other than file, link, symlink and directory; sparse files; a wrong checksum;
 *          numbers that are negative or too large; names with NUL or longer than TAR_PATH_MAX. The
 *          reader fails with -EBADMSG and sets `why`.
 * Write:   ustar, with a pax header for values that ustar cannot store: names that are long or not
 *          ASCII (hdrcharset=BINARY if not UTF-8), large sizes and ids, times before 1970.
 * Bounds:  TAR_EXTRA_MAX bytes per long name or pax header, at most one of each before a member. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define TAR_BLOCK 512
#define TAR_PATH_MAX 4095
#define TAR_NAME_MAX 255
#define TAR_EXTRA_MAX ((size_t)256 << 10)

enum tar_type { TAR_FILE, TAR_LINK, TAR_SYMLINK, TAR_DIRECTORY };

struct tar_member {
    enum tar_type type;
    uint32_t mode; /* permissions */
    uint32_t uid, gid;
    uint64_t size;
    int64_t modified_s;
    char path[TAR_PATH_MAX + 1];
    char target[TAR_PATH_MAX + 1]; /* for links and symlinks */
};

enum tar_event {
    TAR_MORE,   /* all input was consumed */
    TAR_MEMBER, /* t->member is valid */
    TAR_DATA,   /* part of a file's contents */
    TAR_END_OF_MEMBER,
    TAR_END,
};

enum tar_state { TAR_AT_HEADER, TAR_IN_EXTRA, TAR_IN_DATA, TAR_IN_PADDING, TAR_AT_END };

struct tar_in {
    enum tar_state state;
    uint8_t block[TAR_BLOCK];
    size_t n; /* bytes in `block` */
    uint64_t left, padding;
    char extra_type;
    struct buf extra;
    /* an extra header before the member's own header has set this value */
    bool has_path, has_target, has_size, has_time;
    struct tar_member member;
    const char *why; /* reason for -EBADMSG; t->member.path may then be incomplete */
};

void tar_in_init(struct tar_in *t);
void tar_in_done(struct tar_in *t);
/* Returns the next event and advances `input` past the bytes it consumed. ret_data is a slice of
 * `input` for TAR_DATA. Fails with -EBADMSG or -ENOMEM. */
MUST_USE int tar_in_next(struct tar_in *t, struct str *input, struct str *ret_data);
/* Returns whether the input may end here, after the block of zeros. */
static inline bool tar_in_is_whole(const struct tar_in *t) {
    return t->state == TAR_AT_END;
}

/* Appends the headers of a member. The caller then appends the contents and tar_padding(size)
 * zeros. Fails with -ENOMEM or -ENOBUFS. */
MUST_USE int tar_put(struct buf *out, const struct tar_member *m);
static inline size_t tar_padding(uint64_t size) {
    return (size_t)(-size % TAR_BLOCK);
}

/* Normalises a member's path: removes `.` and repeated slashes. The result is empty for the start
 * itself. Returns NULL, or the reason why the path is refused. */
const char *tar_clean_path(const char *from, char to[TAR_PATH_MAX + 1]);
/* Returns whether the target of the symlink at the normalised `path` leaves the tree. Only looks at
 * the text, not at the file system. */
bool tar_link_leads_outside(const char *path, const char *target);
