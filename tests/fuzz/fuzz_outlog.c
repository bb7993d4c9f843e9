/* outlog — two streams under a cap, driven by the input; kept bytes equal the written ones. */
#include "fuzz.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/outlog.h"

static uint8_t byte_at(uint64_t offset, unsigned which) {
    return (uint8_t)(1 + (offset * 131 + which * 7) % 255);
}

static void check(struct outlog *log, unsigned which) {
    struct outlog_view view = {0};
    uint8_t got[512];
    uint64_t first = log->first;
    for (uint64_t at = log->first; at < log->size;) {
        ssize_t n = outlog_read(&view, log->fd, at, got, sizeof got, &first);
        if (n <= 0)
            abort();
        for (ssize_t i = 0; i < n; i++)
            if (got[i] != byte_at(at + (uint64_t)i, which))
                abort();
        at += (uint64_t)n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static uint8_t bytes[65536];
    struct outlog logs[2];
    uint64_t cap = OUTLOG_CAP_MIN * (1 + (n > 0 ? data[0] % 4 : 0));
    for (int i = 0; i < 2; i++)
        if (outlog_init(&logs[i], memfd_create("log", MFD_CLOEXEC)) < 0)
            abort();
    for (size_t at = 1; at + 2 < n && at < 600; at += 3) {
        unsigned which = data[at] & 1;
        size_t len = (size_t)(data[at + 1] << 8 | data[at + 2]);
        outlog_trim(logs, 2, cap, len);
        if (outlog_kept(&logs[0]) + outlog_kept(&logs[1]) + len > cap)
            abort();
        for (size_t i = 0; i < len; i++)
            bytes[i] = byte_at(logs[which].size + i, which);
        if (outlog_append(&logs[which], bytes, len) != (ssize_t)len)
            abort();
    }
    for (unsigned i = 0; i < 2; i++) {
        check(&logs[i], i);
        outlog_done(&logs[i]);
    }
    return 0;
}
