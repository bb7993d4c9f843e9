/* exec_stdin — input by offset: what the program has not taken is held here, at most a window of it. */
#include <errno.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "guest/guest.h"
#include "guest/params.h"

#define CHUNK_MAX 49152

static void on_input(struct source *s, uint32_t events);

int exec_in_open(struct exec *x, int fd) {
    x->in = (struct source){.fd = -1, .on_ready = on_input};
    return loop_add(&x->guest->loop, &x->in, fd, 0);
}

/* Nobody reads any more, or nothing is left to write. */
void exec_in_close(struct exec *x) {
    int fd = loop_remove(&x->guest->loop, &x->in);
    if (fd >= 0)
        close(fd);
}

static size_t window(const struct exec *x) {
    return x->in_closed || x->in_gone ? 0 : STDIN_WINDOW - buf_len(&x->in_bytes);
}

/* Where a terminal's input goes on when it is full: its one descriptor also brings the output. */
static void wait_for_room(struct exec *x, bool wait) {
    if (x->terminal < 0)
        loop_set(&x->guest->loop, &x->in, wait ? EPOLLOUT : 0);
    else if (x->out[STREAM_STDOUT].is_open)
        loop_set(&x->guest->loop, &x->out[STREAM_STDOUT].source,
                 (exec_out_is_blocked(x) ? 0 : EPOLLIN) | (wait ? EPOLLOUT : 0));
}

void exec_in_push(struct exec *x, bool tell) {
    int fd = x->terminal >= 0 ? x->terminal : x->in.fd;
    while (fd >= 0 && buf_len(&x->in_bytes) > 0) {
        ssize_t n = write(fd, buf_data(&x->in_bytes), buf_len(&x->in_bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            x->in_gone = true;
            buf_clear(&x->in_bytes);
            break;
        }
        buf_consume(&x->in_bytes, (size_t)n);
        x->tell_room |= tell;
    }
    bool left = buf_len(&x->in_bytes) > 0;
    wait_for_room(x, left);
    if (!left)
        buf_trim(&x->in_bytes);
    if (!left && (x->in_closed || x->in_gone) && x->terminal < 0)
        exec_in_close(x);
}

static void on_input(struct source *s, uint32_t events) {
    struct exec *x = container_of(s, struct exec, in);
    if (events & EPOLLERR) { /* the reading end is gone */
        x->in_gone = true;
        buf_clear(&x->in_bytes);
    }
    exec_in_push(x, true);
}

static int check_open(const struct exec *x, struct err *e) {
    if (x->state != EXEC_RUNNING)
        return err_set(e, ERR_EXEC_ENDED, "%s has ended", x->id);
    if (x->in_closed || x->in_gone)
        return err_set(e, ERR_STDIN_CLOSED, "the input of %s has ended", x->id);
    return 0;
}

static int check_offset(const struct exec *x, struct request *r, int64_t offset, struct err *e) {
    if (offset < 0)
        return params_missing("offset", e);
    if ((uint64_t)offset <= x->in_next)
        return 0;
    r->next_offset = (int64_t)x->in_next;
    return err_set(e, ERR_STDIN_OFFSET, "the next byte is %llu", (unsigned long long)x->in_next);
}

int exec_method_stdin(struct request *r, struct err *e) {
    struct exec *x;
    int64_t offset = -1;
    struct str data;
    if (exec_of_request(r, &x, e) < 0 ||
        params_int(r->params, "offset", 0, PARAMS_OFFSET_MAX, &offset, e) < 0 ||
        params_base64(r->params, "data_b64", &r->guest->arena, CHUNK_MAX, &data, e) < 0 ||
        check_open(x, e) < 0 || check_offset(x, r, offset, e) < 0)
        return -(int)e->code;
    if (!data.p)
        return params_missing("data_b64", e);
    exec_in_push(x, false); /* what the program has made room for meanwhile */
    uint64_t known = MIN(x->in_next - (uint64_t)offset, (uint64_t)data.n);
    data.p += known;
    data.n = MIN(data.n - (size_t)known, window(x));
    if (buf_append(&x->in_bytes, data.p, data.n) < 0)
        return err_set(e, ERR_LIMIT_REACHED, "no memory for input");
    if (data.n > 0)
        x->in_last = data.p[data.n - 1];
    x->in_next += data.n;
    exec_in_push(x, false);
    json_put_u64(r->out, "next_offset", x->in_next);
    json_put_u64(r->out, "window_bytes", window(x));
    return 0;
}

/* The terminal's own end-of-file character; in the middle of a line the first one only sends the line. */
static int end_terminal(struct exec *x) {
    struct termios t;
    char eof = 4;
    if (tcgetattr(x->terminal, &t) == 0)
        eof = (char)t.c_cc[VEOF];
    char text[2] = {eof, eof};
    return buf_append(&x->in_bytes, text, x->in_next > 0 && x->in_last != '\n' ? 2 : 1);
}

int exec_method_close_stdin(struct request *r, struct err *e) {
    struct exec *x;
    int64_t offset = -1;
    if (exec_of_request(r, &x, e) < 0 ||
        params_int(r->params, "offset", 0, PARAMS_OFFSET_MAX, &offset, e) < 0)
        return -(int)e->code;
    if (x->state != EXEC_RUNNING)
        return err_set(e, ERR_EXEC_ENDED, "%s has ended", x->id);
    if (x->in_closed)
        return 0;
    if (check_offset(x, r, offset, e) < 0)
        return -(int)e->code;
    if (x->terminal >= 0 && end_terminal(x) < 0)
        return err_set(e, ERR_LIMIT_REACHED, "no memory for input");
    x->in_closed = true;
    exec_in_push(x, false);
    return 0;
}
