/* exec — one program in a sandbox.
 *
 * Owner:   its sandbox while it runs, the registry afterwards.
 * States:  STARTING → RUNNING → EXITED, or → LOST when nobody saw its end.
 * Restart: restored from its record; the guest is asked by its id: known → adopted, unknown → started
 *          once, guest gone → the status file, else LOST.
 * Output:  the guest writes into files of ours; readers hold an offset and read the files. What the guest
 *          says of sizes is a hint to look, never the truth.
 * Bounds:  output_limit_bytes kept; EXEC_READERS_MAX named readers.
 * Errors:  EXEC_NOT_FOUND, EXEC_EXISTS, EXEC_ENDED, OFFSET_BEYOND_END, OUTPUT_TAMPERED, STDIN_*,
 *          GUEST_LOST.                                             Spec: spec/behavior.md, EXEC, OUT, STDIN */
#pragma once

#include "base/waiter.h"
#include "core/change.h"
#include "core/driver.h"

struct exec;
struct execs;

#define EXEC_READERS_MAX 64

enum exec_stream { EXEC_STDOUT = 0, EXEC_STDERR = 1, EXEC_STREAMS = 2 };

/* `spec` is checked and has every default filled in; it is copied. An empty id gets a generated one.
 * c->wait hears when the intent is durable; the exec then goes on by itself, and a watch is woken when
 * the guest has answered (exec_is_answered). */
MUST_USE int exec_start(struct execs *set, uint64_t incarnation, const char *id,
                        const Berm__V1__ExecSpec *spec, struct str stdin_data,
                        const struct change *c, struct exec **ret_x, struct err *e);

/* As it stands, with sizes, input and exit filled in; borrowed until the loop's next turn. Usage of a
 * running program is what was last measured: see exec_measure. */
const Berm__V1__Exec *exec_record(struct exec *x);
const struct recorded *exec_recorded(const struct exec *x);
const char *exec_owner(const struct exec *x);
/* The guest has answered its start, or will not for now: a frozen one cannot, a stopping one need not. */
bool exec_is_answered(const struct exec *x);
bool exec_is_over(const struct exec *x); /* its exit is known and may be told */
bool exec_has_terminal(const struct exec *x);
unsigned exec_n_streams(const struct exec *x);

/* Woken when anything about it changed: growth, start, exit, room for input, its sandbox deleted. A node
 * inside the watcher; it keeps the exec in memory. */
struct exec_watch {
    struct waiter waiter;
    struct exec *exec; /* NULL once the sandbox was deleted: nothing more can come */
};
void exec_watch(struct exec *x, struct exec_watch *w, void (*on_change)(struct waiter *w));
void exec_unwatch(struct exec_watch *w);

/* Reads output at an offset into `out`. Returns the count, 0 at the present end (look exec_is_over and
 * wait for on_change). When bytes there are gone: 0 and *ret_next > offset, the next byte kept.
 * OFFSET_BEYOND_END, OUTPUT_TAMPERED, INTERNAL. */
MUST_USE ssize_t exec_read(struct exec *x, enum exec_stream s, uint64_t offset, void *out, size_t n,
                           uint64_t *ret_next, struct err *e);
/* The present end, and the oldest byte kept, of a stream. */
void exec_extent(struct exec *x, enum exec_stream s, uint64_t *ret_first, uint64_t *ret_end);

/* Readers of the BLOCK policy. A reader without a name is known by its watch: what it was sent counts as
 * acknowledged. LIMIT_REACHED. */
MUST_USE int exec_reader_join(struct exec *x, const char *name, struct exec_watch *w,
                              const uint64_t from[EXEC_STREAMS], struct err *e);
void exec_reader_leave(struct exec *x, const char *name, struct exec_watch *w);
/* With a name: AckOutput; without: what was sent to this watch. */
MUST_USE int exec_ack(struct exec *x, const char *name, struct exec_watch *w,
                      const uint64_t upto[EXEC_STREAMS], bool release, struct err *e);

/* One thing asked of the guest on a program's behalf; a node inside the caller's object. */
struct exec_ask {
    struct guest_ask *inner; /* exec.c's own */
    struct exec *exec;
    uint64_t next_offset;  /* of input, in the answer and in STDIN_OFFSET errors */
    uint64_t window_bytes; /* of input, in the answer */
    void (*on_done)(struct exec_ask *a, const struct err *e); /* from the loop */
};
void exec_ask_cancel(struct exec_ask *a); /* safe at any time */
/* Each answers 0 when on_done will follow. Input: at most 48 KiB of it goes in one step; the answer
 * says how far it came, which may be not at all (window_bytes 0): a watch is woken when there is room. */
MUST_USE int exec_write(struct exec *x, uint64_t offset, struct str data, struct exec_ask *a,
                        struct err *e);
MUST_USE int exec_close_input(struct exec *x, uint64_t offset, struct exec_ask *a, struct err *e);
/* The signal's event is durable before it is sent. */
MUST_USE int exec_signal(struct exec *x, int number, bool leader_only, const struct change *c,
                         struct exec_ask *a, struct err *e);
/* A repeat of one that is durable: `answer` is what its request id was remembered with. The guest sends
 * a signal once, however often it is asked. */
MUST_USE int exec_signal_again(struct exec *x, int number, bool leader_only, struct str answer,
                               struct exec_ask *a, struct err *e);
MUST_USE int exec_resize(struct exec *x, uint32_t cols, uint32_t rows, struct exec_ask *a,
                         struct err *e);
/* Brings the usage of a running program up to date, from its cgroup; asks nobody. */
void exec_measure(struct exec *x);
