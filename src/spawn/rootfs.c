#include "spawn/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "spawn/request.h"
#include "spawn/sys.h"

#define ROOTFS_FORMAT \
    1 /* increase it when the generated files change, so that old copies are not used */
#define COPY_DEPTH_MAX 8
#define COPY_FILE_MAX (4 << 20)

/* Entries of /etc that programs read. Entries that the host lacks are skipped. */
static const char *const etc_patterns[] = {
    "adduser.conf",
    "alternatives",
    "apt",
    "bash.bashrc",
    "bash_completion.d",
    "ca-certificates",
    "ca-certificates.conf",
    "debconf.conf",
    "debian_version",
    "default",
    "deluser.conf",
    "dpkg",
    "emacs",
    "environment",
    "ethertypes",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "locale.alias",
    "locale.gen",
    "login.defs",
    "logrotate.d",
    "lsb-release",
    "magic",
    "magic.mime",
    "mailcap",
    "mime.types",
    "nanorc",
    "networks",
    "os-release",
    "pam.conf",
    "pam.d",
    "perl",
    "php*",
    "profile",
    "profile.d",
    "protocols",
    "python*",
    "rpc",
    "security",
    "services",
    "shells",
    "skel",
    "ssl",
    "terminfo",
    "timezone",
    "ucf.conf",
    "update-motd.d",
    "vim",
    "wgetrc",
    "xattr.conf",
};

/* Directories of an empty root: path, mode, owner. Parents come before children. */
struct point {
    const char *path;
    mode_t mode;
    uint32_t owner;
};
static const struct point base_points[] = {
    {"proc", 0555, 0},
    {"sys", 0555, 0},
    {"dev", 0755, 0},
    {"etc", 0755, 0},
    {"tmp", 01777, 0},
    {"run", 0755, 0},
    {"home", 0755, 0},
    {"home/user", 0755, SPAWN_USER_UID},
    {"workspace", 0755, SPAWN_USER_UID},
};
static const struct point host_points[] = {
    {"root", 0711, 0}, /* a caller whose home is /root has tools mounted here */
    {"opt", 0755, 0},
    {"srv", 0755, 0},
    {"mnt", 0755, 0},
    {"media", 0755, 0},
    {"run/lock", 01777, 0},
    {"var", 0755, 0},
    {"var/tmp", 01777, 0},
    {"var/log", 0755, 0},
    {"var/log/apt", 0755, 0},
    {"var/cache", 0755, 0},
    {"var/cache/apt", 0755, 0},
    {"var/cache/apt/archives", 0755, 0},
    {"var/cache/apt/archives/partial", 0700, 0},
    {"var/cache/debconf", 0755, 0},
    {"var/spool", 0755, 0},
    {"var/mail", 0755, 0},
    {"var/lib", 0755, 0},
    {"var/lib/dpkg", 0755, 0},
    {"var/lib/apt", 0755, 0},
};

static int rootfs_make_points(int root, const struct point *points, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct point *p = &points[i];
        if (mkdirat(root, p->path, 0755) < 0 && errno != EEXIST)
            return -errno;
        if (fchownat(root, p->path, p->owner, p->owner, AT_SYMLINK_NOFOLLOW) < 0 ||
            fchmodat(root, p->path, p->mode, 0) < 0)
            return -errno;
    }
    return 0;
}

/* Returns whether the name is a secret, which is not copied even if it is world-readable by
 * mistake. */
static bool rootfs_is_secret(const char *name) {
    return strcmp(name, "private") == 0 || strncmp(name, "auth.conf", 9) == 0 ||
           fnmatch("*.key", name, 0) == 0;
}

/* A package source may contain a password in its URL: user:password@host. */
static bool rootfs_has_credentials(int file, const char *name) {
    char text[65536];
    ssize_t n = pread(file, text, sizeof text - 1, 0);
    if (fnmatch("*.list", name, 0) == 0 || fnmatch("*.sources", name, 0) == 0)
        return n < 0 || n == sizeof text - 1 || memchr(text, '@', (size_t)n) != NULL;
    for (const char *p = text, *end = text + MAX(n, 0);
         (p = memmem(p, (size_t)(end - p), "://", 3)) != NULL;) {
        bool colon = false; /* scheme://user:password@host */
        for (p += 3; p < end && *p != '/' && *p != '\n' && *p != ' ' && *p != '"'; p++) {
            colon = colon || *p == ':';
            if (colon && *p == '@')
                return true;
        }
    }
    return n < 0;
}

