#include "guest/watch/watcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/walk.h"
#include "guest/files/files.h"
#include "guest/files/info.h"
#include "guest/params.h"

#define COALESCE_MS 50
#define REST 10 /* after a scan, pause this many times as long as the scan took */
#define MESSAGE_PART ((size_t)512 << 10) /* send a message when it is larger than this */
#define EVENT_BYTES 65536
#define DIR_EVENTS                                                                                \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | \
     IN_DELETE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)
#define FILE_EVENTS (IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
#define PARENT_EVENTS (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR)

enum resync { RESYNC_NONE, RESYNC_OVERFLOW, RESYNC_ROOT };

struct watcher {
    char *path; /* path of the root, as in the request */
    bool is_recursive, include_info;
    int sock;
    int root_wd, parent_wd; /* -1: none */
    bool is_dir, is_gone;
    struct stat root_st; /* identity of the root; an open fd would keep a removed root alive */
    struct watcher_dirs dirs;
    struct watcher_queue queue;
    struct user_names names;
    struct buf message;
    enum resync resync;
    bool check_root, root_is_new; /* the root may be replaced; it was replaced for sure */
    bool must_scan;               /* scan the whole tree before the next report */
    bool must_end;
    uint64_t first_us; /* time of the oldest unreported change; 0: none */
    uint64_t rest_us;  /* no report before this time, so that scans do not use all CPU time */
};

/* Adds a watch by descriptor, through the working directory, so that the watched directory is the one that was
 * opened. Leaves the directory again, because inotify does not report the removal of a working directory.
 * Returns the watch descriptor or -errno. */
static int watcher_add_watch(struct watcher *w, int fd, uint32_t events) {
    int wd = fchdir(fd) < 0 ? -1 : inotify_add_watch(w->dirs.inotify, ".", events);
    int error = errno;
    (void)!chdir("/");
    return wd < 0 ? -error : wd;
}

/* Watches the root or a directory below it. Returns the watch descriptor or -errno. */
static int watcher_watch_dir(struct watcher *w, int fd, const char *path) {
    if (w->dirs.n >= (size_t)limit_table[LIMIT_WATCH_DIRS].value)
        return -EMFILE;
    int wd = watcher_add_watch(w, fd, DIR_EVENTS);
    if (wd < 0)
        return wd;
    if (watcher_dirs_find(&w->dirs, wd))
        watcher_dirs_drop_wd(&w->dirs, wd); /* the same directory, found under a newer path */
    int r = watcher_dirs_add(&w->dirs, wd, path);
    return r < 0 ? r : wd;
}

/* A scan of a new directory, or of the whole tree. */
struct watcher_scan {
    struct walk walk;
    struct watcher *watcher;
    bool is_news; /* report what the scan finds as created */
};

static unsigned watcher_on_name(struct walk *walk, unsigned char type) {
    struct watcher_scan *l = container_of(walk, struct watcher_scan, walk);
    if (type == DT_DIR)
        return WALK_VISIT | WALK_ENTER;
    if (l->is_news)
        watcher_queue_add(&l->watcher->queue, CHANGE_CREATED, walk->path, 0, false);
    return WALK_SKIP;
}

/* Watches the current directory of the walk. */
static int watcher_scan_entry(struct watcher_scan *l) {
    const struct walk *walk = &l->walk;
    AUTO_CLOSE int fd = fd_open_entry(walk->root, walk->relative, O_PATH | O_DIRECTORY);
    int r = fd < 0 ? 0 : watcher_watch_dir(l->watcher, fd, walk->path);
    if (l->is_news)
        watcher_queue_add(&l->watcher->queue, CHANGE_CREATED, walk->path, 0, true);
    return r == -EACCES || r == -ENOENT ? 0 : MIN(r, 0);
}

/* Watches everything below a directory that is watched already. Takes ownership of fd. Fails with
 * -errno. */
static int watcher_scan_below(struct watcher *w, int fd, const char *path, bool is_news) {
    struct watcher_scan l = {.watcher = w, .is_news = is_news};
    l.walk.on_name = watcher_on_name;
    l.walk.entries_left = UINT64_MAX;
    int r = walk_init(&l.walk, fd, path);
    while (r >= 0 && (r = walk_next(&l.walk)) > 0)
        if (r == WALK_ENTRY)
            r = watcher_scan_entry(&l);
    walk_done(&l.walk);
    if (r == -EACCES || r == -ENOENT)
        r = 0;
    return r < 0 ? r : l.walk.is_cut ? -ENOMEM : 0;
}

