/* exec — one program in a sandbox.
 *
 * Owner:   its sandbox (core/exec/execs.h) while it runs, the exec table afterwards.
 * End:     watchers are woken when it is over, and a last time when its sandbox is deleted.
 * States:  ExecState in the record: STARTING → RUNNING → EXITED, or → LOST when the guest ended and
 *          left no status. exec_state.h has the phase and the state of its cgroup.
 * Restart: restored from its record. bermd adopts an exec that the guest's hello lists, and starts
 *          once an exec that the hello does not list. Without a guest, the status file has the
 *          exit; without a status file, the exec is LOST.
 * Output:  the guest appends to files that bermd created; readers hold an offset and read the
 *          files. A size that the guest reports is only a hint to read.
 * Bounds:  output_limit_bytes kept; EXEC_READERS_MAX named readers.
 * Errors:  EXEC_NOT_FOUND, EXEC_EXISTS, EXEC_ENDED, OFFSET_BEYOND_END, OUTPUT_TAMPERED, STDIN_*,
 *          GUEST_LOST.
 * Spec:    spec/behavior.md, EXEC, OUT, STDIN */
#pragma once

#include "base/waiter.h"
#include "core/change.h"
#include "core/driver.h"

struct exec;
struct execs;

#define EXEC_READERS_MAX 64

enum exec_stream { EXEC_STDOUT = 0, EXEC_STDERR = 1, EXEC_STREAMS = 2 };

/* `spec` is checked and has every default filled in; it is copied. An empty id gets a generated
 * one. c->wait ends when the intent is durable. The start then continues, and wakes watchers when
 * the guest has answered (exec_is_answered). */
MUST_USE int exec_start(struct execs *set, uint64_t incarnation, const char *id,
                        const Berm__V1__ExecSpec *spec, struct str stdin_data,
                        const struct change *c, struct exec **ret_x, struct err *e);

/* Returns the record with current sizes, input and exit, borrowed until the next loop turn. The
 * usage of a running program is that of the last exec_measure. */
const Berm__V1__Exec *exec_record(struct exec *x);
const struct recorded *exec_recorded(const struct exec *x);
const char *exec_owner(const struct exec *x);
/* Returns whether the guest has answered the start, or cannot answer it now because it is frozen or
 * stopping. */
bool exec_is_answered(const struct exec *x);
bool exec_is_over(const struct exec *x); /* the exit is known and may be reported */
bool exec_has_terminal(const struct exec *x);
unsigned exec_n_streams(const struct exec *x);

/* A watcher of an exec, woken after every change: the output grew, the exec started or exited, its
 * input is writable, or its sandbox was deleted. A watched exec stays in memory. */
struct exec_watch {
    struct waiter waiter;
    struct exec *exec; /* NULL once the sandbox was deleted; no wake-up follows */
};
void exec_watch(struct exec *x, struct exec_watch *w, void (*on_change)(struct waiter *w));
void exec_unwatch(struct exec_watch *w);

/* Reads output at an offset into `out`. Returns the number of bytes, or 0 at the present end: wait
 * for on_change unless exec_is_over. When the bytes were dropped: 0, and *ret_next > offset is the
 * next byte kept. OFFSET_BEYOND_END, OUTPUT_TAMPERED, INTERNAL. */
MUST_USE ssize_t exec_read(struct exec *x, enum exec_stream s, uint64_t offset, void *out, size_t n,
                           uint64_t *ret_next, struct err *e);
/* Returns the offset of the oldest byte that is kept of a stream, and the present end of the
 * stream. */
void exec_extent(struct exec *x, enum exec_stream s, uint64_t *ret_first, uint64_t *ret_end);

/* Adds a reader for the BLOCK policy. A reader without a name is identified by its watch; output
 * that was sent to such a reader counts as acknowledged. LIMIT_REACHED. */
MUST_USE int exec_reader_join(struct exec *x, const char *name, struct exec_watch *w,
                              const uint64_t from[EXEC_STREAMS], struct err *e);
void exec_reader_leave(struct exec *x, const char *name, struct exec_watch *w);
/* Acknowledges output. With a name: the named reader sent AckOutput. Without a name: bermd sent the
 * output to this watch. */
MUST_USE int exec_ack(struct exec *x, const char *name, struct exec_watch *w,
                      const uint64_t upto[EXEC_STREAMS], bool release, struct err *e);

/* One request to the guest about an exec, embedded in the caller's object. */
struct exec_ask {
    struct guest_ask *inner; /* private to exec_input.c */
    struct exec *exec;
    uint64_t next_offset;  /* of the input; set in the reply and in STDIN_OFFSET errors */
    uint64_t window_bytes; /* of the input; set in the reply */
    void (*on_done)(struct exec_ask *a, const struct err *e); /* called from the loop */
};
void exec_ask_cancel(struct exec_ask *a); /* allowed at any time */
/* Each returns 0 when on_done follows. exec_write sends at most 48 KiB; the reply says how much the
 * guest took, which may be nothing (window_bytes 0). A watch is woken when the input is writable
 * again. */
MUST_USE int exec_write(struct exec *x, uint64_t offset, struct str data, struct exec_ask *a,
                        struct err *e);
MUST_USE int exec_close_input(struct exec *x, uint64_t offset, struct exec_ask *a, struct err *e);
/* The event of the signal is durable before bermd sends the signal. */
MUST_USE int exec_signal(struct exec *x, int number, bool leader_only, const struct change *c,
                         struct exec_ask *a, struct err *e);
/* Repeats a durable signal; `answer` is what was stored with its request id. The guest delivers a
 * signal only once, even if bermd repeats the request. */
MUST_USE int exec_signal_again(struct exec *x, int number, bool leader_only, struct str answer,
                               struct exec_ask *a, struct err *e);
MUST_USE int exec_resize(struct exec *x, uint32_t cols, uint32_t rows, struct exec_ask *a,
                         struct err *e);
/* Reads the usage of a running program from its cgroup. */
void exec_measure(struct exec *x);
