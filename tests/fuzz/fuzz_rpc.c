/* rpc — a stream in pieces gives the same messages as the whole stream. The first byte is the piece
 * size. */
#include "fuzz.h"

#include "base/rpc.h"

#define MAX_BYTES 4096

/* Returns a hash over all messages. */
static uint64_t run(const uint8_t *data, size_t n, size_t piece) {
    struct rpc_in in;
    struct arena a;
    uint64_t hash = 1469598103934665603u;
    rpc_in_init(&in, MAX_BYTES);
    if (arena_init(&a, 4096, (size_t)16 << 20) < 0)
        abort();
    for (size_t at = 0; at < n;) {
        uint8_t *to;
        size_t take = MIN(MIN(piece, n - at), (size_t)1024);
        if (rpc_in_reserve(&in, take, &to) < 0)
            break;
        take = MIN(take, buf_available(&in.bytes));
        memcpy(to, data + at, take);
        rpc_in_commit(&in, take);
        at += take;
        struct str m;
        int r;
        while ((r = rpc_in_next(&in, &m)) == 1) {
            struct rpc_message parsed;
            if (m.n > MAX_BYTES)
                abort();
            arena_reset(&a);
            hash = hash * 31 + (uint64_t)(rpc_parse(&a, m, &parsed) + 200);
            for (size_t i = 0; i < m.n; i++)
                hash = (hash ^ (uint8_t)m.p[i]) * 1099511628211u;
        }
        if (r < 0)
            break;
    }
    rpc_in_done(&in);
    arena_done(&a);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 1)
        return 0;
    if (run(data + 1, n - 1, 1) != run(data + 1, n - 1, 1 + (size_t)data[0] * 4))
        abort();
    return 0;
}
