/* request — what may be asked of berm-open: one fixed-layout message per request, one per reply.
 *
 * The socket is SEQPACKET, so a message is whole or absent. Text is a bounded array that must hold a NUL,
 * unused bytes are zero, and a message whose size differs from its struct's is refused. Both ends run on one
 * machine, so integers are in its byte order. Replies carry the request's `seq` and come in any order. */
#pragma once

#include <stdint.h>

#define OPEN_VERSION 2
#define OPEN_PATH_MAX 4096 /* with the NUL */
#define OPEN_NAME_MAX 256  /* with the NUL */
#define OPEN_EXCLUDES_MAX 256
#define OPEN_EXCLUDES_BYTES 32768 /* of all of them, each ended by NUL */
#define OPEN_TEXT_MAX 240
#define OPEN_WHERE_MAX 256 /* with the NUL; a mount's target holds no more */

enum open_kind {
    OPEN_DIRECTORY = 1, /* for a mount: the reply brings its descriptor, O_PATH */
    OPEN_SOURCE = 2,    /* of a copy: whether it may be read; no descriptor */
    OPEN_PACK = 3,      /* a source as a tar stream, into the pipe that comes with the request */
    OPEN_PROGRAM = 4,   /* where a program that the caller may run really lies; no descriptor */
};
enum open_flags {
    OPEN_WRITABLE = 1 << 0, /* of DIRECTORY */
    OPEN_PRIVATE = 1 << 1,  /* of PACK: nobody but the owner may read it inside */
};

struct open_head {
    uint32_t version;
    uint32_t kind;
    uint32_t size; /* of the whole message */
    uint32_t seq;
    uint32_t uid; /* whose rights count */
    uint32_t flags;
    char path[OPEN_PATH_MAX]; /* absolute, or "~/…" from the home of that user */
};

/* All but PACK are the head alone. */
struct open_pack {
    struct open_head head;
    char name[OPEN_NAME_MAX]; /* of the one member, when the source is a file */
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
    uint32_t code;       /* a number of errors.def; 0: it went well */
    uint32_t is_file;    /* SOURCE: else it is a directory */
    uint32_t is_foreign; /* DIRECTORY: it is not the caller's own */
    uint32_t reserved;
    char text[OPEN_TEXT_MAX]; /* why not, for people */
    char path
        [OPEN_WHERE_MAX]; /* DIRECTORY: as it was asked for, with the home in full; empty: too long */
    char real[OPEN_WHERE_MAX]; /* DIRECTORY, PROGRAM: the same without symlinks; empty: too long */
};
