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

static int random_hex(char *out, size_t chars, struct err *e) {
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
            return err_sys(e, ERR_INTERNAL, errno, "make the folder %s", part);
    }
    return 0;
}

/* Reads a small text file without its newline. The length, or -errno. */
static ssize_t read_text(int dir_fd, const char *name, char *out, size_t cap) {
    AUTO_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);
    if (n < 0)
        return -errno;
    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == ' '))
        n--;
    out[n] = '\0';
    return n;
}

/* Whole or not at all, also when the machine stops in between. */
static int write_text(int dir_fd, const char *name, const char *text, struct err *e) {
    char temporary[NAME_MAX];
    snprintf(temporary, sizeof temporary, ".%s.new", name);
    AUTO_CLOSE int fd =
        openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t n = strlen(text);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n || write(fd, "\n", 1) != 1 || fsync(fd) < 0 ||
        renameat(dir_fd, temporary, dir_fd, name) < 0 || fsync(dir_fd) < 0)
        return err_sys(e, ERR_INTERNAL, errno, "write %s in the state folder", name);
    return 0;
}

/* A daemon that was killed while it started berm-spawn leaves the lock to a child that has not yet let go
 * of its descriptors. */
static bool is_gone(const char *holder) {
    long pid = strtol(holder, NULL, 10);
    return pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static int lock(struct state *s, const char *path, struct err *e) {
    char holder[64];
    s->lock_fd = openat(s->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return err_sys(e, ERR_INTERNAL, errno, "open the lock in %s", path);
    for (int turn = 0; flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0; turn++) {
        if (errno != EWOULDBLOCK)
            return err_sys(e, ERR_INTERNAL, errno, "lock %s", path);
        bool named = read_text(s->dir_fd, "lock", holder, sizeof holder) > 0;
        if (named && turn < LOCK_TURNS && is_gone(holder)) {
            usleep(LOCK_TURN_US);
            continue;
        }
        return err_set(e, ERR_LIMIT_REACHED, "the state folder %s is held by bermd pid %s", path,
                       named ? holder : "unknown");
    }
    int n = snprintf(holder, sizeof holder, "%ld\n", (long)getpid());
    if (ftruncate(s->lock_fd, 0) < 0 || pwrite(s->lock_fd, holder, (size_t)n, 0) != n)
        return err_sys(e, ERR_INTERNAL, errno, "write the lock in %s", path);
    return 0;
}

static int load_instance(struct state *s, struct err *e) {
    char text[STATE_ID_CHARS + 8];
    ssize_t n = read_text(s->dir_fd, "instance", text, sizeof text);
    if (n == STATE_ID_CHARS && strspn(text, "0123456789abcdef") == STATE_ID_CHARS) {
        memcpy(s->instance_id, text, sizeof s->instance_id);
        return 0;
    }
    if (n >= 0 || n != -ENOENT)
        return err_set(e, ERR_STORE_CORRUPT, "the file instance in the state folder is damaged");
    int r = random_hex(s->instance_id, STATE_ID_CHARS, e);
    return r < 0 ? r : write_text(s->dir_fd, "instance", s->instance_id, e);
}

/* The kernel's own name for this run of the machine, compared with the last one we saw. */
static int look_at_boot(struct state *s, struct err *e) {
    char now[64], before[64];
    ssize_t n = read_text(AT_FDCWD, "/proc/sys/kernel/random/boot_id", now, sizeof now);
    if (n <= 0)
        return 0;
    n = read_text(s->dir_fd, "boot", before, sizeof before);
    s->host_was_rebooted = n > 0 && strcmp(now, before) != 0;
    return n > 0 && !s->host_was_rebooted ? 0 : write_text(s->dir_fd, "boot", now, e);
}

int state_open(struct state *s, const char *path, struct err *e) {
    *s = (struct state){.dir_fd = -1, .lock_fd = -1};
    int r = state_make_parents(path, 0755, e);
    if (r < 0)
        return r;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(e, ERR_INTERNAL, errno, "make the state folder %s", path);
    s->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir_fd < 0)
        return err_sys(e, ERR_INTERNAL, errno, "open the state folder %s", path);
    r = lock(s, path, e);
    if (r == 0)
        r = load_instance(s, e);
    if (r == 0)
        r = look_at_boot(s, e);
    if (r == 0)
        r = random_hex(s->run_id, STATE_ID_CHARS, e);
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
    ssize_t n = read_text(s->dir_fd, "token", text, sizeof text);
    if (n == -ENOENT) {
        int r = random_hex(text, API_TOKEN_CHARS, e);
        if (r < 0 || (r = write_text(s->dir_fd, "token", text, e)) < 0)
            return r;
        n = API_TOKEN_CHARS;
    }
    if (n != API_TOKEN_CHARS)
        return err_set(e, ERR_STORE_CORRUPT,
                       "the token file is damaged; remove it to get a new token");
    if (fstatat(s->dir_fd, "token", &st, AT_SYMLINK_NOFOLLOW) < 0 || (st.st_mode & 077) != 0)
        return err_set(e, ERR_PERMISSION_DENIED,
                       "the token file is readable by others: chmod 600 it");
    memcpy(ret_token, text, API_TOKEN_CHARS + 1);
    return 0;
}
