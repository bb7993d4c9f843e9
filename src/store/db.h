/* db — records, events and request ids in one SQLite file.
 *
 * Owner:   the registry.                Ends: db_close, then on_closed from the loop.
 * Writing: a txn gathers writes; db_commit hands it to the one writer thread, which takes all that
 *          wait into a single SQLite transaction (WAL, synchronous=FULL): group commit by itself.
 *          Answers come from the loop, in the order of db_commit, never from inside it.
 * Failing: when a transaction fails, every txn handed over and not yet answered fails with it, in
 *          order, so that no later write stands on an earlier one that is not there.
 * Reading: on the loop's thread, by a second connection, short reads only; sees what is committed.
 * Bounds:  DB_QUEUE_BYTES of writes wait; beyond that db_commit answers LIMIT_REACHED through `done`,
 *          in order, and what is handed over after it and before that answer fails with it too.
 * Errors:  STORE_FULL, STORE_FAILED, STORE_CORRUPT; INTERNAL when a write breaks a rule of the
 *          schema (a number, id or sequence given twice).     Spec: spec/store.md
 * Inside `done` you may call anything here. Inside a read's callback: everything but the same read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/str.h"

#define DB_QUEUE_BYTES ((size_t)64 << 20)

struct db;
struct db_txn;

/* Rows. Slices are copied by db_put_*; in reads they are borrowed for the callback. */
struct db_sandbox {
    struct str id;
    struct str owner;
    uint64_t number;   /* order of creation, from 1, never reused */
    uint32_t state;    /* SandboxState */
    uint32_t wanted;   /* core's own: what the sandbox is on its way to */
    uint64_t slot;     /* the driver's own number, such as a range of uids */
    struct str record; /* berm.v1.Sandbox; empty: history is no longer kept, the id stays taken */
    int64_t deleted_unix_ms; /* 0 = not deleted */
    struct str instance;     /* the driver's name for it; empty: its id */
    struct str driver;       /* name of the driver it belongs to */
};
struct db_exec {
    struct str id;
    struct str sandbox_id;
    struct str owner;
    uint64_t number;   /* order of creation, from 1, never reused */
    uint32_t state;    /* ExecState */
    uint32_t cgroup;   /* its cgroup; 0 = none */
    struct str record; /* berm.v1.Exec; empty: gone with its sandbox, the id stays taken */
};
struct db_event {
    uint64_t sequence;
    int64_t time_unix_ms;
    struct str owner;      /* empty: the daemon's own, for admins alone */
    struct str sandbox_id; /* may be empty */
    uint32_t kind;         /* EventKind */
    struct str labels;     /* of the sandbox then: key NUL value NUL … */
    struct str record;     /* berm.v1.Event */
};
struct db_request {
    struct str identity;
    struct str request_id;
    struct str method;
    uint8_t digest[32];
    struct str object_id; /* what it made or changed */
    struct str answer;    /* bytes to answer with where the object does not say it; may be empty */
    int64_t expires_unix_ms;
};

/* What is known when the file has been opened. */
struct db_facts {
    uint64_t head_sequence;   /* of events; 0 = none yet */
    uint64_t oldest_sequence; /* 0 = none */
    uint64_t sandbox_number;  /* last one given */
    uint64_t exec_number;
    bool is_new;
};

/* Opens, checks and migrates DIR/berm.db, and starts the writer. STORE_CORRUPT leaves the file as it
 * is; a newer version is STORE_FAILED, as is a DIR that another process holds. */
MUST_USE int db_open(uv_loop_t *loop, const char *dir, struct db **ret_db,
                     struct db_facts *ret_facts, struct err *e);
/* Commits what waits, and what is handed over from inside those answers; then reports. A txn that is
 * begun and not yet handed over has to be dropped before. */
void db_close(struct db *db, void (*on_closed)(void *user), void *user);

typedef void db_done(void *user, const struct err *e); /* NULL: it is durable */

/* NULL: out of memory, and nothing was begun. A failure to gather afterwards sticks and is answered
 * by `done`, so puts need no check. */
MUST_USE struct db_txn *db_begin(struct db *db);
/* Ends a txn that is not to be committed. */
void db_drop(struct db_txn *t);
/* New, or in place of what has its id; owner, number, driver and sandbox_id stay as they were first given. */
void db_put_sandbox(struct db_txn *t, const struct db_sandbox *row);
void db_put_exec(struct db_txn *t, const struct db_exec *row);
void db_put_event(struct db_txn *t, const struct db_event *row);
/* New, or in place of the one with the same identity and request id. */
void db_put_request(struct db_txn *t, const struct db_request *row);
/* All programs of a deleted sandbox lose their records and keep their ids. */
void db_forget_execs(struct db_txn *t, struct str sandbox_id);
/* One ended program above the number kept: the same for it alone. */
void db_forget_exec(struct db_txn *t, struct str exec_id);
/* Drops requests past their time, events past both bounds (the oldest first, never leaving a hole,
 * and never the newest, which keeps the sequence), histories of sandboxes past theirs. */
void db_prune(struct db_txn *t, int64_t now_unix_ms, int64_t events_before_unix_ms,
              uint64_t events_least, int64_t deleted_before_unix_ms);
/* Makes it fail as a whole: what it should have held could not be gathered. */
void db_spoil(struct db_txn *t);
/* Takes the txn. An empty one is a barrier: answered when all before it are. `done` may be NULL. */
void db_commit(struct db_txn *t, db_done *done, void *user);

/* Reads: 0, STORE_FAILED or STORE_CORRUPT. A callback that answers false ends the reading. Slices are
 * never NULL. */
typedef bool db_on_sandbox(void *user, const struct db_sandbox *row);
typedef bool db_on_exec(void *user, const struct db_exec *row);
typedef bool db_on_event(void *user, const struct db_event *row);
/* All that are not DELETED, oldest first. */
MUST_USE int db_each_living(struct db *db, db_on_sandbox *on, void *user, struct err *e);
/* All programs in a state that is not final, oldest first. */
MUST_USE int db_each_running(struct db *db, db_on_exec *on, void *user, struct err *e);
/* Newest first, below `before` (0 = from the newest), those that have a record; an empty owner means
 * everyone's, an empty sandbox_id all sandboxes. */
MUST_USE int db_list_sandboxes(struct db *db, struct str owner, uint64_t before, db_on_sandbox *on,
                               void *user, struct err *e);
MUST_USE int db_list_execs(struct db *db, struct str owner, struct str sandbox_id, uint64_t before,
                           db_on_exec *on, void *user, struct err *e);
/* In order, those above `after`; an empty owner means everyone's and the daemon's own. */
MUST_USE int db_list_events(struct db *db, struct str owner, uint64_t after, db_on_event *on,
                            void *user, struct err *e);
/* 1 and the callback when it is there, 0 when not; rows without a record are found too. */
MUST_USE int db_find_sandbox(struct db *db, struct str id, db_on_sandbox *on, void *user,
                             struct err *e);
MUST_USE int db_find_exec(struct db *db, struct str id, db_on_exec *on, void *user, struct err *e);
typedef bool db_on_request(void *user, const struct db_request *row);
MUST_USE int db_find_request(struct db *db, struct str identity, struct str request_id,
                             db_on_request *on, void *user, struct err *e);
/* The oldest event kept; 0 = none, or it cannot be read. */
uint64_t db_oldest_sequence(struct db *db);
