/* writer — the thread that commits many txns in one SQLite transaction and returns results in
 * order.
 *
 * Owner:   the db.                       End: writer_close, then on_closed from the loop.
 * States:  running → broken (a failure is not reported yet) → running; → closing → ended.
 * Threads: call every function here on the loop's thread. The writer thread opens its own
 *          connection at the first write, and reopens it after a failure that the connection may
 *          have caused.
 * Order:   queue → batch (of the thread) → answered → done(); a txn never overtakes another.
 * Failing: after a failed batch the thread stops until the loop has collected the failure together
 *          with all queued txns. So the thread never writes a txn that was committed before
 *          its owner could learn of the failure.
 * Log:     the thread checkpoints off the reply path: after posting results, when the log is long
 *          or the queue is empty. */
#pragma once

#include <uv.h>

#include "store/db.h"
#include "store/sql.h"

struct writer;

MUST_USE int writer_start(uv_loop_t *loop, const char *path, struct writer **ret_writer,
                          struct err *e);
/* Completes all queued txns, and those that their `done` callbacks commit, then calls on_closed. */
void writer_close(struct writer *w, void (*on_closed)(void *user), void *user);

struct db_txn *writer_begin(struct writer *w); /* NULL: out of memory */
/* Copies the values. */
void writer_add(struct db_txn *t, size_t statement, const struct sql_value *values, size_t n);
void writer_drop(struct db_txn *t);
void writer_spoil(struct db_txn *t);
void writer_commit(struct db_txn *t, db_done *done, void *user);
