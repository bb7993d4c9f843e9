/* sandbox_usage — WatchUsage: a sample per interval, until the client leaves or the sandbox
 * stops. */

#include "api/context.h"
#include "api/subject.h"
#include "api/heartbeat.h"
#include "api/methods.h"
#include "base/clock.h"

#define INTERVAL_DEFAULT_MS 1000
#define INTERVAL_MAX_MS 60000

struct usage_watch {
    struct call *call;
    const Berm__V1__WatchUsageRequest *request;
    struct waiter measure;
    struct deadline tick;
    struct heartbeat heartbeat;
    /* incarnation of the first sample; a restart of the sandbox resets the counters */
    uint64_t incarnation;
    uint64_t sequence;
    int64_t interval_ms;
    bool full;
};

static struct deadlines *usage_deadlines(const struct usage_watch *w) {
    return context_deadlines(w->call);
}

static struct call *usage_release(struct usage_watch *w) {
    struct call *c = w->call;
    waiter_cancel(&w->measure);
    deadline_clear(usage_deadlines(w), &w->tick);
    heartbeat_stop(&w->heartbeat);
    c->state = NULL;
    free(w);
    return c;
}

/* Sends a message. Returns false if the call is over. */
static bool usage_send(struct usage_watch *w, Berm__V1__WatchUsageResponse *m) {
    m->sequence = ++w->sequence;
    heartbeat_sent(&w->heartbeat);
    enum call_push sent = call_send(w->call, &m->base);
    if (sent == CALL_FULL)
        w->full = true;
    return sent != CALL_GONE;
}

static void usage_end(struct usage_watch *w, int reason) {
    Berm__V1__WatchUsageResponse m = BERM__V1__WATCH_USAGE_RESPONSE__INIT;
    Berm__V1__StreamEnd last = BERM__V1__STREAM_END__INIT;
    last.reason = (Berm__V1__StreamEndReason)reason;
    m.event_case = BERM__V1__WATCH_USAGE_RESPONSE__EVENT_END;
    m.end = &last;
    m.sequence = ++w->sequence;
    if (call_send(w->call, &m.base) != CALL_GONE)
        call_finish(usage_release(w), NULL);
}

/* Finds the sandbox, and fails when it was restarted since the first sample. */
static int usage_find(struct usage_watch *w, struct sandbox **ret_sb, struct err *e) {
    const char *id = w->request->sandbox_id;
    if (subject_find_sandbox(w->call, id, "sandbox_id", ret_sb, e) < 0)
        return -(int)e->code;
    return sandbox_check_incarnation(*ret_sb,
                                     w->incarnation ? w->incarnation : w->request->incarnation, e);
}

static void usage_on_measured(struct waiter *measure) {
    struct usage_watch *w = container_of(measure, struct usage_watch, measure);
    Berm__V1__WatchUsageResponse m = BERM__V1__WATCH_USAGE_RESPONSE__INIT;
    Berm__V1__UsageSample sample = BERM__V1__USAGE_SAMPLE__INIT;
    struct sandbox *sb;
    struct err e;
    const struct instance_usage *u = usage_find(w, &sb, &e) < 0 ? NULL : sandbox_usage(sb);
    if (!u) {
        usage_end(w, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_SANDBOX_GONE);
        return;
    }
    const Berm__V1__Sandbox *record = sandbox_record(sb);
    w->incarnation = record->incarnation;
    sample.time_unix_ms = clock_unix_ms();
    sample.cpu_us = u->cpu_us;
    sample.memory_bytes = u->memory_bytes;
    sample.memory_peak_bytes = u->memory_peak_bytes;
    sample.pids = u->pids;
    sample.oom_kills = u->oom_kills;
    sample.output_bytes = sandbox_output_bytes(sb);
    sample.running_execs = record->running_execs;
    sample.limits = record->spec->limits;
    m.event_case = BERM__V1__WATCH_USAGE_RESPONSE__EVENT_SAMPLE;
    m.sample = &sample;
    if (usage_send(w, &m))
        deadline_set(usage_deadlines(w), &w->tick, clock_us() + (uint64_t)w->interval_ms * 1000);
}

static void usage_measure(struct usage_watch *w) {
    struct sandbox *sb;
    struct err e;
    if (w->full) /* no further sample until the client reads */
        return;
    if (usage_find(w, &sb, &e) < 0 || sandbox_measure(sb, &w->measure, &e) < 0)
        usage_end(w, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_SANDBOX_GONE);
}

static void usage_on_tick(struct deadline *d) {
    usage_measure(container_of(d, struct usage_watch, tick));
}

static bool usage_on_quiet(struct heartbeat *h, Berm__V1__Heartbeat *beat) {
    struct usage_watch *w = container_of(h, struct usage_watch, heartbeat);
    Berm__V1__WatchUsageResponse m = BERM__V1__WATCH_USAGE_RESPONSE__INIT;
    m.event_case = BERM__V1__WATCH_USAGE_RESPONSE__EVENT_HEARTBEAT;
    m.heartbeat = beat;
    return w->full || usage_send(w, &m);
}

static int usage_begin(struct usage_watch *w, struct err *e) {
    struct sandbox *sb;
    int64_t least = context_of(w->call)->facts.limits->of[LIMIT_USAGE_INTERVAL];
    w->interval_ms = w->request->interval_ms ? w->request->interval_ms : INTERVAL_DEFAULT_MS;
    if (w->interval_ms < least || w->interval_ms > INTERVAL_MAX_MS)
        return err_field(e, "interval_ms", "interval_ms: must be between %lld and %d",
                         (long long)least, INTERVAL_MAX_MS);
    int r = usage_find(w, &sb, e);
    return r < 0 ? r : sandbox_measure(sb, &w->measure, e);
}

static void usage_on_message(struct call *c, const ProtobufCMessage *m) {
    struct err e;
    struct usage_watch *w = calloc(1, sizeof *w);
    if (!w) {
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        call_finish(c, &e);
        return;
    }
    c->state = w;
    w->call = c;
    w->request = (const Berm__V1__WatchUsageRequest *)m;
    waiter_init(&w->measure, usage_on_measured);
    deadline_init(&w->tick, usage_on_tick);
    heartbeat_init(&w->heartbeat, c, usage_on_quiet);
    heartbeat_start(&w->heartbeat);
    if (usage_begin(w, &e) < 0)
        call_finish(usage_release(w), &e);
}

static void usage_on_writable(struct call *c) {
    struct usage_watch *w = c->state;
    if (!w)
        return;
    w->full = false;
    if (!w->tick.is_set && !waiter_is_waiting(&w->measure))
        usage_measure(w);
}

static void usage_on_drain(struct call *c) {
    if (c->state)
        usage_end(c->state, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_DRAINING);
}

static void usage_on_cancel(struct call *c) {
    if (c->state)
        usage_release(c->state);
}

const struct handler api_usage_watch = {.on_message = usage_on_message,
                                        .on_writable = usage_on_writable,
                                        .on_drain = usage_on_drain,
                                        .on_cancel = usage_on_cancel};
