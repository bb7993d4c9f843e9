#include "guest/exec/exec_output.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "guest/exec/exec.h"
#include "guest/guest.h"
#include "guest/params.h"

#define READS_PER_TURN 8 /* bounded so that one busy program does not starve others */
/* Bounds a drain to twice what a pipe can hold, because a live writer could refill the pipe
 * forever. */
#define READS_PER_DRAIN 32
#define CHUNK_MAX 49152
#define RETRY_MS 200 /* delay between attempts to write to a full disk */

static void exec_output_on_ready(struct source *s, uint32_t events);
static void exec_output_on_retry(struct timer *t);

void exec_output_init(struct exec_output *out) {
    for (int i = 0; i < EXEC_OUTPUTS; i++) {
        struct exec_output_stream *s = &out->streams[i];
        s->source = (struct source){.fd = -1, .on_ready = exec_output_on_ready};
        s->parked = s->write_end = -1;
        out->logs[i].fd = -1;
    }
    buf_init(&out->held, GUEST_SCRATCH);
    timer_init(&out->retry, exec_output_on_retry);
}

void exec_output_done(struct exec *x) {
    struct exec_output *out = &x->output;
    exec_output_close_write_ends(x);
    for (int i = 0; i < EXEC_OUTPUTS; i++) {
        exec_output_close(&out->streams[i]);
        outlog_done(&out->logs[i]);
    }
    timer_stop(&out->retry);
    buf_done(&out->held);
}

int exec_output_open(struct exec *x, enum exec_output_id id, int fd) {
    struct exec_output_stream *s = &x->output.streams[id];
    s->exec = x;
    int r = loop_add(&x->guest->loop, &s->source, fd, EPOLLIN);
    if (r == 0)
        exec_state_set_stream(&s->state, STREAM_OPEN);
    return r;
}

void exec_output_close(struct exec_output_stream *s) {
    if (s->state == STREAM_CLOSED)
        return;
    int fd = s->state == STREAM_PARKED ? TAKE_FD(s->parked)
                                       : loop_remove(&s->exec->guest->loop, &s->source);
    if (fd != s->exec->terminal)
        close(fd);
    exec_state_set_stream(&s->state, STREAM_CLOSED);
}

void exec_output_close_write_ends(struct exec *x) {
    for (int i = 0; i < EXEC_OUTPUTS; i++) {
        struct exec_output_stream *s = &x->output.streams[i];
        if (s->write_end >= 0)
            close(TAKE_FD(s->write_end));
    }
}

bool exec_output_is_closed(const struct exec *x) {
    return x->output.streams[EXEC_STDOUT].state == STREAM_CLOSED &&
           x->output.streams[EXEC_STDERR].state == STREAM_CLOSED;
}

bool exec_output_is_held(const struct exec *x) {
    return buf_len(&x->output.held) > 0;
}

static uint64_t exec_output_written(const struct exec_output *out) {
    uint64_t sum = 0;
    for (size_t i = 0; i < out->n_logs; i++)
        sum += out->logs[i].size;
    return sum;
}

/* The guest reads and discards output after the exit and above the cap, so that pipes do not fill
 * up. */
static bool exec_output_is_discarded(const struct exec *x) {
    return x->life >= EXEC_EXITED || x->cause == CAUSE_OUTPUT_LIMIT;
}

/* Returns how many bytes may be read now. */
static size_t exec_output_allowance(const struct exec *x) {
    const struct exec_output *out = &x->output;
    if (exec_output_is_discarded(x))
        return GUEST_SCRATCH;
    if (exec_output_is_held(x))
        return 0;
    if (out->policy != POLICY_BLOCK)
        return GUEST_SCRATCH; /* every output cap is at least this large */
    uint64_t most = out->granted_bytes - MIN(exec_output_written(out), out->granted_bytes);
    return (size_t)MIN(most, (uint64_t)GUEST_SCRATCH);
}

bool exec_output_is_blocked(const struct exec *x) {
    return exec_output_allowance(x) == 0;
}

static void exec_output_reach_limit(struct exec *x) {
    if (x->cause == CAUSE_OUTPUT_LIMIT)
        return;
    exec_state_set_cause(&x->cause, CAUSE_OUTPUT_LIMIT);
    exec_end_kill(x);
}

