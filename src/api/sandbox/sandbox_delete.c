/* DeleteSandboxes: every sandbox of the caller's that bears the labels, at most BATCH in one call.
 *
 * Each deletion is an entry of its own; the request id comes in one more behind them, with the ids it
 * stands for, so that it is durable only when all of them are. */
#include <stdio.h>

#include "api/checks.h"
#include "api/context.h"
#include "api/methods.h"
#include "core/sandbox/sandbox.h"

#define BATCH 1000

struct many;

struct one {
    struct sandbox_wait wait;
    struct many *many;
};

enum step { ASKING, CHANGING, WAITING };

struct many {
    struct call *call; /* NULL: it was cancelled while CHANGING */
    const Berm__V1__DeleteSandboxesRequest *m;
    enum step step;
    struct request request;
    struct ledger_wait wait;
    char *ids[BATCH]; /* ours, sorted */
    size_t n_ids;
    bool more;
    struct one *ones; /* waiting for the deletions to end */
    size_t n_waiting;
};

static void many_free(struct many *d) {
    for (size_t i = 0; i < d->n_ids; i++)
        free(d->ids[i]);
    free(d->ones);
    free(d);
}

static void finish_with(struct many *d, const struct err *e) {
    struct call *c = d->call;
    request_settle(&d->request);
    c->state = NULL;
    many_free(d);
    call_finish(c, e);
}

static void fill(const struct many *d, Berm__V1__DeleteSandboxesResponse *response) {
    berm__v1__delete_sandboxes_response__init(response);
    response->n_sandbox_ids = d->n_ids;
    response->sandbox_ids = (char **)d->ids;
    response->more = d->more;
}

static void answer(struct many *d) {
    Berm__V1__DeleteSandboxesResponse response;
    struct call *c = d->call;
    fill(d, &response);
    response.sequence = ledger_head(context_ledger(c));
    request_settle(&d->request);
    c->state = NULL;
    call_reply(c, &response.base);
    many_free(d);
}

/* --- waiting until they are gone --- */

static void on_one_gone(struct waiter *w) {
    struct one *one = container_of(w, struct one, wait.waiter);
    if (--one->many->n_waiting == 0)
        answer(one->many);
}

static void changed(struct many *d) {
    struct registry *r = context_registry(d->call);
    struct sandbox *sb;
    struct err e;
    d->step = WAITING;
    d->ones = d->m->wait_ms > 0 ? calloc(d->n_ids + 1, sizeof *d->ones) : NULL;
    for (size_t i = 0; d->ones && i < d->n_ids; i++) {
        struct one *one = &d->ones[d->n_waiting];
        if (registry_find_sandbox(r, &d->request.caller, d->ids[i], &sb, &e) < 0)
            continue;
        one->many = d;
        one->wait.until_deleted = true;
        sandbox_wait(sb, &one->wait, d->m->wait_ms, on_one_gone);
        d->n_waiting++;
    }
    if (d->n_waiting == 0)
        answer(d);
}

/* --- deleting --- */

