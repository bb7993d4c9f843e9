/* sql — one connection to a SQLite file: prepares each statement once and translates SQLite's
 * errors.
 *
 * Owner:   one thread at a time.
 * Errors:  STORE_FULL (no disk space), STORE_CORRUPT (damaged, or not a database), INTERNAL (a
 *          statement violates the schema: a bug), STORE_FAILED (everything else).
 * Only sql.c includes sqlite3.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct sql;
struct sql_row;

/* A parameter of a statement, by position. The bytes are borrowed while the statement runs. */
enum sql_kind { SQL_INT, SQL_TEXT, SQL_BLOB };
struct sql_value {
    enum sql_kind kind;
    int64_t number;
    struct str bytes;
};
static inline struct sql_value sql_int(uint64_t number) {
    return (struct sql_value){.kind = SQL_INT, .number = (int64_t)number};
}
static inline struct sql_value sql_text(struct str text) {
    return (struct sql_value){.kind = SQL_TEXT, .bytes = text};
}
static inline struct sql_value sql_blob(struct str bytes) {
    return (struct sql_value){.kind = SQL_BLOB, .bytes = bytes};
}

/* Opens an existing file; an empty file is an empty database. Changes nothing in the file, not even
 * on close, until sql_keep_log(s, false). `statements` are the texts for sql_run; borrowed. */
MUST_USE int sql_open(const char *path, const char *const *statements, size_t n_statements,
                      struct sql **ret_sql, struct err *e);
/* Call this when the file has passed its checks. From then on, damage means a disk failure and is
 * reported as STORE_FAILED. */
void sql_mark_running(struct sql *s);
void sql_close(struct sql *s); /* NULL is allowed */
/* While `keep` is set, the last close neither checkpoints nor removes the write-ahead log. */
void sql_keep_log(struct sql *s, bool keep);

/* Called for each row until it returns false. Rows and their slices are borrowed. */
typedef bool sql_on_row(void *user, struct sql_row *row);
/* Runs statements[index], which is prepared on first use. Do not call it from its own callback. */
MUST_USE int sql_run(struct sql *s, size_t index, const struct sql_value *values, size_t n_values,
                     sql_on_row *on, void *user, struct err *e);
/* Runs one or more statements once, without parameters. `on` may be NULL. */
MUST_USE int sql_exec(struct sql *s, const char *text, sql_on_row *on, void *user, struct err *e);
/* Rolls back the open transaction, if there is one. */
void sql_rollback(struct sql *s);

int64_t sql_get_int(struct sql_row *row, int column);
struct str sql_get_bytes(struct sql_row *row, int column); /* text or blob; never a NULL pointer */

/* Pages in the write-ahead log after this connection's last commit; 0 after sql_checkpoint. */
int sql_log_pages(const struct sql *s);
/* Checkpoints the pages that no reader needs; does not block. The next checkpoint does the rest,
 * and the next commit updates sql_log_pages. */
void sql_checkpoint(struct sql *s);
