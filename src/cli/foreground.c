/* A program in the foreground: prints its output, sends our input, forwards our signals.
 *
 * The main thread reads the output. A second thread with its own client sends the input, because a
 * program that does not read must not block its output. The main thread gets signals through a
 * signalfd, which the client polls while it waits. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "base/fd.h"
#include "cli/cli.h"

#define ACK_BYTES ((uint64_t)4 << 20) /* maximum output between two acknowledgements */
/* longest time between two acknowledgements, because the program may block before ACK_BYTES
 * arrive */
#define ACK_NS 100000000
#define INPUT_BYTES ((size_t)64 * 1024)
#define RECONNECT_MS 30000
#define RUN_INPUT_BYTES ((size_t)1 << 20)

struct foreground {
    struct cli *cli;
    char *exec_id;
    char reader_id[32]; /* our name as a reader; empty: the program does not wait for us */
    uint64_t offset[2]; /* offsets in stdout and stderr up to which we have written */
    uint64_t acked;     /* acknowledged bytes of both streams together */
    uint64_t ack_bytes; /* output between two acknowledgements; at most 1/4 of the output limit */
    int signal;         /* the signal that ended our wait */
    unsigned signals;   /* number of signals received */
    int write_error;    /* errno of a failed write to our own output */
    int status;
    bool ended;
    int signal_fd, timer_fd; /* the timer is set while an acknowledgement is pending */
    int wake_fd;             /* an epoll of signal_fd and timer_fd */
};

/* --- output --- */

static void set_timer(const struct foreground *f, long ns) {
    struct itimerspec when = {.it_value.tv_nsec = ns};
    timerfd_settime(f->timer_fd, 0, &when, NULL);
}

static int acknowledge(struct foreground *f, bool release) {
    struct berm_error e;
    Berm__V1__AckOutputRequest ack = BERM__V1__ACK_OUTPUT_REQUEST__INIT;
    if (f->reader_id[0] == '\0')
        return 0;
    ack.exec_id = f->exec_id;
    ack.reader_id = f->reader_id;
    ack.stdout_offset = f->offset[0];
    ack.stderr_offset = f->offset[1];
    ack.release = release;
    set_timer(f, 0);
    f->acked = f->offset[0] + f->offset[1];
    int r = berm_exec_ack(f->cli->client, &ack, NULL, &e);
    if (r < 0 && !release)
        cli_fail(f->cli, &e);
    return r;
}

static int on_chunk(struct foreground *f, const Berm__V1__OutputChunk *chunk) {
    bool is_stderr = chunk->stream == BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;
    int r =
        fd_write_all(is_stderr ? STDERR_FILENO : STDOUT_FILENO, chunk->data.data, chunk->data.len);
    if (r < 0) {
        f->write_error = -r;
        return 1;
    }
    f->offset[is_stderr] = chunk->offset + chunk->data.len;
    if (f->reader_id[0] == '\0')
        return 0;
    if (f->offset[0] + f->offset[1] >= f->acked + f->ack_bytes)
        return acknowledge(f, false) < 0;
    set_timer(f, ACK_NS);
    return 0;
}

static int on_output(const Berm__V1__AttachExecResponse *m, void *user) {
    struct foreground *f = user;
    switch ((int)m->event_case) {
    case BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_OUTPUT:
        return on_chunk(f, m->output);
    case BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_GAP:
        cli_complain("%llu bytes of output were dropped",
                     (unsigned long long)(m->gap->next_offset - m->gap->offset));
        return 0;
    case BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_EXITED:
        f->ended = true;
        f->status = exit_status_of(m->exited->exit);
        return 0;
    default:
        return 0;
    }
}

/* --- signals --- */

/* Forwards the first signal to the program. The second signal ends our wait for the program. */
static int on_signal(struct foreground *f) {
    struct signalfd_siginfo info;
    struct berm_error e;
    Berm__V1__SignalExecRequest request = BERM__V1__SIGNAL_EXEC_REQUEST__INIT;
    if (read(f->signal_fd, &info, sizeof info) != sizeof info)
        return 0;
    f->signal = (int)info.ssi_signo;
    if (++f->signals > 1 || !f->exec_id)
        return 1;
    request.exec_id = f->exec_id;
    request.signal_number = f->signal;
    int r = berm_exec_signal(f->cli->client, &request, NULL, &e);
    if (r == -(int)BERM_CANCELLED)
        return 1; /* the second signal came before the first was forwarded */
    if (r < 0 && e.code != BERM_EXEC_ENDED)
        cli_fail(f->cli, &e);
    return 0;
}