/* Ends the watch with `resync`, because it could not report all further changes. */
static void watcher_give_up(struct watcher *w) {
    w->resync = RESYNC_OVERFLOW;
    w->must_end = true;
}

/* Opens the root. Fails with -ESTALE when the path leads to another file than the watched one, else
 * with -errno. */
static int watcher_open_root(struct watcher *w) {
    struct stat st;
    AUTO_CLOSE int fd = path_open(w->path, O_PATH, 0);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fd < 0 ? fd : -errno;
    bool is_same = st.st_dev == w->root_st.st_dev && st.st_ino == w->root_st.st_ino;
    return is_same ? TAKE_FD(fd) : -ESTALE;
}

static void watcher_on_new_dir(struct watcher *w, const char *path) {
    const char *relative = path + strlen(w->path) + (w->path[1] != '\0');
    AUTO_CLOSE int root = watcher_open_root(w);
    AUTO_CLOSE int fd = root < 0 ? root : fd_open_entry(root, relative, O_PATH | O_DIRECTORY);
    int r = fd < 0 ? -ENOENT : watcher_watch_dir(w, fd, path);
    if (r >= 0)
        r = watcher_scan_below(w, TAKE_FD(fd), path, true);
    if (r < 0 && r != -EACCES && r != -ENOENT)
        watcher_give_up(w);
}

/* Watches the root and everything below it from scratch. Fails with -errno. */
static int watcher_watch_root(struct watcher *w) {
    watcher_dirs_clear(&w->dirs);
    w->is_gone = true;
    w->root_wd = -1;
    AUTO_CLOSE int fd = path_open(w->path, O_PATH, 0);
    if (fd < 0 || fstat(fd, &w->root_st) < 0)
        return fd < 0 ? fd : -errno;
    w->is_gone = false;
    w->is_dir = S_ISDIR(w->root_st.st_mode);
    if (!w->is_dir) {
        char self[32];
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        w->root_wd = inotify_add_watch(w->dirs.inotify, self, FILE_EVENTS);
        return w->root_wd < 0 ? -errno : watcher_dirs_add(&w->dirs, w->root_wd, w->path);
    }
    w->root_wd = watcher_watch_dir(w, fd, w->path);
    if (w->root_wd < 0 || !w->is_recursive)
        return MIN(w->root_wd, 0);
    return watcher_scan_below(w, TAKE_FD(fd), w->path, false);
}

/* Watches the parent, to see the root replaced or created again. Sets parent_wd to -1 when the user
 * may not watch the parent. */
static void watcher_watch_parent(struct watcher *w) {
    const char *name;
    AUTO_CLOSE int fd = path_open_parent(w->path, &name);
    w->parent_wd = fd < 0 ? -1 : watcher_add_watch(w, fd, PARENT_EVENTS);
}

static void watcher_on_parent_event(struct watcher *w, const struct inotify_event *ev) {
    if (ev->len == 0 || strcmp(ev->name, strrchr(w->path, '/') + 1) != 0)
        return;
    w->check_root = true;
    w->root_is_new |= (ev->mask & (IN_CREATE | IN_MOVED_TO)) != 0;
}

static void watcher_on_moved_to(struct watcher *w, const struct inotify_event *ev,
                                const char *path) {
    bool is_dir = ev->mask & IN_ISDIR;
    const char *old_path = watcher_queue_rename(&w->queue, ev->cookie, path);
    if (!old_path) {
        watcher_queue_add(&w->queue, CHANGE_CREATED, path, 0, is_dir);
        if (is_dir && w->is_recursive)
            watcher_on_new_dir(w, path);
    } else if (is_dir) {
        watcher_dirs_move(&w->dirs, old_path, path);
    }
}

