#include "base/limits.h"

#include "base/macros.h"

const struct limit limit_table[LIMIT_COUNT] = {
#define LIMIT(id, name, value, min, max, unit, how, what) \
    {name, value, min, max, LIMIT_UNIT_##unit, LIMIT_HOW_##how, what},
#include "base/limits.def"
#undef LIMIT
};

void limits_init(struct limits *l) {
    for (size_t i = 0; i < LIMIT_COUNT; i++)
        l->of[i] = limit_table[i].value;
}

const char *limit_unit_name(enum limit_unit unit) {
    static const char *const names[] = {"bytes", "ms", "count"};
    return names[unit];
}
