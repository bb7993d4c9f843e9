#include "wire/gzip.h"

#include <errno.h>
#include <stdbool.h>
#include <zlib.h>

#define GZIP_WINDOW (15 + 16) /* zlib's value for the gzip format */
#define STEP_BYTES ((size_t)32 * 1024)

struct gzip {
    z_stream in;
    z_stream out;
    bool in_ready;
    bool out_ready;
};

int gzip_new(struct gzip **ret_gzip) {
    *ret_gzip = calloc(1, sizeof **ret_gzip);
    return *ret_gzip ? 0 : -ENOMEM;
}

void gzip_free(struct gzip *g) {
    if (!g)
        return;
    if (g->in_ready)
        inflateEnd(&g->in);
    if (g->out_ready)
        deflateEnd(&g->out);
    free(g);
}

static int gzip_inflate_begin(struct gzip *g) {
    int z = g->in_ready ? inflateReset(&g->in) : inflateInit2(&g->in, GZIP_WINDOW);
    g->in_ready = g->in_ready || z == Z_OK;
    return z == Z_OK ? 0 : -ENOMEM;
}

int gzip_inflate(struct gzip *g, const uint8_t *bytes, size_t n, struct buf *out) {
    int r = gzip_inflate_begin(g);
    if (r < 0)
        return r;
    g->in.next_in = (Bytef *)bytes;
    g->in.avail_in = (uInt)n;
    int z = Z_OK;
    while (z != Z_STREAM_END) {
        uint8_t
            /* when `out` is full, one more byte distinguishes "exactly full" from "too large" */
            probe;
        uint8_t *at = &probe;
        size_t step = MIN(buf_available(out), STEP_BYTES);
        if (step > 0 && (r = buf_reserve(out, step, &at)) < 0)
            return r;
        size_t space = step > 0 ? step : 1;
        g->in.next_out = at;
        g->in.avail_out = (uInt)space;
        z = inflate(&g->in, Z_NO_FLUSH);
        size_t made = space - g->in.avail_out;
        if (step == 0 && made > 0)
            return -ENOBUFS;
        buf_commit(out, step > 0 ? made : 0);
        if (z == Z_MEM_ERROR)
            return -ENOMEM;
        if (z != Z_OK && z != Z_STREAM_END)
            return -EBADMSG;
    }
    return g->in.avail_in == 0 ? 0 : -EBADMSG;
}

static int gzip_deflate_begin(struct gzip *g) {
    int z = g->out_ready ? deflateReset(&g->out)
                         : deflateInit2(&g->out, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8,
                                        Z_DEFAULT_STRATEGY);
    g->out_ready = g->out_ready || z == Z_OK;
    return z == Z_OK ? 0 : -ENOMEM;
}

int gzip_deflate(struct gzip *g, const uint8_t *bytes, size_t n, struct buf *out) {
    int r = gzip_deflate_begin(g);
    if (r < 0)
        return r;
    size_t bound = deflateBound(&g->out, n);
    uint8_t *at;
    if ((r = buf_reserve(out, bound, &at)) < 0)
        return r;
    g->out.next_in = (Bytef *)bytes;
    g->out.avail_in = (uInt)n;
    g->out.next_out = at;
    g->out.avail_out = (uInt)bound;
    if (deflate(&g->out, Z_FINISH) != Z_STREAM_END)
        return -ENOMEM;
    buf_commit(out, bound - g->out.avail_out);
    return 0;
}

/* --- streams --- */

struct gzip_stream {
    z_stream z;
    enum gzip_way way;
    bool at_end; /* at the end of a gzip member */
};

int gzip_stream_new(enum gzip_way way, struct gzip_stream **ret_stream) {
    struct gzip_stream *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    s->way = way;
    int z = way == GZIP_INFLATE
                ? inflateInit2(&s->z, GZIP_WINDOW)
                : deflateInit2(&s->z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY);
    if (z != Z_OK) {
        free(s);
        return -ENOMEM;
    }
    *ret_stream = s;
    return 0;
}

void gzip_stream_free(struct gzip_stream *s) {
    if (!s)
        return;
    if (s->way == GZIP_INFLATE)
        inflateEnd(&s->z);
    else
        deflateEnd(&s->z);
    free(s);
}

static int gzip_step_inflate(struct gzip_stream *s) {
    if (s->at_end && s->z.avail_in > 0 && inflateReset(&s->z) != Z_OK)
        return -ENOMEM;
    s->at_end = s->at_end && s->z.avail_in == 0;
    int z = s->at_end ? Z_STREAM_END : inflate(&s->z, Z_NO_FLUSH);
    s->at_end = z == Z_STREAM_END;
    if (z == Z_MEM_ERROR)
        return -ENOMEM;
    return z == Z_OK || z == Z_BUF_ERROR ? 0 : s->at_end ? 1 : -EBADMSG;
}

static int gzip_step_deflate(struct gzip_stream *s, bool is_last) {
    int z = deflate(&s->z, is_last ? Z_FINISH : Z_NO_FLUSH);
    return z == Z_STREAM_END ? 1 : z == Z_OK || z == Z_BUF_ERROR ? 0 : -ENOMEM;
}

int gzip_stream_step(struct gzip_stream *s, struct gzip_piece *p, bool is_last) {
    s->z.next_in = (Bytef *)p->in;
    s->z.avail_in = (uInt)p->n_in;
    s->z.next_out = p->out;
    s->z.avail_out = (uInt)p->n_out;
    int r = s->way == GZIP_INFLATE ? gzip_step_inflate(s) : gzip_step_deflate(s, is_last);
    p->in += p->n_in - s->z.avail_in;
    p->n_in = s->z.avail_in;
    p->out += p->n_out - s->z.avail_out;
    p->n_out = s->z.avail_out;
    return r;
}
