/* page — one page of a list, and the token for the next.
 *
 * A token is the number of the last entry shown and a check over the caller, the instance, the
 * method and every other field of the request, so the daemon accepts it only for the same list
 * (RPC-27). The check needs no secret, because a caller who forges a number only sees entries that
 * the caller may list anyway. */
#pragma once

#include "api/call.h"

#define PAGE_LOOKS 10000 /* maximum number of rows that one page examines */
#define PAGE_BYTES ((size_t)1 << 20)

struct page {
    uint64_t before; /* show only entries with a lower number; 0 = start at the newest */
    size_t size;
    uint64_t check;
};

/* Reads page_size and page_token of `m`. `identity` is the identity of the caller. */
MUST_USE int page_begin(struct page *p, const struct call *c, const ProtobufCMessage *m,
                        const char *identity, struct err *e);
/* Returns the token in the call's arena. NULL: the arena is full. */
MUST_USE char *page_token(const struct page *p, struct call *c, uint64_t last_number);
