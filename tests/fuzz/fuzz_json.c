/* json — a parsed text can be written and parsed again, and is then the same text. */
#include "fuzz.h"

#include "base/json.h"

static const struct json_bounds bounds = {.depth = 32, .nodes = 65536, .members = 256};

static void write_node(struct json_out *o, const struct json *node) {
    switch (node->type) {
    case JSON_NULL:
        json_null(o);
        return;
    case JSON_BOOL:
        json_bool(o, node->boolean);
        return;
    case JSON_INT:
        json_i64(o, node->integer);
        return;
    case JSON_DOUBLE: {
        char text[40];
        snprintf(text, sizeof text, "%.17g", node->number);
        json_raw(o, str_of(text));
        return;
    }
    case JSON_STRING:
        json_str(o, node->text);
        return;
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    bool is_object = node->type == JSON_OBJECT;
    json_open(o, is_object ? '{' : '[');
    JSON_FOR_EACH(it, node) {
        if (is_object) { /* keys are C strings for the writer, so those with NUL are skipped */
            char key[256];
            if (it->key.n >= sizeof key || memchr(it->key.p, '\0', it->key.n))
                continue;
            memcpy(key, it->key.p, it->key.n);
            key[it->key.n] = '\0';
            json_key(o, key);
        }
        write_node(o, it);
    }
    json_close(o, is_object ? '}' : ']');
}

static bool again(struct arena *a, const void *text, size_t n, struct buf *out) {
    struct json *root;
    struct json_out o;
    arena_reset(a);
    if (json_parse(a, text, n, &bounds, &root) < 0)
        return false;
    json_begin(&o, out);
    write_node(&o, root);
    return json_end(&o) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct arena a;
    struct buf first, second;
    if (arena_init(&a, 4096, (size_t)64 << 20) < 0)
        return 0;
    buf_init(&first, (size_t)32 << 20);
    buf_init(&second, (size_t)32 << 20);
    if (again(&a, data, n, &first)) {
        if (!again(&a, buf_data(&first), buf_len(&first), &second) ||
            buf_len(&first) != buf_len(&second) ||
            memcmp(buf_data(&first), buf_data(&second), buf_len(&first)) != 0)
            abort();
    }
    buf_done(&first);
    buf_done(&second);
    arena_done(&a);
    return 0;
}
