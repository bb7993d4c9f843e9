/* log — one key=value line per event, written in batches.
 *
 * The logger buffers lines. The loop calls log_flush before it sleeps; a line of level WARN or
 * above is written immediately. A log reader that stalls does not stall the daemon: when the buffer
 * is full, the logger drops further lines and logs their count later. Values are escaped, so a
 * client cannot forge a log line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Borrows the fd. Before this call, lines of level INFO and above go to stderr. */
void log_setup(int fd, enum log_level min_level);
bool log_is_on(enum log_level level);
void log_flush(void);

/* log_begin … log_end build one line. log_begin returns false when the level is disabled or the
 * buffer is full; do not call the other functions then. The logger truncates each value to 512
 * written bytes. */
struct log_line {
    enum log_level level;
    char *at;
    char *end;
};
MUST_USE bool log_begin(struct log_line *l, enum log_level level, const char *msg);
void log_str(struct log_line *l, const char *key, struct str value);
void log_u64(struct log_line *l, const char *key, uint64_t value);
void log_end(struct log_line *l);

/* Logs a line with msg and text="…". */
void log_text(enum log_level level, const char *msg, const char *fmt, ...) PRINTF(3, 4);
