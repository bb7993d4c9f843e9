/* sandbox_events — WatchEvents: stored events after a cursor, then new events, in the order of
 * their sequences.
 *
 * A watch holds a cursor, not a queue: it reads the ledger until the client is full and continues
 * when the client has read, so a slow client costs no memory. It ends when the client leaves, with
 * until_now, when the daemon drains, or when the client stays too far behind. */
#include <stdio.h>

#include "api/checks.h"
#include "api/context.h"
#include "api/heartbeat.h"
#include "api/methods.h"
#include "base/clock.h"
#include "core/sandbox/sandbox.h"

#define SANDBOX_IDS_MAX 100
#define SLOW_READER_US (UINT64_C(60) * 1000000)
#define READS_PER_TURN 8   /* up to 512 events per read; then other calls run */
#define SCRATCH_BYTES 8192 /* an event, unpacked */
#define SCRATCH_MAX_BYTES (1u << 20)

typedef Berm__V1__WatchEventsResponse watch_message;

struct watch {
    struct call *call;
    const Berm__V1__WatchEventsRequest *m;
    struct caller caller;
    struct event_filter filter;
    struct ledger *ledger;
    struct waiter events;
    struct ledger_wait barrier;
    struct heartbeat heartbeat;
    struct deadline again; /* continues the watch in the next loop iteration */
    struct arena scratch;
    uint64_t cursor;      /* sequence of the last event that was sent or skipped */
    uint64_t boundary;    /* the newest event when the watch began */
    uint64_t snapshot_at; /* number of the last sandbox or exec shown; 0 = none yet */
    uint64_t behind_us;   /* time when the client fell too far behind; 0 = it keeps up */
    bool has_begun;
    bool in_snapshot; /* the snapshot is being sent */
    bool sandboxes_shown;
    bool caught_up;
    bool full; /* call_send returned FULL: wait for on_writable */
    bool busy; /* the watch is sending; if the call ends meanwhile, the sender frees the watch */
    bool over; /* the call has ended */
    bool complete;
    bool damaged;
};

static struct deadlines *events_deadlines(const struct watch *w) {
    return context_deadlines(w->call);
}

/* --- the end --- */

static void events_free(struct watch *w) {
    arena_done(&w->scratch);
    free(w);
}

/* Cancels all waits, so that no callback of the watch follows. */
static void events_unwatch(struct watch *w) {
    waiter_cancel(&w->events);
    ledger_wait_cancel(&w->barrier);
    heartbeat_stop(&w->heartbeat);
    deadline_clear(events_deadlines(w), &w->again);
}

static void events_on_cancel(struct call *c) {
    struct watch *w = c->state;
    if (!w)
        return;
    c->state = NULL;
    events_unwatch(w);
    w->over = true;
    if (!w->busy)
        events_free(w);
}

static void events_fail(struct watch *w, const struct err *e) {
    struct call *c = w->call;
    c->state = NULL;
    events_unwatch(w);
    events_free(w);
    call_finish(c, e);
}

/* --- messages --- */

static void events_send(struct watch *w, watch_message *message) {
    heartbeat_sent(&w->heartbeat);
    if (call_send(w->call, &message->base) == CALL_FULL)
        w->full = true;
}

static void events_end(struct watch *w, Berm__V1__StreamEndReason reason) {
    Berm__V1__StreamEnd why = BERM__V1__STREAM_END__INIT;
    watch_message message = BERM__V1__WATCH_EVENTS_RESPONSE__INIT;
    struct call *c = w->call;
    why.reason = reason;
    message.sequence = w->cursor;
    message.item_case = BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_END;
    message.end = &why;
    c->state = NULL;
    events_unwatch(w);
    events_free(w);
    if (call_send(c, &message.base) != CALL_GONE)
        call_finish(c, NULL);
}

static void events_send_caught_up(struct watch *w) {
    Berm__V1__CaughtUp caught_up = BERM__V1__CAUGHT_UP__INIT;
    watch_message message = BERM__V1__WATCH_EVENTS_RESPONSE__INIT;
    w->caught_up = true;
    message.sequence = w->boundary;
    message.item_case = BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_CAUGHT_UP;
    message.caught_up = &caught_up;
    events_send(w, &message);
}

static void events_send_heartbeat(struct watch *w, Berm__V1__Heartbeat *beat) {
    watch_message message = BERM__V1__WATCH_EVENTS_RESPONSE__INIT;
    message.sequence = w->cursor;
    message.item_case = BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_HEARTBEAT;
    message.heartbeat = beat;
    events_send(w, &message);
}

/* --- events --- */

static void *events_scratch_alloc(void *arena, size_t n) {
    return arena_alloc(arena, n);
}

static void events_scratch_free(void *arena, void *p) {
    (void)arena;
    (void)p;
}