static bool on_each(void *user, struct sandbox *sb) {
    struct many *d = user;
    const Berm__V1__Sandbox *record = sandbox_record(sb);
    if (record->state >= BERM__V1__SANDBOX_STATE__SANDBOX_STATE_DELETING ||
        strcmp(record->owner, d->request.caller.identity) != 0 ||
        !labels_match(record->spec->n_labels, record->spec->labels, d->m->n_label_selector,
                      d->m->label_selector))
        return true;
    d->more = d->n_ids == BATCH || !(d->ids[d->n_ids] = strdup(record->sandbox_id));
    d->n_ids += !d->more;
    return !d->more;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Those that cannot be deleted now are left for the next call; the first one's error is ours. */
static int delete_each(struct many *d, struct err *e) {
    struct registry *r = context_registry(d->call);
    struct change change = {.who = &d->request.caller};
    size_t n = d->n_ids;
    d->n_ids = 0;
    for (size_t i = 0; i < n; i++) {
        struct sandbox *sb;
        if (registry_find_sandbox(r, change.who, d->ids[i], &sb, e) == 0 &&
            sandbox_delete(sb, 0, &change, e) == 0) {
            d->ids[d->n_ids++] = d->ids[i];
            continue;
        }
        if (i == 0)
            err_about(e, "sandbox_id", d->ids[i]);
        for (size_t k = i; k < n; k++)
            free(d->ids[k]);
        d->more = true;
        return i == 0 ? -(int)e->code : 0;
    }
    return 0;
}

static void on_changed(struct ledger_wait *w, const struct err *e) {
    struct many *d = container_of(w, struct many, wait);
    request_settle(&d->request);
    if (!d->call)
        many_free(d);
    else if (e)
        finish_with(d, e);
    else
        changed(d);
}

/* *ret_waits is false when there is nothing to wait for. */
static int remember(struct many *d, bool *ret_waits, struct err *e) {
    struct ledger *ledger = context_ledger(d->call);
    Berm__V1__DeleteSandboxesResponse response;
    ledger_wait_init(&d->wait, on_changed);
    *ret_waits = true;
    if (d->request.request_id[0] == '\0') {
        *ret_waits = ledger_wait(ledger, NULL, &d->wait);
        return 0;
    }
    fill(d, &response);
    size_t n = berm__v1__delete_sandboxes_response__get_packed_size(&response);
    uint8_t *bytes = arena_alloc(&d->call->arena, n + 1);
    struct entry *t = bytes ? ledger_begin(ledger) : NULL;
    if (!t)
        return err_set(e, ERR_STORE_FAILED, "the store takes no change at this moment");
    berm__v1__delete_sandboxes_response__pack(&response, bytes);
    entry_put_request(t, &d->request.key, "", (struct str){(const char *)bytes, n});
    ledger_commit(t, &d->wait);
    return 0;
}

static void act(struct many *d) {
    struct err e;
    bool waits;
    registry_each_sandbox(context_registry(d->call), on_each, d);
    qsort(d->ids, d->n_ids, sizeof *d->ids, by_name);
    d->step = CHANGING;
    if (delete_each(d, &e) < 0 || remember(d, &waits, &e) < 0)
        finish_with(d, &e);
    else if (!waits)
        changed(d);
}

/* --- the call --- */

/* The ids of the first time, and none that was made since. */
static int recall(struct many *d, struct err *e) {
    Berm__V1__DeleteSandboxesResponse *first = berm__v1__delete_sandboxes_response__unpack(
        NULL, d->request.answer.n, (const uint8_t *)d->request.answer.p);
    if (!first)
        return err_set(e, ERR_INTERNAL, "a record in the store cannot be read");
    d->more = first->more;
    for (size_t i = 0; i < MIN(first->n_sandbox_ids, (size_t)BATCH); i++) {
        d->ids[i] = TAKE(first->sandbox_ids[i]);
        d->n_ids++;
    }
    berm__v1__delete_sandboxes_response__free_unpacked(first, NULL);
    return 0;
}

static void ask(struct many *d);

static void on_again(struct request *r) {
    ask(container_of(r, struct many, request));
}

static void ask(struct many *d) {
    enum request_turn turn;
    struct err e;
    d->step = ASKING;
    if (request_begin(&d->request, d->call, &d->m->base, on_again, &turn, &e) < 0 ||
        (turn == REQUEST_REPEAT && recall(d, &e) < 0))
        finish_with(d, &e);
    else if (turn == REQUEST_NEW)
        act(d);
    else if (turn == REQUEST_REPEAT)
        changed(d);
}

static int check(const Berm__V1__DeleteSandboxesRequest *m, struct err *e) {
    if (m->n_label_selector == 0)
        return err_field(e, "label_selector", "label_selector: give one label or more");
    int r = check_selector(m->n_label_selector, m->label_selector, e);
    return r < 0 ? r : check_wait(m->wait_ms, e);
}

static void on_delete_many(struct call *c, const ProtobufCMessage *message) {
    const Berm__V1__DeleteSandboxesRequest *m = (const void *)message;
    struct err e;
    struct many *d = NULL;
    if (!context_serves(c))
        return;
    if (check(m, &e) == 0 && !(d = calloc(1, sizeof *d)))
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
    if (!d) {
        call_finish(c, &e);
        return;
    }
    d->call = c;
    d->m = m;
    c->state = d;
    ask(d);
}

static void on_delete_many_cancel(struct call *c) {
    struct many *d = c->state;
    if (!d)
        return;
    c->state = NULL;
    if (d->step == CHANGING) {
        d->call = NULL;
        return;
    }
    for (size_t i = 0; d->ones && i <= d->n_ids; i++)
        if (d->ones[i].many)
            sandbox_wait_cancel(&d->ones[i].wait);
    request_settle(&d->request);
    many_free(d);
}

const struct handler api_sandbox_delete_many = {.on_message = on_delete_many,
                                                .on_cancel = on_delete_many_cancel};
