#include "guest/watcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/limits.h"
#include "guest/files.h"
#include "guest/params.h"
#include "guest/walk.h"

#define COALESCE_MS 50
#define BUCKETS 4096
#define MESSAGE_PART ((size_t)512 << 10) /* a message is sent when it is larger */
#define EVENT_BYTES 65536
#define DIR_EVENTS                                                                                \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | \
     IN_DELETE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)
#define FILE_EVENTS (IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
#define PARENT_EVENTS (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR)

/* A directory that is watched, by what inotify calls it. */
struct dir {
    struct dir *next; /* in its bucket */
    int wd;
    char path[]; /* absolute */
};

enum resync { RESYNC_NONE, RESYNC_OVERFLOW, RESYNC_ROOT };

struct watcher {
    char *path; /* as asked for */
    bool is_recursive, include_info;
    int inotify, sock;
    int root; /* -1: gone */
    int root_wd, parent_wd;
    bool is_dir;
    struct stat root_st;
    struct dir *buckets[BUCKETS];
    size_t n_dirs;
    struct change_queue queue;
    struct user_names names;
    struct buf message;
    enum resync resync;
    bool look_at_root, root_is_new; /* it may be another; it certainly is */
    bool must_look_again;
    bool must_end;
    uint64_t first_us; /* when the oldest change not told came; 0: there is none */
};

static struct dir *dir_find(struct watcher *w, int wd) {
    struct dir *d = w->buckets[(unsigned)wd % BUCKETS];
    while (d && d->wd != wd)
        d = d->next;
    return d;
}

static int dir_add(struct watcher *w, int wd, const char *path) {
    struct dir *d = malloc(sizeof *d + strlen(path) + 1);
    if (!d)
        return -ENOMEM;
    struct dir **bucket = &w->buckets[(unsigned)wd % BUCKETS];
    d->wd = wd;
    d->next = *bucket;
    strcpy(d->path, path);
    *bucket = d;
    w->n_dirs++;
    return 0;
}

static void dir_drop(struct watcher *w, struct dir **at) {
    struct dir *d = *at;
    *at = d->next;
    free(d);
    w->n_dirs--;
}

static void dir_drop_wd(struct watcher *w, int wd) {
    for (struct dir **at = &w->buckets[(unsigned)wd % BUCKETS]; *at; at = &(*at)->next)
        if ((*at)->wd == wd) {
            dir_drop(w, at);
            return;
        }
}

static bool is_at_or_below(const char *path, const char *top) {
    size_t n = strlen(top);
    return strncmp(path, top, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* A directory went away with all below it, or (`to`) has another path now. */
static void dirs_moved(struct watcher *w, const char *from, const char *to) {
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct dir **at = &w->buckets[i]; *at;) {
            struct dir *d = *at;
            if (!is_at_or_below(d->path, from)) {
                at = &d->next;
                continue;
            }
            char path[2 * PATH_LENGTH_MAX + 2];
            snprintf(path, sizeof path, "%s%s", to ? to : "", d->path + strlen(from));
            int wd = d->wd;
            dir_drop(w, at);
            if (!to || strlen(path) > PATH_LENGTH_MAX || dir_add(w, wd, path) < 0)
                inotify_rm_watch(w->inotify, wd);
            else if (&w->buckets[i] == at)
                at = &(*at)->next; /* the new one is in front of us */
        }
    }
}

static void dirs_drop_all(struct watcher *w) {
    for (size_t i = 0; i < BUCKETS; i++)
        while (w->buckets[i]) {
            inotify_rm_watch(w->inotify, w->buckets[i]->wd);
            dir_drop(w, &w->buckets[i]);
        }
}

/* By a descriptor, so that what was looked at is what is watched. -errno. */
static int watch_fd(struct watcher *w, int fd, const char *path) {
    if (w->n_dirs >= (size_t)limit_table[LIMIT_WATCH_DIRS].value)
        return -EMFILE;
    if (fchdir(fd) < 0)
        return -errno;
    int wd = inotify_add_watch(w->inotify, ".", DIR_EVENTS);
    if (wd < 0)
        return -errno;
    if (dir_find(w, wd))
        dir_drop_wd(w, wd); /* the same directory, met under a newer path */
    int r = dir_add(w, wd, path);
    return r < 0 ? r : wd;
}

/* Looking at a directory that is new, or at all of them. */
struct look {
    struct walk walk;
    struct watcher *watcher;
    bool is_news; /* what is found was made after the watch began */
    int error;
};

static unsigned on_name(struct walk *walk, unsigned char type) {
    struct look *l = container_of(walk, struct look, walk);
    if (type == DT_DIR)
        return WALK_VISIT | WALK_ENTER;
    if (l->is_news)
        queue_add(&l->watcher->queue, CHANGE_CREATED, walk->path, 0, false);
    return WALK_SKIP;
}

