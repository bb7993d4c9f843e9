#include "api/exec/exec_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

static struct limits limits;
static struct arena arena;
static Berm__V1__Limits sandbox;
static Berm__V1__ExecSpec asked, full;
static Berm__V1__Terminal terminal;
static Berm__V1__TerminalSize size;
static char *argv[] = {"sh", "-c", "true"};
static struct exec_check in;
static struct err e;

static void setup(void) {
    limits_init(&limits);
    CHECK_INT(arena_init(&arena, 4096, 1 << 20), 0);
    berm__v1__limits__init(&sandbox);
    sandbox.exec_wall_ms = -1;
    sandbox.output_bytes = (int64_t)1 << 30;
    berm__v1__exec_spec__init(&asked);
    berm__v1__terminal__init(&terminal);
    berm__v1__terminal_size__init(&size);
    asked.argv = argv;
    asked.n_argv = COUNT_OF(argv);
    in = (struct exec_check){
        .limits = &limits, .sandbox = &sandbox, .arena = &arena, .path = "spec"};
}

static int run(void) {
    memset(&e, 0, sizeof e);
    return exec_check_spec(&in, &asked, &full, &e);
}

/* Checks that the spec is refused because of this field. */
static void refused(const char *field) {
    CHECK_INT(run(), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, field);
    CHECK(strncmp(e.text, field, strlen(field)) == 0); /* the text names the field too */
}

TEST(exec_check_fills_in_every_default) {
    setup();
    CHECK_INT(run(), 0);
    CHECK_INT(full.stdin_mode, BERM__V1__STDIN_MODE__STDIN_MODE_EMPTY);
    CHECK_INT(full.output_policy, BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_DROP_OLDEST);
    CHECK_INT(full.timeout_ms, -1);
    CHECK_INT(full.grace_ms, 5000);
    CHECK_INT(full.output_limit_bytes, 64 << 20);
    CHECK(full.terminal == NULL);
    CHECK_INT(asked.grace_ms, 0); /* the request itself does not change */

    asked.terminal = &terminal;
    asked.stdin_mode = BERM__V1__STDIN_MODE__STDIN_MODE_EMPTY;
    CHECK_INT(run(), 0);
    CHECK_INT(full.terminal->size->cols, 80);
    CHECK_INT(full.terminal->size->rows, 24);
    CHECK_STR(full.terminal->term, "xterm-256color");
    CHECK_INT(full.stdin_mode, BERM__V1__STDIN_MODE__STDIN_MODE_PIPE);
    arena_done(&arena);
}

TEST(exec_check_applies_the_limits_of_the_sandbox) {
    setup();
    sandbox.exec_wall_ms = 60000;
    sandbox.output_bytes = 1 << 20;
    CHECK_INT(run(), 0);
    CHECK_INT(full.timeout_ms, 60000);
    CHECK_INT(full.output_limit_bytes, 1 << 20);
    asked.timeout_ms = -1; /* no timeout is allowed if the sandbox has none */
    CHECK_INT(run(), 0);
    CHECK_INT(full.timeout_ms, 60000);
    asked.timeout_ms = 60001;
    refused("spec.timeout_ms");
    CHECK_STR(e.limit, "exec.wall");
    CHECK_INT(e.limit_value, 60000);
    asked.timeout_ms = 60000;
    asked.output_limit_bytes = (1 << 20) + 1;
    refused("spec.output_limit_bytes");
    CHECK_STR(e.limit, "output.sandbox");
    CHECK_INT(e.limit_value, 1 << 20);
    arena_done(&arena);
}

TEST(exec_check_error_names_a_number_out_of_range) {
    setup();
    asked.timeout_ms = -2;
    refused("spec.timeout_ms");
    asked.timeout_ms = 0;
    asked.grace_ms = -2;
    refused("spec.grace_ms");
    asked.grace_ms = 60001;
    refused("spec.grace_ms");
    CHECK_STR(e.limit, "grace.max");
    asked.grace_ms = -1;
    asked.output_limit_bytes = 65535;
    refused("spec.output_limit_bytes");
    asked.output_limit_bytes = 65536;
    CHECK_INT(run(), 0);
    CHECK_INT(full.grace_ms, -1);
    arena_done(&arena);
}

TEST(exec_check_refuses_unknown_enum_values) { /* covers: RPC-28 */
    setup();
    asked.stdin_mode = (Berm__V1__StdinMode)3;
    refused("spec.stdin_mode");
    asked.stdin_mode = (Berm__V1__StdinMode)-1;
    refused("spec.stdin_mode");
    asked.stdin_mode = BERM__V1__STDIN_MODE__STDIN_MODE_PIPE;
    asked.output_policy = (Berm__V1__OutputPolicy)4;
    refused("spec.output_policy");
    arena_done(&arena);
}

