/* exec_start — from a durable intent to a running program: its files, the guest's answer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/fd.h"
#include "core/exec/exec_impl.h"

#define STATUS_FILE_BYTES 4096 /* as much as a status file may have */

/* --- the request --- */

void exec_put_env(struct json_out *o, size_t n, Berm__V1__KeyValue *const *env) {
    json_key(o, "env");
    json_open(o, '[');
    for (size_t i = 0; i < n; i++) {
        json_open(o, '{');
        json_put_str(o, "key", str_of(env[i]->key));
        json_put_str(o, "value", str_of(env[i]->value));
        json_close(o, '}');
    }
    json_close(o, ']');
}

static void put_terminal(struct json_out *o, const Berm__V1__Terminal *t) {
    if (!t)
        return;
    json_key(o, "terminal");
    json_open(o, '{');
    json_put_u64(o, "cols", t->size ? t->size->cols : 80);
    json_put_u64(o, "rows", t->size ? t->size->rows : 24);
    json_put_str(o, "term", str_of(t->term));
    json_close(o, '}');
}

static void put_output(struct json_out *o, const struct exec *x) {
    const Berm__V1__ExecSpec *spec = x->record->spec;
    static const char *const policies[] = {"drop_oldest", "drop_oldest", "block", "kill"};
    json_key(o, "output");
    json_open(o, '{');
    json_put_str(o, "policy", str_of(policies[spec->output_policy]));
    json_put_i64(o, "limit_bytes", exec_cap(x));
    json_put_bool(o, "merge_stderr", spec->merge_stderr);
    json_close(o, '}');
}

static void put_spec(struct json_out *o, const struct exec *x) {
    const Berm__V1__ExecSpec *spec = x->record->spec;
    bool takes_input =
        spec->stdin_mode == BERM__V1__STDIN_MODE__STDIN_MODE_PIPE || spec->terminal || x->input;
    json_put_str(o, "exec_id", str_of(x->record->exec_id));
    json_key(o, "argv");
    json_open(o, '[');
    for (size_t i = 0; i < spec->n_argv; i++)
        json_str(o, str_of(spec->argv[i]));
    json_close(o, ']');
    exec_put_env(o, spec->n_env, spec->env);
    if (spec->cwd[0])
        json_put_str(o, "cwd", str_of(spec->cwd));
    if (spec->user[0])
        json_put_str(o, "user", str_of(spec->user));
    put_terminal(o, spec->terminal);
    json_put_str(o, "stdin", takes_input ? STR("pipe") : STR("empty"));
    json_put_i64(o, "timeout_ms", spec->timeout_ms > 0 ? spec->timeout_ms : -1);
    json_put_i64(o, "grace_ms", spec->grace_ms);
    put_output(o, x);
    json_put_bool(o, "keep_descendants", spec->keep_descendants);
}

struct files {
    int fds[4]; /* stdout, stderr, status, exec cgroup: those there are */
    const char *roles[4];
    size_t n;
};

static enum err_code code_of(int sys) {
    if (sys == EMFILE || sys == ENFILE)
        return ERR_LIMIT_REACHED;
    return sys == ENOSPC || sys == EDQUOT ? ERR_STORE_FULL : ERR_STORE_FAILED;
}

static int add_file(struct exec *x, struct files *f, int dir, enum exec_file which,
                    const char *role, struct err *e) {
    char name[80];
    exec_log_name(x, which, name, sizeof name);
    int fd =
        openat(dir, name, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, code_of(errno), errno, "make the output files");
    f->fds[f->n] = fd;
    f->roles[f->n++] = role;
    /* On a disk that fills meanwhile its end can still be written down, and a word about why. Where
     * nothing can be set aside, nothing is. */
    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, STATUS_FILE_BYTES) < 0 &&
        code_of(errno) == ERR_STORE_FULL)
        return err_sys(e, ERR_STORE_FULL, errno, "set room aside for the output files");
    return 0;
}

