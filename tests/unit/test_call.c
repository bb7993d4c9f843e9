#include "api/call.h"

#include <stdlib.h>

#include "api/api.h"
#include "base/clock.h"
#include "berm/v1/berm.pb-c.h"
#include "harness.h"

/* A wire that records the calls it gets. */
static struct {
    unsigned sent, finished, released;
    enum grpc_code code;
    enum err_code err;
    char subject_id[64];
    char text[200];
} seen;

static void wire_send_headers(struct call *c) {
    (void)c;
}
static enum call_push wire_send(struct call *c, const ProtobufCMessage *m) {
    (void)c;
    (void)m;
    seen.sent++;
    return CALL_OK;
}
static void wire_finish(struct call *c, const struct call_status *status) {
    (void)c;
    seen.finished++;
    seen.code = status->code;
    seen.err = status->err ? status->err->code : ERR_NONE;
    if (status->err && status->err->subject)
        memcpy(seen.subject_id, status->err->subject_id, sizeof seen.subject_id);
    memcpy(seen.text, status->message.p ? status->message.p : "",
           MIN(status->message.n, (size_t)199));
}
static void wire_release(struct call *c) {
    (void)c;
    seen.released++;
}
static const struct call_wire wire = {.send_headers = wire_send_headers,
                                      .send = wire_send,
                                      .finish = wire_finish,
                                      .release = wire_release};

static struct { unsigned opened, messages, half_closed, cancelled, drained; } handled;

static void on_open(struct call *c) {
    (void)c;
    handled.opened++;
}
static void on_message(struct call *c, const ProtobufCMessage *m) {
    (void)c;
    (void)m;
    handled.messages++;
}
static void on_half_close(struct call *c) {
    (void)c;
    handled.half_closed++;
}
static void on_drain(struct call *c) {
    (void)c;
    handled.drained++;
}
static void on_cancel(struct call *c) {
    (void)c;
    handled.cancelled++;
}
static const struct handler handler = {on_open, on_message, on_half_close,
                                       NULL,    on_drain,   on_cancel};

#define ROW(name, kind, scope, handler)                                                 \
    {                                                                                   \
        STR("/t.S/" name), &berm__v1__ping_request__descriptor,                         \
            &berm__v1__ping_response__descriptor, METHOD_##kind, SCOPE_##scope, handler \
    }
static const struct method rows[] = {
    ROW("Unary", UNARY, USER, &handler),
    ROW("Bidi", BIDI, USER, &handler),
    ROW("Open", UNARY, ANYONE, &handler),
    ROW("Later", UNARY, USER, NULL),
};

static struct api api;
static struct call_peer peer;
static struct call call;
static Berm__V1__PingRequest request = BERM__V1__PING_REQUEST__INIT;

static void begin_with(const char *path, const struct api_auth *auth, struct call_header *headers) {
    struct api_methods table = {rows, COUNT_OF(rows)};
    memset(&seen, 0, sizeof seen);
    memset(&handled, 0, sizeof handled);
    CHECK_INT(api_init(&api, &table, 1, auth), 0);
    api.access_log = false;
    call = (struct call){.api = &api,
                         .wire = &wire,
                         .peer = &peer,
                         .path = str_of(path),
                         .authority = STR("localhost"),
                         .headers = headers,
                         .began_us = clock_us()};
    call_begin(&call);
}

static void begin(const char *path) {
    static const struct api_auth nobody;
    peer = (struct call_peer){.is_unix = true, .uid = 0};
    begin_with(path, &nobody, NULL);
}

TEST(call_delivers_one_request_at_its_end) { /* covers: RPC-4 */
    begin("/t.S/Unary");
    call_message(&call, &request.base);
    CHECK_INT(handled.messages, 0);
    call_half_close(&call);
    CHECK_INT(handled.messages, 1);
    call_reply(&call, &request.base);
    CHECK_INT(seen.sent * 10 + seen.finished, 11);
    CHECK_INT(seen.code, GRPC_OK);
    api_done(&api);
}

TEST(call_with_one_request_refuses_zero_and_two) { /* covers: RPC-4 */
    begin("/t.S/Unary");
    call_half_close(&call);
    CHECK_INT(seen.code, GRPC_UNIMPLEMENTED);
    api_done(&api);
    begin("/t.S/Unary");
    call_message(&call, &request.base);
    call_message(&call, &request.base);
    CHECK_INT(seen.code, GRPC_UNIMPLEMENTED);
    call_half_close(&call);
    CHECK_INT(handled.messages, 0);
    CHECK_INT(seen.finished, 1);
    api_done(&api);
}

