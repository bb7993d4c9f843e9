/* exec_input — requests of callers to a running exec: input, end of input, signals, terminal
 * size. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "base/fd.h"
#include "core/exec/exec_impl.h"

/* A request to the guest; freed when the guest has replied, even if the caller is gone. */
struct guest_ask {
    struct list in_exec;
    struct exec *exec;
    struct exec_ask *asker; /* NULL: the caller is gone */
    struct guest_wait wait;
    struct ledger_wait durable;
    int signal;
    bool leader_only;
    uint64_t number; /* for a signal: the sequence of its event */
};

static struct guest_ask *exec_ask_new(struct exec *x, struct exec_ask *a,
                                      void (*on_answer)(struct guest_wait *w,
                                                        const struct guest_answer *answer)) {
    struct guest_ask *ask = calloc(1, sizeof *ask);
    if (!ask)
        return NULL;
    ask->exec = x;
    ask->asker = a;
    guest_wait_init(&ask->wait, on_answer);
    list_push_back(&x->asks, &ask->in_exec);
    a->inner = ask;
    a->exec = x;
    a->next_offset = a->window_bytes = 0;
    return ask;
}

static void exec_ask_end(struct guest_ask *ask, const struct err *e) {
    struct exec_ask *a = ask->asker;
    list_remove(&ask->in_exec);
    guest_wait_cancel(&ask->wait);
    ledger_wait_cancel(&ask->durable);
    free(ask);
    if (!a)
        return;
    a->inner = NULL;
    a->on_done(a, e);
}

void exec_ask_cancel(struct exec_ask *a) {
    if (a->inner)
        a->inner->asker = NULL;
    a->inner = NULL;
}

/* Fails every request, because the exec is being freed. */
void exec_asks_cancel(struct exec *x) {
    struct err e;
    while (!list_is_empty(&x->asks)) {
        err_set(&e, ERR_GUEST_LOST, "the sandbox is gone");
        exec_ask_end(container_of(x->asks.next, struct guest_ask, in_exec), &e);
    }
}

/* Returns 0 when the exec runs and its guest accepts requests now. */
static int exec_check_alive(struct exec *x, struct err *e) {
    if (!exec_is_live(x)) {
        err_set(e, ERR_EXEC_ENDED, "%s has ended", x->record->exec_id);
        return err_about(e, "exec_id", x->record->exec_id);
    }
    if (!x->set)
        return err_set(e, ERR_GUEST_LOST, "the sandbox is gone");
    int r = box_check_ready(x->set->box, 0, e);
    if (r == 0 && (!box_is_linked(x->set->box) || x->phase != PHASE_RUNNING))
        return err_set(e, ERR_GUEST_LOST, "the guest cannot be reached now");
    return r;
}

static int exec_ask_no_memory(struct err *e) {
    return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
}

/* --- input --- */

static void exec_input_advance(struct exec *x, const struct guest_answer *a) {
    uint64_t next = a->e ? 0 : a->input->next_offset;
    x->record->input->next_offset = MAX(x->record->input->next_offset, next);
}

static void on_written(struct guest_wait *w, const struct guest_answer *a) {
    struct guest_ask *ask = container_of(w, struct guest_ask, wait);
    exec_input_advance(ask->exec, a);
    if (ask->asker) {
        ask->asker->next_offset = a->e ? (uint64_t)MAX(a->next_offset, 0) : a->input->next_offset;
        ask->asker->window_bytes = a->e ? 0 : a->input->window_bytes;
    }
    exec_ask_end(ask, a->e);
}

int exec_write(struct exec *x, uint64_t offset, struct str data, struct exec_ask *a,
               struct err *e) {
    int r = exec_check_alive(x, e);
    if (r < 0)
        return r;
    if (x->record->input->closed) {
        err_set(e, ERR_STDIN_CLOSED, "the input of %s has ended", x->record->exec_id);
        return err_about(e, "exec_id", x->record->exec_id);
    }
    struct guest_ask *ask = exec_ask_new(x, a, on_written);
    if (!ask)
        return exec_ask_no_memory(e);
    ledger_wait_init(&ask->durable, NULL);
    guest_exec_write(x->set->box->link, x->record->exec_id, offset, data, &ask->wait);
    return 0;
}

static void on_asked(struct guest_wait *w, const struct guest_answer *a) {
    struct guest_ask *ask = container_of(w, struct guest_ask, wait);
    if (ask->asker && a->e)
        ask->asker->next_offset = (uint64_t)MAX(a->next_offset, 0);
    exec_ask_end(ask, a->e);
}

