/* berm.h — the C client of Berm: sandboxes, execs, files and events, over gRPC.
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
 * Messages are those of proto/berm/v1/berm.proto, as protobuf-c generates them. The comments there
 * define each field; spec/behavior.md defines each method.
 *
 * Results:   a call returns 0, or -code and fills *e; e may be NULL. It writes a response (ret_…)
 *            only on success. The caller owns the response and frees it with berm_free. Pass NULL
 *            if you do not need the response.
 * Retries:   the client tries a call up to five times, with backoff, if the error says that nothing
 *            happened or if a repeat is safe. It adds a request id to every changing call that has
 *            none, so nothing happens twice. When the daemon disappears, the client waits
 *            up to reconnect_ms for it to return.
 * Streams:   deliver each byte and each event once and in order, even if the connection breaks or
 *            the daemon restarts meanwhile.
 * Threads:   use a client in one thread at a time; concurrent threads need one client each.
 *            Programs with an event loop use calls that do not block (berm_async_call).
 * Callbacks: may make other calls on the same client, but must not free it. */
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
    BERM_RETRY_NEVER, /* the same request would fail again; change it */
    BERM_RETRY_LATER, /* nothing happened; retry after a pause */
    /* the call may have taken effect; check the state, or retry with the same request id */
    BERM_RETRY_CHECK,
};

#define BERM_ERROR_METADATA 8

/* Why a call failed. Programs read code and metadata; message is for people and may change. */
struct berm_error {
    enum berm_code code;
    const char *name; /* name of the code, such as "SANDBOX_NOT_FOUND"; static */
    int grpc_status;  /* canonical gRPC status; 0 if no daemon replied */
    enum berm_retry retry;
    char message[512];
    char field[128]; /* path of the invalid field, such as "spec.labels[3].value"; or empty */
    size_t n_metadata;
    struct {
        char key[32]; /* such as "sandbox_id", "limit", "oldest_sequence" */
        char value[128];
    } metadata[BERM_ERROR_METADATA];
};

/* Returns the metadata value of a key, or NULL. */
const char *berm_error_get(const struct berm_error *e, const char *key);
/* Returns a name such as "SANDBOX_NOT_FOUND", or "UNKNOWN" for a number that is not a code. */
const char *berm_code_name(enum berm_code code);

/* --- the client --- */

struct berm_client;

struct berm_options {
    /* Unix socket. NULL: $BERM_SOCKET, or bermd's default socket. */
    const char *socket;
    /* HOST:PORT instead of a socket. NULL: $BERM_ADDRESS, unless socket is given. */
    const char *address;
    /* Bearer token, sent only to an address. NULL: the contents of token_file. */
    const char *token;
    /* File that contains the token. NULL: $BERM_TOKEN_FILE. */
    const char *token_file;
    /* Deadline of one call, including retries and pauses; 0: none. Streams have no deadline. */
    int64_t timeout_ms;
    /* How long to retry the first connection; 0: one attempt. */
    int64_t connect_ms;
    /* How long to wait for a daemon that disappeared; 0: 30000; -1: do not wait. */
    int64_t reconnect_ms;
    /* A stream without a message for this long counts as broken; 0: 30000, three heartbeats. */
    int64_t silence_ms;
    /* W3C trace context to send with every call. NULL: $TRACEPARENT, if it is valid. */
    const char *traceparent;
};

/* Copies the options; NULL: all defaults. Connects at the first call. Returns NULL when out of
 * memory. */
struct berm_client *berm_client_new(const struct berm_options *options);
void berm_client_free(struct berm_client *c);
/* Returns the daemon's address as text for people: a socket path or HOST:PORT. */
const char *berm_client_target(const struct berm_client *c);
void berm_client_set_timeout(struct berm_client *c, int64_t timeout_ms);

/* Makes every blocking call also poll fd, and calls on_wake when fd is readable. on_wake must
 * drain fd. A nonzero result of on_wake ends the call with BERM_CANCELLED. Use this to end a
 * blocking call from another thread, or from a signal through a signalfd. Pass fd -1 to stop
 * polling. */
typedef int (*berm_on_wake)(void *user);
void berm_client_set_wake(struct berm_client *c, int fd, berm_on_wake on_wake, void *user);

/* --- messages --- */

/* Frees a response. NULL is allowed. */
void berm_free(void *message);
/* Returns the proto3 JSON of any message: lowerCamelCase names, 64-bit numbers as strings, bytes as
 * base64, enums by name. Release it with free(). Returns NULL when out of memory or when a string
 * is not UTF-8. */
char *berm_json(const void *message);

/* --- any method --- */

struct berm_method;

/* Finds a method by name: "CreateSandbox" or "berm.v1.SandboxService/CreateSandbox". Returns NULL
 * if no method has this name. */
const struct berm_method *berm_method_find(const char *name);
/* Returns a path such as "/berm.v1.SandboxService/CreateSandbox". */
const char *berm_method_path(const struct berm_method *m);
bool berm_method_is_stream(const struct berm_method *m);
const ProtobufCMessageDescriptor *berm_method_request(const struct berm_method *m);
const ProtobufCMessageDescriptor *berm_method_response(const struct berm_method *m);

