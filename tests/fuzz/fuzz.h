/* fuzz — what every fuzzer shares. Each fuzz_X.c defines the one function libFuzzer calls; fuzz-replay
 * holds them all under the name fuzz_X. What must hold is CHECKed and ends the process when it does not. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(truth)                                                                   \
    do {                                                                               \
        if (!(truth)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #truth); \
            abort();                                                                   \
        }                                                                              \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input as a source of decisions and of bytes to feed. */
struct feed {
    const uint8_t *at;
    size_t n;
};

static inline uint8_t feed_byte(struct feed *f) {
    if (f->n == 0)
        return 0;
    f->n--;
    return *f->at++;
}

/* Up to n bytes, fewer at the end. */
static inline struct feed feed_take(struct feed *f, size_t n) {
    struct feed part = {f->at, n < f->n ? n : f->n};
    f->at += part.n;
    f->n -= part.n;
    return part;
}
