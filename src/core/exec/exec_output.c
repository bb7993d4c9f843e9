/* exec_output — reads the output files of an exec by offset.
 *
 * Only the contents of the files count; the guest's `grew` is a hint that there may be more to
 * read. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "core/exec/exec_impl.h"

static const char *const ends[] = {"out", "err", "exit", "in", "readers"};

void exec_log_name(const struct exec *x, enum exec_file which, char *out, size_t cap) {
    snprintf(out, cap, "%s.%s", x->record->exec_id, ends[which]);
}

void exec_remove_files(struct execs *set, const char *id) {
    char name[80];
    int dir = box_dir(set->box);
    for (size_t i = 0; dir >= 0 && i < COUNT_OF(ends); i++) {
        snprintf(name, sizeof name, "%.64s.%s", id, ends[i]);
        unlinkat(dir, name, 0);
    }
}

static int exec_output_fd(struct exec *x, enum exec_stream s) {
    char name[80];
    if (x->log_fds[s] >= 0)
        return x->log_fds[s];
    if (!x->set)
        return -ENOENT;
    int dir = box_dir(x->set->box);
    exec_log_name(x, (enum exec_file)s, name, sizeof name);
    return dir < 0 ? dir : (x->log_fds[s] = fd_open_beneath(dir, name, O_RDONLY, 0));
}

void exec_close_logs(struct exec *x) {
    for (int s = 0; s < EXEC_STREAMS; s++)
        if (x->log_fds[s] >= 0)
            close(TAKE_FD(x->log_fds[s]));
}

/* Finds the first kept byte with SEEK_DATA, because the output cap punches a hole at the front of
 * the file. */
void exec_extent(struct exec *x, enum exec_stream s, uint64_t *ret_first, uint64_t *ret_end) {
    struct stat st;
    int fd = exec_output_fd(x, s);
    *ret_first = *ret_end = 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    *ret_end = (uint64_t)st.st_size;
    off_t first = lseek(fd, 0, SEEK_DATA);
    *ret_first = first >= 0 ? (uint64_t)first : (uint64_t)st.st_size;
    if (s < x->record->n_output)
        *ret_first = MAX(*ret_first, x->record->output[s]->first_offset);
    if (st.st_size == 0)
        *ret_first = 0;
}

void exec_fill_output(struct exec *x) {
    Berm__V1__ExecUsage *u = x->record->usage;
    bool was_open = x->log_fds[0] >= 0;
    for (size_t i = 0; i < x->record->n_output && i < EXEC_STREAMS; i++) {
        Berm__V1__OutputState *o = x->record->output[i];
        uint64_t first, end;
        exec_extent(x, (enum exec_stream)i, &first, &end);
        o->first_offset = MAX(o->first_offset, first);
        o->end_offset = MAX(o->end_offset, end);
        *(i == 0 ? &u->stdout_bytes : &u->stderr_bytes) = o->end_offset;
    }
    u->stdin_bytes = x->record->input->next_offset;
    if (!was_open && list_is_empty(&x->watches))
        exec_close_logs(x);
}

ssize_t exec_read(struct exec *x, enum exec_stream s, uint64_t offset, void *out, size_t n,
                  uint64_t *ret_next, struct err *e) {
    const char *id = x->record->exec_id;
    int fd = exec_output_fd(x, s);
    uint64_t first = offset;
    *ret_next = offset;
    if (fd == -ENOENT && offset == 0)
        return 0; /* the file does not exist yet, or will never exist */
    if (fd < 0)
        return err_sys(e, ERR_INTERNAL, -fd, "open the output of %s", id);
    if (s < x->record->n_output && offset < x->record->output[s]->first_offset) {
        /* first_offset may be in the middle of a block, of which the file still has all bytes. */
        *ret_next = x->record->output[s]->first_offset;
        return 0;
    }
    ssize_t got = outlog_read(&x->views[s], fd, offset, out, n, &first);
    if (got > 0) {
        *ret_next = offset + (uint64_t)got;
        return got;
    }
    if (got == -ENODATA) {
        *ret_next = first;
        return 0;
    }
    if (got == -EUCLEAN) {
        err_set(e, ERR_OUTPUT_TAMPERED, "the output of %s shrank", id);
        return err_about(e, "exec_id", id);
    }
    if (got < 0)
        return err_sys(e, ERR_INTERNAL, (int)-got, "read the output of %s", id);
    if (offset > x->views[s].seen) {
        err_set(e, ERR_OFFSET_BEYOND_END, "the stream ends at %llu",
                (unsigned long long)x->views[s].seen);
        err_number(e, "end_offset", (int64_t)x->views[s].seen);
        return err_about(e, "exec_id", id);
    }
    return 0;
}

/* --- the cap --- */

/* Reports once per exec that the output reached its cap. */
static void exec_output_report_cap(struct exec *x) {
    Berm__V1__Event event;
    Berm__V1__Actor actor;
    Berm__V1__OutputCapEvent cap = BERM__V1__OUTPUT_CAP_EVENT__INIT;
    const Berm__V1__SandboxSpec *spec = x->set->box->record->spec;
    struct entry *t = ledger_begin(x->env->ledger);
    if (!t)
        return; /* the next growth of the output reports it */
    box_event_init(x->set->box, &event, &actor, NULL, true, NULL);
    cap.exec_id = x->record->exec_id;
    cap.policy = x->record->spec->output_policy;
    cap.limit_bytes = x->record->spec->output_limit_bytes;
    event.kind = BERM__V1__EVENT_KIND__EVENT_KIND_OUTPUT_CAP;
    event.body_case = BERM__V1__EVENT__BODY_OUTPUT_CAP;
    event.output_cap = &cap;
    entry_event(t, &event, spec->n_labels, spec->labels);
    x->cap_is_reported = true;
    ledger_commit(t, NULL);
}

void exec_on_grew(struct exec *x, const uint64_t sizes[EXEC_STREAMS]) {
    uint64_t total_bytes = sizes[EXEC_STDOUT] + sizes[EXEC_STDERR];
    if (x->phase == PHASE_OVER)
        return;
    if (!x->cap_is_reported && total_bytes >= (uint64_t)x->record->spec->output_limit_bytes)
        exec_output_report_cap(x);
    if (exec_fetch_is_used(x)) {
        exec_fetch_note(x, sizes);
        return;
    }
    exec_count_output(x);
    exec_wake(x);
}
