#include "core/guest/guest_field.h"

#include <stdio.h>

#define PATH_MAX_BYTES 16384 /* limit for a path that the guest sends; longer than any real path */
#define EXEC_ID_MAX 48

int guest_field_bad(struct err *e, const char *key) {
    return err_set(e, ERR_GUEST_PROTOCOL, "the guest sent no valid %s", key);
}

int guest_field_no_memory(struct err *e) {
    return err_set(e, ERR_GUEST_LOST, "no memory for a message of the guest");
}

int guest_field_u64(const struct json *object, const char *key, uint64_t *ret, struct err *e) {
    const struct json *n = json_get(object, key);
    if (n && (n->type != JSON_INT || n->integer < 0))
        return guest_field_bad(e, key);
    *ret = n ? (uint64_t)n->integer : 0;
    return 0;
}

int guest_field_u32(const struct json *object, const char *key, uint32_t max, uint32_t *ret,
                    struct err *e) {
    uint64_t n = 0;
    if (guest_field_u64(object, key, &n, e) < 0)
        return -(int)e->code;
    if (n > max)
        return guest_field_bad(e, key);
    *ret = (uint32_t)n;
    return 0;
}

int guest_field_bool(const struct json *object, const char *key, bool *ret, struct err *e) {
    const struct json *b = json_get(object, key);
    if (b && b->type != JSON_BOOL)
        return guest_field_bad(e, key);
    *ret = b && b->boolean;
    return 0;
}

static int field_take_text(const struct json *text, const char *key, struct str *ret,
                           struct err *e) {
    if (text->type != JSON_STRING || text->has_nul)
        return guest_field_bad(e, key);
    *ret = text->text;
    return 0;
}

int guest_field_text(const struct json *object, const char *key, struct str *ret, struct err *e) {
    const struct json *text = json_get(object, key);
    if (text)
        return field_take_text(text, key, ret, e);
    *ret = STR("");
    return 0;
}

int guest_field_id(const struct json *object, const char *key, uint64_t *ret, struct err *e) {
    uint64_t id = 0;
    if (guest_field_u64(object, key, &id, e) < 0 || id == 0)
        return guest_field_bad(e, key);
    *ret = id;
    return 0;
}

int guest_field_exec_id(const struct json *object, struct str *ret, struct err *e) {
    const struct json *id = json_get(object, "exec_id");
    if (!id || id->type != JSON_STRING || id->text.n < 1 || id->text.n > EXEC_ID_MAX)
        return guest_field_bad(e, "exec_id");
    for (size_t i = 0; i < id->text.n; i++) {
        char c = id->text.p[i];
        bool is_edge = i == 0 || i + 1 == id->text.n;
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && !is_edge)))
            return guest_field_bad(e, "exec_id");
    }
    *ret = id->text;
    return 0;
}

const struct json *guest_field_list(const struct json *object, const char *key, size_t max_items,
                                    struct err *e) {
    const struct json *list = json_get(object, key);
    if (list && list->type == JSON_ARRAY && list->items.count <= max_items)
        return list;
    guest_field_bad(e, key);
    return NULL;
}

int guest_field_texts(const struct json *object, const char *key, size_t max_items, struct arena *a,
                      size_t *ret_n, const struct str **ret, struct err *e) {
    *ret_n = 0;
    if (!json_get(object, key))
        return 0;
    const struct json *list = guest_field_list(object, key, max_items, e);
    if (!list)
        return -(int)e->code;
    struct str *texts = arena_alloc(a, MAX(list->items.count, (size_t)1) * sizeof *texts);
    if (!texts)
        return guest_field_no_memory(e);
    size_t n = 0;
    JSON_FOR_EACH(it, list)
    if (field_take_text(it, key, &texts[n++], e) < 0)
        return -(int)e->code;
    *ret = texts;
    *ret_n = n;
    return 0;
}

int guest_field_bytes(const struct json *object, const char *key, size_t max_bytes, struct arena *a,
                      struct str *ret, struct err *e) {
    const struct json *text = json_get(object, key);
    if (!text || text->type != JSON_STRING || text->text.n > max_bytes / 3 * 4 + 4)
        return guest_field_bad(e, key);
    uint8_t *bytes = arena_alloc(a, text->text.n * 3 / 4 + 3);
    if (!bytes)
        return guest_field_no_memory(e);
    ssize_t n = base64_decode(text->text.p, text->text.n, bytes);
    if (n < 0 || (size_t)n > max_bytes)
        return guest_field_bad(e, key);
    *ret = (struct str){(const char *)bytes, (size_t)n};
    return 0;
}