static int open_files(struct exec *x, struct files *f, struct err *e) {
    int dir = sandbox_dir(x->sandbox);
    if (dir < 0)
        return err_sys(e, code_of(-dir), -dir, "open the sandbox's folder");
    int r = add_file(x, f, dir, EXEC_FILE_STDOUT, "stdout", e);
    if (r == 0 && exec_n_streams(x) == 2)
        r = add_file(x, f, dir, EXEC_FILE_STDERR, "stderr", e);
    if (r == 0)
        r = add_file(x, f, dir, EXEC_FILE_STATUS, "status", e);
    return r;
}

/* --- the answer --- */

static void on_started(struct guest_wait *w, const struct guest_answer *a) {
    struct exec *x = container_of(w, struct exec, start_wait);
    failpoint(FAIL_EXEC_ACK);
    if (!a->e)
        exec_on_known(x, a->result);
    else if (a->e->code == ERR_GUEST_LOST || a->e->code == ERR_GUEST_PROTOCOL)
        exec_set_phase(x, PHASE_WAITING); /* the next link says whether it runs */
    else
        exec_not_started(x, a->e);
}

/* Gives the guest the exec's files and spec. */
static void exec_send(struct exec *x) {
    struct sandbox *sb = x->sandbox;
    struct files f = {.n = 0};
    struct err e;
    if (open_files(x, &f, &e) < 0) {
        fd_close_all(f.fds, f.n);
        exec_not_started(x, &e);
        return;
    }
    size_t n_files = f.n;
    if (x->cgroup_fd >= 0) {
        f.fds[f.n] = x->cgroup_fd;
        f.roles[f.n++] = x->cgroup_is_dir ? "leaf" : "cgroup";
    }
    struct json_out *o = guest_link_ask(sb->link, "exec");
    put_spec(o, x);
    json_key(o, "fd_roles");
    json_open(o, '[');
    for (size_t i = 0; i < f.n; i++)
        json_str(o, str_of(f.roles[i]));
    json_close(o, ']');
    exec_set_phase(x, PHASE_SENT);
    guest_wait_init(&x->start_wait, on_started);
    guest_link_send(sb->link, f.fds, f.n, &x->start_wait);
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
        if (x->cgroup_state != CGROUP_REQUESTED && x->sandbox && sandbox_takes_execs(x->sandbox))
            exec_send(x);
        return;
    }
}

/* --- what the guest knows --- */

void exec_on_known(struct exec *x, const struct json *state) {
    const struct json *name = json_get(state, "state");
    const struct json *closed = json_get(state, "stdin_closed");
    if (!exec_is_live(x) || x->phase == PHASE_INTENT) /* no honest guest knows an intent */
        return;
    bool was_sent = x->phase == PHASE_SENT;
    exec_set_phase(x, PHASE_RUNNING);
    x->record->input->next_offset = json_count(state, "stdin_next");
    x->record->input->closed = closed && closed->type == JSON_BOOL && closed->boolean;
    if (name && name->type == JSON_STRING && str_is(name->text, STR("exited"))) {
        exec_on_exited(x, state);
        return;
    }
    if (x->record->state == EXEC_STARTING) {
        uint64_t told = json_count(state, "started_unix_ms");
        x->record->state = EXEC_RUNNING;
        x->record->started_unix_ms = told ? (int64_t)told : clock_unix_ms();
        if (was_sent)
            x->started_us = clock_us();
    }
    if (x->cgroup && x->cgroup_state == CGROUP_NONE) /* after a restart */
        exec_cgroup_request(x);
    exec_give_input(x);
    exec_wake(x);
}

void exec_resume_all(struct sandbox *sb) {
    LIST_FOR_EACH(node, &sb->execs) {
        struct exec *x = container_of(node, struct exec, in_sandbox);
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

void exec_tell_done(struct sandbox *sb, const struct json *state) {
    const struct json *id = json_get(state, "exec_id");
    if (!id || id->type != JSON_STRING || id->text.n >= 64)
        return;
    struct json_out *o = guest_link_ask(sb->link, "done");
    json_put_str(o, "exec_id", id->text);
    guest_link_send(sb->link, NULL, 0, NULL);
}
