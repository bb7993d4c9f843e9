#include "core/guest/guest_exec.h"

#include <errno.h>
#include <stdio.h>

#include "core/guest/guest_sandbox.h"
#include "unit/guest_peer.h"

static struct peer peer;
static struct arena arena;
static struct guest_exec_state state;

static int reads(const char *line) {
    return guest_exec_status_read(str_of(line), &arena, &state);
}

TEST(guest_exec_reads_a_status_file) {
    CHECK_INT(arena_init(&arena, 1024, 65536), 0);
    CHECK_INT(reads("{\"exec_id\":\"ex-build\",\"state\":\"exited\",\"exit\":{\"code\":7},"
                    "\"stdout_bytes\":1,\"started_unix_ms\":5,\"exited_unix_ms\":6,"
                    "\"max_rss_bytes\":4096,\"stdin_next\":3,\"stdin_closed\":true}\n"),
              0);
    CHECK(str_is(state.exec_id, STR("ex-build")) && state.has_exited);
    CHECK(state.exit.kind == GUEST_EXIT_CODE && state.exit.number == 7);
    CHECK(state.started_unix_ms == 5 && state.exited_unix_ms == 6);
    CHECK(state.max_rss_bytes == 4096 && state.stdin_next == 3 && state.stdin_closed);
    CHECK_INT(reads(""), -EBADMSG);
    CHECK_INT(reads("\n"), -EBADMSG);
    CHECK_INT(reads("{\"exec_id\":\"a\"}"), -EBADMSG); /* half a line */
    CHECK_INT(reads("{\"exec_id\":\"a\",\"exec_id\":\"a\"}\n"), -EBADMSG);
    CHECK_INT(reads("{\"state\":\"exited\"}\n"), -EBADMSG);
    CHECK_INT(reads("[]\n"), -EBADMSG);
    static char large[GUEST_STATUS_MAX + 3];
    memset(large, ' ', sizeof large - 1);
    memcpy(large, "{\"exec_id\":\"a\"}", 15);
    large[sizeof large - 2] = '\n';
    CHECK_INT(reads(large), -EBADMSG);
    arena_done(&arena);
}

static void exits(const char *exit, enum guest_exit_kind kind, int number) {
    static char line[2048]; /* the state borrows from it */
    snprintf(line, sizeof line, "{\"exec_id\":\"a\",\"state\":\"exited\",\"exit\":%s}\n", exit);
    CHECK_INT(reads(line), 0);
    CHECK_INT(state.exit.kind, kind);
    CHECK_INT(state.exit.number, number);
}

