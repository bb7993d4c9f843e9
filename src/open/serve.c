#include "open/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "open/pack.h"

#define GROUPS_MAX 1024
#define NO_GROUP 65534

/* --- the message --- */

static bool serve_is_pipe(int fd) {
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && flags >= 0 &&
           (flags & O_ACCMODE) != O_RDONLY;
}

static bool serve_is_pack(const struct open_pack *q) {
    size_t at = 0;
    if (!str_is_padded(q->name, sizeof q->name) || q->name[0] == '\0' || strchr(q->name, '/') ||
        strcmp(q->name, ".") == 0 || strcmp(q->name, "..") == 0 ||
        q->n_excludes > OPEN_EXCLUDES_MAX || q->reserved != 0)
        return false;
    for (uint32_t i = 0; i < q->n_excludes; i++) {
        at += strnlen(q->excludes + at, sizeof q->excludes - at) + 1;
        if (at > sizeof q->excludes)
            return false;
    }
    return true;
}

bool serve_is_request(const union open_request *q, size_t n, const int *fds, size_t n_fds) {
    const struct open_head *h = &q->head;
    bool packs = n >= sizeof *h && h->kind == OPEN_PACK;
    if (n != (packs ? sizeof q->pack : sizeof *h) || h->version != OPEN_VERSION || h->size != n ||
        h->kind < OPEN_DIRECTORY || h->kind > OPEN_PROGRAM || h->uid == UINT32_MAX ||
        !str_is_padded(h->path, sizeof h->path) ||
        (h->path[0] != '/' && strncmp(h->path, "~/", 2) != 0))
        return false;
    uint32_t flags = h->kind == OPEN_DIRECTORY ? OPEN_WRITABLE : packs ? OPEN_PRIVATE : 0;
    return (h->flags & ~flags) == 0 && n_fds == (packs ? 1 : 0) &&
           (!packs || (serve_is_pack(&q->pack) && serve_is_pipe(fds[0])));
}

/* --- becoming the caller --- */

