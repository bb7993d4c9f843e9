/* The state machines of an exec in the guest. Each test lists the legal transitions of one enum,
 * takes each of them, and shows that every other pair of states aborts. */
#include "guest/exec/exec_state.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define STATES_MAX 8

struct transition {
    unsigned from, to;
};

/* Sets the state from `from` to `to` and returns the state after that. */
typedef unsigned set_fn(unsigned from, unsigned to);

#define SETTER(name, type)                                   \
    static unsigned set_##name(unsigned from, unsigned to) { \
        enum type state = (enum type)from;                   \
        exec_state_set_##name(&state, (enum type)to);        \
        return (unsigned)state;                              \
    }
SETTER(life, exec_life)
SETTER(processes, exec_processes)
SETTER(cause, exec_cause)
SETTER(kill, exec_kill)
SETTER(stream, exec_stream)
SETTER(disk, exec_disk)
SETTER(stdin, exec_stdin)

/* Returns the signal that ended a child which makes the transition, or 0. */
static int signal_of(set_fn *set, unsigned from, unsigned to) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 2); /* where assert prints */
        set(from, to);
        _exit(0);
    }
    int status = 0;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void check_transitions(set_fn *set, unsigned count, const struct transition *legal,
                              size_t n_legal) {
    bool is_legal[STATES_MAX][STATES_MAX] = {{false}};
    for (size_t i = 0; i < n_legal; i++) {
        CHECK_INT(set(legal[i].from, legal[i].to), legal[i].to);
        is_legal[legal[i].from][legal[i].to] = true;
    }
#ifndef NDEBUG
    for (unsigned from = 0; from < count; from++)
        for (unsigned to = 0; to < count; to++)
            if (!is_legal[from][to] && !CHECK_INT(signal_of(set, from, to), SIGABRT))
                fprintf(stderr, "# transition %u to %u is illegal\n", from, to);
#else
    (void)count;
#endif
}
#define CHECK_TRANSITIONS(set, count, ...)                                    \
    do {                                                                      \
        static const struct transition legal[] = {__VA_ARGS__};               \
        _Static_assert((count) <= STATES_MAX, "STATES_MAX is too small");     \
        check_transitions(set, count, legal, sizeof legal / sizeof legal[0]); \
    } while (0)

TEST(guest_exec_life_allows_only_its_transitions) {
    CHECK_TRANSITIONS(set_life, EXEC_LIFE_COUNT, {EXEC_STARTING, EXEC_RUNNING},
                      {EXEC_STARTING, EXEC_RECORDING}, {EXEC_RUNNING, EXEC_DRAINING},
                      {EXEC_DRAINING, EXEC_RECORDING}, {EXEC_RECORDING, EXEC_EXITED},
                      {EXEC_EXITED, EXEC_LINGERING}, {EXEC_EXITED, EXEC_FREED},
                      {EXEC_LINGERING, EXEC_FREED});
}

TEST(guest_exec_processes_allow_only_their_transitions) {
    CHECK_TRANSITIONS(
        set_processes, PROCESSES_COUNT, {PROCESSES_NONE, PROCESSES_LEADER},
        {PROCESSES_LEADER, PROCESSES_REPORTED}, {PROCESSES_LEADER, PROCESSES_DESCENDANTS},
        {PROCESSES_REPORTED, PROCESSES_DESCENDANTS}, {PROCESSES_DESCENDANTS, PROCESSES_NONE});
}

TEST(guest_exec_cause_allows_only_its_transitions) {
    CHECK_TRANSITIONS(set_cause, CAUSE_COUNT, {CAUSE_NONE, CAUSE_TIMEOUT},
                      {CAUSE_NONE, CAUSE_OUTPUT_LIMIT}, {CAUSE_TIMEOUT, CAUSE_OUTPUT_LIMIT});
}

TEST(guest_exec_kill_allows_only_its_transitions) {
    CHECK_TRANSITIONS(set_kill, KILL_COUNT, {KILL_NONE, KILL_LEADER},
                      {KILL_NONE, KILL_DESCENDANTS});
}

TEST(guest_exec_stream_allows_only_its_transitions) {
    CHECK_TRANSITIONS(set_stream, STREAM_STATE_COUNT, {STREAM_CLOSED, STREAM_OPEN},
                      {STREAM_OPEN, STREAM_PARKED}, {STREAM_OPEN, STREAM_CLOSED},
                      {STREAM_PARKED, STREAM_OPEN}, {STREAM_PARKED, STREAM_CLOSED});
}

TEST(guest_exec_disk_allows_only_its_transitions) {
    CHECK_TRANSITIONS(set_disk, DISK_COUNT, {DISK_WRITABLE, DISK_FULL}, {DISK_FULL, DISK_WRITABLE},
                      {DISK_FULL, DISK_LOSSY});
}

TEST(guest_exec_stdin_allows_only_its_transitions) {
    CHECK_TRANSITIONS(set_stdin, STDIN_COUNT, {STDIN_OPEN, STDIN_CLOSING},
                      {STDIN_OPEN, STDIN_CLOSED}, {STDIN_OPEN, STDIN_BROKEN},
                      {STDIN_CLOSING, STDIN_CLOSED}, {STDIN_BROKEN, STDIN_CLOSING},
                      {STDIN_BROKEN, STDIN_CLOSED});
}