static void on_closed(struct guest_wait *w, const struct guest_answer *a) {
    struct guest_ask *ask = container_of(w, struct guest_ask, wait);
    if (!a->e)
        ask->exec->record->input->closed = true;
    on_asked(w, a);
}

int exec_close_input(struct exec *x, uint64_t offset, struct exec_ask *a, struct err *e) {
    int r = exec_check_alive(x, e);
    if (r < 0)
        return r;
    struct guest_ask *ask = exec_ask_new(x, a, on_closed);
    if (!ask)
        return exec_ask_no_memory(e);
    ledger_wait_init(&ask->durable, NULL);
    guest_exec_close_stdin(x->set->box->link, x->record->exec_id, offset, &ask->wait);
    return 0;
}

/* Writes the whole input before the intent, because the program must not run with only a part of
 * its input. The file is not synced, because a power loss ends the program too. */
int exec_keep_input(struct exec *x, struct str data, struct err *e) {
    char name[80];
    if (data.n == 0)
        return 0;
    int dir = box_dir(x->set->box);
    exec_log_name(x, EXEC_FILE_INPUT, name, sizeof name);
    AUTO_CLOSE int fd =
        dir < 0 ? dir : openat(dir, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data.p, data.n) != (ssize_t)data.n)
        return err_sys(e, errno == ENOSPC ? ERR_STORE_FULL : ERR_STORE_FAILED, errno,
                       "keep the input of a program");
    if (!(x->input = malloc(data.n)))
        return exec_ask_no_memory(e);
    memcpy(x->input, data.p, data.n);
    x->n_input = data.n;
    return 0;
}

void exec_restore_input(struct exec *x) {
    char name[80];
    struct stat st;
    int dir = x->set ? box_dir(x->set->box) : -1;
    exec_log_name(x, EXEC_FILE_INPUT, name, sizeof name);
    AUTO_CLOSE int fd = dir < 0 ? -1 : fd_open_beneath(dir, name, O_RDONLY, 0);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0 || !(x->input = malloc((size_t)st.st_size)))
        return;
    ssize_t n = read(fd, x->input, (size_t)st.st_size);
    x->n_input = n > 0 ? (size_t)n : 0;
}

void exec_forget_input(struct exec *x) {
    char name[80];
    if (!x->input)
        return;
    free(TAKE(x->input));
    exec_log_name(x, EXEC_FILE_INPUT, name, sizeof name);
    if (x->set && x->set->box->dir_fd >= 0)
        unlinkat(x->set->box->dir_fd, name, 0);
}

/* Sends the input of the start request as the program accepts it, and then closes it. bermd keeps
 * the input until the guest has confirmed the close, so that no broken link or restart leaves the
 * input open. True: bermd sends again, now or on the next link. */
static bool exec_input_retry(struct exec *x, const struct err *e) {
    if (e && e->code == ERR_LIMIT_REACHED) /* too many requests to the guest in this turn */
        exec_give_input(x);
    return e && (e->code == ERR_LIMIT_REACHED || e->code == ERR_GUEST_LOST ||
                 e->code == ERR_GUEST_PROTOCOL);
}

static void on_given(struct guest_wait *w, const struct guest_answer *a) {
    struct exec *x = container_of(w, struct exec, input_wait);
    exec_input_advance(x, a);
    if (exec_input_retry(x, a->e))
        return;
    if (a->e) /* the guest refused: the program closed its input, or has ended */
        exec_forget_input(x);
    else if (a->input->window_bytes > 0 || x->record->input->next_offset >= x->n_input)
        exec_give_input(x);
}

static void on_input_ended(struct guest_wait *w, const struct guest_answer *a) {
    struct exec *x = container_of(w, struct exec, input_wait);
    if (exec_input_retry(x, a->e))
        return;
    x->record->input->closed = true;
    exec_forget_input(x);
}

void exec_give_input(struct exec *x) {
    if (!x->input || !exec_is_live(x) || !box_is_linked(x->set->box) ||
        guest_wait_is_on(&x->input_wait))
        return;
    uint64_t next = x->record->input->next_offset;
    if (next < x->n_input) {
        struct str left = {(const char *)x->input + next, x->n_input - next};
        guest_wait_init(&x->input_wait, on_given);
        guest_exec_write(x->set->box->link, x->record->exec_id, next, left, &x->input_wait);
    } else {
        guest_wait_init(&x->input_wait, on_input_ended);
        guest_exec_close_stdin(x->set->box->link, x->record->exec_id, next, &x->input_wait);
    }
}

void exec_on_stdin_writable(struct exec *x, uint64_t next_offset) {
    x->record->input->next_offset = MAX(x->record->input->next_offset, next_offset);
    exec_give_input(x);
    exec_wake(x);
}

