#include "base/tar.h"

#include <errno.h>
#include <stdio.h>

/* Offsets in a header block. */
enum {
    AT_NAME = 0,
    AT_MODE = 100,
    AT_UID = 108,
    AT_GID = 116,
    AT_SIZE = 124,
    AT_TIME = 136,
    AT_SUM = 148,
    AT_TYPE = 156,
    AT_LINK = 157,
    AT_MAGIC = 257,
    AT_PREFIX = 345,
};
#define NAME_N 100
#define PREFIX_N 155
#define OCTAL_8 UINT64_C(07777777)      /* largest value of seven octal digits */
#define OCTAL_12 UINT64_C(077777777777) /* largest value of eleven octal digits */
#define SIZE_LARGEST (UINT64_MAX >> 2)

void tar_in_init(struct tar_in *t) {
    *t = (struct tar_in){.why = ""};
    buf_init(&t->extra, TAR_EXTRA_MAX);
}

void tar_in_done(struct tar_in *t) {
    buf_done(&t->extra);
}

static int tar_refuse(struct tar_in *t, const char *why) {
    t->why = why;
    return -EBADMSG;
}

/* Parses octal digits between spaces and NULs, or base-256 if the top bit is set. */
static bool tar_read_number(const uint8_t *at, size_t n, int64_t *ret) {
    uint64_t value = 0;
    if (at[0] & 0x80) {
        bool is_negative = at[0] & 0x40;
        value = is_negative ? ~UINT64_C(0) : 0;
        for (size_t i = 0; i < n; i++) {
            uint64_t byte = i == 0 ? (at[0] & 0x7fu) | (is_negative ? 0x80u : 0) : at[i];
            if (value >> 55 != (is_negative ? 0x1ff : 0))
                return false;
            value = value << 8 | byte;
        }
        *ret = (int64_t)value;
        return true;
    }
    size_t i = 0;
    while (i < n && at[i] == ' ')
        i++;
    for (; i < n && at[i] >= '0' && at[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(at[i] - '0'); /* at most 12 digits, so no overflow */
    for (; i < n; i++)
        if (at[i] != ' ' && at[i] != '\0')
            return false;
    *ret = (int64_t)value;
    return true;
}

static bool tar_is_zero(const uint8_t *block) {
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

/* Some writers sum signed bytes, so both sums are valid. */
static bool tar_sum_is_right(const uint8_t *block) {
    int64_t stored, plain = 0, with_sign = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        uint8_t byte = i >= AT_SUM && i < AT_SUM + 8 ? ' ' : block[i];
        plain += byte;
        with_sign += (int8_t)byte;
    }
    return tar_read_number(block + AT_SUM, 8, &stored) && (stored == plain || stored == with_sign);
}

/* Copies a name into a path of the member. Fails with -EBADMSG when it is too long or contains
 * NUL. */
static int tar_take_name(struct tar_in *t, char *to, struct str name) {
    to[0] = '\0';
    if (name.n == 0)
        return 0;
    if (name.n > TAR_PATH_MAX)
        return tar_refuse(t, "has a name that is longer than a path may be");
    if (memchr(name.p, '\0', name.n))
        return tar_refuse(t, "has a NUL in its name");
    memcpy(to, name.p, name.n);
    to[name.n] = '\0';
    return 0;
}

static struct str tar_field(const uint8_t *at, size_t n) {
    return (struct str){(const char *)at, strnlen((const char *)at, n)};
}

static void tar_take_ustar_name(struct tar_in *t, const uint8_t *b) {
    struct str name = tar_field(b + AT_NAME, NAME_N), prefix = {0};
    if (memcmp(b + AT_MAGIC, "ustar\0", 6) == 0)
        prefix = tar_field(b + AT_PREFIX, PREFIX_N);
    snprintf(t->member.path, sizeof t->member.path, "%.*s%s%.*s", (int)prefix.n,
             prefix.n ? prefix.p : "", prefix.n ? "/" : "", (int)name.n, name.p);
}

/* "mtime" is decimal. Its fraction is dropped. */
static bool tar_read_time(struct str s, int64_t *ret) {
    bool is_negative = s.n > 0 && s.p[0] == '-';
    struct str digits = {s.p + is_negative, s.n - is_negative}, whole;
    uint64_t value;
    if (!str_split(&digits, '.', &whole) || str_to_u64(whole, 0, INT64_MAX, &value) < 0)
        return false;
    *ret = is_negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static int tar_take_record(struct tar_in *t, struct str key, struct str value) {
    if (str_starts(key, STR("GNU.sparse.")))
        return tar_refuse(t, "is a sparse file");
    if (str_is(key, STR("path"))) {
        t->has_path = true;
        return tar_take_name(t, t->member.path, value);
    }
    if (str_is(key, STR("linkpath"))) {
        t->has_target = true;
        return tar_take_name(t, t->member.target, value);
    }
    if (str_is(key, STR("size"))) {
        t->has_size = true;
        if (str_to_u64(value, 0, SIZE_LARGEST, &t->member.size) < 0)
            return tar_refuse(t, "has an invalid size");
    }
    if (str_is(key, STR("mtime"))) {
        t->has_time = true;
        if (!tar_read_time(value, &t->member.modified_s))
            return tar_refuse(t, "has an invalid time");
    }
    return 0;
}

/* Parses records of the form "LENGTH key=value\n". LENGTH counts the whole record. */
static int tar_take_pax(struct tar_in *t, bool is_global) {
    struct str rest = {(const char *)buf_data(&t->extra), buf_len(&t->extra)};
    while (rest.n > 0) {
        struct str after = rest, digits;
        uint64_t n;
        if (!str_split(&after, ' ', &digits) || str_to_u64(digits, 1, rest.n, &n) < 0 ||
            n < digits.n + 3 || rest.p[n - 1] != '\n')
            return tar_refuse(t, "has a damaged pax header");
        const char *end = rest.p + n - 1, *equals = memchr(after.p, '=', (size_t)(end - after.p));
        if (!equals)
            return tar_refuse(t, "has a damaged pax header");
        struct str key = {after.p, (size_t)(equals - after.p)};
        struct str value = {equals + 1, (size_t)(end - equals - 1)};
        int r = is_global ? 0 : tar_take_record(t, key, value);
        if (r < 0)
            return r;
        rest = (struct str){rest.p + n, rest.n - n};
    }
    return 0;
}

static int tar_end_extra(struct tar_in *t) {
    struct str text = {(const char *)buf_data(&t->extra), buf_len(&t->extra)};
    int r = 0;
    if (t->extra_type == 'x' || t->extra_type == 'g') {
        r = tar_take_pax(t, t->extra_type == 'g');
    } else {
        bool is_path = t->extra_type == 'L';
        text.n = text.n > 0 ? strnlen(text.p, text.n) : 0; /* GNU ends the name with NUL */
        r = tar_take_name(t, is_path ? t->member.path : t->member.target, text);
        t->has_path |= is_path;
        t->has_target |= !is_path;
    }
    buf_clear(&t->extra);
    t->state = TAR_IN_PADDING;
    t->left = t->padding;
    return r;
}

/* Starts an extra header, which describes the next member. */
static int tar_begin_extra(struct tar_in *t, char type, int64_t size) {
    if (size < 0 || (uint64_t)size > TAR_EXTRA_MAX)
        return tar_refuse(t, "has a header that is too large");
    t->extra_type = type;
    t->left = (uint64_t)size;
    t->padding = tar_padding((uint64_t)size);
    t->state = TAR_IN_EXTRA;
    return TAR_MORE;
}

static int tar_take_type(struct tar_in *t, char type) {
    size_t n = strlen(t->member.path);
    bool is_old_dir = n > 0 && t->member.path[n - 1] == '/';
    switch (type) {
    case '0':
    case '7':
    case '\0':
        t->member.type = is_old_dir ? TAR_DIRECTORY : TAR_FILE;
        return 0;
    case '1':
        t->member.type = TAR_LINK;
        return 0;
    case '2':
        t->member.type = TAR_SYMLINK;
        return 0;
    case '5':
        t->member.type = TAR_DIRECTORY;
        return 0;
    case '3':
    case '4':
        return tar_refuse(t, "is a device");
    case '6':
        return tar_refuse(t, "is a FIFO");
    default:
        return tar_refuse(t, "has an unsupported type");
    }
}

static int tar_take_header(struct tar_in *t) {
    const uint8_t *b = t->block;
    int64_t size, mode, time;
    if (tar_is_zero(b)) {
        t->state = TAR_AT_END;
        return TAR_END;
    }
    if (!t->has_path)
        tar_take_ustar_name(t, b);
    if (!tar_sum_is_right(b))
        return tar_refuse(t, "has a header with a wrong checksum");
    if (!tar_read_number(b + AT_SIZE, 12, &size) || !tar_read_number(b + AT_MODE, 8, &mode) ||
        !tar_read_number(b + AT_TIME, 12, &time))
        return tar_refuse(t, "has an invalid number in its header");
    char type = (char)b[AT_TYPE];
    if (type == 'x' || type == 'g' || type == 'L' || type == 'K')
        return tar_begin_extra(t, type, size);
    int r = tar_take_type(t, type);
    if (r < 0)
        return r;
    if (!t->has_target) {
        struct str target = tar_field(b + AT_LINK, NAME_N);
        memcpy(t->member.target, target.p, target.n);
        t->member.target[target.n] = '\0';
    }
    if (!t->has_size && (size < 0 || (uint64_t)size > SIZE_LARGEST))
        return tar_refuse(t, "has an invalid size");
    if (!t->has_size)
        t->member.size = (uint64_t)size;
    if (t->member.type != TAR_FILE)
        t->member.size = 0;
    if (!t->has_time)
        t->member.modified_s = time;
    t->member.mode = (uint32_t)mode & 07777;
    t->has_path = t->has_target = t->has_size = t->has_time = false;
    t->left = t->member.size;
    t->padding = tar_padding(t->member.size);
    t->state = TAR_IN_DATA;
    return TAR_MEMBER;
}

static struct str tar_take_some(struct str *input, uint64_t max) {
    struct str part = {input->p, (size_t)MIN((uint64_t)input->n, max)};
    input->p += part.n;
    input->n -= part.n;
    return part;
}

/* Runs one step of the state machine. Returns an event, or TAR_MORE when the state changed or the
 * input is consumed. */
static int tar_step(struct tar_in *t, struct str *input, struct str *ret_data) {
    struct str part;
    int r = TAR_MORE;
    switch (t->state) {
    case TAR_AT_HEADER:
        part = tar_take_some(input, TAR_BLOCK - t->n);
        memcpy(t->block + t->n, part.p, part.n);
        t->n += part.n;
        if (t->n == TAR_BLOCK) {
            t->n = 0;
            r = tar_take_header(t);
        }
        break;
    case TAR_IN_EXTRA:
        part = tar_take_some(input, t->left);
        t->left -= part.n;
        r = part.n > 0 ? buf_append(&t->extra, part.p, part.n) : 0;
        if (r == 0 && t->left == 0)
            r = tar_end_extra(t);
        break;
    case TAR_IN_DATA:
        part = tar_take_some(input, t->left);
        t->left -= part.n;
        *ret_data = part;
        if (part.n > 0)
            return TAR_DATA;
        t->left = t->padding;
        t->state = TAR_IN_PADDING;
        r = TAR_END_OF_MEMBER;
        break;
    case TAR_IN_PADDING:
        t->left -= tar_take_some(input, t->left).n;
        if (t->left == 0)
            t->state = TAR_AT_HEADER;
        break;
    case TAR_AT_END:
        tar_take_some(input, input->n);
        break;
    }
    return r;
}

int tar_in_next(struct tar_in *t, struct str *input, struct str *ret_data) {
    for (;;) {
        bool can_go =
            input->n > 0 ||
            ((t->state == TAR_IN_DATA || t->state == TAR_IN_PADDING || t->state == TAR_IN_EXTRA) &&
             t->left == 0);
        if (!can_go)
            return TAR_MORE;
        int r = tar_step(t, input, ret_data);
        if (r != TAR_MORE)
            return r;
    }
}

/* Writes n - 1 digits and leaves the last byte unchanged. */
static void tar_put_octal(uint8_t *at, size_t n, uint64_t value) {
    for (size_t i = n - 1; i-- > 0; value >>= 3)
        at[i] = (uint8_t)('0' + (value & 7));
}

static int tar_put_header(struct buf *out, const struct tar_member *m, char type, struct str name,
                          struct str target, uint64_t size) {
    uint8_t *b;
    int r = buf_reserve(out, TAR_BLOCK, &b);
    if (r < 0)
        return r;
    memset(b, 0, TAR_BLOCK);
    memcpy(b + AT_NAME, name.p, MIN(name.n, (size_t)NAME_N));
    memcpy(b + AT_LINK, target.p, MIN(target.n, (size_t)NAME_N));
    tar_put_octal(b + AT_MODE, 8, m->mode & 07777);
    tar_put_octal(b + AT_UID, 8, m->uid <= OCTAL_8 ? m->uid : 0);
    tar_put_octal(b + AT_GID, 8, m->gid <= OCTAL_8 ? m->gid : 0);
    tar_put_octal(b + AT_SIZE, 12, size <= OCTAL_12 ? size : 0);
    bool time_fits = m->modified_s >= 0 && (uint64_t)m->modified_s <= OCTAL_12;
    tar_put_octal(b + AT_TIME, 12, time_fits ? (uint64_t)m->modified_s : 0);
    b[AT_TYPE] = (uint8_t)type;
    memcpy(b + AT_MAGIC, "ustar\00000", 8);
    memset(b + AT_SUM, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < AT_MAGIC + 8; i++) /* the rest of the block is zero */
        sum += b[i];
    tar_put_octal(b + AT_SUM, 7, sum);
    b[AT_SUM + 6] = '\0';
    buf_commit(out, TAR_BLOCK);
    return 0;
}

/* Writes a pax record, "LENGTH key=value\n". LENGTH includes its own digits. */
static int tar_put_record(struct buf *out, const char *key, struct str value) {
    char head[64];
    size_t body = 1 + strlen(key) + 1 + value.n + 1, n = body + 1;
    while ((size_t)snprintf(head, sizeof head, "%zu", n) + body != n)
        n = (size_t)snprintf(head, sizeof head, "%zu", n) + body;
    int head_n = snprintf(head, sizeof head, "%zu %s=", n, key);
    int r = buf_append(out, head, (size_t)head_n);
    if (r == 0)
        r = buf_append(out, value.p, value.n);
    return r < 0 ? r : buf_append(out, "\n", 1);
}

static int tar_put_number(struct buf *out, const char *key, int64_t value) {
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)value);
    return tar_put_record(out, key, (struct str){text, (size_t)n});
}

static bool tar_is_plain(struct str s) {
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] >= 0x80)
            return false;
    return s.n <= NAME_N;
}

