#include "core/guest/guest_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "core/guest/guest_field.h"
#include "core/guest/guest_files_read.h"
#include "unit/guest_peer.h"

static struct peer peer;
static struct arena arena;
static struct err e;
static struct guest_answer answer;

/* --- answers, without a link --- */

static void setup(void) {
    CHECK_INT(arena_init(&arena, 1024, 4 << 20), 0);
}

static int reads_bound(enum guest_file_method method, struct guest_bound bound,
                       const char *members) {
    static const struct json_bounds bounds = {.depth = 8, .nodes = 131072, .members = 64};
    static char text[1 << 20];
    struct json *root;
    snprintf(text, sizeof text, "{%s}", members);
    answer = (struct guest_answer){.next_offset = -1};
    CHECK_INT(json_parse(&arena, text, strlen(text), &bounds, &root), 0);
    struct guest_wait w = {.method = (int)method, .bound = bound};
    return guest_files_read(&w, root, &arena, &answer, &e);
}

static int reads(enum guest_file_method method, const char *members) {
    return reads_bound(method, (struct guest_bound){0}, members);
}

#define INFO \
    "\"info\":{\"path\":\"/a\",\"type\":\"regular\",\"size_bytes\":5,\"mode\":1,\"modified_s\":1}"

TEST(guest_files_reads_every_answer) {
    setup();
    CHECK_INT(reads(GUEST_READ, "\"handle\":3," INFO), 0);
    CHECK(answer.file->handle == 3 && answer.file->info.size_bytes == 5);
    CHECK_INT(reads(GUEST_WRITE, "\"handle\":4"), 0);
    CHECK(answer.file->handle == 4 && answer.file->method == GUEST_WRITE);
    CHECK_INT(reads(GUEST_COMMIT, "\"created\":true," INFO), 0);
    CHECK(answer.file->created && str_is(answer.file->info.path.bytes, STR("/a")));
    CHECK_INT(reads(GUEST_STAT, INFO), 0);
    CHECK_INT(reads(GUEST_MKDIR, INFO), 0);
    CHECK(!answer.file->created);
    CHECK_INT(reads(GUEST_RENAME, INFO), 0);
    CHECK_INT(reads(GUEST_REMOVE, "\"removed\":7"), 0);
    CHECK(answer.file->remove.removed == 7);
    CHECK_INT(reads(GUEST_EDIT, "\"replacements\":2," INFO), 0);
    CHECK(answer.file->edit.replacements == 2);
    CHECK_INT(reads(GUEST_WATCH, "\"watch_id\":8," INFO), 0);
    CHECK(answer.file->watch_id == 8);
    CHECK_INT(reads(GUEST_PACK, "\"handle\":9"), 0);
    CHECK_INT(reads(GUEST_LIST, "\"entries\":[],\"next_page_token\":\"YWI=\",\"unreadable\":"
                                "[\"/x\"]"),
              0);
    CHECK(answer.file->list.n_entries == 0 && answer.file->list.n_unreadable == 1);
    CHECK(str_is(answer.file->list.next_page_token, STR("ab")));
    CHECK_INT(reads(GUEST_GREP, "\"matches\":[{\"path\":\"/a\",\"line\":3,\"text\":\"t\","
                                "\"before\":[\"b\"]}],\"truncated\":\"size\",\"files\":2"),
              0);
    CHECK(answer.file->grep.n_matches == 1 && answer.file->grep.matches[0].line == 3);
    CHECK(answer.file->grep.matches[0].n_before == 1 && answer.file->grep.matches[0].n_after == 0);
    CHECK_INT(answer.file->grep.truncated, GUEST_TRUNCATED_SIZE);
    CHECK_INT(reads(GUEST_GLOB, "\"matches\":[],\"truncated\":\"\""), 0);
    CHECK_INT(answer.file->glob.truncated, GUEST_TRUNCATED_NONE);
    arena_done(&arena);
}

