#include "bermd/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static char dir[64];

static const char *fresh(void) {
    snprintf(dir, sizeof dir, "/tmp/berm-state-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    return dir;
}

static void remove_all(void) {
    char path[128];
    static const char *const names[] = {"lock", "instance", "token", "boot"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    CHECK_INT(rmdir(dir), 0);
}

TEST(state_keeps_its_instance_id_and_changes_its_run_id) {
    struct state a, b;
    struct err e;
    CHECK_INT(state_open(&a, fresh(), &e), 0);
    CHECK_INT(strlen(a.instance_id), STATE_ID_CHARS);
    state_close(&a);
    CHECK_INT(state_open(&b, dir, &e), 0);
    CHECK_STR(b.instance_id, a.instance_id);
    CHECK(strcmp(b.run_id, a.run_id) != 0);
    state_close(&b);
    remove_all();
}

TEST(state_refuses_a_second_daemon_and_names_the_first) {
    struct state a, b;
    struct err e;
    char want[32];
    CHECK_INT(state_open(&a, fresh(), &e), 0);
    CHECK_INT(state_open(&b, dir, &e), -ERR_LIMIT_REACHED);
    snprintf(want, sizeof want, "bermd pid %ld uses it", (long)getpid());
    CHECK(strstr(e.text, want) != NULL);
    state_close(&a);
    CHECK_INT(state_open(&b, dir, &e), 0);
    state_close(&b);
    remove_all();
}

TEST(state_token_is_created_once_and_must_stay_private) { /* covers: AUTH-5 */
    struct state s;
    struct err e;
    struct stat st;
    char one[API_TOKEN_CHARS + 1], two[API_TOKEN_CHARS + 1], path[128];
    CHECK_INT(state_open(&s, fresh(), &e), 0);
    CHECK_INT(state_token(&s, one, &e), 0);
    CHECK_INT(strlen(one), API_TOKEN_CHARS);
    CHECK_INT(state_token(&s, two, &e), 0);
    CHECK_STR(one, two);
    snprintf(path, sizeof path, "%s/token", dir);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    chmod(path, 0644);
    CHECK_INT(state_token(&s, two, &e), -ERR_PERMISSION_DENIED);
    chmod(path, 0600);
    CHECK_INT(truncate(path, 5), 0);
    CHECK_INT(state_token(&s, two, &e), -ERR_STORE_CORRUPT);
    state_close(&s);
    remove_all();
}

TEST(state_reports_a_damaged_file) {
    struct state s;
    struct err e;
    char path[128];
    CHECK_INT(state_open(&s, fresh(), &e), 0);
    state_close(&s);
    snprintf(path, sizeof path, "%s/instance", dir);
    CHECK_INT(truncate(path, 3), 0);
    CHECK_INT(state_open(&s, dir, &e), -ERR_STORE_CORRUPT);
    remove_all();
    CHECK_INT(state_open(&s, "/proc/nope/x", &e), -ERR_INTERNAL);
}
