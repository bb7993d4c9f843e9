#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "berm/v1/berm.pb-c.h"
#include "stopwatch/stopwatch.h"

#define MESSAGE_MAX 65536
#define PREFIX 5 /* prefix of a gRPC message */
#define WAIT_MS 60000

/* The only connection, and the current call. */
static int sock = -1;
static nghttp2_session *session;
static struct {
    uint8_t out[MESSAGE_MAX], in[MESSAGE_MAX];
    size_t n_out, n_sent, n_in;
    char status[8], message[256];
    int is_over;
} call;

static ssize_t on_read(nghttp2_session *s, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                       nghttp2_data_source *source, void *user) {
    (void)s, (void)id, (void)source, (void)user;
    size_t n = call.n_out - call.n_sent < cap ? call.n_out - call.n_sent : cap;
    memcpy(to, call.out + call.n_sent, n);
    call.n_sent += n;
    if (call.n_sent == call.n_out)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                     size_t n_name, const uint8_t *value, size_t n_value, uint8_t flags,
                     void *user) {
    (void)s, (void)frame, (void)flags, (void)user;
    if (n_name == 11 && memcmp(name, "grpc-status", 11) == 0)
        snprintf(call.status, sizeof call.status, "%.*s", (int)n_value, (const char *)value);
    if (n_name == 12 && memcmp(name, "grpc-message", 12) == 0)
        snprintf(call.message, sizeof call.message, "%.*s", (int)n_value, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *data, size_t n,
                   void *user) {
    (void)s, (void)flags, (void)id, (void)user;
    if (call.n_in + n > sizeof call.in)
        die_of("bermd", "the answer is too large");
    memcpy(call.in + call.n_in, data, n);
    call.n_in += n;
    return 0;
}

static int on_stream_close(nghttp2_session *s, int32_t id, uint32_t code, void *user) {
    (void)s, (void)id, (void)code, (void)user;
    call.is_over = 1;
    return 0;
}

static void send_all(void) {
    const uint8_t *data;
    for (ssize_t n; (n = nghttp2_session_mem_send(session, &data)) > 0;)
        while (n > 0) {
            ssize_t sent = send(sock, data, (size_t)n, MSG_NOSIGNAL);
            if (sent < 0)
                die("send to bermd");
            data += sent;
            n -= sent;
        }
}

static void receive(void) {
    static uint8_t bytes[MESSAGE_MAX];
    ssize_t n = recv(sock, bytes, sizeof bytes, 0);
    if (n <= 0)
        die("connection to bermd");
    if (nghttp2_session_mem_recv(session, bytes, (size_t)n) != n)
        die_of("bermd", "broke HTTP/2");
}

void rpc_open(const char *socket_path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    nghttp2_session_callbacks *callbacks;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    if (session) { /* the daemon was restarted */
        nghttp2_session_del(session);
        close(sock);
    }
    sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof address) < 0)
        die(socket_path);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_client_new(&session, callbacks, NULL);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0);
    send_all();
}

#define HEADER(name, value) \
    { (uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE }

/* Makes a unary call. The reply is in call.in after the prefix. */
static void unary(const char *path, const ProtobufCMessage *request) {
    size_t n = protobuf_c_message_get_packed_size(request);
    nghttp2_nv headers[] = {HEADER(":method", "POST"),
                            HEADER(":scheme", "http"),
                            HEADER(":path", path),
                            HEADER(":authority", "localhost"),
                            HEADER("content-type", "application/grpc"),
                            HEADER("te", "trailers")};
    nghttp2_data_provider body = {.read_callback = on_read};
    if (n > MESSAGE_MAX - PREFIX)
        die_of(path, "the request is too large");
    call.n_out = PREFIX + n;
    call.n_sent = call.n_in = 0;
    call.is_over = 0;
    call.status[0] = call.message[0] = '\0';
    uint8_t prefix[PREFIX] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                              (uint8_t)n};
    memcpy(call.out, prefix, PREFIX);
    protobuf_c_message_pack(request, call.out + PREFIX);
    if (nghttp2_submit_request(session, NULL, headers, sizeof headers / sizeof *headers, &body,
                               NULL) < 0)
        die_of(path, "not sent");
    for (send_all(); !call.is_over; send_all())
        receive();
    if (strcmp(call.status, "0") != 0 || call.n_in < PREFIX)
        die_of(path, call.message[0] ? call.message : "no answer");
}

void rpc_create(const char *id, const char *layer) {
    Berm__V1__CreateSandboxRequest request = BERM__V1__CREATE_SANDBOX_REQUEST__INIT;
    Berm__V1__SandboxSpec spec = BERM__V1__SANDBOX_SPEC__INIT;
    Berm__V1__RootFilesystem root = BERM__V1__ROOT_FILESYSTEM__INIT;
    root.layer = strcmp(layer, "memory") == 0 ? BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_MEMORY
                                              : BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_DISK;
    spec.root = &root;
    request.sandbox_id = (char *)id;
    request.spec = &spec;
    request.wait_ms = WAIT_MS;
    unary("/berm.v1.SandboxService/CreateSandbox", &request.base);
    Berm__V1__CreateSandboxResponse *answer =
        berm__v1__create_sandbox_response__unpack(NULL, call.n_in - PREFIX, call.in + PREFIX);
    if (!answer || answer->sandbox->state != BERM__V1__SANDBOX_STATE__SANDBOX_STATE_READY)
        die_of(id,
               answer && answer->sandbox->reason ? answer->sandbox->reason->message : "not READY");
    berm__v1__create_sandbox_response__free_unpacked(answer, NULL);
}

void rpc_run(const char *id, char *const *argv) {
    Berm__V1__RunExecRequest request = BERM__V1__RUN_EXEC_REQUEST__INIT;
    Berm__V1__ExecSpec spec = BERM__V1__EXEC_SPEC__INIT;
    spec.argv = (char **)argv;
    while (argv[spec.n_argv])
        spec.n_argv++;
    request.sandbox_id = (char *)id;
    request.spec = &spec;
    unary("/berm.v1.ExecService/RunExec", &request.base);
    Berm__V1__RunExecResponse *answer =
        berm__v1__run_exec_response__unpack(NULL, call.n_in - PREFIX, call.in + PREFIX);
    const Berm__V1__ExitStatus *end = answer ? answer->exec->exit : NULL;
    if (!end || end->how_case != BERM__V1__EXIT_STATUS__HOW_CODE || end->code != 0)
        die_of(argv[0], "did not end with 0");
    berm__v1__run_exec_response__free_unpacked(answer, NULL);
}

void rpc_delete(const char *id, int wait) {
    Berm__V1__DeleteSandboxRequest request = BERM__V1__DELETE_SANDBOX_REQUEST__INIT;
    request.sandbox_id = (char *)id;
    request.wait_ms = wait ? WAIT_MS : 0;
    unary("/berm.v1.SandboxService/DeleteSandbox", &request.base);
}
