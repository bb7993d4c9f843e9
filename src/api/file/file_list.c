/* file_list — ListFiles.
 *
 * A page token holds the guest's own token behind a check over the caller, that token and every
 * other field of the request. The daemon therefore accepts it only for the same list (RPC-27). */
#include <stdio.h>

#include "api/digest.h"
#include "api/file/file_op.h"
#include "api/methods.h"

#define ENTRIES_DEFAULT 1000
#define ENTRIES_MAX 10000
#define CHECK_BYTES 8

/* The bytes of a page token of ListFiles: the check, followed by the guest's own token. */
struct list_cursor {
    uint8_t check[CHECK_BYTES];
    uint8_t path[GUEST_TOKEN_BYTES];
};

static void list_check_of(const struct file_op *op, const uint8_t *path, size_t n,
                          uint8_t ret[CHECK_BYTES]) {
    static const char *const without[] = {"page_token"};
    struct caller who;
    uint8_t digest[DIGEST_BYTES];
    char salt[sizeof(struct list_cursor) + 256];
    context_caller(op->mu.call, &who);
    int at = snprintf(salt, sizeof salt - n, "%s %s ", context_of(op->mu.call)->facts.instance_id,
                      who.identity);
    memcpy(salt + at, path, n);
    digest_message((struct str){salt, (size_t)at + n}, op->mu.call->method->path, op->mu.m, without,
                   COUNT_OF(without), digest);
    memcpy(ret, digest, CHECK_BYTES);
}

/* Decodes a page token of the daemon and returns the length of the guest's token in it. Returns -1
 * if the text is not base64 or has a wrong length. */
static ssize_t list_cursor_read(const char *text, struct list_cursor *ret) {
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

static int file_list_check(struct file_op *op, struct err *e) {
    const Berm__V1__ListFilesRequest *request = (const void *)op->mu.m;
    struct list_cursor cursor;
    uint8_t check[CHECK_BYTES];
    if (file_check_most("depth", request->depth, LIMIT_LIST_DEPTH,
                        limit_table[LIMIT_LIST_DEPTH].value, e) < 0 ||
        file_check_most("page_size", request->page_size, LIMIT_PAGE_MAX, ENTRIES_MAX, e) < 0)
        return -(int)e->code;
    if (request->page_token[0] == '\0')
        return 0;
    ssize_t n = list_cursor_read(request->page_token, &cursor);
    if (n < 0)
        return err_field(e, "page_token", "page_token: must be a token of this daemon");
    list_check_of(op, cursor.path, (size_t)n, check);
    if (memcmp(check, cursor.check, CHECK_BYTES) != 0)
        return err_field(e, "page_token",
                         "page_token: must be used by the same caller with the same request");
    op->ask.list.page_token =
        (struct str){arena_copy(&op->arena, cursor.path, (size_t)n), (size_t)n};
    return op->ask.list.page_token.p ? 0 : answer_no_memory(e);
}

static void file_list_put(struct file_op *op) {
    const Berm__V1__ListFilesRequest *request = (const void *)op->mu.m;
    op->ask.list.depth = request->depth > 0 ? request->depth : 1;
    op->ask.list.max_entries = request->page_size > 0 ? request->page_size : ENTRIES_DEFAULT;
}

static int file_list_read_token(struct file_op *op, struct str token, char **ret, struct err *e) {
    struct list_cursor cursor;
    char text[BASE64_BYTES(sizeof cursor) + 1];
    if (token.n == 0)
        return 0;
    memcpy(cursor.path, token.p, token.n);
    list_check_of(op, cursor.path, token.n, cursor.check);
    *ret = arena_copy(&op->arena, text, base64_encode(&cursor, CHECK_BYTES + token.n, text));
    return *ret ? 0 : answer_no_memory(e);
}

static int file_list_read(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__ListFilesResponse *response = (void *)op->response;
    if (answer_infos(a->list.entries, a->list.n_entries, &op->arena, &response->n_entries,
                     &response->entries, e) < 0 ||
        answer_texts(a->list.unreadable, a->list.n_unreadable, &op->arena, &response->n_unreadable,
                     &response->unreadable, e) < 0)
        return -(int)e->code;
    return file_list_read_token(op, a->list.next_page_token, &response->next_page_token, e);
}

static void file_list_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {.method = GUEST_LIST,
                                          .check = file_list_check,
                                          .put = file_list_put,
                                          .read = file_list_read};
    file_op_begin(c, m, &kind);
}

const struct handler api_file_list = {.on_message = file_list_on_message,
                                      .on_cancel = mutation_cancel};
