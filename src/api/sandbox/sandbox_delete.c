/* sandbox_delete — DeleteSandboxes: every sandbox of the caller that has the labels, at most BATCH
 * in one call.
 *
 * Each deletion has a ledger entry of its own. The request id follows in one more entry with the
 * ids it stands for, so it is durable only when all deletions are. */
#include <stdio.h>

#include "api/checks.h"
#include "api/context.h"
#include "api/methods.h"
#include "api/mutation.h"
#include "core/sandbox/sandbox.h"

#define BATCH 1000

struct batch;

struct batch_wait {
    struct sandbox_wait wait;
    struct batch *batch;
};

struct batch {
    struct mutation mu;
    char *ids[BATCH]; /* sorted; each id is from malloc */
    size_t n_ids;
    bool has_more;
    struct batch_wait *waits; /* wait for the sandboxes to be deleted; NULL: no waits */
    size_t n_waits;
    size_t n_waiting;
};

static struct batch *batch_of(struct mutation *mu) {
    return container_of(mu, struct batch, mu);
}

static const Berm__V1__DeleteSandboxesRequest *batch_request(const struct batch *b) {
    return (const void *)b->mu.m;
}

static void batch_release(struct mutation *mu) {
    struct batch *b = batch_of(mu);
    for (size_t i = 0; i < b->n_waits; i++)
        sandbox_wait_cancel(&b->waits[i].wait);
    for (size_t i = 0; i < b->n_ids; i++)
        free(b->ids[i]);
    free(b->waits);
}

static void batch_fill(const struct batch *b, Berm__V1__DeleteSandboxesResponse *response) {
    berm__v1__delete_sandboxes_response__init(response);
    response->n_sandbox_ids = b->n_ids;
    response->sandbox_ids = (char **)b->ids;
    response->more = b->has_more;
}

static void batch_reply(struct batch *b) {
    Berm__V1__DeleteSandboxesResponse response;
    batch_fill(b, &response);
    response.sequence = ledger_head(context_ledger(b->mu.call));
    mutation_reply(&b->mu, &response.base);
}

/* --- waiting until they are deleted --- */

static void batch_on_deleted(struct waiter *w) {
    struct batch *b = container_of(w, struct batch_wait, wait.waiter)->batch;
    if (--b->n_waiting == 0)
        batch_reply(b);
}

static void batch_wait_all(struct mutation *mu) {
    struct batch *b = batch_of(mu);
    int64_t wait_ms = batch_request(b)->wait_ms;
    struct sandbox *sb;
    struct err e;
    b->waits = wait_ms > 0 ? calloc(b->n_ids + 1, sizeof *b->waits) : NULL;
    for (size_t i = 0; b->waits && i < b->n_ids; i++) {
        if (registry_find_sandbox(context_registry(mu->call), &mu->caller, b->ids[i], &sb, &e) < 0)
            continue;
        struct batch_wait *w = &b->waits[b->n_waits++];
        w->batch = b;
        w->wait.until_deleted = true;
        sandbox_wait(sb, &w->wait, wait_ms, batch_on_deleted);
    }
    b->n_waiting = b->n_waits;
    if (b->n_waiting == 0)
        batch_reply(b);
}

/* --- deleting --- */

static bool batch_on_candidate(void *user, struct sandbox *sb) {
    struct batch *b = user;
    const Berm__V1__DeleteSandboxesRequest *m = batch_request(b);
    const Berm__V1__Sandbox *record = sandbox_record(sb);
    if (record->state >= BERM__V1__SANDBOX_STATE__SANDBOX_STATE_DELETING ||
        strcmp(record->owner, b->mu.caller.identity) != 0 ||
        !labels_match(record->spec->n_labels, record->spec->labels, m->n_label_selector,
                      m->label_selector))
        return true;
    b->has_more = b->n_ids == BATCH || !(b->ids[b->n_ids] = strdup(record->sandbox_id));
    b->n_ids += !b->has_more;
    return !b->has_more;
}

