/* writer — the thread that commits: many txns to one SQLite transaction, answers in order.
 *
 * Owner:   the db.                       Ends: writer_close, then on_closed from the loop.
 * Threads: everything here is called on the loop's thread. The writer's own connection is opened by
 *          its thread at the first write, and anew after a failure that may have come from it.
 * Order:   queue → batch (the thread's) → answered → done(); a txn never overtakes another.
 * Failing: after a failed batch the thread takes nothing more until the loop has collected it
 *          together with all that waits then. So no txn that was handed over before its owner could
 *          know of the failure is ever written.
 * Log:     written back off the answers' path: after answering, when it is long or nobody waits. */
#pragma once

#include <uv.h>

#include "store/db.h"
#include "store/sql.h"

struct writer;

MUST_USE int writer_start(uv_loop_t *loop, const char *path, struct writer **ret_writer,
                          struct err *e);
/* Answers all that waits, and what is committed from inside those answers; then reports. */
void writer_close(struct writer *w, void (*on_closed)(void *user), void *user);

struct db_txn *writer_begin(struct writer *w); /* NULL: out of memory */
/* Copies the values. */
void writer_add(struct db_txn *t, size_t statement, const struct sql_value *values, size_t n);
void writer_drop(struct db_txn *t);
void writer_spoil(struct db_txn *t);
void writer_commit(struct db_txn *t, db_done *done, void *user);
