/* berm-jail: runs one command in a sandbox of its own, without the daemon, and exits as it did. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "jail/options.h"
#include "spawn/layer.h"
#include "spawn/mounts.h"
#include "spawn/place.h"
#include "spawn/spawn.h"

/* Exit codes of our own, as in other tools that run a command. */
enum { EXIT_JAIL_FAILED = 125 };

/* PID 1, built into this program: init.c. */
extern const unsigned char jail_init[];
extern const size_t jail_init_bytes;

static int init_program(void) {
    int fd = memfd_create("berm-init", MFD_CLOEXEC);
    if (fd < 0 || write(fd, jail_init, jail_init_bytes) != (ssize_t)jail_init_bytes)
        return -EIO;
    return fd;
}

static int fail(const char *what, int error) {
    fprintf(stderr, "berm-jail: %s: %s\n", what, strerror(error));
    return EXIT_JAIL_FAILED;
}

/* SIGTERM and the like to us are meant for the command; PID 1 inside cannot be stopped by anything
 * milder than SIGKILL. */
static volatile sig_atomic_t stopped_by;
static void on_signal(int number) { stopped_by = number; }

static void watch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        sigaction(numbers[i], &action, NULL);
}

/* The exit code of the command. */
static int wait_for(pid_t pid, int pidfd) {
    int status;
    for (;;) {
        if (stopped_by != 0)
            kill(pid, SIGKILL);
        pid_t ended = waitpid(pid, &status, 0);
        if (ended == pid)
            break;
        if (errno != EINTR)
            return EXIT_JAIL_FAILED;
    }
    close(pidfd);
    if (stopped_by != 0)
        return 128 + stopped_by;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void clean_up(struct spawn *s, const struct jail_options *o) {
    const char *id = o->req->id;
    for (int turn = 0; cgroup_remove(&s->cg, id) == -EBUSY && turn < 2000; turn++) {
        cgroup_kill(&s->cg, id);
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    if (o->keep || o->req->layer == SPAWN_LAYER_MEMORY)
        return;
    if (layer_remove(s, id) == 0)
        layer_delete_now(s);
}

int main(int argc, char **argv) {
    struct jail_options o;
    int r = jail_options_read(argc, argv, &o);
    if (r != 0)
        return r > 0 ? 0 : EXIT_JAIL_FAILED;
    struct spawn_options start = {.state_fd = o.state_fd, .guest_fd = init_program(),
                                  .allowed_fds = o.allowed, .n_allowed = o.n_allowed,
                                  .net_once = true, .without = o.without};
    static struct spawn s;
    const char *what = "";
    r = spawn_start(&s, &start, &what);
    if (r < 0)
        return fail(what, -r);
    watch_signals();
    struct spawn_reply reply = {0};
    int pidfd = -1;
    place_create(&s, o.req, o.fds, o.n_fds, &reply, &pidfd);
    if (reply.error != 0) {
        r = fail(spawn_step_name(reply.step), reply.error);
        clean_up(&s, &o);
        return r;
    }
    mounts_done(&s.spent); /* while the command runs */
    r = wait_for(reply.pid, pidfd);
    clean_up(&s, &o);
    return r;
}
