#include "api/call.h"

#include <assert.h>
#include <errno.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/log.h"

/* --- the end of a call, and its line in the log --- */

static void call_log(const struct call *c, enum grpc_code code, const struct err *e) {
    struct log_line l;
    if (!c->api->access_log || !log_begin(&l, LOG_INFO, "call"))
        return;
    log_str(&l, "method", c->path.n > 1 ? (struct str){c->path.p + 1, c->path.n - 1} : c->path);
    log_str(&l, "peer", str_of(c->peer->text));
    log_str(&l, "code", str_of(grpc_code_name(code)));
    log_u64(&l, "us", clock_us() - c->began_us);
    log_u64(&l, "in", c->bytes_in);
    log_u64(&l, "out", c->bytes_out);
    if (e) {
        log_str(&l, "reason", str_of(err_face(e->code)->name));
        log_str(&l, "text", str_of(e->text));
    }
    log_end(&l);
}

void call_finish_status(struct call *c, const struct call_status *status) {
    if (c->finished)
        return;
    c->finished = true;
    call_log(c, status->code, status->err);
    struct call_status shown = *status;
    if (!c->api->error_details)
        shown.err = NULL;
    c->wire->finish(c, &shown);
}

void call_finish(struct call *c, const struct err *e) {
    struct call_status status = {.code = GRPC_OK};
    if (e)
        status = (struct call_status){
            .code = err_face(e->code)->grpc, .message = str_of(e->text), .err = e};
    call_finish_status(c, &status);
}

void call_reply(struct call *c, const ProtobufCMessage *m) {
    if (call_send(c, m) != CALL_GONE)
        call_finish(c, NULL);
}

/* Tells the handler that the call is over, if the handler was called before. */
static void call_notify_handler(struct call *c) {
    if (c->opened && c->method->handler->on_cancel)
        c->method->handler->on_cancel(c);
}

void call_fail(struct call *c, const struct err *e) {
    if (c->finished)
        return;
    call_notify_handler(c);
    call_finish(c, e);
}

void call_refused(struct call *c, const char *why) {
    struct err e;
    err_set(&e, ERR_MALFORMED, "%s", why);
    c->finished = true;
    call_log(c, err_face(e.code)->grpc, &e);
}

void call_cancel(struct call *c, enum err_code why) {
    if (c->finished)
        return;
    struct err e;
    if (why == ERR_DEADLINE_EXCEEDED) {
        err_set(&e, why, "the deadline passed after %llu ms",
                (unsigned long long)((clock_us() - c->began_us) / 1000));
        if (c->subject)
            err_about(&e, c->subject, c->subject_id);
        call_fail(c, &e);
        return;
    }
    err_set(&e, why, "%s", err_face(why)->meaning);
    call_notify_handler(c);
    c->finished = true;
    call_log(c, err_face(why)->grpc, &e);
}

/* --- from the handler --- */

void call_send_headers(struct call *c) {
    if (!c->finished)
        c->wire->send_headers(c);
}

enum call_push call_send(struct call *c, const ProtobufCMessage *m) {
    return c->finished ? CALL_GONE : c->wire->send(c, m);
}

uint8_t *call_reserve(struct call *c, size_t n) {
    return c->finished || !c->wire->reserve ? NULL : c->wire->reserve(c, n);
}

enum call_push call_send_reserved(struct call *c, size_t n) {
    return c->finished ? CALL_GONE : c->wire->send_reserved(c, n);
}

void *call_new_state(struct call *c, size_t n) {
    struct err e;
    c->state = arena_zalloc(&c->arena, n);
    if (!c->state) {
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        call_finish(c, &e);
    }
    return c->state;
}

static void *call_alloc(void *arena, size_t n) {
    return arena_alloc(arena, n);
}

/* Does nothing, because the arena is freed as a whole. */
static void call_leave(void *arena, void *p) {
    (void)arena;
    (void)p;
}

ProtobufCAllocator call_allocator(struct call *c) {
    return (ProtobufCAllocator){call_alloc, call_leave, &c->arena};
}