static void on_entry(struct walk *walk, unsigned char type) {
    struct look *l = container_of(walk, struct look, walk);
    (void)type;
    AUTO_CLOSE int fd = path_open_below(walk->root, walk->relative, O_PATH | O_DIRECTORY);
    int r = fd < 0 ? 0 : watch_fd(l->watcher, fd, walk->path);
    if (l->is_news)
        queue_add(&l->watcher->queue, CHANGE_CREATED, walk->path, 0, true);
    if (r < 0 && r != -EACCES && r != -ENOENT) {
        l->error = r;
        walk->stop = true;
    }
}

/* Everything below a directory that is watched already. Takes fd. */
static int look_below(struct watcher *w, int fd, const char *path, bool is_news) {
    struct look l = {.watcher = w, .is_news = is_news};
    l.walk.on_name = on_name;
    l.walk.on_entry = on_entry;
    l.walk.entries_left = UINT64_MAX;
    int r = walk_init_at(&l.walk, fd, path);
    if (r == 0)
        r = walk_run(&l.walk);
    walk_done(&l.walk);
    if (r == -EACCES || r == -ENOENT)
        r = 0;
    return r < 0 ? r : l.walk.is_cut ? -ENOMEM : l.error;
}

/* Once the start cannot be watched as promised. */
static void give_up(struct watcher *w) {
    w->resync = RESYNC_OVERFLOW;
    w->must_end = true;
}

static void new_directory(struct watcher *w, const char *path) {
    const char *relative = path + strlen(w->path) + (w->path[1] != '\0');
    AUTO_CLOSE int fd = path_open_below(w->root, relative, O_PATH | O_DIRECTORY);
    int r = fd < 0 ? -ENOENT : watch_fd(w, fd, path);
    if (r >= 0)
        r = look_below(w, TAKE_FD(fd), path, true);
    if (r < 0 && r != -EACCES && r != -ENOENT)
        give_up(w);
}

/* Begins anew at the path as it is now. -errno. */
static int watch_root(struct watcher *w) {
    dirs_drop_all(w);
    if (w->root >= 0)
        close(w->root);
    w->root = path_open(w->path, O_PATH, 0);
    if (w->root < 0)
        return w->root;
    if (fstat(w->root, &w->root_st) < 0)
        return -errno;
    w->is_dir = S_ISDIR(w->root_st.st_mode);
    if (!w->is_dir) {
        char self[32];
        snprintf(self, sizeof self, "/proc/self/fd/%d", w->root);
        w->root_wd = inotify_add_watch(w->inotify, self, FILE_EVENTS);
        return w->root_wd < 0 ? -errno : dir_add(w, w->root_wd, w->path);
    }
    w->root_wd = watch_fd(w, w->root, w->path);
    if (w->root_wd < 0 || !w->is_recursive)
        return MIN(w->root_wd, 0);
    int copy = fcntl(w->root, F_DUPFD_CLOEXEC, 3);
    return copy < 0 ? -errno : look_below(w, copy, w->path, false);
}

/* So that a return of the path can be seen; not everyone may. */
static void watch_parent(struct watcher *w) {
    const char *name;
    AUTO_CLOSE int fd = path_open_parent(w->path, &name);
    w->parent_wd = -1;
    if (fd >= 0 && fchdir(fd) == 0)
        w->parent_wd = inotify_add_watch(w->inotify, ".", PARENT_EVENTS | IN_MASK_ADD);
}

static void on_parent_event(struct watcher *w, const struct inotify_event *ev) {
    if (ev->len == 0 || strcmp(ev->name, strrchr(w->path, '/') + 1) != 0)
        return;
    w->look_at_root = true;
    w->root_is_new |= (ev->mask & (IN_CREATE | IN_MOVED_TO)) != 0;
}

static void on_moved_to(struct watcher *w, const struct inotify_event *ev, const char *path) {
    bool is_dir = ev->mask & IN_ISDIR;
    const char *old_path = queue_rename(&w->queue, ev->cookie, path);
    if (!old_path) {
        queue_add(&w->queue, CHANGE_CREATED, path, 0, is_dir);
        if (is_dir && w->is_recursive)
            new_directory(w, path);
    } else if (is_dir) {
        dirs_moved(w, old_path, path);
    }
}