static int on_wake(void *user) {
    struct foreground *f = user;
    uint64_t times;
    if (read(f->timer_fd, &times, sizeof times) == sizeof times && acknowledge(f, false) < 0)
        return 1;
    return on_signal(f);
}

/* Makes our signals and the timer interrupt the client's waits. */
static void watch(struct foreground *f) {
    struct epoll_event event = {.events = EPOLLIN};
    f->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    f->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(f->wake_fd, EPOLL_CTL_ADD, f->timer_fd, &event);
    epoll_ctl(f->wake_fd, EPOLL_CTL_ADD, f->signal_fd, &event);
    berm_client_set_wake(f->cli->client, f->wake_fd, on_wake, f);
}

struct foreground *foreground_begin(struct cli *cli) {
    struct foreground *f = cli_alloc(cli, sizeof *f);
    sigset_t set;
    f->cli = cli;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    f->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    watch(f);
    return f;
}

int foreground_signal(const struct foreground *f) {
    return f->signal;
}

void foreground_end(struct foreground *f) {
    berm_client_set_wake(f->cli->client, -1, NULL, NULL);
    close(f->wake_fd);
    close(f->timer_fd);
    close(f->signal_fd);
}

/* --- input --- */

/* Sends our input until it ends or the program accepts no more. The main thread reports what
 * happened to the program. */
static void *feed(void *user) {
    struct foreground *f = user;
    struct berm_error e;
    static const enum berm_code expected[] = {BERM_EXEC_ENDED, BERM_STDIN_CLOSED,
                                              BERM_EXEC_NOT_FOUND};
    uint8_t bytes[INPUT_BYTES];
    uint64_t offset = 0;
    Berm__V1__CloseStdinRequest end = BERM__V1__CLOSE_STDIN_REQUEST__INIT;
    Berm__V1__GetExecRequest get = BERM__V1__GET_EXEC_REQUEST__INIT;
    Berm__V1__GetExecResponse *now;
    struct berm_client *client = cli_client(f->cli, RECONNECT_MS);
    get.exec_id = end.exec_id = f->exec_id;
    int r = client ? berm_exec_get(client, &get, &now, &e) : -1;
    if (r == 0) {
        offset = now->exec->input ? now->exec->input->next_offset : 0;
        berm_free(now);
    }
    while (r == 0) {
        ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        r = berm_exec_feed(client, f->exec_id, &offset, bytes, (size_t)n, &e);
    }
    end.offset = offset;
    if (r == 0)
        r = berm_exec_close_stdin(client, &end, NULL, &e);
    for (size_t i = 0; i < COUNT_OF(expected) && r < 0; i++)
        if (e.code == expected[i])
            r = 0;
    if (r < 0)
        cli_fail(f->cli, &e);
    berm_client_free(client);
    return NULL;
}

static bool start_feeding(struct foreground *f) {
    pthread_t thread;
    f->cli->feeds = pthread_create(&thread, NULL, feed, f) == 0;
    if (!f->cli->feeds)
        cli_complain("cannot start a thread for the input");
    return f->cli->feeds;
}

/* --- run and attach --- */

/* Handles a failed write to our output. Sends SIGPIPE to a program that we started, as the kernel
 * does in a local pipeline. */
static int leave_unread(struct foreground *f, bool owns) {
    Berm__V1__SignalExecRequest request = BERM__V1__SIGNAL_EXEC_REQUEST__INIT;
    request.exec_id = f->exec_id;
    request.signal_number = SIGPIPE;
    acknowledge(f, true);
    if (owns)
        berm_exec_signal(f->cli->client, &request, NULL, NULL);
    if (f->write_error == EPIPE)
        return EXIT_SIGNAL + SIGPIPE;
    return cli_complain("cannot write the output: %s", strerror(f->write_error));
}

static int follow(struct foreground *f, Berm__V1__AttachExecRequest *request, bool owns) {
    struct berm_error e;
    int r = berm_exec_attach(f->cli->client, request, on_output, f, &e);
    if (f->write_error != 0)
        return leave_unread(f, owns);
    if (f->ended)
        acknowledge(f, true);
    if (r == -(int)BERM_CANCELLED && f->signal != 0) {
        acknowledge(f, true);
        return EXIT_SIGNAL + f->signal;
    }
    if (r < 0)
        return cli_fail(f->cli, &e);
    return f->ended ? f->status : r > 0 ? EXIT_BERM : 0;
}

