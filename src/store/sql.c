#include "store/sql.h"

#include <errno.h>
#include <sqlite3.h>

/* bermd holds its locks only briefly, but a user of the sqlite3 program may hold a lock longer. */
#define BUSY_MS 5000

struct sql {
    sqlite3 *db;
    const char *const *statements;
    size_t n_statements;
    int log_pages;
    bool is_running;
    sqlite3_stmt *prepared[];
};

static enum err_code sql_code_of(int code, int sys) {
    switch (code & 0xff) {
    case SQLITE_FULL:
        return ERR_STORE_FULL;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERR_STORE_CORRUPT;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
    case SQLITE_ERROR:
        return ERR_INTERNAL;
    case SQLITE_IOERR:
        /* A write that exceeds a quota has no effect, so the store is full. The outcome of a failed
         * fsync is unknown, so the error is STORE_FAILED, and callers must check the state. */
        return code == SQLITE_IOERR_WRITE && sys == EDQUOT ? ERR_STORE_FULL : ERR_STORE_FAILED;
    default:
        return ERR_STORE_FAILED;
    }
}

static int sql_fail(struct sql *s, const char *what, struct err *e) {
    int code = sqlite3_extended_errcode(s->db);
    int sys = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN
                  ? sqlite3_system_errno(s->db)
                  : 0;
    enum err_code as = sql_code_of(code, sys);
    if (as == ERR_STORE_CORRUPT && s->is_running) /* SQLite reports a failing disk as corruption */
        as = ERR_STORE_FAILED;
    return err_sys(e, as, sys, "%s: %s (%d)", what, sqlite3_errmsg(s->db), code);
}

static int on_log(void *user, sqlite3 *db, const char *name, int pages) {
    (void)db, (void)name;
    struct sql *s = user;
    s->log_pages = pages;
    return SQLITE_OK;
}

/* SQLite resolves every symlink in a path and opens the resulting text. Our path goes through the
 * descriptor of the state directory, because the daemon may lack access to its parents. So keep the
 * path as it is. */
static int sql_keep_path(sqlite3_vfs *vfs, const char *name, int cap, char *out) {
    (void)vfs;
    sqlite3_snprintf(cap, out, "%s", name);
    return SQLITE_OK;
}

static const char *sql_path_keeper(void) {
    static const char name[] = "berm";
    if (sqlite3_vfs_find(name))
        return name;
    const sqlite3_vfs *usual = sqlite3_vfs_find(NULL);
    sqlite3_vfs *own =
        usual ? malloc(sizeof *own) : NULL; /* never freed: SQLite uses it until exit */
    if (!own)
        return NULL;
    *own = *usual;
    own->zName = name;
    own->xFullPathname = sql_keep_path;
    return sqlite3_vfs_register(own, 0) == SQLITE_OK ? name : NULL;
}

int sql_open(const char *path, const char *const *statements, size_t n_statements,
             struct sql **ret_sql, struct err *e) {
    struct sql *s = calloc(1, sizeof *s + n_statements * sizeof s->prepared[0]);
    if (!s)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    s->statements = statements;
    s->n_statements = n_statements;
    /* Without SQLITE_OPEN_CREATE, SQLite does not recreate a deleted file as an empty one. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(path, &s->db, flags, sql_path_keeper()) != SQLITE_OK) {
        int r = s->db ? sql_fail(s, path, e) : err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
        sql_close(s);
        return r;
    }
    sqlite3_busy_timeout(s->db, BUSY_MS);
    sqlite3_wal_autocheckpoint(s->db, 0); /* call before wal_hook: both set the same hook */
    sqlite3_wal_hook(s->db, on_log, s);
    sql_keep_log(s, true);
    *ret_sql = s;
    return 0;
}

void sql_mark_running(struct sql *s) {
    s->is_running = true;
}

void sql_close(struct sql *s) {
    if (!s)
        return;
    for (size_t i = 0; i < s->n_statements; i++)
        sqlite3_finalize(s->prepared[i]);
    sqlite3_close(s->db);
    free(s);
}

void sql_keep_log(struct sql *s, bool keep) {
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep, NULL);
}

static int sql_bind(sqlite3_stmt *stmt, int at, const struct sql_value *v) {
    const char *bytes = v->bytes.p ? v->bytes.p : ""; /* a NULL pointer would bind NULL */
    switch (v->kind) {
    case SQL_INT:
        return sqlite3_bind_int64(stmt, at, v->number);
    case SQL_TEXT:
        return sqlite3_bind_text64(stmt, at, bytes, v->bytes.n, SQLITE_STATIC, SQLITE_UTF8);
    case SQL_BLOB:
        return sqlite3_bind_blob64(stmt, at, bytes, v->bytes.n, SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

static int sql_step_all(struct sql *s, sqlite3_stmt *stmt, sql_on_row *on, void *user,
                        struct err *e) {
    int code;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
        if (on && !on(user, (struct sql_row *)stmt))
            return 0;
    return code == SQLITE_DONE ? 0 : sql_fail(s, "access the store", e);
}

int sql_run(struct sql *s, size_t index, const struct sql_value *values, size_t n_values,
            sql_on_row *on, void *user, struct err *e) {
    sqlite3_stmt *stmt = s->prepared[index];
    if (!stmt) {
        if (sqlite3_prepare_v3(s->db, s->statements[index], -1, SQLITE_PREPARE_PERSISTENT, &stmt,
                               NULL) != SQLITE_OK)
            return sql_fail(s, "prepare a statement", e);
        s->prepared[index] = stmt;
    }
    if (sqlite3_stmt_busy(stmt))
        return err_set(e, ERR_INTERNAL, "read the store: the same read is already active");
    int r = 0;
    for (size_t i = 0; i < n_values && r == 0; i++)
        if (sql_bind(stmt, (int)i + 1, &values[i]) != SQLITE_OK)
            r = sql_fail(s, "bind a value", e);
    if (r == 0)
        r = sql_step_all(s, stmt, on, user, e);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return r;
}

int sql_exec(struct sql *s, const char *text, sql_on_row *on, void *user, struct err *e) {
    int r = 0;
    while (r == 0 && *text != '\0') {
        sqlite3_stmt *stmt;
        if (sqlite3_prepare_v2(s->db, text, -1, &stmt, &text) != SQLITE_OK)
            return sql_fail(s, "prepare a statement", e);
        if (!stmt)
            break; /* only whitespace was left */
        r = sql_step_all(s, stmt, on, user, e);
        sqlite3_finalize(stmt);
    }
    return r;
}

void sql_rollback(struct sql *s) {
    if (!sqlite3_get_autocommit(s->db)) /* SQLite rolls back by itself after some errors */
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

int64_t sql_get_int(struct sql_row *row, int column) {
    return sqlite3_column_int64((sqlite3_stmt *)row, column);
}

struct str sql_get_bytes(struct sql_row *row, int column) {
    sqlite3_stmt *stmt = (sqlite3_stmt *)row;
    const void *bytes = sqlite3_column_blob(stmt, column); /* also returns text, unchanged */
    return (struct str){bytes ? bytes : "", (size_t)sqlite3_column_bytes(stmt, column)};
}

int sql_log_pages(const struct sql *s) {
    return s->log_pages;
}

void sql_checkpoint(struct sql *s) {
    sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    s->log_pages = 0;
}
