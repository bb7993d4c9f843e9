/* exec_fetch — output over a link that passes no descriptors: the guest keeps the logs, and bermd
 * copies them into its own log files as they grow. Readers use these files in either case.
 *
 * Requests: one pending `read_output` per exec, for the streams in turn, from the end of the local
 *           file.
 * Restart:  the size of the local file is the position of the copy; the guest keeps the rest until
 *           `done`.
 * Exit:     bermd writes the exit to its own status file and reports it when the copy is complete.
 *           If the guest ends before that, the exit is LOST.
 * Dropped:  output that the guest dropped before bermd copied it becomes a hole in the local file,
 *           and readers get a gap.
 * Bounds:   GUEST_OUTPUT_BYTES in flight per exec. If the guest sends more than the cap of the exec
 *           allows, bermd stops copying, and the exit is LOST. While the disk is full, the copy
 *           waits. After the program has exited, bermd retries DISK_RETRIES_MAX times; then the
 *           exit is LOST too. */
#include <errno.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "core/exec/exec_impl.h"

#define SIZE_MAX_BYTES ((uint64_t)1 << 53) /* larger sizes that a guest reports are ignored */
#define RETRY_US 200000
#define DISK_RETRIES_MAX 10

bool exec_fetch_is_used(const struct exec *x) {
    const struct guest_link *l = x->set ? x->set->box->link : NULL;
    return l && !guest_link_passes_fds(l);
}

bool exec_fetch_is_complete(const struct exec *x) {
    for (unsigned s = 0; s < exec_n_streams(x) && !x->fetch.is_broken; s++)
        if (x->fetch.end[s] < x->fetch.reported[s])
            return false;
    return true;
}

void exec_fetch_resume(struct exec *x) {
    if (x->phase == PHASE_OVER || guest_wait_is_on(&x->fetch.wait) || x->fetch.retry.is_set ||
        !exec_fetch_is_used(x) || !box_is_linked(x->set->box))
        return;
    unsigned n = exec_n_streams(x);
    for (unsigned i = 1; i <= n && !x->fetch.is_broken; i++) {
        unsigned s = (x->fetch.stream + i) % n;
        if (x->fetch.end[s] >= x->fetch.reported[s])
            continue;
        x->fetch.stream = s;
        guest_exec_read_output(x->set->box->link, x->record->exec_id, s == EXEC_STDERR,
                               x->fetch.end[s], &x->fetch.wait);
        return;
    }
    exec_on_fetched(x);
}

static void on_fetch_retry(struct deadline *d) {
    exec_fetch_resume(container_of(d, struct exec, fetch.retry));
}

static void exec_fetch_retry_later(struct exec *x) {
    deadline_set(x->env->deadlines, &x->fetch.retry, clock_us() + RETRY_US);
}

/* The guest's log starts after the end of the local file. Extends the file to that
 * offset and drops everything before it, in whole blocks. */
static int exec_fetch_skip(int fd, uint64_t from) {
    if (ftruncate(fd, (off_t)from) < 0)
        return -errno;
    off_t blocks = (off_t)(from / OUTLOG_BLOCK * OUTLOG_BLOCK);
    if (blocks > 0 && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, blocks) < 0)
        return -errno;
    return 0;
}

static int exec_fetch_store(struct exec *x, const struct guest_output_answer *output) {
    uint64_t from = output->offset;
    const char *bytes = output->data.p;
    size_t n = output->data.n;
    unsigned s = x->fetch.stream;
    char name[80];
    int dir = box_dir(x->set->box);
    exec_log_name(x, (enum exec_file)s, name, sizeof name);
    AUTO_CLOSE int fd = dir < 0 ? dir : fd_open_beneath(dir, name, O_WRONLY, 0);
    int r = fd < 0 ? fd : 0;
    if (r == 0 && from > x->fetch.end[s]) {
        r = exec_fetch_skip(fd, from);
        if (r == 0) {
            x->fetch.end[s] = from;
            x->record->output[s]->first_offset = from;
        }
    }
    while (r == 0 && n > 0) {
        ssize_t w = pwrite(fd, bytes, n, (off_t)x->fetch.end[s]);
        if (w < 0 && errno != EINTR)
            r = -errno;
        if (w <= 0)
            continue;
        x->fetch.end[s] += (uint64_t)w;
        bytes += w;
        n -= (size_t)w;
    }
    return r;
}