int guest_field_path(const struct json *object, const char *key, struct arena *a,
                     struct guest_path *ret, struct err *e) {
    char raw_key[32];
    struct guest_path path = {0};
    if (guest_field_text(object, key, &path.bytes, e) < 0)
        return -(int)e->code;
    if (path.bytes.n > PATH_MAX_BYTES)
        return guest_field_bad(e, key);
    snprintf(raw_key, sizeof raw_key, "%s_b64", key);
    if (json_get(object, raw_key)) {
        if (path.bytes.n > 0)
            return guest_field_bad(e, raw_key);
        path.is_raw = true;
        if (guest_field_bytes(object, raw_key, PATH_MAX_BYTES, a, &path.bytes, e) < 0)
            return -(int)e->code;
    }
    *ret = path;
    return 0;
}

int guest_field_word(const struct json *object, const char *key, const char *const *words,
                     size_t n_words, int *ret, struct err *e) {
    const struct json *text = json_get(object, key);
    for (size_t i = 0; text && text->type == JSON_STRING && i < n_words; i++) {
        if (str_is(text->text, str_of(words[i]))) {
            *ret = (int)i;
            return 0;
        }
    }
    return guest_field_bad(e, key);
}

int guest_field_error(const struct json *error, struct err *ret, struct err *e) {
    const struct json *code = json_get(error, "code");
    const struct json *message = json_get(error, "message");
    if (!code || code->type != JSON_INT || code->integer < 1 || code->integer > 999 ||
        !err_face((enum err_code)code->integer) || !message || message->type != JSON_STRING)
        return guest_field_bad(e, "error");
    err_set(ret, (enum err_code)code->integer, "%.*s",
            (int)MIN(message->text.n, sizeof ret->text - 1), message->text.p);
    return 0;
}

static int field_read_time(const struct json *node, int64_t *ret_unix_ns, struct err *e) {
    const struct json *s = json_get(node, "modified_s");
    uint32_t ns = 0;
    if (!s || s->type != JSON_INT)
        return guest_field_bad(e, "modified_s");
    if (guest_field_u32(node, "modified_ns", 999999999, &ns, e) < 0)
        return -(int)e->code;
    int64_t unix_ns;
    if (__builtin_mul_overflow(s->integer, 1000000000, &unix_ns) ||
        __builtin_add_overflow(unix_ns, (int64_t)ns, &unix_ns))
        unix_ns = s->integer < 0 ? INT64_MIN : INT64_MAX;
    *ret_unix_ns = unix_ns;
    return 0;
}

int guest_field_info(const struct json *node, struct arena *a, struct guest_file_info *ret,
                     struct err *e) {
    static const char *const types[] = {"unknown", "regular", "directory", "symlink",
                                        "fifo",    "socket",  "device"};
    int type = 0;
    struct guest_file_info info = {0};
    if (guest_field_path(node, "path", a, &info.path, e) < 0 ||
        guest_field_word(node, "type", types, COUNT_OF(types), &type, e) < 0 ||
        guest_field_u64(node, "size_bytes", &info.size_bytes, e) < 0 ||
        guest_field_u32(node, "mode", 07777, &info.mode, e) < 0 ||
        guest_field_u32(node, "uid", UINT32_MAX, &info.uid, e) < 0 ||
        guest_field_u32(node, "gid", UINT32_MAX, &info.gid, e) < 0 ||
        guest_field_text(node, "user", &info.user, e) < 0 ||
        guest_field_text(node, "group", &info.group, e) < 0 ||
        field_read_time(node, &info.modified_unix_ns, e) < 0 ||
        guest_field_path(node, "target", a, &info.target, e) < 0)
        return -(int)e->code;
    if (info.path.bytes.n == 0)
        return guest_field_bad(e, "path");
    info.type = (enum guest_file_type)type;
    if (info.type != GUEST_FILE_REGULAR)
        info.size_bytes = 0;
    *ret = info;
    return 0;
}

void guest_field_put_path(struct json_out *o, const char *key, const struct guest_path *path) {
    char raw_key[32];
    if (!path->is_raw) {
        json_put_str(o, key, path->bytes);
        return;
    }
    snprintf(raw_key, sizeof raw_key, "%s_b64", key);
    json_key(o, raw_key);
    json_base64(o, path->bytes.p, path->bytes.n);
}

void guest_field_put_env(struct json_out *o, size_t n, Berm__V1__KeyValue *const *env) {
    json_key(o, "env");
    json_open(o, '[');
    for (size_t i = 0; i < n; i++) {
        json_open(o, '{');
        json_put_str(o, "key", str_of(env[i]->key));
        json_put_str(o, "value", str_of(env[i]->value));
        json_close(o, '}');
    }
    json_close(o, ']');
}