static void on_event(struct watcher *w, const struct inotify_event *ev) {
    char path[2 * PATH_LENGTH_MAX + 2];
    if (ev->mask & IN_Q_OVERFLOW) {
        w->resync = RESYNC_OVERFLOW;
        w->must_look_again = true; /* a new directory may be among what was missed */
        return;
    }
    if (ev->wd == w->parent_wd && ev->wd != w->root_wd) {
        on_parent_event(w, ev);
        return;
    }
    struct dir *d = dir_find(w, ev->wd);
    if (!d)
        return;
    bool is_root = ev->wd == w->root_wd;
    if (ev->mask & (IN_MOVE_SELF | IN_DELETE_SELF | IN_IGNORED | IN_UNMOUNT)) {
        w->look_at_root |= is_root;
        w->root_is_new |= is_root && ev->mask & IN_IGNORED;
        if (ev->mask & IN_IGNORED)
            dir_drop_wd(w, ev->wd);
        return;
    }
    bool is_self = ev->len == 0;
    if (is_self && !is_root)
        return; /* its own directory tells it with the name */
    const char *top = d->path[1] == '\0' && !is_self ? "" : d->path;
    snprintf(path, sizeof path, "%s%s%s", top, is_self ? "" : "/", is_self ? "" : ev->name);
    bool is_dir = ev->mask & IN_ISDIR;
    if (strlen(path) > PATH_LENGTH_MAX)
        w->resync = RESYNC_OVERFLOW;
    else if (ev->mask & IN_CREATE) {
        queue_add(&w->queue, CHANGE_CREATED, path, 0, is_dir);
        if (is_dir && w->is_recursive)
            new_directory(w, path);
    } else if (ev->mask & IN_MOVED_TO)
        on_moved_to(w, ev, path);
    else if (ev->mask & IN_MOVED_FROM)
        queue_add(&w->queue, CHANGE_REMOVED, path, ev->cookie, is_dir);
    else if (ev->mask & IN_DELETE)
        queue_add(&w->queue, CHANGE_REMOVED, path, 0, is_dir);
    else if (ev->mask & (IN_MODIFY | IN_ATTRIB))
        queue_add(&w->queue, ev->mask & IN_MODIFY ? CHANGE_MODIFIED : CHANGE_ATTRIBUTES, path, 0,
                  is_dir);
}

