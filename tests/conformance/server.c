/* conformance-server — the service that the Connect conformance suite calls, on our own transport.
 *
 * It reads its settings from stdin (a length and a ServerCompatRequest), prints its address on
 * stdout, and serves until SIGTERM. Each method follows the response definition in the request. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/log.h"
#include "conformance_messages.h"
#include "transport/listener.h"
#include "transport/server.h"

#define TYPE(name) Connectrpc__Conformance__V1__##name
#define TYPE_PREFIX "type.googleapis.com/"
#define INFO_CASE \
    CONNECTRPC__CONFORMANCE__V1__CONFORMANCE_PAYLOAD__REQUEST_INFO___TIMEOUT_MS_TIMEOUT_MS
#define MAX_ITEMS 4096

typedef TYPE(Header) header;
typedef TYPE(ConformancePayload__RequestInfo) request_info;

/* The progress of one call. Keeps a copy of the first request, which defines the responses. */
struct job {
    struct call *call;
    struct deadline timer;
    ProtobufCMessage *first;
    ProtobufCBinaryData *data; /* responses to send, in `first` */
    size_t n_data;
    size_t next;
    uint32_t delay_ms;
    const TYPE(Error) * error;
    header **trailers;
    size_t n_trailers;
    Google__Protobuf__Any *requests[MAX_ITEMS]; /* since the last response that reported them */
    size_t n_requests;
    size_t received;
    bool answers_once; /* unary and client stream */
    bool full_duplex;
    bool ended; /* the client sends no more */
    bool slept;
    bool waiting; /* for the timer or until writable */
};

static struct server *server_of(struct call *c) {
    return c->api->user;
}

static void job_free(struct job *job) {
    deadline_clear(&server_of(job->call)->deadlines, &job->timer);
    for (size_t i = 0; i < job->n_requests; i++)
        google__protobuf__any__free_unpacked(job->requests[i], NULL);
    if (job->first)
        protobuf_c_message_free_unpacked(job->first, NULL);
    free(job);
}

/* --- how a response describes the request --- */

static Google__Protobuf__Any *to_any(const ProtobufCMessage *m) {
    Google__Protobuf__Any *any = malloc(sizeof *any);
    google__protobuf__any__init(any);
    const char *name = m->descriptor->name;
    any->type_url = malloc(strlen(TYPE_PREFIX) + strlen(name) + 1);
    sprintf(any->type_url, "%s%s", TYPE_PREFIX, name);
    any->value.len = protobuf_c_message_get_packed_size(m);
    any->value.data = malloc(any->value.len + 1);
    protobuf_c_message_pack(m, any->value.data);
    return any;
}

/* Collects all headers, each name once with its values in order, in the call's arena. */
static void fill_headers(struct call *c, request_info *info) {
    header **list = arena_zalloc(&c->arena, MAX_ITEMS * sizeof *list);
    size_t n = 0;
    for (struct call_header *h = c->headers; h;
         h = h->next) { /* newest first, so fill from the end */
        size_t i = 0;
        while (i < n && !str_is(str_of(list[i]->name), h->name))
            i++;
        if (i == n) {
            list[n++] = arena_alloc(&c->arena, sizeof **list);
            connectrpc__conformance__v1__header__init(list[i]);
            list[i]->name = arena_copy(&c->arena, h->name.p, h->name.n);
            list[i]->value = arena_alloc(&c->arena, 128 * sizeof *list[i]->value);
        }
        memmove(list[i]->value + 1, list[i]->value, list[i]->n_value * sizeof *list[i]->value);
        list[i]->value[0] = arena_copy(&c->arena, h->value.p, h->value.n);
        list[i]->n_value++;
    }
    info->request_headers = list;
    info->n_request_headers = n;
}

static request_info info_of(struct job *job, bool whole) {
    request_info info = CONNECTRPC__CONFORMANCE__V1__CONFORMANCE_PAYLOAD__REQUEST_INFO__INIT;
    struct call *c = job->call;
    info.requests = job->requests;
    info.n_requests = job->n_requests;
    if (!whole)
        return info;
    fill_headers(c, &info);
    if (c->deadline_us != 0) {
        info._timeout_ms_case = INFO_CASE;
        info.timeout_ms = (int64_t)(c->deadline_us - c->began_us) / 1000;
    }
    return info;
}

/* --- sending --- */

static void add_all(struct call *c, header **list, size_t n,
                    int (*add)(struct call *, struct str, struct str)) {
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < list[i]->n_value; v++)
            if (add(c, str_of(list[i]->name), str_of(list[i]->value[v])) < 0)
                abort();
}

