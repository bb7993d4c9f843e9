/* log — one key=value line per event, written in batches.
 *
 * Lines gather in memory and go out with log_flush, which the loop calls before it sleeps; a line of
 * level WARN or above goes out at once. A reader that stalls never stalls us: when the buffer is full,
 * further lines are counted and the count is logged once there is room again.
 * Values are escaped, so what a client sends cannot forge a line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* The fd is borrowed. Before this call, lines go to stderr from INFO up. */
void log_setup(int fd, enum log_level min_level);
bool log_is_on(enum log_level level);
void log_flush(void);

/* log_begin … log_end build one line; log_begin answers false when the level is off, and then nothing
 * else may be called. Each value is cut after 512 bytes as written. */
struct log_line {
    enum log_level level;
    char *at;
    char *end;
};
MUST_USE bool log_begin(struct log_line *l, enum log_level level, const char *msg);
void log_str(struct log_line *l, const char *key, struct str value);
void log_u64(struct log_line *l, const char *key, uint64_t value);
void log_end(struct log_line *l);

/* A line with msg and text="…". */
void log_text(enum log_level level, const char *msg, const char *fmt, ...) PRINTF(3, 4);