void call_hold(struct call *c) {
    c->held = true;
}

void call_release(struct call *c) {
    if (!c->held || c->finished)
        return;
    c->held = false;
    c->wire->release(c);
}

void call_set_subject(struct call *c, const char *key, const char *id) {
    c->subject = key;
    c->subject_id = id;
}

struct str call_header(const struct call *c, struct str name) {
    struct str found = {0};
    for (const struct call_header *h = c->headers; h; h = h->next)
        if (str_is(h->name, name))
            /* the list is newest first, so the last match is the first value that was sent */
            found = h->value;
    return found;
}

struct str call_header_bin(struct call *c, struct str name) {
    struct str text = call_header(c, name);
    uint8_t *bytes = text.p ? arena_alloc(&c->arena, text.n * 3 / 4 + 3) : NULL;
    ssize_t n = bytes ? base64_decode(text.p, text.n, bytes) : -1;
    return n < 0 ? (struct str){0} : (struct str){(const char *)bytes, (size_t)n};
}

static int call_add(struct call *c, struct call_header **list, struct str name, struct str value) {
    struct call_header *h = arena_alloc(&c->arena, sizeof *h);
    char *name_copy = arena_copy(&c->arena, name.p, name.n);
    char *value_copy = arena_copy(&c->arena, value.p, value.n);
    if (!h || !name_copy || !value_copy)
        return -ENOMEM;
    *h = (struct call_header){NULL, {name_copy, name.n}, {value_copy, value.n}};
    while (*list)
        list = &(*list)->next;
    *list = h;
    return 0;
}

int call_add_header(struct call *c, struct str name, struct str value) {
    return call_add(c, &c->reply_headers, name, value);
}

int call_add_trailer(struct call *c, struct str name, struct str value) {
    return call_add(c, &c->reply_trailers, name, value);
}

/* --- from the transport --- */

static int call_find_method(struct call *c, struct err *e) {
    c->method = api_find(c->api, c->path);
    /* authorize first, so that an unauthorized caller does not learn which methods exist */
    int r = api_authorize(c->api, c, e);
    if (r < 0)
        return r;
    if (c->api->draining && !(c->method && c->method->scope == SCOPE_ANYONE))
        return err_set(e, ERR_SHUTTING_DOWN, "the daemon is stopping");
    if (c->method && c->method->handler)
        return 0;
    return err_set(e, ERR_UNIMPLEMENTED,
                   c->method ? "%.*s is not implemented yet" : "no method has the name %.*s",
                   (int)MIN(c->path.n, (size_t)160), c->path.p);
}

void call_begin(struct call *c) {
    struct err e;
    if (call_find_method(c, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    if (call_has_one_request(c))
        return;
    c->opened = true;
    if (c->method->handler->on_open)
        c->method->handler->on_open(c);
}

void call_wrong_count(struct call *c, const char *how) {
    struct err e;
    err_set(&e, ERR_UNIMPLEMENTED, "%.*s takes one request, %s", (int)c->method->path.n,
            c->method->path.p, how);
    call_fail(c, &e);
}

void call_message(struct call *c, const ProtobufCMessage *m) {
    if (c->finished)
        return;
    if (!call_has_one_request(c))
        c->method->handler->on_message(c, m);
    else if (c->request)
        call_wrong_count(c, "not several");
    else
        c->request = m;
}

void call_half_close(struct call *c) {
    if (c->finished)
        return;
    if (!call_has_one_request(c)) {
        c->method->handler->on_half_close(c);
    } else if (!c->request) {
        call_wrong_count(c, "none came");
    } else {
        c->opened = true;
        c->method->handler->on_message(c, c->request);
    }
}

void call_drain(struct call *c) {
    if (!c->finished && c->opened && c->method->handler->on_drain)
        c->method->handler->on_drain(c);
}

void call_writable(struct call *c) {
    if (!c->finished && c->opened && c->method->handler->on_writable)
        c->method->handler->on_writable(c);
}
