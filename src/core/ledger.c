#include "core/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/db.h"

#define READ_AT_ONCE 512

/* A durable event in memory: one memory block with the struct and its texts. */
struct recent {
    uint64_t sequence;
    uint32_t kind;
    struct str owner;
    struct str sandbox_id;
    struct str labels;
    struct str packed;
};

/* An object that an entry changed, and its new record. */
struct held {
    struct recorded *object;
    uint8_t *packed;
    size_t n;
    uint32_t extra;
};

struct entry {
    struct list in_ledger; /* node in ledger.entries */
    struct list waits;
    struct ledger *ledger;
    struct db_txn *txn;
    uint64_t number;
    uint64_t head; /* value of ledger.durable when this entry becomes durable */
    struct held *held;
    size_t n_held;
    struct recent **events;
    size_t n_events;
    bool failed; /* already reverted and reported; only the store's reply is pending */
    bool short_of_memory;
};

struct ledger {
    struct db *db;
    uint64_t head;    /* the newest assigned sequence */
    uint64_t durable; /* the newest sequence that watches may see */
    uint64_t n_entries;
    unsigned failing;    /* number of failed entries to which the store has not replied yet */
    struct list entries; /* pending entries, in order of commit */
    struct list watches;
    struct recent *recent[LEDGER_RECENT]; /* indexed by sequence % LEDGER_RECENT */
};

struct ledger *ledger_open(uv_loop_t *loop, struct db *db, const struct db_facts *facts) {
    (void)loop;
    struct ledger *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->db = db;
    l->head = l->durable = facts->head_sequence;
    list_init(&l->entries);
    list_init(&l->watches);
    return l;
}

void ledger_free(struct ledger *l) {
    for (size_t i = 0; i < LEDGER_RECENT; i++)
        free(l->recent[i]);
    free(l);
}

uint64_t ledger_head(const struct ledger *l) {
    return l->durable;
}

uint64_t ledger_oldest(const struct ledger *l) {
    return db_oldest_sequence(l->db);
}

/* --- building an entry --- */

struct entry *ledger_begin(struct ledger *l) {
    struct entry *t = l->failing ? NULL : calloc(1, sizeof *t);
    if (t)
        t->txn = db_begin(l->db);
    if (!t || !t->txn) {
        free(t);
        return NULL;
    }
    list_init(&t->in_ledger);
    list_init(&t->waits);
    t->ledger = l;
    return t;
}

struct db_txn *entry_txn(struct entry *t) {
    return t->txn;
}

static void *ledger_grow(void *array, size_t n, size_t size) {
    return n % 8 == 0 ? realloc(array, (n + 8) * size) : array;
}

/* Copies `from` to *at and advances *at. */
static struct str ledger_put_text(char **at, struct str from) {
    struct str copy = {*at, from.n};
    if (from.n > 0)
        memcpy(*at, from.p, from.n);
    *at += from.n;
    return copy;
}

static size_t ledger_labels_size(size_t n, Berm__V1__KeyValue *const *labels) {
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += strlen(labels[i]->key) + strlen(labels[i]->value) + 2;
    return size;
}

static struct str ledger_put_labels(char **at, size_t n, Berm__V1__KeyValue *const *labels) {
    struct str all = {*at, 0};
    for (size_t i = 0; i < n; i++) {
        ledger_put_text(at, (struct str){labels[i]->key, strlen(labels[i]->key) + 1});
        ledger_put_text(at, (struct str){labels[i]->value, strlen(labels[i]->value) + 1});
    }
    all.n = (size_t)(*at - all.p);
    return all;
}

static struct recent *recent_new(const Berm__V1__Event *event, size_t n_labels,
                                 Berm__V1__KeyValue *const *labels) {
    struct str owner = str_of(event->owner), sandbox_id = str_of(event->sandbox_id);
    size_t n_packed = berm__v1__event__get_packed_size(event);
    struct recent *r = malloc(sizeof *r + owner.n + sandbox_id.n +
                              ledger_labels_size(n_labels, labels) + n_packed);
    if (!r)
        return NULL;
    char *at = (char *)(r + 1);
    r->sequence = event->sequence;
    r->kind = (uint32_t)event->kind;
    r->owner = ledger_put_text(&at, owner);
    r->sandbox_id = ledger_put_text(&at, sandbox_id);
    r->labels = ledger_put_labels(&at, n_labels, labels);
    berm__v1__event__pack(event, (uint8_t *)at);
    r->packed = (struct str){at, n_packed};
    return r;
}

