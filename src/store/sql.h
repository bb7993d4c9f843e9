/* sql — one connection to a SQLite file: statements prepared once, its codes turned into ours.
 *
 * Owner:   one thread at a time; never two threads at once.
 * Errors:  STORE_FULL (no room), STORE_CORRUPT (damaged, or no database at all), INTERNAL (a
 *          statement that breaks a rule of the schema: a bug), STORE_FAILED (everything else).
 * Only sql.c includes sqlite3.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct sql;
struct sql_row;

/* A parameter of a statement, by position; bytes are borrowed while the statement runs. */
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

/* Opens an existing file (an empty one is an empty database) and changes nothing in it, not even by
 * closing: sql_keep_log(s, false) allows that. `statements` are texts for sql_run; borrowed. */
MUST_USE int sql_open(const char *path, const char *const *statements, size_t n_statements,
                      struct sql **ret_sql, struct err *e);
/* The file was found sound: from here on damage is a failure of the disk, STORE_FAILED. */
void sql_mark_running(struct sql *s);
void sql_close(struct sql *s); /* NULL is fine */
/* While kept, the write-ahead log is neither written back nor removed by the last close. */
void sql_keep_log(struct sql *s, bool keep);

/* Calls `on` for each row until it answers false. Rows and their slices are borrowed. */
typedef bool sql_on_row(void *user, struct sql_row *row);
/* statements[index]; it is prepared at its first use and kept. Not from inside its own callback. */
MUST_USE int sql_run(struct sql *s, size_t index, const struct sql_value *values, size_t n_values,
                     sql_on_row *on, void *user, struct err *e);
/* Any text, one statement or many, once, without parameters; `on` may be NULL. */
MUST_USE int sql_exec(struct sql *s, const char *text, sql_on_row *on, void *user, struct err *e);
/* Undoes the open transaction, if one is open. */
void sql_rollback(struct sql *s);

int64_t sql_get_int(struct sql_row *row, int column);
struct str sql_get_bytes(struct sql_row *row, int column); /* text or blob; never a NULL pointer */

/* Pages in the write-ahead log after this connection's last commit; 0 since sql_checkpoint. */
int sql_log_pages(const struct sql *s);
/* Writes back what no reader holds up; waits for nobody. What it could not do is left to the next
 * time, and the next commit tells the log's true length again. */
void sql_checkpoint(struct sql *s);
