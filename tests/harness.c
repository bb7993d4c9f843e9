#include "harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct test *first;
static struct test **last = &first;
static unsigned checks, failures;
static const char *skipped;
static unsigned fail_in;
static bool did_fail;

void test_register(struct test *t) {
    *last = t;
    last = &t->next;
}

bool check(bool ok, const char *file, int line, const char *fmt, ...) {
    checks++;
    if (ok)
        return true;
    failures++;
    va_list args;
    va_start(args, fmt);
    printf("# %s:%d: ", file, line);
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    return false;
}

void test_skip(const char *reason) {
    skipped = reason;
}

void alloc_fail_at(unsigned n) {
    fail_in = n;
    did_fail = false;
}

bool alloc_failed(void) {
    return did_fail;
}

static bool fails_now(void) {
    if (fail_in == 0 || --fail_in > 0)
        return false;
    return did_fail = true;
}

/* The linker redirects our allocations here (--wrap). */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n) {
    return fails_now() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size) {
    return fails_now() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n) {
    return fails_now() ? NULL : __real_realloc(p, n);
}

int main(int argc, char **argv) {
    unsigned n = 0, bad = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (struct test *t = first; t; t = t->next) {
        if (argc > 1 && !strstr(t->name, argv[1]))
            continue;
        checks = failures = 0;
        skipped = NULL;
        t->run();
        alloc_fail_at(0);
        bool ok = failures == 0 && (checks > 0 || skipped);
        if (checks == 0 && !skipped)
            printf("# %s checks nothing\n", t->name);
        printf("%sok %u - %s%s%s\n", ok ? "" : "not ", ++n, t->name, skipped ? " # SKIP " : "",
               skipped ? skipped : "");
        bad += !ok;
    }
    printf("1..%u\n", n);
    return n > 0 && bad == 0 ? 0 : 1;
}