uint64_t entry_event(struct entry *t, Berm__V1__Event *event, size_t n_labels,
                     Berm__V1__KeyValue *const *labels) {
    struct recent **events = ledger_grow(t->events, t->n_events, sizeof *events);
    event->sequence = ++t->ledger->head;
    event->time_unix_ms = clock_unix_ms();
    struct recent *r = events ? recent_new(event, n_labels, labels) : NULL;
    t->events = events ? events : t->events;
    if (!r) {
        t->short_of_memory = true;
        return event->sequence;
    }
    t->events[t->n_events++] = r;
    db_put_event(t->txn, &(struct db_event){.sequence = r->sequence,
                                            .time_unix_ms = event->time_unix_ms,
                                            .owner = r->owner,
                                            .sandbox_id = r->sandbox_id,
                                            .kind = r->kind,
                                            .labels = r->labels,
                                            .record = r->packed});
    return event->sequence;
}

/* Packs the record and remembers that this entry changed the object. */
static struct str entry_hold(struct entry *t, struct recorded *r, const ProtobufCMessage *record,
                             uint32_t extra) {
    size_t n = protobuf_c_message_get_packed_size(record);
    struct held *held = ledger_grow(t->held, t->n_held, sizeof *held);
    uint8_t *packed = held ? malloc(n ? n : 1) : NULL;
    t->held = held ? held : t->held;
    if (!packed) {
        t->short_of_memory = true;
        return (struct str){0};
    }
    protobuf_c_message_pack(record, packed);
    t->held[t->n_held++] = (struct held){r, packed, n, extra};
    r->n_pending++;
    return (struct str){(const char *)packed, n};
}

void entry_put_sandbox(struct entry *t, struct recorded *r, const Berm__V1__Sandbox *record,
                       const struct db_sandbox *own) {
    struct db_sandbox row = *own;
    bool is_deleted = record->state == BERM__V1__SANDBOX_STATE__SANDBOX_STATE_DELETED;
    row.id = str_of(record->sandbox_id);
    row.owner = str_of(record->owner);
    row.state = (uint32_t)record->state;
    row.record = entry_hold(t, r, &record->base, own->wanted);
    row.deleted_unix_ms = is_deleted ? clock_unix_ms() : 0;
    db_put_sandbox(t->txn, &row);
}

void entry_put_exec(struct entry *t, struct recorded *r, const Berm__V1__Exec *record,
                    const char *owner, uint64_t number, uint32_t cgroup) {
    struct str packed = entry_hold(t, r, &record->base, 0);
    db_put_exec(t->txn, &(struct db_exec){.id = str_of(record->exec_id),
                                          .sandbox_id = str_of(record->sandbox_id),
                                          .owner = str_of(owner),
                                          .number = number,
                                          .state = (uint32_t)record->state,
                                          .cgroup = cgroup,
                                          .record = packed});
}

void entry_put_request(struct entry *t, const struct request_key *key, const char *object_id,
                       struct str answer) {
    if (!key || !key->request_id[0])
        return;
    struct db_request row = {.identity = str_of(key->identity),
                             .request_id = str_of(key->request_id),
                             .method = str_of(key->method),
                             .object_id = str_of(object_id),
                             .answer = answer,
                             .expires_unix_ms = clock_unix_ms() + key->keep_ms};
    memcpy(row.digest, key->digest, sizeof row.digest);
    db_put_request(t->txn, &row);
}

/* --- the store's reply --- */

static void entry_free(struct entry *t) {
    for (size_t i = 0; i < t->n_held; i++)
        free(t->held[i].packed);
    for (size_t i = 0; i < t->n_events; i++)
        free(t->events[i]);
    free(t->held);
    free(t->events);
    free(t);
}