TEST(guest_files_refuses_invalid_answers) {
    static const struct {
        enum guest_file_method method;
        const char *members;
    } bad[] = {
        {GUEST_READ, INFO},
        {GUEST_READ, "\"handle\":0," INFO},
        {GUEST_READ, "\"handle\":\"1\"," INFO},
        {GUEST_READ, "\"handle\":1"},
        {GUEST_READ, "\"handle\":1,\"info\":[]"},
        {GUEST_WRITE, ""},
        {GUEST_COMMIT, "\"created\":1," INFO},
        {GUEST_STAT, ""},
        {GUEST_STAT, "\"info\":{}"},
        {GUEST_REMOVE, "\"removed\":-1"},
        {GUEST_REMOVE, "\"removed\":1e3"},
        {GUEST_EDIT, "\"replacements\":\"2\"," INFO},
        {GUEST_WATCH, INFO},
        {GUEST_WATCH, "\"watch_id\":-1," INFO},
        {GUEST_PACK, "\"handle\":-9"},
        {GUEST_LIST, "\"next_page_token\":\"\""},
        {GUEST_LIST, "\"entries\":{},\"next_page_token\":\"\""},
        {GUEST_LIST, "\"entries\":[7],\"next_page_token\":\"\""},
        {GUEST_LIST, "\"entries\":[]"},
        {GUEST_LIST, "\"entries\":[],\"next_page_token\":7"},
        {GUEST_LIST, "\"entries\":[],\"next_page_token\":\"*\""},
        {GUEST_LIST, "\"entries\":[],\"next_page_token\":\"\",\"unreadable\":[7]"},
        {GUEST_GREP, "\"matches\":[]"},
        {GUEST_GREP, "\"matches\":[],\"truncated\":\"x\""},
        {GUEST_GREP, "\"matches\":[{\"line\":-1}],\"truncated\":\"\""},
        {GUEST_GREP, "\"matches\":[{\"text\":\"\\u0000\"}],\"truncated\":\"\""},
        {GUEST_GREP, "\"matches\":[{\"text_truncated\":0}],\"truncated\":\"\""},
        {GUEST_GLOB, "\"matches\":[{}],\"truncated\":\"\""},
        {GUEST_GLOB, "\"matches\":[],\"truncated\":\"\",\"unreadable\":true"},
    };
    setup();
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(reads(bad[i].method, bad[i].members), -ERR_GUEST_PROTOCOL);
    arena_done(&arena);
}

TEST(guest_files_refuses_lists_that_are_too_long) {
    static char members[1 << 19];
    setup();
    size_t at = (size_t)snprintf(members, sizeof members,
                                 "\"entries\":[],\"next_page_token\":\"\","
                                 "\"unreadable\":[\"\"");
    for (int i = 0; i < 100; i++)
        at += (size_t)snprintf(members + at, sizeof members - at, ",\"\"");
    snprintf(members + at, sizeof members - at, "]");
    CHECK_INT(reads(GUEST_LIST, members), -ERR_GUEST_PROTOCOL);
    at = (size_t)snprintf(members, sizeof members, "\"truncated\":\"\",\"matches\":[{}");
    for (int i = 0; i < 10000; i++)
        at += (size_t)snprintf(members + at, sizeof members - at, ",{}");
    snprintf(members + at, sizeof members - at, "]");
    CHECK_INT(reads(GUEST_GREP, members), -ERR_GUEST_PROTOCOL);
    char token[8000];
    memset(token, 'A', sizeof token);
    snprintf(members, sizeof members, "\"entries\":[],\"next_page_token\":\"%.*s\"",
             (int)sizeof token, token);
    CHECK_INT(reads(GUEST_LIST, members), -ERR_GUEST_PROTOCOL);
    arena_done(&arena);
}

