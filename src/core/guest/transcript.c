#include "core/guest/transcript.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"

#define GATHER_BYTES ((size_t)16 << 10)
#define LINE_MAX_BYTES ((size_t)16 << 10) /* a longer message is logged as its size */
#define TEXT_MAX_BYTES 1024               /* a longer string is also logged as its size */
#define ARENA_MAX ((size_t)16 << 20)

static const struct json_bounds bounds = {.depth = 32, .nodes = 131072, .members = 256};

struct transcript {
    int dir_fd;
    char name[64];
    char fresh_name[72]; /* name of the file that replaces the old file */
    int64_t max_bytes;
    struct buf lines;
    bool complained;
};

struct transcript *transcript_open(int dir_fd, const char *name, int64_t max_bytes) {
    struct transcript *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->dir_fd = dir_fd;
    t->max_bytes = max_bytes;
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->fresh_name, sizeof t->fresh_name, "%s.new", t->name);
    buf_init(&t->lines, GATHER_BYTES + LINE_MAX_BYTES);
    return t;
}

void transcript_set_dir(struct transcript *t, int dir_fd) {
    t->dir_fd = dir_fd;
}

void transcript_close(struct transcript *t) {
    transcript_flush(t);
    buf_done(&t->lines);
    free(t);
}

/* --- lines --- */

static bool transcript_is_one_of(struct str key, const char *const *names) {
    for (; *names; names++)
        if (str_is(key, str_of(*names)))
            return true;
    return false;
}

/* Returns whether the member contains input, output or file contents. */
static bool transcript_is_content(struct str key) {
    static const char *const names[] = {"data_b64", "old_b64", "new_b64", "old_text",
                                        "new_text", "text",    NULL};
    return transcript_is_one_of(key, names);
}

/* Returns whether the member contains the lines around a match. An array is required, because
 * another member named `after` is an id. */
static bool transcript_is_content_list(const struct json *j) {
    static const char *const names[] = {"before", "after", NULL};
    return j->type == JSON_ARRAY && transcript_is_one_of(j->key, names);
}

static void transcript_put_size(struct json_out *o, const struct json *j) {
    char text[40];
    size_t n = j->text.n;
    if (str_ends(j->key, STR("_b64"))) {
        size_t pad = 0;
        while (pad < 2 && pad < n && j->text.p[n - 1 - pad] == '=')
            pad++;
        n = (n - pad) * 3 / 4;
    }
    int len = snprintf(text, sizeof text, "<%zu bytes>", n);
    json_str(o, (struct str){text, (size_t)len});
}

enum inside { OPEN_TEXT, IN_ENV, IN_CONTENT };

static void transcript_put_string(struct json_out *o, const struct json *j, enum inside in) {
    bool is_hidden = in == IN_CONTENT || transcript_is_content(j->key) ||
                     (in == IN_ENV && !str_is(j->key, STR("key"))) || j->text.n > TEXT_MAX_BYTES;
    if (is_hidden)
        transcript_put_size(o, j);
    else
        json_str(o, j->text);
}

static void transcript_put_number(struct json_out *o, double number) {
    char text[40];
    int n = snprintf(text, sizeof text, "%.17g", number);
    json_raw(o, (struct str){text, (size_t)n});
}

/* The parser has bounded the depth of this recursion. */
static void transcript_put_value(struct json_out *o, const struct json *j, enum inside in) {
    switch (j->type) {
    case JSON_NULL:
        json_null(o);
        break;
    case JSON_BOOL:
        json_bool(o, j->boolean);
        break;
    case JSON_INT:
        json_i64(o, j->integer);
        break;
    case JSON_DOUBLE:
        transcript_put_number(o, j->number);
        break;
    case JSON_STRING:
        transcript_put_string(o, j, in);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        if (str_is(j->key, STR("env")))
            in = IN_ENV;
        else if (transcript_is_content(j->key) || transcript_is_content_list(j))
            in = IN_CONTENT;
        json_open(o, j->type == JSON_ARRAY ? '[' : '{');
        JSON_FOR_EACH(it, j) {
            if (j->type == JSON_OBJECT)
                json_key_str(o, it->key);
            transcript_put_value(o, it, in);
        }
        json_close(o, j->type == JSON_ARRAY ? ']' : '}');
        break;
    }
}

