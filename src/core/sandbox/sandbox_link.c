/* sandbox_link — the link to the guest: connecting, reconnecting, configuring, and what the guest
 * reports. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/guest/guest_sandbox.h"
#include "core/sandbox/sandbox_impl.h"

#define RELINKS_MAX 3
#define RELINKS_WITHIN_US 10000000
#define RELINK_PAUSE_US 50000
#define CONNECT_WITHIN_US 10000000
#define CONNECT_PAUSE_US 500
#define CONFIGURE_WITHIN_US 10000000
#define WATCH_EXIT_RETRY_US 1000000

static struct sandbox *sandbox_of_link(const struct guest_link *l) {
    return guest_link_user(l);
}

static void on_exec(struct guest_link *l, const struct guest_exec_state *state) {
    struct exec *x = execs_find(&sandbox_of_link(l)->execs, state->exec_id);
    if (x && !exec_is_settled(x))
        exec_on_known(x, state);
    else
        guest_exec_forget(l, state->exec_id); /* its end is durable, or it is unknown to bermd */
}

static void sandbox_link_configured(struct sandbox *sb) {
    box_set_link(&sb->box, LINK_CONFIGURED);
    execs_fetch(&sb->execs);
    if (sb->box.goal < GOAL_STOP) /* in a sandbox that is ending, no exec may start */
        execs_resume(&sb->execs);
    sandbox_converge(sb);
}

/* Returns whether the guest has its settings. If a restart came before the reply, the guest already
 * has them and refuses a second configure without naming a field. When the guest refuses a setting,
 * the error names a field. */
static bool sandbox_link_has_settings(const struct err *e) {
    return !e || (e->code == ERR_INVALID_ARGUMENT && !e->field[0]);
}

static void on_configured(struct guest_wait *w, const struct guest_answer *a) {
    struct sandbox *sb = container_of(w, struct sandbox, relink.configure_wait);
    deadline_clear(sb->box.env->deadlines, &sb->guest_deadline);
    if (sb->claim.is_active)
        sandbox_failpoint(sb, OP_ACK);
    if (sandbox_link_has_settings(a->e)) {
        sandbox_link_configured(sb);
        return;
    }
    box_set_link(&sb->box, LINK_GREETED);
    if (a->e->code != ERR_GUEST_LOST && a->e->code != ERR_GUEST_PROTOCOL) {
        sb->failure = *a->e;
        sandbox_converge(sb);
    }
}

static struct transcript *sandbox_link_transcript(struct sandbox *sb) {
    int dir = box_dir(&sb->box);
    if (sb->transcript)
        transcript_set_dir(sb->transcript, dir);
    else if (dir >= 0)
        sb->transcript =
            transcript_open(dir, "guest.log", sb->box.env->limits->of[LIMIT_GUEST_LOG]);
    return sb->transcript;
}

void sandbox_configure(struct sandbox *sb) {
    const Berm__V1__SandboxSpec *spec = sb->box.record->spec;
    if (sb->box.link_state != LINK_GREETED && sb->box.link_state != LINK_CONFIGURING)
        return;
    deadline_set(sb->box.env->deadlines, &sb->guest_deadline, clock_us() + CONFIGURE_WITHIN_US);
    if (sb->box.link_state == LINK_CONFIGURING)
        return;
    box_set_link(&sb->box, LINK_CONFIGURING);
    guest_wait_init(&sb->relink.configure_wait, on_configured);
    guest_sandbox_configure(sb->box.link,
                            &(struct guest_settings){
                                .sandbox_id = sb->box.record->sandbox_id,
                                .incarnation = sb->box.record->incarnation,
                                .workspace = spec->workspace,
                                .user = box_user(&sb->box),
                                .lease_ms = sb->box.env->limits->of[LIMIT_GUEST_LEASE],
                                .path = sb->tool_path,
                                .n_env = spec->n_env,
                                .env = spec->env,
                            },
                            &sb->relink.configure_wait);
    (void)sandbox_link_transcript(
        sb); /* from now on the transcript of a parked instance is in this directory */
}

static void on_link_ready(struct guest_link *l) {
    struct sandbox *sb = sandbox_of_link(l);
    if (sb->box.link_state == LINK_RECONNECTING) {
        sandbox_link_configured(sb);
        return;
    }
    box_set_link(&sb->box, LINK_GREETED);
    sandbox_configure(sb);
}

static void on_notice(struct guest_link *l, const struct guest_notice *n) {
    struct sandbox *sb = sandbox_of_link(l);
    struct exec *x;
    switch (n->kind) {
    case GUEST_GREW:
        if ((x = execs_find(&sb->execs, n->grew.exec_id)))
            exec_on_grew(x, n->grew.output_bytes);
        break;
    case GUEST_EXITED:
        if ((x = execs_find(&sb->execs, n->exited.exec_id)))
            exec_on_exited(x, &n->exited);
        break;
    case GUEST_STDIN_ROOM:
        if ((x = execs_find(&sb->execs, n->stdin_room.exec_id)))
            exec_on_stdin_writable(x, n->stdin_room.next_offset);
        break;
    case GUEST_TREE_DONE:
        copies_notice(&sb->copies, &n->tree_done);
        files_notice(&sb->files, n);
        break;
    case GUEST_CHANGED:
        files_notice(&sb->files, n);
        break;
    }
}

