#include "guest/path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "guest/params.h"

/* Refuses names longer than PATH_NAME_MAX, and `..` that leaves the start of the path. */
static int path_check_names(struct str path, const char *field, struct err *e) {
    struct str rest = path, name;
    long depth = 0;
    while (str_split(&rest, '/', &name)) {
        if (name.n > PATH_NAME_MAX)
            return err_field(e, field, "names must be at most %d bytes, got one of %zu",
                             PATH_NAME_MAX, name.n);
        if (name.n == 0 || str_is(name, STR(".")))
            continue;
        depth += str_is(name, STR("..")) ? -1 : 1;
        if (depth < 0)
            return err_field(e, field, "must not leave its start by ..");
    }
    return 0;
}

int path_absolute(struct str path, const char *field, const char *workspace, struct arena *a,
                  char **ret, struct err *e) {
    if (path.n == 0)
        return err_field(e, field, "must not be empty");
    if (path.n > PATH_LENGTH_MAX)
        return err_field(e, field, "must be at most %d bytes, got %zu", PATH_LENGTH_MAX, path.n);
    if (memchr(path.p, '\0', path.n))
        return err_field(e, field, "must not contain NUL");
    if (path_check_names(path, field, e) < 0)
        return -(int)e->code;
    size_t base_n = path.p[0] == '/' ? 0 : strlen(workspace) + 1;
    char *text = arena_alloc(a, base_n + path.n + 1);
    if (!text)
        return err_set(e, ERR_OUT_OF_MEMORY, "%s: out of memory", field);
    if (base_n > 0) {
        memcpy(text, workspace, base_n - 1);
        text[base_n - 1] = '/';
    }
    memcpy(text + base_n, path.p, path.n);
    text[base_n + path.n] = '\0';
    *ret = text;
    return 0;
}

int path_param(const struct json *params, const char *name, const char *workspace, struct arena *a,
               char **ret, struct err *e) {
    char raw_name[32];
    snprintf(raw_name, sizeof raw_name, "%s_b64", name);
    struct str text = {0}, raw = {0};
    if (params_str(params, name, PATH_LENGTH_MAX, &text, e) < 0 ||
        params_base64(params, raw_name, a, PATH_LENGTH_MAX, &raw, e) < 0)
        return -(int)e->code;
    if (!text.p == !raw.p)
        return err_field(e, name, "must be given as exactly one of %s and %s", name, raw_name);
    return path_absolute(text.p ? text : raw, text.p ? name : raw_name, workspace, a, ret, e);
}

int path_open(const char *path, int flags, mode_t mode) {
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
        .mode = mode,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    if (!(flags & O_PATH))
        how.flags |= O_NOCTTY | O_NONBLOCK;
    AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    long fd;
    do /* EAGAIN: a rename raced with the lookup; hostile code cannot win that race forever */
        fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    if (fd < 0 && errno == ENOSYS) /* a user-space kernel; the guest's root is the sandbox's */
        fd = open(path, (int)how.flags, mode);
    return fd < 0 ? -errno : (int)fd;
}

int path_open_parent(char *path, const char **ret_name) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    char *slash = strrchr(path, '/');
    const char *name = slash + 1;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return -EINVAL;
    *slash = '\0';
    int fd = path_open(slash == path ? "/" : path, O_PATH | O_DIRECTORY, 0);
    *slash = '/';
    if (fd >= 0)
        *ret_name = name;
    return fd;
}

