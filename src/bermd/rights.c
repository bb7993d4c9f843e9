#include "bermd/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"

#define OWN_UID \
    64738 /* unused on the distributions we know: above the ranges for users and packages */
#define SOCKET_FD 3 /* number in the helper; rights_start_helpers passes it as text */
#define DIR_FD 4

extern char **environ;

/* --- the daemon's user --- */

/* Reads only /etc/passwd. Does not use NSS, because its libraries would stay in memory. */
static const struct passwd *rights_find_local(const char *name) {
    FILE *accounts = fopen("/etc/passwd", "re");
    const struct passwd *p = NULL;
    while (accounts && (p = fgetpwent(accounts)) && strcmp(p->pw_name, name) != 0)
        ;
    if (accounts)
        fclose(accounts);
    return p;
}

static int rights_find_user(const struct config *c, struct rights *r, struct err *e) {
    uint64_t number;
    const char *name = c->user[0] ? c->user : "berm";
    const struct passwd *p = c->user[0] ? getpwnam(name) : rights_find_local(name);
    r->uid = r->gid = OWN_UID;
    if (p) {
        r->uid = p->pw_uid;
        r->gid = p->pw_gid;
    } else if (str_to_u64(str_of(name), 1, UINT32_MAX - 1, &number) == 0) {
        r->uid = r->gid = (uid_t)number;
    } else if (c->user[0]) {
        return err_set(e, ERR_INVALID_ARGUMENT, "user: must be an existing user, got \"%s\"", name);
    }
    if (r->uid == 0)
        return err_set(e, ERR_INVALID_ARGUMENT, "user: must not be root, got \"%s\"", name);
    return 0;
}

/* --- berm-spawn and berm-open --- */

void rights_find_program(const char *name, const char *given, char *out, size_t cap) {
    ssize_t n = given[0] ? 0 : readlink("/proc/self/exe", out, cap);
    if (n <= 0 || (size_t)n + strlen(name) >= cap) {
        snprintf(out, cap, "%s", given[0] ? given : name);
        return;
    }
    while (n > 0 && out[n - 1] != '/')
        n--;
    memcpy(out + n, name, strlen(name) + 1);
}

/* Starts a helper with its socket as descriptor 3 and a directory as descriptor 4. EOF on the
 * socket reports its exit. */
static int rights_start(char *const *argv, int dir_fd, int *ret_fd, struct err *e) {
    int pair[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t all;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, ERR_INTERNAL, errno, "create a socket for %s", argv[0]);
    /* Use numbers above SOCKET_FD and DIR_FD, so that neither dup2 overwrites the other source. */
    AUTO_CLOSE int theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, DIR_FD + 1);
    AUTO_CLOSE int dir = fcntl(dir_fd, F_DUPFD_CLOEXEC, DIR_FD + 1);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawn_file_actions_adddup2(&actions, theirs, SOCKET_FD);
    posix_spawn_file_actions_adddup2(&actions, dir, DIR_FD);
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setpgroup(&attr, 0); /* so that Ctrl-C in a terminal only reaches the daemon */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    int failed = posix_spawn(&pid, argv[0], &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    close(pair[1]);
    if (failed != 0) {
        close(pair[0]);
        return err_sys(e, ERR_INTERNAL, failed, "start %s", argv[0]);
    }
    *ret_fd = pair[0];
    return 0;
}

/* The directories of mount_roots. bermd checks them at startup, when it can still refuse to
 * start. */
struct roots {
    char text[CONFIG_PATHS_BYTES + CONFIG_MAX_PATHS];
    char *paths[CONFIG_MAX_PATHS];
    size_t n;
};

static int rights_read_roots(const struct config *c, struct roots *r, struct err *e) {
    struct str rest = c->mount_roots[0] ? str_of(c->mount_roots) : (struct str){0}, path;
    char *at = r->text;
    for (r->n = 0; config_next_path(&rest, &path); r->n++) {
        memcpy(at, path.p, path.n);
        at[path.n] = '\0';
        AUTO_CLOSE int fd = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return err_sys(e, ERR_INVALID_ARGUMENT, errno, "mount_roots: %s", at);
        r->paths[r->n] = at;
        at += path.n + 1;
    }
    return 0;
}

static void rights_add_roots(char **argv, const struct roots *r, char *option) {
    while (*argv)
        argv++;
    for (size_t i = 0; i < r->n; i++) {
        *argv++ = option;
        *argv++ = r->paths[i];
    }
}

