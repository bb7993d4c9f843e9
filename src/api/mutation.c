#include "api/mutation.h"

#include "api/checks.h"
#include "api/context.h"
#include "api/digest.h"
#include "base/clock.h"

/* --- the lookup of a request id --- */

enum lookup { LOOKUP_FIRST, LOOKUP_REPEAT, LOOKUP_PENDING };

static const char *mutation_request_id(const ProtobufCMessage *m) {
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "request_id");
    return *(char *const *)((const uint8_t *)m + f->offset);
}

static int mutation_check_request_id(const char *id, struct err *e) {
    size_t n = strlen(id);
    if (n > MUTATION_REQUEST_ID_MAX) {
        err_limit(e, ERR_INVALID_ARGUMENT, LIMIT_REQUEST_ID_LENGTH, MUTATION_REQUEST_ID_MAX,
                  "request_id: must have at most %d characters, got %zu", MUTATION_REQUEST_ID_MAX,
                  n);
        return err_at(e, "request_id");
    }
    for (size_t i = 0; i < n; i++)
        if (id[i] <= ' ' || id[i] >= 0x7f)
            return err_field(e, "request_id",
                             "request_id: must be printable ASCII without spaces, got byte 0x%02x",
                             (unsigned char)id[i]);
    return 0;
}

static struct mutation *mutation_find_undecided(const struct mutation *mu) {
    LIST_FOR_EACH(node, &mu->all->undecided) {
        struct mutation *other = container_of(node, struct mutation, in_undecided);
        if (strcmp(other->request_id, mu->request_id) == 0 &&
            strcmp(other->caller.identity, mu->caller.identity) == 0)
            return other;
    }
    return NULL;
}

