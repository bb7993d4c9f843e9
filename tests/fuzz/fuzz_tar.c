/* tar — any split of the input gives the same members; contents have the announced size; and
 * members survive being written and read again. The first byte is the piece size. */
#include "fuzz.h"

#include <errno.h>

#include "base/tar.h"

struct seen {
    uint64_t hash;
    size_t members;
    int end; /* the last result */
};

static void add(struct seen *s, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++)
        s->hash = (s->hash ^ p[i]) * UINT64_C(1099511628211);
}

/* Writes the headers of a member and reads them again. */
static void there_and_back(const struct tar_member *m) {
    struct buf bytes;
    struct tar_in t;
    struct str data;
    buf_init(&bytes, 1 << 20);
    CHECK(tar_put(&bytes, m) == 0);
    CHECK(buf_len(&bytes) % TAR_BLOCK == 0);
    struct str input = {(const char *)buf_data(&bytes), buf_len(&bytes)};
    tar_in_init(&t);
    CHECK(tar_in_next(&t, &input, &data) == TAR_MEMBER && input.n == 0);
    CHECK(t.member.type == m->type && t.member.size == m->size && t.member.mode == m->mode);
    CHECK(t.member.modified_s == m->modified_s);
    CHECK(strcmp(t.member.path, m->path) == 0 && strcmp(t.member.target, m->target) == 0);
    tar_in_done(&t);
    buf_done(&bytes);
}

static void on_member(struct seen *s, const struct tar_member *m) {
    s->members++;
    CHECK(strlen(m->path) <= TAR_PATH_MAX && strlen(m->target) <= TAR_PATH_MAX);
    CHECK(m->type == TAR_FILE || m->size == 0);
    add(s, m->path, strlen(m->path));
    add(s, m->target, strlen(m->target));
    add(s, &m->size, sizeof m->size);
    add(s, &m->type, sizeof m->type);
    size_t n = strlen(m->path);
    if (m->type != TAR_FILE || n == 0 || m->path[n - 1] != '/')
        there_and_back(m);
}

static void take(struct tar_in *t, struct seen *s, struct str piece, uint64_t *left) {
    struct str data;
    for (;;) {
        s->end = tar_in_next(t, &piece, &data);
        if (s->end == TAR_MORE || s->end < 0)
            break;
        if (s->end == TAR_MEMBER) {
            on_member(s, &t->member);
            *left = t->member.size;
        } else if (s->end == TAR_DATA) {
            CHECK(data.n > 0 && data.n <= *left);
            add(s, data.p, data.n);
            *left -= data.n;
        } else if (s->end == TAR_END_OF_MEMBER) {
            CHECK(*left == 0);
        }
    }
    CHECK(s->end < 0 || piece.n == 0);
}

static struct seen read_in_pieces(const uint8_t *data, size_t size, size_t n) {
    struct seen s = {.hash = UINT64_C(14695981039346656037)};
    struct tar_in t;
    uint64_t left = 0;
    tar_in_init(&t);
    for (size_t at = 0; at < size && s.end >= 0; at += n)
        take(&t, &s, (struct str){(const char *)data + at, size - at < n ? size - at : n}, &left);
    if (s.end < 0)
        CHECK(s.end == -EBADMSG && t.why[0]);
    else
        add(&s, &t.state, sizeof t.state);
    tar_in_done(&t);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct feed f = {data, size};
    size_t n = (size_t)feed_byte(&f) + 1;
    struct seen whole = read_in_pieces(f.at, f.n, f.n + 1);
    struct seen pieces = read_in_pieces(f.at, f.n, n);
    CHECK(whole.hash == pieces.hash && whole.members == pieces.members);
    CHECK((whole.end < 0) == (pieces.end < 0));
    return 0;
}
