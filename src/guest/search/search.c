#include "guest/search/search.h"

#include "base/clock.h"

void search_put(struct json_out *o, const struct buf *items, enum search_end end) {
    static const char *const ends[] = {"", "matches", "size", "work"};
    json_key(o, "matches");
    json_open(o, '[');
    if (buf_len(items) > 0)
        json_raw(o, (struct str){(const char *)buf_data(items), buf_len(items)});
    json_close(o, ']');
    json_put_str(o, "truncated", str_of(ends[end]));
}

void search_bound(struct walk *w, enum limit_id time) {
    w->entries_left = (uint64_t)limit_table[LIMIT_SEARCH_ENTRIES].value;
    w->deadline_us = clock_us() + (uint64_t)limit_table[time].value * 1000;
}