/* Calls a method with one response, with the usual retries. request has the method's request type;
 * ret_response is the address of a pointer to its response type. */
int berm_unary(struct berm_client *c, const struct berm_method *m, const void *request,
               void *ret_response, struct berm_error *e);
/* Calls a method that responds with a stream of messages. Each message is valid only during its
 * callback. A nonzero result of the callback ends the stream. This function does not resume a
 * broken stream; berm_exec_attach, berm_events_watch and the other functions for one method do.
 * Returns 0, the callback's result, or -code. */
typedef int (*berm_on_message)(const void *message, void *user);
int berm_stream(struct berm_client *c, const struct berm_method *m, const void *request,
                berm_on_message on_message, void *user, struct berm_error *e);

/* --- calls that do not block --- */

/* For programs with an event loop. The library creates one thread per open call and blocks all
 * signals in it. It retries and resumes calls in the same way as blocking calls. All callbacks run
 * inside berm_async_dispatch, in the thread that calls it:
 *
 *     struct berm_async *a = berm_async_new(NULL);
 *     berm_async_call(a, berm_method_find("Ping"), &ping, NULL, on_done, NULL);
 *     struct pollfd p = {berm_async_fd(a), POLLIN, 0};
 *     while (berm_async_dispatch(a) > 0)
 *         poll(&p, 1, -1);
 *     berm_async_free(a); */
struct berm_async;

/* The strings in options must stay valid until berm_async_free. Returns NULL when out of memory or
 * descriptors. */
struct berm_async *berm_async_new(const struct berm_options *options);
/* Ends open calls without running their callbacks. Programs in sandboxes keep running. Do not call
 * this function from a callback. */
void berm_async_free(struct berm_async *a);
/* Returns a descriptor that is readable when berm_async_dispatch has work. */
int berm_async_fd(const struct berm_async *a);
/* Runs pending callbacks. Returns the number of open calls. */
size_t berm_async_dispatch(struct berm_async *a);

/* An open call; valid until its berm_on_done returns. */
struct berm_pending;
/* Called once at the end of a call. r is 0, the result of on_message, or -code. If r is -code, *e
 * has the reason. The response of a unary call is valid only during this callback. The callback may
 * start new calls. */
typedef void (*berm_on_done)(int r, void *answer, const struct berm_error *e, void *user);
/* Starts a call and copies its request. on_message must be NULL for a method with one response, and
 * set for a method with a stream of responses. AttachExec, WatchEvents and WatchFiles resume after
 * a break, like the blocking functions. Returns NULL and sets errno to EAGAIN when no thread can be
 * created, or to EINVAL when on_message does not match the method or the method takes a stream of
 * requests. */
struct berm_pending *berm_async_call(struct berm_async *a, const struct berm_method *m,
                                     const void *request, berm_on_message on_message,
                                     berm_on_done on_done, void *user);
/* Ends the call with BERM_CANCELLED, unless its response has already arrived. May be called from
 * any thread and from callbacks. */
void berm_pending_cancel(struct berm_pending *p);

/* --- sandboxes --- */

int berm_sandbox_create(struct berm_client *c, const Berm__V1__CreateSandboxRequest *request,
                        Berm__V1__CreateSandboxResponse **ret_response, struct berm_error *e);
int berm_sandbox_get(struct berm_client *c, const Berm__V1__GetSandboxRequest *request,
                     Berm__V1__GetSandboxResponse **ret_response, struct berm_error *e);
/* Returns one page; pass next_page_token to get the next. */
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
/* Deletes every sandbox with the labels, at most 1000 per call. The response sets `more` if
 * sandboxes with the labels remain. */
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

/* Waits until the sandbox enters one of the states (an OR of 1 << state), and returns the sandbox
 * in that state. Uses events after `sequence` instead of polling. Take `sequence` from a response
 * in which the sandbox was in none of these states. */
int berm_sandbox_wait(struct berm_client *c, const char *sandbox_id, uint64_t sequence,
                      uint32_t states, Berm__V1__GetSandboxResponse **ret_response,
                      struct berm_error *e);

/* --- execs --- */

int berm_exec_start(struct berm_client *c, const Berm__V1__StartExecRequest *request,
                    Berm__V1__StartExecResponse **ret_response, struct berm_error *e);
/* Waits until the program exits. timeout_ms of the client ends the wait, never the program. */
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

/* Reads output from the request's offsets. The callback gets `attached` once, then chunks and gaps,
 * in order and without overlap per stream, and finally `exited` or `end`. The client handles
 * heartbeats and requests to reconnect itself. A nonzero result of the callback ends the stream,
 * never the program. Returns 0 at the end, the callback's result, or -code. */
typedef int (*berm_on_output)(const Berm__V1__AttachExecResponse *message, void *user);
int berm_exec_attach(struct berm_client *c, const Berm__V1__AttachExecRequest *request,
                     berm_on_output on_output, void *user, struct berm_error *e);

/* Writes n bytes to the program's stdin, starting at *offset, and advances *offset. Waits while the
 * program does not read. */
