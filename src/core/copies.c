#include "core/copies.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "core/ingress.h"

#define MARK "copied"
#define TREE_DONE_WITHIN_US UINT64_C(60000000) /* after everything was in the pipe */

struct copying {
    struct sandbox *sandbox;
    size_t at; /* which copy */
    uint32_t uid;
    bool is_file;
    struct open_ask ask; /* the source, then its packing */
    struct guest_wait wait;
    struct deadline late;
    uint64_t handle; /* the guest's; 0 = none */
    bool packed;
    bool unpacked;
    struct err pack_failure;
    struct err unpack_failure;
};

static const Berm__V1__Copy *current(const struct copying *c) {
    return c->sandbox->record->spec->copies[c->at];
}

/* --- what was done --- */

static bool is_kept(const struct sandbox *sb) {
    const Berm__V1__RootFilesystem *root = sb->record->spec->root;
    return !root || root->layer != BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_MEMORY;
}

bool copies_are_done(struct sandbox *sb) {
    struct stat st;
    if (sb->record->spec->n_copies == 0 || sb->copied)
        return true;
    int dir = is_kept(sb) ? sandbox_dir(sb) : -1;
    sb->copied = dir >= 0 && fstatat(dir, MARK, &st, AT_SYMLINK_NOFOLLOW) == 0;
    return sb->copied;
}

bool sandbox_needs_copies(struct sandbox *sb) {
    return !copies_are_done(sb);
}

