#include "base/rpc.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

static const struct json_bounds message_bounds = {.depth = 32, .nodes = 131072, .members = 256};

void rpc_in_init(struct rpc_in *in, size_t max_bytes) {
    *in = (struct rpc_in){.max_bytes = max_bytes};
    buf_init(&in->bytes, max_bytes + RPC_HEADER_MAX);
}

static void rpc_drop_fds(struct rpc_in *in, size_t from, size_t n) {
    for (size_t i = from; i < from + n; i++)
        close(in->fds[i].fd);
    memmove(in->fds + from, in->fds + from + n, (in->n_fds - from - n) * sizeof in->fds[0]);
    in->n_fds -= n;
}

void rpc_in_done(struct rpc_in *in) {
    rpc_drop_fds(in, 0, in->n_fds);
    buf_done(&in->bytes);
}

static void rpc_consume(struct rpc_in *in, size_t n) {
    buf_consume(&in->bytes, n);
    in->offset += n;
    in->scanned = 0;
}

static void rpc_drop_lent(struct rpc_in *in) {
    size_t n = in->taken;
    in->taken = 0;
    if (n > 0)
        rpc_consume(in, n);
}

int rpc_in_reserve(struct rpc_in *in, size_t want, uint8_t **ret_at) {
    rpc_drop_lent(in);
    return buf_reserve(&in->bytes, MIN(want, buf_available(&in->bytes)), ret_at);
}

void rpc_in_commit(struct rpc_in *in, size_t n) {
    buf_commit(&in->bytes, n);
}

int rpc_in_take_fds(struct rpc_in *in, const int *fds, size_t n) {
    if (n > RPC_FDS_MAX - in->n_fds) {
        for (size_t i = 0; i < n; i++)
            close(fds[i]);
        return -EMSGSIZE;
    }
    for (size_t i = 0; i < n; i++) {
        in->fds[in->n_fds].fd = fds[i];
        in->fds[in->n_fds++].end = in->offset + buf_len(&in->bytes);
    }
    return 0;
}

static int rpc_lend(struct rpc_in *in, size_t skip, size_t n, size_t frame,
                    struct str *ret_message) {
    *ret_message = (struct str){(const char *)buf_data(&in->bytes) + skip, n};
    in->taken = skip + n + frame;
    in->message_end = in->offset + in->taken;
    return 1;
}

static int rpc_next_line(struct rpc_in *in, struct str *ret_message) {
    const char *p = (const char *)buf_data(&in->bytes);
    size_t n = buf_len(&in->bytes);
    const char *end = memchr(p + in->scanned, '\n', n - in->scanned);
    size_t len = end ? (size_t)(end - p) : n;
    if (len > in->max_bytes)
        return -EMSGSIZE;
    if (!end) {
        in->scanned = n;
        return 0;
    }
    in->framing = RPC_LINES;
    return rpc_lend(in, 0, len, 1, ret_message);
}

/* Parses one header line. Only Content-Length has a meaning. */
static int rpc_read_header(struct str line, size_t max_bytes, uint64_t *length, bool *seen) {
    struct str name;
    if (line.n > 0 && line.p[line.n - 1] == '\r')
        line.n--;
    if (!memchr(line.p, ':', line.n) || !str_split(&line, ':', &name))
        return -EBADMSG;
    if (!str_is_nocase(name, STR("Content-Length")))
        return 0;
    int r = str_to_u64(str_trim(line), 1, max_bytes, length);
    if (r == -ERANGE)
        return -EMSGSIZE;
    if (r < 0 || *seen)
        return -EBADMSG;
    *seen = true;
    return 0;
}

static int rpc_next_length(struct rpc_in *in, struct str *ret_message) {
    struct str rest = {(const char *)buf_data(&in->bytes), buf_len(&in->bytes)};
    const char *start = rest.p;
    uint64_t length = 0;
    bool seen = false;
    for (;;) {
        const char *end = memchr(rest.p, '\n', rest.n);
        size_t used = (size_t)((end ? end : rest.p + rest.n) - start);
        if (used > RPC_HEADER_MAX)
            return -EBADMSG;
        if (!end)
            return 0;
        struct str line = {rest.p, (size_t)(end - rest.p)};
        rest = (struct str){end + 1, rest.n - line.n - 1};
        if (line.n == 0 || (line.n == 1 && line.p[0] == '\r'))
            break;
        int r = rpc_read_header(line, in->max_bytes, &length, &seen);
        if (r < 0)
            return r;
    }
    if (!seen)
        return -EBADMSG;
    if (rest.n < length)
        return 0;
    in->framing = RPC_LENGTH;
    return rpc_lend(in, (size_t)(rest.p - start), (size_t)length, 0, ret_message);
}

int rpc_in_next(struct rpc_in *in, struct str *ret_message) {
    rpc_drop_lent(in);
    size_t blank = 0, n = buf_len(&in->bytes);
    const uint8_t *p = buf_data(&in->bytes);
    while (blank < n && in->scanned == 0 && p && strchr(" \t\r\n", p[blank]) && p[blank])
        blank++;
    if (blank > 0)
        rpc_consume(in, blank);
    if (blank == n)
        return 0;
    if (isalpha(buf_data(&in->bytes)[0]))
        return rpc_next_length(in, ret_message);
    return rpc_next_line(in, ret_message);
}

int rpc_in_claim(struct rpc_in *in, size_t n, int *fds) {
    size_t own = 0; /* descriptors that arrived with this message or an earlier one */
    while (own < in->n_fds && in->fds[own].end <= in->message_end)
        own++;
    if (n > in->n_fds || n < own) {
        rpc_drop_fds(in, 0, own);
        return -EBADMSG;
    }
    for (size_t i = 0; i < n; i++)
        fds[i] = in->fds[i].fd;
    memmove(in->fds, in->fds + n, (in->n_fds - n) * sizeof in->fds[0]);
    in->n_fds -= n;
    return 0;
}

