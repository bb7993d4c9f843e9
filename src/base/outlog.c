#include "base/outlog.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

int outlog_init(struct outlog *log, int fd) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size != 0 || (flags & O_ACCMODE) == O_RDONLY)
        return -EINVAL;
    if (!(flags & O_APPEND) && fcntl(fd, F_SETFL, flags | O_APPEND) < 0)
        return -errno;
    *log = (struct outlog){.fd = fd};
    return 0;
}

void outlog_done(struct outlog *log) {
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
}

ssize_t outlog_append(struct outlog *log, const void *bytes, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t w = log->fd < 0 ? (ssize_t)(n - done)
                                : write(log->fd, (const char *)bytes + done, n - done);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0 && done == 0)
            return -errno;
        if (w <= 0)
            break;
        done += (size_t)w;
        log->size += (size_t)w;
    }
    return (ssize_t)done;
}

int outlog_skip(struct outlog *log, uint64_t n) {
    if (log->fd >= 0 && ftruncate(log->fd, (off_t)(log->size + n)) < 0)
        return -errno;
    log->size += n;
    return 0;
}

/* Returns whole blocks to the file system. If the file system cannot punch holes, it keeps the
 * blocks, and only `first` advances. */
static void outlog_drop(struct outlog *log, uint64_t new_first) {
    uint64_t from = log->first & ~(uint64_t)(OUTLOG_BLOCK - 1);
    uint64_t to = new_first & ~(uint64_t)(OUTLOG_BLOCK - 1);
    if (log->fd >= 0 && to > from)
        (void)!fallocate(log->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                         (off_t)(to - from));
    log->first = new_first;
}

void outlog_trim(struct outlog *pair, size_t n_logs, uint64_t cap_bytes, uint64_t incoming) {
    /* Drop up to 1/16 of the cap more than necessary, so that not every write needs a system
     * call. */
    uint64_t step = MAX(cap_bytes / 16 & ~(uint64_t)(OUTLOG_BLOCK - 1), (uint64_t)OUTLOG_BLOCK);
    for (;;) {
        uint64_t kept = 0;
        struct outlog *most = pair;
        for (size_t i = 0; i < n_logs; i++) {
            kept += outlog_kept(&pair[i]);
            if (outlog_kept(&pair[i]) > outlog_kept(most))
                most = &pair[i];
        }
        if (kept + incoming <= cap_bytes || outlog_kept(most) == 0)
            return;
        uint64_t first = (most->first + step) & ~(uint64_t)(OUTLOG_BLOCK - 1);
        outlog_drop(most, MIN(MAX(first, most->first + 1), most->size));
    }
}

ssize_t outlog_read(struct outlog_view *view, int fd, uint64_t offset, void *out, size_t n,
                    uint64_t *ret_first) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    uint64_t size = (uint64_t)st.st_size;
    if (!S_ISREG(st.st_mode) || size < view->seen)
        return -EUCLEAN;
    view->seen = size;
    if (offset >= size)
        return 0;
    off_t data = lseek(fd, (off_t)offset, SEEK_DATA);
    if (data < 0 && errno != ENXIO)
        return -errno;
    if (data < 0 || (uint64_t)data > offset) {
        *ret_first = data < 0 ? size : (uint64_t)data;
        return -ENODATA;
    }
    off_t hole = lseek(fd, (off_t)offset, SEEK_HOLE);
    uint64_t end = hole < 0 ? size : MIN((uint64_t)hole, size);
    ssize_t got = pread(fd, out, (size_t)MIN((uint64_t)n, end - offset), (off_t)offset);
    return got < 0 ? -errno : got;
}
