/* exec_list — ListExecs: a page of execs, newest first. */
#include "api/checks.h"
#include "api/subject.h"
#include "api/methods.h"
#include "api/page.h"

struct listing {
    struct call *call;
    const Berm__V1__ListExecsRequest *request;
    struct caller who;
    struct ledger_wait wait;
    struct page page;
    Berm__V1__Exec **shown;
    size_t n_shown;
    size_t n_bytes; /* total size of the records shown */
    size_t n_looks;
    uint64_t last; /* number of the last row that was examined */
    bool has_more;
    bool no_memory;
};

static bool exec_list_matches(const Berm__V1__ListExecsRequest *request,
                              const Berm__V1__Exec *record) {
    bool has_state = request->n_states == 0;
    for (size_t i = 0; i < request->n_states && !has_state; i++)
        has_state = request->states[i] == record->state;
    const Berm__V1__ExecSpec *spec = record->spec;
    return has_state && labels_match(spec ? spec->n_labels : 0, spec ? spec->labels : NULL,
                                     request->n_label_selector, request->label_selector);
}

static bool exec_list_is_running(uint32_t state) {
    return state == BERM__V1__EXEC_STATE__EXEC_STATE_STARTING ||
           state == BERM__V1__EXEC_STATE__EXEC_STATE_RUNNING;
}

/* The stored record of a running exec is stale, so show the one in memory. */
static const Berm__V1__Exec *exec_list_current(struct listing *l, const struct registry_row *row,
                                               const Berm__V1__Exec *record) {
    struct exec *x;
    struct err ignored;
    if (exec_list_is_running(row->state) &&
        registry_find_exec(context_registry(l->call), &l->who, record->exec_id, &x, &ignored) == 0)
        return exec_record(x);
    return record;
}

/* Adds a matching row to the page. The page also ends when the response or the number of examined
 * rows gets too large; the next page continues there. */
static bool exec_list_on_row(void *user, const struct registry_row *row) {
    struct listing *l = user;
    ProtobufCAllocator allocator = call_allocator(l->call);
    if (l->n_shown == l->page.size || l->n_looks == PAGE_LOOKS || l->n_bytes > PAGE_BYTES) {
        l->has_more = true;
        return false;
    }
    l->n_looks++;
    l->last = row->number;
    if (row->record.n == 0)
        return true; /* the exec was deleted with its sandbox */
    const Berm__V1__Exec *record =
        berm__v1__exec__unpack(&allocator, row->record.n, (const uint8_t *)row->record.p);
    if (!record) {
        l->no_memory = true;
        return false;
    }
    record = exec_list_current(l, row, record);
    if (exec_list_matches(l->request, record)) {
        l->shown[l->n_shown++] = (Berm__V1__Exec *)record;
        l->n_bytes += row->record.n;
    }
    return true;
}

static int exec_list_read_page(struct listing *l, struct err *e) {
    struct call *c = l->call;
    struct str owner = l->who.is_admin ? STR("") : str_of(l->who.identity);
    l->shown = arena_alloc(&c->arena, l->page.size * sizeof *l->shown);
    if (!l->shown)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    if (registry_list_execs(context_registry(c), owner, str_of(l->request->sandbox_id),
                            l->page.before, exec_list_on_row, l, e) < 0)
        return -(int)e->code;
    return l->no_memory
               ? err_set(e, ERR_LIMIT_REACHED,
                         "page_size: the page needs too much memory; ask for a smaller one")
               : 0;
}

static void exec_list_reply(struct listing *l) {
    struct call *c = l->call;
    struct err e;
    Berm__V1__ListExecsResponse response = BERM__V1__LIST_EXECS_RESPONSE__INIT;
    int r = exec_list_read_page(l, &e);
    if (r == 0 && l->has_more) {
        response.next_page_token = page_token(&l->page, c, l->last);
        if (!response.next_page_token)
            r = err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
    }
    if (r < 0) {
        call_finish(c, &e);
        return;
    }
    response.execs = l->shown;
    response.n_execs = l->n_shown;
    response.sequence = ledger_head(context_ledger(c));
    call_reply(c, &response.base);
}

static void exec_list_on_durable(struct ledger_wait *w, const struct err *e) {
    (void)e; /* a failed change is not in the store, so the list is correct in any case */
    exec_list_reply(container_of(w, struct listing, wait));
}

static int exec_list_check(struct listing *l, const ProtobufCMessage *m, struct err *e) {
    const Berm__V1__ListExecsRequest *request = l->request;
    struct sandbox *sb;
    if (request->sandbox_id[0] != '\0' &&
        subject_find_sandbox(l->call, request->sandbox_id, "sandbox_id", &sb, e) < 0)
        return -(int)e->code;
    for (size_t i = 0; i < request->n_states; i++)
        if (request->states[i] < BERM__V1__EXEC_STATE__EXEC_STATE_STARTING ||
            request->states[i] > BERM__V1__EXEC_STATE__EXEC_STATE_LOST) {
            err_field(e, "states", "states[%zu]: must be a known state, got %d", i,
                      (int)request->states[i]);
            return err_at(e, "states[%zu]", i);
        }
    if (check_selector(request->n_label_selector, request->label_selector, e) < 0)
        return -(int)e->code;
    return page_begin(&l->page, l->call, m, l->who.identity, e);
}

static void exec_list_on_message(struct call *c, const ProtobufCMessage *m) {
    struct err e;
    struct listing *l = call_new_state(c, sizeof *l);
    if (!l)
        return;
    l->call = c;
    l->request = (const void *)m;
    context_caller(c, &l->who);
    ledger_wait_init(&l->wait, exec_list_on_durable);
    if (exec_list_check(l, m, &e) < 0) {
        call_finish(c, &e);
        return;
    }
    if (!ledger_wait(context_ledger(c), NULL, &l->wait))
        exec_list_reply(l);
}

static void exec_list_on_cancel(struct call *c) {
    struct listing *l = c->state;
    ledger_wait_cancel(&l->wait);
}

const struct handler api_exec_list = {.on_message = exec_list_on_message,
                                      .on_cancel = exec_list_on_cancel};
