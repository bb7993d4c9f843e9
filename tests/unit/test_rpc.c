#include "base/rpc.h"

#include <errno.h>
#include <fcntl.h>

#include "harness.h"

static int feed(struct rpc_in *in, const char *bytes, size_t n) {
    uint8_t *at;
    int r = rpc_in_reserve(in, n, &at);
    if (r < 0)
        return r;
    memcpy(at, bytes, n);
    rpc_in_commit(in, n);
    return 0;
}

static const char stream[] = "{\"a\":1}\n"
                             "Content-Length: 7\r\n\r\n{\"b\":2}"
                             "\r\n\n {\"c\":3}\r\n"
                             "content-type: x\r\nCONTENT-LENGTH:  4 \r\n\r\n[\n1]"
                             "{}\n";
static const char *const messages[] = {"{\"a\":1}", "{\"b\":2}", "{\"c\":3}\r", "[\n1]", "{}"};
static const enum rpc_framing framings[] = {RPC_LINES, RPC_LENGTH, RPC_LINES, RPC_LENGTH,
                                            RPC_LINES};

TEST(rpc_reads_frames_in_pieces_of_any_size) {
    for (size_t piece = 1; piece < sizeof stream; piece++) {
        struct rpc_in in;
        rpc_in_init(&in, 64);
        size_t got = 0;
        for (size_t at = 0; at < sizeof stream - 1; at += piece) {
            CHECK_INT(feed(&in, stream + at, MIN(piece, sizeof stream - 1 - at)), 0);
            struct str m;
            int r;
            while ((r = rpc_in_next(&in, &m)) == 1 && got < COUNT_OF(messages)) {
                CHECK_BYTES(m.p, m.n, messages[got], strlen(messages[got]));
                CHECK_INT(in.framing, framings[got]);
                got++;
            }
            CHECK_INT(r, 0);
        }
        CHECK_INT(got, COUNT_OF(messages));
        rpc_in_done(&in);
    }
}

static int next_of(const char *bytes, size_t n, size_t max) {
    struct rpc_in in;
    struct str m;
    rpc_in_init(&in, max);
    int r = feed(&in, bytes, n);
    if (r == 0)
        r = rpc_in_next(&in, &m);
    rpc_in_done(&in);
    return r;
}

TEST(rpc_enforces_its_bounds) {
    char line[80];
    memset(line, ' ', sizeof line);
    line[0] = '{';
    CHECK_INT(next_of(line, 64, 64), 0);
    CHECK_INT(next_of(line, 65, 64), -EMSGSIZE);
    line[64] = '\n';
    CHECK_INT(next_of(line, 65, 64), 1);
    CHECK_INT(next_of("Content-Length: 64\r\n\r\n", 22, 64), 0);
    CHECK_INT(next_of("Content-Length: 65\r\n\r\n", 22, 64), -EMSGSIZE);
    CHECK_INT(next_of("Content-Length: 0\r\n\r\n", 21, 64), -EMSGSIZE);
    CHECK_INT(next_of("Content-Length: 1x\r\n\r\n", 22, 64), -EBADMSG);
    CHECK_INT(next_of("Content-Length: 1\r\nContent-Length: 1\r\n\r\n1", 41, 64), -EBADMSG);
    CHECK_INT(next_of("X: y\r\n\r\n", 8, 64), -EBADMSG);
    CHECK_INT(next_of("no colon\r\n", 10, 64), -EBADMSG);
    char header[RPC_HEADER_MAX + 2];
    memset(header, 'a', sizeof header);
    CHECK_INT(next_of(header, sizeof header, 4096), -EBADMSG);
}