static int batch_by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Deletes the sandboxes in order. Stops at the first one that cannot be deleted now and leaves the
 * rest for the next call. Fails only if it deleted none. */
static int batch_delete(struct batch *b, struct err *e) {
    struct change change = {.who = &b->mu.caller};
    size_t n = b->n_ids;
    b->n_ids = 0;
    for (size_t i = 0; i < n; i++) {
        struct sandbox *sb;
        if (registry_find_sandbox(context_registry(b->mu.call), change.who, b->ids[i], &sb, e) ==
                0 &&
            sandbox_delete(sb, 0, &change, e) == 0) {
            b->n_ids++;
            continue;
        }
        if (i == 0)
            err_about(e, "sandbox_id", b->ids[i]);
        for (size_t k = i; k < n; k++)
            free(b->ids[k]);
        b->has_more = true;
        return i == 0 ? -(int)e->code : 0;
    }
    return 0;
}

static int batch_record(struct batch *b, struct err *e) {
    Berm__V1__DeleteSandboxesResponse response;
    batch_fill(b, &response);
    size_t n = berm__v1__delete_sandboxes_response__get_packed_size(&response);
    uint8_t *bytes = arena_alloc(&b->mu.call->arena, n + 1);
    if (!bytes)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    berm__v1__delete_sandboxes_response__pack(&response, bytes);
    return mutation_record(&b->mu, "", (struct str){(const char *)bytes, n}, e);
}

static int batch_first(struct mutation *mu, struct err *e) {
    struct batch *b = batch_of(mu);
    registry_each_sandbox(context_registry(mu->call), batch_on_candidate, b);
    qsort(b->ids, b->n_ids, sizeof *b->ids, batch_by_name);
    if (batch_delete(b, e) < 0)
        return -(int)e->code;
    if (mutation_has_request_id(mu)) {
        mutation_keep(mu);
        return batch_record(b, e);
    }
    if (ledger_wait(context_ledger(mu->call), NULL, &mu->durable))
        mutation_keep(mu);
    else
        batch_wait_all(mu);
    return 0;
}

/* Replies with the sandboxes that the first call deleted, and with none that was created since. */
static int batch_repeat(struct mutation *mu, struct err *e) {
    struct batch *b = batch_of(mu);
    Berm__V1__DeleteSandboxesResponse *first = berm__v1__delete_sandboxes_response__unpack(
        NULL, mu->answer.n, (const uint8_t *)mu->answer.p);
    if (!first)
        return err_set(e, ERR_INTERNAL, "a record in the store cannot be read");
    b->has_more = first->more;
    for (size_t i = 0; i < MIN(first->n_sandbox_ids, (size_t)BATCH); i++)
        b->ids[b->n_ids++] = TAKE(first->sandbox_ids[i]);
    berm__v1__delete_sandboxes_response__free_unpacked(first, NULL);
    batch_wait_all(mu);
    return 0;
}

/* --- the call --- */

static int batch_check(const Berm__V1__DeleteSandboxesRequest *m, struct err *e) {
    if (m->n_label_selector == 0)
        return err_field(e, "label_selector", "label_selector: must have at least one label");
    int r = check_selector(m->n_label_selector, m->label_selector, e);
    return r < 0 ? r : check_wait(m->wait_ms, e);
}

static void batch_on_message(struct call *c, const ProtobufCMessage *message) {
    static const struct mutation_kind kind = {.subject_key = "sandbox_id",
                                              .first = batch_first,
                                              .repeat = batch_repeat,
                                              .on_durable = batch_wait_all,
                                              .release = batch_release};
    struct err e;
    if (batch_check((const void *)message, &e) < 0) {
        call_finish(c, &e);
        return;
    }
    struct mutation *mu = mutation_new(c, message, &kind, sizeof(struct batch));
    if (!mu)
        return;
    c->state = mu;
    mutation_begin(mu);
}

const struct handler api_sandbox_delete_many = {.on_message = batch_on_message,
                                                .on_cancel = mutation_cancel};
