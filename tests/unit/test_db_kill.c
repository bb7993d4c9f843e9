/* Checks that committed txns survive kill -9 at any time, and that no partial txn exists. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "db_fixture.h"

static struct db_fixture f;
static char page[4096];
static const struct str record = {page, sizeof page};

/* Each txn is an event and the sandbox of the same number. The child reports durable ones over the
 * pipe. */
static int report_fd;
static uint64_t given, durable;

static void on_durable(void *user, const struct err *e) {
    (void)user;
    if (e)
        _exit(1);
    durable++;
    if (write(report_fd, &durable, sizeof durable) != sizeof durable)
        _exit(1);
}

static void put_pair(uint64_t number) {
    char id[32];
    int n = snprintf(id, sizeof id, "box-%llu", (unsigned long long)number);
    struct db_txn *t = db_begin(f.db);
    struct db_event event = db_event_of(number, record);
    db_put_event(t, &event);
    db_put_sandbox(
        t, &(struct db_sandbox){
               .id = {id, (size_t)n}, .owner = STR("me"), .number = number, .record = record});
    db_commit(t, on_durable, NULL);
}

static void write_until_killed(void) {
    if (db_start(&f) < 0)
        _exit(1);
    given = durable = f.facts.head_sequence;
    for (;;) {
        while (given < durable + 8)
            put_pair(++given);
        uv_run(&f.loop, UV_RUN_ONCE);
    }
}

static uint64_t run_and_kill(unsigned after_us) {
    int pipe_fds[2], status = 0;
    uint64_t reported = 0;
    CHECK_INT(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(pipe_fds[0]);
        report_fd = pipe_fds[1];
        write_until_killed();
    }
    close(pipe_fds[1]);
    CHECK_INT(read(pipe_fds[0], &reported, sizeof reported),
              sizeof reported); /* the child is running */
    fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    usleep(after_us);
    kill(pid, SIGKILL);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    while (read(pipe_fds[0], &reported, sizeof reported) == sizeof reported)
        ;
    close(pipe_fds[0]);
    return reported;
}

static bool see_next(void *user, const struct db_event *row) {
    return ++*(uint64_t *)user == row->sequence;
}

TEST(db_keeps_committed_txns_after_kill_9) {
    uint64_t last = 0;
    unsigned random = (unsigned)uv_hrtime();
    printf("# random moments from %u\n", random);
    db_make_dir(&f);
    for (int round = 0; round < 20; round++) {
        uint64_t reported = run_and_kill((unsigned)rand_r(&random) % 20000), n = 0;
        CHECK(reported > last);
        CHECK_INT(db_start(&f), 0);
        CHECK(f.facts.head_sequence >= reported);
        CHECK_INT(f.facts.sandbox_number, f.facts.head_sequence); /* only complete txns */
        CHECK_INT(db_list_events(f.db, STR(""), 0, see_next, &n, &f.e), 0);
        CHECK_INT(n, f.facts.head_sequence);
        last = f.facts.head_sequence;
        db_stop(&f);
    }
    db_remove_dir(&f);
}
