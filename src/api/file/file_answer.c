#include "api/file/file_answer.h"

#include <stdio.h>

#define PATH_MAX_BYTES 16384 /* of a path the guest tells; longer than any it can have */

int answer_broken(struct err *e, const char *key) {
    return err_set(e, ERR_GUEST_PROTOCOL, "the guest answered without a proper %s", key);
}

int answer_no_memory(struct err *e) {
    return err_set(e, ERR_LIMIT_REACHED, "no memory for an answer of the guest");
}

int answer_u64(const struct json *object, const char *key, uint64_t *ret, struct err *e) {
    const struct json *n = json_get(object, key);
    if (n && (n->type != JSON_INT || n->integer < 0))
        return answer_broken(e, key);
    *ret = n ? (uint64_t)n->integer : 0;
    return 0;
}

static int answer_u32(const struct json *object, const char *key, uint32_t max, uint32_t *ret,
                      struct err *e) {
    uint64_t n = 0;
    if (answer_u64(object, key, &n, e) < 0)
        return -(int)e->code;
    if (n > max)
        return answer_broken(e, key);
    *ret = (uint32_t)n;
    return 0;
}

int answer_bool(const struct json *object, const char *key, protobuf_c_boolean *ret,
                struct err *e) {
    const struct json *b = json_get(object, key);
    if (b && b->type != JSON_BOOL)
        return answer_broken(e, key);
    *ret = b && b->boolean;
    return 0;
}

static int copy_text(const struct json *text, const char *key, struct arena *a, char **ret,
                     struct err *e) {
    if (text->type != JSON_STRING || text->has_nul)
        return answer_broken(e, key);
    *ret = text->text.n == 0 ? (char *)protobuf_c_empty_string
                             : arena_copy(a, text->text.p, text->text.n);
    return *ret ? 0 : answer_no_memory(e);
}

int answer_text(const struct json *object, const char *key, struct arena *a, char **ret,
                struct err *e) {
    const struct json *text = json_get(object, key);
    *ret = (char *)protobuf_c_empty_string;
    return text ? copy_text(text, key, a, ret, e) : 0;
}

int answer_texts(const struct json *object, const char *key, struct arena *a, size_t *ret_n,
                 char ***ret, struct err *e) {
    const struct json *list = json_get(object, key);
    *ret_n = 0;
    if (!list)
        return 0;
    if (list->type != JSON_ARRAY)
        return answer_broken(e, key);
    *ret = arena_alloc(a, MAX(list->items.count, (size_t)1) * sizeof **ret);
    if (!*ret)
        return answer_no_memory(e);
    JSON_FOR_EACH(it, list)
    if (copy_text(it, key, a, &(*ret)[(*ret_n)++], e) < 0)
        return -(int)e->code;
    return 0;
}

int answer_path(const struct json *object, const char *key, struct arena *a, char **ret_text,
                ProtobufCBinaryData *ret_raw, struct err *e) {
    char raw_key[32];
    snprintf(raw_key, sizeof raw_key, "%s_b64", key);
    const struct json *raw = json_get(object, raw_key);
    if (answer_text(object, key, a, ret_text, e) < 0)
        return -(int)e->code;
    if (!raw)
        return strlen(*ret_text) > PATH_MAX_BYTES ? answer_broken(e, key) : 0;
    if (raw->type != JSON_STRING || raw->text.n > PATH_MAX_BYTES || (*ret_text)[0] != '\0')
        return answer_broken(e, raw_key);
    ret_raw->data = arena_alloc(a, raw->text.n * 3 / 4 + 3);
    if (!ret_raw->data)
        return answer_no_memory(e);
    ssize_t n = base64_decode(raw->text.p, raw->text.n, ret_raw->data);
    if (n < 0)
        return answer_broken(e, raw_key);
    ret_raw->len = (size_t)n;
    return 0;
}

int answer_word(const struct json *object, const char *key, const char *const *words,
                size_t n_words, int *ret, struct err *e) {
    const struct json *text = json_get(object, key);
    if (!text || text->type != JSON_STRING)
        return answer_broken(e, key);
    for (size_t i = 0; i < n_words; i++) {
        if (str_is(text->text, str_of(words[i]))) {
            *ret = (int)i;
            return 0;
        }
    }
    return answer_broken(e, key);
}