/* Stops copying, so that the local file has no zeros in place of the lost output. */
static void exec_fetch_give_up(struct exec *x) {
    x->fetch.is_broken = true;
    exec_fetch_resume(x);
}

static void on_fetch_answer(struct guest_wait *w, const struct guest_answer *a) {
    struct exec *x = container_of(w, struct exec, fetch.wait);
    enum err_code code = a->e ? a->e->code : ERR_NONE;
    int r = a->e ? 0 : exec_fetch_store(x, a->output);
    if (code == ERR_GUEST_LOST || code == ERR_GUEST_PROTOCOL)
        return; /* exec_fetch_resume continues the copy on the next link */
    if (a->e && code != ERR_LIMIT_REACHED && code != ERR_OUT_OF_MEMORY) {
        exec_fetch_give_up(x); /* the guest cannot read its own log */
    } else if (a->e || r < 0) {
        if (r < 0 && x->phase == PHASE_ENDING && ++x->fetch.n_retries > DISK_RETRIES_MAX)
            exec_fetch_give_up(x);
        else
            exec_fetch_retry_later(x);
    } else {
        x->fetch.n_retries = 0;
        bool is_within_cap = exec_output_hold_cap(x);
        exec_count_output(x);
        exec_wake(x);
        if (is_within_cap)
            exec_fetch_resume(x);
        else
            exec_fetch_give_up(x);
    }
}

void exec_fetch_init(struct exec *x) {
    buf_init(&x->fetch.status, GUEST_STATUS_MAX);
    guest_wait_init(&x->fetch.wait, on_fetch_answer);
    deadline_init(&x->fetch.retry, on_fetch_retry);
}

void exec_fetch_done(struct exec *x) {
    buf_done(&x->fetch.status);
    guest_wait_cancel(&x->fetch.wait);
    deadline_clear(x->env->deadlines, &x->fetch.retry);
}

void exec_fetch_keep_status(struct exec *x, const struct guest_exec_state *state) {
    /* A program that did not start has no output. */
    bool has_run = state->exit.kind != GUEST_EXIT_NOT_STARTED;
    buf_clear(&x->fetch.status);
    if (has_run && guest_exec_status_write(state, &x->fetch.status) < 0)
        buf_clear(&x->fetch.status);
}

void exec_fetch_write_status(struct exec *x) {
    char name[80];
    size_t n = buf_len(&x->fetch.status);
    int dir = n > 0 ? box_dir(x->set->box) : -1;
    exec_log_name(x, EXEC_FILE_STATUS, name, sizeof name);
    AUTO_CLOSE int fd =
        dir < 0 ? -1
                : openat(dir, name, O_CREAT | O_TRUNC | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (n > 0 && (fd < 0 || write(fd, buf_data(&x->fetch.status), n) != (ssize_t)n))
        log_text(LOG_WARN, "exit", "the exit of %s is not kept in a file", x->record->exec_id);
}

void exec_fetch_note(struct exec *x, const uint64_t sizes[EXEC_STREAMS]) {
    for (unsigned s = 0; s < exec_n_streams(x); s++) {
        uint64_t first;
        if (x->fetch.end[s] == 0)
            exec_extent(x, (enum exec_stream)s, &first, &x->fetch.end[s]);
        if (sizes[s] < SIZE_MAX_BYTES)
            x->fetch.reported[s] = MAX(x->fetch.reported[s], sizes[s]);
    }
    exec_fetch_resume(x);
}

void execs_fetch(struct execs *set) {
    if (guest_link_passes_fds(set->box->link))
        return;
    LIST_FOR_EACH(node, &set->all)
        exec_fetch_resume(container_of(node, struct exec, in_set));
}
