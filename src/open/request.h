/* request — the protocol of berm-open: one fixed-layout message per request and per reply.
 *
 * The socket is SEQPACKET, so a message arrives whole or not at all. Text is a bounded array that
 * contains a NUL; unused bytes are zero. A message whose size differs from its struct is refused.
 * Both ends run on one machine and use its byte order. Replies carry the request's `seq` and may
 * come in any order. */
#pragma once

#include <stdint.h>

#define OPEN_VERSION 2
#define OPEN_PATH_MAX 4096 /* including the NUL */
#define OPEN_NAME_MAX 256  /* including the NUL */
#define OPEN_EXCLUDES_MAX 256
#define OPEN_EXCLUDES_BYTES 32768 /* total size of all patterns, each with a NUL */
#define OPEN_TEXT_MAX 240
#define OPEN_WHERE_MAX 256 /* including the NUL; the same limit as for mount targets */

enum open_kind {
    OPEN_DIRECTORY = 1, /* for a mount; the reply carries an O_PATH descriptor */
    OPEN_SOURCE = 2,    /* checks the source of a copy; no descriptor */
    OPEN_PACK = 3,      /* writes a source as a tar stream into the pipe sent with the request */
    OPEN_PROGRAM = 4,   /* resolves the path of a program that the caller may run; no descriptor */
};
enum open_flags {
    OPEN_WRITABLE = 1 << 0, /* for DIRECTORY */
    OPEN_PRIVATE = 1 << 1,  /* for PACK: only the owner may read the files inside */
};

struct open_head {
    uint32_t version;
    uint32_t kind;
    uint32_t size; /* of the whole message */
    uint32_t seq;
    uint32_t uid; /* user whose rights apply */
    uint32_t flags;
    char path[OPEN_PATH_MAX]; /* absolute, or "~/…" for the home directory of that user */
};

/* All kinds except PACK consist of the head alone. */
struct open_pack {
    struct open_head head;
    char name[OPEN_NAME_MAX]; /* name of the only member if the source is a file */
    uint32_t n_excludes;
    uint32_t reserved;
    char excludes[OPEN_EXCLUDES_BYTES];
};

union open_request {
    struct open_head head;
    struct open_pack pack;
};

struct open_reply {
    uint32_t version;
    uint32_t seq;
    uint32_t code;       /* a number of errors.def; 0: success */
    uint32_t is_file;    /* SOURCE: 1 for a file, 0 for a directory */
    uint32_t is_foreign; /* DIRECTORY: the directory does not belong to the caller */
    uint32_t reserved;
    char text[OPEN_TEXT_MAX]; /* reason of a failure, for people */
    char
        path[OPEN_WHERE_MAX]; /* DIRECTORY: the requested path with "~" expanded; empty: too long */
    char real[OPEN_WHERE_MAX]; /* DIRECTORY, PROGRAM: the path without symlinks; empty: too long */
};
