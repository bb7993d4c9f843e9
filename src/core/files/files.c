#include "core/files/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define XFS_MAGIC 0x58465342
#define ZFS_MAGIC 0x2fc12fc1

struct file_call {
    struct list in_set;
    struct files *set;
    const struct file_events *events;
    void *user;
    struct guest_wait wait;
    uint64_t handle;
    uint64_t watch_id;
    bool with_handle;
    bool is_closed; /* its owner closed the call, which still waits for an answer */
    bool is_gone;   /* the guest or its link ends, which closes handle and watch */
};

void files_init(struct files *set, struct box *b) {
    set->box = b;
    list_init(&set->calls);
}

/* --- close --- */

static void file_call_free(struct file_call *f) {
    struct guest_link *l = f->is_gone || !box_is_linked(f->set->box) ? NULL : f->set->box->link;
    if (l && f->handle > 0)
        guest_files_close(l, f->handle);
    if (l && f->watch_id > 0)
        guest_files_unwatch(l, f->watch_id);
    list_remove(&f->in_set);
    f->set->n_calls--;
    f->set->n_handles -= f->with_handle;
    if (!f->is_gone)
        f->set->box->ops->touch(f->set->box);
    free(f);
}

void file_call_close(struct file_call *f) {
    if (!f)
        return;
    f->is_closed = true;
    if (!guest_wait_is_on(&f->wait))
        file_call_free(f);
}

/* Callbacks may close any call and open new ones, so only the calls that are open now get
 * on_gone. */
void files_gone(struct files *set, bool is_final) {
    struct list reported;
    struct err e;
    if (box_check_ready(set->box, 0, &e) == 0) {
        err_set(&e, ERR_GUEST_LOST, "the link to the guest broke");
        err_about(&e, "sandbox_id", set->box->record->sandbox_id);
    }
    list_init(&reported);
    for (struct list *node; (node = list_pop_front(&set->calls));)
        list_push_back(&reported, node);
    for (struct list *node; (node = list_pop_front(&reported));) {
        struct file_call *f = container_of(node, struct file_call, in_set);
        list_push_back(&set->calls, node);
        if (is_final) {
            guest_wait_cancel(&f->wait);
            f->is_gone = true;
        }
        if (!f->is_closed)
            f->events->on_gone(f->user, &e, is_final);
        else if (is_final)
            file_call_free(f);
    }
}

/* --- requests --- */

static void on_answer(struct guest_wait *w, const struct guest_answer *a) {
    struct file_call *f = container_of(w, struct file_call, wait);
    if (!a->e && a->file->method == GUEST_COMMIT)
        f->handle = 0; /* the guest closes the handle of a committed file */
    if (!a->e && a->file->handle > 0)
        f->handle = a->file->handle;
    if (!a->e && a->file->watch_id > 0)
        f->watch_id = a->file->watch_id;
    if (f->is_closed)
        file_call_free(f);
    else
        f->events->on_answer(f->user, a);
}

void files_notice(struct files *set, const struct guest_notice *n) {
    bool is_tree = n->kind == GUEST_TREE_DONE;
    LIST_FOR_EACH(node, &set->calls) {
        struct file_call *f = container_of(node, struct file_call, in_set);
        bool is_its =
            is_tree ? f->handle == n->tree_done.handle : f->watch_id == n->changed.watch_id;
        if (!is_its || f->is_closed || !f->events->on_notice)
            continue;
        f->events->on_notice(f->user, n);
        return; /* stop here, because the callback may have changed the list */
    }
}

int file_call_open(struct files *set, uint64_t incarnation, bool with_handle,
                   const struct file_events *events, void *user, struct file_call **ret,
                   struct err *e) {
    int r = box_check_ready(set->box, incarnation, e);
    if (r == 0)
        set->box->ops->wake(set->box);
    if (r == 0 && !set->box->link) /* with a link, requests wait until hello is answered */
        r = err_set(e, ERR_GUEST_LOST, "the guest cannot be reached now");
    if (r == 0 && set->n_calls >= FILE_CALLS_MAX)
        r = err_set(e, ERR_LIMIT_REACHED, "%d file calls are already open in this sandbox",
                    FILE_CALLS_MAX);
    if (r == 0 && with_handle && set->n_handles >= FILE_HANDLES_MAX)
        r = err_set(e, ERR_LIMIT_REACHED, "%d files are already open in this sandbox",
                    FILE_HANDLES_MAX);
    struct file_call *f = r == 0 ? calloc(1, sizeof *f) : NULL;
    if (r == 0 && !f)
        r = err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    if (r < 0)
        return err_about(e, "sandbox_id", set->box->record->sandbox_id);
    f->set = set;
    f->events = events;
    f->user = user;
    f->with_handle = with_handle;
    guest_wait_init(&f->wait, on_answer);
    list_push_back(&set->calls, &f->in_set);
    set->n_calls++;
    set->n_handles += with_handle;
    set->box->ops->touch(set->box);
    *ret = f;
    return 0;
}

