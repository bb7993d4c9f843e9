#include "jail/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

int terminal_init(struct terminal *t) {
    *t = (struct terminal){.link = {-1, -1}, .master = -1};
    t->is_wanted = isatty(0) && isatty(1) && isatty(2);
    if (t->is_wanted && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, t->link) < 0)
        return -errno;
    return 0;
}

unsigned terminal_watch(const struct terminal *t, struct pollfd fds[2]) {
    if (t->master < 0) {
        fds[0] = (struct pollfd){.fd = t->link[0], .events = POLLIN};
        return t->link[0] >= 0 ? 1 : 0;
    }
    fds[0] = (struct pollfd){.fd = t->master, .events = POLLIN};
    fds[0].events |= t->n_keys > 0 ? POLLOUT : 0;
    fds[1] = (struct pollfd){.fd = t->n_keys > 0 || t->is_at_end ? -1 : 0, .events = POLLIN};
    return 2;
}

void terminal_resize(const struct terminal *t) {
    struct winsize size;
    if (t->master >= 0 && ioctl(0, TIOCGWINSZ, &size) == 0)
        ioctl(t->master, TIOCSWINSZ, &size);
}

static void terminal_make_raw(struct terminal *t) {
    struct termios raw;
    if (tcgetattr(0, &t->saved) < 0)
        return;
    raw = t->saved;
    cfmakeraw(&raw);
    t->is_raw = tcsetattr(0, TCSADRAIN, &raw) == 0;
}

static void terminal_make_normal(struct terminal *t) {
    if (t->is_raw)
        tcsetattr(0, TCSADRAIN, &t->saved);
    t->is_raw = false;
}

/* Receives the terminal from PID 1, or EOF if PID 1 ended first. */
static void terminal_receive(struct terminal *t) {
    char byte;
    size_t n_fds = 0;
    ssize_t n = fd_recv(t->link[0], &byte, 1, &t->master, 1, &n_fds);
    fd_close_all(t->link, 1);
    if (n != 1 || n_fds != 1) {
        t->master = -1;
        return;
    }
    fcntl(t->master, F_SETFL, O_NONBLOCK);
    terminal_resize(t);
    terminal_make_raw(t);
}

/* Returns false when there was no output. */
static bool terminal_copy_output(struct terminal *t) {
    char bytes[8192];
    ssize_t n = t->master < 0 ? -1 : read(t->master, bytes, sizeof bytes);
    if (n > 0)
        (void)!fd_write_all(1, bytes, (size_t)n); /* if writing fails, the command continues */
    else if (t->master >= 0 && (n == 0 || errno != EAGAIN)) {
        /* No process inside has the terminal open, so restore the caller's terminal. */
        fd_close_all(&t->master, 1);
        terminal_make_normal(t);
    }
    return n > 0;
}

static void terminal_copy_keys(struct terminal *t) {
    ssize_t n = write(t->master, t->keys, t->n_keys);
    if (n <= 0)
        return;
    t->n_keys -= (size_t)n;
    memmove(t->keys, t->keys + n, t->n_keys);
}

void terminal_serve(struct terminal *t, const struct pollfd fds[2]) {
    if (t->master < 0) {
        if (t->link[0] >= 0 && fds[0].revents != 0)
            terminal_receive(t);
        return;
    }
    if (fds[1].fd == 0 && fds[1].revents != 0) {
        ssize_t n = read(0, t->keys, sizeof t->keys);
        t->n_keys = (size_t)MAX(n, 0);
        t->is_at_end = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
    }
    if (t->n_keys > 0)
        terminal_copy_keys(t);
    if (fds[0].revents & ~POLLOUT)
        terminal_copy_output(t);
}

void terminal_done(struct terminal *t) {
    while (terminal_copy_output(t))
        ;
    terminal_make_normal(t);
}