static int rights_start_helpers(struct rights *r, const struct config *c, const struct state *s,
                                int spawn_dir, struct err *e) {
    char spawn[PATH_MAX], guest[PATH_MAX], opener[PATH_MAX];
    struct roots roots;
    char reserve[24];
    char *spawn_argv[11 + 2 * CONFIG_MAX_PATHS] = {
        spawn, "--state-fd", "4", "--guest", guest, "--socket-fd", "3", "--reserve", reserve};
    char *open_argv[7 + 2 * CONFIG_MAX_PATHS] = {opener, "--state-fd", "4", "--socket-fd", "3"};
    rights_find_program("berm-spawn", c->spawn, spawn, sizeof spawn);
    rights_find_program("berm-guest", c->guest, guest, sizeof guest);
    rights_find_program("berm-open", c->open, opener, sizeof opener);
    snprintf(reserve, sizeof reserve, "%lld", (long long)c->limits.of[LIMIT_DISK_RESERVE]);
    if (rights_read_roots(c, &roots, e) < 0)
        return -(int)e->code;
    rights_add_roots(spawn_argv, &roots, "--mount-root");
    rights_add_roots(open_argv, &roots, "--root");
    int failed = rights_start(spawn_argv, spawn_dir, &r->spawn_fd, e);
    if (failed == 0 && roots.n > 0)
        failed = rights_start(open_argv, s->dir_fd, &r->open_fd, e);
    signal(SIGCHLD, SIG_IGN);
    return failed;
}

/* --- the state directory --- */

/* Changes the owner of everything except berm-spawn's own directory, if the daemon's user has
 * changed. */
static int rights_give_all(const struct rights *r, const char *path, const struct state *s,
                           struct err *e) {
    struct stat st;
    char *const roots[] = {(char *)path, NULL};
    if (fstat(s->dir_fd, &st) == 0 && st.st_uid == r->uid)
        return 0;
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int failed = walk ? 0 : errno;
    for (FTSENT *at; failed == 0 && (at = fts_read(walk));) {
        if (at->fts_level == 1 && strcmp(at->fts_name, "spawn") == 0)
            fts_set(walk, at, FTS_SKIP);
        else if (at->fts_info != FTS_D && lchown(at->fts_path, r->uid, r->gid) < 0 &&
                 errno != ENOENT)
            failed = errno;
    }
    if (walk)
        fts_close(walk);
    return failed == 0
               ? 0
               : err_sys(e, ERR_INTERNAL, failed,
                         "change the owner of the state directory to uid %u", (unsigned)r->uid);
}

static int rights_own_dir(const struct state *s, const struct rights *r, const char *name,
                          mode_t mode, struct err *e) {
    int fd = fd_make_dir(s->dir_fd, name, mode);
    if (fd < 0)
        return err_sys(e, ERR_INTERNAL, -fd, "create the directory %s in the state directory",
                       name);
    if (r->is_root && fchown(fd, r->uid, r->gid) < 0) {
        int failed = errno;
        close(fd);
        return err_sys(e, ERR_INTERNAL, failed,
                       "change the owner of the directory %s to the daemon's user", name);
    }
    return fd;
}

/* Raises the descriptor limit to the maximum, because each exec needs descriptors for its cgroup,
 * link and reader. */
static void rights_raise_files(void) {
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) == 0) {
        most.rlim_cur = most.rlim_max;
        setrlimit(RLIMIT_NOFILE, &most);
    }
}

int rights_open(struct rights *r, const struct config *c, const struct state *s, struct err *e) {
    *r = (struct rights){.is_root = geteuid() == 0,
                         .spawn_fd = -1,
                         .open_fd = -1,
                         .run_dir_fd = -1,
                         .sandboxes_fd = -1};
    if (r->is_root && (rights_find_user(c, r, e) < 0 || rights_give_all(r, c->state, s, e) < 0))
        return -(int)e->code;
    rights_raise_files();
    r->run_dir_fd = rights_own_dir(s, r, "run", 0700, e);
    if (r->run_dir_fd >= 0)
        r->sandboxes_fd = rights_own_dir(s, r, "sandboxes", 0700, e);
    if (r->sandboxes_fd < 0)
        return -(int)e->code;
    if (!r->is_root)
        return 0;
    AUTO_CLOSE int spawn_dir = fd_make_dir(s->dir_fd, "spawn", 0700);
    struct stat st;
    if (spawn_dir < 0 || fstat(spawn_dir, &st) < 0)
        return err_sys(e, ERR_INTERNAL, spawn_dir < 0 ? -spawn_dir : errno,
                       "create the directory spawn in the state directory");
    /* The daemon's user owns the parent directory, so a compromised daemon could replace this
     * directory with its own, and berm-spawn would mount from it. */
    if (st.st_uid != 0 || (st.st_mode & 022) != 0)
        return err_set(e, ERR_PERMISSION_DENIED,
                       "use the directory spawn in the state directory: it must belong to root "
                       "and be writable by root only");
    return rights_start_helpers(r, c, s, spawn_dir, e);
}

int rights_drop(struct rights *r, const struct state *s, struct err *e) {
    if (!r->is_root)
        return 0;
    if (fchown(s->lock_fd, r->uid, r->gid) < 0 || setgroups(0, NULL) < 0 ||
        setresgid(r->gid, r->gid, r->gid) < 0 || setresuid(r->uid, r->uid, r->uid) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, ERR_INTERNAL, errno, "switch to uid %u", (unsigned)r->uid);
    prctl(PR_SET_DUMPABLE,
          1); /* allows core dumps and leak checkers; safe, because only bermd has this uid */
    return 0;
}

void rights_close(struct rights *r) {
    close_fd_cleanup(&r->spawn_fd);
    close_fd_cleanup(&r->open_fd);
    close_fd_cleanup(&r->run_dir_fd);
    close_fd_cleanup(&r->sandboxes_fd);
}
