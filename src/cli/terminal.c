/* Connects a program with our terminal, over Interact.
 *
 * One thread: while the client waits for output, it polls an epoll of our input and our signals. We
 * do not read input that the program does not accept yet. In raw mode, keys such as Ctrl-C are
 * bytes for the program's terminal; Ctrl-P Ctrl-Q detaches. Signals that would end us detach, too;
 * the program keeps running. */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

#include "base/fd.h"
#include "cli/cli.h"

#define KEY_P 0x10 /* Ctrl-P; berm holds it until the next key */
#define KEY_Q 0x11
#define INPUT_BYTES 4096

struct terminal {
    struct cli *cli;
    struct berm_session *session;
    char *exec_id;
    int epoll_fd, signal_fd;
    bool is_raw;
    struct termios saved;
    bool reads;       /* our input is in the epoll */
    bool input_ended; /* our input is closed */
    bool held_p;      /* a Ctrl-P was typed, and the next key decides */
    int signal;       /* the signal that made us detach */
    int write_error;
    int status;
    bool ended;
};

static bool size_of_ours(struct winsize *size) {
    return (ioctl(STDOUT_FILENO, TIOCGWINSZ, size) == 0 ||
            ioctl(STDIN_FILENO, TIOCGWINSZ, size) == 0) &&
           size->ws_col > 0 && size->ws_row > 0;
}

Berm__V1__Terminal *terminal_fill(struct cli *cli) {
    struct winsize ours;
    const char *term = getenv("TERM");
    Berm__V1__Terminal *t = cli_alloc(cli, sizeof *t);
    berm__v1__terminal__init(t);
    if (term && term[0] != '\0')
        t->term = cli_text(cli, "%s", term);
    if (size_of_ours(&ours)) {
        t->size = cli_alloc(cli, sizeof *t->size);
        berm__v1__terminal_size__init(t->size);
        t->size->cols = ours.ws_col;
        t->size->rows = ours.ws_row;
    }
    return t;
}

/* --- our side --- */

static void raw_mode(struct terminal *t) {
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &t->saved) < 0)
        return;
    raw = t->saved;
    cfmakeraw(&raw);
    t->is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void restore(struct terminal *t) {
    if (t->is_raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
    t->is_raw = false;
}

static void watch_input(struct terminal *t, bool wanted) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    wanted = wanted && !t->input_ended;
    if (wanted == t->reads)
        return;
    t->reads = wanted;
    if (epoll_ctl(t->epoll_fd, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, STDIN_FILENO, &event) < 0)
        t->reads = false; /* epoll refuses a regular file; more_input reads it */
}

/* Removes the keys that are meant for berm. Returns true if they mean detach. `keys` must have
 * space for one more byte. */
static bool filter(struct terminal *t, uint8_t *keys, size_t *n) {
    uint8_t in[INPUT_BYTES];
    size_t out = 0;
    memcpy(in, keys, *n);
    for (size_t i = 0; i < *n; i++) {
        if (t->held_p && in[i] == KEY_Q)
            return true;
        if (t->held_p)
            keys[out++] = KEY_P;
        t->held_p = in[i] == KEY_P;
        if (!t->held_p)
            keys[out++] = in[i];
    }
    *n = out;
    return false;
}