static bool events_on_event(void *user, uint64_t sequence, struct str packed) {
    struct watch *w = user;
    watch_message message = BERM__V1__WATCH_EVENTS_RESPONSE__INIT;
    ProtobufCAllocator allocator = {events_scratch_alloc, events_scratch_free, &w->scratch};
    bool is_new = sequence > w->boundary;
    if (is_new && !w->caught_up)
        events_send_caught_up(w);
    if (is_new && w->m->until_now)
        w->complete = true;
    if (w->over || w->complete)
        return false;
    arena_reset(&w->scratch);
    Berm__V1__Event *event =
        berm__v1__event__unpack(&allocator, packed.n, (const uint8_t *)packed.p);
    w->damaged = !event;
    if (!event)
        return false;
    event->replayed = !is_new;
    message.sequence = sequence;
    message.item_case = BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_EVENT;
    message.event = event;
    events_send(w, &message);
    return !w->full && !w->over;
}

/* Adds the oldest sequence to EVENT_CURSOR_EXPIRED. */
static void events_add_oldest(struct watch *w, struct err *e) {
    char text[24];
    if (e->code != ERR_EVENT_CURSOR_EXPIRED || e->subject)
        return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)ledger_oldest(w->ledger));
    err_about(e, "oldest_sequence", text);
}

/* Reads and sends events until the newest one, until the client is full, or until it has read
 * READS_PER_TURN times. */
static int events_read(struct watch *w, struct err *e) {
    for (unsigned i = 0; w->cursor < ledger_head(w->ledger); i++) {
        if (w->full || w->over || w->complete)
            return 0;
        if (i == READS_PER_TURN) {
            deadline_set(events_deadlines(w), &w->again, clock_us());
            return 0;
        }
        int r = ledger_read(w->ledger, &w->filter, &w->cursor, events_on_event, w, e);
        if (r < 0) {
            events_add_oldest(w, e);
            return r;
        }
        if (w->damaged)
            return err_set(e, ERR_INTERNAL, "an event in the store cannot be read");
    }
    return 0;
}

/* --- the snapshot: sandboxes and running execs when the watch begins --- */

static bool events_wants_id(const struct watch *w, const char *id) {
    for (size_t i = 0; i < w->m->n_sandbox_ids; i++)
        if (strcmp(w->m->sandbox_ids[i], id) == 0)
            return true;
    return w->m->n_sandbox_ids == 0;
}

static bool events_wants(const struct watch *w, const Berm__V1__Sandbox *record) {
    return (w->filter.owner.n == 0 || str_is(w->filter.owner, str_of(record->owner))) &&
           events_wants_id(w, record->sandbox_id) &&
           labels_match(record->spec->n_labels, record->spec->labels, w->m->n_label_selector,
                        w->m->label_selector);
}

/* Returns the durable record, because `boundary` is the newest durable event, and adds the live
 * fields. NULL: no durable record, or out of memory. */
static Berm__V1__Sandbox *events_durable_record(struct watch *w, const struct sandbox *sb) {
    const struct recorded *recorded = sandbox_recorded(sb);
    ProtobufCAllocator allocator = {events_scratch_alloc, events_scratch_free, &w->scratch};
    arena_reset(&w->scratch);
    if (!recorded->durable)
        return NULL;
    Berm__V1__Sandbox *record =
        berm__v1__sandbox__unpack(&allocator, recorded->n_durable, recorded->durable);
    if (record)
        sandbox_put_live(sb, record);
    return record;
}

/* Sends one sandbox of the snapshot, newest first. Skips sandboxes that were sent before the client
 * was full. */
static bool events_on_snapshot_sandbox(void *user, struct sandbox *sb) {
    struct watch *w = user;
    watch_message message = BERM__V1__WATCH_EVENTS_RESPONSE__INIT;
    if (w->snapshot_at != 0 && sandbox_number(sb) >= w->snapshot_at)
        return true;
    const Berm__V1__Sandbox *record = events_durable_record(w, sb);
    w->snapshot_at = sandbox_number(sb);
    if (!record || !record->spec || !events_wants(w, record))
        return true;
    message.sequence = w->boundary;
    message.item_case = BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_SANDBOX;
    message.sandbox = (Berm__V1__Sandbox *)record;
    events_send(w, &message);
    return !w->full && !w->over;
}

/* An exec matches if its sandbox does. */
static bool events_wants_exec(struct watch *w, const struct registry_row *row) {
    static const struct caller everyone = {.is_admin = true};
    struct sandbox *sb;
    struct err e;
    char id[64];
    snprintf(id, sizeof id, "%.*s", (int)row->sandbox_id.n, row->sandbox_id.p);
    if (registry_find_sandbox(context_registry(w->call), &everyone, id, &sb, &e) < 0)
        return false;
    const Berm__V1__Sandbox *record = events_durable_record(w, sb);
    return record && record->spec && events_wants(w, record);
}

