/* berm.h — the C client of Berm: sandboxes, programs in them, events, over gRPC.
 *
 *     struct berm_error e;
 *     struct berm_client *c = berm_client_new(NULL);
 *     Berm__V1__CreateSandboxRequest create = BERM__V1__CREATE_SANDBOX_REQUEST__INIT;
 *     Berm__V1__CreateSandboxResponse *made;
 *     create.wait_ms = 60000;
 *     if (berm_sandbox_create(c, &create, &made, &e) < 0)
 *         errx(1, "%s: %s", e.name, e.message);
 *     puts(made->sandbox->sandbox_id);
 *     berm_free(made);
 *     berm_client_free(c);
 *
 * Messages are those of proto/berm/v1/berm.proto as protobuf-c generates them; the comments there say
 * what each field means, spec/behavior.md what each method does.
 *
 * Answers:   0, or -code with *e filled; e may be NULL. An answer (ret_…) is written on success only and
 *            is the caller's, to be given to berm_free; a caller that wants none passes NULL.
 * Retries:   a call is tried up to five times, with backoff, where the error says that nothing happened
 *            or where a repeat is safe; every changing call gets a request id if it has none, so nothing
 *            ever happens twice. A daemon that goes away is waited for (reconnect_ms).
 * Streams:   deliver each byte and each event once and in order, whatever happens to the connection or
 *            the daemon in between; the caller does not notice.
 * Threads:   a client belongs to one thread at a time; threads that call at once take a client each.
 * Callbacks: may make other calls on the same client, but not free it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berm/v1/berm.pb-c.h>

#include "berm_errors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- errors --- */

enum berm_retry {
    BERM_RETRY_NEVER, /* ask differently */
    BERM_RETRY_LATER, /* nothing happened; ask again after a pause */
    BERM_RETRY_CHECK, /* it may have happened; look, or repeat with the same request id */
};

#define BERM_ERROR_METADATA 8

/* Why a call failed. Programs read code and metadata; message is for people. */
struct berm_error {
    enum berm_code code;
    const char *name; /* of the code, such as "SANDBOX_NOT_FOUND"; static */
    int grpc_status;  /* the canonical number, 0 when no daemon answered */
    enum berm_retry retry;
    char message[512];
    char field[128]; /* path of the field at fault, such as "spec.labels[3].value"; or empty */
    size_t n_metadata;
    struct {
        char key[32]; /* such as "sandbox_id", "limit", "oldest_sequence" */
        char value[128];
    } metadata[BERM_ERROR_METADATA];
};

/* The value of a key of the metadata, or NULL. */
const char *berm_error_get(const struct berm_error *e, const char *key);
/* "SANDBOX_NOT_FOUND" and the like; "UNKNOWN" for a number that is no code. */
const char *berm_code_name(enum berm_code code);

/* --- the client --- */

struct berm_client;

struct berm_options {
    /* Unix socket; NULL = $BERM_SOCKET, else where bermd listens by default. */
    const char *socket;
    /* HOST:PORT in place of a socket; NULL = $BERM_ADDRESS, unless socket is given. */
    const char *address;
    /* What to show at an address; NULL = what token_file holds. */
    const char *token;
    /* NULL = $BERM_TOKEN_FILE. */
    const char *token_file;
    /* Deadline of one call, with its attempts and pauses; 0 = none. Streams have none. */
    int64_t timeout_ms;
    /* How long to try for the first connection; 0 = one try. */
    int64_t connect_ms;
    /* How long to wait for a daemon that went away; 0 = 30000, -1 = not at all. */
    int64_t reconnect_ms;
    /* Silence after which a stream counts as broken; 0 = 30000, three heartbeats. */
    int64_t silence_ms;
    /* W3C trace context to send with every call; NULL = $TRACEPARENT, when that is one. */
    const char *traceparent;
};

/* Copies the options; NULL = all defaults. Connects at the first call. NULL when memory is short. */
struct berm_client *berm_client_new(const struct berm_options *options);
void berm_client_free(struct berm_client *c);
/* Where the client connects, for messages to people: a path or HOST:PORT. */
const char *berm_client_target(const struct berm_client *c);
void berm_client_set_timeout(struct berm_client *c, int64_t timeout_ms);