TEST(call_streams_requests_as_they_come) {
    begin("/t.S/Bidi");
    CHECK_INT(handled.opened, 1);
    call_message(&call, &request.base);
    call_message(&call, &request.base);
    call_half_close(&call);
    CHECK_INT(handled.messages * 10 + handled.half_closed, 21);
    call_hold(&call);
    call_release(&call);
    call_release(&call);
    CHECK_INT(seen.released, 1);
    call_drain(&call);
    CHECK_INT(handled.drained, 1);
    call_finish(&call, NULL);
    api_done(&api);
}

TEST(call_finishes_exactly_once) { /* covers: RPC-26 */
    struct err e;
    begin("/t.S/Bidi");
    call_cancel(&call, ERR_CANCELLED);
    call_cancel(&call, ERR_DEADLINE_EXCEEDED);
    CHECK_INT(handled.cancelled, 1);
    CHECK_INT(seen.finished, 0); /* nobody is left to reply to */
    CHECK_INT(call_send(&call, &request.base), CALL_GONE);
    api_done(&api);

    begin("/t.S/Bidi");
    call_finish(&call, NULL);
    call_cancel(&call, ERR_CANCELLED);
    err_set(&e, ERR_INTERNAL, "x");
    call_fail(&call, &e);
    CHECK_INT(handled.cancelled, 0); /* the handler ended the call itself */
    CHECK_INT(seen.finished, 1);
    api_done(&api);

    begin("/t.S/Bidi");
    call_set_subject(&call, "exec_id", "ex-7");
    call_cancel(&call, ERR_DEADLINE_EXCEEDED);
    CHECK_INT(handled.cancelled, 1);
    CHECK_INT(seen.code, GRPC_DEADLINE_EXCEEDED);
    CHECK_STR(seen.subject_id, "ex-7");
    api_done(&api);
}

TEST(call_error_names_an_unknown_method) { /* covers: RPC-1 */
    begin("/t.S/Nope");
    CHECK_INT(seen.code, GRPC_UNIMPLEMENTED);
    CHECK(strstr(seen.text, "/t.S/Nope") != NULL);
    api_done(&api);
    begin("/t.S/Later");
    CHECK_INT(seen.err, ERR_UNIMPLEMENTED);
    CHECK(strstr(seen.text, "/t.S/Later is not implemented yet") != NULL);
    api_done(&api);
}

TEST(call_identifies_unix_callers_by_uid) { /* covers: AUTH-3 */
    static const uid_t allowed[] = {77};
    struct api_auth auth = {allowed, 1, "", false};
    peer = (struct call_peer){.is_unix = true, .uid = 4242};
    begin_with("/t.S/Unary", &auth, NULL);
    CHECK_INT(seen.err, ERR_PERMISSION_DENIED);
    api_done(&api);
    /* a stranger does not learn which methods exist: AUTH-8 */
    begin_with("/t.S/Nope", &auth, NULL);
    CHECK_INT(seen.err, ERR_PERMISSION_DENIED);
    api_done(&api);
    peer.uid = 77;
    begin_with("/t.S/Unary", &auth, NULL);
    CHECK_INT(seen.finished, 0);
    call_cancel(&call, ERR_CANCELLED);
    api_done(&api);
    peer.uid = geteuid();
    begin_with("/t.S/Unary", &auth, NULL);
    CHECK_INT(seen.finished, 0);
    call_cancel(&call, ERR_CANCELLED);
    api_done(&api);
}

