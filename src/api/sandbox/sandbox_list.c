/* sandbox_list — ListSandboxes: pages from the store, once all earlier changes are durable. */
#include "api/checks.h"
#include "api/context.h"
#include "api/methods.h"
#include "api/page.h"
#include "core/sandbox/sandbox.h"

#define STATE(name) BERM__V1__SANDBOX_STATE__SANDBOX_STATE_##name

struct listing {
    struct ledger_wait wait;
    struct call *call;
    const Berm__V1__ListSandboxesRequest *m;
    struct caller caller;
    struct page page;
    uint32_t states; /* the requested states, one bit each */
    Berm__V1__Sandbox **found;
    size_t n_found;
    size_t bytes;
    size_t looks;
    uint64_t last;     /* number of the last row that was examined */
    uint64_t sequence; /* sequence of the newest change shown */
    bool more;
    bool is_damaged;
};

static int sandbox_list_read_states(struct listing *l, struct err *e) {
    l->states = ~(1u << STATE(DELETED));
    if (l->m->n_states > 0)
        l->states = 0;
    for (size_t i = 0; i < l->m->n_states; i++) {
        Berm__V1__SandboxState state = l->m->states[i];
        if (state == STATE(UNSPECIFIED) || (unsigned)state > STATE(DELETED)) {
            err_field(e, "states", "states[%zu]: must be a known state, got %d", i, (int)state);
            return err_at(e, "states[%zu]", i);
        }
        l->states |= 1u << state;
    }
    return 0;
}

/* --- the page --- */

static void sandbox_list_put_live(const struct listing *l, Berm__V1__Sandbox *record) {
    struct sandbox *sb;
    struct err e;
    if (registry_find_sandbox(context_registry(l->call), &l->caller, record->sandbox_id, &sb, &e) ==
        0)
        sandbox_put_live(sb, record);
}

static bool sandbox_list_on_row(void *user, const struct registry_row *row) {
    struct listing *l = user;
    if (l->n_found == l->page.size || l->bytes >= PAGE_BYTES || l->looks == PAGE_LOOKS) {
        l->more = true;
        return false;
    }
    l->looks++;
    l->last = row->number;
    if (row->state >= 32 || !(l->states & (1u << row->state)) || row->record.n == 0)
        return true;
    Berm__V1__Sandbox *record =
        berm__v1__sandbox__unpack(NULL, row->record.n, (const uint8_t *)row->record.p);
    l->is_damaged = !record || !record->spec;
    if (l->is_damaged || !labels_match(record->spec->n_labels, record->spec->labels,
                                       l->m->n_label_selector, l->m->label_selector)) {
        berm__v1__sandbox__free_unpacked(record, NULL);
        return !l->is_damaged;
    }
    sandbox_list_put_live(l, record);
    l->found[l->n_found++] = record;
    l->bytes += row->record.n;
    l->sequence = MAX(l->sequence, record->changed_sequence);
    return true;
}

static int sandbox_list_read_page(struct listing *l, Berm__V1__ListSandboxesResponse *response,
                                  struct err *e) {
    struct registry *registry = context_registry(l->call);
    const char *owner = l->caller.is_admin ? l->m->owner : l->caller.identity;
    l->found = malloc(l->page.size * sizeof *l->found);
    if (!l->found)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    /* Read the ledger's head before the store, which may be ahead of the ledger but never
     * behind. */
    l->sequence = ledger_head(registry_ledger(registry));
    int r =
        registry_list_sandboxes(registry, str_of(owner), l->page.before, sandbox_list_on_row, l, e);
    if (r == 0 && l->is_damaged)
        r = err_set(e, ERR_INTERNAL, "a record in the store cannot be read");
    if (r == 0 && l->more) {
        response->next_page_token = page_token(&l->page, l->call, l->last);
        if (!response->next_page_token)
            r = err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    }
    response->n_sandboxes = l->n_found;
    response->sandboxes = l->found;
    response->sequence = l->sequence;
    return r;
}

static void sandbox_list_reply(struct listing *l) {
    Berm__V1__ListSandboxesResponse response = BERM__V1__LIST_SANDBOXES_RESPONSE__INIT;
    struct call *c = l->call;
    struct err e;
    int r = sandbox_list_read_page(l, &response, &e);
    c->state = NULL;
    if (r == 0)
        call_reply(c, &response.base);
    else
        call_finish(c, &e);
    /* The records are not in the call's arena, because the call is over by now. */
    for (size_t i = 0; i < l->n_found; i++)
        berm__v1__sandbox__free_unpacked(l->found[i], NULL);
    free(l->found);
    free(l);
}

/* --- the call --- */

static void sandbox_list_on_durable(struct ledger_wait *w, const struct err *e) {
    (void)e; /* a failed change is not in the store, so the list is correct in any case */
    sandbox_list_reply(container_of(w, struct listing, wait));
}

static int sandbox_list_check(struct listing *l, struct err *e) {
    int r = check_selector(l->m->n_label_selector, l->m->label_selector, e);
    if (r == 0)
        r = sandbox_list_read_states(l, e);
    return r < 0 ? r : page_begin(&l->page, l->call, &l->m->base, l->caller.identity, e);
}

static void sandbox_list_on_message(struct call *c, const ProtobufCMessage *m) {
    if (!context_serves(c))
        return;
    struct listing *l = calloc(1, sizeof *l);
    struct err e;
    if (!l) {
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        call_finish(c, &e);
        return;
    }
    l->call = c;
    l->m = (const void *)m;
    context_caller(c, &l->caller);
    if (sandbox_list_check(l, &e) < 0) {
        free(l);
        call_finish(c, &e);
        return;
    }
    c->state = l;
    ledger_wait_init(&l->wait, sandbox_list_on_durable);
    if (!ledger_wait(context_ledger(c), NULL, &l->wait))
        sandbox_list_reply(l);
}

static void sandbox_list_on_cancel(struct call *c) {
    struct listing *l = c->state;
    if (!l)
        return;
    ledger_wait_cancel(&l->wait);
    free(l);
}

const struct handler api_sandbox_list = {.on_message = sandbox_list_on_message,
                                         .on_cancel = sandbox_list_on_cancel};
