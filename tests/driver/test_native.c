/* Tests the native driver with a real berm-spawn and real sandboxes, whose PID 1 is test-guest. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "drivers/native/native.h"
#include "harness.h"

extern char **environ;

/* One state directory, one berm-spawn and one driver, with their own loop. */
struct world {
    uv_loop_t loop;
    struct driver *driver;
    pid_t spawn_pid;
    char dir[64];
    unsigned opened, open_failed, closed, swept;
};

static const char *program(const char *name, char *out, size_t cap) {
    char self[200];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    *(strrchr(self, '/') + 1) = '\0';
    snprintf(out, cap, "%s%s", self, name);
    return out;
}

static void on_open(struct driver *d, const struct err *e) {
    struct world *w = d->user;
    w->opened += e == NULL;
    w->open_failed += e != NULL;
    if (e)
        CHECK_STR(e->text, "");
}

static void on_swept(void *user, const struct err *e) {
    CHECK(e == NULL);
    ((struct world *)user)->swept++;
}

static void on_closed(struct driver *d) {
    ((struct world *)d->user)->closed++;
}

/* Runs the loop until the condition holds. */
#define RUN_UNTIL(w, cond)                                      \
    for (int turns_ = 0; !(cond) && turns_ < 60000; turns_++) { \
        uv_run(&(w)->loop, UV_RUN_NOWAIT);                      \
        usleep(500);                                            \
    }                                                           \
    CHECK(cond)

static void spawn_start(struct world *w) {
    int pair[2];
    char spawn[256], guest[256], state[80], number[16];
    struct err e = {0};
    posix_spawn_file_actions_t actions;
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    snprintf(state, sizeof state, "%s/spawn", w->dir);
    snprintf(number, sizeof number, "%d", 9);
    char *argv[] = {
        (char *)program("berm-spawn", spawn, sizeof spawn), "--state",     state,  "--guest",
        (char *)program("test-guest", guest, sizeof guest), "--socket-fd", number, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 9);
    CHECK_INT(posix_spawn(&w->spawn_pid, spawn, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    char run[80];
    snprintf(run, sizeof run, "%s/run", w->dir);
    w->opened = w->open_failed = w->closed = 0;
    w->driver = native_open(&w->loop, pair[0], open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                            on_open, w, &e);
    CHECK(w->driver != NULL);
    w->driver->on_closed = on_closed;
    RUN_UNTIL(w, w->opened + w->open_failed == 1);
}

static void world_open(struct world *w) {
    char path[100];
    memset(w, 0, sizeof *w);
    strcpy(w->dir, "/var/tmp/berm-driver-XXXXXX");
    CHECK(mkdtemp(w->dir) != NULL);
    static const char *const names[] = {"spawn", "run"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/%s", w->dir, names[i]);
        CHECK_INT(mkdir(path, 0700), 0);
    }
    uv_loop_init(&w->loop);
    spawn_start(w);
    driver_sweep(w->driver, NULL, 0, on_swept,
                 w); /* an earlier state directory may have had the same identity */
    RUN_UNTIL(w, w->swept == 1);
}

static void spawn_stop(struct world *w) {
    int status;
    driver_close(w->driver);
    RUN_UNTIL(w, w->closed == 1);
    /* berm-spawn exits with its client */
    CHECK_INT(waitpid(w->spawn_pid, &status, 0), w->spawn_pid);
}

static void world_close(struct world *w) {
    char command[120];
    spawn_stop(w);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&w->loop), 0);
    snprintf(command, sizeof command, "rm -rf %s", w->dir);
    CHECK_INT(system(command), 0);
}

struct seen {
    unsigned ready, failed, gone, answers;
    bool ok;
    enum err_code code;
    char text[240];
    struct instance_usage usage;
    int fds[16];
    size_t n_fds;
};

static void on_ready(struct instance *p) {
    ((struct seen *)p->user)->ready++;
}
static void on_failed(struct instance *p, const struct err *e) {
    struct seen *s = p->user;
    s->failed++;
    s->code = e->code;
    snprintf(s->text, sizeof s->text, "%s", e->text);
    printf("# %s failed: %s\n", p->id, e->text);
}
static void on_gone(struct instance *p) {
    ((struct seen *)p->user)->gone++;
}
static const struct instance_events events = {on_ready, on_failed, on_gone};