static void send_message(struct watcher *w, struct json_out *o, const char *resync, bool is_last) {
    json_close(o, ']');
    if (resync)
        json_put_str(o, "resync", str_of(resync));
    if (is_last)
        json_put_bool(o, "ended", true);
    if (json_end(o) < 0)
        _exit(1);
    struct watcher_head head = {(uint32_t)buf_len(&w->message), is_last};
    struct iovec parts[2] = {{&head, sizeof head}, {buf_data(&w->message), buf_len(&w->message)}};
    size_t total = sizeof head + buf_len(&w->message), sent = 0;
    while (sent < total) {
        struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t n = sendmsg(w->sock, &m, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(0); /* the guest let go of it */
        sent += (size_t)n;
        for (size_t i = 0; i < 2; i++) {
            size_t step = MIN((size_t)n, parts[i].iov_len);
            parts[i].iov_base = (char *)parts[i].iov_base + step;
            parts[i].iov_len -= step;
            n -= (ssize_t)step;
        }
    }
}

static void open_message(struct watcher *w, struct json_out *o) {
    buf_clear(&w->message);
    json_begin(o, &w->message);
    json_key(o, "changes");
    json_open(o, '[');
}

static void put_change(struct watcher *w, struct json_out *o, const struct change *c) {
    struct stat st;
    json_open(o, '{');
    json_put_str(o, "kind", str_of(change_name(c->kind)));
    path_write(o, "path", c->path);
    if (c->old_path)
        path_write(o, "old_path", c->old_path);
    if (w->include_info && c->kind != CHANGE_REMOVED) {
        AUTO_CLOSE int fd = path_open(c->path, O_PATH | O_NOFOLLOW, 0);
        if (fd >= 0 && fstat(fd, &st) == 0) {
            json_key(o, "info");
            info_write(o, c->path, &st, fd, "", &w->names);
        }
    }
    json_close(o, '}');
}

static void send_changes(struct watcher *w) {
    struct json_out o;
    open_message(w, &o);
    for (size_t i = 0; i < w->queue.n; i++) {
        const struct change *c = &w->queue.of[i];
        put_change(w, &o, c);
        if (c->cookie != 0 && c->is_dir)
            dirs_moved(w, c->path, NULL); /* it left the tree */
        if (buf_len(&w->message) > MESSAGE_PART && i + 1 < w->queue.n) {
            send_message(w, &o, NULL, false);
            open_message(w, &o);
        }
    }
    if (w->queue.n > 0)
        send_message(w, &o, NULL, w->must_end);
    queue_clear(&w->queue);
}

/* The path may lead to something else now, or nowhere. */
static void check_root(struct watcher *w) {
    struct stat st;
    AUTO_CLOSE int fd = path_open(w->path, O_PATH, 0);
    bool is_there = fd >= 0 && fstat(fd, &st) == 0;
    bool is_same = is_there && w->root >= 0 && !w->root_is_new && st.st_dev == w->root_st.st_dev &&
                   st.st_ino == w->root_st.st_ino;
    w->look_at_root = w->root_is_new = false;
    if (is_same)
        return;
    if (is_there) {
        w->resync = RESYNC_ROOT;
        w->must_look_again = true;
        return;
    }
    if (w->root >= 0) {
        queue_add(&w->queue, CHANGE_REMOVED, w->path, 0, w->is_dir);
        dirs_drop_all(w);
        close(w->root);
        w->root = w->root_wd = -1;
    }
    w->must_end |= w->parent_wd < 0;
}

/* Looks at everything anew before it says so: what changes after that is seen. */
static void tell_resync(struct watcher *w) {
    static const char *const names[] = {NULL, "overflow", "root_changed"};
    struct json_out o;
    enum resync why = w->resync;
    queue_clear(&w->queue);
    w->queue.is_full = false;
    int r = w->must_end || !w->must_look_again ? 0 : watch_root(w);
    w->must_look_again = false;
    if (r == -ENOENT && w->parent_wd >= 0)
        w->look_at_root = true; /* gone again */
    else if (r < 0)
        w->must_end = true;
    w->resync = RESYNC_NONE;
    open_message(w, &o);
    send_message(w, &o, names[why], w->must_end);
}

static void flush(struct watcher *w) {
    w->first_us = 0;
    if (w->queue.is_full)
        w->resync = RESYNC_OVERFLOW;
    if (w->look_at_root && w->resync == RESYNC_NONE)
        check_root(w);
    if (w->resync != RESYNC_NONE)
        tell_resync(w);
    else
        send_changes(w);
    if (w->must_end)
        _exit(0);
}

static bool has_news(const struct watcher *w) {
    return w->queue.n > 0 || w->queue.is_full || w->resync != RESYNC_NONE || w->look_at_root;
}

static void take_events(struct watcher *w) {
    static const size_t head = sizeof(struct inotify_event);
    char bytes[EVENT_BYTES] __attribute__((aligned(8)));
    ssize_t n = read(w->inotify, bytes, sizeof bytes);
    for (ssize_t at = 0; n - at >= (ssize_t)head;) {
        const struct inotify_event *ev = (const void *)(bytes + at);
        on_event(w, ev);
        at += (ssize_t)(head + ev->len);
    }
    if (w->first_us == 0 && has_news(w))
        w->first_us = clock_us();
}

static void watcher_run(struct work *work) {
    struct watcher *w = work->then_arg;
    for (;;) {
        struct pollfd fds[2] = {{.fd = w->inotify, .events = POLLIN}, {.fd = w->sock}};
        uint64_t due_us = w->first_us + (uint64_t)COALESCE_MS * 1000, now = clock_us();
        int wait_ms = w->first_us == 0 ? -1 : due_us > now ? (int)((due_us - now) / 1000 + 1) : 0;
        poll(fds, 2, wait_ms);
        if (fds[1].revents)
            _exit(0); /* the guest let go of it */
        if (fds[0].revents)
            take_events(w);
        if (w->first_us > 0 && clock_us() >= w->first_us + (uint64_t)COALESCE_MS * 1000) {
            flush(w);
            if (has_news(w))
                w->first_us = clock_us();
        }
    }
}

static int watch_error(struct err *e, int r, const char *path) {
    if (r == -EMFILE || r == -ENOSPC)
        return err_limit(e, ERR_LIMIT_REACHED, LIMIT_WATCH_DIRS,
                         limit_table[LIMIT_WATCH_DIRS].value,
                         "more directories than can be watched lie below %.150s", path);
    return path_error(e, -r, "watch", path);
}

int work_watch(struct work *work, struct err *e) {
    int pair[2];
    struct watcher *w = calloc(1, sizeof *w);
    if (!w || queue_init(&w->queue) < 0)
        return err_set(e, ERR_LIMIT_REACHED, "no memory to watch");
    if (path_param(work->params, "path", work->workspace, work->arena, &w->path, e) < 0 ||
        params_bool(work->params, "recursive", &w->is_recursive, e) < 0 ||
        params_bool(work->params, "include_info", &w->include_info, e) < 0)
        return -(int)e->code;
    path_clean(w->path);
    w->root = w->root_wd = -1;
    buf_init(&w->message, WATCHER_MESSAGE_MAX);
    user_names_load(&w->names);
    w->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w->inotify < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, ERR_LIMIT_REACHED, errno, "begin to watch");
    watch_parent(w);
    int r = watch_root(w);
    if (r < 0)
        return watch_error(e, r, w->path);
    json_key(work->out, "info");
    info_write(work->out, w->path, &w->root_st, -1, NULL, &w->names);
    w->sock = pair[0];
    work->fds[work->n_fds++] = pair[1];
    work->then = watcher_run;
    work->then_arg = w;
    return 0;
}
