#include "core/imports/copies.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "core/imports/copy_feed.h"
#include "core/imports/imports.h"
#include "core/imports/tools.h"

#define MARK "copied"
/* Counts from the moment when all bytes are in the pipe. */
#define TREE_DONE_WITHIN_US UINT64_C(60000000)

/* A credentials file of a tool. */
struct copy_secret {
    char source[128];
    char target[128];
    size_t index; /* index of the tool in spec.tools */
};

struct copying {
    struct copies *copies;
    size_t at;    /* index of the current copy: spec.copies first, then `secrets` */
    size_t found; /* number of existing credentials files of the current tool */
    struct copy_secret secrets[TOOLS_MAX * TOOL_FILES_MAX];
    size_t n_secrets;
    uint32_t uid;
    bool is_file;
    struct open_ask ask; /* first checks the source, then packs it */
    struct guest_wait wait;
    struct deadline late;
    uint64_t handle;        /* handle of the unpacking in the guest; 0 = none */
    struct copy_feed *feed; /* NULL: not used, because the guest passed a pipe */
    bool packed;
    bool unpacked;
    struct err pack_failure;
    struct err unpack_failure;
};

/* --- the list --- */

static const Berm__V1__Copy *copies_current(const struct copying *c) {
    const Berm__V1__SandboxSpec *spec = c->copies->box->record->spec;
    return c->at < spec->n_copies ? spec->copies[c->at] : NULL;
}

static const struct copy_secret *copies_current_secret(const struct copying *c) {
    return &c->secrets[c->at - c->copies->box->record->spec->n_copies];
}

static const char *copies_source(const struct copying *c) {
    return copies_current(c) ? copies_current(c)->source : copies_current_secret(c)->source;
}

static const char *copies_target(const struct copying *c) {
    return copies_current(c) ? copies_current(c)->target : copies_current_secret(c)->target;
}

static void copies_list_secrets(struct copying *c) {
    const Berm__V1__SandboxSpec *spec = c->copies->box->record->spec;
    bool is_root = spec->profile == BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_ROOT;
    for (size_t i = 0; i < spec->n_tools; i++) {
        const struct tool *t =
            spec->tools[i]->credentials ? tool_named(spec->tools[i]->name) : NULL;
        for (size_t k = 0; t && k < TOOL_FILES_MAX && t->files[k]; k++) {
            struct copy_secret *item = &c->secrets[c->n_secrets++];
            item->index = i;
            snprintf(item->source, sizeof item->source, "~/%s", t->files[k]);
            snprintf(item->target, sizeof item->target, "%s/%s", is_root ? "/root" : "/home/user",
                     t->files[k]);
        }
    }
}

/* --- the marker file --- */

static bool copies_are_kept(const struct copies *all) {
    const Berm__V1__RootFilesystem *root = all->box->record->spec->root;
    return !root || root->layer != BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_MEMORY;
}

bool copies_are_done(struct copies *all) {
    struct stat st;
    const Berm__V1__SandboxSpec *spec = all->box->record->spec;
    bool is_needed = spec->n_copies > 0;
    for (size_t i = 0; i < spec->n_tools; i++)
        is_needed = is_needed || spec->tools[i]->credentials;
    if (!is_needed || all->are_done)
        return true;
    int dir = copies_are_kept(all) ? box_dir(all->box) : -1;
    all->are_done = dir >= 0 && fstatat(dir, MARK, &st, AT_SYMLINK_NOFOLLOW) == 0;
    return all->are_done;
}

