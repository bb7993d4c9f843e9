/* files — file calls to the guest of a sandbox.
 *
 * Owner:   whoever opened it.
 * End:     file_call_close, at any time, also inside a callback. The call then still waits for a
 *          pending answer, so that it can close the handle or watch that the answer brings.
 * States:  open → waiting for an answer → open → … → closed.
 * Gone:    on_gone reports a sandbox that leaves READY and a lost link, so that no call waits for a
 *          guest that is frozen or gone.
 * Bounds:  FILE_CALLS_MAX per sandbox, of which FILE_HANDLES_MAX may have a handle in the guest.
 * Bytes:   move through the descriptor that the guest passed if file_take accepts it, otherwise in
 *          chunks by READ_CHUNK and WRITE_CHUNK. No other message carries file contents.
 * Errors:  those of box_check_ready, GUEST_LOST, LIMIT_REACHED, OUT_OF_MEMORY, STORE_FAILED.
 * Spec:    spec/behavior.md, FILE; spec/guest.md
 * Inside a callback you may call every function here. */
#pragma once

#include "core/box/box.h"
#include "core/change.h"
#include "core/guest/guest_notice.h"

#define FILE_CALLS_MAX 192
#define FILE_HANDLES_MAX 64

/* All file calls of one sandbox; the sandbox embeds it. */
struct files {
    struct box *box;
    struct list calls; /* including closed calls that wait for an answer */
    unsigned n_calls;
    unsigned n_handles;
};
void files_init(struct files *set, struct box *b);
/* Reports to every call that the guest is frozen or (is_final) gone. */
void files_gone(struct files *set, bool is_final);
/* Passes a CHANGED or TREE_DONE notification to its call. */
void files_notice(struct files *set, const struct guest_notice *n);

struct file_call;

struct file_events {
    /* The guest answered the last request. a->file holds the answer if a->e is NULL. */
    void (*on_answer)(void *user, const struct guest_answer *a);
    /* `is_final`: the last callback; close the call. Otherwise the sandbox is frozen, and the guest
     * answers the pending request when it runs again, unless the call is closed by then. */
    void (*on_gone)(void *user, const struct err *e, bool is_final);
    /* Reports CHANGED of the call's watch or TREE_DONE of its handle. May be NULL. */
    void (*on_notice)(void *user, const struct guest_notice *n);
};

/* `with_handle`: the call will have a handle in the guest. */
MUST_USE int file_call_open(struct files *set, uint64_t incarnation, bool with_handle,
                            const struct file_events *events, void *user, struct file_call **ret,
                            struct err *e);
/* Closes the handle and the watch of the call. NULL is allowed. */
void file_call_close(struct file_call *f);
/* Sends a request to the guest; on_answer follows. A call has at most one pending request. */
void file_call_ask(struct file_call *f, const struct guest_file_request *r);
bool file_call_is_waiting(const struct file_call *f);
uint64_t file_call_handle(const struct file_call *f); /* 0 = the call has no handle */
struct env *file_call_env(const struct file_call *f);

/* Takes the regular file from an answer, to read it (O_RDONLY) or to write it at offsets
 * (O_WRONLY). Returns -1 if the guest passed no file, or a file on which I/O could block for long
 * or have side effects: a file of a cgroup is regular too, and a write to it would move the daemon
 * into the cgroup. */
int file_take(const struct guest_answer *a, int access);

/* Records that the call with this request id is about to act, without an object. The record of the
 * finished call with the same key replaces this record. `is_over`: the call did not act, and the
 * request id is free again. */
MUST_USE int file_call_intend(struct file_call *f, const struct request_key *key, bool is_over,
                              struct ledger_wait *w, struct err *e);

/* What a call did, for its event. Texts are NUL-terminated. */
struct file_audit {
    int operation; /* FileOperation */
    struct str path;
    struct str new_path; /* set for a rename */
    uint64_t bytes_moved;
};
/* Commits the event and, if c->key is set, the request id with its answer. */
MUST_USE int file_call_record(struct file_call *f, const struct file_audit *audit,
                              const struct change *c, struct str answer, struct err *e);