TEST(guest_exec_reads_exits_and_believes_no_other) {
    CHECK_INT(arena_init(&arena, 1024, 65536), 0);
    exits("{\"code\":255}", GUEST_EXIT_CODE, 255);
    exits("{\"signal\":64}", GUEST_EXIT_SIGNAL, 64);
    exits("{\"timed_out\":{\"signal\":9}}", GUEST_EXIT_TIMED_OUT, 9);
    exits("{\"out_of_memory\":true}", GUEST_EXIT_OUT_OF_MEMORY, 0);
    exits("{\"output_limit\":true}", GUEST_EXIT_OUTPUT_LIMIT, 0);
    exits("{\"not_started\":{\"code\":83,\"message\":\"why\"}}", GUEST_EXIT_NOT_STARTED, 0);
    CHECK(str_is(state.exit.message, STR("why")));
    exits("{\"not_started\":{\"code\":4711,\"message\":7}}", GUEST_EXIT_NOT_STARTED, 0);
    CHECK_STR(state.exit.code, "GUEST_PROTOCOL");
    CHECK(state.exit.message.n == 0);
    char text[1024];
    snprintf(text, sizeof text, "{\"not_started\":{\"code\":83,\"message\":\"%0300d\"}}", 0);
    exits(text, GUEST_EXIT_NOT_STARTED, 0);
    CHECK(state.exit.message.n == 255);
    static const char *const bad[] = {
        "{}",
        "7",
        "{\"code\":256}",
        "{\"code\":-1}",
        "{\"code\":\"0\"}",
        "{\"code\":1.5}",
        "{\"signal\":0}",
        "{\"signal\":65}",
        "{\"timed_out\":9}",
        "{\"timed_out\":{\"signal\":0}}",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        exits(bad[i], GUEST_EXIT_UNKNOWN, 0);
    arena_done(&arena);
}

TEST(guest_exec_counts_invalid_numbers_as_not_sent) {
    CHECK_INT(arena_init(&arena, 1024, 65536), 0);
    CHECK_INT(reads("{\"exec_id\":\"a\",\"state\":7,\"stdin_closed\":1,\"started_unix_ms\":-5,"
                    "\"exited_unix_ms\":\"6\",\"max_rss_bytes\":9007199254740992,"
                    "\"stdin_next\":1.5}\n"),
              0);
    CHECK(!state.has_exited && !state.stdin_closed && state.stdin_next == 0);
    CHECK(state.started_unix_ms == 0 && state.exited_unix_ms == 0 && state.max_rss_bytes == 0);
    arena_done(&arena);
}

static void heard(const char *want) {
    char line[2048];
    size_t n_fds;
    peer_hears(&peer, line, sizeof line, NULL, &n_fds);
    CHECK_STR(line, want);
}

#define ASKED(id, method, params) \
    "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"" method "\",\"params\":{" params "}}\n"

TEST(guest_exec_writes_requests_as_the_spec_says) {
    Berm__V1__ExecSpec spec = BERM__V1__EXEC_SPEC__INIT;
    Berm__V1__KeyValue pair = BERM__V1__KEY_VALUE__INIT, *env[] = {&pair};
    char *argv[] = {"ls", "-l"};
    pair.key = "K";
    pair.value = "v";
    spec.n_argv = COUNT_OF(argv);
    spec.argv = argv;
    spec.n_env = 1;
    spec.env = env;
    peer_greet(&peer);
    guest_exec_start(
        peer.link,
        &(struct guest_exec_start){.exec_id = "a", .spec = &spec, .output_limit_bytes = 65536},
        peer_wait(&peer, 0));
    heard(ASKED(2, "exec",
                "\"exec_id\":\"a\",\"argv\":[\"ls\",\"-l\"],\"env\":[{\"key\":\"K\",\"value\":"
                "\"v\"}],\"stdin\":\"empty\",\"timeout_ms\":-1,\"grace_ms\":0,\"output\":{"
                "\"policy\":\"drop_oldest\",\"limit_bytes\":65536,\"merge_stderr\":false},"
                "\"keep_descendants\":false,\"fd_roles\":[]"));
    guest_exec_write(peer.link, "a", 4, STR("abc"), peer_wait(&peer, 1));
    heard(ASKED(3, "stdin", "\"exec_id\":\"a\",\"offset\":4,\"data_b64\":\"YWJj\""));
    guest_exec_close_stdin(peer.link, "a", 7, peer_wait(&peer, 2));
    heard(ASKED(4, "close_stdin", "\"exec_id\":\"a\",\"offset\":7"));
    guest_exec_signal(peer.link, "a", 15, true, 9, peer_wait(&peer, 3));
    heard(ASKED(5, "signal", "\"exec_id\":\"a\",\"signal\":15,\"leader_only\":true,\"number\":9"));
    guest_exec_resize(peer.link, "a", 80, 24, peer_wait(&peer, 4));
    heard(ASKED(6, "resize", "\"exec_id\":\"a\",\"cols\":80,\"rows\":24"));
    guest_exec_grant(peer.link, "a", 5);
    heard(ASKED(7, "grant", "\"exec_id\":\"a\",\"total_bytes\":5"));
    guest_exec_kill(peer.link, "a");
    heard(ASKED(8, "signal", "\"exec_id\":\"a\",\"signal\":9"));
    guest_exec_forget(peer.link, STR("a"));
    heard(ASKED(9, "done", "\"exec_id\":\"a\""));
    guest_sandbox_configure(
        peer.link,
        &(struct guest_settings){
            .sandbox_id = "demo", .incarnation = 2, .workspace = "", .user = "user", .lease_ms = 3},
        peer_wait(&peer, 5));
    heard(ASKED(10, "configure",
                "\"sandbox_id\":\"demo\",\"incarnation\":2,\"user\":\"user\",\"lease_ms\":3,"
                "\"env\":[]"));
    guest_sandbox_shutdown(peer.link, 4);
    heard(ASKED(11, "shutdown", "\"grace_ms\":4"));
    peer_close(&peer);
}

TEST(guest_exec_ends_the_link_after_an_invalid_answer) {
    static const char *const bad[] = {
        RESULT(2, "\"next_offset\":-1"),
        RESULT(2, "\"next_offset\":\"1\""),
        RESULT(2, "\"next_offset\":1,\"window_bytes\":65537"),
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        peer_greet(&peer);
        guest_exec_write(peer.link, "a", 0, STR("abc"), peer_wait(&peer, 0));
        peer_says(&peer, bad[i]);
        CHECK_LOG(&peer, "r0=GUEST_PROTOCOL lost:GUEST_PROTOCOL ");
        peer_close(&peer);
    }
    Berm__V1__ExecSpec spec = BERM__V1__EXEC_SPEC__INIT;
    peer_greet(&peer);
    guest_exec_start(peer.link, &(struct guest_exec_start){.exec_id = "a", .spec = &spec},
                     peer_wait(&peer, 0));
    peer_says(&peer, RESULT(2, "\"state\":\"running\""));
    CHECK_LOG(&peer, "r0=GUEST_PROTOCOL lost:GUEST_PROTOCOL ");
    peer_close(&peer);
}

TEST(guest_exec_status_that_is_written_reads_the_same) {
    static const struct guest_exit exits[] = {{.kind = GUEST_EXIT_CODE, .number = 7},
                                              {.kind = GUEST_EXIT_SIGNAL, .number = 9},
                                              {.kind = GUEST_EXIT_TIMED_OUT, .number = 15},
                                              {.kind = GUEST_EXIT_OUT_OF_MEMORY},
                                              {.kind = GUEST_EXIT_OUTPUT_LIMIT}};
    struct buf line;
    CHECK_INT(arena_init(&arena, 1024, 65536), 0);
    buf_init(&line, GUEST_STATUS_MAX);
    for (size_t i = 0; i < COUNT_OF(exits); i++) {
        struct guest_exec_state wrote = {.exec_id = STR("ex-1"),
                                         .exit = exits[i],
                                         .started_unix_ms = 5,
                                         .exited_unix_ms = 6,
                                         .max_rss_bytes = 7,
                                         .output_bytes = {8, 9}};
        buf_clear(&line);
        CHECK_INT(guest_exec_status_write(&wrote, &line), 0);
        CHECK_INT(buf_append(&line, "", 1), 0);
        CHECK_INT(reads((const char *)buf_data(&line)), 0);
        CHECK(state.has_exited && str_is(state.exec_id, STR("ex-1")));
        CHECK_INT(state.exit.kind, exits[i].kind);
        CHECK_INT(state.exit.number, exits[i].number);
        CHECK_INT(state.started_unix_ms, 5);
        CHECK_INT(state.exited_unix_ms, 6);
        CHECK_INT(state.max_rss_bytes, 7);
        CHECK(state.output_bytes[0] == 8 && state.output_bytes[1] == 9);
    }
    buf_done(&line);
    arena_done(&arena);
}
