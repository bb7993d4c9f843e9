#include "core/box/box.h"

int box_check_incarnation(const struct box *b, uint64_t asked, struct err *e) {
    if (asked == 0 || asked == b->record->incarnation)
        return 0;
    err_set(e, ERR_SANDBOX_STALE, "%s is in incarnation %llu, not %llu", b->record->sandbox_id,
            (unsigned long long)b->record->incarnation, (unsigned long long)asked);
    err_number(e, "incarnation", (int64_t)b->record->incarnation);
    err_number(e, "asked_incarnation", (int64_t)asked);
    return err_about(e, "sandbox_id", b->record->sandbox_id);
}

int box_refuse(const struct box *b, struct err *e) {
    static const struct {
        enum err_code code;
        const char *text;
    } rows[] = {
        [SB_PENDING] = {ERR_SANDBOX_NOT_READY, "is being made"},
        [SB_READY] = {ERR_SANDBOX_NOT_READY, "is running"},
        [SB_PAUSED] = {ERR_SANDBOX_PAUSED, "is paused"},
        [SB_STOPPING] = {ERR_SANDBOX_NOT_READY, "is being stopped"},
        [SB_STOPPED] = {ERR_SANDBOX_STOPPED, "is stopped"},
        [SB_FAILED] = {ERR_SANDBOX_FAILED, "has failed"},
        [SB_DELETING] = {ERR_SANDBOX_DELETED, "is being deleted"},
        [SB_DELETED] = {ERR_SANDBOX_DELETED, "is deleted"},
    };
    const char *id = b->record->sandbox_id;
    err_set(e, rows[b->record->state].code, "%s %s", id, rows[b->record->state].text);
    return err_about(e, "sandbox_id", id);
}

int box_check_driver(const struct box *b, uint64_t incarnation, struct err *e) {
    int r = box_check_incarnation(b, incarnation, e);
    if (r < 0 || b->driver)
        return r;
    err_set(e, ERR_DRIVER_UNAVAILABLE, "the driver \"%s\" of %s is not loaded",
            b->record->spec->driver, b->record->sandbox_id);
    return err_about(e, "sandbox_id", b->record->sandbox_id);
}

int box_check_ready(const struct box *b, uint64_t incarnation, struct err *e) {
    int r = box_check_driver(b, incarnation, e);
    if (r < 0)
        return r;
    if (!box_is(b, SB_READY))
        return box_refuse(b, e);
    if (b->goal == GOAL_PAUSE) {
        err_set(e, ERR_SANDBOX_PAUSED, "%s is being paused", b->record->sandbox_id);
        return err_about(e, "sandbox_id", b->record->sandbox_id);
    }
    return 0;
}

void box_event_init(const struct box *b, Berm__V1__Event *event, Berm__V1__Actor *actor,
                    const struct caller *who, bool by_sandbox, const char *request_id) {
    berm__v1__event__init(event);
    berm__v1__actor__init(actor);
    actor->kind = who          ? BERM__V1__ACTOR_KIND__ACTOR_KIND_CALLER
                  : by_sandbox ? BERM__V1__ACTOR_KIND__ACTOR_KIND_SANDBOX
                               : BERM__V1__ACTOR_KIND__ACTOR_KIND_DAEMON;
    if (who)
        actor->identity = (char *)who->identity;
    event->actor = actor;
    event->sandbox_id = b->record->sandbox_id;
    event->incarnation = b->record->incarnation;
    event->owner = b->record->owner;
    if (request_id)
        event->request_id = (char *)request_id;
}