static void watcher_on_event(struct watcher *w, const struct inotify_event *ev) {
    char path[2 * PATH_LENGTH_MAX + 2];
    if (ev->mask & IN_Q_OVERFLOW) {
        w->resync = RESYNC_OVERFLOW;
        w->must_scan = true; /* the lost events may include a new directory */
        return;
    }
    if (ev->wd == w->parent_wd && ev->wd != w->root_wd) {
        watcher_on_parent_event(w, ev);
        return;
    }
    struct watcher_dir *d = watcher_dirs_find(&w->dirs, ev->wd);
    if (!d)
        return;
    bool is_root = ev->wd == w->root_wd;
    if (ev->mask & (IN_MOVE_SELF | IN_DELETE_SELF | IN_IGNORED | IN_UNMOUNT)) {
        w->check_root |= is_root;
        w->root_is_new |= is_root && ev->mask & IN_IGNORED;
        if (ev->mask & IN_IGNORED)
            watcher_dirs_drop_wd(&w->dirs, ev->wd);
        return;
    }
    bool is_self = ev->len == 0;
    if (is_self && !is_root)
        return; /* the watch of the parent directory reports this change, with the name */
    const char *top = d->path[1] == '\0' && !is_self ? "" : d->path;
    snprintf(path, sizeof path, "%s%s%s", top, is_self ? "" : "/", is_self ? "" : ev->name);
    bool is_dir = ev->mask & IN_ISDIR;
    if (strlen(path) > PATH_LENGTH_MAX)
        w->resync = RESYNC_OVERFLOW;
    else if (ev->mask & IN_CREATE) {
        watcher_queue_add(&w->queue, CHANGE_CREATED, path, 0, is_dir);
        if (is_dir && w->is_recursive)
            watcher_on_new_dir(w, path);
    } else if (ev->mask & IN_MOVED_TO)
        watcher_on_moved_to(w, ev, path);
    else if (ev->mask & IN_MOVED_FROM)
        watcher_queue_add(&w->queue, CHANGE_REMOVED, path, ev->cookie, is_dir);
    else if (ev->mask & IN_DELETE)
        watcher_queue_add(&w->queue, CHANGE_REMOVED, path, 0, is_dir);
    else if (ev->mask & (IN_MODIFY | IN_ATTRIB))
        watcher_queue_add(&w->queue, ev->mask & IN_MODIFY ? CHANGE_MODIFIED : CHANGE_ATTRIBUTES,
                          path, 0, is_dir);
}

static void watcher_send(struct watcher *w, struct json_out *o, const char *resync, bool is_last) {
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
            _exit(0); /* the guest closed the watch */
        sent += (size_t)n;
        for (size_t i = 0; i < 2; i++) {
            size_t step = MIN((size_t)n, parts[i].iov_len);
            parts[i].iov_base = (char *)parts[i].iov_base + step;
            parts[i].iov_len -= step;
            n -= (ssize_t)step;
        }
    }
}

static void watcher_open_message(struct watcher *w, struct json_out *o) {
    buf_clear(&w->message);
    json_begin(o, &w->message);
    json_key(o, "changes");
    json_open(o, '[');
}

