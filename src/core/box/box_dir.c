#include "core/box/box_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "core/box/box.h"

static DIR *box_dir_list(int dir_fd) {
    int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    if (!list && copy >= 0)
        close(copy);
    return list;
}

void box_dir_remove(int parent_fd, const char *name) {
    AUTO_CLOSE int dir = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = dir < 0 ? NULL : box_dir_list(dir);
    for (struct dirent *d; list && (d = readdir(list));)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            unlinkat(dir, d->d_name, 0);
    if (list)
        closedir(list);
    unlinkat(parent_fd, name, AT_REMOVEDIR);
}

uint64_t box_dir_output_bytes(int dir_fd) {
    struct stat st;
    uint64_t bytes = 0;
    DIR *list = box_dir_list(dir_fd);
    for (struct dirent *d; list && (d = readdir(list));) {
        struct str name = str_of(d->d_name);
        if ((str_ends(name, STR(".out")) || str_ends(name, STR(".err"))) &&
            fstatat(dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            bytes += MIN((uint64_t)st.st_blocks * 512, (uint64_t)st.st_size);
    }
    if (list)
        closedir(list);
    return bytes;
}

int box_dir(struct box *b) {
    /* The directory is being removed; do not create it again. */
    if (b->instance_state == INST_REMOVING)
        return -ENOENT;
    if (b->dir_fd < 0)
        b->dir_fd = fd_make_dir(b->env->sandboxes_fd, b->record->sandbox_id, 0700);
    return b->dir_fd;
}