static void on_answer(struct instance *p, const struct instance_answer *a, void *user) {
    struct seen *s = user;
    (void)p;
    s->answers++;
    s->ok = a->e == NULL;
    s->code = a->e ? a->e->code : ERR_NONE;
    s->usage = a->usage;
    s->n_fds = MIN(a->n_fds, COUNT_OF(s->fds));
    memcpy(s->fds, a->fds ? a->fds : s->fds, s->n_fds * sizeof *s->fds);
}

static struct instance_spec spec_of(const char *id, uint32_t slot) {
    return (struct instance_spec){.id = id,
                                  .slot = slot,
                                  .profile = INSTANCE_USER,
                                  .layer = INSTANCE_MEMORY,
                                  .network = INSTANCE_NETWORK_NONE};
}

/* Asks test-guest to start a program in an exec cgroup. Returns its pid inside. */
static int start_in(int link, int cgroup) {
    int pid = -1;
    fcntl(link, F_SETFL, 0);
    if (fd_send(link, "x", 1, &cgroup, 1) < 0 || recv(link, &pid, sizeof pid, 0) != sizeof pid)
        return -1;
    return pid;
}

/* Retries, because the guest may not listen yet when its instance is ready. */
static int link_to(struct world *world, struct instance *p) {
    struct err e;
    int link = -1;
    for (int turns = 0; link < 0 && turns < 60000; turns++, usleep(500)) {
        uv_run(&world->loop, UV_RUN_NOWAIT);
        link = instance_connect(p, &e);
    }
    CHECK(link >= 0);
    return link;
}

static bool is_root(void) {
    if (geteuid() != 0)
        test_skip("needs root: berm-spawn makes real sandboxes");
    return geteuid() == 0;
}

static struct world w;

static struct instance *ready_instance(const char *id, uint32_t slot, struct seen *seen) {
    struct instance_spec spec = spec_of(id, slot);
    struct err e;
    struct instance *p = instance_create(w.driver, &spec, &events, seen, &e);
    CHECK(p != NULL);
    RUN_UNTIL(&w, seen->ready == 1);
    return p;
}

/* Starts a new berm-spawn after the old one was killed; it removes what the old one left. */
static void spawn_again(void) {
    int status;
    driver_close(w.driver);
    RUN_UNTIL(&w, w.closed == 1);
    CHECK_INT(waitpid(w.spawn_pid, &status, 0), w.spawn_pid);
    spawn_start(&w);
    driver_sweep(w.driver, NULL, 0, on_swept, &w);
    RUN_UNTIL(&w, w.swept == 2);
}

TEST(native_creates_connects_to_and_stops_an_instance) {
    struct seen seen = {0};
    struct err e;
    if (!is_root())
        return;
    world_open(&w);
    CHECK(w.driver->pause && w.driver->usage && w.driver->limits && w.driver->exec_cgroups &&
          w.driver->parking);
    struct instance_spec spec = spec_of("sb-one", 1);
    spec.limits =
        /* usage is counted only with limits */
        (struct instance_limits){.memory_bytes = 256 << 20, .pids = 64};
    struct instance *p = instance_create(w.driver, &spec, &events, &seen, &e);
    CHECK(p != NULL);
    CHECK_INT(seen.ready, 0); /* never inside the call */
    RUN_UNTIL(&w, seen.ready + seen.failed == 1);
    CHECK_STR(seen.text, "");
    if (!CHECK_INT(seen.ready, 1))
        exit(1);
    int link = link_to(&w, p);

    instance_make_exec_cgroups(p, 1, 2, on_answer, &seen);
    RUN_UNTIL(&w, seen.answers == 1);
    CHECK(seen.ok && seen.n_fds >= 2);
    CHECK(start_in(link, seen.fds[0]) > 1);
    struct exec_cgroup_usage used = {.memory_peak_bytes = UINT64_C(1) << 60};
    w.driver->exec_cgroups->read_usage(seen.fds[0], &used);
    CHECK_INT(used.memory_peak_bytes, UINT64_C(1) << 60); /* a peak never decreases */
    fd_close_all(seen.fds, seen.n_fds);

    seen.answers = 0;
    instance_measure(p, on_answer, &seen);
    RUN_UNTIL(&w, seen.answers == 1);
    CHECK(seen.ok && seen.usage.pids >= 2);

    instance_pause(p, on_answer, &seen);
    instance_resume(p, on_answer, &seen);
    instance_kill_exec_cgroup(p, 1, on_answer, &seen);
    RUN_UNTIL(&w, seen.answers == 4);
    CHECK(seen.ok);

    instance_pause(p, on_answer, &seen);
    RUN_UNTIL(&w, seen.answers == 5);
    instance_stop(p); /* frozen or not */
    instance_stop(p);
    RUN_UNTIL(&w, seen.gone == 1);
    CHECK_INT(seen.failed, 0);
    close(link);
    driver_discard(w.driver, "sb-one", true, NULL, NULL);
    world_close(&w);
}

