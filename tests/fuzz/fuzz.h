/* fuzz — shared by all fuzzers. Each fuzz_X.c defines the function that libFuzzer calls;
 * fuzz-replay links all of them under the name fuzz_X. A failed CHECK ends the process. */
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

/* The input as a source of decisions and of bytes. */
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

/* Returns up to n bytes, fewer at the end. */
static inline struct feed feed_take(struct feed *f, size_t n) {
    struct feed part = {f->at, n < f->n ? n : f->n};
    f->at += part.n;
    f->n -= part.n;
    return part;
}