/* While any call waits, fd is watched as well, and on_wake is called when it is readable; it must take
 * away what makes it so. Anything but 0 ends the call with BERM_CANCELLED: so one thread, or a signal
 * through a signalfd, ends what another waits for. fd -1 = no longer. */
typedef int (*berm_on_wake)(void *user);
void berm_client_set_wake(struct berm_client *c, int fd, berm_on_wake on_wake, void *user);

/* --- messages --- */

/* Frees what a call answered; NULL is allowed. */
void berm_free(void *message);
/* proto3-JSON of any message: lowerCamelCase names, 64-bit numbers as strings, bytes as base64, enums
 * by name. To be given to free(); NULL when memory is short or a string is not UTF-8. */
char *berm_json(const void *message);

/* --- any method --- */

struct berm_method;

/* By name, "CreateSandbox" or "berm.v1.SandboxService/CreateSandbox"; NULL when there is none. */
const struct berm_method *berm_method_find(const char *name);
/* "/berm.v1.SandboxService/CreateSandbox" */
const char *berm_method_path(const struct berm_method *m);
bool berm_method_is_stream(const struct berm_method *m);
const ProtobufCMessageDescriptor *berm_method_request(const struct berm_method *m);
const ProtobufCMessageDescriptor *berm_method_response(const struct berm_method *m);

/* One answer, with retries as for every call. request is of the method's type, ret_response a pointer
 * to a pointer to its answer. */
int berm_unary(struct berm_client *c, const struct berm_method *m, const void *request,
               void *ret_response, struct berm_error *e);
/* Messages as they come, borrowed for the callback; anything but 0 from it ends the stream. Not
 * resumed: the functions below know how, for the streams they are for. Answers 0, what the callback
 * answered, or -code. */
typedef int (*berm_on_message)(const void *message, void *user);
int berm_stream(struct berm_client *c, const struct berm_method *m, const void *request,
                berm_on_message on_message, void *user, struct berm_error *e);

/* --- sandboxes --- */

int berm_sandbox_create(struct berm_client *c, const Berm__V1__CreateSandboxRequest *request,
                        Berm__V1__CreateSandboxResponse **ret_response, struct berm_error *e);
int berm_sandbox_get(struct berm_client *c, const Berm__V1__GetSandboxRequest *request,
                     Berm__V1__GetSandboxResponse **ret_response, struct berm_error *e);
/* One page; next_page_token asks for the next. */
int berm_sandbox_list(struct berm_client *c, const Berm__V1__ListSandboxesRequest *request,
                      Berm__V1__ListSandboxesResponse **ret_response, struct berm_error *e);
int berm_sandbox_update(struct berm_client *c, const Berm__V1__UpdateSandboxRequest *request,
                        Berm__V1__UpdateSandboxResponse **ret_response, struct berm_error *e);
int berm_sandbox_stop(struct berm_client *c, const Berm__V1__StopSandboxRequest *request,
                      Berm__V1__StopSandboxResponse **ret_response, struct berm_error *e);
int berm_sandbox_start(struct berm_client *c, const Berm__V1__StartSandboxRequest *request,
                       Berm__V1__StartSandboxResponse **ret_response, struct berm_error *e);
int berm_sandbox_pause(struct berm_client *c, const Berm__V1__PauseSandboxRequest *request,
                       Berm__V1__PauseSandboxResponse **ret_response, struct berm_error *e);
int berm_sandbox_resume(struct berm_client *c, const Berm__V1__ResumeSandboxRequest *request,
                        Berm__V1__ResumeSandboxResponse **ret_response, struct berm_error *e);
int berm_sandbox_delete(struct berm_client *c, const Berm__V1__DeleteSandboxRequest *request,
                        Berm__V1__DeleteSandboxResponse **ret_response, struct berm_error *e);
/* Every sandbox with the labels; at most 1000 in one call, `more` says so. */
int berm_sandbox_delete_all(struct berm_client *c, const Berm__V1__DeleteSandboxesRequest *request,
                            Berm__V1__DeleteSandboxesResponse **ret_response, struct berm_error *e);
int berm_sandbox_snapshot(struct berm_client *c, const Berm__V1__SnapshotSandboxRequest *request,
                          Berm__V1__SnapshotSandboxResponse **ret_response, struct berm_error *e);
int berm_sandbox_fork(struct berm_client *c, const Berm__V1__ForkSandboxRequest *request,
                      Berm__V1__ForkSandboxResponse **ret_response, struct berm_error *e);