static void finish(struct job *job) {
    struct call *c = job->call;
    struct call_status status = {.code = GRPC_OK};
    struct call_detail details[64];
    Google__Protobuf__Any *reported = NULL;
    add_all(c, job->trailers, job->n_trailers, call_add_trailer);
    if (job->error) {
        status.code = (enum grpc_code)job->error->code;
        if (job->error->_message_case)
            status.message = str_of(job->error->message);
        for (; status.n_details < job->error->n_details; status.n_details++) {
            const Google__Protobuf__Any *d = job->error->details[status.n_details];
            details[status.n_details] =
                (struct call_detail){str_of(d->type_url), d->value.data, d->value.len};
        }
        if (job->next == 0) { /* no response has reported the request, so the error does */
            request_info info = info_of(job, true);
            reported = to_any(&info.base);
            details[status.n_details++] = (struct call_detail){
                str_of(reported->type_url), reported->value.data, reported->value.len};
        }
        status.details = details;
    }
    call_finish_status(c, &status);
    if (reported)
        google__protobuf__any__free_unpacked(reported, NULL);
    job_free(job);
}

/* Every response message of the suite has one field, the payload, so one type serves for all. */
static enum call_push send_one(struct job *job) {
    TYPE(ConformancePayload) payload = CONNECTRPC__CONFORMANCE__V1__CONFORMANCE_PAYLOAD__INIT;
    TYPE(UnaryResponse) response = CONNECTRPC__CONFORMANCE__V1__UNARY_RESPONSE__INIT;
    request_info info = info_of(job, job->next == 0);
    if (job->next < job->n_data)
        payload.data = job->data[job->next];
    if (job->next == 0 || job->full_duplex)
        payload.request_info = &info;
    response.payload = &payload;
    enum call_push sent = call_send(job->call, &response.base);
    job->next++;
    for (; job->full_duplex && job->n_requests > 0; job->n_requests--)
        google__protobuf__any__free_unpacked(job->requests[job->n_requests - 1], NULL);
    return sent;
}

static bool is_over(const struct job *job) {
    size_t n = job->answers_once && !job->error ? 1 : job->n_data;
    return job->next >= n && (job->ended || (job->full_duplex && job->received > job->next));
}

static bool may_send(const struct job *job) {
    size_t n = job->answers_once && !job->error ? 1 : job->n_data;
    return job->next < n && (job->ended || (job->full_duplex && job->received > job->next));
}

static void pump(struct job *job) {
    while (!job->waiting) {
        bool last = is_over(job) && job->answers_once && job->error;
        if ((may_send(job) || last) && job->delay_ms > 0 && !job->slept) {
            job->waiting = true;
            deadline_set(&server_of(job->call)->deadlines, &job->timer,
                         clock_us() + job->delay_ms * 1000ull);
            return;
        }
        if (is_over(job)) {
            finish(job);
            return;
        }
        if (!may_send(job))
            return;
        job->slept = false;
        enum call_push sent = send_one(job);
        if (sent == CALL_GONE)
            return;
        job->waiting = sent == CALL_FULL;
    }
}

static void on_slept(struct deadline *d) {
    struct job *job = container_of(d, struct job, timer);
    job->slept = true;
    job->waiting = false;
    pump(job);
}

static void on_writable(struct call *c) {
    struct job *job = c->state;
    job->waiting = job->timer.is_set;
    pump(job);
}

/* --- receiving --- */

static void take_unary(struct job *job, const TYPE(UnaryResponseDefinition) * d) {
    job->delay_ms = d->response_delay_ms;
    if (d->response_case == CONNECTRPC__CONFORMANCE__V1__UNARY_RESPONSE_DEFINITION__RESPONSE_ERROR)
        job->error = d->error;
    else if (d->response_case != 0) {
        job->data = (ProtobufCBinaryData *)&d->response_data;
        job->n_data = 1;
    }
    job->trailers = d->response_trailers;
    job->n_trailers = d->n_response_trailers;
    add_all(job->call, d->response_headers, d->n_response_headers, call_add_header);
}

static void take_stream(struct job *job, const TYPE(StreamResponseDefinition) * d) {
    job->delay_ms = d->response_delay_ms;
    job->error = d->error;
    job->data = d->response_data;
    job->n_data = d->n_response_data;
    job->trailers = d->response_trailers;
    job->n_trailers = d->n_response_trailers;
    add_all(job->call, d->response_headers, d->n_response_headers, call_add_header);
    call_send_headers(job->call);
}

/* Every request message starts with its response definition. */
static void take_first(struct job *job, const ProtobufCMessage *m) {
    Google__Protobuf__Any *copy = job->requests[0];
    job->first = protobuf_c_message_unpack(m->descriptor, NULL, copy->value.len, copy->value.data);
    void *definition = ((TYPE(UnaryRequest) *)job->first)->response_definition;
    if (m->descriptor == &connectrpc__conformance__v1__bidi_stream_request__descriptor)
        job->full_duplex = ((TYPE(BidiStreamRequest) *)job->first)->full_duplex;
    if (definition && job->answers_once)
        take_unary(job, definition);
    else if (definition)
        take_stream(job, definition);
}

static struct job *job_of(struct call *c) {
    if (!c->state) {
        struct job *job = calloc(1, sizeof *job);
        job->call = c;
        job->answers_once =
            c->method->kind == METHOD_UNARY || c->method->kind == METHOD_CLIENT_STREAM;
        deadline_init(&job->timer, on_slept);
        c->state = job;
    }
    return c->state;
}

