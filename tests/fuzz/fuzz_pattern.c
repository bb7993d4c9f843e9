/* pattern — a slow and simple matcher gives the same results where it can decide. For a path that
 * matches, every parent directory leads into it. The first byte is the pattern's length; the path
 * follows. */
#include "fuzz.h"

#include "base/pattern.h"

#define PATH_MOST 200

/* Bounds the attempts of the simple matcher. */
struct tries {
    const char *pattern, *path;
    int left;
};

static bool simple(struct tries *t, const char *p, const char *s);

static bool is_hidden(const struct tries *t, const char *s) {
    return (s == t->path || s[-1] == '/') && *s == '.';
}

/* Matches any number of directories, then the rest. */
static bool simple_dirs(struct tries *t, const char *rest, const char *s) {
    for (;;) {
        if (simple(t, rest, s))
            return true;
        const char *slash = strchr(s, '/');
        if (!slash || is_hidden(t, s))
            return false;
        s = slash + 1;
    }
}

static bool simple_stars(struct tries *t, const char *p, const char *s) {
    size_t n = strspn(p, "*");
    bool whole = n == 2 && (p == t->pattern || p[-1] == '/') && (p[2] == '/' || p[2] == '\0');
    if (whole && p[2] == '/')
        return simple_dirs(t, p + 3, s);
    if (whole)
        return simple_dirs(t, "*", s);
    if (is_hidden(t, s))
        return false;
    for (;; s++) {
        if (simple(t, p + n, s))
            return true;
        if (*s == '\0' || *s == '/')
            return false;
    }
}

/* Returns 1 or 0 whether the class contains the character; -1 if it is not closed. */
static int simple_class(const char **p, char c) {
    const char *at = *p + 1;
    bool negated = *at == '!', found = false;
    at += negated;
    if (*at == '\0')
        return -1;
    const char *close = strchr(at + 1, ']');
    if (!close)
        return -1;
    while (at < close) {
        bool range = at[1] == '-' && at + 2 < close;
        found |= range ? c >= at[0] && c <= at[2] : c == at[0];
        at += range ? 3 : 1;
    }
    *p = close + 1;
    return found != negated;
}

static bool simple(struct tries *t, const char *p, const char *s) {
    if (--t->left < 0)
        return false;
    if (*p == '\0')
        return *s == '\0';
    if (*p == '*')
        return simple_stars(t, p, s);
    if (*p == '?')
        return *s && *s != '/' && !is_hidden(t, s) && simple(t, p + 1, s + 1);
    if (*p == '[') {
        const char *after = p;
        int has = simple_class(&after, *s);
        if (has >= 0)
            return has && *s && *s != '/' && !is_hidden(t, s) && simple(t, after, s + 1);
    }
    return *s == *p && simple(t, p + 1, s + 1);
}

/* Makes a relative, clean path, like those of the guest's walk. */
static size_t make_path(struct feed f, char *path) {
    size_t n = 0;
    for (uint8_t c; n < PATH_MOST && f.n > 0 && (c = feed_byte(&f)) != '\0';)
        if (c != '/' || (n > 0 && path[n - 1] != '/'))
            path[n++] = (char)c;
    while (n > 0 && path[n - 1] == '/')
        n--;
    path[n] = '\0';
    return n;
}

static bool is_ascii(const char *s) {
    for (; *s; s++)
        if ((unsigned char)*s >= 0x80)
            return false;
    return true;
}

static void compare(const char *text, const char *path, bool matches) {
    if (strchr(text, '{') || !is_ascii(text) || !is_ascii(path))
        return;
    struct tries t = {.pattern = text + (text[0] == '/'), .path = path, .left = 20000};
    bool wanted =
        strchr(text, '/') ? simple(&t, t.pattern, path) : simple_dirs(&t, t.pattern, path);
    if (t.left >= 0)
        CHECK(wanted == matches);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct feed f = {data, size};
    struct feed text = feed_take(&f, feed_byte(&f));
    char path[PATH_MOST + 1], copy[256];
    struct arena a;
    struct err e;
    struct pattern *p, *excludes;
    CHECK(arena_init(&a, 4096, 1 << 20) == 0);
    size_t n = make_path(f, path);
    struct str s = {(const char *)text.at, text.n};
    int r = pattern_new(&a, s, PATTERN_VISIBLE, "pattern", &p, &e);
    CHECK(r == 0 || (e.code == ERR_INVALID_ARGUMENT && strcmp(e.field, "pattern") == 0));
    if (r == 0 && n > 0) {
        bool matches = pattern_matches(p, path);
        memcpy(copy, text.at, text.n);
        copy[text.n] = '\0';
        compare(copy, path, matches);
        CHECK(pattern_matches(p, path) == matches);
        for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            CHECK(pattern_leads_into(p, path) || !matches);
            *slash = '/';
        }
        CHECK(pattern_new(&a, s, PATTERN_ANY, "excludes", &excludes, &e) == 0);
        CHECK(pattern_matches(excludes, path) || !matches);
    }
    arena_done(&a);
    return 0;
}