/* Appends bytes to the log. Holds the bytes that the log cannot take now, while the program blocks
 * on its pipe. A log file at its maximum size (EFBIG) counts as reaching the cap, because it never
 * takes more bytes. */
static void exec_output_append(struct exec *x, enum exec_output_id id, const uint8_t *bytes,
                               size_t n) {
    struct exec_output *out = &x->output;
    ssize_t w = outlog_append(&out->logs[id], bytes, n);
    size_t done = w > 0 ? (size_t)w : 0;
    if (done == n)
        return;
    if (out->disk == DISK_LOSSY && outlog_skip(&out->logs[id], n - done) == 0)
        return;
    if (w == -EFBIG || buf_append(&out->held, bytes + done, n - done) < 0) {
        exec_output_reach_limit(x);
        return;
    }
    out->held_for = id;
    if (out->disk == DISK_WRITABLE)
        exec_state_set_disk(&out->disk, DISK_FULL);
    timer_start(&x->guest->loop, &out->retry, RETRY_MS);
}

static void exec_output_resume(struct exec *x) {
    struct loop *loop = &x->guest->loop;
    for (int i = 0; i < EXEC_OUTPUTS; i++) {
        struct exec_output_stream *s = &x->output.streams[i];
        if (s->state == STREAM_PARKED) {
            if (loop_add(loop, &s->source, s->parked, EPOLLIN) < 0)
                continue; /* out of memory: the next grant or drain tries again */
            s->parked = -1;
            exec_state_set_stream(&s->state, STREAM_OPEN);
        }
        if (s->state == STREAM_OPEN)
            loop_set(loop, &s->source, EPOLLIN | (s->source.events & EPOLLOUT));
    }
}

/* Writes the held bytes to the log. Resumes reading once all of them are written. */
static void exec_output_flush(struct exec *x) {
    struct exec_output *out = &x->output;
    struct outlog *log = &out->logs[out->held_for];
    ssize_t w = outlog_append(log, buf_data(&out->held), buf_len(&out->held));
    if (w > 0)
        buf_consume(&out->held, (size_t)w);
    if (out->disk == DISK_LOSSY && outlog_skip(log, buf_len(&out->held)) == 0)
        buf_clear(&out->held);
    if (exec_output_is_held(x)) {
        timer_start(&x->guest->loop, &out->retry, RETRY_MS);
        return;
    }
    if (out->disk == DISK_FULL)
        exec_state_set_disk(&out->disk, DISK_WRITABLE);
    buf_trim(&out->held);
    exec_report_set(x, NOTICE_GREW);
    exec_output_resume(x);
    exec_end_check(x);
}

static void exec_output_on_retry(struct timer *t) {
    exec_output_flush(container_of(t, struct exec, output.retry));
}

void exec_output_skip(struct exec *x) {
    if (x->output.disk == DISK_FULL)
        exec_state_set_disk(&x->output.disk, DISK_LOSSY);
    exec_output_flush(x);
}

/* Applies the output policy of the exec to bytes that were read. */
static void exec_output_keep(struct exec *x, enum exec_output_id id, const uint8_t *bytes,
                             size_t n) {
    struct exec_output *out = &x->output;
    if (exec_output_is_discarded(x))
        return;
    exec_report_set(x, NOTICE_GREW);
    size_t fits = n;
    if (out->policy == POLICY_DROP_OLDEST)
        outlog_trim(out->logs, out->n_logs, out->limit_bytes, n);
    if (out->policy == POLICY_KILL) {
        uint64_t left = out->limit_bytes - MIN(exec_output_written(out), out->limit_bytes);
        fits = (size_t)MIN((uint64_t)n, left);
    }
    exec_output_append(x, id, bytes, fits);
    if (fits < n)
        exec_output_reach_limit(x);
}

