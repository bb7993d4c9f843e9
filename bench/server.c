/* bench-server — bermd plus one method: a stream of any size, which bermd itself does not need. */
#include <string.h>

#include "bench.pb-c.h"
#include "bermd/daemon.h"

#define MAX_SIZE ((size_t)1 << 20)

/* In the call's arena, so nothing must be freed when the client disconnects. */
struct job {
    Berm__Bench__V1__StreamResponse response;
    uint32_t left;
};

static void pump(struct call *c) {
    struct job *job = c->state;
    while (job->left > 0) {
        enum call_push sent = call_send(c, &job->response.base);
        if (sent == CALL_GONE)
            return;
        job->left--;
        if (sent == CALL_FULL && job->left > 0)
            return; /* on_writable continues */
    }
    call_finish(c, NULL);
}

static void on_stream(struct call *c, const ProtobufCMessage *m) {
    const Berm__Bench__V1__StreamRequest *request = (const Berm__Bench__V1__StreamRequest *)m;
    struct err e;
    struct job *job = NULL;
    if (request->size <= MAX_SIZE)
        job = arena_alloc(&c->arena, sizeof *job + request->size);
    if (!job) {
        err_set(&e, ERR_INVALID_ARGUMENT, "size is %u, at most %zu", request->size, MAX_SIZE);
        call_finish(c, &e);
        return;
    }
    berm__bench__v1__stream_response__init(&job->response);
    job->response.data.data = memset(job + 1, 'b', request->size);
    job->response.data.len = request->size;
    job->left = request->count;
    c->state = job;
    pump(c);
}

int main(int argc, char **argv) {
    static const struct handler stream = {.on_message = on_stream, .on_writable = pump};
    static const struct method rows[] = {
        {STR("/berm.bench.v1.BenchService/Stream"), &berm__bench__v1__stream_request__descriptor,
         &berm__bench__v1__stream_response__descriptor, METHOD_SERVER_STREAM, SCOPE_USER, &stream},
    };
    static const struct api_methods methods = {rows, COUNT_OF(rows)};
    return daemon_main(argc, argv, &(struct daemon_extra){.methods = &methods});
}
