/* lines — the request that finds a window of lines in a file: where its bytes are, and how many lines the file
 * has. The daemon reads the bytes through the handle, as after `read`. */
#include <errno.h>
#include <fcntl.h>

#include "base/limits.h"
#include "guest/files/files.h"
#include "guest/files/info.h"
#include "guest/files/newfile.h"
#include "guest/params.h"
#include "guest/path.h"

#define CHUNK ((size_t)256 << 10)

struct lines {
    uint64_t first, max_lines, max_bytes; /* parameters of the request */
    uint64_t number;                      /* number of the current line, counted from 0 */
    uint64_t start;                       /* offset of the current line */
    uint64_t from, to, next;              /* the window: start, end, and the line after it */
    bool is_open;                         /* the window has room for more lines */
};

/* Ends the current line at offset `end`. */
static void lines_end_line(struct lines *l, uint64_t end) {
    uint64_t number = l->number++;
    if (number == l->first) {
        l->from = l->to = l->start;
        l->is_open = true;
    }
    if (l->is_open && number >= l->first) {
        bool fits = end - l->from <= l->max_bytes;
        if (number == l->first && !fits) { /* the only case in which a line is cut */
            l->to = l->from + l->max_bytes;
            l->next = number + 1;
        } else if (fits && number - l->first < l->max_lines) {
            l->to = end;
            l->next = number + 1;
        }
        l->is_open = fits && l->next - l->first < l->max_lines;
    }
    l->start = end;
}

/* Counts the lines in `left` bytes. Returns 1 when the file has more, else 0, or -errno. */
static int lines_count(struct lines *l, int fd, uint64_t left, bool is_sized) {
    AUTO_FREE char *chunk = malloc(CHUNK);
    uint64_t at = 0;
    if (!chunk)
        return -ENOMEM;
    while (left > 0) {
        ssize_t n = pread(fd, chunk, (size_t)MIN(CHUNK, left), (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        const char *end = chunk + n;
        for (const char *p = chunk, *nl; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1)
            lines_end_line(l, at + (uint64_t)(nl + 1 - chunk));
        at += (uint64_t)n;
        left -= (uint64_t)n;
    }
    bool more = left == 0 && !is_sized;
    if (at > l->start && !more)
        lines_end_line(l, at); /* the last line has no line end */
    return more;
}

static int lines_work(struct work *w, struct err *e) {
    char *path;
    int64_t first, max_lines, max_bytes;
    int64_t lines_limit = limit_table[LIMIT_LINES_MAX].value;
    int64_t bytes_limit = limit_table[LIMIT_LINES_BYTES].value;
    if (work_path(w, "path", &path, e) < 0 ||
        params_need_int(w->params, "first_line", 0, PARAMS_OFFSET_MAX, &first, e) < 0 ||
        params_need_int(w->params, "max_lines", 1, lines_limit, &max_lines, e) < 0 ||
        params_need_int(w->params, "max_bytes", 1, bytes_limit, &max_bytes, e) < 0)
        return -(int)e->code;
    AUTO_CLOSE int fd = path_open_regular(path, e);
    if (fd < 0)
        return fd;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return path_error(e, errno, "stat", path);
    struct lines l = {.first = (uint64_t)first,
                      .next = (uint64_t)first,
                      .max_lines = (uint64_t)max_lines,
                      .max_bytes = (uint64_t)max_bytes};
    uint64_t size = (uint64_t)MAX(st.st_size, 0);
    uint64_t scan = (uint64_t)limit_table[LIMIT_LINES_SCAN].value;
    if (size == 0) /* a file below /proc reports no size */
        scan = (uint64_t)limit_table[LIMIT_FILE_UNSIZED].value;
    bool is_sized = size > 0 && size <= scan;
    int more = lines_count(&l, fd, is_sized ? size : scan, is_sized);
    if (more < 0)
        return path_error(e, -more, "read", path);
    json_put_u64(w->out, "offset", l.from);
    json_put_u64(w->out, "length", l.to - l.from);
    json_put_u64(w->out, "next_line", l.next);
    json_put_u64(w->out, "total_lines", l.number);
    if (more)
        json_put_bool(w->out, "total_truncated", true);
    info_put(w->out, path, &st, -1);
    w->fds[w->n_fds++] = TAKE_FD(fd);
    return 0;
}

int lines_method(struct request *r, struct err *e) {
    return jobs_start(r, lines_work, files_reply_opened, NULL, e);
}
