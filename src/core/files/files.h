/* files — what callers ask of a sandbox's guest about files.
 *
 * Owner:   whoever opened it. file_call_close lets go at any time, also from inside a callback; what the
 *          guest then still answers is put away here, so that no handle of it stays open.
 * States:  open → asked → answered → asked → … → closed.
 * Gone:    on_gone tells of a sandbox that leaves READY and of a lost link, so that no call hangs on a
 *          guest that is frozen or not there.
 * Bounds:  FILE_CALLS_MAX of one sandbox, FILE_HANDLES_MAX of them with a handle in the guest.
 * Bytes:   through the descriptor the guest passed where file_take finds it fit for that, else in chunks
 *          by `read_chunk` and `write_chunk`. Never in other messages.
 * Errors:  those of sandbox_check_ready, GUEST_LOST, LIMIT_REACHED, STORE_FAILED.
 * Spec:    spec/behavior.md, FILE; spec/guest.md */
#pragma once

#include "core/box/box.h"
#include "core/change.h"
#include "core/guest/guest_notice.h"

#define FILE_CALLS_MAX 192
#define FILE_HANDLES_MAX 64

/* All file calls of one sandbox; the sandbox embeds it. */
struct files {
    struct box *box;
    struct list calls; /* those that only wait for an answer too */
    unsigned n_calls;
    unsigned n_handles;
};
void files_init(struct files *set, struct box *b);
/* No file call can go on, for now or (is_final) at all. */
void files_gone(struct files *set, bool is_final);
/* What the guest reports of one. */
void files_notice(struct files *set, const struct guest_notice *n);

struct file_call;

struct file_events {
    /* The guest answered the last request. a->file holds the answer if a->e is NULL. */
    void (*on_answer)(void *user, const struct guest_answer *a);
    /* `is_final`: nothing more comes and the call is to be closed. Else the sandbox is frozen: what was
     * asked is answered when it runs again, to whoever has not closed by then. */
    void (*on_gone)(void *user, const struct err *e, bool is_final);
    /* CHANGED of its watch or TREE_DONE of its handle. Optional. */
    void (*on_notice)(void *user, const struct guest_notice *n);
};

/* `with_handle`: it will have one in the guest. */
MUST_USE int file_call_open(struct files *set, uint64_t incarnation, bool with_handle,
                            const struct file_events *events, void *user, struct file_call **ret,
                            struct err *e);
/* Idempotent with NULL. Lets go of its handle and its watch. */
void file_call_close(struct file_call *f);
/* Asks the guest; on_answer follows. One request at a time. */
void file_call_ask(struct file_call *f, const struct guest_file_request *r);
bool file_call_is_waiting(const struct file_call *f);
uint64_t file_call_handle(const struct file_call *f); /* 0 = none */
struct env *file_call_env(const struct file_call *f);

/* Takes the regular file out of an answer, to be read (O_RDONLY), on the loop's thread, or written (O_WRONLY) at
 * offsets. -1 where that could wait for long or do more than move bytes: a guest may pass whatever
 * the kernel calls a regular file, such as a file of a cgroup, which would move the daemon that writes
 * to it. */
int file_take(const struct guest_answer *a, int access);

/* Remembers that a request id is about to act, before it does, with no object to its name; the record of
 * the same key takes its place. `is_over`: it did not act, and may be used again. */
MUST_USE int file_call_intend(struct file_call *f, const struct request_key *key, bool is_over,
                              struct ledger_wait *w, struct err *e);

/* What a call did, for the event. Texts end with NUL. */
struct file_audit {
    int operation; /* FileOperation */
    struct str path;
    struct str new_path; /* of a rename */
    uint64_t bytes_moved;
};
/* Puts the event on its way, and with c->key the request id with its answer. */
MUST_USE int file_call_record(struct file_call *f, const struct file_audit *audit,
                              const struct change *c, struct str answer, struct err *e);