static void ledger_answer_waits(struct list *waits, const struct err *e) {
    for (struct list *node; (node = list_pop_front(waits));) {
        struct ledger_wait *w = container_of(node, struct ledger_wait, in_ledger);
        w->on_done(w, e);
    }
}

/* Makes the events of the entry visible to watches. */
static void ledger_publish(struct ledger *l, struct entry *t) {
    for (size_t i = 0; i < t->n_events; i++) {
        struct recent **slot = &l->recent[t->events[i]->sequence % LEDGER_RECENT];
        free(*slot);
        *slot = t->events[i];
    }
    l->durable = t->head;
    bool is_news = t->n_events > 0;
    t->n_events = 0;
    if (is_news)
        waiters_wake(&l->watches);
}

static void entry_durable(struct ledger *l, struct entry *t) {
    list_remove(&t->in_ledger);
    for (size_t i = 0; i < t->n_held; i++) {
        struct recorded *r = t->held[i].object;
        free(r->durable);
        r->durable = TAKE(t->held[i].packed);
        r->n_durable = t->held[i].n;
        r->durable_extra = t->held[i].extra;
    }
    ledger_publish(l, t);
    ledger_answer_waits(&t->waits, NULL);
    for (size_t i = 0; i < t->n_held; i++) {
        struct recorded *r = t->held[i].object;
        if (--r->n_pending == 0)
            r->ops->on_durable(r);
    }
}

/* All pending entries fail together. Each object is reverted once, after its last entry. */
static void ledger_fail_all(struct ledger *l, const struct err *e) {
    struct list waits, entries;
    list_init(&waits);
    list_init(&entries);
    l->head = l->durable;
    for (struct list *node; (node = list_pop_front(&l->entries));) {
        struct entry *t = container_of(node, struct entry, in_ledger);
        t->failed = true;
        l->failing++;
        list_push_back(&entries, node);
        for (struct list *wait; (wait = list_pop_front(&t->waits));)
            list_push_back(&waits, wait);
    }
    LIST_FOR_EACH(node, &entries) {
        struct entry *t = container_of(node, struct entry, in_ledger);
        list_remove(&t->in_ledger);
        for (size_t i = 0; i < t->n_held; i++) {
            struct recorded *r = t->held[i].object;
            if (--r->n_pending == 0)
                r->ops->on_reverted(r);
        }
    }
    /* Call this last, because a callback may read objects and wait again. */
    ledger_answer_waits(&waits, e);
}

static void on_answer(void *user, const struct err *e) {
    struct entry *t = user;
    struct ledger *l = t->ledger;
    if (!t->failed && !e)
        entry_durable(l, t);
    else if (!t->failed)
        ledger_fail_all(l, e);
    if (t->failed)
        l->failing--;
    entry_free(t);
}

void ledger_commit(struct entry *t, struct ledger_wait *w) {
    struct ledger *l = t->ledger;
    t->number = ++l->n_entries;
    t->head = l->head;
    for (size_t i = 0; i < t->n_held; i++)
        t->held[i].object->entry = t->number;
    list_push_back(&l->entries, &t->in_ledger);
    if (w) {
        list_remove(&w->in_ledger);
        list_push_back(&t->waits, &w->in_ledger);
    }
    if (t->short_of_memory)
        db_spoil(t->txn);
    db_commit(TAKE(t->txn), on_answer, t);
}

/* --- waiting --- */

void ledger_wait_init(struct ledger_wait *w,
                      void (*on_done)(struct ledger_wait *w, const struct err *e)) {
    list_init(&w->in_ledger);
    w->on_done = on_done;
}

void ledger_wait_cancel(struct ledger_wait *w) {
    list_remove(&w->in_ledger);
}

