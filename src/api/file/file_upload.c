#include "api/file/file_upload.h"

#include <stdio.h>

#include "api/subject.h"
#include "api/exec/exec_check.h"
#include "base/failpoint.h"

#define ARENA_FIRST ((size_t)2 << 10)
#define ARENA_MAX ((size_t)1 << 20)
#define HEADER_MAX ((size_t)64 << 10)

/* The requests of WriteFile and UploadTree have the same layout, a header or bytes, so the code
 * uses one struct for both. */
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

static struct upload *upload_of(struct mutation *mu) {
    return container_of(mu, struct upload, mu);
}

/* Records a tree upload that fails early, because it has already changed files. */
static void upload_release(struct mutation *mu) {
    struct upload *u = upload_of(mu);
    struct change change = {.who = &mu->caller};
    struct err ignored;
    bool is_moving = u->step == UPLOAD_OPEN || u->step == UPLOAD_FINISHING;
    if (u->kind->leaves_parts && is_moving && u->file && u->audit.bytes_moved > 0)
        (void)!file_call_record(u->file, &u->audit, &change, (struct str){0}, &ignored);
    u->kind->end(u);
    file_call_close(u->file);
    arena_done(&u->arena);
    free(u->kept);
}

void upload_fail(struct upload *u, const struct err *e) {
    mutation_fail(&u->mu, e);
}

static void upload_reply(struct mutation *mu) {
    if (mu->call)
        failpoint(FAIL_FILE_REPLY);
    mutation_reply(mu, upload_of(mu)->response);
}

