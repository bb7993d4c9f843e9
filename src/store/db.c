#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "store/schema.h"
#include "store/sql.h"
#include "store/writer.h"

#define FILE_NAME "berm.db"
#define LOG_NAME FILE_NAME "-wal"
#define INDEX_NAME FILE_NAME "-shm"

struct db {
    int dir_fd; /* open and locked */
    bool had_index;
    struct sql *reader;
    struct writer *writer;
    void (*on_closed)(void *user);
    void *user;
};

/* ---- Opening and closing ---- */

static void db_free(struct db *db) {
    sql_close(db->reader);
    /* Release the lock after SQLite has closed its files, because the lock protects them. */
    close_fd_cleanup(&db->dir_fd);
    free(db);
}

static int db_lock_dir(struct db *db, const char *dir, struct err *e) {
    db->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (db->dir_fd < 0)
        return err_sys(e, ERR_STORE_FAILED, errno, "open the state directory");
    if (flock(db->dir_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return err_set(e, ERR_STORE_FAILED,
                       "lock the state directory: another process uses it; stop that bermd first");
    return err_sys(e, ERR_STORE_FAILED, errno, "lock the state directory");
}

/* Creates the file if it is absent, with mode 0600, so that SQLite never creates it. An empty file
 * next to a non-empty log has lost the data that the log builds on. SQLite would treat it as new
 * and discard the log, so this is an error. */
static int db_make_file(int dir_fd, struct err *e) {
    AUTO_CLOSE int fd = openat(dir_fd, FILE_NAME, O_RDONLY | O_CLOEXEC);
    struct stat file = {0}, log;
    if (fd < 0 && errno != ENOENT)
        return err_sys(e, ERR_STORE_FAILED, errno, "open " FILE_NAME);
    if (fd >= 0 && fstat(fd, &file) < 0)
        return err_sys(e, ERR_STORE_FAILED, errno, "stat " FILE_NAME);
    if (file.st_size == 0 && fstatat(dir_fd, LOG_NAME, &log, 0) == 0 && log.st_size > 0)
        return err_set(e, ERR_STORE_CORRUPT,
                       FILE_NAME " is missing or empty, but its log " LOG_NAME
                                 " is not; restore both from a backup");
    if (fd >= 0)
        return 0;
    fd = openat(dir_fd, FILE_NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno == ENOSPC ? ERR_STORE_FULL : ERR_STORE_FAILED, errno,
                       "create " FILE_NAME);
    return 0;
}

static bool on_check(void *user, struct sql_row *row) {
    struct str text = sql_get_bytes(row, 0);
    if (!str_is(text, STR("ok")))
        err_set(user, ERR_STORE_CORRUPT, "%.*s", (int)MIN(text.n, (size_t)160), text.p);
    return false;
}

static bool on_mode(void *user, struct sql_row *row) {
    *(bool *)user = str_is(sql_get_bytes(row, 0), STR("wal"));
    return false;
}

/* Checks the file before it writes anything to it. */
static int db_prepare_file(struct sql *s, int dir_fd, unsigned *ret_was, struct err *e) {
    struct err damage = {0};
    bool is_wal = false;
    int r = sql_exec(s, "PRAGMA quick_check(1)", on_check, &damage, e);
    if (r == 0 && damage.code != ERR_NONE) {
        *e = damage;
        r = -(int)damage.code;
    }
    if (r == 0)
        r = sql_exec(s, "PRAGMA synchronous = FULL", NULL, NULL, e);
    if (r == 0)
        r = schema_migrate(s, &schema_steps, ret_was, e);
    if (r == 0)
        r = sql_exec(s, "PRAGMA journal_mode = WAL", on_mode, &is_wal, e);
    if (r == 0 && !is_wal)
        r = err_set(e, ERR_STORE_FAILED,
                    "set journal_mode to WAL: the file system of the state directory "
                    "does not support a write-ahead log");
    if (r == 0)
        r = sql_exec(s, "PRAGMA query_only = ON", NULL, NULL, e);
    if (r == 0 && fsync(dir_fd) < 0)
        r = err_sys(e, ERR_STORE_FAILED, errno, "sync the state directory");
    return r;
}

static bool on_facts(void *user, struct sql_row *row) {
    struct db_facts *facts = user;
    facts->head_sequence = (uint64_t)sql_get_int(row, 0);
    facts->oldest_sequence = (uint64_t)sql_get_int(row, 1);
    facts->sandbox_number = (uint64_t)sql_get_int(row, 2);
    facts->exec_number = (uint64_t)sql_get_int(row, 3);
    return false;
}

static int db_open_parts(struct db *db, uv_loop_t *loop, const char *dir, struct db_facts *facts,
                         struct err *e) {
    char path[PATH_MAX];
    unsigned was;
    int r = db_lock_dir(db, dir, e);
    snprintf(path, sizeof path, "/proc/self/fd/%d/" FILE_NAME, db->dir_fd);
    db->had_index = r < 0 || faccessat(db->dir_fd, INDEX_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (r == 0)
        r = db_make_file(db->dir_fd, e);
    if (r == 0)
        r = sql_open(path, schema_statements, STATEMENT_COUNT, &db->reader, e);
    if (r == 0)
        r = db_prepare_file(db->reader, db->dir_fd, &was, e);
    if (r == 0)
        r = sql_run(db->reader, STATEMENT_FACTS, NULL, 0, on_facts, facts, e);
    if (r == 0)
        r = writer_start(loop, path, &db->writer, e);
    if (r < 0)
        return r;
    facts->is_new = was == 0;
    sql_mark_running(db->reader);
    sql_keep_log(db->reader,
                 false); /* the reader closes last, so its close may checkpoint the log */
    return 0;
}

/* SQLite creates an index for the log as soon as it opens the file, and leaves it next to a file
 * that it cannot read. Remove the index, so that a failed start changes nothing. */
static void db_leave_as_found(struct db *db) {
    sql_close(TAKE(db->reader));
    if (db->dir_fd >= 0 && !db->had_index)
        unlinkat(db->dir_fd, INDEX_NAME, 0);
}

int db_open(uv_loop_t *loop, const char *dir, struct db **ret_db, struct db_facts *ret_facts,
            struct err *e) {
    struct db_facts facts = {0};
    struct db *db = calloc(1, sizeof *db);
    if (!db)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    db->dir_fd = -1;
    if (db_open_parts(db, loop, dir, &facts, e) < 0) {
        db_leave_as_found(db);
        db_free(db);
        return err_wrap(e, "open the state");
    }
    *ret_db = db;
    *ret_facts = facts;
    return 0;
}

static void on_writer_closed(void *user) {
    struct db *db = user;
    void (*on_closed)(void *) = db->on_closed;
    void *owner = db->user;
    db_free(db);
    on_closed(owner);
}

void db_close(struct db *db, void (*on_closed)(void *user), void *user) {
    db->on_closed = on_closed;
    db->user = user;
    writer_close(db->writer, on_writer_closed, db);
}

/* ---- Writing: values are in the order of the statements in schema.c ---- */

struct db_txn *db_begin(struct db *db) {
    return writer_begin(db->writer);
}

void db_drop(struct db_txn *t) {
    writer_drop(t);
}

void db_put_sandbox(struct db_txn *t, const struct db_sandbox *row) {
    const struct sql_value values[] = {
        sql_text(row->id),       sql_text(row->owner),
        sql_int(row->number),    sql_int(row->state),
        sql_int(row->wanted),    sql_int(row->slot),
        sql_blob(row->record),   sql_int((uint64_t)row->deleted_unix_ms),
        sql_text(row->instance), sql_text(row->driver)};
    writer_add(t, STATEMENT_PUT_SANDBOX, values, COUNT_OF(values));
}

void db_put_exec(struct db_txn *t, const struct db_exec *row) {
    const struct sql_value values[] = {
        sql_text(row->id),   sql_text(row->sandbox_id), sql_text(row->owner), sql_int(row->number),
        sql_int(row->state), sql_int(row->cgroup),      sql_blob(row->record)};
    writer_add(t, STATEMENT_PUT_EXEC, values, COUNT_OF(values));
}

void db_put_event(struct db_txn *t, const struct db_event *row) {
    const struct sql_value values[] = {sql_int(row->sequence), sql_int((uint64_t)row->time_unix_ms),
                                       sql_text(row->owner),   sql_text(row->sandbox_id),
                                       sql_int(row->kind),     sql_blob(row->labels),
                                       sql_blob(row->record)};
    writer_add(t, STATEMENT_PUT_EVENT, values, COUNT_OF(values));
}

void db_put_request(struct db_txn *t, const struct db_request *row) {
    const struct str digest = {(const char *)row->digest, sizeof row->digest};
    const struct sql_value values[] = {sql_text(row->identity),
                                       sql_text(row->request_id),
                                       sql_text(row->method),
                                       sql_blob(digest),
                                       sql_text(row->object_id),
                                       sql_blob(row->answer),
                                       sql_int((uint64_t)row->expires_unix_ms)};
    writer_add(t, STATEMENT_PUT_REQUEST, values, COUNT_OF(values));
}

void db_forget_execs(struct db_txn *t, struct str sandbox_id) {
    const struct sql_value value = sql_text(sandbox_id);
    writer_add(t, STATEMENT_FORGET_EXECS, &value, 1);
}

void db_forget_exec(struct db_txn *t, struct str exec_id) {
    const struct sql_value value = sql_text(exec_id);
    writer_add(t, STATEMENT_FORGET_EXEC, &value, 1);
}

void db_prune(struct db_txn *t, int64_t now_unix_ms, int64_t events_before_unix_ms,
              uint64_t events_least, int64_t deleted_before_unix_ms) {
    const struct sql_value requests = sql_int((uint64_t)now_unix_ms);
    const struct sql_value events[] = {sql_int((uint64_t)events_before_unix_ms),
                                       sql_int(MIN(events_least, (uint64_t)INT64_MAX))};
    const struct sql_value sandboxes = sql_int((uint64_t)deleted_before_unix_ms);
    writer_add(t, STATEMENT_PRUNE_REQUESTS, &requests, 1);
    writer_add(t, STATEMENT_PRUNE_EVENTS, events, COUNT_OF(events));
    writer_add(t, STATEMENT_PRUNE_SANDBOXES, &sandboxes, 1);
}

void db_spoil(struct db_txn *t) {
    writer_spoil(t);
}

void db_commit(struct db_txn *t, db_done *done, void *user) {
    writer_commit(t, done, user);
}

/* ---- Reading ---- */

/* The callback of a read, and the number of rows it got. */
struct reading {
    union {
        db_on_sandbox *on_sandbox;
        db_on_exec *on_exec;
        db_on_event *on_event;
        db_on_request *on_request;
    };
    void *user;
    int rows;
};

static bool on_sandbox_row(void *user, struct sql_row *row) {
    struct reading *r = user;
    const struct db_sandbox sandbox = {
        .id = sql_get_bytes(row, 0),
        .owner = sql_get_bytes(row, 1),
        .number = (uint64_t)sql_get_int(row, 2),
        .state = (uint32_t)sql_get_int(row, 3),
        .wanted = (uint32_t)sql_get_int(row, 4),
        .slot = (uint64_t)sql_get_int(row, 5),
        .record = sql_get_bytes(row, 6),
        .deleted_unix_ms = sql_get_int(row, 7),
        .instance = sql_get_bytes(row, 8),
        .driver = sql_get_bytes(row, 9),
    };
    r->rows++;
    return r->on_sandbox(r->user, &sandbox);
}

static bool on_exec_row(void *user, struct sql_row *row) {
    struct reading *r = user;
    const struct db_exec exec = {
        .id = sql_get_bytes(row, 0),
        .sandbox_id = sql_get_bytes(row, 1),
        .owner = sql_get_bytes(row, 2),
        .number = (uint64_t)sql_get_int(row, 3),
        .state = (uint32_t)sql_get_int(row, 4),
        .cgroup = (uint32_t)sql_get_int(row, 5),
        .record = sql_get_bytes(row, 6),
    };
    r->rows++;
    return r->on_exec(r->user, &exec);
}

static bool on_event_row(void *user, struct sql_row *row) {
    struct reading *r = user;
    const struct db_event event = {
        .sequence = (uint64_t)sql_get_int(row, 0),
        .time_unix_ms = sql_get_int(row, 1),
        .owner = sql_get_bytes(row, 2),
        .sandbox_id = sql_get_bytes(row, 3),
        .kind = (uint32_t)sql_get_int(row, 4),
        .labels = sql_get_bytes(row, 5),
        .record = sql_get_bytes(row, 6),
    };
    r->rows++;
    return r->on_event(r->user, &event);
}

static bool on_request_row(void *user, struct sql_row *row) {
    struct reading *r = user;
    struct db_request request = {
        .identity = sql_get_bytes(row, 0),
        .request_id = sql_get_bytes(row, 1),
        .method = sql_get_bytes(row, 2),
        .object_id = sql_get_bytes(row, 4),
        .answer = sql_get_bytes(row, 5),
        .expires_unix_ms = sql_get_int(row, 6),
    };
    struct str digest = sql_get_bytes(row, 3);
    memcpy(request.digest, digest.p, MIN(digest.n, sizeof request.digest));
    r->rows++;
    return r->on_request(r->user, &request);
}

static uint64_t db_newest_below(uint64_t before) {
    return before == 0 ? INT64_MAX : MIN(before, (uint64_t)INT64_MAX);
}

int db_each_living(struct db *db, db_on_sandbox *on, void *user, struct err *e) {
    struct reading r = {.on_sandbox = on, .user = user};
    return sql_run(db->reader, STATEMENT_LIVING_SANDBOXES, NULL, 0, on_sandbox_row, &r, e);
}

int db_each_running(struct db *db, db_on_exec *on, void *user, struct err *e) {
    struct reading r = {.on_exec = on, .user = user};
    return sql_run(db->reader, STATEMENT_RUNNING_EXECS, NULL, 0, on_exec_row, &r, e);
}

int db_list_sandboxes(struct db *db, struct str owner, uint64_t before, db_on_sandbox *on,
                      void *user, struct err *e) {
    struct reading r = {.on_sandbox = on, .user = user};
    const struct sql_value values[] = {sql_int(db_newest_below(before)), sql_text(owner)};
    return owner.n == 0
               ? sql_run(db->reader, STATEMENT_LIST_SANDBOXES, values, 1, on_sandbox_row, &r, e)
               : sql_run(db->reader, STATEMENT_LIST_SANDBOXES_OF_OWNER, values, 2, on_sandbox_row,
                         &r, e);
}

int db_list_execs(struct db *db, struct str owner, struct str sandbox_id, uint64_t before,
                  db_on_exec *on, void *user, struct err *e) {
    struct reading r = {.on_exec = on, .user = user};
    const struct sql_value number = sql_int(db_newest_below(before));
    const struct sql_value of_owner[] = {number, sql_text(owner)};
    const struct sql_value of_sandbox[] = {number, sql_text(sandbox_id), sql_text(owner)};
    if (sandbox_id.n > 0)
        return sql_run(db->reader, STATEMENT_LIST_EXECS_OF_SANDBOX, of_sandbox, 3, on_exec_row, &r,
                       e);
    if (owner.n > 0)
        return sql_run(db->reader, STATEMENT_LIST_EXECS_OF_OWNER, of_owner, 2, on_exec_row, &r, e);
    return sql_run(db->reader, STATEMENT_LIST_EXECS, &number, 1, on_exec_row, &r, e);
}

int db_list_events(struct db *db, struct str owner, uint64_t after, db_on_event *on, void *user,
                   struct err *e) {
    struct reading r = {.on_event = on, .user = user};
    const struct sql_value values[] = {sql_int(MIN(after, (uint64_t)INT64_MAX)), sql_text(owner)};
    return owner.n == 0 ? sql_run(db->reader, STATEMENT_LIST_EVENTS, values, 1, on_event_row, &r, e)
                        : sql_run(db->reader, STATEMENT_LIST_EVENTS_OF_OWNER, values, 2,
                                  on_event_row, &r, e);
}

int db_find_sandbox(struct db *db, struct str id, db_on_sandbox *on, void *user, struct err *e) {
    struct reading r = {.on_sandbox = on, .user = user};
    const struct sql_value value = sql_text(id);
    int failed = sql_run(db->reader, STATEMENT_FIND_SANDBOX, &value, 1, on_sandbox_row, &r, e);
    return failed < 0 ? failed : r.rows;
}

int db_find_exec(struct db *db, struct str id, db_on_exec *on, void *user, struct err *e) {
    struct reading r = {.on_exec = on, .user = user};
    const struct sql_value value = sql_text(id);
    int failed = sql_run(db->reader, STATEMENT_FIND_EXEC, &value, 1, on_exec_row, &r, e);
    return failed < 0 ? failed : r.rows;
}

int db_find_request(struct db *db, struct str identity, struct str request_id, db_on_request *on,
                    void *user, struct err *e) {
    struct reading r = {.on_request = on, .user = user};
    const struct sql_value values[] = {sql_text(identity), sql_text(request_id)};
    int failed = sql_run(db->reader, STATEMENT_FIND_REQUEST, values, 2, on_request_row, &r, e);
    return failed < 0 ? failed : r.rows;
}

static bool on_oldest(void *user, struct sql_row *row) {
    *(uint64_t *)user = (uint64_t)sql_get_int(row, 0);
    return false;
}

uint64_t db_oldest_sequence(struct db *db) {
    uint64_t oldest = 0;
    struct err e;
    return sql_run(db->reader, STATEMENT_OLDEST_EVENT, NULL, 0, on_oldest, &oldest, &e) < 0
               ? 0
               : oldest;
}
