/* ledger — the one way anything changes: records, events and request ids, committed together.
 *
 * Owner:   the registry.
 * An entry is built in one go, inside one callback: begin, change the objects in memory, put them and
 * their events, commit. Entries become durable in that order. Whoever would tell of a change waits for
 * its entry (ledger_wait); whoever only reads an object waits for it too when it is not durable yet.
 * Failing: when the store fails, every entry on its way fails: objects go back to what is durable
 *          (on_reverted), waits hear the error, sequences given out are taken back. Objects that must
 *          not lose what they learned (an instance is gone, a program has ended) see it in on_reverted and
 *          try again after a second.
 * Events:  pushed to watches in the turn their entry became durable. The newest LEDGER_RECENT are kept
 *          in memory, older ones are read from the store. */
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

/* The part of a sandbox or an exec that the ledger knows; embedded in it. */
struct recorded {
    uint8_t *durable; /* its packed record as it is in the store; NULL: not there yet */
    size_t n_durable;
    uint32_t durable_extra; /* a number kept beside it: where a sandbox is on its way to */
    uint64_t entry;         /* the last entry that changed it; 0 = none of this run */
    unsigned on_way;        /* entries that hold it: it must not be freed while there are any */
    const struct recorded_ops *ops;
};
struct recorded_ops {
    void (*on_durable)(struct recorded *r); /* the last entry that changed it is durable */
    void (*on_reverted)(
        struct recorded *r); /* make it again what `durable` says; NULL: never was */
};

/* Waits for an entry; a node inside the object that waits. */
struct ledger_wait {
    struct list in_ledger;
    uint64_t entry;
    void (*on_done)(struct ledger_wait *w, const struct err *e); /* NULL: durable */
};

/* A request id with what it asked for, to be remembered with the entry. */
struct request_key {
    const char *identity;
    const char *request_id; /* empty: nothing is remembered */
    const char *method;
    uint8_t digest[32];
    int64_t keep_ms; /* how long it is remembered */
};

struct ledger *ledger_open(uv_loop_t *loop, struct db *db, const struct db_facts *facts);
void ledger_free(struct ledger *l); /* after db_close has reported */

/* NULL: out of memory, or the store is failing at this moment; nothing has changed. */
struct entry *ledger_begin(struct ledger *l);
/* Fills sequence and time; what the event tells is packed now. `labels` are the sandbox's. Returns its
 * sequence. */
uint64_t entry_event(struct entry *t, Berm__V1__Event *event, size_t n_labels,
                     Berm__V1__KeyValue *const *labels);
/* `own`: what of a row is the daemon's own and not in the record. */
void entry_put_sandbox(struct entry *t, struct recorded *r, const Berm__V1__Sandbox *record,
                       const struct db_sandbox *own);
void entry_put_exec(struct entry *t, struct recorded *r, const Berm__V1__Exec *record,
                    const char *owner, uint64_t number, uint32_t cgroup);
void entry_put_request(struct entry *t, const struct request_key *key, const char *object_id,
                       struct str answer);
struct db_txn *entry_txn(struct entry *t); /* for the rest: forget, prune */
/* `w` may be NULL. Its answer comes from the loop. */
void ledger_commit(struct entry *t, struct ledger_wait *w);

/* Waits for the last entry that changed `r` (NULL: for everything so far). Answers false when it is
 * durable already and nobody has to wait. */
bool ledger_wait(struct ledger *l, const struct recorded *r, struct ledger_wait *w);
void ledger_wait_init(struct ledger_wait *w,
                      void (*on_done)(struct ledger_wait *w, const struct err *e));
void ledger_wait_cancel(struct ledger_wait *w);

uint64_t ledger_head(const struct ledger *l);   /* the newest durable event */
uint64_t ledger_oldest(const struct ledger *l); /* the oldest kept; 0 = none */

/* What a watch wants to see. Slices and lists are borrowed for as long as it is used. */
struct event_filter {
    struct str owner; /* empty: everyone's, the daemon's own included */
    const char *const *sandbox_ids;
    size_t n_sandbox_ids;
    Berm__V1__KeyValue *const *labels; /* all must match */
    size_t n_labels;
    uint32_t kinds; /* bit per EventKind; 0 = all */
};
/* A packed berm.v1.Event, borrowed for the callback. Answer false to stop. */
typedef bool ledger_on_event(void *user, uint64_t sequence, struct str packed);
/* Gives matching events above *cursor, in order, until the callback stops it, the newest is reached or
 * 512 were looked at; moves *cursor over everything it has dealt with (a stopped one included).
 * EVENT_CURSOR_EXPIRED when an event after it is no longer kept. */
MUST_USE int ledger_read(struct ledger *l, const struct event_filter *f, uint64_t *cursor,
                         ledger_on_event *on, void *user, struct err *e);

/* Wakes `w` whenever there are new durable events, until it is cancelled. */
void ledger_watch(struct ledger *l, struct waiter *w);
