#include "store/schema.h"

#include <stdio.h>

/* The statements use numbers of the API's enums: SANDBOX_STATE_DELETED is 8, and exec states below
 * EXEC_STATE_EXITED (3) are not final. tests/unit/test_db.c compares them with berm.proto. */
static const char version_1[] =
    "CREATE TABLE sandboxes ("
    " number INTEGER PRIMARY KEY,"
    " id TEXT NOT NULL UNIQUE,"
    " owner TEXT NOT NULL,"
    " state INTEGER NOT NULL,"
    " wanted INTEGER NOT NULL,"
    " slot INTEGER NOT NULL,"
    " deleted_unix_ms INTEGER NOT NULL,"
    " record BLOB NOT NULL"
    ") STRICT;"
    "CREATE INDEX sandboxes_of_owner ON sandboxes (owner, number) WHERE record <> x'';"
    "CREATE INDEX sandboxes_living ON sandboxes (number) WHERE state <> 8;"
    "CREATE INDEX sandboxes_deleted ON sandboxes (deleted_unix_ms)"
    " WHERE deleted_unix_ms > 0 AND record <> x'';"

    "CREATE TABLE execs ("
    " number INTEGER PRIMARY KEY,"
    " id TEXT NOT NULL UNIQUE,"
    " sandbox_id TEXT NOT NULL,"
    " owner TEXT NOT NULL,"
    " state INTEGER NOT NULL,"
    " leaf INTEGER NOT NULL,"
    " record BLOB NOT NULL"
    ") STRICT;"
    "CREATE INDEX execs_of_sandbox ON execs (sandbox_id, number) WHERE record <> x'';"
    "CREATE INDEX execs_of_owner ON execs (owner, number) WHERE record <> x'';"
    "CREATE INDEX execs_running ON execs (number) WHERE state < 3;"

    "CREATE TABLE events ("
    " sequence INTEGER PRIMARY KEY,"
    " time_unix_ms INTEGER NOT NULL,"
    " owner TEXT NOT NULL,"
    " sandbox_id TEXT NOT NULL,"
    " kind INTEGER NOT NULL,"
    " labels BLOB NOT NULL,"
    " record BLOB NOT NULL"
    ") STRICT;"
    "CREATE INDEX events_of_owner ON events (owner, sequence);"

    "CREATE TABLE requests ("
    " identity TEXT NOT NULL,"
    " request_id TEXT NOT NULL,"
    " method TEXT NOT NULL,"
    " digest BLOB NOT NULL,"
    " object_id TEXT NOT NULL,"
    " answer BLOB NOT NULL,"
    " expires_unix_ms INTEGER NOT NULL,"
    " PRIMARY KEY (identity, request_id)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX requests_expiring ON requests (expires_unix_ms);";

static const char version_2[] = "ALTER TABLE sandboxes ADD COLUMN place TEXT NOT NULL DEFAULT '';";

static const char version_3[] = "ALTER TABLE sandboxes RENAME COLUMN place TO instance;"
                                "ALTER TABLE execs RENAME COLUMN leaf TO cgroup;"
                                "ALTER TABLE sandboxes"
                                " ADD COLUMN driver TEXT NOT NULL DEFAULT 'native';";

static const char *const texts[] = {version_1, version_2, version_3};
const struct schema_steps schema_steps = {texts, COUNT_OF(texts)};

#define SANDBOX "id, owner, number, state, wanted, slot, record, deleted_unix_ms, instance, driver"
#define EXEC "id, sandbox_id, owner, number, state, cgroup, record"
#define EVENT "sequence, time_unix_ms, owner, sandbox_id, kind, labels, record"
#define REQUEST "identity, request_id, method, digest, object_id, answer, expires_unix_ms"

/* Lists omit rows without a record. Their conditions repeat those of the partial indexes word for
 * word, so that SQLite uses the indexes. */
