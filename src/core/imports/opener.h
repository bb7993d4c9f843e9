/* opener — our end of the socket to berm-open, which opens host paths with a caller's rights.
 *
 * Owner:   the daemon.              Ends: opener_close, then on_closed from the loop.
 * Asks:    a node inside the object that asks. on_done comes once, from the loop, unless the ask is
 *          cancelled before.
 * Bounds:  one ask costs its message until it is sent; berm-open takes 64 at once, the rest wait in order.
 * Errors:  what berm-open found, by its number (HOST_PATH_REFUSED, FILE_NOT_FOUND, NOT_A_DIRECTORY,
 *          SYMLINK_LOOP, TREE_INVALID, …); DRIVER_UNAVAILABLE when it is gone, LIMIT_REACHED. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "loop/deadline.h"

struct opener;

struct open_result {
    const struct err *e; /* NULL: it went well */
    int *fd;             /* of opener_directory, borrowed: kept ones are set to -1 */
    bool is_file;        /* of opener_source; else it is a directory */
    bool is_foreign;     /* of opener_directory: it is not the user's own */
    const char *path;    /* of opener_directory: with the home in full; "" when it is too long */
    const char *real;    /* of opener_directory, opener_program: without symlinks; as above */
};

struct open_ask {
    struct list in_opener;
    void *message; /* until it is sent */
    int pipe_fd;
    uint32_t seq;
    void (*on_done)(struct open_ask *a, const struct open_result *result);
};

/* Takes the descriptor, also when it fails: NULL. */
struct opener *opener_new(uv_loop_t *loop, struct deadlines *deadlines, int fd);
/* Nobody is answered any more. */
void opener_close(struct opener *o, void (*on_closed)(void *user), void *user);

void open_ask_init(struct open_ask *a,
                   void (*on_done)(struct open_ask *a, const struct open_result *result));
/* Safe at any time once it is initialised; what was asked goes on. */
void open_ask_cancel(struct open_ask *a);

/* A directory to mount. Here and below "~/…" is in the user's home. */
void opener_directory(struct opener *o, struct open_ask *a, uint32_t uid, const char *path,
                      bool writable);
/* Whether a file or directory may be copied. */
void opener_source(struct opener *o, struct open_ask *a, uint32_t uid, const char *path);
/* Where a program that the user may run really lies. */
void opener_program(struct opener *o, struct open_ask *a, uint32_t uid, const char *path);
/* The same as an archive into the pipe, which stays the caller's; spec.name is for a file's one member. Done when
 * everything is in the pipe. */
struct open_pack_spec {
    const char *path;
    const char *name;
    size_t n_excludes;
    char *const *excludes;
    bool is_private; /* files get mode 0600 at most */
};
void opener_pack(struct opener *o, struct open_ask *a, uint32_t uid,
                 const struct open_pack_spec *spec, int pipe_fd);