bool ledger_wait(struct ledger *l, const struct recorded *r, struct ledger_wait *w) {
    if (list_is_empty(&l->entries) || (r && r->n_pending == 0))
        return false;
    struct list *node = l->entries.prev;
    while (r && node != &l->entries &&
           container_of(node, struct entry, in_ledger)->number > r->entry)
        node = node->prev;
    if (node == &l->entries) /* the last entry of `r` is durable, and entry_durable is running */
        return false;
    list_push_back(&container_of(node, struct entry, in_ledger)->waits, &w->in_ledger);
    return true;
}

/* --- reading events --- */

static bool event_has_label(struct str labels, const Berm__V1__KeyValue *wanted) {
    for (const char *at = labels.p, *end = labels.p + labels.n; at < end;) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, wanted->key) == 0)
            return strcmp(value, wanted->value) == 0;
        at = value + strlen(value) + 1;
    }
    return false;
}

static bool event_has_id(const struct event_filter *f, struct str id) {
    for (size_t i = 0; i < f->n_sandbox_ids; i++)
        if (str_is(str_of(f->sandbox_ids[i]), id))
            return true;
    return f->n_sandbox_ids == 0;
}

static bool event_matches(const struct event_filter *f, struct str owner, struct str sandbox_id,
                          uint32_t kind, struct str labels) {
    if (f->owner.n > 0 && !str_is(f->owner, owner))
        return false;
    if (f->kinds != 0 && !(f->kinds & (UINT32_C(1) << kind)))
        return false;
    for (size_t i = 0; i < f->n_labels; i++)
        if (!event_has_label(labels, f->labels[i]))
            return false;
    return event_has_id(f, sandbox_id);
}

struct reading {
    const struct ledger *ledger;
    const struct event_filter *filter;
    uint64_t *cursor;
    ledger_on_event *on;
    void *user;
    size_t left;
    bool stopped;
};

static bool ledger_give(struct reading *g, uint64_t sequence, struct str packed) {
    *g->cursor = sequence;
    g->stopped = !g->on(g->user, sequence, packed);
    return !g->stopped;
}

static bool on_row(void *user, const struct db_event *row) {
    struct reading *g = user;
    if (row->sequence > g->ledger->durable || g->left-- == 0) {
        g->stopped = true;
        return false;
    }
    if (event_matches(g->filter, row->owner, row->sandbox_id, row->kind, row->labels))
        return ledger_give(g, row->sequence, row->record);
    *g->cursor = row->sequence;
    return true;
}

static bool ledger_is_recent(const struct ledger *l, uint64_t sequence) {
    const struct recent *r = l->recent[sequence % LEDGER_RECENT];
    return r && r->sequence == sequence;
}

static int ledger_read_store(struct ledger *l, struct reading *g, struct err *e) {
    int r = db_list_events(l->db, g->filter->owner, *g->cursor, on_row, g, e);
    if (r == 0 && !g->stopped)
        *g->cursor = l->durable;
    return r;
}

int ledger_read(struct ledger *l, const struct event_filter *f, uint64_t *cursor,
                ledger_on_event *on, void *user, struct err *e) {
    struct reading g = {l, f, cursor, on, user, READ_AT_ONCE, false};
    uint64_t oldest =
        *cursor < l->durable && !ledger_is_recent(l, *cursor + 1) ? ledger_oldest(l) : 0;
    if (oldest > *cursor + 1) {
        err_set(e, ERR_EVENT_CURSOR_EXPIRED, "events after %llu are no longer kept",
                (unsigned long long)*cursor);
        return err_number(e, "oldest_sequence", (int64_t)oldest);
    }
    if (oldest > 0)
        return ledger_read_store(l, &g, e);
    while (*cursor < l->durable && g.left-- > 0 && !g.stopped) {
        const struct recent *r = l->recent[(*cursor + 1) % LEDGER_RECENT];
        if (!r || r->sequence != *cursor + 1)
            break;
        if (event_matches(f, r->owner, r->sandbox_id, r->kind, r->labels))
            ledger_give(&g, r->sequence, r->packed);
        else
            *cursor = r->sequence;
    }
    return 0;
}

void ledger_watch(struct ledger *l, struct waiter *w) {
    waiter_add(&l->watches, w);
}
