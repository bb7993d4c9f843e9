/* limits — the numeric limits of the API, by name. limits.def lists them. */
#pragma once

#include <stdint.h>

enum limit_id {
#define LIMIT(id, name, value, min, max, unit, how, what) LIMIT_##id,
#include "base/limits.def"
#undef LIMIT
    LIMIT_COUNT
};

enum limit_unit { LIMIT_UNIT_BYTES, LIMIT_UNIT_MS, LIMIT_UNIT_COUNT };
enum limit_how { LIMIT_HOW_FIXED, LIMIT_HOW_KNOB, LIMIT_HOW_LATER };

struct limit {
    const char *name;
    int64_t value; /* the default; -1 = none */
    int64_t min;
    int64_t max;
    enum limit_unit unit;
    enum limit_how how;
    const char *what;
};

extern const struct limit limit_table[LIMIT_COUNT];

/* The values in effect: the defaults, overridden by the configuration. */
struct limits {
    int64_t of[LIMIT_COUNT];
};

void limits_init(struct limits *l);
const char *limit_unit_name(enum limit_unit unit);
