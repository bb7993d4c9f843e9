#include "state_walk.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* Returns the signal that ended a child which made the transition, or 0. */
static int signal_of(void (*set)(unsigned from, unsigned to), unsigned from, unsigned to) {
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO); /* hides the log line of the abort */
        set(from, to);
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        ;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool is_listed(const struct state_pair *legal, size_t n, unsigned from, unsigned to) {
    for (size_t i = 0; i < n; i++)
        if (legal[i].from == from && legal[i].to == to)
            return true;
    return from == to;
}

void state_walk(const struct state_table *t, const struct state_pair *legal, size_t n_legal,
                void (*set)(unsigned from, unsigned to)) {
    for (unsigned from = 0; from < t->n_states; from++) {
        CHECK(t->names[from] != NULL);
        for (unsigned to = 0; to < t->n_states; to++) {
            bool is_legal = is_listed(legal, n_legal, from, to);
            if (is_legal)
                set(from, to);
            int signal = is_legal ? 0 : signal_of(set, from, to);
            check(state_may_follow(t, from, to) == is_legal && signal == (is_legal ? 0 : SIGABRT),
                  __FILE__, __LINE__, "%s: %s -> %s is %s, signal %d", t->what, t->names[from],
                  t->names[to], is_legal ? "refused" : "allowed", signal);
        }
    }
}
