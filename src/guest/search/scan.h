/* scan — finds the lines of one file that contain a text or match a regular expression.
 *
 * Owner:  its search; one scan serves all files of the search.
 * Lines:  counted from 1, without their line end (LF or CRLF). The last line may have none.
 * Match:  a line matches as a whole, however long. A line longer than SCAN_WINDOW is matched in pieces that
 *         overlap by SCAN_PATTERN_MAX bytes. A regular expression sees bytes, not characters, and cannot match
 *         NUL.
 * Bounds: reads a file up to the size it had when it was opened, and keeps SCAN_TEXT_MAX bytes of a line.
 * on_match may call scan_near and set `stop`. */
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
    struct str needle; /* the text to find, in lower case with ignore_case; unused with is_regex */
    bool is_regex;
    bool ignore_case;
    regex_t regex;
    uint64_t before, after;
    char *window; /* SCAN_WINDOW + 1 bytes */
    char *folded; /* the window in lower case, for ignore_case */
    struct scan_line
        *lines; /* the last before + after + 1 lines; line N at index N modulo n_lines */
    uint64_t n_lines;
    uint64_t number; /* number of the last complete line of the current file */
    bool is_short;   /* the expression ran out of memory on a line of the current file */
    bool stop;       /* set by on_match, or when is_late returns true */
    void (*on_match)(struct scan *s, const struct scan_line *line);
    bool (*is_late)(struct scan *s);
};

/* Copies the pattern. Fails with INVALID_ARGUMENT or OUT_OF_MEMORY. */
MUST_USE int scan_init(struct scan *s, struct str pattern, struct err *e);

enum scan_result { SCAN_DONE, SCAN_IS_BINARY, SCAN_FAILED };
/* `size` is the size of the file when it was opened; 0 if the file reports no size. Leaves fd
 * open. */
enum scan_result scan_file(struct scan *s, int fd, uint64_t size);
/* Returns a line near the one that on_match got, or NULL when the file has no such line. */
const struct scan_line *scan_near(const struct scan *s, uint64_t number);
