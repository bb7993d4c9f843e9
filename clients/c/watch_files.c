/* File changes: WatchFiles, which resumes and then reports that changes may have been missed. */
#include "base/macros.h"
#include "clients/c/client.h"
#include "clients/c/methods.h"

struct watch_files {
    struct stream stream;
    berm_on_change on_change;
    void *user;
    int result;
    bool watching; /* the callback got the `watching` message */
};

static enum stream_next watch_files_give(struct watch_files *w,
                                         const Berm__V1__WatchFilesResponse *m) {
    w->stream.given++;
    w->result = w->on_change(m, w->user);
    return w->result == 0 ? STREAM_MORE : STREAM_STOP;
}

/* Reports a resync for every watch after the first, because changes between two watches are
 * missed. */
static enum stream_next on_watching(struct watch_files *w, const Berm__V1__WatchFilesResponse *m) {
    Berm__V1__FileResync resync = BERM__V1__FILE_RESYNC__INIT;
    Berm__V1__WatchFilesResponse missed = *m;
    if (!w->watching) {
        w->watching = true;
        return watch_files_give(w, m);
    }
    resync.reason = BERM__V1__FILE_RESYNC_REASON__FILE_RESYNC_REASON_RESTARTED;
    missed.event_case = BERM__V1__WATCH_FILES_RESPONSE__EVENT_RESYNC;
    missed.resync = &resync;
    return watch_files_give(w, &missed);
}

static enum stream_next on_message(struct stream *s, const ProtobufCMessage *message) {
    struct watch_files *w = container_of(s, struct watch_files, stream);
    const Berm__V1__WatchFilesResponse *m = (const Berm__V1__WatchFilesResponse *)message;
    switch ((int)m->event_case) {
    case BERM__V1__WATCH_FILES_RESPONSE__EVENT_WATCHING:
        return on_watching(w, m);
    case BERM__V1__WATCH_FILES_RESPONSE__EVENT_CHANGE:
    case BERM__V1__WATCH_FILES_RESPONSE__EVENT_RESYNC:
        return watch_files_give(w, m);
    case BERM__V1__WATCH_FILES_RESPONSE__EVENT_END:
        if (m->end->reason == BERM__V1__STREAM_END_REASON__STREAM_END_REASON_DRAINING ||
            m->end->reason == BERM__V1__STREAM_END_REASON__STREAM_END_REASON_SLOW_READER)
            return STREAM_AGAIN;
        watch_files_give(w, m);
        return STREAM_STOP;
    default: /* a heartbeat, or a message of a newer daemon (SKEW-5) */
        return STREAM_MORE;
    }
}

int berm_files_watch(struct berm_client *c, const Berm__V1__WatchFilesRequest *request,
                     berm_on_change on_change, void *user, struct berm_error *e) {
    struct watch_files w = {
        .stream = {.method = method_of(METHOD_ID_WatchFiles),
                   .request = &request->base,
                   .on_message = on_message,
                   .resumes = true},
        .on_change = on_change,
        .user = user,
    };
    int r = client_stream(c, &w.stream, e);
    return r < 0 ? r : w.result;
}
