/* file_read — ReadFile: the guest opens the file, and the daemon copies it.
 *
 * The daemon reads from the descriptor that the guest passed, one chunk whenever the call is
 * writable, so a file of any size needs one buffer. If the link cannot pass the descriptor, or
 * file_take refuses it, the guest reads instead, one small chunk at a time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "api/subject.h"
#include "api/file/file_answer.h"
#include "api/file/file_target.h"
#include "api/heartbeat.h"
#include "api/methods.h"
#include "core/files/file_reader.h"

#define CHUNK_BYTES 262144
/* maximum size of a message before the data of its chunk: four tags and four numbers */
#define HEAD_BYTES 34
#define LINES_DEFAULT 2000
#define LINES_BYTES_DEFAULT 512000

struct reading {
    struct call *call;
    const Berm__V1__ReadFileRequest *request;
    struct file_target target;
    struct file_call *file;
    struct file_reader *reader; /* NULL: the guest reads the file */
    bool is_open;               /* the file's info was sent */
    bool is_full;               /* call_send returned FULL: wait for on_writable */
    bool has_ended;             /* the file has no more bytes */
    uint64_t at;                /* offset of the next byte to send */
    uint64_t end;               /* one past the last byte requested */
    uint64_t due;               /* one past the last byte to send, by the file's size */
    uint64_t total;             /* bytes sent */
    uint64_t number;            /* number of the last message */
    struct heartbeat heartbeat;
    Berm__V1__LineRange *lines; /* NULL: the client requested no lines */
};

/* --- the ends --- */

static void file_read_release(struct reading *rd) {
    struct err ignored;
    struct caller who;
    if (rd->file && rd->is_open) {
        context_caller(rd->call, &who);
        struct file_audit audit = {.operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_READ,
                                   .path = rd->target.path.path,
                                   .bytes_moved = rd->total};
        (void)!file_call_record(rd->file, &audit, &(struct change){.who = &who}, (struct str){0},
                                &ignored);
    }
    heartbeat_stop(&rd->heartbeat);
    file_call_close(TAKE(rd->file));
    file_reader_close(TAKE(rd->reader));
}

static void file_read_fail(struct reading *rd, const struct err *e) {
    struct call *c = rd->call;
    struct err reported = *e;
    if (!reported.subject)
        err_about(&reported, "sandbox_id", rd->target.sandbox_id);
    file_read_release(rd);
    call_finish(c, &reported);
}

/* --- messages --- */

/* Sends one part. Every part is a pointer to a message, so one assignment serves all. After
 * CALL_GONE, `rd` is freed. */
static enum call_push file_read_send(struct reading *rd, Berm__V1__ReadFileResponse__PartCase part,
                                     void *what) {
    Berm__V1__ReadFileResponse m = BERM__V1__READ_FILE_RESPONSE__INIT;
    m.sequence = ++rd->number;
    m.part_case = part;
    m.info = what;
    heartbeat_sent(&rd->heartbeat);
    enum call_push sent = call_send(rd->call, &m.base);
    if (sent == CALL_FULL)
        rd->is_full = true;
    return sent;
}

