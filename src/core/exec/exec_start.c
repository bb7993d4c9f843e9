/* exec_start — from a durable intent to a running exec: its files, and the guest's reply. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/fd.h"
#include "core/exec/exec_impl.h"

#define STATUS_FILE_BYTES 4096 /* upper bound of a status file */

/* --- the request --- */

struct files {
    int fds[4]; /* descriptors of stdout, stderr, status and exec cgroup */
    const char *roles[4];
    size_t n;
};

static enum err_code exec_start_code(int sys) {
    if (sys == EMFILE || sys == ENFILE)
        return ERR_LIMIT_REACHED;
    return sys == ENOSPC || sys == EDQUOT ? ERR_STORE_FULL : ERR_STORE_FAILED;
}

static int exec_start_add_file(struct exec *x, struct files *f, int dir, enum exec_file which,
                               const char *role, struct err *e) {
    char name[80];
    exec_log_name(x, which, name, sizeof name);
    int fd =
        openat(dir, name, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, exec_start_code(errno), errno, "make the output files");
    f->fds[f->n] = fd;
    f->roles[f->n++] = role;
    /* Reserve space, so that the exit can be written even if the disk fills up. File systems that
     * cannot reserve are accepted. */
    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, STATUS_FILE_BYTES) < 0 &&
        exec_start_code(errno) == ERR_STORE_FULL)
        return err_sys(e, ERR_STORE_FULL, errno, "set room aside for the output files");
    return 0;
}

static int exec_start_open_files(struct exec *x, struct files *f, struct err *e) {
    int dir = box_dir(x->set->box);
    if (dir < 0)
        return err_sys(e, exec_start_code(-dir), -dir, "open the sandbox's folder");
    int r = exec_start_add_file(x, f, dir, EXEC_FILE_STDOUT, "stdout", e);
    if (r == 0 && exec_n_streams(x) == 2)
        r = exec_start_add_file(x, f, dir, EXEC_FILE_STDERR, "stderr", e);
    if (r == 0 && !exec_fetch_is_used(x))
        r = exec_start_add_file(x, f, dir, EXEC_FILE_STATUS, "status", e);
    return r;
}

/* --- the reply --- */

static void on_started(struct guest_wait *w, const struct guest_answer *a) {
    struct exec *x = container_of(w, struct exec, start_wait);
    failpoint(FAIL_EXEC_ACK);
    if (!a->e)
        exec_on_known(x, a->exec);
    else if (a->e->code == ERR_GUEST_LOST || a->e->code == ERR_GUEST_PROTOCOL)
        exec_set_phase(x, PHASE_WAITING); /* the next hello says whether the exec runs */
    else
        exec_not_started(x, a->e);
}

/* Sends the spec and the files to the guest. */
static void exec_start_send(struct exec *x) {
    struct execs *set = x->set;
    struct files f = {.n = 0};
    struct err e;
    if (exec_start_open_files(x, &f, &e) < 0) {
        fd_close_all(f.fds, f.n);
        exec_not_started(x, &e);
        return;
    }
    size_t n_files = f.n;
    bool passes_fds = !exec_fetch_is_used(x);
    if (passes_fds && x->cgroup_fd >= 0) {
        f.fds[f.n] = x->cgroup_fd;
        f.roles[f.n++] = x->cgroup_is_dir ? "leaf" : "cgroup";
    }
    const Berm__V1__ExecSpec *spec = x->record->spec;
    bool is_piped = spec->stdin_mode == BERM__V1__STDIN_MODE__STDIN_MODE_PIPE;
    exec_set_phase(x, PHASE_SENT);
    guest_wait_init(&x->start_wait, on_started);
    guest_exec_start(set->box->link,
                     &(struct guest_exec_start){
                         .exec_id = x->record->exec_id,
                         .spec = spec,
                         .takes_input = is_piped || spec->terminal || x->input,
                         .output_limit_bytes = exec_cap(x),
                         .n_fds = passes_fds ? f.n : 0,
                         .fds = f.fds,
                         .fd_roles = f.roles,
                     },
                     &x->start_wait);
    fd_close_all(f.fds, n_files);
    failpoint(FAIL_EXEC_SEND);
}

void exec_go(struct exec *x) {
    switch (x->phase) {
    case PHASE_INTENT:
    case PHASE_SENT:
    case PHASE_RUNNING:
    case PHASE_ENDING:
    case PHASE_OVER:
        return;
    case PHASE_WAITING:
        if (x->cgroup_state != CGROUP_REQUESTED && x->set && box_takes_execs(x->set->box))
            exec_start_send(x);
        return;
    }
}

/* --- what the guest knows --- */

void exec_on_known(struct exec *x, const struct guest_exec_state *state) {
    /* A correct guest does not report an exec in these phases. */
    if (x->phase == PHASE_OVER || x->phase == PHASE_INTENT)
        return;
    if (exec_fetch_is_used(x))
        exec_fetch_note(x, state->output_bytes);
    if (!exec_is_live(x))
        return;
    bool was_sent = x->phase == PHASE_SENT;
    exec_set_phase(x, PHASE_RUNNING);
    x->record->input->next_offset = state->stdin_next;
    x->record->input->closed = state->stdin_closed;
    if (state->has_exited) {
        exec_on_exited(x, state);
        return;
    }
    if (x->record->state == EXEC_STARTING) {
        x->record->state = EXEC_RUNNING;
        x->record->started_unix_ms =
            state->started_unix_ms ? state->started_unix_ms : clock_unix_ms();
        if (was_sent)
            x->started_us = clock_us();
    }
    /* After a restart bermd has no descriptor of the cgroup. */
    if (x->cgroup && x->cgroup_state == CGROUP_NONE)
        exec_cgroup_request(x);
    exec_give_input(x);
    exec_wake(x);
}

void execs_resume(struct execs *set) {
    LIST_FOR_EACH(node, &set->all) {
        struct exec *x = container_of(node, struct exec, in_set);
        if (!exec_is_live(x))
            continue;
        if (x->phase == PHASE_RUNNING) {
            exec_give_input(x);
            exec_wake(x);
            continue;
        }
        if (x->cgroup_state == CGROUP_NONE && x->phase != PHASE_SENT)
            exec_cgroup_request(x);
        exec_go(x);
    }
}
