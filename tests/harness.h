/* harness — TEST(name) { … } registers itself. CHECK* counts, and prints both values when they
 * differ.
 *
 * A test without a check fails, and so does a run without a test. After alloc_fail_at(n), the n-th
 * allocation returns NULL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
};

void test_register(struct test *t);
bool check(bool ok, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void test_skip(const char *reason);
/* 0 disables it. alloc_failed returns whether the n-th allocation was reached. */
void alloc_fail_at(unsigned n);
bool alloc_failed(void);

#define TEST(id)                                                   \
    static void test_##id(void);                                   \
    __attribute__((constructor)) static void register_##id(void) { \
        static struct test t = {#id, test_##id, NULL};             \
        test_register(&t);                                         \
    }                                                              \
    static void test_##id(void)

#define CHECK(cond) check(cond, __FILE__, __LINE__, "%s", #cond)
#define CHECK_INT(got, want)                                                                 \
    ({                                                                                       \
        long long got_ = (long long)(got), want_ = (long long)(want);                        \
        check(got_ == want_, __FILE__, __LINE__, "%s is %lld, not %lld", #got, got_, want_); \
    })
#define CHECK_STR(got, want)                                                                  \
    ({                                                                                        \
        const char *got_ = (got), *want_ = (want);                                            \
        check(strcmp(got_, want_) == 0, __FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #got, \
              got_, want_);                                                                   \
    })
#define CHECK_BYTES(got, got_n, want, want_n)                                              \
    check((size_t)(got_n) == (size_t)(want_n) && memcmp(got, want, want_n) == 0, __FILE__, \
          __LINE__, "%s: %zu bytes are not the %zu expected", #got, (size_t)(got_n),       \
          (size_t)(want_n))