int berm_exec_feed(struct berm_client *c, const char *exec_id, uint64_t *offset, const void *bytes,
                   size_t n, struct berm_error *e);

/* --- a program and its terminal --- */

/* A session with one program in one stream: output in one direction, input in the other. It resumes
 * after a lost connection or a restarted daemon without losing or repeating a byte: output after
 * the last byte that the caller received, and input from the first byte that the program did not
 * accept. To send signals, use berm_exec_signal. */
struct berm_session;

/* `first` is a start or an attach. It stays the caller's and must not change until
 * berm_session_free. Returns NULL when out of memory. */
struct berm_session *berm_session_new(struct berm_client *c,
                                      const Berm__V1__InteractRequest *first);
void berm_session_free(struct berm_session *s);
/* Copies at most n bytes and sends them as the program reads. Returns how many bytes it copied; 0
 * when 64 KiB are pending. The message input_accepted then reports when there is space again. May
 * be called from callbacks, for example from on_wake of berm_client_set_wake. */
size_t berm_session_write(struct berm_session *s, const void *bytes, size_t n);
size_t berm_session_room(const struct berm_session *s);
/* Sets the terminal size now and after each reconnect, for a program with a terminal. */
void berm_session_resize(struct berm_session *s, uint32_t cols, uint32_t rows);
/* Closes the program's input after the pending bytes are sent. */
void berm_session_end_input(struct berm_session *s);
/* Reads messages until the end, like berm_exec_attach: `attached` once, output and gaps in order
 * and without overlap, input_accepted, and finally `exited` or `end`. A nonzero result of the
 * callback detaches; the program keeps running. */
typedef int (*berm_on_session)(const Berm__V1__InteractResponse *message, void *user);
int berm_session_run(struct berm_session *s, berm_on_session on_message, void *user,
                     struct berm_error *e);

/* --- files --- */

int berm_file_stat(struct berm_client *c, const Berm__V1__StatFileRequest *request,
                   Berm__V1__StatFileResponse **ret_response, struct berm_error *e);
/* Returns one page; pass next_page_token to get the next. */
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

/* Receives n bytes at `offset` of the file or archive. A nonzero result ends the call. */
typedef int (*berm_sink)(void *user, uint64_t offset, const void *bytes, size_t n);
/* Provides at most n bytes from `offset`. `offset` is where the last bytes ended, or 0 when the
 * upload starts again after a broken connection. Returns the number of bytes; 0 at the end of the
 * data; or -errno when the source cannot continue, -ESPIPE when it cannot start again. */
typedef ssize_t (*berm_source)(void *user, uint64_t offset, void *into, size_t n);

/* The `user` argument of berm_fd_sink and berm_fd_source, which write to and read from a file
 * descriptor. Set only fd. The source reads from the start of the file. It cannot read data from a
 * pipe again. */
struct berm_fd {
    int fd;
    uint64_t next; /* offset after the bytes read or written */
};
int berm_fd_sink(void *user, uint64_t offset, const void *bytes, size_t n);
ssize_t berm_fd_source(void *user, uint64_t offset, void *into, size_t n);

/* Reads a file's bytes, each once and in order. Resumes after a break; fails with FILE_CHANGED if
 * the file was replaced meanwhile. Returns 0, the sink's result, or -code. */
int berm_file_read(struct berm_client *c, const Berm__V1__ReadFileRequest *request, berm_sink sink,
                   void *user, Berm__V1__ReadFileEnd **ret_end, struct berm_error *e);
/* Writes a file atomically. Starts again after a break, with the same request id. */
int berm_file_write(struct berm_client *c, const Berm__V1__WriteFileHeader *header,
                    berm_source source, void *user, Berm__V1__WriteFileResponse **ret_response,
                    struct berm_error *e);
/* Unpacks a tar stream. Starts again after a break, like berm_file_write. */
int berm_tree_upload(struct berm_client *c, const Berm__V1__UploadTreeHeader *header,
                     berm_source source, void *user, Berm__V1__UploadTreeResponse **ret_response,
                     struct berm_error *e);
/* Downloads a directory as a tar stream. After a break the download starts again: the sink gets
 * offset 0 again, and may end the call with a nonzero result. */
int berm_tree_download(struct berm_client *c, const Berm__V1__DownloadTreeRequest *request,
                       berm_sink sink, void *user, Berm__V1__DownloadTreeEnd **ret_end,
                       struct berm_error *e);
/* Watches for file changes. The callback gets `watching` once, then changes and resyncs, and
 * finally `end`. A resync reports that changes were missed; the callback gets one after each break.
 * Otherwise like berm_exec_attach. */
typedef int (*berm_on_change)(const Berm__V1__WatchFilesResponse *message, void *user);
int berm_files_watch(struct berm_client *c, const Berm__V1__WatchFilesRequest *request,
                     berm_on_change on_change, void *user, struct berm_error *e);

/* --- events --- */

/* Watches events. The callback gets events in the order of their sequence, each once; `caught_up`
 * once; if requested, the sandboxes and execs of a snapshot, which starts again after a break; and
 * finally `end`. Otherwise like berm_exec_attach. */
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
