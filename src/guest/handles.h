/* handles — files and archives the daemon has open in the guest, by number; they end with the connection.
 *
 * A file being written has no name until commit, or one that begins with `.berm-` where the filesystem
 * cannot do without; handles_close takes that away again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

#define HANDLES_MAX 64

struct archive;

struct handle {
    uint64_t id;             /* 0: free */
    struct archive *archive; /* NULL: a file */
    void (*close_archive)(struct archive *a);
    int fd;  /* the file */
    int dir; /* of the target; -1 for reading */
    bool is_writing;
    bool must_not_exist;
    mode_t mode;
    uint32_t uid;  /* as whom it was opened */
    char *path;    /* absolute, of the target */
    char temp[32]; /* its name meanwhile; empty: none */
};

struct handles {
    struct handle of[HANDLES_MAX];
    uint64_t last_id;
    size_t n_archives; /* that are working */
};

void handles_init(struct handles *hs);
/* A free place with a new id, or NULL. */
struct handle *handles_add(struct handles *hs);
struct handle *handles_find(struct handles *hs, uint64_t id);
void handles_close(struct handle *h);
void handles_close_all(struct handles *hs);
