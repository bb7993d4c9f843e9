/* api — the methods a server offers, and who may call them.
 *
 * Filled once at start and read-only afterwards. */
#pragma once

#include "api/call.h"

#define API_TOKEN_CHARS 64

struct api_methods {
    const struct method *rows;
    size_t n;
};

struct api_auth {
    const uid_t *uids; /* Unix users that may make calls, besides root and our own uid */
    size_t n_uids;
    char token[API_TOKEN_CHARS + 1]; /* for TCP peers; empty: TCP peers cannot make calls */
    bool open;                       /* skip all checks; only the conformance server does this */
};

struct api {
    const struct method **slots; /* hash table with open addressing; the key is the path */
    size_t n_slots;
    struct api_auth auth;
    bool access_log;
    bool error_details; /* failures carry ErrorInfo and BadRequest */
    bool draining;      /* the daemon is stopping and refuses new calls */
    void *user;         /* the object that all handlers share */
};

MUST_USE int api_init(struct api *api, const struct api_methods *tables, size_t n_tables,
                      const struct api_auth *auth);
void api_done(struct api *api);

const struct method *api_find(const struct api *api, struct str path);
/* Returns 0, or fails with UNAUTHENTICATED or PERMISSION_DENIED. */
MUST_USE int api_authorize(const struct api *api, const struct call *c, struct err *e);
