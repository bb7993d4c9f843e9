/* file_watch — WatchFiles: sends the changes that the guest reports.
 *
 * Bounds: up to *watch.queue* changes and QUEUE_BYTES wait for a slow client. Beyond that the
 *         daemon drops them all
 * and sends one resync instead. */
#include <stdio.h>

#include "api/subject.h"
#include "api/file/file_answer.h"
#include "api/file/file_target.h"
#include "api/heartbeat.h"
#include "api/methods.h"
#include "base/buf.h"

#define QUEUE_BYTES ((size_t)4 << 20)
#define ARENA_FIRST ((size_t)4 << 10)
#define ARENA_MAX ((size_t)1 << 20) /* maximum size of one change */

#define RESYNC(name) BERM__V1__FILE_RESYNC_REASON__FILE_RESYNC_REASON_##name
#define END(name) BERM__V1__STREAM_END_REASON__STREAM_END_REASON_##name

struct watching {
    struct call *call;
    struct file_target target;
    struct file_call *file;
    bool is_open;
    bool is_full;
    int end;          /* StreamEndReason to send after the queue; 0 = none yet */
    struct buf queue; /* packed FileChange messages, each after its length */
    size_t n_queue;
    int resync; /* FileResyncReason to send before the queue; 0 = none */
    uint64_t number;
    struct heartbeat heartbeat;
};

/* --- the ends --- */

static void file_watch_release(struct watching *w) {
    heartbeat_stop(&w->heartbeat);
    file_call_close(TAKE(w->file));
    buf_done(&w->queue);
}

static void file_watch_fail(struct watching *w, const struct err *e) {
    struct call *c = w->call;
    struct err reported = *e;
    if (!reported.subject)
        err_about(&reported, "sandbox_id", w->target.sandbox_id);
    file_watch_release(w);
    call_finish(c, &reported);
}

/* --- messages --- */

/* Sends one event. Every event is a pointer to a message, so one assignment serves all. After
 * CALL_GONE, `w` is freed. */
static enum call_push file_watch_send(struct watching *w,
                                      Berm__V1__WatchFilesResponse__EventCase event, void *what) {
    Berm__V1__WatchFilesResponse m = BERM__V1__WATCH_FILES_RESPONSE__INIT;
    m.sequence = ++w->number;
    m.event_case = event;
    m.watching = what;
    heartbeat_sent(&w->heartbeat);
    enum call_push sent = call_send(w->call, &m.base);
    if (sent == CALL_FULL)
        w->is_full = true;
    return sent;
}

static enum call_push file_watch_send_resync(struct watching *w) {
    Berm__V1__FileResync resync = BERM__V1__FILE_RESYNC__INIT;
    resync.reason = (Berm__V1__FileResyncReason)w->resync;
    w->resync = 0;
    return file_watch_send(w, BERM__V1__WATCH_FILES_RESPONSE__EVENT_RESYNC, &resync);
}

static void file_watch_send_end(struct watching *w) {
    struct call *c = w->call;
    Berm__V1__StreamEnd end = BERM__V1__STREAM_END__INIT;
    end.reason = (Berm__V1__StreamEndReason)w->end;
    if (file_watch_send(w, BERM__V1__WATCH_FILES_RESPONSE__EVENT_END, &end) == CALL_GONE)
        return;
    file_watch_release(w);
    call_finish(c, NULL);
}

/* --- the queue --- */

static void file_watch_resync(struct watching *w, int reason) {
    buf_clear(&w->queue);
    w->n_queue = 0;
    w->resync = reason;
}

static void file_watch_queue(struct watching *w, const Berm__V1__FileChange *change) {
    uint32_t n = (uint32_t)berm__v1__file_change__get_packed_size(change);
    uint8_t *at;
    if (w->n_queue >= (size_t)limit_table[LIMIT_WATCH_QUEUE].value ||
        buf_reserve(&w->queue, sizeof n + n, &at) < 0) {
        file_watch_resync(w, RESYNC(OVERFLOW));
        return;
    }
    memcpy(at, &n, sizeof n);
    berm__v1__file_change__pack(change, at + sizeof n);
    buf_commit(&w->queue, sizeof n + n);
    w->n_queue++;
}

/* Sends one queued change. Returns false if the call is over. */
static bool file_watch_send_queued(struct watching *w) {
    uint32_t n;
    memcpy(&n, buf_data(&w->queue), sizeof n);
    Berm__V1__FileChange *change =
        berm__v1__file_change__unpack(NULL, n, buf_data(&w->queue) + sizeof n);
    buf_consume(&w->queue, sizeof n + n);
    w->n_queue--;
    if (!change) { /* out of memory: the client has to look at the tree again */
        file_watch_resync(w, RESYNC(OVERFLOW));
        return true;
    }
    bool lives =
        file_watch_send(w, BERM__V1__WATCH_FILES_RESPONSE__EVENT_CHANGE, change) != CALL_GONE;
    berm__v1__file_change__free_unpacked(change, NULL);
    return lives;
}