static int copies_write_mark(struct copies *all, struct err *e) {
    int dir = box_dir(all->box);
    AUTO_CLOSE int fd =
        dir < 0 ? -1 : openat(dir, MARK, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set(e, ERR_STORE_FAILED, "cannot create the marker file of the copies");
    return 0;
}

void copies_forget(struct copies *all) {
    int dir = box_dir(all->box);
    all->are_done = false;
    if (dir >= 0)
        unlinkat(dir, MARK, 0);
}

/* --- end --- */

static void copies_close_handle(struct copying *c) {
    struct copies *all = c->copies;
    if (c->handle == 0 || !box_is_linked(all->box))
        return;
    guest_files_close(all->box->link, c->handle);
    c->handle = 0;
}

void copies_drop(struct copies *all) {
    struct copying *c = TAKE(all->now);
    if (!c)
        return;
    open_ask_cancel(&c->ask);
    guest_wait_cancel(&c->wait);
    copy_feed_close(c->feed);
    deadline_clear(all->box->env->deadlines, &c->late);
    free(c);
}

static void copies_fail(struct copying *c, const struct err *e) {
    struct copies *all = c->copies;
    struct err why = *e;
    if (copies_current(c))
        (void)err_wrap(&why, "spec.copies[%zu]", c->at);
    else
        (void)err_wrap(&why, "spec.tools[%zu].credentials", copies_current_secret(c)->index);
    copies_close_handle(c);
    copies_drop(all);
    all->on_done(all, &why);
}

/* --- one copy --- */

static void copies_check_source(struct copying *c);

static void copies_finish(struct copying *c) {
    struct copies *all = c->copies;
    struct err e;
    if (copies_are_kept(all) && copies_write_mark(all, &e) < 0) {
        c->at--;
        copies_fail(c, &e);
        return;
    }
    all->are_done = true;
    copies_drop(all);
    all->on_done(all, NULL);
}

/* Continues with the next copy. Credentials files that do not exist are skipped, but each tool
 * needs at least one. */
static void copies_next(struct copying *c, bool was_there) {
    size_t n = c->copies->box->record->spec->n_copies + c->n_secrets;
    struct err e;
    bool was_secret = !copies_current(c);
    size_t index = was_secret ? copies_current_secret(c)->index : 0;
    copies_close_handle(c);
    copy_feed_close(TAKE(c->feed));
    c->found += was_secret && was_there;
    c->at++;
    if (was_secret && (c->at == n || copies_current_secret(c)->index != index)) {
        if (c->found == 0) {
            c->at--;
            err_set(&e, ERR_FILE_NOT_FOUND,
                    "the caller's home contains no credentials for this tool");
            copies_fail(c, &e);
            return;
        }
        c->found = 0;
    }
    if (c->at < n)
        copies_check_source(c);
    else
        copies_finish(c);
}

/* Checks whether the copy has ended. A failure of one side looks like an early end of stream to the
 * other side, so this function reports the side that has the cause. */
static void copies_check_ends(struct copying *c) {
    enum err_code pack = c->pack_failure.code, unpack = c->unpack_failure.code;
    struct deadlines *deadlines = c->copies->box->env->deadlines;
    if (c->packed && pack != ERR_NONE && pack != ERR_GUEST_LOST)
        copies_fail(c, &c->pack_failure);
    else if (c->packed && c->unpacked && unpack != ERR_NONE)
        copies_fail(c, &c->unpack_failure);
    else if (c->packed && c->unpacked && pack == ERR_NONE)
        copies_next(c, true);
    else if (c->packed && !c->unpacked)
        deadline_set(deadlines, &c->late, clock_us() + TREE_DONE_WITHIN_US);
    else if (c->packed)
        copies_fail(c, &c->pack_failure);
}

static void on_late(struct deadline *d) {
    struct copying *c = container_of(d, struct copying, late);
    struct err e;
    err_set(&e, ERR_GUEST_LOST, "the guest did not report the end of unpacking in time");
    copies_fail(c, &e);
}

static void on_packed(struct open_ask *a, const struct open_result *result) {
    struct copying *c = container_of(a, struct copying, ask);
    c->packed = true;
    if (result->e)
        c->pack_failure = *result->e;
    copies_check_ends(c);
}

void copies_notice(struct copies *all, const struct guest_tree_done *done) {
    struct copying *c = all->now;
    if (!c || c->handle != done->handle || c->unpacked)
        return;
    c->unpacked = true;
    deadline_clear(all->box->env->deadlines, &c->late);
    c->unpack_failure = done->failure;
    copies_check_ends(c);
}

/* Returns the guest's pipe, or a pipe of copy_feed if the guest passed none. */
static int copies_open_pipe(struct copying *c, const struct guest_answer *a, struct err *e) {
    struct copies *all = c->copies;
    int fd = -1;
    if (a->n_fds == 0)
        return copy_feed_new(all->box->env->loop, all->box->link, c->handle, &c->feed, &fd, e) < 0
                   ? -(int)e->code
                   : fd;
    return TAKE_FD(a->fds[0]);
}

static void on_unpacking(struct guest_wait *w, const struct guest_answer *a) {
    struct copying *c = container_of(w, struct copying, wait);
    struct err e;
    if (a->e && (a->e->code == ERR_GUEST_LOST || a->e->code == ERR_GUEST_PROTOCOL))
        return; /* the loss of the link calls copies_drop */
    if (a->e) {
        copies_fail(c, a->e);
        return;
    }
    c->handle = a->file->handle;
    AUTO_CLOSE int pipe_fd = copies_open_pipe(c, a, &e);
    if (pipe_fd < 0) {
        copies_fail(c, &e);
        return;
    }
    const Berm__V1__Copy *copy = copies_current(c);
    open_ask_init(&c->ask, on_packed);
    opener_pack(c->copies->box->env->opener, &c->ask, c->uid,
                &(struct open_pack_spec){.path = copies_source(c),
                                         .name = strrchr(copies_target(c), '/') + 1,
                                         .n_excludes = copy ? copy->n_excludes : 0,
                                         .excludes = copy ? copy->excludes : NULL,
                                         .is_private = !copy},
                pipe_fd);
}

static void on_source(struct open_ask *a, const struct open_result *result) {
    struct copying *c = container_of(a, struct copying, ask);
    struct copies *all = c->copies;
    const char *target = copies_target(c);
    size_t n = strlen(target);
    if (result->e && result->e->code == ERR_FILE_NOT_FOUND && !copies_current(c)) {
        copies_next(c, false);
        return;
    }
    if (result->e) {
        copies_fail(c, result->e);
        return;
    }
    /* The archive of a file has one member, named like the target, so the guest unpacks into the
     * parent directory. */
    if (result->is_file)
        n = MAX((size_t)(strrchr(target, '/') - target), (size_t)1);
    guest_wait_init(&c->wait, on_unpacking);
    guest_files_ask(
        all->box->link,
        &(struct guest_file_request){.method = GUEST_UNPACK, .path = {.bytes = {target, n}}},
        &c->wait);
}

static void copies_check_source(struct copying *c) {
    c->packed = c->unpacked = false;
    c->pack_failure = c->unpack_failure = (struct err){0};
    open_ask_init(&c->ask, on_source);
    opener_source(c->copies->box->env->opener, &c->ask, c->uid, copies_source(c));
}

void copies_begin(struct copies *all) {
    struct err e;
    struct copying *c = all->now ? NULL : calloc(1, sizeof *c);
    if (all->now)
        return;
    if (!c) {
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        all->on_done(all, &e);
        return;
    }
    c->copies = all;
    open_ask_init(&c->ask, on_source);
    guest_wait_init(&c->wait, on_unpacking);
    deadline_init(&c->late, on_late);
    all->now = c;
    copies_list_secrets(c);
    if (imports_uid(all->box->env, all->box->record->owner, &c->uid, &e) < 0)
        copies_fail(c, &e);
    else
        copies_check_source(c);
}