/* Reads the stream once. Returns false when the stream has nothing to read now. */
static bool exec_output_pump(struct exec *x, enum exec_output_id id) {
    struct exec_output_stream *s = &x->output.streams[id];
    size_t max = exec_output_allowance(x);
    if (s->state != STREAM_OPEN)
        return false;
    if (max == 0) {
        loop_set(&x->guest->loop, &s->source, s->source.events & EPOLLOUT);
        return false;
    }
    ssize_t n = read(s->source.fd, x->guest->scratch, max);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) { /* end of file; a terminal that nobody has open reports EIO */
        exec_output_close(s);
        return false;
    }
    exec_output_keep(x, id, x->guest->scratch, (size_t)n);
    return true;
}

/* Handles a hangup (all writers closed the stream) while reading is blocked. An empty stream is at
 * its end. A stream with bytes left leaves the loop, because epoll would report the hangup on every
 * turn. */
static void exec_output_park(struct exec_output_stream *s) {
    int n = 0;
    if (ioctl(s->source.fd, FIONREAD, &n) == 0 && n == 0) {
        exec_output_close(s);
        return;
    }
    s->parked = loop_remove(&s->exec->guest->loop, &s->source);
    exec_state_set_stream(&s->state, STREAM_PARKED);
}

static void exec_output_on_ready(struct source *source, uint32_t events) {
    struct exec_output_stream *s = container_of(source, struct exec_output_stream, source);
    struct exec *x = s->exec;
    if (x->terminal >= 0 && (events & EPOLLOUT))
        exec_input_push(x, true);
    if ((events & EPOLLHUP) && exec_output_is_blocked(x))
        exec_output_park(s);
    enum exec_output_id id = (enum exec_output_id)(s - x->output.streams);
    for (int i = 0; i < READS_PER_TURN && exec_output_pump(x, id); i++)
        continue;
    if (s->state == STREAM_CLOSED)
        exec_end_check(x);
}

void exec_output_drain(struct exec *x) {
    exec_output_resume(x);
    for (int id = 0; id < EXEC_OUTPUTS; id++)
        for (int i = 0; i < READS_PER_DRAIN && exec_output_pump(x, (enum exec_output_id)id); i++)
            continue;
}

int exec_output_method_grant(struct request *r, struct err *e) {
    struct exec *x;
    int64_t total;
    if (exec_of_request(r, &x, e) < 0 ||
        params_need_int(r->params, "total_bytes", 0, PARAMS_OFFSET_MAX, &total, e) < 0)
        return -(int)e->code;
    if (x->output.policy != POLICY_BLOCK)
        return err_field(e, "exec_id", "must name an exec with the block policy, got %s", x->id);
    x->output.granted_bytes = MAX(x->output.granted_bytes, (uint64_t)total);
    exec_output_resume(x);
    return 0;
}

int exec_output_method_read(struct request *r, struct err *e) {
    static const char *const names[] = {"stdout", "stderr"};
    struct exec *x;
    int id = -1;
    int64_t offset, max;
    if (exec_of_request(r, &x, e) < 0 ||
        params_enum(r->params, "stream", names, COUNT_OF(names), &id, e) < 0 ||
        params_need_int(r->params, "offset", 0, PARAMS_OFFSET_MAX, &offset, e) < 0 ||
        params_need_int(r->params, "max_bytes", 1, CHUNK_MAX, &max, e) < 0)
        return -(int)e->code;
    if (id < 0)
        return params_missing("stream", e);
    if (!x->output.owns_logs)
        return err_field(e, "exec_id", "must name an exec without log descriptors, got %s", x->id);
    const struct outlog *log = &x->output.logs[id];
    if ((uint64_t)offset > log->size)
        return err_set(e, ERR_OFFSET_BEYOND_END, "offset: must be at most %llu, got %lld",
                       (unsigned long long)log->size, (long long)offset);
    uint64_t from = MAX((uint64_t)offset, log->first);
    size_t want = (size_t)MIN((uint64_t)max, log->size - from);
    ssize_t n = want == 0 ? 0 : pread(log->fd, r->guest->scratch, want, (off_t)from);
    if (n < 0)
        return err_sys(e, ERR_INTERNAL, errno, "read the %s of %s", names[id], x->id);
    json_put_u64(r->out, "offset", from);
    json_key(r->out, "data_b64");
    json_base64(r->out, r->guest->scratch, (size_t)n);
    json_put_bool(r->out, "end", x->life >= EXEC_EXITED && from + (size_t)n == log->size);
    return 0;
}