/* Returns -errno when the line must not show the message. */
static int transcript_put_message(struct buf *to, struct str message) {
    struct arena a;
    struct json *root;
    int r = arena_init(&a, 4096, ARENA_MAX);
    if (r < 0)
        return r;
    r = json_parse(&a, message.p, message.n, &bounds, &root);
    if (r == 0) {
        struct json_out o;
        json_begin(&o, to);
        transcript_put_value(&o, root, OPEN_TEXT);
        r = json_end(&o);
    }
    arena_done(&a);
    return r;
}

/* Writes the time and the direction. */
static int transcript_put_head(struct buf *to, enum transcript_way way, size_t n_fds) {
    struct timespec now;
    struct tm tm;
    char text[80];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(text + n, sizeof text - n, ".%03ldZ %c ", now.tv_nsec / 1000000,
                          way == TRANSCRIPT_SENT ? '>' : '<');
    if (n_fds > 0)
        n += (size_t)snprintf(text + n, sizeof text - n, "+%zu fds ", n_fds);
    return buf_append(to, text, n);
}

void transcript_add(struct transcript *t, enum transcript_way way, struct str message,
                    size_t n_fds) {
    struct buf line;
    buf_init(&line, LINE_MAX_BYTES);
    int r = transcript_put_head(&line, way, n_fds);
    size_t head = buf_len(&line);
    if (r == 0 && (transcript_put_message(&line, message) < 0 || buf_append(&line, "\n", 1) < 0)) {
        char text[40];
        int n = snprintf(text, sizeof text, "<%zu bytes>\n", message.n);
        buf_truncate(&line, head);
        r = buf_append(&line, text, (size_t)n);
    }
    if (r == 0) /* the flush below leaves space for one more line */
        (void)!buf_append(&t->lines, buf_data(&line), buf_len(&line));
    buf_done(&line);
    if (buf_len(&t->lines) >= GATHER_BYTES)
        transcript_flush(t);
}

/* --- the file --- */

/* Returns the newest complete lines of `bytes` that fit into max. */
static struct str transcript_newest(const void *bytes, size_t n, size_t max) {
    const char *p = bytes;
    if (n <= max)
        return (struct str){p, n};
    /* Search one byte earlier, to find a line that starts at the limit. */
    const char *cut = p + n - max - 1;
    const char *end = memchr(cut, '\n', max + 1);
    return end ? (struct str){end + 1, (size_t)(p + n - end - 1)} : (struct str){p, 0};
}

/* Writes the kept part of the old file and the new lines to a new file, and renames it over the old
 * one. */
static int transcript_rewrite(struct transcript *t, int old, size_t old_size) {
    size_t half = (size_t)t->max_bytes / 2, max = (size_t)t->max_bytes;
    size_t want = buf_len(&t->lines) < half ? MIN(old_size, half + 1) : 0;
    AUTO_FREE char *kept = malloc(want + 1);
    if (!kept)
        return -ENOMEM;
    ssize_t got = pread(old, kept, want, (off_t)(old_size - want));
    if (got < 0)
        return -errno;
    AUTO_CLOSE int fd =
        fd_open_beneath(t->dir_fd, t->fresh_name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return fd;
    struct str head = transcript_newest(kept, (size_t)got, half);
    struct str tail = transcript_newest(buf_data(&t->lines), buf_len(&t->lines), max);
    int r = fd_write_all(fd, head.p, head.n);
    if (r == 0)
        r = fd_write_all(fd, tail.p, tail.n);
    if (r == 0 && renameat(t->dir_fd, t->fresh_name, t->dir_fd, t->name) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(t->dir_fd, t->fresh_name, 0);
    return r;
}

static int transcript_write_lines(struct transcript *t) {
    struct stat st;
    AUTO_CLOSE int fd = fd_open_beneath(t->dir_fd, t->name, O_RDWR | O_CREAT | O_APPEND, 0600);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    size_t n = buf_len(&t->lines);
    if (st.st_size + (int64_t)n > t->max_bytes)
        return transcript_rewrite(t, fd, (size_t)st.st_size);
    int r = fd_write_all(fd, buf_data(&t->lines), n);
    if (r < 0 && ftruncate(fd, st.st_size) < 0) /* do not leave half a line */
        r = -errno;
    return r;
}

void transcript_flush(struct transcript *t) {
    if (buf_len(&t->lines) == 0 || t->dir_fd < 0)
        return;
    int r = transcript_write_lines(t);
    if (r < 0 && !t->complained)
        log_text(LOG_WARN, "transcript", "%s is not written: %s", t->name, strerror(-r));
    t->complained = r < 0;
    buf_done(&t->lines);
}