/* Switches to the user and all its groups. A uid without an account gets no groups. */
static int serve_become(uid_t uid, char home[OPEN_PATH_MAX]) {
    gid_t groups[GROUPS_MAX];
    int n = 0;
    gid_t gid = NO_GROUP;
    const struct passwd *p = getpwuid(uid);
    if (p) {
        gid = p->pw_gid;
        snprintf(home, OPEN_PATH_MAX, "%s", p->pw_dir);
        n = GROUPS_MAX;
        if (getgrouplist(p->pw_name, gid, groups, &n) < 0)
            return -E2BIG;
    }
    if (setgroups((size_t)n, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
        setresuid(uid, uid, uid) < 0)
        return -errno;
    /* Set the parent-death signal after the change of user, because that change clears it. */
    return prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
}

/* --- opening --- */

static int serve_fail_open(struct err *e, int sys) {
    static const struct {
        int sys;
        enum err_code code;
        const char *text;
    } rows[] = {{ENOENT, ERR_FILE_NOT_FOUND, "no such file or directory on the host"},
                {ENOTDIR, ERR_NOT_A_DIRECTORY, "it is not a directory"},
                {ELOOP, ERR_SYMLINK_LOOP, "too many symlinks, or a magic link"},
                {EACCES, ERR_HOST_PATH_REFUSED, "permission denied for the caller"},
                {EPERM, ERR_HOST_PATH_REFUSED, "permission denied for the caller"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].sys == sys)
            return err_set(e, rows[i].code, "%s", rows[i].text);
    return err_sys(e, ERR_HOST_PATH_REFUSED, sys, "open it");
}

static int serve_open_path(int at, const char *path, int flags, uint64_t resolve) {
    struct open_how how = {.flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
                           .resolve = RESOLVE_NO_MAGICLINKS | resolve};
    long fd = syscall(SYS_openat2, at, path, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

/* Resolves where an opened object is. Sets an empty path if it is too long. */
static void serve_tell_real(int fd, char ret_real[OPEN_WHERE_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, ret_real, OPEN_WHERE_MAX);
    if (n < 0 || n == OPEN_WHERE_MAX)
        memset(ret_real, 0, OPEN_WHERE_MAX);
}

/* A mount needs read and search permission, which O_PATH does not check. */
static int serve_open_directory(const struct open_rules *r, const struct open_head *q,
                                struct open_reply *reply, struct err *e) {
    AUTO_CLOSE int fd = serve_open_path(AT_FDCWD, q->path, O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return serve_fail_open(e, -fd);
    bool writable = (q->flags & OPEN_WRITABLE) != 0;
    if (check_target(r, fd, false, e) < 0)
        return -(int)e->code;
    int foreign = check_owner(fd, writable, e);
    if (foreign < 0)
        return foreign;
    reply->is_foreign = (uint32_t)foreign;
    if (faccessat(fd, ".", R_OK | X_OK | (writable ? W_OK : 0), AT_EACCESS) < 0)
        return serve_fail_open(e, errno);
    if (strlen(q->path) < sizeof reply->path)
        snprintf(reply->path, sizeof reply->path, "%.*s", OPEN_WHERE_MAX - 1, q->path);
    serve_tell_real(fd, reply->real);
    return TAKE_FD(fd);
}

/* Finds a program. Reports only its real path, and only if its directory may enter a sandbox. */
static int serve_find_program(const struct open_rules *r, const char *path,
                              struct open_reply *reply, struct err *e) {
    struct stat st;
    AUTO_CLOSE int fd = serve_open_path(AT_FDCWD, path, O_PATH, 0);
    if (fd < 0)
        return serve_fail_open(e, -fd);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_NOT_A_REGULAR_FILE, "it is not a regular file");
    if (faccessat(fd, "", X_OK, AT_EACCESS | AT_EMPTY_PATH) < 0)
        return serve_fail_open(e, errno);
    serve_tell_real(fd, reply->real);
    char parent[OPEN_WHERE_MAX];
    snprintf(parent, sizeof parent, "%s", reply->real);
    char *name = strrchr(parent, '/');
    if (!name)
        return err_set(e, ERR_HOST_PATH_REFUSED, "its path is too long");
    *name = '\0';
    AUTO_CLOSE int dir =
        serve_open_path(AT_FDCWD, parent[0] ? parent : "/", O_PATH | O_DIRECTORY, 0);
    if (dir < 0)
        return serve_fail_open(e, -dir);
    return check_target(r, dir, true, e);
}

/* Checks the type before it opens the file for reading, because opening alone triggers some
 * devices. */
static int serve_open_file(const struct open_rules *r, int parent, const char *name,
                           struct err *e) {
    const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    struct stat st;
    if (check_target(r, parent, true, e) < 0)
        return -(int)e->code;
    AUTO_CLOSE int look = serve_open_path(parent, name, O_PATH | O_NOFOLLOW, resolve);
    if (look < 0)
        return serve_fail_open(e, -look);
    if (fstat(look, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_NOT_A_REGULAR_FILE, "it is not a regular file or a directory");
    AUTO_CLOSE int fd =
        serve_open_path(parent, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY, resolve);
    if (fd < 0)
        return serve_fail_open(e, -fd);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_NOT_A_REGULAR_FILE, "it is not a regular file or a directory");
    return TAKE_FD(fd);
}

/* Opens the source of a copy: a directory, or a file that is not a symlink and whose parent
 * directory is allowed. */
static int serve_open_source(const struct open_rules *r, const char *path, bool *ret_is_file,
                             struct err *e) {
    char parent[OPEN_PATH_MAX];
    AUTO_CLOSE int dir = serve_open_path(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (dir >= 0) {
        *ret_is_file = false;
        return check_target(r, dir, false, e) < 0 ? -(int)e->code : TAKE_FD(dir);
    }
    if (dir != -ENOTDIR)
        return serve_fail_open(e, -dir);
    snprintf(parent, sizeof parent, "%s", path);
    char *name = strrchr(parent, '/');
    *name++ = '\0';
    AUTO_CLOSE int at =
        serve_open_path(AT_FDCWD, parent[0] ? parent : "/", O_PATH | O_DIRECTORY, 0);
    if (at < 0)
        return serve_fail_open(e, -at);
    *ret_is_file = true;
    return serve_open_file(r, at, name, e);
}

/* --- the reply --- */

static void serve_answer(int sock, const struct open_reply *reply, int fd) {
    (void)!fd_send(sock, reply, sizeof *reply, &fd, fd >= 0 ? 1 : 0);
}

void serve_refuse(int sock, uint32_t seq, const struct err *e) {
    struct open_reply reply = {.version = OPEN_VERSION, .seq = seq, .code = (uint32_t)e->code};
    snprintf(reply.text, sizeof reply.text, "%s", e->text);
    serve_answer(sock, &reply, -1);
}

static int serve_request(const struct open_rules *r, const union open_request *q, int pipe,
                         struct open_reply *reply, struct err *e) {
    bool is_file = false;
    if (q->head.kind == OPEN_DIRECTORY)
        return serve_open_directory(r, &q->head, reply, e);
    if (q->head.kind == OPEN_PROGRAM)
        return serve_find_program(r, q->head.path, reply, e);
    int source = serve_open_source(r, q->head.path, &is_file, e);
    reply->is_file = is_file;
    return source < 0 || q->head.kind == OPEN_SOURCE
               ? source
               : pack_source(source, is_file, &q->pack, pipe, e);
}

/* Fails with -ENOENT for a user without a home directory. */
static int serve_expand_home(struct open_head *q, const char *home) {
    char rest[OPEN_PATH_MAX];
    if (q->path[0] != '~')
        return 0;
    snprintf(rest, sizeof rest, "%s", q->path + 1);
    int n = snprintf(q->path, sizeof q->path, "%s%s", home[0] == '/' ? home : "", rest);
    return home[0] != '/' ? -ENOENT : (size_t)n >= sizeof q->path ? -ENAMETOOLONG : 0;
}

void serve_as_caller(const struct open_rules *r, union open_request *q, int sock, int pipe) {
    struct open_reply reply = {.version = OPEN_VERSION, .seq = q->head.seq};
    char home[OPEN_PATH_MAX] = "";
    struct err e;
    int failed = serve_become(q->head.uid, home);
    int fd =
        failed < 0 ? err_sys(&e, ERR_HOST_PATH_REFUSED, -failed, "switch to the caller's uid") : 0;
    if (fd == 0 && (failed = serve_expand_home(&q->head, home)) < 0)
        fd = serve_fail_open(&e, -failed);
    if (fd == 0)
        fd = serve_request(r, q, pipe, &reply, &e);
    if (fd < 0)
        serve_refuse(sock, q->head.seq, &e);
    else
        serve_answer(sock, &reply, q->head.kind == OPEN_DIRECTORY ? fd : -1);
}
