/* exec_list — ListExecs: a page of programs, newest first. */
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
    size_t n_bytes; /* of the records shown */
    size_t n_looks;
    uint64_t last; /* the number of the last row dealt with */
    bool has_more;
    bool no_memory;
};

static bool is_wanted(const Berm__V1__ListExecsRequest *request, const Berm__V1__Exec *record) {
    bool has_state = request->n_states == 0;
    for (size_t i = 0; i < request->n_states && !has_state; i++)
        has_state = request->states[i] == record->state;
    const Berm__V1__ExecSpec *spec = record->spec;
    return has_state && labels_match(spec ? spec->n_labels : 0, spec ? spec->labels : NULL,
                                     request->n_label_selector, request->label_selector);
}

static bool is_running(uint32_t state) {
    return state == BERM__V1__EXEC_STATE__EXEC_STATE_STARTING ||
           state == BERM__V1__EXEC_STATE__EXEC_STATE_RUNNING;
}

/* A running program is shown as it stands now, not as it was written down. */
static const Berm__V1__Exec *as_it_stands(struct listing *l, const struct registry_row *row,
                                          const Berm__V1__Exec *record) {
    struct exec *x;
    struct err ignored;
    if (is_running(row->state) &&
        registry_find_exec(context_registry(l->call), &l->who, record->exec_id, &x, &ignored) == 0)
        return exec_record(x);
    return record;
}

/* A page also ends where its answer or the work for it would grow too large; the next one goes on. */
static bool on_row(void *user, const struct registry_row *row) {
    struct listing *l = user;
    ProtobufCAllocator allocator = call_allocator(l->call);
    if (l->n_shown == l->page.size || l->n_looks == PAGE_LOOKS || l->n_bytes > PAGE_BYTES) {
        l->has_more = true;
        return false;
    }
    l->n_looks++;
    l->last = row->number;
    if (row->record.n == 0)
        return true; /* gone with its sandbox */
    const Berm__V1__Exec *record =
        berm__v1__exec__unpack(&allocator, row->record.n, (const uint8_t *)row->record.p);
    if (!record) {
        l->no_memory = true;
        return false;
    }
    record = as_it_stands(l, row, record);
    if (is_wanted(l->request, record)) {
        l->shown[l->n_shown++] = (Berm__V1__Exec *)record;
        l->n_bytes += row->record.n;
    }
    return true;
}

static int read_page(struct listing *l, struct err *e) {
    struct call *c = l->call;
    struct str owner = l->who.is_admin ? STR("") : str_of(l->who.identity);
    l->shown = arena_alloc(&c->arena, l->page.size * sizeof *l->shown);
    if (!l->shown)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    if (registry_list_execs(context_registry(c), owner, str_of(l->request->sandbox_id),
                            l->page.before, on_row, l, e) < 0)
        return -(int)e->code;
    return l->no_memory ? err_set(e, ERR_LIMIT_REACHED, "a page this large needs too much memory")
                        : 0;
}

static void show(struct listing *l) {
    struct call *c = l->call;
    struct err e;
    Berm__V1__ListExecsResponse response = BERM__V1__LIST_EXECS_RESPONSE__INIT;
    int r = read_page(l, &e);
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

static void on_durable(struct ledger_wait *w, const struct err *e) {
    (void)e; /* what could not be written is not in the list */
    show(container_of(w, struct listing, wait));
}

static int check(struct listing *l, const ProtobufCMessage *m, struct err *e) {
    const Berm__V1__ListExecsRequest *request = l->request;
    struct sandbox *sb;
    if (request->sandbox_id[0] != '\0' &&
        subject_find_sandbox(l->call, request->sandbox_id, "sandbox_id", &sb, e) < 0)
        return -(int)e->code;
    for (size_t i = 0; i < request->n_states; i++)
        if (request->states[i] < BERM__V1__EXEC_STATE__EXEC_STATE_STARTING ||
            request->states[i] > BERM__V1__EXEC_STATE__EXEC_STATE_LOST) {
            err_field(e, "states", "states[%zu]: no state has the number %d", i,
                      (int)request->states[i]);
            return err_at(e, "states[%zu]", i);
        }
    if (check_selector(request->n_label_selector, request->label_selector, e) < 0)
        return -(int)e->code;
    return page_begin(&l->page, l->call, m, l->who.identity, e);
}

static void on_list(struct call *c, const ProtobufCMessage *m) {
    struct err e;
    struct listing *l = call_new_state(c, sizeof *l);
    if (!l)
        return;
    l->call = c;
    l->request = (const void *)m;
    context_caller(c, &l->who);
    ledger_wait_init(&l->wait, on_durable);
    if (check(l, m, &e) < 0) {
        call_finish(c, &e);
        return;
    }
    if (!ledger_wait(context_ledger(c), NULL, &l->wait))
        show(l);
}

static void on_cancel(struct call *c) {
    struct listing *l = c->state;
    ledger_wait_cancel(&l->wait);
}

const struct handler api_exec_list = {.on_message = on_list, .on_cancel = on_cancel};
