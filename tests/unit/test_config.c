#include "bermd/config.h"

#include <stdlib.h>
#include <unistd.h>

#include "harness.h"

static struct config config;

static int set(const char *name, const char *value, struct err *e) {
    config_init(&config);
    return config_set(&config, str_of(name), str_of(value), e);
}

TEST(config_accepts_valid_values) {
    struct err e;
    CHECK_INT(set("state", "/x", &e), 0);
    CHECK_STR(config.state, "/x");
    CHECK_INT(set("socket_mode", "0660", &e), 0);
    CHECK_INT(config.socket_mode, 0660);
    CHECK_INT(set("log_level", "warn", &e), 0);
    CHECK_INT(config.log_level, 2);
    CHECK_INT(set("access_log", "false", &e), 0);
    CHECK(!config.access_log);
    CHECK_INT(set("allow_uids", "1, 22,333", &e), 0);
    CHECK_INT(config.allow_uids.n, 3);
    CHECK_INT(config.allow_uids.uids[2], 333);
    CHECK_INT(set("limits.message.inbound", "2048", &e), 0);
    CHECK_INT(config.limits.of[LIMIT_MESSAGE_INBOUND], 2048);
    CHECK_INT(set("listen", "", &e), 0);
    CHECK_INT(set("token_uid", "7", &e), 0);
    CHECK_INT(set("mount_roots", "/srv, /home/a b", &e), 0);
    CHECK_INT(set("limits.sandbox.disk", "8388608", &e), 0);
    CHECK_INT(config.limits.of[LIMIT_SANDBOX_DISK], 8388608);
    CHECK_INT(config_set(&config, STR("limits.sandbox.disk"), STR("-1"), &e), 0);
    CHECK_INT(config.limits.of[LIMIT_SANDBOX_DISK], -1);
}

TEST(config_error_names_an_invalid_value) {
    static const char *const bad[][2] = {{"state", "relative"},
                                         {"state", ""},
                                         {"socket_mode", "0888"},
                                         {"socket_mode", "17777"},
                                         {"log_level", "loud"},
                                         {"access_log", "yes"},
                                         {"allow_uids", "1,x"},
                                         {"allow_uids", "-1"},
                                         {"mount_roots", "relative"},
                                         {"mount_roots", "/a,"},
                                         {"mount_roots", "/a,,/b"},
                                         {"token_uid", "1,2"},
                                         {"token_uid", "root"},
                                         {"limits.message.inbound", "1"},
                                         {"limits.message.inbound", "99999999999"},
                                         {"limits.message.inbound", "4k"},
                                         {"limits.message.depth", "17"},
                                         {"limits.events.keep", "0"},
                                         {"limits.events.keep", "-1"},
                                         {"limits.sandbox.disk", "-2"},
                                         {"limits.sandbox.disk", "1"},
                                         {"limits.sandbox.ttl", "1000"},
                                         {"limits.nope", "1"},
                                         {"nope", "1"},
                                         {"", "1"}};
    struct err e;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK_INT(set(bad[i][0], bad[i][1], &e), -ERR_INVALID_ARGUMENT);
        CHECK(strstr(e.text, bad[i][0]) != NULL);
    }
    char path[300];
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    CHECK_INT(set("state", path, &e), -ERR_INVALID_ARGUMENT);
    CHECK_INT(set("socket", path, &e), -ERR_INVALID_ARGUMENT);
}

static int read_text(const char *text, struct err *e) {
    char path[] = "/tmp/berm-config-XXXXXX";
    int fd = mkstemp(path);
    CHECK_INT(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    config_init(&config);
    int r = config_read(&config, path, e);
    unlink(path);
    return r;
}

TEST(config_file_allows_comments_and_its_errors_name_the_line) {
    struct err e;
    CHECK_INT(read_text("# a comment\n\n state = /y # behind it\nlog_level=debug", &e), 0);
    CHECK_STR(config.state, "/y");
    CHECK_INT(config.log_level, 0);
    CHECK_INT(read_text("state = /y\n\nnope = 1\n", &e), -ERR_INVALID_ARGUMENT);
    CHECK(strstr(e.text, ":3: nope: no such knob") != NULL);
    CHECK_INT(read_text("just words\n", &e), -ERR_INVALID_ARGUMENT);
    CHECK(strstr(e.text, ":1: must be NAME = VALUE, got \"just words\"") != NULL);
    CHECK_INT(config_read(&config, "/nonexistent/file", &e), -ERR_INVALID_ARGUMENT);
}

TEST(config_defaults_are_within_their_ranges) {
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        CHECK(limit_table[i].value == -1 || (limit_table[i].value >= limit_table[i].min &&
                                             limit_table[i].value <= limit_table[i].max));
        CHECK(limit_table[i].how == LIMIT_HOW_KNOB || limit_table[i].min == limit_table[i].max);
    }
}
