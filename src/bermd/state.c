#include "bermd/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_TURNS 100
#define LOCK_TURN_US 10000

static int state_random_hex(char *out, size_t chars, struct err *e) {
    uint8_t bytes[64];
    if (getrandom(bytes, chars / 2, 0) != (ssize_t)(chars / 2))
        return err_sys(e, ERR_INTERNAL, errno, "get random bytes");
    hex_encode(bytes, chars / 2, out);
    out[chars] = '\0';
    return 0;
}

int state_make_parents(const char *path, mode_t mode, struct err *e) {
    char part[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return err_sys(e, ERR_INTERNAL, errno, "create the directory %s", part);
    }
    return 0;
}

/* Reads a small text file without its newline. Returns the length or -errno. */
static ssize_t state_read_text(int dir_fd, const char *name, char *out, size_t cap) {
    AUTO_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);
    if (n < 0)
        return -errno;
    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == ' '))
        n--;
    out[n] = '\0';
    return n;
}

/* Replaces the file atomically; a crash leaves the old or the new text. */
static int state_write_text(int dir_fd, const char *name, const char *text, struct err *e) {
    char temporary[NAME_MAX];
    snprintf(temporary, sizeof temporary, ".%s.new", name);
    AUTO_CLOSE int fd =
        openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t n = strlen(text);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n || write(fd, "\n", 1) != 1 || fsync(fd) < 0 ||
        renameat(dir_fd, temporary, dir_fd, name) < 0 || fsync(dir_fd) < 0)
        return err_sys(e, ERR_INTERNAL, errno, "write %s in the state directory", name);
    return 0;
}

/* Returns whether the process named in the lock file has exited. If a daemon is killed while it
 * starts berm-spawn, its child may hold the lock a moment longer, because the child has not closed
 * the inherited descriptors yet. */
static bool state_is_gone(const char *holder) {
    long pid = strtol(holder, NULL, 10);
    return pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static int state_lock(struct state *s, const char *path, struct err *e) {
    char holder[64];
    s->lock_fd = openat(s->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return err_sys(e, ERR_INTERNAL, errno, "open the lock in %s", path);
    for (int turn = 0; flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0; turn++) {
        if (errno != EWOULDBLOCK)
            return err_sys(e, ERR_INTERNAL, errno, "lock %s", path);
        bool named = state_read_text(s->dir_fd, "lock", holder, sizeof holder) > 0;
        if (named && turn < LOCK_TURNS && state_is_gone(holder)) {
            usleep(LOCK_TURN_US);
            continue;
        }
        return err_set(e, ERR_LIMIT_REACHED, "lock the state directory %s: bermd pid %s uses it",
                       path, named ? holder : "unknown");
    }
    int n = snprintf(holder, sizeof holder, "%ld\n", (long)getpid());
    if (ftruncate(s->lock_fd, 0) < 0 || pwrite(s->lock_fd, holder, (size_t)n, 0) != n)
        return err_sys(e, ERR_INTERNAL, errno, "write the lock in %s", path);
    return 0;
}

static int state_load_instance(struct state *s, struct err *e) {
    char text[STATE_ID_CHARS + 8];
    ssize_t n = state_read_text(s->dir_fd, "instance", text, sizeof text);
    if (n == STATE_ID_CHARS && strspn(text, "0123456789abcdef") == STATE_ID_CHARS) {
        memcpy(s->instance_id, text, sizeof s->instance_id);
        return 0;
    }
    if (n >= 0 || n != -ENOENT)
        return err_set(e, ERR_STORE_CORRUPT,
                       "read the file instance in the state directory: it is damaged");
    int r = state_random_hex(s->instance_id, STATE_ID_CHARS, e);
    return r < 0 ? r : state_write_text(s->dir_fd, "instance", s->instance_id, e);
}

/* Compares the kernel's boot id with the one of the previous start. */
static int state_look_at_boot(struct state *s, struct err *e) {
    char now[64], before[64];
    ssize_t n = state_read_text(AT_FDCWD, "/proc/sys/kernel/random/boot_id", now, sizeof now);
    if (n <= 0)
        return 0;
    n = state_read_text(s->dir_fd, "boot", before, sizeof before);
    s->host_was_rebooted = n > 0 && strcmp(now, before) != 0;
    return n > 0 && !s->host_was_rebooted ? 0 : state_write_text(s->dir_fd, "boot", now, e);
}

int state_open(struct state *s, const char *path, struct err *e) {
    *s = (struct state){.dir_fd = -1, .lock_fd = -1};
    int r = state_make_parents(path, 0755, e);
    if (r < 0)
        return r;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(e, ERR_INTERNAL, errno, "create the state directory %s", path);
    s->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir_fd < 0)
        return err_sys(e, ERR_INTERNAL, errno, "open the state directory %s", path);
    r = state_lock(s, path, e);
    if (r == 0)
        r = state_load_instance(s, e);
    if (r == 0)
        r = state_look_at_boot(s, e);
    if (r == 0)
        r = state_random_hex(s->run_id, STATE_ID_CHARS, e);
    if (r < 0)
        state_close(s);
    return r;
}

void state_close(struct state *s) {
    close_fd_cleanup(&s->lock_fd);
    close_fd_cleanup(&s->dir_fd);
    s->lock_fd = s->dir_fd = -1;
}

int state_token(const struct state *s, char ret_token[API_TOKEN_CHARS + 1], struct err *e) {
    char text[API_TOKEN_CHARS + 8];
    struct stat st;
    ssize_t n = state_read_text(s->dir_fd, "token", text, sizeof text);
    if (n == -ENOENT) {
        int r = state_random_hex(text, API_TOKEN_CHARS, e);
        if (r < 0 || (r = state_write_text(s->dir_fd, "token", text, e)) < 0)
            return r;
        n = API_TOKEN_CHARS;
    }
    if (n != API_TOKEN_CHARS)
        return err_set(e, ERR_STORE_CORRUPT,
                       "read the token file: it is damaged; remove it to get a new token");
    if (fstatat(s->dir_fd, "token", &st, AT_SYMLINK_NOFOLLOW) < 0 || (st.st_mode & 077) != 0)
        return err_set(e, ERR_PERMISSION_DENIED,
                       "read the token file: other users can read it; run chmod 600 on it");
    memcpy(ret_token, text, API_TOKEN_CHARS + 1);
    return 0;
}