static int rootfs_copy_file(int from, const char *name, int to) {
    AUTO_CLOSE int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (in < 0 || fstat(in, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) || st.st_size > COPY_FILE_MAX ||
        rootfs_has_credentials(in, name))
        return 0;
    AUTO_CLOSE int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (out < 0)
        return -errno;
    for (off_t at = 0; at < st.st_size;) {
        ssize_t n = sendfile(out, in, &at, (size_t)(st.st_size - at));
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
    }
    return fchmod(out, st.st_mode & 0755) < 0 ? -errno : 0;
}

static int rootfs_copy_link(int from, const char *name, int to) {
    char target[4096];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, to, name) < 0 ? -errno : 0;
}

static int rootfs_copy_any(int from, const char *name, int to, int depth);

static int rootfs_copy_dir(int from, const char *name, int to, int depth) {
    int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0)
        return -errno;
    DIR *list = fdopendir(in);
    AUTO_CLOSE int out = fd_make_dir(to, name, 0755);
    int r = list == NULL ? -ENOMEM : MIN(out, 0);
    for (struct dirent *e; r == 0 && (e = readdir(list)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = rootfs_copy_any(in, e->d_name, out, depth + 1);
    if (list != NULL)
        closedir(list);
    return r;
}

static int rootfs_copy_any(int from, const char *name, int to, int depth) {
    struct stat st;
    if (rootfs_is_secret(name) || depth > COPY_DEPTH_MAX)
        return 0;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISLNK(st.st_mode))
        return rootfs_copy_link(from, name, to);
    if (S_ISDIR(st.st_mode) && (st.st_mode & 0005) == 0005)
        return rootfs_copy_dir(from, name, to, depth);
    if (S_ISREG(st.st_mode))
        return rootfs_copy_file(from, name, to);
    return 0;
}

static int rootfs_put_file(int dir, const char *name, mode_t mode, const char *text, size_t n) {
    AUTO_CLOSE int out = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (out < 0)
        return -errno;
    if (write(out, text, n) != (ssize_t)n)
        return -EIO;
    return fchmod(out, mode) < 0 ? -errno : 0;
}

static int rootfs_put_text(int dir, const char *name, const char *text) {
    return rootfs_put_file(dir, name, 0644, text, strlen(text));
}

/* Writes the host's system accounts by name and number, so that file owners have names and packages
 * find their users. Omits passwords, members, comments and homes, and people's accounts (1000 and
 * up). */
static int rootfs_put_accounts(int etc, const char *file, const char *first, const char *format) {
    char out[32768];
    size_t len = (size_t)snprintf(out, sizeof out, "%s", first);
    char path[32], line[1024];
    snprintf(path, sizeof path, "/etc/%s", file);
    FILE *in = fopen(path, "re");
    while (in != NULL && fgets(line, sizeof line, in) != NULL && len < sizeof out - 256) {
        char name[64];
        unsigned id, gid = 0;
        if (sscanf(line, "%63[^:]:%*[^:]:%u:%u", name, &id, &gid) < 2 || id == 0 ||
            id >= ROOTFS_PEOPLE)
            continue;
        len += (size_t)snprintf(out + len, 256, format, name, id, gid);
    }
    if (in != NULL)
        fclose(in);
    return rootfs_put_file(etc, file, 0644, out, len);
}

static int rootfs_put_generated(int etc) {
    int r = rootfs_put_accounts(etc, "passwd",
                                "root:x:0:0:root:/root:/bin/bash\n"
                                "user:x:1000:1000::/home/user:/bin/bash\n"
                                "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
                                "%s:x:%u:%u::/nonexistent:/usr/sbin/nologin\n");
    if (r == 0)
        r = rootfs_put_accounts(etc, "group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
                                "%s:x:%u:\n");
    static const char *const files[][2] = {
        {"hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"},
        {"resolv.conf", "# This sandbox has no network.\n"},
        {"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
                          "services: files\nprotocols: files\nnetworks: files\n"},
        {"machine-id", ""},
        {"subuid", ""},
        {"subgid", ""},
    };
    for (size_t i = 0; r == 0 && i < COUNT_OF(files); i++)
        r = rootfs_put_text(etc, files[i][0], files[i][1]);
    if (r == 0)
        r = rootfs_put_file(etc, "shadow", 0600, "root:*:::::::\nuser:*:::::::\n", 28);
    if (r == 0 && symlinkat("/proc/self/mounts", etc, "mtab") < 0)
        r = -errno;
    return r;
}

/* Returns whether the table lists the name. A pattern may have a `*` only at its end. Runs for
 * every entry of /etc at each start. */
static bool rootfs_is_listed(const char *name) {
    for (size_t i = 0; i < COUNT_OF(etc_patterns); i++) {
        const char *p = etc_patterns[i], *n = name;
        while (*p != '\0' && *p == *n)
            p++, n++;
        if (*p == '*' || (*p == '\0' && *n == '\0'))
            return true;
    }
    return false;
}