static bool events_on_snapshot_exec(void *user, const struct registry_row *row) {
    struct watch *w = user;
    watch_message message = BERM__V1__WATCH_EVENTS_RESPONSE__INIT;
    ProtobufCAllocator allocator = {events_scratch_alloc, events_scratch_free, &w->scratch};
    if (row->number <= w->snapshot_at || row->record.n == 0 || !events_wants_exec(w, row))
        return true;
    arena_reset(&w->scratch);
    message.exec =
        berm__v1__exec__unpack(&allocator, row->record.n, (const uint8_t *)row->record.p);
    w->snapshot_at = row->number;
    if (!message.exec)
        return true;
    message.sequence = w->boundary;
    message.item_case = BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_EXEC;
    events_send(w, &message);
    return !w->full && !w->over;
}

/* Sends the snapshot. Continues at the item at which the client was full. */
static int events_send_snapshot(struct watch *w, struct err *e) {
    struct registry *r = context_registry(w->call);
    if (!w->sandboxes_shown) {
        registry_each_sandbox(r, events_on_snapshot_sandbox, w);
        if (w->full || w->over)
            return 0;
        w->sandboxes_shown = true;
        w->snapshot_at = 0;
    }
    int result = registry_list_running_execs(r, events_on_snapshot_exec, w, e);
    if (result == 0 && !w->full && !w->over)
        w->in_snapshot = false;
    return result;
}

/* --- new events --- */

static bool events_is_too_slow(struct watch *w) {
    uint64_t behind = ledger_head(w->ledger) - MIN(w->cursor, ledger_head(w->ledger));
    uint64_t now = clock_us();
    if (behind <= (uint64_t)context_of(w->call)->facts.limits->of[LIMIT_EVENTS_BEHIND])
        w->behind_us = 0;
    else if (w->behind_us == 0)
        w->behind_us = now;
    return w->behind_us != 0 && now - w->behind_us >= SLOW_READER_US;
}

static int events_send_more(struct watch *w, struct err *e) {
    int r = 0;
    if (w->in_snapshot)
        r = events_send_snapshot(w, e);
    if (r == 0 && !w->in_snapshot && !w->full && !w->over)
        r = events_read(w, e);
    if (r < 0 || w->full || w->over || w->in_snapshot)
        return r;
    if (!w->caught_up && w->cursor >= w->boundary)
        events_send_caught_up(w);
    w->complete = w->m->until_now && w->caught_up;
    return 0;
}

/* Ends an until_now stream. Resets the cursor to `boundary`, because it may be past newer events,
 * which until_now excludes. */
static void events_end_at_boundary(struct watch *w) {
    w->cursor = w->boundary;
    events_end(w, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_COMPLETE);
}

static void events_pump(struct watch *w) {
    struct err e;
    if (!w->has_begun || w->full || w->busy)
        return;
    w->busy = true;
    int r = events_send_more(w, &e);
    w->busy = false;
    if (w->over)
        events_free(w);
    else if (r < 0)
        events_fail(w, &e);
    else if (w->complete)
        events_end_at_boundary(w);
    else if (events_is_too_slow(w))
        events_end(w, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_SLOW_READER);
}

static void events_on_new(struct waiter *events) {
    events_pump(container_of(events, struct watch, events));
}

static void events_on_again(struct deadline *d) {
    events_pump(container_of(d, struct watch, again));
}

static void events_on_writable(struct call *c) {
    struct watch *w = c->state;
    if (!w)
        return;
    w->full = false;
    events_pump(w);
}

static void events_on_drain(struct call *c) {
    struct watch *w = c->state;
    if (w && !w->busy)
        events_end(w, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_DRAINING);
}

/* Sends a heartbeat, except to a client that has to read first. Ends the stream of a client that is
 * too slow. */
static bool events_on_quiet(struct heartbeat *h, Berm__V1__Heartbeat *m) {
    struct watch *w = container_of(h, struct watch, heartbeat);
    if (events_is_too_slow(w)) {
        events_end(w, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_SLOW_READER);
        return false;
    }
    if (w->full)
        return true;
    w->busy = true;
    events_send_heartbeat(w, m);
    w->busy = false;
    if (w->over) {
        events_free(w);
        return false;
    }
    return true;
}

/* --- the beginning --- */

