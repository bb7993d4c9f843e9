/* schema — the tables, the migrations between versions, and every statement.
 *
 * The version is the number of migration steps, stored in the file as `PRAGMA user_version`. A new
 * version adds a row to `texts` in schema.c and a section to spec/store.md. Existing rows never
 * change. */
#pragma once

#include "base/err.h"
#include "store/sql.h"

enum schema_statement {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_PUT_SANDBOX,
    STATEMENT_PUT_EXEC,
    STATEMENT_PUT_EVENT,
    STATEMENT_PUT_REQUEST,
    STATEMENT_FORGET_EXECS,
    STATEMENT_FORGET_EXEC,
    STATEMENT_PRUNE_REQUESTS,
    STATEMENT_PRUNE_EVENTS,
    STATEMENT_PRUNE_SANDBOXES,
    STATEMENT_FACTS,
    STATEMENT_OLDEST_EVENT,
    STATEMENT_LIVING_SANDBOXES,
    STATEMENT_RUNNING_EXECS,
    STATEMENT_LIST_SANDBOXES,
    STATEMENT_LIST_SANDBOXES_OF_OWNER,
    STATEMENT_LIST_EXECS,
    STATEMENT_LIST_EXECS_OF_OWNER,
    STATEMENT_LIST_EXECS_OF_SANDBOX,
    STATEMENT_LIST_EVENTS,
    STATEMENT_LIST_EVENTS_OF_OWNER,
    STATEMENT_FIND_SANDBOX,
    STATEMENT_FIND_EXEC,
    STATEMENT_FIND_REQUEST,
    STATEMENT_COUNT,
};
extern const char *const schema_statements[STATEMENT_COUNT];

struct schema_steps {
    const char *const *texts;
    unsigned n;
};
extern const struct schema_steps schema_steps;

/* Migrates a file to version steps.n in one transaction. Fails with STORE_FAILED when the file is
 * newer, and with STORE_CORRUPT when it has tables but no version. It changes neither. */
MUST_USE int schema_migrate(struct sql *s, const struct schema_steps *steps, unsigned *ret_was,
                            struct err *e);
