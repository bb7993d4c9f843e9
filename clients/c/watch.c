/* Events: WatchEvents, which resumes, and waiting for a sandbox state. */
#include "base/macros.h"
#include "clients/c/client.h"
#include "clients/c/methods.h"

struct watch {
    struct stream stream;
    Berm__V1__WatchEventsRequest request; /* on resumption, starts after the user's last event */
    berm_on_event on_event;
    void *user;
    int result;
    bool in_snapshot; /* do not move the cursor: it would skip the rest of the snapshot */
    bool caught_up;
    uint64_t cursor;
};

static enum stream_next watch_give(struct watch *w, const Berm__V1__WatchEventsResponse *m) {
    w->stream.given++;
    w->result = w->on_event(m, w->user);
    return w->result == 0 ? STREAM_MORE : STREAM_STOP;
}

static void move_cursor(struct watch *w, uint64_t sequence) {
    if (w->in_snapshot)
        return;
    w->cursor = MAX(w->cursor, sequence);
    w->request.start_case = BERM__V1__WATCH_EVENTS_REQUEST__START_AFTER_SEQUENCE;
    w->request.after_sequence = w->cursor;
    w->request.include_snapshot = false;
}

static enum stream_next on_caught_up(struct watch *w, const Berm__V1__WatchEventsResponse *m) {
    bool again = w->caught_up;
    w->in_snapshot = false;
    w->caught_up = true;
    move_cursor(w, m->sequence);
    return again ? STREAM_MORE : watch_give(w, m);
}

static enum stream_next on_event_message(struct watch *w, const Berm__V1__WatchEventsResponse *m) {
    if (m->sequence <= w->cursor) /* the user already has this event */
        return STREAM_MORE;
    move_cursor(w, m->sequence);
    return watch_give(w, m);
}

static enum stream_next on_message(struct stream *s, const ProtobufCMessage *message) {
    struct watch *w = container_of(s, struct watch, stream);
    const Berm__V1__WatchEventsResponse *m = (const Berm__V1__WatchEventsResponse *)message;
    switch ((int)m->item_case) {
    case BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_EVENT:
        return on_event_message(w, m);
    case BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_CAUGHT_UP:
        return on_caught_up(w, m);
    case BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_SANDBOX:
    case BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_EXEC:
        return watch_give(w, m);
    case BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_END:
        move_cursor(w, m->sequence);
        if (m->end->reason == BERM__V1__STREAM_END_REASON__STREAM_END_REASON_DRAINING ||
            m->end->reason == BERM__V1__STREAM_END_REASON__STREAM_END_REASON_SLOW_READER)
            return STREAM_AGAIN;
        watch_give(w, m);
        return STREAM_STOP;
    default: /* a heartbeat, or a message of a newer daemon (SKEW-5) */
        move_cursor(w, m->sequence);
        return STREAM_MORE;
    }
}

int berm_events_watch(struct berm_client *c, const Berm__V1__WatchEventsRequest *request,
                      berm_on_event on_event, void *user, struct berm_error *e) {
    struct watch w = {
        .stream = {.method = method_of(METHOD_ID_WatchEvents),
                   .on_message = on_message,
                   .resumes = true},
        .request = *request,
        .on_event = on_event,
        .user = user,
        .in_snapshot = request->include_snapshot,
    };
    if (request->start_case == BERM__V1__WATCH_EVENTS_REQUEST__START_AFTER_SEQUENCE)
        w.cursor = request->after_sequence;
    w.stream.request = &w.request.base;
    int r = client_stream(c, &w.stream, e);
    return r < 0 ? r : w.result;
}

/* --- waiting for a state --- */

#define ENTERED 1

static int on_state(const Berm__V1__WatchEventsResponse *m, void *user) {
    const uint32_t *states = user;
    if (m->item_case != BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_EVENT ||
        m->event->body_case != BERM__V1__EVENT__BODY_SANDBOX_STATE)
        return 0;
    unsigned state = (unsigned)m->event->sandbox_state->state;
    return state < 32 && (*states >> state & 1) ? ENTERED : 0;
}

int berm_sandbox_wait(struct berm_client *c, const char *sandbox_id, uint64_t sequence,
                      uint32_t states, Berm__V1__GetSandboxResponse **ret_response,
                      struct berm_error *e) {
    Berm__V1__WatchEventsRequest watch = BERM__V1__WATCH_EVENTS_REQUEST__INIT;
    Berm__V1__EventKind kind = BERM__V1__EVENT_KIND__EVENT_KIND_SANDBOX_STATE;
    Berm__V1__GetSandboxRequest get = BERM__V1__GET_SANDBOX_REQUEST__INIT;
    watch.start_case = BERM__V1__WATCH_EVENTS_REQUEST__START_AFTER_SEQUENCE;
    watch.after_sequence = sequence;
    watch.n_sandbox_ids = 1;
    watch.sandbox_ids = (char **)&sandbox_id;
    watch.n_kinds = 1;
    watch.kinds = &kind;
    int r = berm_events_watch(c, &watch, on_state, &states, e);
    if (r < 0)
        return r;
    get.sandbox_id = (char *)sandbox_id;
    return berm_sandbox_get(c, &get, ret_response, e);
}