static bool mutation_has_same_content(const struct request_key *a, const struct request_key *b) {
    return strcmp(a->method, b->method) == 0 && memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

static int mutation_refuse_reuse(struct err *e) {
    return err_set(e, ERR_REQUEST_ID_REUSED,
                   "request_id: must be new, got one that stands for another request");
}

static void mutation_fill_key(struct mutation *mu) {
    static const char *const without[] = {"wait_ms", "request_id"};
    struct str path = mu->call->method->path;
    mu->key = (struct request_key){.identity = mu->caller.identity,
                                   .request_id = mu->request_id,
                                   .method = path.p, /* a string literal, so it outlives the call */
                                   .keep_ms = context_limit(mu->call, LIMIT_REQUEST_ID_KEEP)};
    digest_message(STR(""), path, mu->m, without, COUNT_OF(without), mu->key.digest);
}

static int mutation_look_up(struct mutation *mu, enum lookup *ret, struct err *e) {
    const char *id = mutation_request_id(mu->m);
    struct accepted_request accepted = {0};
    *ret = LOOKUP_FIRST;
    if (mutation_check_request_id(id, e) < 0)
        return -(int)e->code;
    mutation_fill_key(mu);
    if (id[0] == '\0')
        return 0;
    memcpy(mu->request_id, id, strlen(id) + 1);
    struct mutation *other = mutation_find_undecided(mu);
    if (other && !mutation_has_same_content(&other->key, &mu->key))
        return mutation_refuse_reuse(e);
    if (other) {
        list_push_back(&other->waiting, &mu->waiting);
        *ret = LOOKUP_PENDING;
        return 0;
    }
    int found =
        registry_find_request(context_registry(mu->call), &mu->key, &mu->call->arena, &accepted, e);
    if (found > 0 && !accepted.is_same)
        return mutation_refuse_reuse(e);
    if (found < 0)
        return found;
    mu->object_id = accepted.object_id;
    mu->answer = accepted.answer;
    if (found == 0)
        list_push_back(&mu->all->undecided, &mu->in_undecided);
    else
        *ret = LOOKUP_REPEAT;
    return 0;
}

void mutation_begin(struct mutation *mu) {
    enum lookup lookup;
    struct err e;
    int r = mutation_look_up(mu, &lookup, &e);
    if (r == 0 && lookup == LOOKUP_FIRST)
        r = mu->kind->first(mu, &e);
    else if (r == 0 && lookup == LOOKUP_REPEAT)
        r = mu->kind->repeat(mu, &e);
    if (r < 0)
        mutation_fail(mu, &e);
}

bool mutation_has_request_id(const struct mutation *mu) {
    return mu->request_id[0] != '\0';
}

static void mutations_on_wake(struct deadline *d) {
    struct mutations *all = container_of(d, struct mutations, wake);
    for (struct list *node; (node = list_pop_front(&all->again));)
        mutation_begin(container_of(node, struct mutation, waiting));
}

void mutations_init(struct mutations *all) {
    list_init(&all->undecided);
    list_init(&all->again);
    deadline_init(&all->wake, mutations_on_wake);
}

/* Lets waiting repeats look up again, because the request id is now in the store or free again. */
static void mutation_settle(struct mutation *mu) {
    bool was_undecided = !list_is_empty(&mu->in_undecided);
    mu->is_kept = false;
    list_remove(&mu->in_undecided);
    if (!was_undecided) {
        list_remove(&mu->waiting);
        return;
    }
    for (struct list *node; (node = list_pop_front(&mu->waiting));)
        list_push_back(&mu->all->again, node);
    /* Continue from the loop, because the caller may be closing a connection that also has calls in
     * this list. */
    if (!list_is_empty(&mu->all->again))
        deadline_set(mu->deadlines, &mu->all->wake, clock_us());
}

/* --- the change --- */

static void mutation_on_durable(struct ledger_wait *w, const struct err *e) {
    struct mutation *mu = container_of(w, struct mutation, durable);
    mutation_settle(mu);
    if (!mu->call)
        mutation_end(mu);
    else if (e)
        mutation_fail(mu, e);
    else
        mu->kind->on_durable(mu);
}

struct mutation *mutation_new(struct call *c, const ProtobufCMessage *m,
                              const struct mutation_kind *kind, size_t size) {
    struct err e;
    if (!context_serves(c))
        return NULL;
    struct mutation *mu = calloc(1, size);
    if (!mu) {
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        call_finish(c, &e);
        return NULL;
    }
    mu->call = c;
    mu->kind = kind;
    mu->m = m;
    mu->all = &context_of(c)->mutations;
    mu->ledger = context_ledger(c);
    mu->deadlines = context_deadlines(c);
    list_init(&mu->in_undecided);
    list_init(&mu->waiting);
    ledger_wait_init(&mu->durable, mutation_on_durable);
    context_caller(c, &mu->caller);
    return mu;
}

struct change mutation_change(struct mutation *mu) {
    return (struct change){.who = &mu->caller, .key = &mu->key, .wait = &mu->durable};
}

void mutation_keep(struct mutation *mu) {
    mu->is_kept = true;
}

int mutation_record(struct mutation *mu, const char *object_id, struct str answer, struct err *e) {
    struct entry *t = ledger_begin(mu->ledger);
    if (!t)
        return change_refused(e);
    entry_put_request(t, &mu->key, object_id, answer);
    ledger_commit(t, &mu->durable);
    return 0;
}

/* --- the ends --- */

void mutation_end(struct mutation *mu) {
    mutation_settle(mu);
    ledger_wait_cancel(&mu->durable);
    if (mu->kind->release)
        mu->kind->release(mu);
    free(mu);
}

void mutation_reply(struct mutation *mu, const ProtobufCMessage *response) {
    struct call *c = TAKE(mu->call);
    mutation_settle(mu);
    if (c) {
        c->state = NULL;
        call_reply(c, response);
    }
    mutation_end(mu);
}

void mutation_fail(struct mutation *mu, const struct err *e) {
    struct err reported = *e;
    struct call *c = mu->call;
    if (!reported.subject && mu->subject_id[0] != '\0')
        err_about(&reported, mu->kind->subject_key, mu->subject_id);
    if (c && mu->kind->on_failed) {
        mu->kind->on_failed(mu, &reported);
        return;
    }
    mutation_end(mu);
    if (!c)
        return;
    c->state = NULL;
    call_finish(c, &reported);
}

void mutation_detach(struct mutation *mu, const struct err *e) {
    struct call *c = TAKE(mu->call);
    if (!c)
        return;
    c->state = NULL;
    call_finish(c, e);
}

void mutation_abandon(struct mutation *mu) {
    mu->call = NULL;
    if (!mu->is_kept)
        mutation_end(mu);
}

void mutation_cancel(struct call *c) {
    struct mutation *mu = c->state;
    c->state = NULL;
    if (mu)
        mutation_abandon(mu);
}