TEST(native_slots_are_unique_and_reused) {
    if (!is_root())
        return;
    world_open(&w);
    int64_t first = driver_take_slot(w.driver), second = driver_take_slot(w.driver);
    CHECK(first >= 0 && second >= 0 && first != second);
    CHECK(driver_keep_slot(w.driver, (uint64_t)first));
    CHECK(!driver_keep_slot(w.driver, 65000)); /* no such slot */
    unsigned taken = 2;
    while (driver_take_slot(w.driver) >= 0)
        taken++;
    CHECK_INT(taken, 65000);
    driver_give_slot_back(w.driver, (uint64_t)second);
    CHECK_INT(driver_take_slot(w.driver), second);
    world_close(&w);
}

TEST(native_error_names_what_it_refuses) {
    struct seen one = {0}, two = {0};
    struct err e;
    if (!is_root())
        return;
    world_open(&w);
    struct instance_spec spec = spec_of("sb-open", 1);
    spec.network = INSTANCE_NETWORK_OPEN;
    CHECK(instance_create(w.driver, &spec, &events, &one, &e) == NULL);
    CHECK_INT(e.code, ERR_UNSUPPORTED);
    char longest[100];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    spec = spec_of(longest, 1);
    CHECK(instance_create(w.driver, &spec, &events, &one, &e) == NULL);
    CHECK_INT(e.code, ERR_INVALID_ARGUMENT);
    CHECK(instance_adopt(w.driver, "sb-nobody", &events, &one, &e) == NULL);
    CHECK_INT(e.code, ERR_GUEST_LOST);

    struct instance *p = ready_instance("sb-twin", 1, &one);
    spec = spec_of("sb-other", 1); /* the same uid slot */
    CHECK(instance_create(w.driver, &spec, &events, &two, &e) != NULL);
    RUN_UNTIL(&w, two.failed == 1);
    CHECK_INT(two.code, ERR_SANDBOX_EXISTS);
    instance_stop(p);
    RUN_UNTIL(&w, one.gone == 1);
    world_close(&w);
}

TEST(native_instances_outlive_the_driver_and_are_adopted) {
    struct seen before = {0}, after = {0};
    struct err e;
    if (!is_root())
        return;
    world_open(&w);
    struct instance *p = ready_instance("sb-lasting", 3, &before);
    int link = link_to(&w, p);
    close(link);
    spawn_stop(&w); /* berm-spawn and the driver end; the sandbox does not */
    CHECK_INT(before.gone, 0);

    spawn_start(&w);
    const char *kept[300]; /* more than fit into one message */
    for (size_t i = 0; i < COUNT_OF(kept); i++)
        kept[i] = i == 299 ? "sb-lasting" : "sb-another";
    driver_sweep(w.driver, kept, COUNT_OF(kept), on_swept, &w);
    RUN_UNTIL(&w, w.swept == 2);
    p = instance_adopt(w.driver, "sb-lasting", &events, &after, &e);
    CHECK(p != NULL);
    link = instance_connect(p, &e);
    CHECK(link >= 0);
    close(link);
    instance_stop(p);
    RUN_UNTIL(&w, after.gone == 1);
    world_close(&w);
}

/* --- adopted without a connection --- */

static int count_fds(void) {
    int n = 0;
    DIR *list = opendir("/proc/self/fd");
    while (readdir(list))
        n++;
    closedir(list);
    return n;
}

static pid_t pid_of_guest(int link) {
    struct ucred peer = {0};
    socklen_t n = sizeof peer;
    CHECK_INT(getsockopt(link, SOL_SOCKET, SO_PEERCRED, &peer, &n), 0);
    CHECK(peer.pid > 1);
    return peer.pid;
}

