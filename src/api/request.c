#include "api/request.h"

#include <stdio.h>

#include "api/context.h"
#include "api/digest.h"
#include "base/clock.h"

/* --- the turn of those that wait --- */

static void on_wake(struct deadline *d) {
    struct requests *all = container_of(d, struct requests, wake);
    for (struct list *node; (node = list_pop_front(&all->again));) {
        struct request *r = container_of(node, struct request, waiting);
        r->on_again(r);
    }
}

void requests_init(struct requests *all) {
    list_init(&all->under_way);
    list_init(&all->again);
    deadline_init(&all->wake, on_wake);
}

void request_settle(struct request *r) {
    if (!r->all) /* it never began */
        return;
    bool was_under_way = !list_is_empty(&r->in_table);
    list_remove(&r->in_table);
    if (!was_under_way) {
        list_remove(&r->waiting);
        return;
    }
    for (struct list *node; (node = list_pop_front(&r->waiting));)
        list_push_back(&r->all->again, node);
    /* From the loop: whoever settles may be closing a connection whose calls wait here too. */
    if (!list_is_empty(&r->all->again))
        deadline_set(r->deadlines, &r->all->wake, clock_us());
}

/* --- has it been asked before? --- */

static const char *id_of(const ProtobufCMessage *m) {
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "request_id");
    return *(char *const *)((const uint8_t *)m + f->offset);
}

static int check_request_id(const char *id, struct err *e) {
    size_t n = strlen(id);
    if (n > REQUEST_ID_MAX) {
        err_limit(e, ERR_INVALID_ARGUMENT, LIMIT_REQUEST_ID_LENGTH, REQUEST_ID_MAX,
                  "request_id: more than %d characters", REQUEST_ID_MAX);
        snprintf(e->field, sizeof e->field, "request_id");
        return -(int)e->code;
    }
    for (size_t i = 0; i < n; i++)
        if (id[i] <= ' ' || id[i] >= 0x7f)
            return err_field(e, "request_id", "request_id: printable ASCII without spaces alone");
    return 0;
}

static int refuse_reuse(struct err *e) {
    return err_set(e, ERR_REQUEST_ID_REUSED,
                   "request_id: it was used for a different request within its time");
}

static struct request *find_under_way(const struct request *r) {
    LIST_FOR_EACH(node, &r->all->under_way) {
        struct request *other = container_of(node, struct request, in_table);
        if (strcmp(other->request_id, r->request_id) == 0 &&
            strcmp(other->caller.identity, r->caller.identity) == 0)
            return other;
    }
    return NULL;
}

static bool is_same(const struct request *r, struct str method, const uint8_t *digest) {
    return str_is(method, str_of(r->key.method)) &&
           memcmp(digest, r->key.digest, sizeof r->key.digest) == 0;
}

/* 1: it was accepted before, 0: it is new. */
static int find_accepted(struct request *r, struct call *c, struct err *e) {
    struct accepted_request accepted = {0};
    int found = registry_find_request(context_registry(c), &r->key, &c->arena, &accepted, e);
    r->object_id = accepted.object_id;
    r->answer = accepted.answer;
    return found;
}

static void fill(struct request *r, struct call *c, const ProtobufCMessage *m) {
    static const char *const without[] = {"wait_ms", "request_id"};
    struct context *context = context_of(c);
    *r = (struct request){.all = &context->requests,
                          .deadlines = registry_deadlines(context->registry)};
    list_init(&r->in_table);
    list_init(&r->waiting);
    context_caller(c, &r->caller);
    r->key.identity = r->caller.identity;
    r->key.request_id = r->request_id;
    r->key.method = c->method->path.p; /* a literal */
    r->key.keep_ms = context->facts.limits->of[LIMIT_REQUEST_ID_KEEP];
    digest_message(STR(""), c->method->path, m, without, COUNT_OF(without), r->key.digest);
}

int request_begin(struct request *r, struct call *c, const ProtobufCMessage *m,
                  void (*on_again)(struct request *r), enum request_turn *ret_turn, struct err *e) {
    const char *id = id_of(m);
    fill(r, c, m);
    r->on_again = on_again;
    *ret_turn = REQUEST_NEW;
    int found = check_request_id(id, e);
    if (found < 0 || id[0] == '\0')
        return found;
    memcpy(r->request_id, id, strlen(id) + 1);
    struct request *first = find_under_way(r);
    if (first && !is_same(r, str_of(first->key.method), first->key.digest))
        return refuse_reuse(e);
    if (first) {
        list_push_back(&first->waiting, &r->waiting);
        *ret_turn = REQUEST_WAIT;
        return 0;
    }
    found = find_accepted(r, c, e);
    if (found > 0)
        *ret_turn = REQUEST_REPEAT;
    else if (found == 0)
        list_push_back(&r->all->under_way, &r->in_table);
    return MIN(found, 0);
}
