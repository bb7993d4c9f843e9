#include "api/api.h"

#include <errno.h>

static size_t api_hash(struct str s) {
    /* FNV-1a; a hash without a secret is safe, because all keys are our own method paths */
    size_t h = 14695981039346656037u;
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * 1099511628211u;
    return h;
}

static const struct method **api_slot(const struct api *api, struct str path) {
    size_t i = api_hash(path) & (api->n_slots - 1);
    while (api->slots[i] && !str_is(api->slots[i]->path, path))
        i = (i + 1) & (api->n_slots - 1);
    return &api->slots[i];
}

int api_init(struct api *api, const struct api_methods *tables, size_t n_tables,
             const struct api_auth *auth) {
    size_t n = 0;
    for (size_t t = 0; t < n_tables; t++)
        n += tables[t].n;
    *api = (struct api){.auth = *auth, .access_log = true, .error_details = true, .n_slots = 16};
    while (api->n_slots < 2 * n + 1)
        api->n_slots *= 2;
    api->slots = calloc(api->n_slots, sizeof *api->slots);
    if (!api->slots)
        return -ENOMEM;
    for (size_t t = 0; t < n_tables; t++)
        for (size_t i = 0; i < tables[t].n; i++)
            *api_slot(api, tables[t].rows[i].path) = &tables[t].rows[i];
    return 0;
}

void api_done(struct api *api) {
    free(api->slots);
    api->slots = NULL;
}

const struct method *api_find(const struct api *api, struct str path) {
    return *api_slot(api, path);
}

/* Prevents DNS rebinding: a web page whose domain name resolves to this machine must not call the
 * daemon through a browser. */
static bool api_is_own_host(struct str authority) {
    static const struct str own[] = {{"localhost", 9}, {"127.0.0.1", 9}, {"[::1]", 5}};
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        struct str host = {authority.p, MIN(authority.n, own[i].n)};
        if (str_is_nocase(host, own[i]) &&
            (authority.n == own[i].n || authority.p[own[i].n] == ':'))
            return true;
    }
    return false;
}

static bool api_is_own_origin(struct str origin) {
    static const struct str schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < COUNT_OF(schemes); i++)
        if (str_starts(origin, schemes[i]) &&
            api_is_own_host((struct str){origin.p + schemes[i].n, origin.n - schemes[i].n}))
            return true;
    return false;
}

static int api_check_unix(const struct api *api, const struct call_peer *peer, struct err *e) {
    if (peer->uid == 0 || peer->uid == geteuid())
        return 0;
    for (size_t i = 0; i < api->auth.n_uids; i++)
        if (api->auth.uids[i] == peer->uid)
            return 0;
    return err_set(e, ERR_PERMISSION_DENIED, "uid %u may not use this daemon (see allow_uids)",
                   (unsigned)peer->uid);
}

static int api_check_token(const struct api *api, const struct call *c, struct err *e) {
    struct str bearer = STR("bearer ");
    struct str given = call_header(c, STR("authorization"));
    if (!given.p)
        return err_set(e, ERR_UNAUTHENTICATED, "no authorization header: send \"Bearer TOKEN\"");
    struct str token =
        str_trim((struct str){given.p + MIN(bearer.n, given.n), given.n - MIN(bearer.n, given.n)});
    if (given.n < bearer.n || !str_is_nocase((struct str){given.p, bearer.n}, bearer) ||
        api->auth.token[0] == '\0' || token.n != API_TOKEN_CHARS ||
        !bytes_equal_secret(token.p, api->auth.token, API_TOKEN_CHARS))
        return err_set(e, ERR_UNAUTHENTICATED, "the bearer token is wrong");
    return 0;
}

static int api_refuse_host(struct str host, struct err *e) {
    return err_set(e, ERR_PERMISSION_DENIED,
                   "host: must be localhost, 127.0.0.1 or [::1], got \"%.*s\"",
                   (int)MIN(host.n, (size_t)80), host.n > 0 ? host.p : "");
}

static int api_check_host(const struct call *c, struct err *e) {
    struct str origin = call_header(c, STR("origin"));
    struct str host = call_header(c, STR("host"));
    /* HTTP/2 sends :authority, HTTP/1.1 sends Host. If a request has both, check both. */
    if ((c->authority.n > 0 || !host.p) && !api_is_own_host(c->authority))
        return api_refuse_host(c->authority, e);
    if (host.p && !api_is_own_host(host))
        return api_refuse_host(host, e);
    if (origin.p && !api_is_own_origin(origin))
        return err_set(e, ERR_PERMISSION_DENIED, "origin: must be this host, got \"%.*s\"",
                       (int)MIN(origin.n, (size_t)80), origin.p);
    return 0;
}

int api_authorize(const struct api *api, const struct call *c, struct err *e) {
    if (api->auth.open)
        return 0;
    if (c->peer->is_unix)
        return api_check_unix(api, c->peer, e);
    int r = api_check_host(c, e);
    if (r < 0)
        return r;
    return c->method && c->method->scope == SCOPE_ANYONE ? 0 : api_check_token(api, c, e);
}