static int events_read_filter(struct watch *w, struct err *e) {
    const Berm__V1__WatchEventsRequest *m = w->m;
    if (m->n_sandbox_ids > SANDBOX_IDS_MAX)
        return err_field(e, "sandbox_ids", "sandbox_ids: must have at most %d ids",
                         SANDBOX_IDS_MAX);
    for (size_t i = 0; i < m->n_sandbox_ids; i++)
        if (check_id("sandbox_ids", m->sandbox_ids[i], e) < 0)
            return err_at(e, "sandbox_ids[%zu]", i);
    for (size_t i = 0; i < m->n_kinds; i++) {
        Berm__V1__EventKind kind = m->kinds[i];
        if (kind == BERM__V1__EVENT_KIND__EVENT_KIND_UNSPECIFIED ||
            (unsigned)kind > BERM__V1__EVENT_KIND__EVENT_KIND_DAEMON) {
            err_field(e, "kinds", "kinds[%zu]: must be a known kind, got %d", i, (int)kind);
            return err_at(e, "kinds[%zu]", i);
        }
        w->filter.kinds |= 1u << kind;
    }
    if (m->include_snapshot && m->start_case != BERM__V1__WATCH_EVENTS_REQUEST__START_NOW &&
        m->start_case != BERM__V1__WATCH_EVENTS_REQUEST__START__NOT_SET)
        return err_field(e, "include_snapshot",
                         "include_snapshot: must not be given with another start than now");
    w->filter.owner = str_of(w->caller.is_admin ? m->owner : w->caller.identity);
    w->filter.sandbox_ids = (const char *const *)m->sandbox_ids;
    w->filter.n_sandbox_ids = m->n_sandbox_ids;
    w->filter.labels = m->label_selector;
    w->filter.n_labels = m->n_label_selector;
    return check_selector(m->n_label_selector, m->label_selector, e);
}

/* Finds the sequence at which the watch starts. Fails with EVENT_CURSOR_AHEAD or
 * EVENT_CURSOR_EXPIRED. */
static int events_find_start(struct watch *w, struct err *e) {
    uint64_t head = ledger_head(w->ledger), oldest = ledger_oldest(w->ledger);
    w->boundary = w->cursor = head;
    if (w->m->start_case == BERM__V1__WATCH_EVENTS_REQUEST__START_OLDEST)
        w->cursor = oldest > 0 ? oldest - 1 : head;
    if (w->m->start_case != BERM__V1__WATCH_EVENTS_REQUEST__START_AFTER_SEQUENCE)
        return 0;
    w->cursor = w->m->after_sequence;
    if (w->cursor > head) {
        char text[24];
        snprintf(text, sizeof text, "%llu", (unsigned long long)head);
        err_set(e, ERR_EVENT_CURSOR_AHEAD, "the newest event is %s, got the cursor %llu", text,
                (unsigned long long)w->cursor);
        return err_about(e, "head_sequence", text);
    }
    if (w->cursor < head && (oldest == 0 || w->cursor + 1 < oldest)) {
        err_set(e, ERR_EVENT_CURSOR_EXPIRED, "events after %llu are no longer kept",
                (unsigned long long)w->cursor);
        events_add_oldest(w, e);
        return -(int)e->code;
    }
    return 0;
}

static void events_begin(struct watch *w) {
    struct err e;
    if (events_find_start(w, &e) < 0) {
        events_fail(w, &e);
        return;
    }
    w->has_begun = true;
    w->in_snapshot = w->m->include_snapshot;
    heartbeat_start(&w->heartbeat);
    call_send_headers(w->call);
    events_pump(w);
}

static void events_on_barrier(struct ledger_wait *barrier, const struct err *e) {
    (void)e;
    events_begin(container_of(barrier, struct watch, barrier));
}

static void events_on_message(struct call *c, const ProtobufCMessage *message) {
    if (!context_serves(c))
        return;
    struct watch *w = calloc(1, sizeof *w);
    struct err e;
    if (!w || arena_init(&w->scratch, SCRATCH_BYTES, SCRATCH_MAX_BYTES) < 0) {
        free(w);
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        call_finish(c, &e);
        return;
    }
    w->call = c;
    w->m = (const void *)message;
    if (w->m->start_case == BERM__V1__WATCH_EVENTS_REQUEST__START_AFTER_SEQUENCE)
        w->cursor = w->m->after_sequence;
    w->ledger = context_ledger(c);
    context_caller(c, &w->caller);
    heartbeat_init(&w->heartbeat, c, events_on_quiet);
    deadline_init(&w->again, events_on_again);
    ledger_wait_init(&w->barrier, events_on_barrier);
    waiter_init(&w->events, events_on_new);
    ledger_watch(w->ledger, &w->events);
    c->state = w;
    if (events_read_filter(w, &e) < 0) {
        events_fail(w, &e);
        return;
    }
    /* A cursor ahead of the ledger may be valid: the store may have shown the caller an event that
     * the ledger has not published yet. So wait for the ledger. */
    if (w->cursor <= ledger_head(w->ledger) || !ledger_wait(w->ledger, NULL, &w->barrier))
        events_begin(w);
}

const struct handler api_events_watch = {.on_message = events_on_message,
                                         .on_writable = events_on_writable,
                                         .on_drain = events_on_drain,
                                         .on_cancel = events_on_cancel};