static int null_fd(void) {
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

static bool is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

TEST(rpc_descriptors_follow_their_message) {
    struct rpc_in in;
    struct str m;
    int fds[8];
    rpc_in_init(&in, 64);
    CHECK_INT(feed(&in, "{1}\n{2", 6), 0); /* the second message brings two */
    int mine[2] = {null_fd(), null_fd()};
    CHECK_INT(rpc_in_take_fds(&in, mine, 2), 0);
    CHECK_INT(rpc_in_next(&in, &m), 1);
    CHECK_INT(rpc_in_claim(&in, 0, NULL), 0);
    CHECK_INT(rpc_in_next(&in, &m), 0);
    CHECK_INT(feed(&in, "}\n", 2), 0);
    CHECK_INT(rpc_in_next(&in, &m), 1);
    CHECK_INT(rpc_in_claim(&in, 2, fds), 0);
    CHECK(fds[0] == mine[0] && fds[1] == mine[1] && is_open(mine[0]));
    close(fds[0]);
    close(fds[1]);
    for (size_t announced = 0; announced < 4; announced++) { /* two arrive */
        CHECK_INT(feed(&in, "{}\n", 3), 0);
        int pair[2] = {null_fd(), null_fd()};
        CHECK_INT(rpc_in_take_fds(&in, pair, 2), 0);
        CHECK_INT(rpc_in_next(&in, &m), 1);
        CHECK_INT(rpc_in_claim(&in, announced, fds), announced == 2 ? 0 : -EBADMSG);
        CHECK_INT(is_open(pair[0]), announced == 2);
        CHECK_INT(in.n_fds, 0);
        if (announced == 2) {
            close(fds[0]);
            close(fds[1]);
        }
    }
    rpc_in_done(&in);
}

TEST(rpc_bounds_descriptors) {
    struct rpc_in in;
    rpc_in_init(&in, 64);
    for (int i = 0; i < RPC_FDS_MAX; i++) {
        int fd = null_fd();
        CHECK_INT(rpc_in_take_fds(&in, &fd, 1), 0);
    }
    int fd = null_fd(), first = in.fds[0].fd;
    CHECK_INT(rpc_in_take_fds(&in, &fd, 1), -EMSGSIZE);
    CHECK(!is_open(fd) && is_open(first));
    rpc_in_done(&in);
    CHECK(!is_open(first));
}

TEST(rpc_validates_envelopes) {
    static const struct {
        const char *text;
        int result;
        enum rpc_kind kind;
        int64_t id;
    } rows[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{}}", 0, RPC_REQUEST, 1},
        {"{\"jsonrpc\":\"2.0\",\"id\":9007199254740991,\"method\":\"m\"}", 0, RPC_REQUEST,
         RPC_ID_MAX},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{}}", 0, RPC_NOTIFICATION, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}", 0, RPC_RESULT, 2},
        {"{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{}}", 0, RPC_ERROR, 3},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", 0, RPC_ERROR, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":9007199254740992,\"method\":\"m\"}", -EINVAL, 0, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"m\"}", -EINVAL, 0, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", -EINVAL, 0, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}", -EINVAL, 0, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", -EINVAL, 0, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"result\":{}}", -EINVAL, 0, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[]}", -EINVAL, 0, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}", -EINVAL, 0, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1}", -EINVAL, 0, 0},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}", -EINVAL, 0, 0},
        {"{\"id\":1,\"method\":\"m\"}", -EINVAL, 0, 0},
        {"[]", -EINVAL, 0, 0},
        {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}]", -EINVAL, 0, 0},
        {"{", -EBADMSG, 0, 0},
    };
    struct arena a;
    CHECK_INT(arena_init(&a, 4096, 1 << 20), 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rpc_message m;
        arena_reset(&a);
        if (!CHECK_INT(rpc_parse(&a, str_of(rows[i].text), &m), rows[i].result) ||
            rows[i].result < 0)
            continue;
        CHECK_INT(m.kind, rows[i].kind);
        CHECK_INT(m.id, rows[i].id);
    }
    arena_done(&a);
}

/* Checks that written messages can be read in both framings, whichever allocation fails. */
static int round_trip(enum rpc_framing framing, struct rpc_message *m, struct arena *a,
                      struct rpc_in *in, struct buf *text, struct buf *framed) {
    struct json_out o;
    rpc_open_request(&o, text, 7, "exec");
    json_put_str(&o, "path", STR("a\nb"));
    int r = rpc_close(&o);
    if (r == 0)
        r = rpc_frame(framed, framing, (struct str){(const char *)buf_data(text), buf_len(text)});
    if (r == 0)
        r = feed(in, (const char *)buf_data(framed), buf_len(framed));
    struct str got;
    if (r == 0 && rpc_in_next(in, &got) == 1)
        r = rpc_parse(a, got, m);
    return r;
}

TEST(rpc_round_trips_and_survives_memory_running_out) {
    for (int framing = RPC_LINES; framing <= RPC_LENGTH; framing++) {
        for (unsigned n = 1;; n++) {
            struct arena a;
            struct rpc_in in;
            struct buf text, framed;
            struct rpc_message m = {0};
            CHECK_INT(arena_init(&a, 16, 65536), 0);
            rpc_in_init(&in, 4096);
            buf_init(&text, 4096);
            buf_init(&framed, 4096);
            alloc_fail_at(n);
            int r = round_trip((enum rpc_framing)framing, &m, &a, &in, &text, &framed);
            bool failed = alloc_failed();
            alloc_fail_at(0);
            CHECK_INT(r, failed ? -ENOMEM : 0);
            if (!failed) {
                CHECK_INT(m.id, 7);
                CHECK(str_is(m.method, STR("exec")));
                CHECK(str_is(json_get(m.params, "path")->text, STR("a\nb")));
            }
            arena_done(&a);
            rpc_in_done(&in);
            buf_done(&text);
            buf_done(&framed);
            if (!failed)
                break;
        }
    }
}

TEST(rpc_writes_errors) {
    struct err e;
    struct buf b;
    buf_init(&b, 4096);
    err_field(&e, "argv", "is bad");
    memcpy(e.text, "is \xff bad", 9);
    CHECK_INT(rpc_write_error(&b, 0, &e, -1), 0);
    static const char want[] =
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":5,\"message\":"
        "\"a field of the request has an invalid value\",\"data\":{\"code\":\"INVALID_ARGUMENT\","
        "\"field\":\"argv\"}}}";
    CHECK_BYTES(buf_data(&b), buf_len(&b), want, sizeof want - 1);
    buf_done(&b);
}