void upload_done(struct upload *u) {
    struct change change = mutation_change(&u->mu);
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

/* Moves the pending bytes. Then call_release may deliver the next message or the half-close. */
void upload_go_on(struct upload *u) {
    struct err e;
    int r = u->kind->move(u, &e);
    if (r < 0)
        upload_fail(u, &e);
    else if (r > 0 && u->mu.call)
        call_release(u->mu.call);
}

/* Copies the bytes of a borrowed message that were not moved yet, and holds the call until they
 * are. */
static int upload_keep_rest(struct upload *u, struct err *e) {
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
    call_hold(u->mu.call);
    return 0;
}

static int upload_take_data(struct upload *u, ProtobufCBinaryData data, struct err *e) {
    int64_t most = limit_table[LIMIT_FILE_UPLOAD_CHUNK].value;
    if (data.len > (size_t)most)
        return exec_check_over(e, "data", LIMIT_FILE_UPLOAD_CHUNK, most);
    if (data.len == 0)
        return 0;
    u->in = data.data;
    u->n_in = data.len;
    u->at_in = 0;
    int r = u->kind->move(u, e);
    return r == 0 ? upload_keep_rest(u, e) : MIN(r, 0);
}

/* --- the guest --- */

static void upload_opened(struct upload *u, const struct guest_answer *a) {
    struct err e;
    u->step = UPLOAD_OPEN;
    if (u->kind->opened(u, a, &e) < 0)
        upload_fail(u, &e);
    else
        call_release(u->mu.call);
}

static void upload_on_answer(void *user, const struct guest_answer *a) {
    struct upload *u = user;
    if (a->e && (u->step == UPLOAD_OPENING || !u->kind->hears_failures)) {
        struct err e = file_target_error("header.", u->mu.subject_id, a->e);
        upload_fail(u, &e);
    } else if (u->step == UPLOAD_OPENING) {
        upload_opened(u, a);
    } else {
        u->kind->on_answer(u, a);
    }
}

static void upload_on_notice(void *user, const struct guest_notice *n) {
    struct upload *u = user;
    if (u->kind->on_notice && (u->step == UPLOAD_OPEN || u->step == UPLOAD_FINISHING))
        u->kind->on_notice(u, &n->tree_done);
}

static void upload_on_gone(void *user, const struct err *e, bool is_final) {
    struct upload *u = user;
    if (u->step == UPLOAD_RECORDING) { /* the guest has finished, and only the store is pending */
        if (is_final)
            file_call_close(TAKE(u->file));
    } else if (is_final || u->step < UPLOAD_FINISHING) {
        upload_fail(u, e);
    } else {
        mutation_detach(&u->mu, e);
    }
}

static const struct file_events events = {upload_on_answer, upload_on_gone, upload_on_notice};

static int upload_open(struct upload *u, struct err *e) {
    struct str path = u->target.path.path;
    u->audit.operation = u->kind->operation;
    u->audit.path = (struct str){arena_copy(&u->arena, path.p, path.n), path.n};
    u->response = arena_zalloc(&u->arena, u->answers->sizeof_message);
    if (!u->audit.path.p || !u->response)
        return answer_no_memory(e);
    protobuf_c_message_init(u->answers, u->response);
    if (file_target_open(&u->target, u->mu.call, true, &events, u, &u->file, e) < 0)
        return -(int)e->code;
    u->step = UPLOAD_OPENING;
    struct guest_file_request r = file_target_request(&u->target, u->kind->method);
    if (u->kind->put)
        u->kind->put(u, &r);
    file_call_ask(u->file, &r);
    return 0;
}

/* --- the header --- */

static int upload_first(struct mutation *mu, struct err *e) {
    return upload_open(upload_of(mu), e);
}

static int upload_repeat(struct mutation *mu, struct err *e) {
    ProtobufCAllocator allocator = call_allocator(mu->call);
    const ProtobufCMessage *first = protobuf_c_message_unpack(
        upload_of(mu)->answers, &allocator, mu->answer.n, (const uint8_t *)mu->answer.p);
    if (!first)
        return answer_no_memory(e);
    mutation_reply(mu, first);
    return 0;
}

/* Copies the header into the call's arena, because the message is borrowed. */
static int upload_take_header(struct upload *u, const ProtobufCMessage *header, struct err *e) {
    size_t n = protobuf_c_message_get_packed_size(header);
    ProtobufCAllocator allocator = call_allocator(u->mu.call);
    uint8_t *packed = n > HEADER_MAX ? NULL : arena_alloc(&u->mu.call->arena, n + 1);
    if (n > HEADER_MAX)
        return err_field(e, "header", "header: must have at most %zu bytes", HEADER_MAX);
    if (packed)
        u->header = protobuf_c_message_unpack(header->descriptor, &allocator,
                                              protobuf_c_message_pack(header, packed), packed);
    if (!u->header)
        return answer_no_memory(e);
    if (file_target_read(&u->target, u->header, "header.", false, e) < 0 ||
        u->kind->check(u, e) < 0)
        return -(int)e->code;
    u->mu.m = u->header;
    snprintf(u->mu.subject_id, sizeof u->mu.subject_id, "%s", u->target.sandbox_id);
    call_set_subject(u->mu.call, "sandbox_id", u->target.sandbox_id);
    call_hold(u->mu.call);
    return 0;
}

static struct upload *upload_new(struct call *c, const struct upload_kind *kind) {
    static const struct mutation_kind mutation = {.subject_key = "sandbox_id",
                                                  .first = upload_first,
                                                  .repeat = upload_repeat,
                                                  .on_durable = upload_reply,
                                                  .release = upload_release};
    struct mutation *mu = mutation_new(c, NULL, &mutation, kind->size);
    struct err e;
    if (!mu)
        return NULL;
    struct upload *u = upload_of(mu);
    u->kind = kind;
    u->answers = c->method->response;
    c->state = mu;
    if (arena_init(&u->arena, ARENA_FIRST, ARENA_MAX) == 0)
        return u;
    answer_no_memory(&e);
    mutation_fail(mu, &e);
    return NULL;
}

void upload_message(struct call *c, const ProtobufCMessage *m, const struct upload_kind *kind) {
    const Berm__V1__WriteFileRequest *request = (const void *)m;
    bool is_header = request->part_case == BERM__V1__WRITE_FILE_REQUEST__PART_HEADER;
    bool is_data = request->part_case == BERM__V1__WRITE_FILE_REQUEST__PART_DATA;
    struct err e;
    int r = 0;
    struct upload *u = c->state ? c->state : upload_new(c, kind);
    if (!u)
        return;
    bool is_new = u->step == UPLOAD_NEW;
    if (is_new && is_header)
        r = upload_take_header(u, &request->header->base, &e);
    else if (!is_new && is_data)
        r = upload_take_data(u, request->data, &e);
    else if (is_new)
        r = err_field(&e, "header", "header: must be the first message");
    else
        r = err_field(&e, is_header ? "header" : "part",
                      is_header ? "header: must be sent once" : "part: must be header or data");
    if (r < 0)
        upload_fail(u, &e);
    else if (is_new)
        mutation_begin(&u->mu);
}

void upload_half_close(struct call *c) {
    struct upload *u = c->state;
    struct err e;
    if (!u) {
        err_field(&e, "header", "header: must be sent");
        call_finish(c, &e);
        return;
    }
    u->step = UPLOAD_FINISHING;
    mutation_keep(&u->mu);
    if (u->kind->finish(u, &e) < 0)
        upload_fail(u, &e);
    else
        failpoint(FAIL_FILE_SEND);
}
