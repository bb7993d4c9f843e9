/* db — records, events and request ids in one SQLite file.
 *
 * Owner:   the registry.                End: db_close, then on_closed from the loop.
 * Writing: a txn collects writes, and db_commit queues it for the writer thread. The thread writes
 *          all queued txns in one SQLite transaction (WAL, synchronous=FULL), so commits are
 *          grouped. `done` runs from the loop, in the order of db_commit, never inside db_commit.
 * Failing: when a transaction fails, every queued txn without a result fails too, in order. So no
 *          later write can depend on an earlier one that was lost.
 * Reading: on the loop's thread, through a second connection. Keep reads short. They see committed
 *          data.
 * Bounds:  DB_QUEUE_BYTES of queued writes. Past that, `done` reports LIMIT_REACHED, in order; txns
 *          that were committed between the refused txn and its `done` fail too.
 * Errors:  STORE_FULL, STORE_FAILED, STORE_CORRUPT; INTERNAL when a write violates the schema (a
 *          duplicate number, id or sequence).     Spec: spec/store.md
 * Inside `done` you may call any function here; inside a read's callback, any except the same
 * read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/str.h"

#define DB_QUEUE_BYTES ((size_t)64 << 20)

struct db;
struct db_txn;

/* Rows. db_put_* copies the slices. In reads, the slices are borrowed for the callback. */
struct db_sandbox {
    struct str id;
    struct str owner;
    uint64_t number;   /* creation order, from 1, never reused */
    uint32_t state;    /* SandboxState */
    uint32_t wanted;   /* core's goal for the sandbox */
    uint64_t slot;     /* a number that the driver chose, such as the range of uids */
    struct str record; /* berm.v1.Sandbox; empty once pruned, when only the id stays reserved */
    int64_t deleted_unix_ms; /* 0: not deleted */
    struct str instance;     /* the driver's name of the instance; empty: the same as the id */
    struct str driver;       /* name of the driver */
};
struct db_exec {
    struct str id;
    struct str sandbox_id;
    struct str owner;
    uint64_t number; /* creation order, from 1, never reused */
    uint32_t state;  /* ExecState */
    uint32_t cgroup; /* number of the exec cgroup; 0: none */
    /* berm.v1.Exec; empty after db_forget_exec or db_forget_execs, when only the id stays
     * reserved */
    struct str record;
};
struct db_event {
    uint64_t sequence;
    int64_t time_unix_ms;
    struct str owner;      /* empty for events of the daemon, which only admins see */
    struct str sandbox_id; /* may be empty */
    uint32_t kind;         /* EventKind */
    struct str labels;     /* labels of the sandbox at that time: key NUL value NUL … */
    struct str record;     /* berm.v1.Event */
};
struct db_request {
    struct str identity;
    struct str request_id;
    struct str method;
    uint8_t digest[32];
    struct str object_id; /* the object that the request created or changed */
    struct str answer;    /* stored reply, if it cannot be derived from the object; may be empty */
    int64_t expires_unix_ms;
};

/* What db_open reads from the file. */
struct db_facts {
    uint64_t head_sequence;   /* sequence of the newest event; 0: none yet */
    uint64_t oldest_sequence; /* 0: none */
    uint64_t sandbox_number;  /* number of the newest sandbox */
    uint64_t exec_number;
    bool is_new;
};

/* Opens, checks and migrates DIR/berm.db, and starts the writer. On STORE_CORRUPT the file is not
 * changed. Fails with STORE_FAILED when the file has a newer version or another process uses
 * DIR. */
MUST_USE int db_open(uv_loop_t *loop, const char *dir, struct db **ret_db,
                     struct db_facts *ret_facts, struct err *e);
/* Commits all queued txns, and those that their `done` callbacks commit, then calls on_closed. Drop
 * a txn that is begun but not committed before this call. */
void db_close(struct db *db, void (*on_closed)(void *user), void *user);

