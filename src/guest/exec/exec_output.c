/* exec_output — what a program writes goes from its pipe or terminal into its logs, under its policy. */
#include <errno.h>
#include <sys/ioctl.h>

#include "guest/guest.h"
#include "guest/params.h"

#define READS_PER_TURN 8   /* of GUEST_SCRATCH bytes: one loud program does not starve the rest */
#define READS_PER_DRAIN 32 /* twice what a pipe can hold, for somebody may still write */
#define CHUNK_MAX 49152
#define RETRY_MS 200 /* a log that cannot be written now: the program waits */

static void on_output(struct source *s, uint32_t events);

int exec_out_open(struct exec *x, enum exec_stream which, int fd) {
    struct exec_out *o = &x->out[which];
    o->exec = x;
    o->source = (struct source){.fd = -1, .on_ready = on_output};
    int r = loop_add(&x->guest->loop, &o->source, fd, EPOLLIN);
    o->is_open = r == 0;
    o->parked = -1;
    return r;
}

void exec_out_close(struct exec_out *o) {
    if (!o->is_open)
        return;
    int fd = loop_remove(&o->exec->guest->loop, &o->source);
    if (fd < 0)
        fd = TAKE_FD(o->parked);
    if (fd != o->exec->terminal)
        close(fd);
    o->is_open = false;
}

static uint64_t written(const struct exec *x) {
    uint64_t sum = 0;
    for (size_t i = 0; i < x->n_logs; i++)
        sum += x->log[i].size;
    return sum;
}

/* How much may be read now; after the exit, and beyond the cap, it is read and lost. */
static size_t allowance(const struct exec *x) {
    if (x->state == EXEC_EXITED || x->is_full)
        return GUEST_SCRATCH;
    if (buf_len(&x->held) > 0)
        return 0;
    if (x->policy != POLICY_BLOCK)
        return GUEST_SCRATCH; /* a cap is at least as large */
    uint64_t most = x->granted_bytes - MIN(written(x), x->granted_bytes);
    return (size_t)MIN(most, (uint64_t)GUEST_SCRATCH);
}

bool exec_out_is_blocked(const struct exec *x) {
    return allowance(x) == 0;
}

static void output_limit(struct exec *x) {
    x->is_full = true;
    exec_kill(x);
}

/* Appends; what the log cannot take now is held, and the program waits for it. A file at its largest
 * will never take more: that is a cap like the other. */
static void append(struct exec *x, enum exec_stream which, const uint8_t *bytes, size_t n) {
    ssize_t w = outlog_append(&x->log[which], bytes, n);
    size_t done = w > 0 ? (size_t)w : 0;
    if (done == n)
        return;
    if (x->skips && outlog_skip(&x->log[which], n - done) == 0)
        return;
    if (w == -EFBIG || buf_append(&x->held, bytes + done, n - done) < 0) {
        output_limit(x);
        return;
    }
    x->held_for = which;
    timer_start(&x->guest->loop, &x->retry, RETRY_MS);
}

void exec_out_on_retry(struct timer *t) {
    struct exec *x = container_of(t, struct exec, retry);
    struct outlog *log = &x->log[x->held_for];
    ssize_t w = outlog_append(log, buf_data(&x->held), buf_len(&x->held));
    if (w > 0)
        buf_consume(&x->held, (size_t)w);
    if (x->skips && outlog_skip(log, buf_len(&x->held)) == 0)
        buf_clear(&x->held);
    if (buf_len(&x->held) > 0) {
        timer_start(&x->guest->loop, &x->retry, RETRY_MS);
        return;
    }
    buf_trim(&x->held);
    x->tell_grew = true;
    exec_out_resume(x);
    exec_check_end(x);
}

void exec_out_skip(struct exec *x) {
    x->skips = true;
    if (buf_len(&x->held) > 0)
        exec_out_on_retry(&x->retry);
}

static void keep(struct exec *x, enum exec_stream which, const uint8_t *bytes, size_t n) {
    if (x->state == EXEC_EXITED || x->is_full)
        return;
    x->tell_grew = true;
    size_t fits = n;
    if (x->policy == POLICY_DROP_OLDEST)
        outlog_trim(x->log, x->n_logs, x->limit_bytes, n);
    if (x->policy == POLICY_KILL)
        fits = (size_t)MIN((uint64_t)n, x->limit_bytes - MIN(written(x), x->limit_bytes));
    append(x, which, bytes, fits);
    if (fits < n)
        output_limit(x);
}