const struct json *answer_list(const struct json *object, const char *key, struct err *e) {
    const struct json *list = json_get(object, key);
    if (list && list->type == JSON_ARRAY)
        return list;
    answer_broken(e, key);
    return NULL;
}

/* A time in nanoseconds has room for the years 1678 to 2262; beyond them it stays at the end. */
static int read_time(const struct json *node, int64_t *ret_unix_ns, struct err *e) {
    const struct json *s = json_get(node, "modified_s");
    uint32_t ns = 0;
    if (!s || s->type != JSON_INT)
        return answer_broken(e, "modified_s");
    if (answer_u32(node, "modified_ns", 999999999, &ns, e) < 0)
        return -(int)e->code;
    int64_t unix_ns;
    if (__builtin_mul_overflow(s->integer, 1000000000, &unix_ns) ||
        __builtin_add_overflow(unix_ns, (int64_t)ns, &unix_ns))
        unix_ns = s->integer < 0 ? INT64_MIN : INT64_MAX;
    *ret_unix_ns = unix_ns;
    return 0;
}

static int read_info(const struct json *node, struct arena *a, Berm__V1__FileInfo **ret,
                     struct err *e) {
    static const char *const types[] = {"unknown", "regular", "directory", "symlink",
                                        "fifo",    "socket",  "device"};
    int type = 0;
    Berm__V1__FileInfo *info = arena_alloc(a, sizeof *info);
    if (!info)
        return answer_no_memory(e);
    berm__v1__file_info__init(info);
    if (answer_path(node, "path", a, &info->path, &info->raw_path, e) < 0 ||
        answer_word(node, "type", types, COUNT_OF(types), &type, e) < 0 ||
        answer_u64(node, "size_bytes", &info->size_bytes, e) < 0 ||
        answer_u32(node, "mode", 07777, &info->mode, e) < 0 ||
        answer_u32(node, "uid", UINT32_MAX, &info->uid, e) < 0 ||
        answer_u32(node, "gid", UINT32_MAX, &info->gid, e) < 0 ||
        answer_text(node, "user", a, &info->user, e) < 0 ||
        answer_text(node, "group", a, &info->group, e) < 0 ||
        read_time(node, &info->modified_unix_ns, e) < 0 ||
        answer_path(node, "target", a, &info->symlink_target, &info->raw_symlink_target, e) < 0)
        return -(int)e->code;
    if (info->path[0] == '\0' && info->raw_path.len == 0)
        return answer_broken(e, "path");
    info->type = (Berm__V1__FileType)type;
    if (info->type != BERM__V1__FILE_TYPE__FILE_TYPE_REGULAR)
        info->size_bytes = 0;
    *ret = info;
    return 0;
}

int answer_info(const struct json *object, const char *key, struct arena *a,
                Berm__V1__FileInfo **ret, struct err *e) {
    const struct json *node = json_get(object, key);
    return node ? read_info(node, a, ret, e) : answer_broken(e, key);
}

int answer_infos(const struct json *object, const char *key, struct arena *a, size_t *ret_n,
                 Berm__V1__FileInfo ***ret, struct err *e) {
    const struct json *list = answer_list(object, key, e);
    if (!list)
        return -(int)e->code;
    *ret_n = 0;
    *ret = arena_alloc(a, MAX(list->items.count, (size_t)1) * sizeof **ret);
    if (!*ret)
        return answer_no_memory(e);
    JSON_FOR_EACH(it, list)
    if (read_info(it, a, &(*ret)[(*ret_n)++], e) < 0)
        return -(int)e->code;
    return 0;
}

int answer_truncated(const struct json *object, Berm__V1__TruncatedReason *ret, struct err *e) {
    static const char *const reasons[] = {"", "matches", "size", "work"};
    int reason = 0;
    if (answer_word(object, "truncated", reasons, COUNT_OF(reasons), &reason, e) < 0)
        return -(int)e->code;
    *ret = (Berm__V1__TruncatedReason)reason;
    return 0;
}