/* Walks the host's /etc. Copies the listed entries to the directory `to`, or, if `to` is negative,
 * adds them to a stamp. */
static int rootfs_walk_etc(int to, uint64_t *stamp) {
    int etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = etc < 0 ? NULL : fdopendir(etc);
    if (list == NULL)
        return -errno;
    int r = 0;
    for (struct dirent *e; r == 0 && (e = readdir(list)) != NULL;) {
        struct stat st;
        if (!rootfs_is_listed(e->d_name) || fstatat(etc, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (to >= 0)
            r = rootfs_copy_any(etc, e->d_name, to, 0);
        else /* add up, because the order of entries varies */
            *stamp += ((uint64_t)st.st_ino << 20) ^ (uint64_t)st.st_mtim.tv_sec * 1000003u ^
                      (uint64_t)st.st_mtim.tv_nsec;
    }
    closedir(list);
    return r;
}

static int rootfs_fill_host(int root, const char *const *trees) {
    int r = rootfs_make_points(root, base_points, COUNT_OF(base_points));
    if (r == 0)
        r = rootfs_make_points(root, host_points, COUNT_OF(host_points));
    AUTO_CLOSE int etc = r < 0 ? r : fd_open_beneath(root, "etc", O_RDONLY | O_DIRECTORY, 0);
    if (etc < 0)
        return etc;
    r = rootfs_walk_etc(etc, NULL);
    if (r == 0)
        r = rootfs_put_generated(etc);
    static const char *const tops[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    AUTO_CLOSE int host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; r == 0 && i < COUNT_OF(tops); i++) {
        r = rootfs_copy_link(host, tops[i], root);
        /* a real directory is mounted as a tree; an absent one is skipped */
        r = r == -EINVAL || r == -ENOENT ? 0 : r;
    }
    for (size_t i = 0; r == 0 && trees[i] != NULL; i++)
        if (mkdirat(root, trees[i], 0755) < 0 && errno != EEXIST)
            r = -errno;
    if (r == 0 &&
        (symlinkat("/run", root, "var/run") < 0 || symlinkat("/run/lock", root, "var/lock") < 0))
        r = -errno;
    return r;
}

/* Opens roots/<name>. Fails with -ENOENT, after creating `temp`, when the root must be
 * generated. */
static int rootfs_open_or_begin(int roots, const char *name, const char *temp) {
    int dir = fd_open_beneath(roots, name, O_RDONLY | O_DIRECTORY, 0);
    if (dir != -ENOENT)
        return dir;
    return mkdirat(roots, temp, 0755) < 0 ? -errno : -ENOENT;
}

static int rootfs_finish(int roots, const char *temp, const char *name) {
    /* Another berm-spawn may have created it first; its copy is equivalent. */
    int r = sys_rename_new(roots, temp, roots, name);
    if (r < 0 && r != -EEXIST)
        return r;
    return fd_open_beneath(roots, name, O_RDONLY | O_DIRECTORY, 0);
}

static int rootfs_make_root(int state, const char *name, const char *const *trees, int *ret_dir) {
    AUTO_CLOSE int roots = fd_make_dir(state, "roots", 0700);
    if (roots < 0)
        return roots;
    char temp[80];
    snprintf(temp, sizeof temp, ".%s.%d", name, (int)getpid());
    int dir = rootfs_open_or_begin(roots, name, temp);
    if (dir == -ENOENT) {
        AUTO_CLOSE int fresh = fd_open_beneath(roots, temp, O_RDONLY | O_DIRECTORY, 0);
        mode_t mask = umask(0);
        int r = fresh < 0 ? fresh
                : trees   ? rootfs_fill_host(fresh, trees)
                          : rootfs_make_points(fresh, base_points, COUNT_OF(base_points));
        umask(mask);
        dir = r < 0 ? r : rootfs_finish(roots, temp, name);
    }
    if (dir < 0)
        return dir;
    *ret_dir = dir;
    return 0;
}

int rootfs_host(int state, const char *const *trees, int *ret_dir) {
    uint64_t stamp = ROOTFS_FORMAT;
    int r = rootfs_walk_etc(-1, &stamp);
    if (r < 0)
        return r;
    char name[40];
    snprintf(name, sizeof name, "host-%016llx", (unsigned long long)stamp);
    return rootfs_make_root(state, name, trees, ret_dir);
}

int rootfs_points(int state, int *ret_dir) {
    return rootfs_make_root(state, "points-1", NULL, ret_dir);
}
