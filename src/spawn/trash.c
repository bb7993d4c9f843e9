/* Part of layer.h: a layer is removed by a rename into the trash, and a separate process deletes
 * it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "spawn/layer.h"
#include "spawn/sys.h"

int layer_remove(struct spawn *s, const char *id) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char name[SPAWN_ID_MAX + 48];
    snprintf(name, sizeof name, "%s.%lld.%09ld", id, (long long)now.tv_sec, now.tv_nsec);
    if (s->features & SPAWN_HAS_DISK_QUOTA) {
        AUTO_CLOSE int dir = fd_open_beneath(s->layers, id, O_RDONLY | O_DIRECTORY, 0);
        if (dir >= 0)
            quota_clear(dir);
    }
    return renameat(s->layers, id, s->trash, name) < 0 ? -errno : 0;
}

/* Deletes one entry of `dir`, which nobody uses any more. A nested directory is moved to the top of
 * the trash, so that stack depth and open descriptors do not grow with the depth of the tree. */
static void trash_delete_entry(int trash, int dir, const char *name, unsigned *serial) {
    if (unlinkat(dir, name, 0) == 0)
        return;
    if (errno != EISDIR && errno != EPERM)
        return;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || dir == trash)
        return;
    char fresh[40];
    snprintf(fresh, sizeof fresh, ".d%u", (*serial)++);
    while (sys_rename_new(dir, name, trash, fresh) == -EEXIST)
        snprintf(fresh, sizeof fresh, ".d%u", (*serial)++);
}

/* Deletes everything in `dir`. Returns whether there was anything. */
static bool trash_empty_dir(int trash, int dir, unsigned *serial) {
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    bool any = false;
    if (list == NULL)
        return false;
    for (struct dirent *e = readdir(list); e != NULL; e = readdir(list)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        any = true;
        if (dir == trash) {
            AUTO_CLOSE int sub =
                openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (sub >= 0)
                trash_empty_dir(trash, sub, serial);
        }
        trash_delete_entry(trash, dir, e->d_name, serial);
    }
    closedir(list);
    return any;
}

static void trash_empty(int trash) {
    if (flock(trash, LOCK_EX) < 0) /* the process of an earlier berm-spawn may still be running */
        return;
    unsigned serial = 0;
    /* Bounds the attempts, because an immutable file cannot be deleted. */
    for (int turn = 0; turn < 10000 && trash_empty_dir(trash, trash, &serial); turn++)
        ;
    flock(trash, LOCK_UN);
}

int layer_start_trash(struct spawn *s) {
    int wake[2];
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    /* Open the directory again, because the lock belongs to the open file, which a fork shares. */
    AUTO_CLOSE int trash = openat(s->trash, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t pid = trash < 0 ? -1 : fork();
    if (pid < 0) {
        fd_close_all(wake, 2);
        return -errno;
    }
    if (pid == 0) {
        /* Keep only these two descriptors, so that this process keeps nothing else alive. A trash
         * process that is started again inherits the network namespace of the last sandbox, so it
         * leaves that namespace. */
        if (s->trash_pid != 0)
            unshare(CLONE_NEWNET);
        enum { WAKE = 3, TRASH, FREE };
        int from[] = {fcntl(wake[0], F_DUPFD_CLOEXEC, FREE), fcntl(trash, F_DUPFD_CLOEXEC, FREE)};
        if (dup3(from[0], WAKE, O_CLOEXEC) < 0 || dup3(from[1], TRASH, O_CLOEXEC) < 0)
            _exit(1);
        sys3(SYS_close_range, FREE, ~0u, 0);
        fcntl(WAKE, F_SETFL, 0);
        char bytes[64];
        do
            trash_empty(TRASH);
        while (read(WAKE, bytes, sizeof bytes) > 0);
        _exit(0);
    }
    close(wake[0]);
    s->trash_wake = wake[1];
    s->trash_pid = pid;
    return 0;
}

void layer_trash_ended(struct spawn *s) {
    fd_close_all(&s->trash_wake, 1);
    s->trash_pid = -1;
}

void layer_empty_trash(struct spawn *s) {
    if (s->trash_wake >= 0 && write(s->trash_wake, "", 1) < 0)
        return; /* full: the process is already awake; closed: the next process empties the whole trash */
}

void layer_delete_now(struct spawn *s) {
    AUTO_CLOSE int own = openat(s->trash, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own >= 0)
        trash_empty(own);
}