int path_rename(int from_dir, const char *from, int to_dir, const char *to, bool replace) {
    if (replace)
        return renameat(from_dir, from, to_dir, to) < 0 ? -errno : 0;
    if (syscall(SYS_renameat2, from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    struct stat st; /* the filesystem lacks RENAME_NOREPLACE, so check first */
    if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(from_dir, from, to_dir, to) < 0 ? -errno : 0;
}

int path_error(struct err *e, int sys, const char *what, const char *path) {
    static const struct {
        int sys;
        enum err_code code;
    } rows[] = {
        {ENOENT, ERR_FILE_NOT_FOUND},
        {ESRCH, ERR_FILE_NOT_FOUND}, /* a file below /proc whose process has exited */
        {EEXIST, ERR_FILE_EXISTS},
        {ENOTDIR, ERR_NOT_A_DIRECTORY},
        {EISDIR, ERR_IS_A_DIRECTORY},
        {ENOTEMPTY, ERR_DIRECTORY_NOT_EMPTY},
        {EACCES, ERR_FILE_DENIED},
        {EPERM, ERR_FILE_DENIED},
        {EROFS, ERR_FILE_READ_ONLY},
        {ELOOP, ERR_SYMLINK_LOOP},
        {EXDEV, ERR_CROSS_DEVICE},
        {ENOSPC, ERR_DISK_FULL},
        {EDQUOT, ERR_DISK_FULL},
        {EFBIG, ERR_DISK_FULL},
        {ENAMETOOLONG, ERR_INVALID_ARGUMENT},
        {ENXIO, ERR_NOT_A_REGULAR_FILE},
        {ETXTBSY, ERR_FILE_DENIED},
        {EBUSY, ERR_FILE_DENIED},
        {EMLINK, ERR_LIMIT_REACHED},
        {ENOMEM, ERR_OUT_OF_MEMORY},
        {EMFILE, ERR_LIMIT_REACHED},
        {ENFILE, ERR_LIMIT_REACHED},
        {EINVAL, ERR_INVALID_ARGUMENT},
    };
    enum err_code code = ERR_INTERNAL;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].sys == sys)
            code = rows[i].code;
    return err_sys(e, code, sys, "%s %.150s", what, path);
}

void path_write(struct json_out *o, const char *key, const char *path) {
    struct str text = str_of(path);
    char raw_key[32];
    if (str_is_utf8(text.p, text.n)) {
        json_put_str(o, key, text);
        return;
    }
    snprintf(raw_key, sizeof raw_key, "%s_b64", key);
    json_key(o, raw_key);
    json_base64(o, text.p, text.n);
}

void path_clean(char *path) {
    char *out = path;
    for (char *at = path; *at;) {
        size_t n = strcspn(at, "/");
        if (n > 0 && !(n == 1 && at[0] == '.')) {
            *out++ = '/';
            memmove(out, at, n);
            out += n;
        }
        at += n + (at[n] == '/');
    }
    if (out == path)
        *out++ = '/';
    *out = '\0';
}

int path_make_parents(const char *path, struct arena *a) {
    char *part = arena_copy(a, path, strlen(path));
    if (!part)
        return -ENOMEM;
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const char *name;
        int fd = path_open(part, O_PATH | O_DIRECTORY, 0);
        if (fd == -ENOENT) {
            fd = path_open_parent(part, &name);
            if (fd >= 0 && mkdirat(fd, name, 0755) < 0 && errno != EEXIST) {
                int error = errno;
                close(fd);
                return -error;
            }
        }
        if (fd < 0)
            return fd;
        close(fd);
        *slash = '/';
    }
    return 0;
}

int path_check_regular(const struct stat *st, const char *path, struct err *e) {
    if (S_ISREG(st->st_mode))
        return 0;
    if (S_ISDIR(st->st_mode))
        return err_set(e, ERR_IS_A_DIRECTORY, "%.150s is a directory", path);
    return err_set(e, ERR_NOT_A_REGULAR_FILE, "%.150s is not a regular file", path);
}

/* Checks the type before it opens the file, because opening a FIFO or a device has effects. Checks
 * again afterwards, because the path may lead to another file by then. */
int path_open_regular(const char *path, struct err *e) {
    struct stat st;
    AUTO_CLOSE int look = path_open(path, O_PATH, 0);
    if (look < 0 || fstat(look, &st) < 0)
        return path_error(e, look < 0 ? -look : errno, "open", path);
    if (path_check_regular(&st, path, e) < 0)
        return -(int)e->code;
    AUTO_CLOSE int fd = path_open(path, O_RDONLY, 0);
    if (fd < 0 || fstat(fd, &st) < 0)
        return path_error(e, fd < 0 ? -fd : errno, "open", path);
    if (path_check_regular(&st, path, e) < 0)
        return -(int)e->code;
    return TAKE_FD(fd);
}