/* Leaves a guest of one driver behind and starts another driver. Returns the guest's pid. */
static pid_t left_behind(const char *id) {
    struct seen before = {0};
    world_open(&w);
    int link = link_to(&w, ready_instance(id, 8, &before));
    pid_t pid = pid_of_guest(link);
    close(link);
    spawn_stop(&w);
    spawn_start(&w);
    return pid;
}

static bool has_ended(int pid_fd, int within_ms) {
    struct pollfd end = {.fd = pid_fd, .events = POLLIN};
    return poll(&end, 1, within_ms) == 1;
}

static void kill_guest(pid_t pid) {
    int pid_fd = pidfd_open(pid, 0);
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK(has_ended(pid_fd, 30000));
    close(pid_fd);
}

/* Adopts an instance through the list alone: no connection exists, so nothing watches it. */
static struct instance *adopt_unmet(const char *id, struct seen *seen) {
    struct err e;
    int before = count_fds();
    struct instance *p = instance_adopt(w.driver, id, &events, seen, &e);
    CHECK(p != NULL);
    CHECK_INT(count_fds(), before);
    return p;
}

TEST(native_adopts_a_listening_guest) {
    struct seen seen = {0};
    struct err e;
    if (!is_root())
        return;
    pid_t pid = left_behind("sb-quiet");
    struct instance *p = adopt_unmet("sb-quiet", &seen);
    int before = count_fds();
    CHECK_INT(instance_watch_exit(p), 0);
    CHECK_INT(count_fds(), before + 2); /* the connection and the pidfd */
    CHECK_INT(instance_watch_exit(p), 0);
    int link = instance_connect(p, &e);
    CHECK_INT(pid_of_guest(link), pid);
    CHECK_INT(count_fds(), before + 2);
    close(link);
    kill_guest(pid);
    RUN_UNTIL(&w, seen.gone == 1);
    world_close(&w);
}

TEST(native_reports_the_exit_of_an_unwatched_guest) {
    if (!is_root())
        return;
    for (int by_link = 0; by_link < 2; by_link++) {
        struct seen seen = {0};
        struct err e;
        pid_t pid = left_behind("sb-unmet");
        struct instance *p = adopt_unmet("sb-unmet", &seen);
        kill_guest(pid);
        if (by_link) {
            CHECK(instance_connect(p, &e) < 0);
            CHECK_INT(e.code, ERR_GUEST_LOST);
        } else {
            CHECK_INT(instance_watch_exit(p), 0);
        }
        CHECK_INT(seen.gone, 0); /* never inside the call */
        RUN_UNTIL(&w, seen.gone == 1);
        world_close(&w);
    }
}

TEST(native_reports_a_failed_watch_exit) {
    if (!is_root())
        return;
    for (int is_dead = 0; is_dead < 2; is_dead++) {
        struct seen seen = {0};
        struct rlimit files, none;
        pid_t pid = left_behind("sb-short");
        struct instance *p = adopt_unmet("sb-short", &seen);
        if (is_dead)
            kill_guest(pid);
        CHECK_INT(getrlimit(RLIMIT_NOFILE, &files), 0);
        none = files;
        none.rlim_cur = 0;
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
        CHECK(instance_watch_exit(p) < 0);
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &files), 0);
        CHECK_INT(instance_watch_exit(p), 0);
        if (!is_dead)
            kill_guest(pid);
        RUN_UNTIL(&w, seen.gone == 1);
        world_close(&w);
    }
}

TEST(native_stops_an_unwatched_guest) {
    if (!is_root())
        return;
    for (int is_dead = 0; is_dead < 2; is_dead++) {
        struct seen seen = {0};
        pid_t pid = left_behind("sb-stopped");
        int pid_fd = pidfd_open(pid, 0);
        struct instance *p = adopt_unmet("sb-stopped", &seen);
        if (is_dead)
            kill_guest(pid);
        instance_stop(p);
        RUN_UNTIL(&w, seen.gone == 1);
        CHECK(has_ended(pid_fd, 0));
        close(pid_fd);
        world_close(&w);
    }
}

static unsigned n_lost;
static void on_lost(struct driver *d) {
    (void)d;
    n_lost++;
}

