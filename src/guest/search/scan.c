#include "guest/search/scan.h"

#include <errno.h>

#include "base/limits.h"

static char fold(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static int compile(struct scan *s, struct str pattern, struct err *e) {
    char text[SCAN_PATTERN_MAX + 1], why[128];
    memcpy(text, pattern.p, pattern.n);
    text[pattern.n] = '\0';
    int flags = REG_EXTENDED | REG_NOSUB | (s->ignore_case ? REG_ICASE : 0);
    int r = regcomp(&s->regex, text, flags);
    if (r == 0)
        return 0;
    regerror(r, &s->regex, why, sizeof why);
    return err_field(e, "pattern", "%s", why);
}

int scan_init(struct scan *s, struct str pattern, struct err *e) {
    if (pattern.n == 0 || pattern.n > SCAN_PATTERN_MAX)
        return err_field(e, "pattern", "is empty or longer than %d bytes", SCAN_PATTERN_MAX);
    if (memchr(pattern.p, '\0', pattern.n) || memchr(pattern.p, '\n', pattern.n))
        return err_field(e, "pattern", "holds a NUL or a line end");
    char *needle = malloc(pattern.n);
    s->n_lines = s->before + s->after + 1;
    s->window = malloc(SCAN_WINDOW + 1);
    s->folded = s->ignore_case && !s->is_regex ? malloc(SCAN_WINDOW + 1) : NULL;
    s->lines = malloc(s->n_lines * sizeof *s->lines);
    if (!needle || !s->window || !s->lines || (s->ignore_case && !s->is_regex && !s->folded))
        return err_set(e, ERR_OUT_OF_MEMORY, "no memory to search");
    for (size_t i = 0; i < pattern.n; i++)
        needle[i] = s->ignore_case ? fold(pattern.p[i]) : pattern.p[i];
    s->needle = (struct str){needle, pattern.n};
    return s->is_regex ? compile(s, pattern, e) : 0;
}

/* Where the text is within n bytes of the window, or NULL. */
static const char *find_text(const struct scan *s, const char *at, size_t n) {
    if (!s->folded)
        return memmem(at, n, s->needle.p, s->needle.n);
    char *to = s->folded;
    for (size_t i = 0; i < n; i++)
        to[i] = fold(at[i]);
    const char *hit = memmem(to, n, s->needle.p, s->needle.n);
    return hit ? at + (hit - to) : NULL;
}

/* at[n] may be written to. */
static bool matches(struct scan *s, char *at, size_t n) {
    if (!s->is_regex)
        return find_text(s, at, n) != NULL;
    char kept = at[n];
    bool found = false;
    at[n] = '\0'; /* regexec wants an end, and takes any NUL for it */
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

static void tell(struct scan *s, uint64_t number) {
    const struct scan_line *line = s->stop ? NULL : scan_near(s, number);
    if (line && line->is_match)
        s->on_match(s, line);
}

/* The beginning of a line, which becomes the newest. */
static struct scan_line *begin_line(struct scan *s, const char *at, size_t n) {
    struct scan_line *line = &s->lines[(s->number + 1) % s->n_lines];
    line->number = s->number + 1;
    line->is_match = false;
    line->n = MIN(n, (size_t)SCAN_TEXT_MAX);
    line->is_cut = line->n < n;
    memcpy(line->text, at, line->n);
    return line;
}

/* A line is told when those after it are known. */
static void end_line(struct scan *s) {
    s->number++;
    if (s->number > s->after)
        tell(s, s->number - s->after);
}

static size_t without_cr(const char *at, size_t n) {
    return n > 0 && at[n - 1] == '\r' ? n - 1 : n;
}

/* Whole lines, the last ending at `end`. */
static void scan_lines(struct scan *s, char *at, char *end) {
    bool may_skip = !s->is_regex && !s->folded && s->n_lines == 1;
    while (at < end && !s->stop) {
        if (may_skip) { /* lines without the text are only counted */
            const char *hit = find_text(s, at, (size_t)(end - at));
            const char *to = hit ? hit : end;
            for (char *nl; (nl = memchr(at, '\n', (size_t)(to - at))); at = nl + 1)
                s->number++;
            if (!hit)
                return;
        }
        char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t n = without_cr(at, (size_t)(nl - at));
        begin_line(s, at, n)->is_match = matches(s, at, n);
        end_line(s);
        at = nl + 1;
    }
}

struct reading {
    int fd;
    uint64_t left;
    size_t n;               /* bytes in the window */
    struct scan_line *open; /* a line longer than the window, which has begun */
};

/* 1: there is more to read; 0: that was all; -errno. */
static int fill(struct scan *s, struct reading *r) {
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

/* A piece of a line that does not end in the window, or the file's last without an end. */
static void scan_piece(struct scan *s, struct reading *r, size_t n, bool is_end) {
    size_t text_n = is_end ? without_cr(s->window, n) : n;
    if (!r->open)
        r->open = begin_line(s, s->window, text_n);
    r->open->is_match |= matches(s, s->window, text_n);
    if (is_end) {
        end_line(s);
        r->open = NULL;
    }
}

/* What is in the window; keeps in it what belongs to a line that goes on. */
static void scan_window(struct scan *s, struct reading *r, bool more) {
    char *end = s->window + r->n;
    char *last = memrchr(s->window, '\n', r->n);
    char *from = s->window;
    if (r->open && last) { /* the long line's last piece */
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
    struct reading r = {.fd = fd, .left = size > 0 ? size : unsized_max};
    s->number = 0;
    s->is_short = false;
    for (uint64_t i = 0; i < s->n_lines; i++)
        s->lines[i].number = 0;
    for (bool more = true, is_first = true; more && !s->stop; is_first = false) {
        int f = fill(s, &r);
        if (f < 0)
            return SCAN_FAILED;
        more = f > 0;
        if (is_first && memchr(s->window, '\0', MIN(r.n, (size_t)SCAN_BINARY_HEAD)))
            return SCAN_IS_BINARY;
        scan_window(s, &r, more);
        s->stop |= s->is_late(s);
    }
    for (uint64_t i = 1; i <= s->after; i++) /* those that still waited for lines after them */
        if (s->number + i > s->after)
            tell(s, s->number + i - s->after);
    return s->is_short ? SCAN_FAILED : SCAN_DONE;
}
