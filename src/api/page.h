/* page — one page of a list, and the token for the next.
 *
 * A token is the number of the last entry shown and a check over the caller, the instance, the method
 * and every other field of the request, so it is of use for the same list alone (RPC-27). It needs no
 * secret: a made-up number shows its caller nothing that its owner could not list anyway. */
#pragma once

#include "api/call.h"

#define PAGE_LOOKS 10000 /* rows one page looks at, whatever it finds */
#define PAGE_BYTES ((size_t)1 << 20)

struct page {
    uint64_t before; /* show entries numbered below it; 0 = from the newest */
    size_t size;
    uint64_t check;
};

/* Reads page_size and page_token of `m`. `identity` is the caller's. */
MUST_USE int page_begin(struct page *p, const struct call *c, const ProtobufCMessage *m,
                        const char *identity, struct err *e);
/* In the call's arena; NULL when it is full. */
MUST_USE char *page_token(const struct page *p, struct call *c, uint64_t last_number);
