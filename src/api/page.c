#include "api/page.h"

#include <endian.h>
#include <stdio.h>

#include "api/checks.h"
#include "api/context.h"
#include "api/digest.h"

/* A token before base64 encoding. */
struct token {
    uint64_t number_be;
    uint64_t check;
};

static const void *page_field(const ProtobufCMessage *m, const char *name) {
    return (const uint8_t *)m +
           protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name)->offset;
}

/* Mixes the number into the check, so that a token with another number is refused too. */
static uint64_t page_check_of(const struct page *p, uint64_t number) {
    uint64_t x = p->check ^ (number * 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

static int page_read_token(struct page *p, const char *text, struct err *e) {
    struct token t;
    uint8_t bytes[64];
    size_t n = strlen(text);
    if (n == 0)
        return 0;
    if (n != BASE64_BYTES(sizeof t) || base64_decode(text, n, bytes) != sizeof t)
        return err_field(e, "page_token", "page_token: must be a token of this daemon");
    memcpy(&t, bytes, sizeof t);
    p->before = be64toh(t.number_be);
    if (p->before == 0 || t.check != page_check_of(p, p->before))
        return err_field(e, "page_token",
                         "page_token: must be used by the same caller with the same request");
    return 0;
}

int page_begin(struct page *p, const struct call *c, const ProtobufCMessage *m,
               const char *identity, struct err *e) {
    static const char *const without[] = {"page_token"};
    uint32_t size = *(const uint32_t *)page_field(m, "page_size");
    int64_t max = limit_table[LIMIT_PAGE_MAX].value;
    uint8_t digest[DIGEST_BYTES];
    char salt[160];
    if (size > (size_t)max) {
        err_limit(e, ERR_INVALID_ARGUMENT, LIMIT_PAGE_MAX, max, "page_size: must be at most %lld",
                  (long long)max);
        return err_at(e, "page_size");
    }
    snprintf(salt, sizeof salt, "%s %s", context_of(c)->facts.instance_id, identity);
    digest_message(str_of(salt), c->method->path, m, without, COUNT_OF(without), digest);
    *p = (struct page){.size = size > 0 ? size : (size_t)limit_table[LIMIT_PAGE_DEFAULT].value};
    memcpy(&p->check, digest, sizeof p->check);
    return page_read_token(p, *(char *const *)page_field(m, "page_token"), e);
}

char *page_token(const struct page *p, struct call *c, uint64_t last_number) {
    struct token t = {htobe64(last_number), page_check_of(p, last_number)};
    char text[BASE64_BYTES(sizeof t) + 1];
    return arena_copy(&c->arena, text, base64_encode(&t, sizeof t, text));
}
