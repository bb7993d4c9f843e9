/* opener — bermd's end of the socket to berm-open, which opens host paths with a caller's rights.
 *
 * Owner:   the daemon.
 * End:     opener_close, then on_closed from the loop.
 * Request: struct open_ask, embedded in the requesting object. on_done fires once, from the loop,
 *          unless open_ask_cancel is called before.
 * Bounds:  the opener keeps one message per unsent request. berm-open serves 64 requests at a time;
 *          later ones wait in order.
 * Errors:  those that berm-open reports (HOST_PATH_REFUSED, FILE_NOT_FOUND, NOT_A_DIRECTORY,
 *          SYMLINK_LOOP, TREE_INVALID, …); DRIVER_UNAVAILABLE when berm-open has exited,
 *          LIMIT_REACHED, OUT_OF_MEMORY.
 * Inside on_done you may call every function here. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "loop/deadline.h"

struct opener;

struct open_result {
    const struct err *e; /* NULL on success; the members below are then set */
    int *fd; /* opener_directory: the directory; to keep the descriptor, copy it and set -1 here */
    bool is_file;     /* opener_source: the source is a regular file, not a directory */
    bool is_foreign;  /* opener_directory: the directory belongs to another user */
    const char *path; /* opener_directory: the path with "~" expanded; "" if too long */
    const char *real; /* opener_directory, opener_program: path without symlinks; "" if too long */
};

struct open_ask {
    struct list in_opener;
    void *message; /* NULL once the message is sent */
    int pipe_fd;
    uint32_t seq;
    void (*on_done)(struct open_ask *a, const struct open_result *result);
};

/* Takes ownership of the descriptor, also on failure. Returns NULL on failure. */
struct opener *opener_new(uv_loop_t *loop, struct deadlines *deadlines, int fd);
/* Drops pending requests without on_done. */
void opener_close(struct opener *o, void (*on_closed)(void *user), void *user);

void open_ask_init(struct open_ask *a,
                   void (*on_done)(struct open_ask *a, const struct open_result *result));
/* Allowed at any time after open_ask_init. berm-open still carries out a request that was sent. */
void open_ask_cancel(struct open_ask *a);

/* Opens a directory to mount. In this and the following functions, "~/…" is in the home of
 * `uid`. */
void opener_directory(struct opener *o, struct open_ask *a, uint32_t uid, const char *path,
                      bool writable);
/* Checks that `uid` may copy this file or directory. */
void opener_source(struct opener *o, struct open_ask *a, uint32_t uid, const char *path);
/* Resolves the symlinks of a program that `uid` may run. */
void opener_program(struct opener *o, struct open_ask *a, uint32_t uid, const char *path);
struct open_pack_spec {
    const char *path;
    const char *name; /* name of the only member, if `path` is a regular file */
    size_t n_excludes;
    char *const *excludes;
    bool is_private; /* limit the mode of files to 0600 */
};
/* Writes a file or directory as an archive into the pipe. The caller keeps its descriptor. on_done
 * fires when all bytes are in the pipe. */
void opener_pack(struct opener *o, struct open_ask *a, uint32_t uid,
                 const struct open_pack_spec *spec, int pipe_fd);
