/* handles — files and archives that the daemon has open in the guest, by number.
 *
 * Owner:  struct handles; the end of the connection closes all of them.
 * Bounds: HANDLES_MAX.
 * A file that is being written has no name until `commit`. On a filesystem without unnamed files it has a
 * temporary name that starts with `.berm-`, which handles_close removes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

#define HANDLES_MAX 64

struct archive;

struct handle {
    uint64_t id;             /* 0: this slot is free */
    struct archive *archive; /* NULL: a file */
    void (*close_archive)(struct archive *a);
    int fd;
    int dir; /* the directory of the target; -1 for reading */
    bool is_writing;
    bool must_not_exist;
    mode_t mode;
    uint32_t uid;  /* the user that opened the handle */
    char *path;    /* absolute path of the target */
    char temp[32]; /* the temporary name; empty: none */
};

struct handles {
    struct handle of[HANDLES_MAX];
    uint64_t last_id;
    size_t n_archives; /* archives whose child is running */
};

void handles_init(struct handles *hs);
/* Returns a new handle, or NULL when all are in use. */
struct handle *handles_add(struct handles *hs);
/* Returns NULL when no handle has this id. */
struct handle *handles_find(struct handles *hs, uint64_t id);
void handles_close(struct handle *h);
void handles_close_all(struct handles *hs);