static int tar_put_records(struct buf *pax, const struct tar_member *m, struct str path,
                           struct str target) {
    int r = 0;
    bool is_utf8 = str_is_utf8(path.p, path.n) && str_is_utf8(target.p, target.n);
    if (!is_utf8)
        r = tar_put_record(pax, "hdrcharset", STR("BINARY"));
    if (r == 0 && !tar_is_plain(path))
        r = tar_put_record(pax, "path", path);
    if (r == 0 && !tar_is_plain(target))
        r = tar_put_record(pax, "linkpath", target);
    if (r == 0 && m->size > OCTAL_12)
        r = tar_put_number(pax, "size", (int64_t)m->size);
    if (r == 0 && (m->modified_s < 0 || (uint64_t)m->modified_s > OCTAL_12))
        r = tar_put_number(pax, "mtime", m->modified_s);
    if (r == 0 && m->uid > OCTAL_8)
        r = tar_put_number(pax, "uid", m->uid);
    if (r == 0 && m->gid > OCTAL_8)
        r = tar_put_number(pax, "gid", m->gid);
    return r;
}

int tar_put(struct buf *out, const struct tar_member *m) {
    static const char types[] = {'0', '1', '2', '5'};
    static const uint8_t zeros[TAR_BLOCK];
    struct str path = str_of(m->path), target = str_of(m->target);
    struct buf pax;
    buf_init(&pax, 4 * TAR_PATH_MAX);
    int r = tar_put_records(&pax, m, path, target);
    if (r == 0 && buf_len(&pax) > 0) {
        const struct tar_member plain = {.mode = 0644};
        r = tar_put_header(out, &plain, 'x', STR("PaxHeaders/member"), STR(""), buf_len(&pax));
        if (r == 0)
            r = buf_append(out, buf_data(&pax), buf_len(&pax));
        if (r == 0)
            r = buf_append(out, zeros, tar_padding(buf_len(&pax)));
    }
    buf_done(&pax);
    return r < 0 ? r : tar_put_header(out, m, types[m->type], path, target, m->size);
}

/* --- names --- */

const char *tar_clean_path(const char *from, char to[TAR_PATH_MAX + 1]) {
    struct str rest = str_of(from), name;
    size_t n = 0;
    if (from[0] == '/')
        return "is absolute";
    while (str_split(&rest, '/', &name)) {
        if (name.n == 0 || str_is(name, STR(".")))
            continue;
        if (str_is(name, STR("..")))
            return "contains \"..\"";
        if (name.n > TAR_NAME_MAX)
            return "has a name that is too long";
        if (n > 0)
            to[n++] = '/';
        memcpy(to + n, name.p, name.n);
        n += name.n;
    }
    to[n] = '\0';
    return NULL;
}

bool tar_link_leads_outside(const char *path, const char *target) {
    struct str rest = str_of(target), name;
    long depth = 0;
    for (const char *p = path; *p; p++)
        depth += *p == '/';
    if (target[0] == '/')
        return true;
    while (str_split(&rest, '/', &name)) {
        if (name.n == 0 || str_is(name, STR(".")))
            continue;
        depth += str_is(name, STR("..")) ? -1 : 1;
        if (depth < 0)
            return true;
    }
    return false;
}