static uint8_t *file_read_put_number(uint8_t *at, unsigned field, bool is_length, uint64_t value) {
    *at++ = (uint8_t)(field << 3 | (is_length ? 2 : 0));
    for (; value > 0x7f; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

/* Packs the part of a message that precedes the n data bytes at rd->at. Returns the size of that
 * part. */
static size_t file_read_put_head(const struct reading *rd, size_t n, uint8_t out[HEAD_BYTES]) {
    uint8_t chunk[HEAD_BYTES];
    uint8_t *at = file_read_put_number(chunk, 1, false, rd->at);
    size_t n_chunk = (size_t)(file_read_put_number(at, 2, true, n) - chunk);
    at = file_read_put_number(out, 1, false, rd->number + 1);
    at = file_read_put_number(at, BERM__V1__READ_FILE_RESPONSE__PART_CHUNK, true, n_chunk + n);
    memcpy(at, chunk, n_chunk);
    return (size_t)(at + n_chunk - out);
}

static enum call_push file_read_send_chunk(struct reading *rd, uint8_t *bytes, size_t n) {
    Berm__V1__FileChunk chunk = BERM__V1__FILE_CHUNK__INIT;
    chunk.offset = rd->at;
    chunk.data = (ProtobufCBinaryData){n, bytes};
    rd->at += n;
    rd->total += n;
    return file_read_send(rd, BERM__V1__READ_FILE_RESPONSE__PART_CHUNK, &chunk);
}

static void file_read_send_end(struct reading *rd) {
    struct call *c = rd->call;
    struct err e;
    Berm__V1__ReadFileEnd end = BERM__V1__READ_FILE_END__INIT;
    end.total_bytes = rd->total;
    end.shrunk = rd->at < rd->due;
    end.lines = rd->lines;
    if (rd->total == 0 && rd->due == 0 && rd->request->offset > 0) {
        err_set(&e, ERR_OFFSET_BEYOND_END, "the file ends before %llu",
                (unsigned long long)rd->request->offset);
        file_read_fail(rd, &e);
        return;
    }
    if (file_read_send(rd, BERM__V1__READ_FILE_RESPONSE__PART_END, &end) == CALL_GONE)
        return;
    file_read_release(rd);
    call_finish(c, NULL);
}

/* --- bytes --- */

static void file_read_ask_chunk(struct reading *rd) {
    uint64_t most = MIN(rd->end - rd->at, (uint64_t)GUEST_CHUNK_BYTES);
    file_call_ask(rd->file, &(struct guest_file_request){.method = GUEST_READ_CHUNK,
                                                         .handle = file_call_handle(rd->file),
                                                         .read_chunk = {rd->at, most}});
}

/* Sends n bytes that were read into the reserved buffer `room`. They follow a gap that fits the
 * head of a message with `want` bytes; if the head for n bytes is shorter, the bytes are moved to
 * it. */
static enum call_push file_read_send_reserved(struct reading *rd, uint8_t *room, size_t want,
                                              size_t n) {
    uint8_t head[HEAD_BYTES];
    size_t n_room = file_read_put_head(rd, want, head), n_head = file_read_put_head(rd, n, head);
    if (n_head != n_room)
        memmove(room + n_head, room + n_room, n);
    memcpy(room, head, n_head);
    rd->number++;
    rd->at += n;
    rd->total += n;
    heartbeat_sent(&rd->heartbeat);
    enum call_push left = call_send_reserved(rd->call, n_head + n);
    if (left == CALL_FULL)
        rd->is_full = true;
    return left;
}

/* Sends one chunk of the file. Reads directly into the reply's buffer if call_reserve returns one,
 * to save a copy. Returns false if the call is over or waits for the reader. */
static bool file_read_send_from_file(struct reading *rd) {
    size_t want = (size_t)MIN(rd->end - rd->at, (uint64_t)CHUNK_BYTES);
    uint8_t head[HEAD_BYTES];
    struct err e;
    uint8_t *room = call_reserve(rd->call, HEAD_BYTES + want);
    uint8_t *into =
        room ? room + file_read_put_head(rd, want, head) : context_of(rd->call)->scratch[0];
    ssize_t n = file_reader_read(rd->reader, into, want);
    if (n == -EAGAIN)
        return false;
    if (n < 0) {
        err_sys(&e, ERR_INTERNAL, (int)-n, "read the file");
        file_read_fail(rd, &e);
        return false;
    }
    rd->has_ended = n == 0;
    if (n == 0)
        return true;
    return (room ? file_read_send_reserved(rd, room, want, (size_t)n)
                 : file_read_send_chunk(rd, into, (size_t)n)) != CALL_GONE;
}

static void file_read_pump(struct reading *rd) {
    while (!rd->is_full && !rd->has_ended && rd->at < rd->end) {
        if (!rd->reader) {
            if (!file_call_is_waiting(rd->file))
                file_read_ask_chunk(rd);
            return;
        }
        if (!file_read_send_from_file(rd))
            return;
    }
    if (!rd->is_full)
        file_read_send_end(rd);
}

static void file_read_on_ready(void *user) {
    file_read_pump(user);
}

static void file_read_take_chunk(struct reading *rd, const struct guest_file_answer *a) {
    struct str data = a->read_chunk.data;
    /* A short chunk is not the end of the file, because some files return at most a page per
     * read. */
    rd->has_ended = data.n == 0;
    if (data.n == 0 || file_read_send_chunk(rd, (uint8_t *)data.p, data.n) != CALL_GONE)
        file_read_pump(rd);
}

/* --- the beginning --- */

/* Sets the range to read. A file without a size, such as one in /proc, is read to its end, up to a
 * limit. */
static int file_read_set_range(struct reading *rd, uint64_t size, struct err *e) {
    uint64_t offset = rd->request->offset;
    uint64_t last = size > 0 ? size : (uint64_t)limit_table[LIMIT_FILE_UNSIZED].value;
    rd->at = offset;
    rd->due = size;
    if (size > 0 && offset > size) {
        err_set(e, ERR_OFFSET_BEYOND_END, "the file ends at %llu", (unsigned long long)size);
        return err_number(e, "end_offset", (int64_t)size);
    }
    if (rd->request->max_bytes > 0) {
        last = offset + MIN(rd->request->max_bytes, (uint64_t)INT64_MAX - offset);
        rd->due = MIN(size, last);
    }
    rd->end = MAX(last, offset);
    return 0;
}

static int file_read_set_lines(struct reading *rd, const struct guest_file_answer *a,
                               struct err *e) {
    rd->lines = arena_alloc(&rd->call->arena, sizeof *rd->lines);
    if (!rd->lines)
        return answer_no_memory(e);
    berm__v1__line_range__init(rd->lines);
    rd->lines->first_line = rd->request->lines->first_line;
    rd->lines->next_line = a->read_lines.next_line;
    rd->lines->total_lines = a->read_lines.total_lines;
    rd->lines->total_truncated = a->read_lines.total_truncated;
    rd->at = a->read_lines.offset;
    rd->end = rd->due = rd->at + a->read_lines.length;
    return 0;
}

static int file_read_open_reader(struct reading *rd, const struct guest_answer *a, struct err *e) {
    struct file_turns *turns = file_call_env(rd->file)->file_turns;
    int fd = file_take(a, O_RDONLY);
    if (fd < 0)
        return 0; /* the daemon cannot use the descriptor, so the guest reads the file */
    struct file_range range = {.offset = rd->at, .end = rd->end, .known = rd->due};
    rd->reader = file_reader_open(turns, fd, range, file_read_on_ready, rd);
    return rd->reader ? 0 : answer_no_memory(e);
}

static void file_read_opened(struct reading *rd, const struct guest_answer *a) {
    Berm__V1__FileInfo *info;
    struct err e;
    if (answer_info(&a->file->info, &rd->call->arena, &info, &e) < 0 ||
        (rd->request->lines ? file_read_set_lines(rd, a->file, &e)
                            : file_read_set_range(rd, info->size_bytes, &e)) < 0 ||
        file_read_open_reader(rd, a, &e) < 0) {
        file_read_fail(rd, &e);
        return;
    }
    rd->is_open = true;
    if (file_read_send(rd, BERM__V1__READ_FILE_RESPONSE__PART_INFO, info) != CALL_GONE) {
        heartbeat_start(&rd->heartbeat);
        file_read_pump(rd);
    }
}

static void file_read_on_answer(void *user, const struct guest_answer *a) {
    struct reading *rd = user;
    if (a->e) {
        struct err e = file_target_error("", rd->target.sandbox_id, a->e);
        file_read_fail(rd, &e);
    } else if (rd->is_open) {
        file_read_take_chunk(rd, a->file);
    } else {
        file_read_opened(rd, a);
    }
}

static void file_read_on_gone(void *user, const struct err *e, bool is_final) {
    (void)is_final;
    file_read_fail(user, e);
}

static const struct file_events events = {.on_answer = file_read_on_answer,
                                          .on_gone = file_read_on_gone};

static bool file_read_on_quiet(struct heartbeat *h, Berm__V1__Heartbeat *m) {
    struct reading *rd = container_of(h, struct reading, heartbeat);
    return rd->is_full ||
           file_read_send(rd, BERM__V1__READ_FILE_RESPONSE__PART_HEARTBEAT, m) != CALL_GONE;
}

static int file_read_check(const Berm__V1__ReadFileRequest *request, struct err *e) {
    const Berm__V1__LineWindow *w = request->lines;
    if (request->offset > (uint64_t)INT64_MAX)
        return err_field(e, "offset", "offset: must be at most 2^63 - 1");
    if (!w)
        return 0;
    if (request->offset > 0 || request->max_bytes > 0)
        return err_field(e, "lines", "lines: must not be given with offset or max_bytes");
    if (w->first_line > ((uint64_t)1 << 53) - 1)
        return err_field(e, "lines.first_line", "lines.first_line: must be below 2^53");
    if (file_check_most("lines.max_lines", w->max_lines, LIMIT_LINES_MAX,
                        limit_table[LIMIT_LINES_MAX].value, e) < 0)
        return -(int)e->code;
    return file_check_most("lines.max_bytes", w->max_bytes, LIMIT_LINES_BYTES,
                           limit_table[LIMIT_LINES_BYTES].value, e);
}

static void file_read_ask(struct reading *rd) {
    const Berm__V1__LineWindow *w = rd->request->lines;
    struct guest_file_request r =
        file_target_request(&rd->target, w ? GUEST_READ_LINES : GUEST_READ);
    if (w) {
        r.read_lines.first_line = w->first_line;
        r.read_lines.max_lines = w->max_lines > 0 ? w->max_lines : LINES_DEFAULT;
        r.read_lines.max_bytes = w->max_bytes > 0 ? w->max_bytes : LINES_BYTES_DEFAULT;
    }
    file_call_ask(rd->file, &r);
}

static void file_read_on_message(struct call *c, const ProtobufCMessage *m) {
    struct err e;
    struct reading *rd = context_serves(c) ? call_new_state(c, sizeof *rd) : NULL;
    if (!rd)
        return;
    rd->call = c;
    rd->request = (const void *)m;
    heartbeat_init(&rd->heartbeat, c, file_read_on_quiet);
    if (file_target_read(&rd->target, m, "", false, &e) < 0 ||
        file_read_check(rd->request, &e) < 0 ||
        file_target_open(&rd->target, c, true, &events, rd, &rd->file, &e) < 0) {
        call_finish(c, &e);
        return;
    }
    call_set_subject(c, "sandbox_id", rd->target.sandbox_id);
    file_read_ask(rd);
}

static void file_read_on_writable(struct call *c) {
    struct reading *rd = c->state;
    rd->is_full = false;
    if (rd->is_open)
        file_read_pump(rd);
}

static void file_read_on_cancel(struct call *c) {
    if (c->state)
        file_read_release(c->state);
}

const struct handler api_file_read = {.on_message = file_read_on_message,
                                      .on_writable = file_read_on_writable,
                                      .on_cancel = file_read_on_cancel};