TEST(exec_check_refuses_a_terminal_out_of_its_range_and_in_runexec) {
    setup();
    asked.terminal = &terminal;
    terminal.size = &size;
    size.cols = 4096;
    refused("spec.terminal.size");
    size.rows = 4096;
    CHECK_INT(run(), 0);
    size.cols = 4097;
    refused("spec.terminal.size");
    size.cols = 1;
    terminal.term = "a b";
    refused("spec.terminal.term");
    terminal.term = "dumb";
    CHECK_INT(run(), 0);
    in.is_run = true;
    refused("spec.terminal");
    arena_done(&arena);
}

TEST(exec_check_passes_the_input_to_runexec) {
    setup();
    in.is_run = true;
    asked.stdin_mode = BERM__V1__STDIN_MODE__STDIN_MODE_PIPE;
    CHECK_INT(run(), 0);
    CHECK_INT(full.stdin_mode, BERM__V1__STDIN_MODE__STDIN_MODE_EMPTY);
    in.has_run_data = true;
    CHECK_INT(run(), 0);
    CHECK_INT(full.stdin_mode, BERM__V1__STDIN_MODE__STDIN_MODE_PIPE);
    arena_done(&arena);
}

TEST(exec_check_bounds_arguments_and_their_bytes) { /* covers: EXEC-3 */
    enum { MOST = 131072 };
    char *one[4097];
    char *big = calloc(1, MOST + 1);
    setup();
    asked.n_argv = 0;
    refused("spec.argv");
    one[0] = "";
    asked.argv = one;
    asked.n_argv = 1;
    refused("spec.argv");
    for (size_t i = 0; i < COUNT_OF(one); i++)
        one[i] = "x";
    asked.n_argv = 4097;
    refused("spec.argv");
    CHECK_STR(e.limit, "exec.argv_count");
    asked.n_argv = 4096;
    CHECK_INT(run(), 0);
    memset(big, 'x', MOST - 1);
    one[0] = big; /* with its NUL, exactly the maximum */
    asked.n_argv = 1;
    CHECK_INT(run(), 0);
    asked.cwd = "d";
    refused("spec.argv");
    CHECK_STR(e.limit, "exec.args");
    CHECK_INT(e.limit_value, MOST);
    free(big);
    arena_done(&arena);
}

TEST(exec_check_validates_names_paths_and_labels) { /* covers: EXEC-2, PATH-3 */
    Berm__V1__KeyValue a = BERM__V1__KEY_VALUE__INIT, b = BERM__V1__KEY_VALUE__INIT;
    Berm__V1__KeyValue *pair[] = {&a, &b}, *many[17];
    setup();
    asked.env = pair;
    asked.n_env = 2;
    a.key = "A";
    b.key = "2B";
    refused("spec.env[1].key");
    b.key = "A";
    refused("spec.env");
    b.key = "_B2";
    CHECK_INT(run(), 0);
    asked.n_env = 0;
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = &a;
    asked.labels = many;
    asked.n_labels = 17;
    refused("spec.labels");
    CHECK_INT(e.limit_value, 16);
    asked.n_labels = 0;
    asked.cwd = "a/../b";
    CHECK_INT(run(), 0);
    asked.cwd = "a/../../b";
    refused("spec.cwd");
    asked.cwd = "/..";
    refused("spec.cwd");
    asked.cwd = "";
    asked.user = "no body";
    refused("spec.user");
    arena_done(&arena);
}

TEST(exec_check_errors_name_fields_by_their_full_path) {
    setup();
    in.path = "start.spec";
    asked.user = "\x01";
    refused("start.spec.user");
    CHECK_INT(exec_check_spec(&in, NULL, &full, &e), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "start.spec");
    arena_done(&arena);
}

TEST(exec_check_validates_readers_signals_and_sizes) {
    char id[66] = {0};
    memset(id, 'r', 65);
    CHECK_INT(exec_check_reader(id, "reader_id", &e), -ERR_INVALID_ARGUMENT);
    id[64] = '\0';
    CHECK_INT(exec_check_reader(id, "reader_id", &e), 0);
    CHECK_INT(exec_check_reader("", "reader_id", &e), -ERR_INVALID_ARGUMENT);
    CHECK_INT(exec_check_reader("-r", "reader_id", &e), -ERR_INVALID_ARGUMENT);
    CHECK_INT(exec_check_reader("R", "reader_id", &e), -ERR_INVALID_ARGUMENT);
    CHECK_INT(exec_check_signal(0, "signal_number", &e), -ERR_INVALID_ARGUMENT);
    CHECK_INT(exec_check_signal(64, "signal_number", &e), 0);
    CHECK_INT(exec_check_signal(65, "signal_number", &e), -ERR_INVALID_ARGUMENT);
    CHECK_INT(exec_check_size(NULL, "size", &e), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "size");
}
