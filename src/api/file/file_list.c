/* file_list — ListFiles.
 *
 * A token is where the page ended, as the guest says it, behind a check over the caller, the cursor and
 * every other field of the request: of use for the same list alone (RPC-27). */
#include <stdio.h>

#include "api/digest.h"
#include "api/file/file_op.h"
#include "api/methods.h"

#define ENTRIES_DEFAULT 1000
#define ENTRIES_MAX 10000
#define CHECK_BYTES 8
#define UNREADABLE_MAX 100

/* What the guest calls a token: a path below the directory, in base64. */
struct list_cursor {
    uint8_t check[CHECK_BYTES];
    uint8_t path[4096];
};

static void check_of(const struct file_op *op, const uint8_t *path, size_t n,
                     uint8_t ret[CHECK_BYTES]) {
    static const char *const without[] = {"page_token"};
    struct caller who;
    uint8_t digest[DIGEST_BYTES];
    char salt[sizeof(struct list_cursor) + 256];
    context_caller(op->call, &who);
    int at = snprintf(salt, sizeof salt - n, "%s %s ", context_of(op->call)->facts.instance_id,
                      who.identity);
    memcpy(salt + at, path, n);
    digest_message((struct str){salt, (size_t)at + n}, op->call->method->path, op->m, without,
                   COUNT_OF(without), digest);
    memcpy(ret, digest, CHECK_BYTES);
}

/* Decodes at most sizeof cursor->path bytes behind the check; -1 when it is none. */
static ssize_t instance_read(const char *text, struct list_cursor *ret) {
    uint8_t bytes[BASE64_BYTES(sizeof *ret)];
    size_t n = strlen(text);
    if (n > BASE64_BYTES(sizeof *ret) - 4)
        return -1;
    ssize_t got = base64_decode(text, n, bytes);
    if (got <= CHECK_BYTES)
        return -1;
    memcpy(ret, bytes, (size_t)got);
    return got - CHECK_BYTES;
}

static int check_list(struct file_op *op, struct err *e) {
    const Berm__V1__ListFilesRequest *request = (const void *)op->m;
    struct list_cursor cursor;
    uint8_t check[CHECK_BYTES];
    if (file_check_most("depth", request->depth, LIMIT_LIST_DEPTH,
                        limit_table[LIMIT_LIST_DEPTH].value, e) < 0 ||
        file_check_most("page_size", request->page_size, LIMIT_PAGE_MAX, ENTRIES_MAX, e) < 0)
        return -(int)e->code;
    if (request->page_token[0] == '\0')
        return 0;
    ssize_t n = instance_read(request->page_token, &cursor);
    if (n < 0)
        return err_field(e, "page_token", "page_token: it is none of this daemon's");
    check_of(op, cursor.path, (size_t)n, check);
    if (memcmp(check, cursor.check, CHECK_BYTES) != 0)
        return err_field(e, "page_token", "page_token: it belongs to another caller or request");
    return 0;
}

static void put_list(struct file_op *op, struct json_out *o) {
    const Berm__V1__ListFilesRequest *request = (const void *)op->m;
    struct list_cursor cursor;
    json_put_u64(o, "depth", request->depth > 0 ? request->depth : 1);
    json_put_u64(o, "max_entries", request->page_size > 0 ? request->page_size : ENTRIES_DEFAULT);
    ssize_t n = request->page_token[0] == '\0' ? -1 : instance_read(request->page_token, &cursor);
    if (n > 0) {
        json_key(o, "page_token");
        json_base64(o, cursor.path, (size_t)n);
    }
}

static int read_token(struct file_op *op, const struct json *result, char **ret, struct err *e) {
    const struct json *token = json_get(result, "next_page_token");
    struct list_cursor cursor;
    uint8_t bytes[BASE64_BYTES(sizeof cursor)];
    char text[BASE64_BYTES(sizeof cursor) + 1];
    if (!token || token->type != JSON_STRING || token->text.n > BASE64_BYTES(sizeof cursor.path))
        return answer_broken(e, "next_page_token");
    ssize_t n = base64_decode(token->text.p, token->text.n, bytes);
    if (n < 0 || (size_t)n > sizeof cursor.path)
        return answer_broken(e, "next_page_token");
    if (n == 0)
        return 0;
    memcpy(cursor.path, bytes, (size_t)n);
    check_of(op, cursor.path, (size_t)n, cursor.check);
    *ret = arena_copy(&op->arena, text, base64_encode(&cursor, CHECK_BYTES + (size_t)n, text));
    return *ret ? 0 : answer_no_memory(e);
}

static int read_list(struct file_op *op, const struct json *result, struct err *e) {
    Berm__V1__ListFilesResponse *response = (void *)op->response;
    if (answer_infos(result, "entries", &op->arena, &response->n_entries, &response->entries, e) <
            0 ||
        answer_texts(result, "unreadable", &op->arena, &response->n_unreadable,
                     &response->unreadable, e) < 0 ||
        read_token(op, result, &response->next_page_token, e) < 0)
        return -(int)e->code;
    return response->n_unreadable > UNREADABLE_MAX ? answer_broken(e, "unreadable") : 0;
}

static void on_list(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = "list", .check = check_list, .put = put_list, .read = read_list};
    file_op_begin(c, m, &kind);
}

const struct handler api_file_list = {.on_message = on_list, .on_cancel = file_op_cancel};
