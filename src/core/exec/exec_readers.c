/* exec_readers — the readers that the BLOCK policy waits for. Output that all of them have
 * acknowledged may be dropped. */
#include <fcntl.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "core/exec/exec_impl.h"

#define BLOCK_BYTES UINT64_C(4096)

static bool exec_readers_block(const struct exec *x) {
    return x->record->spec->output_policy == BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_BLOCK;
}

static struct exec_reader *exec_reader_find(struct exec *x, const char *name,
                                            const struct exec_watch *w) {
    for (size_t i = 0; i < x->n_readers; i++)
        if (name[0] ? strcmp(x->readers[i].name, name) == 0
                    : !x->readers[i].name[0] && x->readers[i].watch == w)
            return &x->readers[i];
    return NULL;
}

static void exec_reader_remove(struct exec *x, struct exec_reader *r) {
    *r = x->readers[--x->n_readers];
}

/* Drops the output that every reader has acknowledged, and lets the guest write the same number of
 * further bytes. */
static void exec_readers_grant(struct exec *x) {
    uint64_t floor[EXEC_STREAMS] = {0}, total = 0;
    if (x->n_readers == 0 || x->phase == PHASE_OVER)
        return;
    for (unsigned s = 0; s < exec_n_streams(x); s++) {
        floor[s] = UINT64_MAX;
        for (size_t i = 0; i < x->n_readers; i++)
            floor[s] = MIN(floor[s], x->readers[i].acked[s]);
        total += floor[s];
    }
    uint64_t step = (uint64_t)x->record->spec->output_limit_bytes / 16;
    if (total < x->granted_bytes + step || !x->set || !box_is_linked(x->set->box))
        return;
    char name[80];
    int dir = box_dir(x->set->box);
    for (unsigned s = 0; s < exec_n_streams(x) && dir >= 0; s++) {
        exec_log_name(x, (enum exec_file)s, name, sizeof name);
        AUTO_CLOSE int fd = fd_open_beneath(dir, name, O_WRONLY, 0);
        off_t upto = (off_t)(floor[s] - floor[s] % BLOCK_BYTES);
        if (fd >= 0 && upto > 0 &&
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, upto) < 0)
            return; /* nothing was dropped, so the guest may not write more */
    }
    x->granted_bytes = total;
    guest_exec_grant(x->set->box->link, x->record->exec_id, total + (uint64_t)exec_cap(x));
}

/* Saves only the names: readers acknowledge again after a restart. */
static void exec_readers_save(struct exec *x) {
    char name[80], text[EXEC_READERS_MAX * 68];
    size_t n = 0;
    int dir = x->set ? box_dir(x->set->box) : -1;
    for (size_t i = 0; i < x->n_readers; i++)
        if (x->readers[i].name[0])
            n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", x->readers[i].name);
    exec_log_name(x, EXEC_FILE_READERS, name, sizeof name);
    AUTO_CLOSE int fd =
        dir < 0 ? -1
                : openat(dir, name, O_CREAT | O_TRUNC | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n)
        log_text(LOG_WARN, "readers", "the readers of %s are not kept across a restart",
                 x->record->exec_id);
}

static void exec_reader_hold(struct exec *x, struct exec_reader *r) {
    r->watch = NULL;
    r->held_until_us = clock_us() + (uint64_t)x->env->limits->of[LIMIT_OUTPUT_READER_HOLD] * 1000;
    if (!x->reader_hold.is_set)
        deadline_set(x->env->deadlines, &x->reader_hold, r->held_until_us);
}

static void on_hold_over(struct deadline *d) {
    struct exec *x = container_of(d, struct exec, reader_hold);
    uint64_t now = clock_us(), next = 0;
    for (size_t i = x->n_readers; i-- > 0;) {
        struct exec_reader *r = &x->readers[i];
        if (r->held_until_us == 0)
            continue;
        if (r->held_until_us <= now) {
            exec_reader_remove(x, r);
            exec_readers_save(x);
        } else if (next == 0 || r->held_until_us < next)
            next = r->held_until_us;
    }
    if (next != 0)
        deadline_set(x->env->deadlines, &x->reader_hold, next);
    exec_readers_grant(x);
}