void file_call_ask(struct file_call *f, const struct guest_file_request *r) {
    guest_files_ask(f->set->box->link, r, &f->wait);
}

bool file_call_is_waiting(const struct file_call *f) {
    return guest_wait_is_on(&f->wait);
}

uint64_t file_call_handle(const struct file_call *f) {
    return f->handle;
}

struct env *file_call_env(const struct file_call *f) {
    return f->set->box->env;
}

/* --- bytes --- */

/* Returns whether the filesystem is on a local disk or in memory. I/O there waits neither for a
 * program nor for a network and has no side effects. */
static bool files_is_plain(const struct statfs *fs) {
    switch ((unsigned long)fs->f_type) {
    case OVERLAYFS_SUPER_MAGIC:
    case EXT4_SUPER_MAGIC:
    case XFS_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case F2FS_SUPER_MAGIC:
    case EROFS_SUPER_MAGIC_V1:
    case SQUASHFS_MAGIC:
    case ZFS_MAGIC:
        return true;
    default:
        return false;
    }
}

/* Returns whether the file is a memfd. A memfd has no size limit, and the kernel charges the daemon
 * for the pages that the daemon writes there. */
static bool files_is_memfd(const struct statfs *fs) {
    return fs->f_type == TMPFS_MAGIC && fs->f_blocks == 0;
}

int file_take(const struct guest_answer *a, int access) {
    struct stat st;
    struct statfs fs;
    int fd = a->n_fds == 1 ? a->fds[0] : -1;
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    bool has_access = (flags & O_ACCMODE) == access || (flags & O_ACCMODE) == O_RDWR;
    if (flags < 0 || !has_access || (flags & (O_DIRECT | O_APPEND)) || fstat(fd, &st) < 0 ||
        !S_ISREG(st.st_mode) || fstatfs(fd, &fs) < 0 || !files_is_plain(&fs) ||
        (access == O_WRONLY && files_is_memfd(&fs)))
        return -1;
    return TAKE_FD(a->fds[0]);
}

/* --- records --- */

int file_call_intend(struct file_call *f, const struct request_key *key, bool is_over,
                     struct ledger_wait *w, struct err *e) {
    struct entry *t = ledger_begin(f->set->box->env->ledger);
    struct request_key kept = *key;
    if (!t)
        return change_refused(e);
    if (is_over)
        kept.keep_ms = 0;
    entry_put_request(t, &kept, "", (struct str){0});
    ledger_commit(t, w);
    return 0;
}

static void files_set_path(struct str path, char **text, ProtobufCBinaryData *raw) {
    if (str_is_utf8(path.p, path.n))
        *text = (char *)path.p;
    else
        *raw = (ProtobufCBinaryData){path.n, (uint8_t *)path.p};
}

int file_call_record(struct file_call *f, const struct file_audit *audit, const struct change *c,
                     struct str answer, struct err *e) {
    struct files *set = f->set;
    const Berm__V1__SandboxSpec *spec = set->box->record->spec;
    Berm__V1__Event event;
    Berm__V1__Actor actor;
    Berm__V1__FileEvent file = BERM__V1__FILE_EVENT__INIT;
    struct entry *t = ledger_begin(set->box->env->ledger);
    if (!t)
        return change_refused(e);
    box_event_init(set->box, &event, &actor, c->who, false, c->key ? c->key->request_id : NULL);
    file.operation = (Berm__V1__FileOperation)audit->operation;
    file.bytes_moved = audit->bytes_moved;
    files_set_path(audit->path, &file.path, &file.raw_path);
    if (audit->new_path.n > 0)
        files_set_path(audit->new_path, &file.new_path, &file.raw_new_path);
    event.kind = BERM__V1__EVENT_KIND__EVENT_KIND_FILE;
    event.body_case = BERM__V1__EVENT__BODY_FILE;
    event.file = &file;
    entry_event(t, &event, spec->n_labels, spec->labels);
    if (c->key)
        entry_put_request(t, c->key, set->box->record->sandbox_id, answer);
    ledger_commit(t, c->wait);
    return 0;
}
