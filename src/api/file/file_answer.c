#include "api/file/file_answer.h"

#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME_NUMBER(GUEST_FILE_UNKNOWN, BERM__V1__FILE_TYPE__FILE_TYPE_UNSPECIFIED);
SAME_NUMBER(GUEST_FILE_REGULAR, BERM__V1__FILE_TYPE__FILE_TYPE_REGULAR);
SAME_NUMBER(GUEST_FILE_DEVICE, BERM__V1__FILE_TYPE__FILE_TYPE_DEVICE);

int answer_no_memory(struct err *e) {
    return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
}

int answer_text(struct str text, struct arena *a, char **ret, struct err *e) {
    *ret = text.n == 0 ? (char *)protobuf_c_empty_string : arena_copy(a, text.p, text.n);
    return *ret ? 0 : answer_no_memory(e);
}

int answer_texts(const struct str *texts, size_t n, struct arena *a, size_t *ret_n, char ***ret,
                 struct err *e) {
    *ret_n = 0;
    if (n == 0)
        return 0;
    *ret = arena_alloc(a, n * sizeof **ret);
    if (!*ret)
        return answer_no_memory(e);
    for (size_t i = 0; i < n; i++)
        if (answer_text(texts[i], a, &(*ret)[(*ret_n)++], e) < 0)
            return -(int)e->code;
    return 0;
}

int answer_path(const struct guest_path *path, struct arena *a, char **ret_text,
                ProtobufCBinaryData *ret_raw, struct err *e) {
    if (!path->is_raw)
        return answer_text(path->bytes, a, ret_text, e);
    ret_raw->data = (uint8_t *)arena_copy(a, path->bytes.p, path->bytes.n);
    ret_raw->len = path->bytes.n;
    return ret_raw->data ? 0 : answer_no_memory(e);
}

int answer_info(const struct guest_file_info *info, struct arena *a, Berm__V1__FileInfo **ret,
                struct err *e) {
    Berm__V1__FileInfo *m = arena_alloc(a, sizeof *m);
    if (!m)
        return answer_no_memory(e);
    berm__v1__file_info__init(m);
    m->type = (Berm__V1__FileType)info->type;
    m->size_bytes = info->size_bytes;
    m->mode = info->mode;
    m->uid = info->uid;
    m->gid = info->gid;
    m->modified_unix_ns = info->modified_unix_ns;
    if (answer_path(&info->path, a, &m->path, &m->raw_path, e) < 0 ||
        answer_text(info->user, a, &m->user, e) < 0 ||
        answer_text(info->group, a, &m->group, e) < 0 ||
        answer_path(&info->target, a, &m->symlink_target, &m->raw_symlink_target, e) < 0)
        return -(int)e->code;
    *ret = m;
    return 0;
}

int answer_infos(const struct guest_file_info *infos, size_t n, struct arena *a, size_t *ret_n,
                 Berm__V1__FileInfo ***ret, struct err *e) {
    *ret_n = 0;
    *ret = arena_alloc(a, MAX(n, (size_t)1) * sizeof **ret);
    if (!*ret)
        return answer_no_memory(e);
    for (size_t i = 0; i < n; i++)
        if (answer_info(&infos[i], a, &(*ret)[(*ret_n)++], e) < 0)
            return -(int)e->code;
    return 0;
}