static void file_watch_pump(struct watching *w) {
    while (!w->is_full && (w->resync != 0 || w->n_queue > 0))
        if (w->resync != 0 ? file_watch_send_resync(w) == CALL_GONE : !file_watch_send_queued(w))
            return;
    if (!w->is_full && w->end != 0)
        file_watch_send_end(w);
    else if (w->n_queue == 0)
        buf_trim(&w->queue);
}

/* --- the guest --- */

static int file_watch_read_change(const struct guest_change *from, struct arena *a,
                                  Berm__V1__FileChange *change, struct err *e) {
    berm__v1__file_change__init(change);
    change->kind = (Berm__V1__FileChangeKind)from->kind;
    if (answer_path(&from->path, a, &change->path, &change->raw_path, e) < 0 ||
        answer_path(&from->old_path, a, &change->old_path, &change->raw_old_path, e) < 0)
        return -(int)e->code;
    return from->has_info ? answer_info(&from->info, a, &change->info, e) : 0;
}

static int file_watch_take_changes(struct watching *w, const struct guest_changed *n,
                                   struct err *e) {
    Berm__V1__FileChange change;
    struct arena arena;
    if (arena_init(&arena, ARENA_FIRST, ARENA_MAX) < 0)
        return answer_no_memory(e);
    int r = 0;
    for (size_t i = 0; i < n->n_changes && r == 0; i++) {
        arena_reset(&arena);
        r = file_watch_read_change(&n->changes[i], &arena, &change, e);
        if (r == 0)
            file_watch_queue(w, &change);
    }
    arena_done(&arena);
    return r;
}

static void file_watch_on_notice(void *user, const struct guest_notice *n) {
    struct watching *w = user;
    struct err e;
    if (!w->is_open || w->end != 0)
        return;
    if (file_watch_take_changes(w, &n->changed, &e) < 0) {
        file_watch_fail(w, &e);
        return;
    }
    if (n->changed.resync != GUEST_RESYNC_NONE)
        /* drops the queued changes, because the client reads the tree again */
        file_watch_resync(w, (int)n->changed.resync);
    if (n->changed.has_ended)
        w->end = END(COMPLETE);
    file_watch_pump(w);
}

static void file_watch_on_answer(void *user, const struct guest_answer *a) {
    struct watching *w = user;
    Berm__V1__FileInfo *info;
    struct err e;
    if (a->e) {
        e = file_target_error("", w->target.sandbox_id, a->e);
        file_watch_fail(w, &e);
    } else if (answer_info(&a->file->info, &w->call->arena, &info, &e) < 0) {
        file_watch_fail(w, &e);
    } else {
        w->is_open = true;
        heartbeat_start(&w->heartbeat);
        if (file_watch_send(w, BERM__V1__WATCH_FILES_RESPONSE__EVENT_WATCHING, info) != CALL_GONE)
            file_watch_pump(w);
    }
}

/* Ends the stream of a stopped or deleted sandbox without an error, after the changes that were
 * reported before. */
static void file_watch_on_gone(void *user, const struct err *e, bool is_final) {
    struct watching *w = user;
    if (!is_final || !w->is_open || e->code == ERR_GUEST_LOST) {
        file_watch_fail(w, e);
        return;
    }
    file_call_close(TAKE(w->file));
    w->end = END(SANDBOX_GONE);
    file_watch_pump(w);
}

static const struct file_events events = {file_watch_on_answer, file_watch_on_gone,
                                          file_watch_on_notice};

/* --- the call --- */

static bool file_watch_on_quiet(struct heartbeat *h, Berm__V1__Heartbeat *m) {
    struct watching *w = container_of(h, struct watching, heartbeat);
    return w->is_full ||
           file_watch_send(w, BERM__V1__WATCH_FILES_RESPONSE__EVENT_HEARTBEAT, m) != CALL_GONE;
}

static void file_watch_on_message(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__WatchFilesRequest *request = (const void *)m;
    struct err e;
    struct watching *w = context_serves(c) ? call_new_state(c, sizeof *w) : NULL;
    if (!w)
        return;
    w->call = c;
    buf_init(&w->queue, QUEUE_BYTES);
    heartbeat_init(&w->heartbeat, c, file_watch_on_quiet);
    if (file_target_read(&w->target, m, "", false, &e) < 0 ||
        file_target_open(&w->target, c, false, &events, w, &w->file, &e) < 0) {
        call_finish(c, &e);
        return;
    }
    call_set_subject(c, "sandbox_id", w->target.sandbox_id);
    struct guest_file_request ask = file_target_request(&w->target, GUEST_WATCH);
    ask.watch.recursive = request->recursive;
    ask.watch.include_info = request->include_info;
    file_call_ask(w->file, &ask);
}

static void file_watch_on_writable(struct call *c) {
    struct watching *w = c->state;
    w->is_full = false;
    if (w->is_open)
        file_watch_pump(w);
}

static void file_watch_on_drain(struct call *c) {
    struct watching *w = c->state;
    w->end = END(DRAINING);
    if (w->is_open)
        file_watch_pump(w);
}

static void file_watch_on_cancel(struct call *c) {
    if (c->state)
        file_watch_release(c->state);
}

const struct handler api_file_watch = {.on_message = file_watch_on_message,
                                       .on_writable = file_watch_on_writable,
                                       .on_drain = file_watch_on_drain,
                                       .on_cancel = file_watch_on_cancel};
