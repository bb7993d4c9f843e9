/* run — creates a sandbox, runs a program in it, prints its output, and deletes the sandbox.
 *
 *     cc run.c $(pkg-config --cflags --libs berm) -o run && ./run */
#include <berm.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what, const struct berm_error *e) {
    fprintf(stderr, "%s: %s: %s\n", what, e->name, e->message);
    return EXIT_FAILURE;
}

/* Runs one program and prints its output. */
static int run(struct berm_client *c, char *sandbox_id, struct berm_error *e) {
    char *argv[] = {"uname", "-r"};
    Berm__V1__ExecSpec spec = BERM__V1__EXEC_SPEC__INIT;
    Berm__V1__RunExecRequest request = BERM__V1__RUN_EXEC_REQUEST__INIT;
    Berm__V1__RunExecResponse *done;
    spec.argv = argv;
    spec.n_argv = 2;
    request.sandbox_id = sandbox_id;
    request.spec = &spec;
    int r = berm_exec_run(c, &request, &done, e);
    if (r < 0)
        return r;
    fwrite(done->stdout_data.data, 1, done->stdout_data.len, stdout);
    berm_free(done);
    return 0;
}

int main(void) {
    struct berm_error e;
    struct berm_client *c = berm_client_new(NULL);
    Berm__V1__GetInfoRequest ask = BERM__V1__GET_INFO_REQUEST__INIT;
    Berm__V1__GetInfoResponse *info;
    if (!c || berm_info(c, &ask, &info, &e) < 0)
        return c ? fail("info", &e) : EXIT_FAILURE;
    printf("bermd %s\n", info->version);
    berm_free(info);

    Berm__V1__CreateSandboxRequest create = BERM__V1__CREATE_SANDBOX_REQUEST__INIT;
    Berm__V1__CreateSandboxResponse *made;
    create.wait_ms = 60000; /* reply when the sandbox is ready */
    if (berm_sandbox_create(c, &create, &made, &e) < 0)
        return fail("create", &e);
    int status = EXIT_SUCCESS;
    if (run(c, made->sandbox->sandbox_id, &e) < 0)
        status = fail("run", &e);

    Berm__V1__DeleteSandboxRequest delete = BERM__V1__DELETE_SANDBOX_REQUEST__INIT;
    delete.sandbox_id = made->sandbox->sandbox_id;
    if (berm_sandbox_delete(c, &delete, NULL, &e) < 0)
        status = fail("delete", &e);
    berm_free(made);
    berm_client_free(c);
    return status;
}
