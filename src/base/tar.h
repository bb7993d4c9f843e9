/* tar — archives, without I/O: bytes in, members and contents out, and headers to write.
 *
 * Read:    ustar, pax (path, linkpath, size, mtime), GNU long names and base-256 numbers. Names are bytes.
 *          Owners, devices' numbers and everything else are left aside. An archive ends with a block of
 *          zeros; what follows is not looked at.
 * Refused: anything but files, links, symlinks and directories; sparse files; a wrong checksum; numbers below
 *          zero or too large; names with NUL, or longer than TAR_PATH_MAX. -EBADMSG, and `why` says it.
 * Write:   ustar, with a pax header for what it cannot hold: names that are long or not ASCII
 *          (hdrcharset=BINARY where they are not UTF-8), large sizes and ids, times before 1970.
 * Bounds:  TAR_EXTRA_MAX bytes of one long name or pax header, at most one of each before a member. */
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
    char target[TAR_PATH_MAX + 1]; /* of links */
};

enum tar_event {
    TAR_MORE,   /* all input is used */
    TAR_MEMBER, /* t->member */
    TAR_DATA,   /* some of a file's contents */
    TAR_END_OF_MEMBER,
    TAR_END,
};

enum tar_state { TAR_AT_HEADER, TAR_IN_EXTRA, TAR_IN_DATA, TAR_IN_PADDING, TAR_AT_END };

struct tar_in {
    enum tar_state state;
    uint8_t block[TAR_BLOCK];
    size_t n; /* of the block */
    uint64_t left, padding;
    char extra_type;
    struct buf extra;
    bool has_path, has_target, has_size, has_time; /* said before the member's own header */
    struct tar_member member;
    const char *why; /* of -EBADMSG; t->member.path is as far as it was known */
};

void tar_in_init(struct tar_in *t);
void tar_in_done(struct tar_in *t);
/* The next event in `input`, which is moved on past what was used; TAR_DATA gives a slice of it. -EBADMSG,
 * -ENOMEM. */
MUST_USE int tar_in_next(struct tar_in *t, struct str *input, struct str *ret_data);
/* Whether the input may end here: after the block of zeros. */
static inline bool tar_in_is_whole(const struct tar_in *t) {
    return t->state == TAR_AT_END;
}

/* Appends the headers of a member; its contents and tar_padding(size) zeros follow. -ENOMEM, -ENOBUFS. */
MUST_USE int tar_put(struct buf *out, const struct tar_member *m);
static inline size_t tar_padding(uint64_t size) {
    return (size_t)(-size % TAR_BLOCK);
}

/* A member's name as relative names alone, `.` and doubled slashes taken out; empty: the start itself. Answers
 * why not, or NULL. */
const char *tar_clean_path(const char *from, char to[TAR_PATH_MAX + 1]);
/* By its spelling, from where the symlink of that clean path lies. */
bool tar_link_leads_outside(const char *path, const char *target);
