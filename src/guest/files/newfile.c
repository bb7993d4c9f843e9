#include "guest/files/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>

#include "guest/path.h"

#define LINKS_MAX 40

int newfile_follow(struct arena *a, char **path, struct err *e) {
    for (int i = 0; i < LINKS_MAX; i++) {
        const char *name;
        char target[PATH_LENGTH_MAX + 1];
        AUTO_CLOSE int dir = path_open_parent(*path, &name);
        if (dir < 0)
            return path_error(e, -dir, "open the parent of", *path);
        ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
        if (n < 0)
            return 0;
        size_t base = target[0] == '/' ? 0 : (size_t)(name - *path);
        char *next = arena_alloc(a, base + (size_t)n + 1);
        if (!next || base + (size_t)n > PATH_LENGTH_MAX)
            return path_error(e, ELOOP, "readlink", *path);
        memcpy(next, *path, base);
        memcpy(next + base, target, (size_t)n);
        next[base + (size_t)n] = '\0';
        *path = next;
    }
    return path_error(e, ELOOP, "readlink", *path);
}

int newfile_check(int dir, const char *name, const char *path, bool must_not_exist, mode_t *mode,
                  struct err *e) {
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : path_error(e, errno, "stat", path);
    if (must_not_exist)
        return err_set(e, ERR_FILE_EXISTS, "%.150s exists", path);
    if (path_check_regular(&st, path, e) < 0)
        return -(int)e->code;
    if (faccessat(dir, name, W_OK, AT_EACCESS) < 0)
        return path_error(e, errno, "write", path);
    *mode = st.st_mode & 0777;
    return 0;
}

static void newfile_temp_name(char *out) {
    uint64_t random = 0;
    (void)!getrandom(&random, sizeof random, 0);
    snprintf(out, NEWFILE_NAME, ".berm-%016llx", (unsigned long long)random);
}

int newfile_open(int dir, char *ret_name) {
    ret_name[0] = '\0';
    int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT))
        return fd < 0 ? -errno : fd;
    newfile_temp_name(ret_name);
    fd = openat(dir, ret_name, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

/* Gives an unnamed file a name. Fails with -EEXIST when the name is taken, else with -errno. */
static int newfile_link(int fd, int dir, const char *name) {
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    if (errno != ENOENT) /* ENOENT: there is no /proc */
        return -errno;
    return linkat(fd, "", dir, name, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

int newfile_place(int fd, int dir, const char *temp, const char *name, bool replace) {
    char own[NEWFILE_NAME];
    if (temp[0])
        return path_rename(dir, temp, dir, name, replace);
    if (!replace)
        return newfile_link(fd, dir, name);
    newfile_temp_name(own);
    int r = newfile_link(fd, dir, own);
    if (r < 0)
        return r;
    r = path_rename(dir, own, dir, name, true);
    if (r < 0)
        unlinkat(dir, own, 0);
    return r;
}