void rpc_in_resync(struct rpc_in *in) {
    in->taken = 0;
    size_t n = buf_len(&in->bytes);
    const uint8_t *p = buf_data(&in->bytes);
    const uint8_t *end = n > 0 ? memchr(p, '\n', n) : NULL;
    rpc_consume(in, end ? (size_t)(end - p) + 1 : n);
    rpc_drop_fds(in, 0, in->n_fds);
}

static bool rpc_read_id(const struct json *id, int64_t *ret_id) {
    if (!id || id->type != JSON_INT || id->integer < 1 || id->integer > RPC_ID_MAX)
        return false;
    *ret_id = id->integer;
    return true;
}

static int rpc_read_call(const struct json *root, const struct json *method, const struct json *id,
                         struct rpc_message *ret) {
    ret->params = json_get(root, "params");
    if (method->type != JSON_STRING || method->has_nul || method->text.n == 0 ||
        method->text.n > 64 || (id && ret->id == 0) || json_get(root, "result") ||
        json_get(root, "error") || (ret->params && ret->params->type != JSON_OBJECT))
        return -EINVAL;
    ret->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
    ret->method = method->text;
    return 0;
}

int rpc_parse(struct arena *a, struct str text, struct rpc_message *ret) {
    *ret = (struct rpc_message){0};
    struct json *root;
    int r = json_parse(a, text.p, text.n, &message_bounds, &root);
    if (r < 0)
        return r;
    const struct json *version = json_get(root, "jsonrpc");
    const struct json *id = json_get(root, "id");
    const struct json *method = json_get(root, "method");
    rpc_read_id(id, &ret->id);
    if (!version || version->type != JSON_STRING || !str_is(version->text, STR("2.0")))
        return -EINVAL;
    if (method)
        return rpc_read_call(root, method, id, ret);
    ret->result = json_get(root, "result");
    ret->error = json_get(root, "error");
    if (!ret->result == !ret->error || !id)
        return -EINVAL;
    if (ret->id == 0 && (ret->result || id->type != JSON_NULL))
        return -EINVAL;
    ret->kind = ret->result ? RPC_RESULT : RPC_ERROR;
    return (ret->result ? ret->result : ret->error)->type == JSON_OBJECT ? 0 : -EINVAL;
}

static void rpc_open_message(struct json_out *o, struct buf *to) {
    json_begin(o, to);
    json_open(o, '{');
    json_put_str(o, "jsonrpc", STR("2.0"));
}

static void rpc_open_call(struct json_out *o, const char *method) {
    json_put_str(o, "method", str_of(method));
    json_key(o, "params");
    json_open(o, '{');
}

void rpc_open_request(struct json_out *o, struct buf *to, int64_t id, const char *method) {
    rpc_open_message(o, to);
    json_put_i64(o, "id", id);
    rpc_open_call(o, method);
}

void rpc_open_notification(struct json_out *o, struct buf *to, const char *method) {
    rpc_open_message(o, to);
    rpc_open_call(o, method);
}

void rpc_open_result(struct json_out *o, struct buf *to, int64_t id) {
    rpc_open_message(o, to);
    json_put_i64(o, "id", id);
    json_key(o, "result");
    json_open(o, '{');
}

int rpc_close(struct json_out *o) {
    json_close(o, '}');
    json_close(o, '}');
    return json_end(o);
}

void rpc_put_error(struct json_out *o, const struct err *e, int64_t next_offset) {
    const struct err_face *face = err_face(e->code);
    json_open(o, '{');
    json_put_i64(o, "code", face->number);
    /* The text may quote file names of any bytes, but JSON must be UTF-8. */
    struct str text = str_of(e->text);
    json_put_str(o, "message", str_is_utf8(text.p, text.n) ? text : str_of(face->meaning));
    json_key(o, "data");
    json_open(o, '{');
    json_put_str(o, "code", str_of(face->name));
    if (e->sys > 0)
        json_put_i64(o, "errno", e->sys);
    struct str field = str_of(e->field);
    if (field.n > 0 && str_is_utf8(field.p, field.n))
        json_put_str(o, "field", field);
    if (next_offset >= 0)
        json_put_i64(o, "next_offset", next_offset);
    json_close(o, '}');
    json_close(o, '}');
}

int rpc_write_error(struct buf *to, int64_t id, const struct err *e, int64_t next_offset) {
    struct json_out o;
    rpc_open_message(&o, to);
    json_key(&o, "id");
    if (id > 0)
        json_i64(&o, id);
    else
        json_null(&o);
    json_key(&o, "error");
    rpc_put_error(&o, e, next_offset);
    json_close(&o, '}');
    return json_end(&o);
}

int rpc_frame(struct buf *to, enum rpc_framing framing, struct str message) {
    char header[48];
    int n = framing == RPC_LENGTH
                ? snprintf(header, sizeof header, "Content-Length: %zu\r\n\r\n", message.n)
                : 0;
    size_t tail = framing == RPC_LINES;
    uint8_t *at;
    int r = buf_reserve(to, (size_t)n + message.n + tail, &at);
    if (r < 0)
        return r;
    memcpy(at, header, (size_t)n);
    memcpy(at + n, message.p, message.n);
    if (tail)
        at[(size_t)n + message.n] = '\n';
    buf_commit(to, (size_t)n + message.n + tail);
    return 0;
}
