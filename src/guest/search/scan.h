/* scan — the lines of one file that contain a text or match a regular expression.
 *
 * Lines:  end with "\n", which is not part of them, nor a "\r" before it; the last may lack it. Counted from 1.
 * Match:  over the whole line, however long; one longer than SCAN_WINDOW is looked at in pieces that overlap
 *         by SCAN_PATTERN_MAX. A regular expression sees bytes, not characters; it cannot match a NUL.
 * Bounds: a file is read up to the size it had when opened; of each line SCAN_TEXT_MAX bytes are kept. */
#pragma once

#include <regex.h>

#include "base/err.h"
#include "base/str.h"

#define SCAN_WINDOW ((size_t)1 << 20)
#define SCAN_PATTERN_MAX 4096
#define SCAN_TEXT_MAX 4096
#define SCAN_CONTEXT_MAX 20
#define SCAN_BINARY_HEAD 8192

struct scan_line {
    uint64_t number;
    size_t n;
    bool is_cut;
    bool is_match;
    char text[SCAN_TEXT_MAX];
};

struct scan {
    struct str needle; /* folded when ignore_case; unused for a regular expression */
    bool is_regex;
    bool ignore_case;
    regex_t regex;
    uint64_t before, after;
    char *window; /* SCAN_WINDOW + 1 bytes */
    char *folded; /* as many, for ignore_case */
    struct scan_line
        *lines; /* the last before + after + 1 of them, line N at N modulo their count */
    uint64_t n_lines;
    uint64_t number; /* of the last line that ended, in the file at hand */
    bool is_short;   /* the expression wanted more memory than there is for some line of it */
    bool stop;       /* set by on_match or by who watches the clock: enough */
    void (*on_match)(struct scan *s, const struct scan_line *line);
    bool (*is_late)(struct scan *s);
};

/* INVALID_ARGUMENT, LIMIT_REACHED. The pattern is copied. */
MUST_USE int scan_init(struct scan *s, struct str pattern, struct err *e);

enum scan_result { SCAN_DONE, SCAN_IS_BINARY, SCAN_FAILED };
/* `size`: of the file when it was opened; 0: it reports none. Leaves fd open. */
enum scan_result scan_file(struct scan *s, int fd, uint64_t size);
/* A line near one that was told to on_match, or NULL when the file has none there. */
const struct scan_line *scan_near(const struct scan *s, uint64_t number);