typedef void db_done(void *user, const struct err *e); /* e is NULL when the txn is durable */

/* Returns NULL when out of memory. A later put that fails marks the txn, and `done` reports it, so
 * puts need no check. */
MUST_USE struct db_txn *db_begin(struct db *db);
/* Discards a txn that is not committed. */
void db_drop(struct db_txn *t);
/* Inserts the row or updates the row with this id. An update does not change owner, number,
 * driver and sandbox_id. */
void db_put_sandbox(struct db_txn *t, const struct db_sandbox *row);
void db_put_exec(struct db_txn *t, const struct db_exec *row);
void db_put_event(struct db_txn *t, const struct db_event *row);
/* Inserts the row or replaces the row with the same identity and request id. */
void db_put_request(struct db_txn *t, const struct db_request *row);
/* Deletes the records of all execs of a deleted sandbox. The ids stay reserved. */
void db_forget_execs(struct db_txn *t, struct str sandbox_id);
/* Deletes the record of one exec, when a sandbox has more ended execs than it may keep. The id
 * stays reserved. */
void db_forget_exec(struct db_txn *t, struct str exec_id);
/* Deletes expired requests, the histories of sandboxes deleted before deleted_before_unix_ms, and
 * events that are older than events_before_unix_ms and not among the newest events_least. Deletes
 * the oldest events first, without gaps, and keeps the newest, which holds the last sequence
 * number. */
void db_prune(struct db_txn *t, int64_t now_unix_ms, int64_t events_before_unix_ms,
              uint64_t events_least, int64_t deleted_before_unix_ms);
/* Marks the whole txn as failed. Call this when a change could not be added to the txn. */
void db_spoil(struct db_txn *t);
/* Takes ownership of the txn. An empty txn is a barrier: its `done` runs after all earlier ones.
 * `done` may be NULL. */
void db_commit(struct db_txn *t, db_done *done, void *user);

/* Reads return 0, STORE_FAILED or STORE_CORRUPT. A callback that returns false ends the read.
 * Slices are never NULL. */
typedef bool db_on_sandbox(void *user, const struct db_sandbox *row);
typedef bool db_on_exec(void *user, const struct db_exec *row);
typedef bool db_on_event(void *user, const struct db_event *row);
/* All sandboxes that are not DELETED, oldest first. */
MUST_USE int db_each_living(struct db *db, db_on_sandbox *on, void *user, struct err *e);
/* All execs in a state that is not final, oldest first. */
MUST_USE int db_each_running(struct db *db, db_on_exec *on, void *user, struct err *e);
/* Rows that have a record, newest first, with a number below `before` (0: from the newest). An
 * empty owner means all owners, an empty sandbox_id all sandboxes. */
MUST_USE int db_list_sandboxes(struct db *db, struct str owner, uint64_t before, db_on_sandbox *on,
                               void *user, struct err *e);
MUST_USE int db_list_execs(struct db *db, struct str owner, struct str sandbox_id, uint64_t before,
                           db_on_exec *on, void *user, struct err *e);
/* Events with a sequence above `after`, in order. An empty owner means all owners and the daemon's
 * own. */
MUST_USE int db_list_events(struct db *db, struct str owner, uint64_t after, db_on_event *on,
                            void *user, struct err *e);
/* Returns 1 after calling the callback, or 0 if there is no such row. Also finds rows without a
 * record. */
MUST_USE int db_find_sandbox(struct db *db, struct str id, db_on_sandbox *on, void *user,
                             struct err *e);
MUST_USE int db_find_exec(struct db *db, struct str id, db_on_exec *on, void *user, struct err *e);
typedef bool db_on_request(void *user, const struct db_request *row);
MUST_USE int db_find_request(struct db *db, struct str identity, struct str request_id,
                             db_on_request *on, void *user, struct err *e);
/* Sequence of the oldest event; 0 when there is none or the read fails. */
uint64_t db_oldest_sequence(struct db *db);