static void on_message(struct call *c, const ProtobufCMessage *m) {
    struct job *job = job_of(c);
    if (job->n_requests < MAX_ITEMS)
        job->requests[job->n_requests++] = to_any(m);
    if (job->received++ == 0)
        take_first(job, m);
    job->ended = job->ended || call_has_one_request(c);
    pump(job);
}

static void on_half_close(struct call *c) {
    struct job *job = job_of(c);
    job->ended = true;
    pump(job);
}

static void on_cancel(struct call *c) {
    if (c->state)
        job_free(c->state);
}

static const struct handler handler = {
    .on_message = on_message,
    .on_half_close = on_half_close,
    .on_writable = on_writable,
    .on_cancel = on_cancel,
};

/* `Unimplemented` has no row, because the suite tests that. */
#define ROW(name, snake, kind)                                                           \
    {                                                                                    \
        STR("/connectrpc.conformance.v1.ConformanceService/" name),                      \
            &connectrpc__conformance__v1__##snake##_request__descriptor,                 \
            &connectrpc__conformance__v1__##snake##_response__descriptor, METHOD_##kind, \
            SCOPE_ANYONE, &handler                                                       \
    }
static const struct method methods[] = {
    ROW("Unary", unary, UNARY),
    ROW("IdempotentUnary", idempotent_unary, UNARY),
    ROW("ClientStream", client_stream, CLIENT_STREAM),
    ROW("ServerStream", server_stream, SERVER_STREAM),
    ROW("BidiStream", bidi_stream, BIDI),
};

/* --- the handshake with the suite --- */

static bool read_all(void *out, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t r = read(STDIN_FILENO, (char *)out + done, n - done);
        if (r <= 0)
            return false;
        done += (size_t)r;
    }
    return true;
}

static TYPE(ServerCompatRequest) * read_request(void) {
    uint32_t n;
    if (!read_all(&n, sizeof n) || ntohl(n) > 1 << 20)
        return NULL;
    AUTO_FREE uint8_t *bytes = malloc(ntohl(n) + 1);
    if (!read_all(bytes, ntohl(n)))
        return NULL;
    return connectrpc__conformance__v1__server_compat_request__unpack(NULL, ntohl(n), bytes);
}

static bool write_response(const char *address) {
    TYPE(ServerCompatResponse) r = CONNECTRPC__CONFORMANCE__V1__SERVER_COMPAT_RESPONSE__INIT;
    r.host = "127.0.0.1";
    r.port = (uint32_t)atoi(strrchr(address, ':') + 1);
    uint8_t bytes[256];
    uint32_t n = (uint32_t)connectrpc__conformance__v1__server_compat_response__pack(&r, bytes + 4);
    uint32_t length = htonl(n);
    memcpy(bytes, &length, sizeof length);
    return write(STDOUT_FILENO, bytes, n + 4) == (ssize_t)(n + 4);
}

static void on_drained(struct server *s) {
    server_close(s);
}

struct stop {
    uv_signal_t signal;
    struct server *server;
    struct listener *listener;
};

static void on_signal(uv_signal_t *handle, int number) {
    (void)number;
    struct stop *stop = handle->data;
    listener_close(stop->listener);
    server_drain(stop->server, on_drained);
    server_cut(stop->server);
    uv_close((uv_handle_t *)handle, NULL);
}

int main(void) {
    struct api_methods table = {methods, COUNT_OF(methods)};
    struct api_auth open = {.open = true};
    struct limits limits;
    struct server server;
    struct listener listener;
    struct api api;
    struct err e;
    uv_loop_t loop;
    struct stop stop = {.server = &server, .listener = &listener};
    TYPE(ServerCompatRequest) *request = read_request();
    if (!request || api_init(&api, &table, 1, &open) < 0)
        return 1;
    signal(SIGPIPE, SIG_IGN);
    log_setup(STDERR_FILENO, LOG_WARN);
    limits_init(&limits);
    if (request->message_receive_limit > 0)
        limits.of[LIMIT_MESSAGE_INBOUND] = request->message_receive_limit;
    connectrpc__conformance__v1__server_compat_request__free_unpacked(request, NULL);
    uv_loop_init(&loop);
    if (server_init(&server, &loop, &api, &limits) < 0)
        return 1;
    api.user = &server;
    api.error_details = false; /* the suite compares details exactly, and ours differ */
    if (listener_tcp(&listener, &server, "127.0.0.1:0", &e) < 0 ||
        listener_start(&listener, &e) < 0 || !write_response(listener.address)) {
        fprintf(stderr, "conformance-server: %s\n", e.text);
        return 1;
    }
    uv_signal_init(&loop, &stop.signal);
    stop.signal.data = &stop;
    uv_signal_start(&stop.signal, on_signal, SIGTERM);
    uv_run(&loop, UV_RUN_DEFAULT);
    server_done(&server);
    api_done(&api);
    return uv_loop_close(&loop) == 0 ? 0 : 1;
}
