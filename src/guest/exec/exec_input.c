#include "guest/exec/exec_input.h"

#include <errno.h>
#include <termios.h>

#include "guest/exec/exec.h"
#include "guest/guest.h"
#include "guest/params.h"

#define CHUNK_MAX 49152

static void exec_input_on_ready(struct source *s, uint32_t events);

void exec_input_init(struct exec_input *in) {
    in->pipe = (struct source){.fd = -1, .on_ready = exec_input_on_ready};
    buf_init(&in->bytes, EXEC_INPUT_WINDOW + 2); /* + 2 for a terminal's end-of-file characters */
}

int exec_input_open(struct exec *x, int fd) {
    return loop_add(&x->guest->loop, &x->input.pipe, fd, 0);
}

static void exec_input_close_pipe(struct exec *x) {
    int fd = loop_remove(&x->guest->loop, &x->input.pipe);
    if (fd >= 0)
        close(fd);
}

void exec_input_close(struct exec *x) {
    exec_input_close_pipe(x);
    if (x->input.state != STDIN_CLOSED)
        exec_state_set_stdin(&x->input.state, STDIN_CLOSED);
    buf_done(&x->input.bytes);
}

static size_t exec_input_window(const struct exec_input *in) {
    return in->state == STDIN_OPEN ? EXEC_INPUT_WINDOW - buf_len(&in->bytes) : 0;
}

/* The terminal has one descriptor for both directions, so its EPOLLOUT belongs to the stdout stream. */
static void exec_input_wait_writable(struct exec *x, bool wait) {
    struct exec_output_stream *out = &x->output.streams[EXEC_STDOUT];
    if (x->terminal < 0)
        loop_set(&x->guest->loop, &x->input.pipe, wait ? EPOLLOUT : 0);
    else if (out->state != STREAM_CLOSED)
        loop_set(&x->guest->loop, &out->source,
                 (exec_output_is_blocked(x) ? 0 : EPOLLIN) | (wait ? EPOLLOUT : 0));
}

/* The program closed its end: nobody reads the buffered bytes. */
static void exec_input_break(struct exec_input *in) {
    if (in->state == STDIN_OPEN)
        exec_state_set_stdin(&in->state, STDIN_BROKEN);
    buf_clear(&in->bytes);
}

void exec_input_push(struct exec *x, bool notify) {
    struct exec_input *in = &x->input;
    int fd = x->terminal >= 0 ? x->terminal : in->pipe.fd;
    while (fd >= 0 && buf_len(&in->bytes) > 0) {
        ssize_t n = write(fd, buf_data(&in->bytes), buf_len(&in->bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            exec_input_break(in);
            break;
        }
        buf_consume(&in->bytes, (size_t)n);
        if (notify)
            exec_report_set(x, NOTICE_STDIN_ROOM);
    }
    bool is_empty = buf_len(&in->bytes) == 0;
    exec_input_wait_writable(x, !is_empty);
    if (!is_empty)
        return;
    buf_trim(&in->bytes);
    if (in->state == STDIN_CLOSING)
        exec_state_set_stdin(&in->state, STDIN_CLOSED);
    if (in->state != STDIN_OPEN)
        exec_input_close_pipe(x);
}

static void exec_input_on_ready(struct source *s, uint32_t events) {
    struct exec *x = container_of(s, struct exec, input.pipe);
    if (events & EPOLLERR) /* the program closed the read end */
        exec_input_break(&x->input);
    exec_input_push(x, true);
}

static int exec_input_check_offset(const struct exec *x, struct request *r, int64_t offset,
                                   struct err *e) {
    uint64_t next = x->input.next_offset;
    if ((uint64_t)offset <= next)
        return 0;
    r->next_offset = (int64_t)next;
    return err_set(e, ERR_STDIN_OFFSET, "offset: must be at most %llu, got %lld",
                   (unsigned long long)next, (long long)offset);
}

static int exec_input_check_open(const struct exec *x, struct err *e) {
    if (exec_check_running(x, e) < 0)
        return -(int)e->code;
    if (x->input.state != STDIN_OPEN)
        return err_set(e, ERR_STDIN_CLOSED, "the input of %s is closed", x->id);
    return 0;
}

/* After a broken connection the daemon repeats bytes. The guest skips those below next_offset. */
int exec_input_method_stdin(struct request *r, struct err *e) {
    struct exec *x;
    int64_t offset;
    struct str data;
    if (exec_of_request(r, &x, e) < 0 ||
        params_need_int(r->params, "offset", 0, PARAMS_OFFSET_MAX, &offset, e) < 0 ||
        params_base64(r->params, "data_b64", &r->guest->arena, CHUNK_MAX, &data, e) < 0 ||
        exec_input_check_open(x, e) < 0 || exec_input_check_offset(x, r, offset, e) < 0)
        return -(int)e->code;
    if (!data.p)
        return params_missing("data_b64", e);
    struct exec_input *in = &x->input;
    exec_input_push(x, false); /* frees the part of the window that the program has read */
    uint64_t known = MIN(in->next_offset - (uint64_t)offset, (uint64_t)data.n);
    data.p += known;
    data.n = MIN(data.n - (size_t)known, exec_input_window(in));
    if (buf_append(&in->bytes, data.p, data.n) < 0)
        return err_set(e, ERR_OUT_OF_MEMORY, "buffer the input of %s: out of memory", x->id);
    if (data.n > 0)
        in->last = data.p[data.n - 1];
    in->next_offset += data.n;
    exec_input_push(x, false);
    json_put_u64(r->out, "next_offset", in->next_offset);
    json_put_u64(r->out, "window_bytes", exec_input_window(in));
    return 0;
}

/* Appends the terminal's end-of-file character. In the middle of a line the first one only submits the
 * line, so a second one follows. */
static int exec_input_append_eof(struct exec *x) {
    struct termios t;
    char eof = 4;
    if (tcgetattr(x->terminal, &t) == 0)
        eof = (char)t.c_cc[VEOF];
    char text[2] = {eof, eof};
    bool in_line = x->input.next_offset > 0 && x->input.last != '\n';
    return buf_append(&x->input.bytes, text, in_line ? 2 : 1);
}

int exec_input_method_close(struct request *r, struct err *e) {
    struct exec *x;
    int64_t offset;
    if (exec_of_request(r, &x, e) < 0 ||
        params_need_int(r->params, "offset", 0, PARAMS_OFFSET_MAX, &offset, e) < 0 ||
        exec_check_running(x, e) < 0)
        return -(int)e->code;
    if (x->input.state == STDIN_CLOSING || x->input.state == STDIN_CLOSED)
        return 0;
    if (exec_input_check_offset(x, r, offset, e) < 0)
        return -(int)e->code;
    if (x->terminal >= 0 && exec_input_append_eof(x) < 0)
        return err_set(e, ERR_OUT_OF_MEMORY, "close the input of %s: out of memory", x->id);
    exec_state_set_stdin(&x->input.state, STDIN_CLOSING);
    exec_input_push(x, false);
    return 0;
}