int start_failed(struct cli *cli, const struct berm_error *e) {
    cli_fail(cli, e);
    return e->code == BERM_PROGRAM_NOT_FOUND        ? EXIT_NOT_FOUND
           : e->code == BERM_PROGRAM_NOT_EXECUTABLE ? EXIT_NOT_EXECUTABLE
                                                    : EXIT_BERM;
}

/* Reads our whole input, up to the maximum of one request. */
static bool read_input(struct cli *cli, ProtobufCBinaryData *ret_data) {
    ret_data->data = cli_alloc(cli, RUN_INPUT_BYTES + 1);
    while (ret_data->len <= RUN_INPUT_BYTES) {
        ssize_t n =
            read(STDIN_FILENO, ret_data->data + ret_data->len, RUN_INPUT_BYTES + 1 - ret_data->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return true;
        ret_data->len += (size_t)n;
    }
    cli_complain("standard input: must be at most 1 MiB with --json");
    return false;
}

/* With --json: prints one response, including the output, at the end. */
static int run_json(struct foreground *f, char *sandbox_id, Berm__V1__ExecSpec *spec, bool input) {
    struct berm_error e;
    Berm__V1__RunExecRequest request = BERM__V1__RUN_EXEC_REQUEST__INIT;
    Berm__V1__RunExecResponse *done;
    request.sandbox_id = sandbox_id;
    request.spec = spec;
    spec->output_policy = BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_DROP_OLDEST;
    if (opt_has(f->cli, "exec-id"))
        request.exec_id = opt_get(f->cli, "exec-id");
    if (input && !read_input(f->cli, &request.stdin_data))
        return EXIT_BERM;
    if (berm_exec_run(f->cli->client, &request, &done, &e) < 0)
        return e.code == BERM_CANCELLED ? EXIT_SIGNAL + f->signal : start_failed(f->cli, &e);
    cli_print_json(done);
    int status = exit_status_of(done->exec->exit);
    berm_free(done);
    return status;
}

/* With policy BLOCK, the program waits until a reader of this name acknowledges its output. */
static void name_reader(struct foreground *f, Berm__V1__AttachExecRequest *attach,
                        const Berm__V1__ExecSpec *spec) {
    f->ack_bytes = ACK_BYTES;
    if (spec && spec->output_limit_bytes > 0)
        f->ack_bytes = MIN(ACK_BYTES, (uint64_t)spec->output_limit_bytes / 4);
    snprintf(f->reader_id, sizeof f->reader_id, "berm-%s", cli_random(f->cli));
    attach->reader_id = f->reader_id;
}

int foreground_run(struct foreground *f, char *sandbox_id, Berm__V1__ExecSpec *spec, bool input) {
    struct berm_error e;
    Berm__V1__StartExecRequest start = BERM__V1__START_EXEC_REQUEST__INIT;
    Berm__V1__StartExecResponse *started;
    Berm__V1__AttachExecRequest attach = BERM__V1__ATTACH_EXEC_REQUEST__INIT;
    if (f->cli->json)
        return run_json(f, sandbox_id, spec, input);
    start.sandbox_id = sandbox_id;
    start.spec = spec;
    if (opt_has(f->cli, "exec-id"))
        start.exec_id = opt_get(f->cli, "exec-id");
    if (spec->terminal && input) {
        Berm__V1__InteractRequest first = BERM__V1__INTERACT_REQUEST__INIT;
        spec->output_policy = BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_DROP_OLDEST;
        first.part_case = BERM__V1__INTERACT_REQUEST__PART_START;
        first.start = &start;
        return terminal_run(f->cli, &first);
    }
    if (input)
        spec->stdin_mode = BERM__V1__STDIN_MODE__STDIN_MODE_PIPE;
    if (berm_exec_start(f->cli->client, &start, &started, &e) < 0)
        return e.code == BERM_CANCELLED ? EXIT_SIGNAL + f->signal : start_failed(f->cli, &e);
    cli_keep(f->cli, started);
    attach.exec_id = f->exec_id = started->exec->exec_id;
    if (spec->output_policy == BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_BLOCK)
        name_reader(f, &attach, started->exec->spec);
    if (input && !start_feeding(f))
        return EXIT_BERM;
    return follow(f, &attach, true);
}

int foreground_attach(struct cli *cli, Berm__V1__AttachExecRequest *request, bool input) {
    struct foreground *f = cli_alloc(cli, sizeof *f);
    f->cli = cli;
    f->exec_id = request->exec_id;
    signal(SIGPIPE, SIG_IGN);
    if (input && !start_feeding(f))
        return EXIT_BERM;
    return follow(f, request, false);
}
