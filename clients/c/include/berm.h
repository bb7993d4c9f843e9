/* berm.h — the C client of Berm: sandboxes, programs and files in them, events, over gRPC.
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
 * Threads:   a client belongs to one thread at a time; threads that call at once take a client each. Programs
 *            with an event loop make calls that do not wait (berm_async_call).
 * Callbacks: may make other calls on the same client, but not free it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* --- calls that do not wait --- */

/* For programs with an event loop of their own. Each open call has a thread of the library's, which takes none of
 * the program's signals; retries and resumes are those of the calls that wait. Everything is told from within
 * berm_async_dispatch, in the thread that calls it:
 *
 *     struct berm_async *a = berm_async_new(NULL);
 *     berm_async_call(a, berm_method_find("Ping"), &ping, NULL, on_done, NULL);
 *     struct pollfd p = {berm_async_fd(a), POLLIN, 0};
 *     while (berm_async_dispatch(a) > 0)
 *         poll(&p, 1, -1);
 *     berm_async_free(a); */
struct berm_async;

/* The options' strings stay the caller's until berm_async_free. NULL when memory or descriptors are short. */
struct berm_async *berm_async_new(const struct berm_options *options);
/* Ends what is open without a further word; programs go on. Not from within a callback. */
void berm_async_free(struct berm_async *a);
/* Readable when berm_async_dispatch has something to tell. */
int berm_async_fd(const struct berm_async *a);
/* Tells what is due, and answers how many calls are open. */
size_t berm_async_dispatch(struct berm_async *a);

/* A call that is open, until its berm_on_done returns. */
struct berm_pending;
/* The end of a call, told once: r is 0, what on_message answered, or -code, and then *e says why. The answer of a
 * call that has one is lent. Here new calls may be made. */
typedef void (*berm_on_done)(int r, void *answer, const struct berm_error *e, void *user);
/* Begins a call with one request, which is copied, and with one answer (on_message NULL) or many. AttachExec,
 * WatchEvents and WatchFiles go on after a break, as their own functions do. NULL and errno when no thread can be
 * had (EAGAIN), or when the method is not of that kind (EINVAL). */
struct berm_pending *berm_async_call(struct berm_async *a, const struct berm_method *m,
                                     const void *request, berm_on_message on_message,
                                     berm_on_done on_done, void *user);
/* It ends with BERM_CANCELLED, unless its answer has come already. From any thread, and from callbacks. */
void berm_pending_cancel(struct berm_pending *p);

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

/* --- a program and its terminal --- */

/* A conversation with one program, in one stream: its output here, input there. It goes on after a lost
 * connection or a restarted daemon, without a byte lost or doubled either way: output from the last byte
 * the caller has, input from the first byte the program was not given. Signals have a call of
 * their own, berm_exec_signal. */
struct berm_session;

/* `first` is a start or an attach; it stays the caller's, unchanged, until berm_session_free. NULL when
 * memory is short. */
struct berm_session *berm_session_new(struct berm_client *c,
                                      const Berm__V1__InteractRequest *first);
void berm_session_free(struct berm_session *s);
/* Takes a copy of at most n bytes and gives them to the program as it reads; how many fitted, 0 when 64 KiB
 * wait already: input_accepted says when there is room again. Also from within callbacks, that of
 * berm_client_set_wake above all. */
size_t berm_session_write(struct berm_session *s, const void *bytes, size_t n);
size_t berm_session_room(const struct berm_session *s);
/* The terminal's size, from now on and after each reconnect; for a program that has a terminal. */
void berm_session_resize(struct berm_session *s, uint32_t cols, uint32_t rows);
/* No further input; what waits is still given. */
void berm_session_end_input(struct berm_session *s);
/* Messages until the end, as berm_exec_attach has them: `attached` once, output and gaps in order and
 * without overlap, input_accepted, last `exited` or `end`. Anything but 0 from the callback leaves, and
 * the program goes on. */
typedef int (*berm_on_session)(const Berm__V1__InteractResponse *message, void *user);
int berm_session_run(struct berm_session *s, berm_on_session on_message, void *user,
                     struct berm_error *e);

/* --- files --- */