const char *const schema_statements[STATEMENT_COUNT] = {
    [STATEMENT_BEGIN] = "BEGIN IMMEDIATE",
    [STATEMENT_COMMIT] = "COMMIT",
    [STATEMENT_PUT_SANDBOX] =
        "INSERT INTO sandboxes (" SANDBOX ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET state = excluded.state, wanted = excluded.wanted,"
        " slot = excluded.slot, record = excluded.record,"
        " deleted_unix_ms = excluded.deleted_unix_ms, instance = excluded.instance",
    [STATEMENT_PUT_EXEC] =
        "INSERT INTO execs (" EXEC ") VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET state = excluded.state, cgroup = excluded.cgroup,"
        " record = excluded.record",
    [STATEMENT_PUT_EVENT] = "INSERT INTO events (" EVENT ") VALUES (?, ?, ?, ?, ?, ?, ?)",
    [STATEMENT_PUT_REQUEST] =
        "INSERT OR REPLACE INTO requests (" REQUEST ") VALUES (?, ?, ?, ?, ?, ?, ?)",
    [STATEMENT_FORGET_EXECS] =
        "UPDATE execs SET record = x'' WHERE sandbox_id = ? AND record <> x''",
    [STATEMENT_FORGET_EXEC] = "UPDATE execs SET record = x'' WHERE id = ?",
    [STATEMENT_PRUNE_REQUESTS] = "DELETE FROM requests WHERE expires_unix_ms <= ?",
    /* Deletes from the oldest event up to the first that must stay, so that no gap appears when the
     * clock was set back. The newest event always stays, because its sequence must not be
     * reused. */
    [STATEMENT_PRUNE_EVENTS] =
        "DELETE FROM events WHERE"
        " sequence <= (SELECT max(sequence) FROM events) - max(?2, 1)"
        " AND sequence < ifnull((SELECT sequence FROM events WHERE time_unix_ms >= ?1"
        " ORDER BY sequence LIMIT 1), 9223372036854775807)",
    [STATEMENT_PRUNE_SANDBOXES] =
        "UPDATE sandboxes SET record = x''"
        " WHERE deleted_unix_ms > 0 AND record <> x'' AND deleted_unix_ms < ?",
    [STATEMENT_FACTS] = "SELECT ifnull((SELECT max(sequence) FROM events), 0),"
                        " ifnull((SELECT min(sequence) FROM events), 0),"
                        " ifnull((SELECT max(number) FROM sandboxes), 0),"
                        " ifnull((SELECT max(number) FROM execs), 0)",
    [STATEMENT_OLDEST_EVENT] = "SELECT ifnull(min(sequence), 0) FROM events",
    [STATEMENT_LIVING_SANDBOXES] =
        "SELECT " SANDBOX " FROM sandboxes WHERE state <> 8 ORDER BY number",
    [STATEMENT_RUNNING_EXECS] = "SELECT " EXEC " FROM execs WHERE state < 3 ORDER BY number",
    [STATEMENT_LIST_SANDBOXES] = "SELECT " SANDBOX " FROM sandboxes"
                                 " WHERE number < ? AND record <> x'' ORDER BY number DESC",
    [STATEMENT_LIST_SANDBOXES_OF_OWNER] =
        "SELECT " SANDBOX " FROM sandboxes"
        " WHERE number < ? AND owner = ? AND record <> x'' ORDER BY number DESC",
    [STATEMENT_LIST_EXECS] =
        "SELECT " EXEC " FROM execs WHERE number < ? AND record <> x'' ORDER BY number DESC",
    [STATEMENT_LIST_EXECS_OF_OWNER] =
        "SELECT " EXEC " FROM execs"
        " WHERE number < ? AND owner = ? AND record <> x'' ORDER BY number DESC",
    [STATEMENT_LIST_EXECS_OF_SANDBOX] =
        "SELECT " EXEC " FROM execs WHERE number < ?1 AND sandbox_id = ?2"
        " AND (?3 = '' OR owner = ?3) AND record <> x'' ORDER BY number DESC",
    [STATEMENT_LIST_EVENTS] = "SELECT " EVENT " FROM events WHERE sequence > ? ORDER BY sequence",
    [STATEMENT_LIST_EVENTS_OF_OWNER] =
        "SELECT " EVENT " FROM events WHERE sequence > ? AND owner = ? ORDER BY sequence",
    [STATEMENT_FIND_SANDBOX] = "SELECT " SANDBOX " FROM sandboxes WHERE id = ?",
    [STATEMENT_FIND_EXEC] = "SELECT " EXEC " FROM execs WHERE id = ?",
    [STATEMENT_FIND_REQUEST] =
        "SELECT " REQUEST " FROM requests WHERE identity = ? AND request_id = ?",
};

static bool on_number(void *user, struct sql_row *row) {
    *(int64_t *)user = sql_get_int(row, 0);
    return false;
}

static int schema_take_steps(struct sql *s, const struct schema_steps *steps, unsigned from,
                             struct err *e) {
    char text[48];
    int r = sql_exec(s, "BEGIN IMMEDIATE", NULL, NULL, e);
    for (unsigned i = from; r == 0 && i < steps->n; i++)
        r = sql_exec(s, steps->texts[i], NULL, NULL, e);
    snprintf(text, sizeof text, "PRAGMA user_version = %u", steps->n);
    if (r == 0)
        r = sql_exec(s, text, NULL, NULL, e);
    if (r == 0)
        r = sql_exec(s, "COMMIT", NULL, NULL, e);
    if (r < 0)
        sql_rollback(s);
    return r;
}

int schema_migrate(struct sql *s, const struct schema_steps *steps, unsigned *ret_was,
                   struct err *e) {
    int64_t version = 0, tables = 0;
    int r = sql_exec(s, "PRAGMA user_version", on_number, &version, e);
    if (r == 0)
        r = sql_exec(s, "SELECT count(*) FROM sqlite_schema", on_number, &tables, e);
    if (r < 0)
        return r;
    if (version > steps->n || version < 0)
        return err_set(e, ERR_STORE_FAILED,
                       "the state has version %lld, this daemon supports up to %u; use a newer "
                       "daemon",
                       (long long)version, steps->n);
    if (version == 0 && tables > 0)
        return err_set(e, ERR_STORE_CORRUPT,
                       "the file has tables but no version, so Berm did not create it");
    if (version < steps->n)
        r = schema_take_steps(s, steps, (unsigned)version, e);
    if (r < 0)
        return err_wrap(e, "migrate the state from version %lld to %u", (long long)version,
                        steps->n);
    *ret_was = (unsigned)version;
    return 0;
}