/* Returns whether bermd ran out of descriptors, which is temporary and not the guest's fault. */
static bool sandbox_link_is_shortage(const struct err *e) {
    return e->sys == EMFILE || e->sys == ENFILE;
}

/* Called when the link broke or the guest broke the protocol. After too many losses in a short time
 * the guest counts as lost. */
static void on_lost(struct guest_link *l, const struct err *e) {
    struct sandbox *sb = sandbox_of_link(l);
    uint64_t now = clock_us();
    sandbox_disconnect(sb);
    if (now - sb->relink.first_lost_us > RELINKS_WITHIN_US) {
        sb->relink.first_lost_us = now;
        sb->relink.n_lost = 0;
    }
    sb->relink.n_lost += !sandbox_link_is_shortage(e);
    if (sb->relink.n_lost > RELINKS_MAX || e->code == ERR_GUEST_VERSION) {
        log_text(LOG_WARN, "guest_lost", "%s: %s", sb->box.record->sandbox_id, e->text);
        sb->failure = *e;
        sandbox_converge(sb);
        return;
    }
    deadline_set(sb->box.env->deadlines, &sb->again, now + RELINK_PAUSE_US);
}

static const struct guest_events guest_events = {on_exec, on_link_ready, on_notice, on_lost};

void sandbox_take_link(struct sandbox *sb, struct guest_link *link, struct transcript *said) {
    sb->transcript = said;
    sb->box.link = link;
    box_set_link(&sb->box, LINK_GREETED);
    guest_link_give(link, &guest_events, sb);
}

void sandbox_connect(struct sandbox *sb) {
    struct err e;
    int fd = instance_connect(sb->box.instance, &e);
    if (fd >= 0)
        sb->box.link = guest_link_open(&(struct guest_link_spec){
            .loop = sb->box.env->loop,
            .deadlines = sb->box.env->deadlines,
            .fd = fd,
            .is_bytes_only = sb->box.instance->is_bytes_only,
            .transcript = sandbox_link_transcript(sb),
            .run_id = sb->box.env->run_id,
            .sandbox_id = sb->box.record->sandbox_id,
            .incarnation = sb->box.record->incarnation,
            .lease_ms = sb->box.env->limits->of[LIMIT_GUEST_LEASE],
            .events = &guest_events,
            .user = sb,
        });
    uint64_t now = clock_us();
    if (sb->box.link) {
        box_set_link(&sb->box,
                     sb->box.link_state == LINK_LOST ? LINK_RECONNECTING : LINK_CONNECTING);
        sb->relink.connecting_since_us = 0;
        return;
    }
    /* The guest may not listen yet. If it has ended, the instance reports that. */
    if (sb->relink.connecting_since_us == 0)
        sb->relink.connecting_since_us = now;
    bool is_short = fd < 0 && sandbox_link_is_shortage(&e);
    if (is_short || now - sb->relink.connecting_since_us < CONNECT_WITHIN_US) {
        deadline_set(sb->box.env->deadlines, &sb->again,
                     now + (is_short ? RELINK_PAUSE_US : CONNECT_PAUSE_US));
        return;
    }
    if (fd >= 0)
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
    sb->failure = e;
    sandbox_converge(sb);
}

void sandbox_wake(struct box *b) {
    struct sandbox *sb = sandbox_of(b);
    if (!sandbox_is_dormant(sb))
        return;
    list_remove(&sb->in_dormant);
    execs_learn_kills(&sb->execs); /* read the OOM count before any exec can end */
    if (sb->box.instance_state == INST_UP && !sb->box.link)
        sandbox_connect(sb);
    else if (sb->box.instance)
        sandbox_watch_exit(sb);
}

void sandbox_watch_exit(struct sandbox *sb) {
    if (instance_watch_exit(sb->box.instance) < 0)
        deadline_set(sb->box.env->deadlines, &sb->again, clock_us() + WATCH_EXIT_RETRY_US);
}

void sandbox_disconnect(struct sandbox *sb) {
    guest_wait_cancel(&sb->relink.configure_wait);
    copies_drop(&sb->copies);
    if (sb->box.link)
        guest_link_close(TAKE(sb->box.link));
    box_set_link(&sb->box, box_is_configured(&sb->box) ? LINK_LOST : LINK_NONE);
    files_gone(&sb->files, true);
}

void sandbox_forget_guest(struct sandbox *sb) {
    sandbox_disconnect(sb);
    box_set_link(&sb->box, LINK_NONE);
    sb->relink.connecting_since_us = 0;
    sb->relink.n_lost = 0;
}
