#include "guest/search/scan.h"

#include <errno.h>

#include "base/limits.h"

static char scan_fold(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static int scan_compile(struct scan *s, struct str pattern, struct err *e) {
    char text[SCAN_PATTERN_MAX + 1], why[128];
    memcpy(text, pattern.p, pattern.n);
    text[pattern.n] = '\0';
    int flags = REG_EXTENDED | REG_NOSUB | (s->ignore_case ? REG_ICASE : 0);
    int r = regcomp(&s->regex, text, flags);
    if (r == 0)
        return 0;
    regerror(r, &s->regex, why, sizeof why);
    return err_field(e, "pattern", "must be a regular expression: %s", why);
}

int scan_init(struct scan *s, struct str pattern, struct err *e) {
    if (pattern.n == 0 || pattern.n > SCAN_PATTERN_MAX)
        return err_field(e, "pattern", "must be 1 to %d bytes, got %zu", SCAN_PATTERN_MAX,
                         pattern.n);
    if (memchr(pattern.p, '\0', pattern.n) || memchr(pattern.p, '\n', pattern.n))
        return err_field(e, "pattern", "must not contain NUL or a line end");
    char *needle = malloc(pattern.n);
    s->n_lines = s->before + s->after + 1;
    s->window = malloc(SCAN_WINDOW + 1);
    s->folded = s->ignore_case && !s->is_regex ? malloc(SCAN_WINDOW + 1) : NULL;
    s->lines = malloc(s->n_lines * sizeof *s->lines);
    if (!needle || !s->window || !s->lines || (s->ignore_case && !s->is_regex && !s->folded))
        return err_set(e, ERR_OUT_OF_MEMORY, "grep: out of memory");
    for (size_t i = 0; i < pattern.n; i++)
        needle[i] = s->ignore_case ? scan_fold(pattern.p[i]) : pattern.p[i];
    s->needle = (struct str){needle, pattern.n};
    return s->is_regex ? scan_compile(s, pattern, e) : 0;
}

/* Returns where the text is within n bytes of the window, or NULL. */
static const char *scan_find_text(const struct scan *s, const char *at, size_t n) {
    if (!s->folded)
        return memmem(at, n, s->needle.p, s->needle.n);
    char *to = s->folded;
    for (size_t i = 0; i < n; i++)
        to[i] = scan_fold(at[i]);
    const char *hit = memmem(to, n, s->needle.p, s->needle.n);
    return hit ? at + (hit - to) : NULL;
}

/* Returns whether n bytes match. Overwrites at[n] with NUL meanwhile. */
static bool scan_matches(struct scan *s, char *at, size_t n) {
    if (!s->is_regex)
        return scan_find_text(s, at, n) != NULL;
    char kept = at[n];
    bool found = false;
    at[n] = '\0'; /* regexec stops at NUL, so each part between NULs is matched */
    for (char *part = at; !found && part <= at + n; part += strlen(part) + 1) {
        int flags = (part > at ? REG_NOTBOL : 0) | (part + strlen(part) < at + n ? REG_NOTEOL : 0);
        int r = regexec(&s->regex, part, 0, NULL, flags);
        found = r == 0;
        s->is_short |= r == REG_ESPACE;
    }
    at[n] = kept;
    return found;
}

const struct scan_line *scan_near(const struct scan *s, uint64_t number) {
    if (number == 0 || number > s->number)
        return NULL;
    const struct scan_line *line = &s->lines[number % s->n_lines];
    return line->number == number ? line : NULL;
}

static void scan_report(struct scan *s, uint64_t number) {
    const struct scan_line *line = s->stop ? NULL : scan_near(s, number);
    if (line && line->is_match)
        s->on_match(s, line);
}

/* Starts the next line. */
static struct scan_line *scan_begin_line(struct scan *s, const char *at, size_t n) {
    struct scan_line *line = &s->lines[(s->number + 1) % s->n_lines];
    line->number = s->number + 1;
    line->is_match = false;
    line->n = MIN(n, (size_t)SCAN_TEXT_MAX);
    line->is_cut = line->n < n;
    memcpy(line->text, at, line->n);
    return line;
}

/* Ends the current line. A match is reported once the lines after it are known. */
static void scan_end_line(struct scan *s) {
    s->number++;
    if (s->number > s->after)
        scan_report(s, s->number - s->after);
}

static size_t scan_without_cr(const char *at, size_t n) {
    return n > 0 && at[n - 1] == '\r' ? n - 1 : n;
}

/* Matches complete lines; the last one ends at `end`. */
static void scan_lines(struct scan *s, char *at, char *end) {
    bool may_skip = !s->is_regex && !s->folded && s->n_lines == 1;
    while (at < end && !s->stop) {
        if (may_skip) { /* only count the lines before the text */
            const char *hit = scan_find_text(s, at, (size_t)(end - at));
            const char *to = hit ? hit : end;
            for (char *nl; (nl = memchr(at, '\n', (size_t)(to - at))); at = nl + 1)
                s->number++;
            if (!hit)
                return;
        }
        char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t n = scan_without_cr(at, (size_t)(nl - at));
        scan_begin_line(s, at, n)->is_match = scan_matches(s, at, n);
        scan_end_line(s);
        at = nl + 1;
    }
}

struct scan_reading {
    int fd;
    uint64_t left;
    size_t n;               /* bytes in the window */
    struct scan_line *open; /* the current line, when it is longer than the window */
};

/* Fills the window. Returns 1 when the file has more, 0 at its end, or -errno. */
static int scan_fill(struct scan *s, struct scan_reading *r) {
    while (r->n < SCAN_WINDOW && r->left > 0) {
        ssize_t n = read(r->fd, s->window + r->n, (size_t)MIN(SCAN_WINDOW - r->n, r->left));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            r->left = 0;
        r->n += (size_t)n;
        r->left -= (uint64_t)n;
    }
    return r->left > 0;
}

/* Matches a piece of a line that is longer than the window, or the last line of a file without a line end. */
static void scan_piece(struct scan *s, struct scan_reading *r, size_t n, bool is_end) {
    size_t text_n = is_end ? scan_without_cr(s->window, n) : n;
    if (!r->open)
        r->open = scan_begin_line(s, s->window, text_n);
    r->open->is_match |= scan_matches(s, s->window, text_n);
    if (is_end) {
        scan_end_line(s);
        r->open = NULL;
    }
}

/* Matches the lines of the window, and moves the start of an incomplete line to its front. */
static void scan_window(struct scan *s, struct scan_reading *r, bool more) {
    char *end = s->window + r->n;
    char *last = memrchr(s->window, '\n', r->n);
    char *from = s->window;
    if (r->open && last) { /* the last piece of a long line */
        char *nl = memchr(s->window, '\n', r->n);
        scan_piece(s, r, (size_t)(nl - s->window), true);
        from = nl + 1;
    }
    if (last) {
        scan_lines(s, from, last + 1);
        from = last + 1;
    }
    r->n = (size_t)(end - from);
    memmove(s->window, from, r->n);
    if (r->n == 0 && !r->open)
        return;
    if (!more) {
        scan_piece(s, r, r->n, true);
        r->n = 0;
    } else if (r->n == SCAN_WINDOW) {
        scan_piece(s, r, r->n, false);
        memmove(s->window, s->window + r->n - SCAN_PATTERN_MAX, SCAN_PATTERN_MAX);
        r->n = SCAN_PATTERN_MAX;
    }
}

enum scan_result scan_file(struct scan *s, int fd, uint64_t size) {
    uint64_t unsized_max = (uint64_t)limit_table[LIMIT_FILE_UNSIZED].value;
    struct scan_reading r = {.fd = fd, .left = size > 0 ? size : unsized_max};
    s->number = 0;
    s->is_short = false;
    for (uint64_t i = 0; i < s->n_lines; i++)
        s->lines[i].number = 0;
    for (bool more = true, is_first = true; more && !s->stop; is_first = false) {
        int f = scan_fill(s, &r);
        if (f < 0)
            return SCAN_FAILED;
        more = f > 0;
        if (is_first && memchr(s->window, '\0', MIN(r.n, (size_t)SCAN_BINARY_HEAD)))
            return SCAN_IS_BINARY;
        scan_window(s, &r, more);
        s->stop |= s->is_late(s);
    }
    for (uint64_t i = 1; i <= s->after; i++) /* matches that waited for lines after them */
        if (s->number + i > s->after)
            scan_report(s, s->number + i - s->after);
    return s->is_short ? SCAN_FAILED : SCAN_DONE;
}
