#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define BUFFER_BYTES ((size_t)64 * 1024)
#define LINE_BYTES ((size_t)2048)
#define VALUE_BYTES ((size_t)512)
#define STAMP_BYTES ((size_t)19) /* 2026-11-15T19:41:50 */

/* Writable file-scope data, which this project otherwise avoids. Every file may log, even in error
 * paths, so functions do not pass the logger around. */
static struct {
    int fd;
    bool is_file; /* a regular file does not block, so one write takes the whole batch */
    enum log_level min_level;
    uint64_t dropped_lines;
    time_t stamp_second;
    char stamp[STAMP_BYTES + 1];
    size_t used;
    char lines[BUFFER_BYTES];
} logger = {.fd = STDERR_FILENO, .min_level = LOG_INFO, .stamp_second = -1};

void log_setup(int fd, enum log_level min_level) {
    struct stat st;
    logger.fd = fd;
    logger.min_level = min_level;
    logger.is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

bool log_is_on(enum log_level level) {
    return level >= logger.min_level;
}

void log_flush(void) {
    size_t done = 0;
    while (done < logger.used) {
        size_t n = logger.used - done;
        if (!logger.is_file) {
            /* POLLOUT on a pipe guarantees space for PIPE_BUF bytes only. */
            struct pollfd p = {.fd = logger.fd, .events = POLLOUT};
            if (poll(&p, 1, 0) != 1)
                break;
            n = MIN(n, (size_t)4096);
        }
        ssize_t w = write(logger.fd, logger.lines + done, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0 && errno != EAGAIN)
            w = (ssize_t)n; /* the log has no reader or is broken: discard the lines */
        if (w < 0)
            break;
        done += (size_t)w;
    }
    memmove(logger.lines, logger.lines + done, logger.used - done);
    logger.used -= done;
}

static void log_put(struct log_line *l, const char *bytes, size_t n) {
    n = MIN(n, (size_t)(l->end - l->at));
    memcpy(l->at, bytes, n);
    l->at += n;
}

static void log_put_time(struct log_line *l) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != logger.stamp_second) {
        struct tm tm;
        gmtime_r(&now.tv_sec, &tm);
        strftime(logger.stamp, sizeof logger.stamp, "%Y-%m-%dT%H:%M:%S", &tm);
        logger.stamp_second = now.tv_sec;
    }
    unsigned ms = (unsigned)(now.tv_nsec / 1000000);
    char tail[] = {'.', (char)('0' + ms / 100), (char)('0' + ms / 10 % 10), (char)('0' + ms % 10),
                   'Z'};
    log_put(l, logger.stamp, STAMP_BYTES);
    log_put(l, tail, sizeof tail);
}

static bool log_make_room(void) {
    if (BUFFER_BYTES - logger.used < LINE_BYTES)
        log_flush();
    return BUFFER_BYTES - logger.used >= LINE_BYTES;
}

bool log_begin(struct log_line *l, enum log_level level, const char *msg) {
    static const char *const names[] = {" level=debug", " level=info", " level=warn",
                                        " level=error"};
    if (!log_is_on(level))
        return false;
    if (!log_make_room()) {
        logger.dropped_lines++;
        return false;
    }
    l->level = level;
    l->at = logger.lines + logger.used;
    l->end = l->at + LINE_BYTES - 1; /* leaves space for the newline */
    log_put_time(l);
    log_put(l, names[level], strlen(names[level]));
    log_str(l, "msg", str_of(msg));
    if (logger.dropped_lines > 0) {
        log_u64(l, "dropped_lines", logger.dropped_lines);
        logger.dropped_lines = 0;
    }
    return true;
}

static bool log_is_plain(struct str value) {
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=')
            return false;
    }
    return value.n > 0;
}

/* Returns true for control characters, including the C1 controls that some terminals obey, and for
 * bytes that are not UTF-8. */
static bool log_needs_escape(struct str value, size_t i, bool utf8) {
    unsigned char c = (unsigned char)value.p[i];
    if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8))
        return true;
    if (c == 0xc2 && i + 1 < value.n)
        return (unsigned char)value.p[i + 1] < 0xa0;
    return i > 0 && c < 0xa0 && c >= 0x80 && (unsigned char)value.p[i - 1] == 0xc2;
}

static void log_put_quoted(struct log_line *l, struct str value) {
    static const char hex[] = "0123456789abcdef";
    bool utf8 = str_is_utf8(value.p, value.n);
    const char *start = l->at;
    log_put(l, "\"", 1);
    for (size_t i = 0; i < value.n && (size_t)(l->at - start) < VALUE_BYTES; i++) {
        unsigned char c = (unsigned char)value.p[i];
        char escape[4] = {'\\', 'x', hex[c >> 4], hex[c & 15]};
        if (c == '"' || c == '\\') {
            escape[1] = (char)c;
            log_put(l, escape, 2);
        } else if (log_needs_escape(value, i, utf8)) {
            log_put(l, escape, 4);
        } else {
            log_put(l, &value.p[i], 1);
        }
    }
    log_put(l, "\"", 1);
}

static void log_put_key(struct log_line *l, const char *key) {
    log_put(l, " ", 1);
    log_put(l, key, strlen(key));
    log_put(l, "=", 1);
}

void log_str(struct log_line *l, const char *key, struct str value) {
    value.n = MIN(value.n, VALUE_BYTES);
    log_put_key(l, key);
    if (log_is_plain(value))
        log_put(l, value.p, value.n);
    else
        log_put_quoted(l, value);
}

void log_u64(struct log_line *l, const char *key, uint64_t value) {
    char digits[20];
    log_put_key(l, key);
    log_put(l, digits, (size_t)(str_put_u64(digits, value) - digits));
}

void log_end(struct log_line *l) {
    *l->at++ = '\n';
    logger.used = (size_t)(l->at - logger.lines);
    if (l->level >= LOG_WARN)
        log_flush();
}

void log_text(enum log_level level, const char *msg, const char *fmt, ...) {
    struct log_line l;
    if (!log_begin(&l, level, msg))
        return;
    char text[VALUE_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log_str(&l, "text", (struct str){text, n < 0 ? 0 : MIN((size_t)n, sizeof text - 1)});
    log_end(&l);
}