static void watcher_put_change(struct watcher *w, struct json_out *o, const struct change *c) {
    struct stat st;
    json_open(o, '{');
    json_put_str(o, "kind", str_of(watcher_change_name(c->kind)));
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

static void watcher_send_changes(struct watcher *w) {
    struct json_out o;
    watcher_open_message(w, &o);
    for (size_t i = 0; i < w->queue.n; i++) {
        const struct change *c = &w->queue.of[i];
        watcher_put_change(w, &o, c);
        if (c->cookie != 0 && c->is_dir)
            watcher_dirs_move(&w->dirs, c->path, NULL); /* the directory left the tree */
        if (buf_len(&w->message) > MESSAGE_PART && i + 1 < w->queue.n) {
            watcher_send(w, &o, NULL, false);
            watcher_open_message(w, &o);
        }
    }
    if (w->queue.n > 0)
        watcher_send(w, &o, NULL, w->must_end);
    watcher_queue_clear(&w->queue);
}

/* Checks whether the path of the root leads to another file, or to none. */
static void watcher_check_root(struct watcher *w) {
    AUTO_CLOSE int fd = watcher_open_root(w);
    bool is_there = fd >= 0 || fd == -ESTALE;
    bool is_same = fd >= 0 && !w->is_gone && !w->root_is_new;
    w->check_root = w->root_is_new = false;
    if (is_same)
        return;
    if (is_there) {
        w->resync = RESYNC_ROOT;
        w->must_scan = true;
        return;
    }
    if (!w->is_gone) {
        watcher_queue_add(&w->queue, CHANGE_REMOVED, w->path, 0, w->is_dir);
        watcher_dirs_clear(&w->dirs);
        w->is_gone = true;
        w->root_wd = -1;
    }
    w->must_end |= w->parent_wd < 0;
}

/* Scans the tree before it reports, so that later changes are seen. */
static void watcher_send_resync(struct watcher *w) {
    static const char *const names[] = {NULL, "overflow", "root_changed"};
    struct json_out o;
    enum resync why = w->resync;
    watcher_queue_clear(&w->queue);
    w->queue.is_full = false;
    uint64_t start_us = clock_us();
    int r = w->must_end || !w->must_scan ? 0 : watcher_watch_root(w);
    w->must_scan = false;
    w->rest_us = clock_us() + REST * (clock_us() - start_us);
    if (r == -ENOENT && w->parent_wd >= 0)
        w->check_root = true; /* the root was removed again */
    else if (r < 0)
        w->must_end = true;
    w->resync = RESYNC_NONE;
    watcher_open_message(w, &o);
    watcher_send(w, &o, names[why], w->must_end);
}

static void watcher_flush(struct watcher *w) {
    w->first_us = 0;
    if (w->queue.is_full)
        w->resync = RESYNC_OVERFLOW;
    if (w->check_root && w->resync == RESYNC_NONE)
        watcher_check_root(w);
    if (w->resync != RESYNC_NONE)
        watcher_send_resync(w);
    else
        watcher_send_changes(w);
    if (w->must_end)
        _exit(0);
}

static bool watcher_has_news(const struct watcher *w) {
    return w->queue.n > 0 || w->queue.is_full || w->resync != RESYNC_NONE || w->check_root;
}

static void watcher_read_events(struct watcher *w) {
    static const size_t head = sizeof(struct inotify_event);
    char bytes[EVENT_BYTES] __attribute__((aligned(8)));
    ssize_t n = read(w->dirs.inotify, bytes, sizeof bytes);
    for (ssize_t at = 0; n - at >= (ssize_t)head;) {
        const struct inotify_event *ev = (const void *)(bytes + at);
        if (!w->must_scan)
            watcher_on_event(w, ev);
        at += (ssize_t)(head + ev->len);
    }
    if (w->first_us == 0 && watcher_has_news(w))
        w->first_us = clock_us();
}

static void watcher_run(struct work *work) {
    struct watcher *w = work->then_arg;
    for (;;) {
        struct pollfd fds[2] = {{.fd = w->dirs.inotify, .events = POLLIN}, {.fd = w->sock}};
        uint64_t due_us = MAX(w->first_us + (uint64_t)COALESCE_MS * 1000, w->rest_us);
        uint64_t now = clock_us();
        int wait_ms = w->first_us == 0 ? -1 : due_us > now ? (int)((due_us - now) / 1000 + 1) : 0;
        poll(fds, 2, wait_ms);
        if (fds[1].revents)
            _exit(0); /* the guest closed the watch */
        if (fds[0].revents)
            watcher_read_events(w);
        if (wait_ms == 0) {
            watcher_flush(w);
            if (watcher_has_news(w))
                w->first_us = clock_us();
        }
    }
}

static int watcher_error(struct err *e, int r, const char *path) {
    if (r == -EMFILE || r == -ENOSPC)
        return err_limit(e, ERR_LIMIT_REACHED, LIMIT_WATCH_DIRS,
                         limit_table[LIMIT_WATCH_DIRS].value, "watch %.150s: too many directories",
                         path);
    return path_error(e, -r, "watch", path);
}

int watcher_work(struct work *work, struct err *e) {
    int pair[2];
    struct watcher *w = calloc(1, sizeof *w);
    if (!w || watcher_queue_init(&w->queue) < 0)
        return err_set(e, ERR_OUT_OF_MEMORY, "watch: out of memory");
    if (work_path(work, "path", &w->path, e) < 0 ||
        params_bool(work->params, "recursive", &w->is_recursive, e) < 0 ||
        params_bool(work->params, "include_info", &w->include_info, e) < 0)
        return -(int)e->code;
    w->root_wd = -1;
    buf_init(&w->message, WATCHER_MESSAGE_MAX);
    user_names_load(&w->names);
    w->dirs.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w->dirs.inotify < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, ERR_LIMIT_REACHED, errno, "start a watch");
    watcher_watch_parent(w);
    int r = watcher_watch_root(w);
    if (r < 0)
        return watcher_error(e, r, w->path);
    json_key(work->out, "info");
    info_write(work->out, w->path, &w->root_st, -1, NULL, &w->names);
    w->sock = pair[0];
    work->fds[work->n_fds++] = pair[1];
    work->then = watcher_run;
    work->then_arg = w;
    return 0;
}
