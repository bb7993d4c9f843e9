#include "core/guest/guest_notice.h"

#include <stdio.h>

#include "core/guest/guest_field.h"
#include "unit/guest_peer.h"

static struct arena arena;
static struct err e;
static struct guest_notice got;
static struct peer peer;

static void setup(void) {
    CHECK_INT(arena_init(&arena, 1024, 4 << 20), 0);
}

static int reads(const char *method, const char *members) {
    static const struct json_bounds bounds = {.depth = 8, .nodes = 131072, .members = 64};
    static char text[1 << 20];
    struct json *root;
    snprintf(text, sizeof text, "{%s}", members);
    CHECK_INT(json_parse(&arena, text, strlen(text), &bounds, &root), 0);
    return guest_notice_read(str_of(method), root, &arena, &got, &e);
}

TEST(guest_notice_reads_every_notification) {
    setup();
    CHECK_INT(reads("grew", "\"exec_id\":\"a\",\"stdout_bytes\":3,\"stderr_bytes\":4"), 1);
    CHECK(got.kind == GUEST_GREW && got.grew.output_bytes[0] + got.grew.output_bytes[1] == 7);
    CHECK_INT(reads("exited", "\"exec_id\":\"a\",\"state\":\"exited\",\"exit\":{\"code\":3}"), 1);
    CHECK(got.kind == GUEST_EXITED && got.exited.exit.kind == GUEST_EXIT_CODE);
    CHECK_INT(reads("stdin_room", "\"exec_id\":\"a\",\"next_offset\":9,\"window_bytes\":1"), 1);
    CHECK(got.kind == GUEST_STDIN_ROOM && got.stdin_room.next_offset == 9);
    CHECK_INT(reads("changed", "\"watch_id\":2,\"changes\":[{\"kind\":\"renamed\",\"path\":\"b\","
                               "\"old_path_b64\":\"/w==\"}],\"resync\":\"overflow\",\"ended\":"
                               "true"),
              1);
    CHECK(got.changed.watch_id == 2 && got.changed.n_changes == 1 && got.changed.has_ended);
    CHECK_INT(got.changed.resync, GUEST_RESYNC_OVERFLOW);
    CHECK_INT(got.changed.changes[0].kind, GUEST_CHANGE_RENAMED);
    CHECK(got.changed.changes[0].old_path.is_raw && !got.changed.changes[0].has_info);
    CHECK_INT(reads("dance", ""), 0);
    CHECK_INT(guest_notice_read(STR("grew"), NULL, &arena, &got, &e), -ERR_GUEST_PROTOCOL);
    arena_done(&arena);
}

TEST(guest_notice_reads_how_a_tree_ended) {
    setup();
    CHECK_INT(reads("tree_done", "\"handle\":1,\"files\":1,\"directories\":2,\"total_bytes\":3,"
                                 "\"skipped_special\":4,\"skipped_unreadable\":5"),
              1);
    CHECK(got.tree_done.failure.code == ERR_NONE && got.tree_done.files == 1 &&
          got.tree_done.skipped_unreadable == 5);
    CHECK_INT(reads("tree_done", "\"handle\":1,\"error\":{\"code\":94,\"message\":\"member x\"}"),
              1);
    CHECK_INT(got.tree_done.failure.code, ERR_TREE_INVALID);
    CHECK_STR(got.tree_done.failure.text, "member x");
    arena_done(&arena);
}

TEST(guest_notice_refuses_invalid_notifications) {
    static const char *const bad[][2] = {
        {"grew", ""},
        {"grew", "\"exec_id\":7"},
        {"grew", "\"exec_id\":\"../a\""},
        {"grew", "\"exec_id\":\"a\",\"stdout_bytes\":-1"},
        {"grew", "\"exec_id\":\"a\",\"stderr_bytes\":\"1\""},
        {"exited", "\"exit\":{\"code\":0}"},
        {"stdin_room", "\"exec_id\":\"a\",\"next_offset\":1.5"},
        {"changed", "\"changes\":[]"},
        {"changed", "\"watch_id\":0,\"changes\":[]"},
        {"changed", "\"watch_id\":1"},
        {"changed", "\"watch_id\":1,\"changes\":[{\"path\":\"a\"}]"},
        {"changed", "\"watch_id\":1,\"changes\":[{\"kind\":\"\",\"path\":\"a\"}]"},
        {"changed", "\"watch_id\":1,\"changes\":[{\"kind\":\"created\",\"path\":7}]"},
        {"changed",
         "\"watch_id\":1,\"changes\":[{\"kind\":\"created\",\"path\":\"a\",\"info\":{}}]"},
        {"changed", "\"watch_id\":1,\"changes\":[],\"resync\":\"why\""},
        {"changed", "\"watch_id\":1,\"changes\":[],\"ended\":1"},
        {"tree_done", "\"files\":1"},
        {"tree_done", "\"handle\":1,\"files\":-1"},
        {"tree_done", "\"handle\":1,\"error\":{\"code\":0,\"message\":\"x\"}"},
        {"tree_done", "\"handle\":1,\"error\":{\"code\":1000,\"message\":\"x\"}"},
        {"tree_done", "\"handle\":1,\"error\":{\"code\":94}"},
        {"tree_done", "\"handle\":1,\"error\":7"},
    };
    setup();
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(reads(bad[i][0], bad[i][1]), -ERR_GUEST_PROTOCOL);
    arena_done(&arena);
}

TEST(guest_notice_bounds_the_number_of_changes) {
    static char members[1 << 18];
    setup();
    size_t at = (size_t)snprintf(members, sizeof members, "\"watch_id\":1,\"changes\":[");
    for (int i = 0; i < 4096; i++)
        at += (size_t)snprintf(members + at, sizeof members - at, "{\"kind\":\"created\"},");
    snprintf(members + at - 1, sizeof members - at, "]");
    CHECK_INT(reads("changed", members), 1);
    CHECK(got.changed.n_changes == 4096);
    snprintf(members + at - 1, sizeof members - at, ",{\"kind\":\"created\"}]");
    CHECK_INT(reads("changed", members), -ERR_GUEST_PROTOCOL);
    arena_done(&arena);
}

TEST(guest_notice_that_is_invalid_ends_the_link) {
    peer_greet(&peer);
    peer_says(&peer, "{\"jsonrpc\":\"2.0\",\"method\":\"dance\",\"params\":{}}\n");
    peer_says(&peer, "{\"jsonrpc\":\"2.0\",\"method\":\"tree_done\",\"params\":{\"handle\":1}}\n");
    peer_says(&peer, "{\"jsonrpc\":\"2.0\",\"method\":\"tree_done\",\"params\":{}}\n");
    CHECK_LOG(&peer, "notice:tree_done lost:GUEST_PROTOCOL ");
    peer_close(&peer);
}