TEST(guest_files_holds_chunks_and_lines_to_their_request) {
    struct guest_bound three = {.offset = 10, .max_bytes = 3};
    setup();
    CHECK_INT(reads_bound(GUEST_READ_CHUNK, three, "\"data_b64\":\"AAEC\",\"end\":false"), 0);
    CHECK(answer.file->read_chunk.data.n == 3 && !answer.file->read_chunk.is_end);
    CHECK_INT(reads_bound(GUEST_READ_CHUNK, three, "\"data_b64\":\"\",\"end\":true"), 0);
    CHECK(answer.file->read_chunk.is_end);
    CHECK_INT(reads_bound(GUEST_WRITE_CHUNK, three, "\"next_offset\":12"), 0);
    CHECK(answer.file->write_chunk.n_taken == 2);
    CHECK_INT(reads_bound(GUEST_WRITE_CHUNK, three, ""), 0);
    CHECK(answer.file->write_chunk.n_taken == 3);
    CHECK_INT(reads_bound(GUEST_READ_LINES, three, "\"handle\":1,\"offset\":5,\"length\":3," INFO),
              0);
    CHECK(answer.file->read_lines.length == 3);
    static const struct {
        enum guest_file_method method;
        const char *members;
    } bad[] = {
        {GUEST_READ_CHUNK, "\"data_b64\":\"AAECAw==\",\"end\":false"},
        {GUEST_READ_CHUNK, "\"data_b64\":\"\",\"end\":false"},
        {GUEST_READ_CHUNK, "\"data_b64\":\"?\",\"end\":true"},
        {GUEST_READ_CHUNK, "\"end\":true"},
        {GUEST_WRITE_CHUNK, "\"next_offset\":9"},
        {GUEST_WRITE_CHUNK, "\"next_offset\":10"},
        {GUEST_WRITE_CHUNK, "\"next_offset\":14"},
        {GUEST_WRITE_CHUNK, "\"next_offset\":-1"},
        {GUEST_READ_LINES, "\"handle\":1,\"offset\":5,\"length\":4," INFO},
        {GUEST_READ_LINES, "\"handle\":1,\"offset\":9223372036854775807,\"length\":3," INFO},
        {GUEST_READ_LINES, "\"offset\":5,\"length\":3," INFO},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(reads_bound(bad[i].method, three, bad[i].members), -ERR_GUEST_PROTOCOL);
    CHECK_INT(
        reads_bound(GUEST_WRITE_CHUNK, (struct guest_bound){.offset = 10}, "\"next_offset\":10"),
        0); /* the end of a stream */
    arena_done(&arena);
}

/* --- over a link --- */

static void ask(size_t slot, const struct guest_file_request *r) {
    guest_files_ask(peer.link, r, peer_wait(&peer, slot));
}

static void heard(const char *want) {
    char line[1024];
    size_t n_fds;
    peer_hears(&peer, line, sizeof line, NULL, &n_fds);
    CHECK_STR(line, want);
}

TEST(guest_files_writes_requests_as_the_spec_says) {
    peer_greet(&peer);
    ask(0, &(struct guest_file_request){.method = GUEST_STAT,
                                        .path = {.bytes = STR("/a")},
                                        .user = "u",
                                        .stat = {.follow = true}});
    heard("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"stat\",\"params\":{\"path\":\"/a\","
          "\"user\":\"u\",\"follow\":true}}\n");
    ask(1, &(struct guest_file_request){
               .method = GUEST_WRITE_CHUNK, .handle = 7, .write_chunk = {3, STR("abc")}});
    heard("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"write_chunk\",\"params\":{\"handle\":7,"
          "\"offset\":3,\"data_b64\":\"YWJj\"}}\n");
    ask(2, &(struct guest_file_request){.method = GUEST_RENAME,
                                        .path = {.bytes = STR("\xff"), .is_raw = true},
                                        .rename = {.new_path = {.bytes = STR("b")}}});
    heard("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"rename\",\"params\":{\"path_b64\":\"/w==\","
          "\"new_path\":\"b\",\"replace\":false,\"make_parents\":false}}\n");
    guest_files_close(peer.link, 5);
    heard("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"close\",\"params\":{\"handle\":5}}\n");
    guest_files_unwatch(peer.link, 6);
    heard("{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"unwatch\",\"params\":{\"watch_id\":6}}\n");
    peer_close(&peer);
}

/* The caller is notified first, then the others. */
TEST(guest_files_ends_the_link_after_an_invalid_answer) {
    static const char *const bad[] = {
        RESULT(2, ""), RESULT(2, "\"info\":7"),
        RESULT(2, INFO "," INFO), /* a duplicate member, which the JSON parser refuses */
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        peer_greet(&peer);
        ask(0, &(struct guest_file_request){.method = GUEST_STAT, .path = {.bytes = STR("/a")}});
        peer_ask(&peer, 1, "ping", NULL, 0);
        peer_says(&peer, bad[i]);
        CHECK_LOG(&peer, "r0=GUEST_PROTOCOL r1=GUEST_PROTOCOL lost:GUEST_PROTOCOL ");
        peer_close(&peer);
    }
    peer_greet(&peer);
    ask(0, &(struct guest_file_request){.method = GUEST_STAT, .path = {.bytes = STR("/a")}});
    peer_says(&peer, RESULT(2, INFO));
    CHECK_LOG(&peer, "r0=ok ");
    peer_close(&peer);
}

TEST(guest_files_takes_a_pipe_of_the_right_kind_only) {
    int fds[2];
    char path[] = "/tmp/berm-unit-XXXXXX";
    CHECK_INT(pipe(fds), 0);
    int file = mkstemp(path);
    unlink(path);
    struct {
        enum guest_file_method method;
        int fd;
        const char *log;
    } cases[] = {
        {GUEST_PACK, fds[0], "r0=ok "},
        {GUEST_UNPACK, fds[1], "r0=ok "},
        {GUEST_PACK, fds[1], "r0=GUEST_PROTOCOL lost:GUEST_PROTOCOL "},
        {GUEST_UNPACK, fds[0], "r0=GUEST_PROTOCOL lost:GUEST_PROTOCOL "},
        {GUEST_PACK, file, "r0=GUEST_PROTOCOL lost:GUEST_PROTOCOL "},
    };
    size_t n = open_fds();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *text = RESULT(2, "\"handle\":1,\"fds\":1");
        peer_greet(&peer);
        ask(0,
            &(struct guest_file_request){.method = cases[i].method, .path = {.bytes = STR("/a")}});
        peer_says_bytes(&peer, text, strlen(text), &cases[i].fd, 1);
        CHECK_LOG(&peer, cases[i].log);
        peer_close(&peer);
    }
    CHECK_INT(open_fds(), n);
    close(fds[0]);
    close(fds[1]);
    close(file);
}
