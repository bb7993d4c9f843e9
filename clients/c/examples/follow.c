/* follow — runs three programs in an event loop, prints their output as it arrives and their exits,
 * and detaches from the last program.
 *
 *     cc follow.c $(pkg-config --cflags --libs berm) -o follow && ./follow */
#include <berm.h>
#include <err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define PROGRAMS 3

/* A program and the stream of its output. */
struct follower {
    int number;
    struct berm_pending *stream;
};

static int on_output(const void *message, void *user) {
    const struct follower *f = user;
    const Berm__V1__AttachExecResponse *m = message;
    if (m->event_case == BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_OUTPUT)
        printf("%d: %.*s", f->number, (int)m->output->data.len, (char *)m->output->data.data);
    if (m->event_case == BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_EXITED)
        printf("%d: ended with %d\n", f->number, m->exited->exit->code);
    return 0;
}

static void on_end(int r, void *answer, const struct berm_error *e, void *user) {
    struct follower *f = user;
    (void)answer;
    f->stream = NULL;
    if (r < 0)
        printf("%d: %s\n", f->number, e->name);
}

/* Starts a program with a blocking call and follows it with a non-blocking one. */
static void start(struct follower *f, struct berm_client *c, struct berm_async *a,
                  char *sandbox_id) {
    static char *const scripts[PROGRAMS] = {"echo one; sleep 0.2; exit 1", "echo two; exit 2",
                                            "exec sleep 1000"};
    struct berm_error e;
    char *argv[] = {"sh", "-c", scripts[f->number]};
    Berm__V1__ExecSpec spec = BERM__V1__EXEC_SPEC__INIT;
    Berm__V1__StartExecRequest request = BERM__V1__START_EXEC_REQUEST__INIT;
    Berm__V1__StartExecResponse *started;
    Berm__V1__AttachExecRequest attach = BERM__V1__ATTACH_EXEC_REQUEST__INIT;
    spec.argv = argv;
    spec.n_argv = 3;
    request.sandbox_id = sandbox_id;
    request.spec = &spec;
    if (berm_exec_start(c, &request, &started, &e) < 0)
        errx(1, "start: %s: %s", e.name, e.message);
    attach.exec_id = started->exec->exec_id;
    f->stream = berm_async_call(a, berm_method_find("AttachExec"), &attach, on_output, on_end, f);
    if (!f->stream)
        err(1, "attach");
    berm_free(started);
}

int main(void) {
    struct berm_error e;
    struct berm_client *c = berm_client_new(NULL);
    struct berm_async *a = berm_async_new(NULL);
    struct follower followers[PROGRAMS] = {{0}};
    Berm__V1__CreateSandboxRequest create = BERM__V1__CREATE_SANDBOX_REQUEST__INIT;
    Berm__V1__CreateSandboxResponse *made;
    Berm__V1__DeleteSandboxRequest delete = BERM__V1__DELETE_SANDBOX_REQUEST__INIT;
    create.wait_ms = 60000;
    if (!c || !a || berm_sandbox_create(c, &create, &made, &e) < 0)
        errx(1, "create: %s", c && a ? e.message : "out of memory");
    for (int i = 0; i < PROGRAMS; i++) {
        followers[i].number = i;
        start(&followers[i], c, a, made->sandbox->sandbox_id);
    }

    struct pollfd p = {.fd = berm_async_fd(a), .events = POLLIN};
    for (size_t n; (n = berm_async_dispatch(a)) > 0; poll(&p, 1, -1))
        /* the last program never exits: detach from it without killing it */
        if (n == 1 && followers[2].stream)
            berm_pending_cancel(followers[2].stream);

    delete.sandbox_id = made->sandbox->sandbox_id;
    if (berm_sandbox_delete(c, &delete, NULL, &e) < 0)
        errx(1, "delete: %s: %s", e.name, e.message);
    berm_free(made);
    berm_async_free(a);
    berm_client_free(c);
    return 0;
}
