#include <berm.h>

#include <stdlib.h>

#include "harness.h"

static void check_json(const void *message, const char *want) {
    char *text = berm_json(message);
    CHECK(text != NULL);
    if (text)
        CHECK_STR(text, want);
    free(text);
}

TEST(json_leaves_out_what_is_not_set) {
    Berm__V1__GetSandboxResponse m = BERM__V1__GET_SANDBOX_RESPONSE__INIT;
    check_json(&m, "{}");
    m.sequence = UINT64_MAX;
    check_json(&m, "{\"sequence\":\"18446744073709551615\"}");
}

TEST(json_names_enums_and_counts_unknown_ones) {
    Berm__V1__Sandbox m = BERM__V1__SANDBOX__INIT;
    m.state = BERM__V1__SANDBOX_STATE__SANDBOX_STATE_READY;
    check_json(&m, "{\"state\":\"SANDBOX_STATE_READY\"}");
    m.state = (Berm__V1__SandboxState)77;
    check_json(&m, "{\"state\":77}");
}

TEST(json_shows_the_arm_of_a_oneof_even_when_it_is_zero) {
    Berm__V1__ExitStatus m = BERM__V1__EXIT_STATUS__INIT;
    check_json(&m, "{}");
    m.how_case = BERM__V1__EXIT_STATUS__HOW_CODE;
    check_json(&m, "{\"code\":0}");
}

TEST(json_writes_lists_bytes_and_text) {
    Berm__V1__OutputChunk chunk = BERM__V1__OUTPUT_CHUNK__INIT;
    uint8_t bytes[] = {0xff, 0xfe};
    chunk.data.data = bytes;
    chunk.data.len = 2;
    chunk.replayed = true;
    check_json(&chunk, "{\"data\":\"//4=\",\"replayed\":true}");
    Berm__V1__ExecSpec spec = BERM__V1__EXEC_SPEC__INIT;
    char *argv[] = {"a\"b", "", "\n\x01"};
    spec.argv = argv;
    spec.n_argv = 3;
    spec.timeout_ms = -1;
    check_json(&spec, "{\"argv\":[\"a\\\"b\",\"\",\"\\n\\u0001\"],\"timeoutMs\":\"-1\"}");
    argv[1] = "\xff";
    CHECK(berm_json(&spec) == NULL); /* not UTF-8 */
}

TEST(json_survives_memory_running_out_anywhere) {
    Berm__V1__Sandbox m = BERM__V1__SANDBOX__INIT;
    char id[3000];
    memset(id, 'a', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    m.sandbox_id = id;
    for (unsigned n = 1;; n++) {
        alloc_fail_at(n);
        char *text = berm_json(&m);
        bool failed = alloc_failed();
        alloc_fail_at(0);
        CHECK((text == NULL) == failed);
        free(text);
        if (!failed)
            break;
    }
}

TEST(methods_are_found_by_each_of_their_names) {
    const struct berm_method *m = berm_method_find("CreateSandbox");
    CHECK(m && m == berm_method_find("berm.v1.SandboxService/CreateSandbox"));
    CHECK(m == berm_method_find("/berm.v1.SandboxService/CreateSandbox"));
    CHECK_STR(berm_method_path(m), "/berm.v1.SandboxService/CreateSandbox");
    CHECK(!berm_method_is_stream(m) && berm_method_is_stream(berm_method_find("AttachExec")));
    CHECK(!berm_method_find("Sandbox") && !berm_method_find(""));
    CHECK_STR(berm_method_request(m)->short_name, "CreateSandboxRequest");
    CHECK_STR(berm_method_response(m)->short_name, "CreateSandboxResponse");
}