/* Returns the error that a TCP caller with this token, host and origin gets. */
static enum err_code tcp(const char *path, const char *token, const char *host,
                         const char *origin) {
    struct api_auth auth = {.token =
                                "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
    struct call_header second = {NULL, STR("origin"), str_of(origin ? origin : "")};
    struct call_header first = {origin ? &second : NULL, STR("authorization"),
                                str_of(token ? token : "")};
    struct api_methods table = {rows, COUNT_OF(rows)};
    memset(&seen, 0, sizeof seen);
    peer = (struct call_peer){.is_unix = false, .uid = (uid_t)-1};
    CHECK_INT(api_init(&api, &table, 1, &auth), 0);
    api.access_log = false;
    call = (struct call){.api = &api,
                         .wire = &wire,
                         .peer = &peer,
                         .path = str_of(path),
                         .authority = str_of(host),
                         .headers = token    ? &first
                                    : origin ? &second
                                             : NULL};
    call_begin(&call);
    enum err_code code = seen.err;
    call_cancel(&call, ERR_CANCELLED);
    api_done(&api);
    return code;
}

#define TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(call_over_tcp_needs_the_token) { /* covers: AUTH-4 */
    CHECK_INT(tcp("/t.S/Unary", "Bearer " TOKEN, "localhost:1", NULL), ERR_NONE);
    CHECK_INT(tcp("/t.S/Unary", "bearer " TOKEN, "127.0.0.1", NULL), ERR_NONE);
    CHECK_INT(tcp("/t.S/Unary", NULL, "localhost:1", NULL), ERR_UNAUTHENTICATED);
    CHECK_INT(tcp("/t.S/Unary", "Bearer ", "localhost:1", NULL), ERR_UNAUTHENTICATED);
    CHECK_INT(tcp("/t.S/Unary", "B", "localhost:1", NULL), ERR_UNAUTHENTICATED);
    CHECK_INT(tcp("/t.S/Unary", "Basic " TOKEN, "localhost:1", NULL), ERR_UNAUTHENTICATED);
    CHECK_INT(tcp("/t.S/Unary", "Bearer " TOKEN "0", "localhost:1", NULL), ERR_UNAUTHENTICATED);
    CHECK_INT(tcp("/t.S/Unary",
                  "Bearer 1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                  "localhost:1", NULL),
              ERR_UNAUTHENTICATED);
    CHECK_INT(tcp("/t.S/Open", NULL, "localhost:1", NULL), ERR_NONE);
    CHECK_INT(tcp("/t.S/Nope", NULL, "localhost:1", NULL), ERR_UNAUTHENTICATED);
}

TEST(call_over_tcp_refuses_a_foreign_host) { /* covers: AUTH-7 */
    CHECK_INT(tcp("/t.S/Unary", "Bearer " TOKEN, "evil.example", NULL), ERR_PERMISSION_DENIED);
    CHECK_INT(tcp("/t.S/Unary", "Bearer " TOKEN, "localhost.evil.example", NULL),
              ERR_PERMISSION_DENIED);
    CHECK_INT(tcp("/t.S/Unary", "Bearer " TOKEN, "", NULL), ERR_PERMISSION_DENIED);
    CHECK_INT(tcp("/t.S/Unary", NULL, "evil.example", NULL), ERR_PERMISSION_DENIED);
    CHECK_INT(tcp("/t.S/Open", NULL, "evil.example", NULL), ERR_PERMISSION_DENIED);
    CHECK_INT(tcp("/t.S/Unary", "Bearer " TOKEN, "[::1]:5", NULL), ERR_NONE);
    CHECK_INT(tcp("/t.S/Unary", "Bearer " TOKEN, "LOCALHOST:5", NULL), ERR_NONE);
    CHECK_INT(tcp("/t.S/Unary", "Bearer " TOKEN, "localhost", "http://evil.example"),
              ERR_PERMISSION_DENIED);
    CHECK_INT(tcp("/t.S/Unary", "Bearer " TOKEN, "localhost", "null"), ERR_PERMISSION_DENIED);
    CHECK_INT(tcp("/t.S/Unary", "Bearer " TOKEN, "localhost", "http://localhost:3000"), ERR_NONE);
}

TEST(call_refuses_new_calls_while_draining_but_not_health) { /* covers: RPC-25 */
    begin("/t.S/Bidi");
    call_cancel(&call, ERR_CANCELLED);
    memset(&seen, 0, sizeof seen);
    api.draining = true;
    call = (struct call){.api = &api, .wire = &wire, .peer = &peer, .path = STR("/t.S/Unary")};
    call_begin(&call);
    CHECK_INT(seen.err, ERR_SHUTTING_DOWN);
    call = (struct call){.api = &api, .wire = &wire, .peer = &peer, .path = STR("/t.S/Open")};
    call_begin(&call);
    CHECK_INT(seen.finished, 1);
    call_cancel(&call, ERR_CANCELLED);
    api_done(&api);
}

TEST(call_headers_keep_their_order) { /* covers: RPC-10 */
    struct call_header one = {NULL, STR("k"), STR("first")};
    struct call_header two = {&one, STR("k"), STR("second")};
    begin("/t.S/Bidi");
    CHECK_INT(arena_init(&call.arena, 256, 4096), 0);
    call.headers = &two;
    CHECK(str_is(call_header(&call, STR("k")), STR("first")));
    CHECK(call_header(&call, STR("none")).p == NULL);
    struct call_header bin = {&two, STR("t-bin"), STR("AP8=")};
    struct call_header bad = {&bin, STR("bad-bin"), STR("?")};
    call.headers = &bad;
    struct str bytes = call_header_bin(&call, STR("t-bin"));
    CHECK_BYTES(bytes.p, bytes.n, "\0\xff", 2);
    CHECK(call_header_bin(&call, STR("bad-bin")).p == NULL);
    CHECK(call_header_bin(&call, STR("none-bin")).p == NULL);
    CHECK_INT(call_add_header(&call, STR("a"), STR("1")), 0);
    CHECK_INT(call_add_header(&call, STR("a"), STR("2")), 0);
    CHECK_INT(call_add_trailer(&call, STR("t"), STR("3")), 0);
    CHECK(str_is(call.reply_headers->value, STR("1")) &&
          str_is(call.reply_headers->next->value, STR("2")));
    CHECK(str_is(call.reply_trailers->name, STR("t")));
    call_cancel(&call, ERR_CANCELLED);
    arena_done(&call.arena);
    api_done(&api);
}