int berm_file_stat(struct berm_client *c, const Berm__V1__StatFileRequest *request,
                   Berm__V1__StatFileResponse **ret_response, struct berm_error *e);
/* One page; next_page_token asks for the next. */
int berm_file_list(struct berm_client *c, const Berm__V1__ListFilesRequest *request,
                   Berm__V1__ListFilesResponse **ret_response, struct berm_error *e);
int berm_dir_make(struct berm_client *c, const Berm__V1__MakeDirRequest *request,
                  Berm__V1__MakeDirResponse **ret_response, struct berm_error *e);
int berm_file_remove(struct berm_client *c, const Berm__V1__RemoveRequest *request,
                     Berm__V1__RemoveResponse **ret_response, struct berm_error *e);
int berm_file_rename(struct berm_client *c, const Berm__V1__RenameRequest *request,
                     Berm__V1__RenameResponse **ret_response, struct berm_error *e);
int berm_file_edit(struct berm_client *c, const Berm__V1__EditFileRequest *request,
                   Berm__V1__EditFileResponse **ret_response, struct berm_error *e);
int berm_grep(struct berm_client *c, const Berm__V1__GrepRequest *request,
              Berm__V1__GrepResponse **ret_response, struct berm_error *e);
int berm_glob(struct berm_client *c, const Berm__V1__GlobRequest *request,
              Berm__V1__GlobResponse **ret_response, struct berm_error *e);

/* Where bytes go: n of them, whose first stands at `offset` of the whole. Anything but 0 ends the call. */
typedef int (*berm_sink)(void *user, uint64_t offset, const void *bytes, size_t n);
/* Where bytes come from: at most n of them from `offset` on, which is where the last ones ended, or 0: the
 * upload begins anew, after a broken connection. Answers how many; 0 = that was all; -errno = it cannot
 * go on, or not begin anew (-ESPIPE). */
typedef ssize_t (*berm_source)(void *user, uint64_t offset, void *into, size_t n);

/* A sink and a source for a file descriptor; user points to this, with nothing but fd set. The source reads
 * from the file's beginning; what went through a pipe once cannot begin anew. */
struct berm_fd {
    int fd;
    uint64_t next; /* the byte that follows those read or written */
};
int berm_fd_sink(void *user, uint64_t offset, const void *bytes, size_t n);
ssize_t berm_fd_source(void *user, uint64_t offset, void *into, size_t n);

/* A file's bytes, as the request asks, each once and in order. Goes on where it was after a break;
 * FILE_CHANGED when the file is another one by then. Answers 0, what the sink answered, or -code. */
int berm_file_read(struct berm_client *c, const Berm__V1__ReadFileRequest *request, berm_sink sink,
                   void *user, Berm__V1__ReadFileEnd **ret_end, struct berm_error *e);
/* Writes a file in one atomic step. After a break it begins anew under the same request id. */
int berm_file_write(struct berm_client *c, const Berm__V1__WriteFileHeader *header,
                    berm_source source, void *user, Berm__V1__WriteFileResponse **ret_response,
                    struct berm_error *e);
/* Unpacks a tar stream; begins anew after a break, as berm_file_write. */
int berm_tree_upload(struct berm_client *c, const Berm__V1__UploadTreeHeader *header,
                     berm_source source, void *user, Berm__V1__UploadTreeResponse **ret_response,
                     struct berm_error *e);
/* A directory as a tar stream. After a break it begins anew: the sink is given offset 0 again, and may
 * refuse. */
int berm_tree_download(struct berm_client *c, const Berm__V1__DownloadTreeRequest *request,
                       berm_sink sink, void *user, Berm__V1__DownloadTreeEnd **ret_end,
                       struct berm_error *e);
/* Changes as they happen. The callback gets `watching` once, then changes and resyncs, also one after each
 * break, and last `end`. Otherwise as berm_exec_attach. */
typedef int (*berm_on_change)(const Berm__V1__WatchFilesResponse *message, void *user);
int berm_files_watch(struct berm_client *c, const Berm__V1__WatchFilesRequest *request,
                     berm_on_change on_change, void *user, struct berm_error *e);

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