/* Reads once; returns false when there is nothing more to read now. */
static bool pump(struct exec *x, enum exec_stream which) {
    struct exec_out *o = &x->out[which];
    size_t room = allowance(x);
    if (o->parked >= 0)
        return false;
    if (room == 0) {
        loop_set(&x->guest->loop, &o->source, o->source.events & EPOLLOUT);
        return false;
    }
    ssize_t n = read(o->source.fd, x->guest->scratch, room);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) { /* a terminal nobody holds says EIO */
        exec_out_close(o);
        return false;
    }
    keep(x, which, x->guest->scratch, (size_t)n);
    return true;
}

/* Nobody writes any more, and nothing may be read: what is empty is at its end, and the rest is taken out
 * of the loop, which would report it for ever. */
static void hung_up(struct exec_out *o) {
    int n = 0;
    if (ioctl(o->source.fd, FIONREAD, &n) == 0 && n == 0)
        exec_out_close(o);
    else
        o->parked = loop_remove(&o->exec->guest->loop, &o->source);
}

static void on_output(struct source *s, uint32_t events) {
    struct exec_out *o = container_of(s, struct exec_out, source);
    struct exec *x = o->exec;
    if (x->terminal >= 0 && (events & EPOLLOUT))
        exec_in_push(x, true);
    if ((events & EPOLLHUP) && exec_out_is_blocked(x))
        hung_up(o);
    for (int i = 0; i < READS_PER_TURN && o->is_open; i++)
        if (!pump(x, (enum exec_stream)(o - x->out)))
            break;
    if (!o->is_open)
        exec_check_end(x);
}

void exec_out_drain(struct exec *x) {
    exec_out_resume(x);
    for (int which = 0; which < STREAM_COUNT; which++)
        for (int i = 0; i < READS_PER_DRAIN && x->out[which].is_open; i++)
            if (!pump(x, (enum exec_stream)which))
                break;
}

void exec_out_resume(struct exec *x) {
    struct loop *loop = &x->guest->loop;
    for (int which = 0; which < STREAM_COUNT; which++) {
        struct exec_out *o = &x->out[which];
        if (!o->is_open)
            continue;
        if (o->parked >= 0) {
            int fd = TAKE_FD(o->parked);
            if (loop_add(loop, &o->source, fd, EPOLLIN) < 0)
                o->parked = fd; /* no memory: the next grant or drain tries again */
        }
        loop_set(loop, &o->source, EPOLLIN | (o->source.events & EPOLLOUT));
    }
}

int exec_method_grant(struct request *r, struct err *e) {
    struct exec *x;
    int64_t total = -1;
    if (exec_of_request(r, &x, e) < 0 ||
        params_int(r->params, "total_bytes", 0, PARAMS_OFFSET_MAX, &total, e) < 0)
        return -(int)e->code;
    if (total < 0)
        return params_missing("total_bytes", e);
    if (x->policy != POLICY_BLOCK)
        return err_field(e, "exec_id", "its policy is not block");
    x->granted_bytes = MAX(x->granted_bytes, (uint64_t)total);
    exec_out_resume(x);
    return 0;
}

int exec_method_read_output(struct request *r, struct err *e) {
    static const char *const streams[] = {"stdout", "stderr"};
    struct exec *x;
    int which = -1;
    int64_t offset = -1, max = -1;
    if (exec_of_request(r, &x, e) < 0 ||
        params_enum(r->params, "stream", streams, COUNT_OF(streams), &which, e) < 0 ||
        params_int(r->params, "offset", 0, PARAMS_OFFSET_MAX, &offset, e) < 0 ||
        params_int(r->params, "max_bytes", 1, CHUNK_MAX, &max, e) < 0)
        return -(int)e->code;
    if (which < 0 || offset < 0 || max < 0)
        return params_missing(which < 0 ? "stream" : offset < 0 ? "offset" : "max_bytes", e);
    if (!x->own_logs)
        return err_field(e, "exec_id", "its logs were passed with it");
    const struct outlog *log = &x->log[which];
    if ((uint64_t)offset > log->size)
        return err_set(e, ERR_OFFSET_BEYOND_END, "the end is %llu", (unsigned long long)log->size);
    uint64_t from = MAX((uint64_t)offset, log->first);
    size_t want = (size_t)MIN((uint64_t)max, log->size - from);
    ssize_t n = want == 0 ? 0 : pread(log->fd, r->guest->scratch, want, (off_t)from);
    if (n < 0)
        return err_sys(e, ERR_INTERNAL, errno, "read a log");
    json_put_u64(r->out, "offset", from);
    json_key(r->out, "data_b64");
    json_base64(r->out, r->guest->scratch, (size_t)n);
    json_put_bool(r->out, "end", x->state == EXEC_EXITED && from + (size_t)n == log->size);
    return 0;
}