/* Returns 1 if the user detaches. */
static int take_input(struct terminal *t) {
    uint8_t keys[INPUT_BYTES + 1];
    size_t room = berm_session_room(t->session);
    if (room <= 1) {
        watch_input(t, false); /* more_input resumes after INPUT_ACCEPTED */
        return 0;
    }
    ssize_t r = read(STDIN_FILENO, keys, MIN(room - 1, (size_t)INPUT_BYTES));
    if (r < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (r <= 0) {
        t->input_ended = true;
        watch_input(t, false);
        berm_session_end_input(t->session);
        return 0;
    }
    size_t n = (size_t)r;
    if (t->is_raw && filter(t, keys, &n)) {
        t->cli->detached = true;
        return 1;
    }
    berm_session_write(t->session, keys, n);
    return 0;
}

/* Called when the session has space for input. Reads a regular file directly, because epoll refuses
 * it. Returns 1 if the user detaches. */
static int more_input(struct terminal *t) {
    watch_input(t, true);
    while (!t->reads && !t->input_ended && berm_session_room(t->session) > 1)
        if (take_input(t) != 0)
            return 1;
    return 0;
}

static int take_signal(struct terminal *t) {
    struct signalfd_siginfo info;
    struct winsize ours;
    if (read(t->signal_fd, &info, sizeof info) != sizeof info)
        return 0;
    if (info.ssi_signo != SIGWINCH) {
        t->signal = (int)info.ssi_signo;
        return 1;
    }
    if (size_of_ours(&ours))
        berm_session_resize(t->session, ours.ws_col, ours.ws_row);
    return 0;
}

static int on_wake(void *user) {
    struct terminal *t = user;
    struct epoll_event events[2];
    int n = epoll_wait(t->epoll_fd, events, COUNT_OF(events), 0);
    for (int i = 0; i < n; i++) {
        bool is_signal = events[i].data.fd == t->signal_fd;
        if (is_signal ? take_signal(t) : take_input(t))
            return 1;
    }
    return 0;
}

/* --- the program's side --- */

static int write_output(struct terminal *t, const Berm__V1__OutputChunk *chunk) {
    bool is_stderr = chunk->stream == BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;
    int r =
        fd_write_all(is_stderr ? STDERR_FILENO : STDOUT_FILENO, chunk->data.data, chunk->data.len);
    t->write_error = -r;
    return r < 0;
}

static int on_message(const Berm__V1__InteractResponse *m, void *user) {
    struct terminal *t = user;
    struct winsize ours;
    switch ((int)m->event_case) {
    case BERM__V1__INTERACT_RESPONSE__EVENT_ATTACHED:
        t->exec_id = cli_text(t->cli, "%s", m->attached->exec_id);
        if (m->attached->spec && m->attached->spec->terminal && size_of_ours(&ours))
            berm_session_resize(t->session, ours.ws_col, ours.ws_row);
        return more_input(t);
    case BERM__V1__INTERACT_RESPONSE__EVENT_OUTPUT:
        return write_output(t, m->output);
    case BERM__V1__INTERACT_RESPONSE__EVENT_INPUT_ACCEPTED:
        return more_input(t);
    case BERM__V1__INTERACT_RESPONSE__EVENT_EXITED:
        restore(t); /* before printing to stderr */
        t->ended = true;
        t->status = exit_status_of(m->exited->exit);
        return 0;
    default:
        return 0;
    }
}

/* --- the session --- */

static bool terminal_begin(struct terminal *t) {
    sigset_t set;
    static const int leave[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT_OF(leave); i++)
        sigaddset(&set, leave[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    t->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = t->signal_fd};
    if (t->signal_fd < 0 || t->epoll_fd < 0 ||
        epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->signal_fd, &event) < 0)
        return false;
    berm_client_set_wake(t->cli->client, t->epoll_fd, on_wake, t);
    raw_mode(t);
    return true;
}

static int outcome(struct terminal *t, int r, const struct berm_error *e) {
    if (t->ended)
        return t->status;
    if (t->cli->detached) {
        fprintf(stderr, "\nberm: left %s running; come back with `berm attach %s`\n", t->exec_id,
                t->exec_id);
        return 0;
    }
    if (t->signal != 0)
        return EXIT_SIGNAL + t->signal;
    if (t->write_error != 0)
        return cli_complain("cannot write the output: %s", strerror(t->write_error));
    return r < 0 ? start_failed(t->cli, e) : EXIT_BERM;
}

int terminal_run(struct cli *cli, const Berm__V1__InteractRequest *first) {
    struct berm_error e;
    struct terminal t = {.cli = cli, .epoll_fd = -1, .signal_fd = -1};
    t.session = berm_session_new(cli->client, first);
    if (!t.session || !terminal_begin(&t)) {
        berm_session_free(t.session);
        return cli_complain("set up the terminal: %s", strerror(errno));
    }
    int r = berm_session_run(t.session, on_message, &t, &e);
    restore(&t);
    berm_client_set_wake(cli->client, -1, NULL, NULL);
    close(t.epoll_fd);
    close(t.signal_fd);
    berm_session_free(t.session);
    return outcome(&t, r, &e);
}