void exec_readers_restore(struct exec *x) {
    char name[80], text[EXEC_READERS_MAX * 68 + 1];
    uint64_t first[EXEC_STREAMS] = {0}, end;
    struct err e;
    int dir = x->set && exec_readers_block(x) ? box_dir(x->set->box) : -1;
    exec_log_name(x, EXEC_FILE_READERS, name, sizeof name);
    ssize_t n = dir < 0 ? -1 : fd_read_text(dir, name, text, sizeof text);
    struct str rest = {text, n > 0 ? (size_t)n : 0}, line;
    for (unsigned s = 0; s < exec_n_streams(x); s++)
        exec_extent(x, (enum exec_stream)s, &first[s], &end);
    while (rest.n > 0 && str_split(&rest, '\n', &line)) {
        char reader[68];
        snprintf(reader, sizeof reader, "%.*s", (int)line.n, line.p);
        if (reader[0] && exec_reader_join(x, reader, NULL, first, &e) == 0)
            exec_reader_hold(x, &x->readers[x->n_readers - 1]);
    }
    exec_close_logs(x);
}

void exec_readers_init(struct exec *x) {
    deadline_init(&x->reader_hold, on_hold_over);
}

void exec_readers_done(struct exec *x) {
    deadline_clear(x->env->deadlines, &x->reader_hold);
    free(x->readers);
}

int exec_reader_join(struct exec *x, const char *name, struct exec_watch *w,
                     const uint64_t from[EXEC_STREAMS], struct err *e) {
    if (!exec_readers_block(x) || x->phase == PHASE_OVER)
        return 0;
    struct exec_reader *r = exec_reader_find(x, name, w);
    if (!r) {
        if (x->n_readers == EXEC_READERS_MAX)
            return err_set(e, ERR_LIMIT_REACHED, "%d readers hold the output of %s",
                           EXEC_READERS_MAX, x->record->exec_id);
        if (!x->readers && !(x->readers = calloc(EXEC_READERS_MAX, sizeof *x->readers)))
            return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
        r = &x->readers[x->n_readers++];
        *r = (struct exec_reader){0};
        snprintf(r->name, sizeof r->name, "%s", name);
        memcpy(r->acked, from, sizeof r->acked);
        if (name[0] && w)
            exec_readers_save(x);
    }
    r->watch = w;
    r->held_until_us = 0;
    return 0;
}

void exec_reader_leave(struct exec *x, const char *name, struct exec_watch *w) {
    struct exec_reader *r = exec_reader_find(x, name, w);
    if (!r || r->watch != w)
        return;
    if (r->name[0]) {
        exec_reader_hold(x, r);
        return;
    }
    exec_reader_remove(x, r);
    exec_readers_grant(x);
}

int exec_ack(struct exec *x, const char *name, struct exec_watch *w,
             const uint64_t upto[EXEC_STREAMS], bool release, struct err *e) {
    struct exec_reader *r = exec_reader_find(x, name, w);
    if (!r) /* the policy does not wait for readers, or the exec has ended */
        return 0;
    for (unsigned s = 0; s < exec_n_streams(x); s++) {
        uint64_t first, end;
        exec_extent(x, (enum exec_stream)s, &first, &end);
        if (upto[s] > end) {
            err_set(e, ERR_OFFSET_BEYOND_END, "the stream ends at %llu", (unsigned long long)end);
            err_number(e, "end_offset", (int64_t)end);
            return err_about(e, "exec_id", x->record->exec_id);
        }
        r->acked[s] = MAX(r->acked[s], upto[s]);
    }
    if (release) {
        bool was_named = r->name[0] != '\0';
        exec_reader_remove(x, r);
        if (was_named)
            exec_readers_save(x);
    }
    exec_readers_grant(x);
    return 0;
}
