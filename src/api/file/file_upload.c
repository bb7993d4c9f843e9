#include "api/file/file_upload.h"

#include <stdio.h>

#include "api/subject.h"
#include "api/exec/exec_check.h"
#include "base/failpoint.h"

#define ARENA_FIRST ((size_t)2 << 10)
#define ARENA_MAX ((size_t)1 << 20)
#define HEADER_MAX ((size_t)64 << 10)

/* Both requests are a header or bytes, so one struct serves for both. */
#define SAME_MEMBER(member)                                           \
    _Static_assert(offsetof(Berm__V1__WriteFileRequest, member) ==    \
                       offsetof(Berm__V1__UploadTreeRequest, member), \
                   #member)
SAME_MEMBER(part_case);
SAME_MEMBER(header);
SAME_MEMBER(data);
_Static_assert((int)BERM__V1__WRITE_FILE_REQUEST__PART_DATA ==
                       (int)BERM__V1__UPLOAD_TREE_REQUEST__PART_DATA &&
                   (int)BERM__V1__WRITE_FILE_REQUEST__PART_HEADER ==
                       (int)BERM__V1__UPLOAD_TREE_REQUEST__PART_HEADER,
               "parts");

/* --- the ends --- */

static void upload_free(struct upload *u) {
    u->kind->end(u);
    file_call_close(u->file);
    request_settle(&u->request);
    ledger_wait_cancel(&u->durable);
    arena_done(&u->arena);
    free(u->kept);
    free(u);
}

/* A tree that broke off has changed files all the same. */
static void give_up(struct upload *u) {
    struct change change = {.who = &u->request.caller};
    struct err ignored;
    bool is_under_way = u->step == UPLOAD_OPEN || u->step == UPLOAD_FINISHING;
    if (u->kind->leaves_parts && is_under_way && u->file && u->audit.bytes_moved > 0)
        (void)!file_call_record(u->file, &u->audit, &change, (struct str){0}, &ignored);
    upload_free(u);
}

void upload_fail(struct upload *u, const struct err *e) {
    struct call *c = u->call;
    struct err told = *e;
    if (!told.subject && u->sandbox_id[0] != '\0' && e->code != ERR_INVALID_ARGUMENT)
        err_about(&told, "sandbox_id", u->sandbox_id);
    give_up(u);
    if (!c)
        return;
    c->state = NULL;
    call_finish(c, &told);
}

static void answer(struct upload *u) {
    struct call *c = TAKE(u->call);
    if (c) {
        failpoint(FAIL_FILE_REPLY);
        c->state = NULL;
        call_reply(c, u->response);
    }
    upload_free(u);
}

static void on_durable(struct ledger_wait *w, const struct err *e) {
    struct upload *u = container_of(w, struct upload, durable);
    if (e)
        upload_fail(u, e);
    else
        answer(u);
}

void upload_done(struct upload *u) {
    struct change change = {.who = &u->request.caller, .key = &u->request.key, .wait = &u->durable};
    struct err e;
    size_t n = protobuf_c_message_get_packed_size(u->response);
    uint8_t *packed = arena_alloc(&u->arena, n + 1);
    failpoint(FAIL_FILE_ACK);
    if (!packed) {
        answer_no_memory(&e);
        upload_fail(u, &e);
        return;
    }
    struct str bytes = {(const char *)packed, protobuf_c_message_pack(u->response, packed)};
    u->step = UPLOAD_RECORDING;
    if (file_call_record(u->file, &u->audit, &change, bytes, &e) < 0)
        upload_fail(u, &e);
}

/* --- bytes --- */

/* The next message, or the end, may come from inside the release. */
void upload_go_on(struct upload *u) {
    struct err e;
    int r = u->kind->move(u, &e);
    if (r < 0)
        upload_fail(u, &e);
    else if (r > 0 && u->call)
        call_release(u->call);
}

/* What cannot be moved now outlives its message, and no other comes before it is moved. */
static int keep_rest(struct upload *u, struct err *e) {
    size_t n = u->n_in - u->at_in;
    if (n > u->kept_capacity) {
        uint8_t *grown = realloc(u->kept, n);
        if (!grown)
            return answer_no_memory(e);
        u->kept = grown;
        u->kept_capacity = n;
    }
    if (n > 0)
        memcpy(u->kept, u->in + u->at_in, n);
    u->in = u->kept;
    u->n_in = n;
    u->at_in = 0;
    call_hold(u->call);
    return 0;
}

static int take_data(struct upload *u, ProtobufCBinaryData data, struct err *e) {
    int64_t most = limit_table[LIMIT_FILE_UPLOAD_CHUNK].value;
    if (data.len > (size_t)most)
        return exec_check_over(e, "data", LIMIT_FILE_UPLOAD_CHUNK, most);
    if (data.len == 0)
        return 0;
    u->in = data.data;
    u->n_in = data.len;
    u->at_in = 0;
    int r = u->kind->move(u, e);
    return r == 0 ? keep_rest(u, e) : MIN(r, 0);
}

/* --- the guest --- */

static void opened(struct upload *u, const struct guest_answer *a) {
    struct err e;
    u->step = UPLOAD_OPEN;
    if (u->kind->opened(u, a, &e) < 0)
        upload_fail(u, &e);
    else
        call_release(u->call);
}

static void on_answer(void *user, const struct guest_answer *a) {
    struct upload *u = user;
    if (a->e && (u->step == UPLOAD_OPENING || !u->kind->hears_failures)) {
        struct err e = file_target_error("header.", u->sandbox_id, a->e);
        upload_fail(u, &e);
    } else if (u->step == UPLOAD_OPENING) {
        opened(u, a);
    } else {
        u->kind->on_answer(u, a);
    }
}

static void on_notice(void *user, const struct guest_notice *n) {
    struct upload *u = user;
    if (u->kind->on_notice && (u->step == UPLOAD_OPEN || u->step == UPLOAD_FINISHING))
        u->kind->on_notice(u, &n->tree_done);
}

static void on_gone(void *user, const struct err *e, bool is_final) {
    struct upload *u = user;
    if (u->step == UPLOAD_RECORDING) { /* only our own disk is waited for */
        if (is_final)
            file_call_close(TAKE(u->file));
    } else if (is_final || u->step < UPLOAD_FINISHING) {
        upload_fail(u, e);
    } else if (u->call) {
        struct call *c = TAKE(u->call);
        c->state = NULL;
        call_finish(c, e);
    }
}

static const struct file_events events = {on_answer, on_gone, on_notice};

static int open_file(struct upload *u, struct err *e) {
    struct str path = u->target.path.path;
    u->audit.operation = u->kind->operation;
    u->audit.path = (struct str){arena_copy(&u->arena, path.p, path.n), path.n};
    u->response = arena_zalloc(&u->arena, u->answers->sizeof_message);
    if (!u->audit.path.p || !u->response)
        return answer_no_memory(e);
    protobuf_c_message_init(u->answers, u->response);
    if (file_target_open(&u->target, u->call, true, &events, u, &u->file, e) < 0)
        return -(int)e->code;
    u->step = UPLOAD_OPENING;
    struct guest_file_request r = file_target_request(&u->target, u->kind->method);
    if (u->kind->put)
        u->kind->put(u, &r);
    file_call_ask(u->file, &r);
    return 0;
}

/* --- the header --- */

static void repeat(struct upload *u) {
    struct err e;
    struct str bytes = u->request.answer;
    ProtobufCAllocator allocator = call_allocator(u->call);
    const ProtobufCMessage *first =
        protobuf_c_message_unpack(u->answers, &allocator, bytes.n, (const uint8_t *)bytes.p);
    if (!first) {
        answer_no_memory(&e);
        upload_fail(u, &e);
        return;
    }
    struct call *c = TAKE(u->call);
    c->state = NULL;
    upload_free(u);
    call_reply(c, first);
}

static void ask(struct upload *u);

static void on_again(struct request *r) {
    ask(container_of(r, struct upload, request));
}

static void ask(struct upload *u) {
    enum request_turn turn;
    struct err e;
    u->step = UPLOAD_ASKING;
    int r = request_begin(&u->request, u->call, u->header, on_again, &turn, &e);
    if (r == 0 && turn == REQUEST_NEW)
        r = open_file(u, &e);
    if (r < 0)
        upload_fail(u, &e);
    else if (turn == REQUEST_REPEAT)
        repeat(u);
}

/* The message is borrowed: what is needed later is copied. */
static int take_header(struct upload *u, const ProtobufCMessage *header, struct err *e) {
    size_t n = protobuf_c_message_get_packed_size(header);
    ProtobufCAllocator allocator = call_allocator(u->call);
    uint8_t *packed = n > HEADER_MAX ? NULL : arena_alloc(&u->call->arena, n + 1);
    if (n > HEADER_MAX)
        return err_field(e, "header", "header: more than %zu bytes", HEADER_MAX);
    if (packed)
        u->header = protobuf_c_message_unpack(header->descriptor, &allocator,
                                              protobuf_c_message_pack(header, packed), packed);
    if (!u->header)
        return answer_no_memory(e);
    if (file_target_read(&u->target, u->header, "header.", false, e) < 0 ||
        u->kind->check(u, e) < 0)
        return -(int)e->code;
    snprintf(u->sandbox_id, sizeof u->sandbox_id, "%s", u->target.sandbox_id);
    call_set_subject(u->call, "sandbox_id", u->target.sandbox_id);
    call_hold(u->call);
    return 0;
}

static struct upload *upload_new(struct call *c, const struct upload_kind *kind) {
    struct upload *u = calloc(1, kind->size);
    struct err e;
    if (!u || arena_init(&u->arena, ARENA_FIRST, ARENA_MAX) < 0) {
        free(u);
        answer_no_memory(&e);
        call_finish(c, &e);
        return NULL;
    }
    u->call = c;
    u->kind = kind;
    u->answers = c->method->response;
    ledger_wait_init(&u->durable, on_durable);
    c->state = u;
    return u;
}

void upload_message(struct call *c, const ProtobufCMessage *m, const struct upload_kind *kind) {
    const Berm__V1__WriteFileRequest *request = (const void *)m;
    bool is_header = request->part_case == BERM__V1__WRITE_FILE_REQUEST__PART_HEADER;
    bool is_data = request->part_case == BERM__V1__WRITE_FILE_REQUEST__PART_DATA;
    struct err e;
    int r = 0;
    if (!c->state && !context_serves(c))
        return;
    struct upload *u = c->state ? c->state : upload_new(c, kind);
    if (!u)
        return;
    bool is_new = u->step == UPLOAD_NEW;
    if (is_new && is_header)
        r = take_header(u, &request->header->base, &e);
    else if (!is_new && is_data)
        r = take_data(u, request->data, &e);
    else if (is_new)
        r = err_field(&e, "header", "header: it comes first");
    else
        r = err_field(&e, is_header ? "header" : "part",
                      is_header ? "header: it comes once" : "part: a header or data is needed");
    if (r < 0)
        upload_fail(u, &e);
    else if (is_new)
        ask(u);
}

void upload_half_close(struct call *c) {
    struct upload *u = c->state;
    struct err e;
    if (!u) {
        err_field(&e, "header", "header: it is needed");
        call_finish(c, &e);
        return;
    }
    u->step = UPLOAD_FINISHING;
    if (u->kind->finish(u, &e) < 0)
        upload_fail(u, &e);
    else
        failpoint(FAIL_FILE_SEND);
}

void upload_cancel(struct call *c) {
    struct upload *u = c->state;
    if (!u)
        return;
    c->state = NULL;
    u->call = NULL;
    if (u->step < UPLOAD_FINISHING)
        give_up(u);
}
