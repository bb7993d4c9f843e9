#include "wire/gzip.h"

#include <errno.h>
#include <stdbool.h>
#include <zlib.h>

#define GZIP_WINDOW (15 + 16) /* zlib's way to ask for the gzip wrapper */
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

static int inflate_begin(struct gzip *g) {
    int z = g->in_ready ? inflateReset(&g->in) : inflateInit2(&g->in, GZIP_WINDOW);
    g->in_ready = g->in_ready || z == Z_OK;
    return z == Z_OK ? 0 : -ENOMEM;
}

int gzip_inflate(struct gzip *g, const uint8_t *bytes, size_t n, struct buf *out) {
    int r = inflate_begin(g);
    if (r < 0)
        return r;
    g->in.next_in = (Bytef *)bytes;
    g->in.avail_in = (uInt)n;
    int z = Z_OK;
    while (z != Z_STREAM_END) {
        uint8_t
            probe; /* with the buffer full, one byte more tells "exactly full" from "too large" */
        uint8_t *at = &probe;
        size_t step = MIN(buf_room(out), STEP_BYTES);
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

static int deflate_begin(struct gzip *g) {
    int z = g->out_ready ? deflateReset(&g->out)
                         : deflateInit2(&g->out, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8,
                                        Z_DEFAULT_STRATEGY);
    g->out_ready = g->out_ready || z == Z_OK;
    return z == Z_OK ? 0 : -ENOMEM;
}

int gzip_deflate(struct gzip *g, const uint8_t *bytes, size_t n, struct buf *out) {
    int r = deflate_begin(g);
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