static int keep_mark(struct sandbox *sb, struct err *e) {
    int dir = sandbox_dir(sb);
    AUTO_CLOSE int fd =
        dir < 0 ? -1 : openat(dir, MARK, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set(e, ERR_STORE_FAILED, "that the copies are in cannot be written down");
    return 0;
}

/* --- its end --- */

static void close_handle(struct copying *c) {
    struct sandbox *sb = c->sandbox;
    if (c->handle == 0 || !sb->link || !sb->linked)
        return;
    json_put_u64(guest_link_ask(sb->link, "close"), "handle", c->handle);
    guest_link_send(sb->link, NULL, 0, NULL);
    c->handle = 0;
}

void copies_drop(struct sandbox *sb) {
    struct copying *c = TAKE(sb->copying);
    if (!c)
        return;
    open_ask_cancel(&c->ask);
    guest_wait_cancel(&c->wait);
    deadline_clear(sb->registry->spec.deadlines, &c->late);
    free(c);
}

static void fail(struct copying *c, const struct err *e) {
    struct sandbox *sb = c->sandbox;
    sb->failure = *e;
    (void)err_wrap(&sb->failure, "spec.copies[%zu]", c->at);
    close_handle(c);
    copies_drop(sb);
    sandbox_converge(sb);
}

/* --- one copy --- */

static void look_at_source(struct copying *c);

static void copied_one(struct copying *c) {
    struct sandbox *sb = c->sandbox;
    struct err e;
    close_handle(c);
    if (++c->at < sb->record->spec->n_copies) {
        look_at_source(c);
        return;
    }
    c->at--;
    if (is_kept(sb) && keep_mark(sb, &e) < 0) {
        fail(c, &e);
        return;
    }
    sb->copied = true;
    copies_drop(sb);
    sandbox_converge(sb);
}

/* Each side sees the other's failure as an early end, so the one that says more is told. */
static void look(struct copying *c) {
    enum err_code pack = c->pack_failure.code, unpack = c->unpack_failure.code;
    struct deadlines *deadlines = c->sandbox->registry->spec.deadlines;
    if (c->packed && pack != ERR_NONE && pack != ERR_GUEST_LOST)
        fail(c, &c->pack_failure);
    else if (c->packed && c->unpacked && unpack != ERR_NONE)
        fail(c, &c->unpack_failure);
    else if (c->packed && c->unpacked && pack == ERR_NONE)
        copied_one(c);
    else if (c->packed && !c->unpacked)
        deadline_set(deadlines, &c->late, clock_us() + TREE_DONE_WITHIN_US);
    else if (c->packed)
        fail(c, &c->pack_failure);
}

static void on_late(struct deadline *d) {
    struct copying *c = container_of(d, struct copying, late);
    struct err e;
    err_set(&e, ERR_GUEST_LOST, "the guest does not say that it has unpacked");
    fail(c, &e);
}

static void on_packed(struct open_ask *a, const struct open_result *result) {
    struct copying *c = container_of(a, struct copying, ask);
    c->packed = true;
    if (result->e)
        c->pack_failure = *result->e;
    look(c);
}

void copies_notice(struct sandbox *sb, const struct json *params) {
    struct copying *c = sb->copying;
    const struct json *handle = json_get(params, "handle"), *error = json_get(params, "error");
    const struct json *code = json_get(error, "code"), *message = json_get(error, "message");
    if (!c || c->handle == 0 || !handle || handle->type != JSON_INT ||
        (uint64_t)handle->integer != c->handle || c->unpacked)
        return;
    c->unpacked = true;
    deadline_clear(sb->registry->spec.deadlines, &c->late);
    if (error) {
        bool is_ours = code && code->type == JSON_INT && code->integer > 0 &&
                       code->integer < 1000 && err_face((enum err_code)code->integer);
        bool has_text = message && message->type == JSON_STRING;
        err_set(&c->unpack_failure, is_ours ? (enum err_code)code->integer : ERR_GUEST_PROTOCOL,
                "%.*s", has_text ? (int)MIN(message->text.n, (size_t)200) : 0,
                has_text ? message->text.p : "");
    }
    look(c);
}

/* berm-open writes to nothing but a pipe. */
static bool is_pipe(const struct guest_answer *a) {
    struct stat st;
    int flags = a->n_fds == 1 ? fcntl(a->fds[0], F_GETFL) : -1;
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fstat(a->fds[0], &st) == 0 &&
           S_ISFIFO(st.st_mode);
}

static void on_unpacking(struct guest_wait *w, const struct guest_answer *a) {
    struct copying *c = container_of(w, struct copying, wait);
    const struct json *handle = a->e ? NULL : json_get(a->result, "handle");
    struct err e;
    if (a->e && (a->e->code == ERR_GUEST_LOST || a->e->code == ERR_GUEST_PROTOCOL))
        return; /* the link's loss drops us */
    if (a->e) {
        fail(c, a->e);
        return;
    }
    if (!handle || handle->type != JSON_INT || handle->integer <= 0 || !is_pipe(a)) {
        err_set(&e, ERR_GUEST_PROTOCOL, "the guest unpacks from no pipe");
        fail(c, &e);
        return;
    }
    c->handle = (uint64_t)handle->integer;
    const Berm__V1__Copy *copy = current(c);
    open_ask_init(&c->ask, on_packed);
    opener_pack(c->sandbox->registry->spec.opener, &c->ask, c->uid, copy->source,
                strrchr(copy->target, '/') + 1, copy->n_excludes, copy->excludes, a->fds[0]);
}

static void on_source(struct open_ask *a, const struct open_result *result) {
    struct copying *c = container_of(a, struct copying, ask);
    struct sandbox *sb = c->sandbox;
    const char *target = current(c)->target;
    size_t n = strlen(target);
    if (result->e) {
        fail(c, result->e);
        return;
    }
    if (result->is_file) /* its one member has the target's last name */
        n = MAX((size_t)(strrchr(target, '/') - target), (size_t)1);
    json_put_str(guest_link_ask(sb->link, "unpack"), "path", (struct str){target, n});
    guest_wait_init(&c->wait, on_unpacking);
    guest_link_send(sb->link, NULL, 0, &c->wait);
}

static void look_at_source(struct copying *c) {
    c->packed = c->unpacked = false;
    c->pack_failure = c->unpack_failure = (struct err){0};
    open_ask_init(&c->ask, on_source);
    opener_source(c->sandbox->registry->spec.opener, &c->ask, c->uid, current(c)->source);
}

void copies_begin(struct sandbox *sb) {
    struct copying *c = sb->copying ? NULL : calloc(1, sizeof *c);
    if (sb->copying)
        return;
    if (!c) {
        err_set(&sb->failure, ERR_LIMIT_REACHED, "out of memory");
        sandbox_converge(sb);
        return;
    }
    c->sandbox = sb;
    open_ask_init(&c->ask, on_source);
    guest_wait_init(&c->wait, on_unpacking);
    deadline_init(&c->late, on_late);
    sb->copying = c;
    struct err e;
    if (ingress_uid(sb->registry, sb->record->owner, &c->uid, &e) < 0)
        fail(c, &e);
    else
        look_at_source(c);
}
