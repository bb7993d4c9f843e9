/* ledger — the only way to change records. It commits records, events and request ids together.
 *
 * Owner:   the registry.            End: ledger_free, after the store has closed.
 * Entries: a callback builds an entry and commits it before it returns: ledger_begin, change the
 *          objects in memory, put the objects and their events, ledger_commit. Entries become
 *          durable in the order of their commits.
 * Replies: a caller that reports a change first waits for its entry (ledger_wait). So does a caller
 *          that reads an object whose last entry is still pending.
 * Failure: when the store fails, all pending entries fail. Each object returns to its durable
 *          record (on_reverted), each wait gets the error, and the ledger reuses the sequence
 *          numbers of the lost events. An object that must not forget a fact (its instance is gone,
 *          its program has exited) repeats the change a second after on_reverted.
 * Events:  the ledger wakes watches in the loop turn in which an entry becomes durable.
 * Bounds:  the newest LEDGER_RECENT events are in memory; older events are read from the store.
 * Errors:  EVENT_CURSOR_EXPIRED, STORE_FAILED, STORE_FULL, OUT_OF_MEMORY. */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "base/waiter.h"
#include "berm/v1/berm.pb-c.h"

#define LEDGER_RECENT 4096

struct db;
struct db_facts;
struct db_sandbox;
struct db_txn;
struct ledger;
struct entry;

/* The ledger's part of a sandbox or exec, embedded in that object. */
struct recorded {
    uint8_t *durable; /* the packed record in the store; NULL: not stored yet */
    size_t n_durable;
    uint32_t durable_extra; /* db_sandbox.wanted of that record; 0 for an exec */
    /* Number of the last entry that changed the object; 0: none since the daemon started. */
    uint64_t entry;
    /* Number of pending entries that refer to the object; free the object only at 0. */
    unsigned n_pending;
    const struct recorded_ops *ops;
};
struct recorded_ops {
    /* Called when the last entry that changed the object is durable. */
    void (*on_durable)(struct recorded *r);
    /* Restores the object from `durable`. If `durable` is NULL, the object was never stored. */
    void (*on_reverted)(struct recorded *r);
};

/* A wait for an entry, embedded in the waiting object. */
struct ledger_wait {
    struct list in_ledger;
    uint64_t entry;
    void (*on_done)(struct ledger_wait *w, const struct err *e); /* e NULL: the entry is durable */
};

/* A request id and the digest of its request, both stored by an entry. */
struct request_key {
    const char *identity;
    const char *request_id; /* empty: the request id is not stored */
    const char *method;
    uint8_t digest[32];
    int64_t keep_ms; /* how long the store keeps the request id */
};

struct ledger *ledger_open(uv_loop_t *loop, struct db *db, const struct db_facts *facts);
void ledger_free(struct ledger *l); /* call this after db_close has reported */

/* Starts an entry. Returns NULL, and changes nothing, if memory is short or the store is failing
 * now. */
struct entry *ledger_begin(struct ledger *l);
/* Adds an event: sets its sequence and time, and packs it before returning. `labels` are those of
 * the sandbox. Returns the sequence. */
uint64_t entry_event(struct entry *t, Berm__V1__Event *event, size_t n_labels,
                     Berm__V1__KeyValue *const *labels);
/* Adds the record. `own` has the columns that are not part of the record. */
void entry_put_sandbox(struct entry *t, struct recorded *r, const Berm__V1__Sandbox *record,
                       const struct db_sandbox *own);
void entry_put_exec(struct entry *t, struct recorded *r, const Berm__V1__Exec *record,
                    const char *owner, uint64_t number, uint32_t cgroup);
void entry_put_request(struct entry *t, const struct request_key *key, const char *object_id,
                       struct str answer);
/* Returns the transaction, for other writes: forget, prune. */
struct db_txn *entry_txn(struct entry *t);
/* Commits and frees the entry. `w` may be NULL; otherwise the loop calls its on_done. */
void ledger_commit(struct entry *t, struct ledger_wait *w);

/* Waits for the last entry that changed `r`, or for all entries so far if `r` is NULL. Returns
 * false if they are already durable; on_done does not fire then. */
bool ledger_wait(struct ledger *l, const struct recorded *r, struct ledger_wait *w);
void ledger_wait_init(struct ledger_wait *w,
                      void (*on_done)(struct ledger_wait *w, const struct err *e));
void ledger_wait_cancel(struct ledger_wait *w);

uint64_t ledger_head(const struct ledger *l);   /* sequence of the newest durable event */
uint64_t ledger_oldest(const struct ledger *l); /* sequence of the oldest stored event; 0 = none */

/* Selects events. The filter borrows its slices and lists. */
struct event_filter {
    struct str owner; /* empty: events of all owners, including the daemon */
    const char *const *sandbox_ids;
    size_t n_sandbox_ids;
    Berm__V1__KeyValue *const *labels; /* an event must have all of these labels */
    size_t n_labels;
    uint32_t kinds; /* one bit per EventKind; 0 = all kinds */
};
/* `packed` is a berm.v1.Event, valid during the callback. Return false to stop. */
typedef bool ledger_on_event(void *user, uint64_t sequence, struct str packed);
/* Passes matching events after *cursor to `on`, in order, until `on` returns false, no event is
 * left, or 512 events were examined. Sets *cursor to the last examined event. EVENT_CURSOR_EXPIRED
 * if an event after *cursor was removed. */
MUST_USE int ledger_read(struct ledger *l, const struct event_filter *f, uint64_t *cursor,
                         ledger_on_event *on, void *user, struct err *e);

/* Wakes `w` at each new durable event, until `w` is cancelled. */
void ledger_watch(struct ledger *l, struct waiter *w);
