/* berm-jail: runs one command in a sandbox, without the daemon, and exits with its status. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fd.h"
#include "jail/options.h"
#include "jail/terminal.h"
#include "spawn/layer.h"
#include "spawn/mounts.h"
#include "spawn/instance.h"
#include "spawn/spawn.h"

/* The exit code for our own failures, as in other tools that run a command. */
enum { EXIT_JAIL_FAILED = 125 };
enum { SLOT_TRIES = 100 };

/* PID 1, built into this program: init.c. */
extern const unsigned char jail_init[];
extern const size_t jail_init_bytes;

static int jail_init_program(void) {
    int fd = memfd_create("berm-init", MFD_CLOEXEC);
    if (fd < 0 || write(fd, jail_init, jail_init_bytes) != (ssize_t)jail_init_bytes)
        return -EIO;
    return fd;
}

static int jail_fail(const char *what, int error) {
    fprintf(stderr, "berm-jail: %s: %s\n", what, strerror(error));
    return EXIT_JAIL_FAILED;
}

/* Signals to us are meant for the command, but only SIGKILL can end PID 1 inside. A signalfd
 * collects them, so that none is lost before the command runs. */
static int jail_watch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        sigaddset(&set, numbers[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* Returns the exit code of the command. */
static int jail_wait_for(pid_t pid, int pidfd, int signals, struct terminal *t) {
    struct pollfd fds[4] = {{.fd = pidfd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    int stopped_by = 0, status = 0;
    while (!(fds[0].revents & POLLIN)) {
        struct signalfd_siginfo info;
        if (poll(fds, 2 + terminal_watch(t, fds + 2), -1) < 0 && errno != EINTR)
            return EXIT_JAIL_FAILED;
        terminal_serve(t, fds + 2);
        if (!(fds[1].revents & POLLIN) || read(signals, &info, sizeof info) != sizeof info)
            continue;
        if (info.ssi_signo == SIGWINCH) {
            terminal_resize(t);
            continue;
        }
        stopped_by = (int)info.ssi_signo;
        kill(pid, SIGKILL);
    }
    if (waitpid(pid, &status, 0) != pid)
        return EXIT_JAIL_FAILED;
    if (stopped_by != 0)
        return 128 + stopped_by;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void jail_clean_up(struct spawn *s, const struct jail_options *o) {
    const char *id = o->req->id;
    for (int turn = 0; cgroup_remove(&s->cg, id) == -EBUSY && turn < 2000; turn++) {
        cgroup_kill(&s->cg, id);
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    spawn_finish(s);
    if (o->keep || o->req->layer == SPAWN_LAYER_MEMORY)
        return;
    if (layer_remove(s, id) == 0)
        layer_delete_now(s);
}

/* Tries other slots when one is in use: process numbers repeat, and berm-spawn's sandboxes use
 * slots too. */
static void jail_create(struct spawn *s, struct jail_options *o, struct spawn_reply *reply,
                        int *ret_pidfd) {
    for (int turn = 0; turn < SLOT_TRIES; turn++) {
        instance_create(s, o->req, o->fds, o->n_fds, reply, ret_pidfd);
        if (reply->step != STEP_EXISTS || o->keep)
            return;
        o->req->slot = (o->req->slot + 1) % JAIL_SLOTS;
    }
}

int main(int argc, char **argv) {
    struct jail_options o;
    signal(SIGCHLD, SIG_DFL); /* an inherited SIG_IGN would discard exit statuses */
    int r = jail_options_read(argc, argv, &o);
    if (r != 0)
        return r > 0 ? 0 : EXIT_JAIL_FAILED;
    struct terminal terminal;
    r = terminal_init(&terminal);
    if (r < 0)
        return jail_fail("open a terminal", -r);
    if (terminal.is_wanted)
        jail_options_link(&o, terminal.link[1]);
    struct spawn_options start = {.state_fd = o.state_fd,
                                  .guest_fd = jail_init_program(),
                                  .allowed_fds = o.allowed,
                                  .n_allowed = o.n_allowed,
                                  .net_once = true,
                                  .is_tied = true,
                                  .only = o.req,
                                  .without = o.without};
    struct spawn *s = malloc(sizeof *s);
    const char *what = "allocate memory";
    int signals = jail_watch_signals();
    r = s == NULL ? -ENOMEM : spawn_start(s, &start, &what);
    if (r < 0)
        return jail_fail(what, -r);
    struct spawn_reply reply = {0};
    int pidfd = -1;
    jail_create(s, &o, &reply, &pidfd);
    /* The failed create has removed the sandbox; only its files in the trash are left to delete. */
    if (reply.error != 0) {
        layer_delete_now(s);
        spawn_finish(s);
        return jail_fail(spawn_step_name(reply.step), reply.error);
    }
    mounts_done(&s->spent); /* free memory before the command runs */
    fd_close_all(&terminal.link[1], 1);
    r = jail_wait_for(reply.pid, pidfd, signals, &terminal);
    terminal_done(&terminal);
    jail_clean_up(s, &o);
    return r;
}