int berm_snapshot_list(struct berm_client *c, const Berm__V1__ListSnapshotsRequest *request,
                       Berm__V1__ListSnapshotsResponse **ret_response, struct berm_error *e);
int berm_snapshot_delete(struct berm_client *c, const Berm__V1__DeleteSnapshotRequest *request,
                         Berm__V1__DeleteSnapshotResponse **ret_response, struct berm_error *e);

/* Waits, by events after `sequence` and without polling, until the sandbox enters one of the states
 * (the sum of 1 << state), and answers with the sandbox as it stands then. `sequence` is that of an
 * answer which showed another state. */
int berm_sandbox_wait(struct berm_client *c, const char *sandbox_id, uint64_t sequence,
                      uint32_t states, Berm__V1__GetSandboxResponse **ret_response,
                      struct berm_error *e);

/* --- programs --- */

int berm_exec_start(struct berm_client *c, const Berm__V1__StartExecRequest *request,
                    Berm__V1__StartExecResponse **ret_response, struct berm_error *e);
/* Waits for the program's end; timeout_ms ends the wait and never the program. */
int berm_exec_run(struct berm_client *c, const Berm__V1__RunExecRequest *request,
                  Berm__V1__RunExecResponse **ret_response, struct berm_error *e);
int berm_exec_ack(struct berm_client *c, const Berm__V1__AckOutputRequest *request,
                  Berm__V1__AckOutputResponse **ret_response, struct berm_error *e);
int berm_exec_write_stdin(struct berm_client *c, const Berm__V1__WriteStdinRequest *request,
                          Berm__V1__WriteStdinResponse **ret_response, struct berm_error *e);
int berm_exec_close_stdin(struct berm_client *c, const Berm__V1__CloseStdinRequest *request,
                          Berm__V1__CloseStdinResponse **ret_response, struct berm_error *e);
int berm_exec_signal(struct berm_client *c, const Berm__V1__SignalExecRequest *request,
                     Berm__V1__SignalExecResponse **ret_response, struct berm_error *e);
int berm_exec_resize(struct berm_client *c, const Berm__V1__ResizeExecRequest *request,
                     Berm__V1__ResizeExecResponse **ret_response, struct berm_error *e);
int berm_exec_get(struct berm_client *c, const Berm__V1__GetExecRequest *request,
                  Berm__V1__GetExecResponse **ret_response, struct berm_error *e);
int berm_exec_list(struct berm_client *c, const Berm__V1__ListExecsRequest *request,
                   Berm__V1__ListExecsResponse **ret_response, struct berm_error *e);

/* Output from the request's offsets on. The callback gets `attached` once, then chunks and gaps, each
 * stream's in order and without overlap, and last `exited` or `end`; heartbeats and ends that only ask
 * to come back are not shown. Anything but 0 from it ends the stream, never the program. Answers 0 at
 * the end, what the callback answered, or -code. */
typedef int (*berm_on_output)(const Berm__V1__AttachExecResponse *message, void *user);
int berm_exec_attach(struct berm_client *c, const Berm__V1__AttachExecRequest *request,
                     berm_on_output on_output, void *user, struct berm_error *e);

/* Gives all n bytes to the program's input, the first at *offset, and moves *offset on; waits as long as
 * the program does not read. */
int berm_exec_feed(struct berm_client *c, const char *exec_id, uint64_t *offset, const void *bytes,
                   size_t n, struct berm_error *e);

/* --- events --- */

/* Events as the request asks. The callback gets events in the order of their sequence, each once,
 * `caught_up` once, the snapshot's sandboxes and programs where one was asked for (from its beginning
 * when it broke off) and last `end`. Otherwise as berm_exec_attach. */
typedef int (*berm_on_event)(const Berm__V1__WatchEventsResponse *message, void *user);
int berm_events_watch(struct berm_client *c, const Berm__V1__WatchEventsRequest *request,
                      berm_on_event on_event, void *user, struct berm_error *e);

/* --- the daemon --- */

int berm_info(struct berm_client *c, const Berm__V1__GetInfoRequest *request,
              Berm__V1__GetInfoResponse **ret_response, struct berm_error *e);
int berm_ping(struct berm_client *c, const Berm__V1__PingRequest *request,
              Berm__V1__PingResponse **ret_response, struct berm_error *e);

#ifdef __cplusplus
}
#endif