TEST(native_stops_an_unwatched_guest_without_berm_spawn) {
    struct seen seen = {0};
    if (!is_root())
        return;
    pid_t pid = left_behind("sb-orphan");
    int pid_fd = pidfd_open(pid, 0);
    struct instance *p = adopt_unmet("sb-orphan", &seen);
    w.driver->on_lost = on_lost;
    kill(w.spawn_pid, SIGKILL);
    RUN_UNTIL(&w, n_lost == 1);
    instance_stop(p); /* through the pidfd that only a connection provides */
    RUN_UNTIL(&w, seen.gone == 1);
    CHECK(has_ended(pid_fd, 0));
    close(pid_fd);
    spawn_again();
    world_close(&w);
}

TEST(native_does_not_adopt_an_ended_guest) {
    struct seen seen = {0};
    struct err e;
    if (!is_root())
        return;
    pid_t pid = left_behind("sb-dead");
    kill_guest(pid);
    CHECK(instance_adopt(w.driver, "sb-dead", &events, &seen, &e) == NULL);
    CHECK_INT(e.code, ERR_GUEST_LOST);
    driver_discard(w.driver, "sb-dead", true, NULL, NULL);
    world_close(&w);
}

/* In another network namespace the kernel does not list the guest's socket, but connecting
 * works. */
TEST(native_adopts_unlisted_guests_by_connecting) {
    struct seen seen = {0};
    struct err e;
    if (!is_root())
        return;
    pid_t pid = left_behind("sb-unlisted");
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CHECK_INT(unshare(CLONE_NEWNET), 0);
    int before = count_fds();
    struct instance *p = instance_adopt(w.driver, "sb-unlisted", &events, &seen, &e);
    CHECK(p != NULL);
    CHECK_INT(count_fds(), before + 2);
    CHECK_INT(setns(home, CLONE_NEWNET), 0);
    close(home);
    kill_guest(pid);
    RUN_UNTIL(&w, seen.gone == 1);
    world_close(&w);
}

TEST(native_fails_pending_requests_when_berm_spawn_is_killed) {
    struct seen made = {0}, late = {0};
    struct err e;
    if (!is_root())
        return;
    world_open(&w);
    struct instance *p = ready_instance("sb-first", 4, &made);
    kill(w.spawn_pid, SIGSTOP); /* so that the next request stays pending */
    struct instance_spec spec = spec_of("sb-second", 5);
    CHECK(instance_create(w.driver, &spec, &events, &late, &e) != NULL);
    instance_measure(p, on_answer, &made);
    uv_run(&w.loop, UV_RUN_NOWAIT);
    kill(w.spawn_pid, SIGKILL);
    RUN_UNTIL(&w, late.failed == 1 && made.answers == 1);
    CHECK_INT(late.code, ERR_DRIVER_UNAVAILABLE);
    CHECK(!made.ok);
    CHECK_INT(made.code, ERR_DRIVER_UNAVAILABLE); /* pending requests get the error too */
    CHECK_INT(made.gone, 0);
    spec = spec_of("sb-third", 6);
    CHECK(instance_create(w.driver, &spec, &events, &late, &e) == NULL);
    CHECK_INT(e.code, ERR_DRIVER_UNAVAILABLE);
    instance_stop(p); /* through its pidfd */
    RUN_UNTIL(&w, made.gone == 1);
    spawn_again();
    world_close(&w);
}

/* Closes the driver or releases the instance inside each of its callbacks. */
static void on_ready_close(struct instance *p) {
    ((struct seen *)p->user)->ready++;
    instance_close(p);
}
static const struct instance_events closers = {on_ready_close, on_failed, on_gone};

TEST(native_instances_may_be_released_inside_their_callbacks) {
    struct seen seen = {0}, again = {0};
    struct err e;
    if (!is_root())
        return;
    world_open(&w);
    struct instance_spec spec = spec_of("sb-letgo", 7);
    CHECK(instance_create(w.driver, &spec, &closers, &seen, &e) != NULL);
    RUN_UNTIL(&w, seen.ready == 1);
    struct instance *p = NULL;
    for (int turns = 0; !p && turns < 60000; turns++, usleep(500)) /* until it listens */
        p = instance_adopt(w.driver, "sb-letgo", &events, &again, &e);
    CHECK(p != NULL);
    instance_stop(p);
    RUN_UNTIL(&w, again.gone == 1);
    CHECK_INT(seen.gone, 0);
    world_close(&w);
}
