#include "guest/files/info.h"

#include "guest/path.h"

static const char *info_type_name(mode_t mode) {
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "regular";
    case S_IFDIR:
        return "directory";
    case S_IFLNK:
        return "symlink";
    case S_IFIFO:
        return "fifo";
    case S_IFSOCK:
        return "socket";
    case S_IFCHR:
    case S_IFBLK:
        return "device";
    default:
        return "unknown";
    }
}

void info_write(struct json_out *o, const char *path, const struct stat *st, int dir,
                const char *name, const struct user_names *names) {
    json_open(o, '{');
    path_write(o, "path", path);
    json_put_str(o, "type", str_of(info_type_name(st->st_mode)));
    json_put_u64(o, "size_bytes", (uint64_t)MAX(st->st_size, 0));
    json_put_u64(o, "mode", st->st_mode & 07777);
    json_put_u64(o, "uid", st->st_uid);
    json_put_u64(o, "gid", st->st_gid);
    struct str user = user_name_of(names, st->st_uid), group = user_group_of(names, st->st_gid);
    if (user.n > 0)
        json_put_str(o, "user", user);
    if (group.n > 0)
        json_put_str(o, "group", group);
    json_put_i64(o, "modified_s", st->st_mtim.tv_sec);
    json_put_i64(o, "modified_ns", st->st_mtim.tv_nsec);
    char target[PATH_LENGTH_MAX + 1];
    ssize_t n =
        S_ISLNK(st->st_mode) && name ? readlinkat(dir, name, target, sizeof target - 1) : -1;
    if (n > 0) {
        target[n] = '\0';
        path_write(o, "target", target);
    }
    json_close(o, '}');
}

void info_put(struct json_out *o, const char *path, const struct stat *st, int fd) {
    struct user_names names;
    user_names_load(&names);
    json_key(o, "info");
    info_write(o, path, st, fd, fd >= 0 ? "" : NULL, &names);
}