/* --- signals --- */

static void on_signalled(struct guest_wait *w, const struct guest_answer *a) {
    failpoint(FAIL_SIGNAL_ACK);
    on_asked(w, a);
}

static void exec_signal_send(struct guest_ask *ask) {
    struct exec *x = ask->exec;
    x->caller_signal = ask->signal;
    guest_exec_signal(x->set->box->link, x->record->exec_id, ask->signal, ask->leader_only,
                      ask->number, &ask->wait);
    failpoint(FAIL_SIGNAL_SEND);
}

static void on_signal_durable(struct ledger_wait *w, const struct err *e) {
    struct guest_ask *ask = container_of(w, struct guest_ask, durable);
    struct exec *x = ask->exec;
    struct err late;
    if (!e && exec_check_alive(x, &late) < 0)
        e = &late;
    if (e) {
        exec_ask_end(ask, e);
        return;
    }
    failpoint(FAIL_SIGNAL_COMMIT);
    exec_signal_send(ask);
}

static uint64_t exec_signal_put_event(struct exec *x, struct entry *t, int number,
                                      const struct change *c) {
    Berm__V1__Event event;
    Berm__V1__Actor actor;
    Berm__V1__ExecSignalEvent signal = BERM__V1__EXEC_SIGNAL_EVENT__INIT;
    const Berm__V1__SandboxSpec *spec = x->set->box->record->spec;
    box_event_init(x->set->box, &event, &actor, c->who, false, c->key ? c->key->request_id : NULL);
    signal.exec_id = x->record->exec_id;
    signal.signal_number = number;
    event.kind = BERM__V1__EVENT_KIND__EVENT_KIND_EXEC_SIGNAL;
    event.body_case = BERM__V1__EVENT__BODY_EXEC_SIGNAL;
    event.exec_signal = &signal;
    return entry_event(t, &event, spec->n_labels, spec->labels);
}

int exec_signal(struct exec *x, int number, bool leader_only, const struct change *c,
                struct exec_ask *a, struct err *e) {
    int r = exec_check_alive(x, e);
    if (r < 0)
        return r;
    struct guest_ask *ask = exec_ask_new(x, a, on_signalled);
    if (!ask)
        return exec_ask_no_memory(e);
    struct entry *t = ledger_begin(x->env->ledger);
    if (!t) {
        ask->asker = NULL;
        a->inner = NULL;
        ledger_wait_init(&ask->durable, NULL);
        exec_ask_end(ask, NULL);
        return change_refused(e);
    }
    ask->signal = number;
    ask->leader_only = leader_only;
    ledger_wait_init(&ask->durable, on_signal_durable);
    ask->number = exec_signal_put_event(x, t, number, c);
    entry_put_request(t, c->key, x->record->exec_id,
                      (struct str){(const char *)&ask->number, sizeof ask->number});
    failpoint(FAIL_SIGNAL_INTENT);
    ledger_commit(t, &ask->durable);
    return 0;
}

int exec_signal_again(struct exec *x, int number, bool leader_only, struct str answer,
                      struct exec_ask *a, struct err *e) {
    int r = answer.n == sizeof(uint64_t) ? exec_check_alive(x, e)
                                         : err_set(e, ERR_INTERNAL, "a signal without its number");
    if (r < 0)
        return r;
    struct guest_ask *ask = exec_ask_new(x, a, on_signalled);
    if (!ask)
        return exec_ask_no_memory(e);
    ask->signal = number;
    ask->leader_only = leader_only;
    memcpy(&ask->number, answer.p, sizeof ask->number);
    ledger_wait_init(&ask->durable, NULL);
    exec_signal_send(ask);
    return 0;
}

int exec_resize(struct exec *x, uint32_t cols, uint32_t rows, struct exec_ask *a, struct err *e) {
    int r = exec_check_alive(x, e);
    if (r < 0)
        return r;
    if (!exec_has_terminal(x)) {
        err_set(e, ERR_EXEC_NO_TERMINAL, "%s has no terminal", x->record->exec_id);
        return err_about(e, "exec_id", x->record->exec_id);
    }
    struct guest_ask *ask = exec_ask_new(x, a, on_asked);
    if (!ask)
        return exec_ask_no_memory(e);
    ledger_wait_init(&ask->durable, NULL);
    guest_exec_resize(x->set->box->link, x->record->exec_id, cols, rows, &ask->wait);
    return 0;
}

void exec_measure(struct exec *x) {
    if (x->phase != PHASE_OVER)
        exec_read_usage(x);
}
