#include "core/guest/guest_hello.h"

#include <string.h>

#include "base/failpoint.h"
#include "core/guest/guest_exec_read.h"
#include "core/guest/guest_link_impl.h"

#define VERSION_SPOKEN 1
#define PAGES_MAX 16
#define EXECS_MAX 4096
#define CAPABILITIES_MAX 64
#define CAPABILITY_MAX 64

static int hello_broken(struct err *e, const char *what) {
    return err_set(e, ERR_GUEST_PROTOCOL, "the guest sent %s", what);
}

static void hello_ask_page(struct guest_hello *h, struct str after) {
    struct json_out *o = guest_link_ask(h->link, "status");
    json_put_str(o, "after", after);
    guest_link_send(h->link, NULL, 0, &h->page);
}

/* Takes the execs of the answer to hello or to a later status request. */
static int hello_take_execs(struct guest_hello *h, const struct json *result, struct err *e) {
    const struct json *execs = json_get(result, "execs");
    const struct json *more = json_get(result, "more");
    if (!execs || execs->type != JSON_ARRAY || (more && more->type != JSON_BOOL))
        return hello_broken(e, "no valid list of execs");
    bool goes_on = more && more->boolean;
    h->n_execs += execs->items.count;
    if (h->n_execs > EXECS_MAX ||
        (goes_on && (execs->items.count == 0 || ++h->n_pages > PAGES_MAX)))
        return hello_broken(e, "more execs than it can run");
    struct str last = {0};
    JSON_FOR_EACH(it, execs) {
        struct guest_exec_state state;
        if (guest_exec_state_read(it, &state, e) < 0)
            return -(int)e->code;
        last = state.exec_id;
        h->on_exec(h->link, &state);
        if (h->ended)
            return 0;
    }
    if (goes_on)
        hello_ask_page(h, last);
    else
        h->on_done(h->link, NULL);
    return 0;
}

static int hello_take_capabilities(struct guest_hello *h, const struct json *list, struct err *e) {
    if (!list)
        return 0;
    if (list->type != JSON_ARRAY || list->items.count > CAPABILITIES_MAX)
        return hello_broken(e, "invalid capabilities");
    size_t room = 1;
    JSON_FOR_EACH(it, list) {
        if (it->type != JSON_STRING || it->has_nul || it->text.n < 1 || it->text.n > CAPABILITY_MAX)
            return hello_broken(e, "invalid capabilities");
        room += it->text.n + 1;
    }
    char *at = h->capabilities = calloc(room, 1);
    if (!at)
        return err_set(e, ERR_GUEST_LOST, "no memory for the guest's capabilities");
    JSON_FOR_EACH(it, list) {
        memcpy(at, it->text.p, it->text.n);
        at += it->text.n + 1;
    }
    return 0;
}

static int hello_take_version(struct guest_hello *h, const struct json *result, struct err *e) {
    const struct json *version = json_get(result, "version");
    const struct json *fds = json_get(result, "fd_passing");
    if (!version || version->type != JSON_INT || version->integer != VERSION_SPOKEN)
        return hello_broken(e, "a version that the daemon did not offer");
    if (!fds || fds->type != JSON_BOOL)
        return hello_broken(e, "a hello without fd_passing");
    h->passes_fds = fds->boolean && !h->is_bytes_only;
    h->greeted = true;
    return hello_take_capabilities(h, json_get(result, "capabilities"), e);
}

static void on_page(struct guest_wait *w, const struct guest_answer *a) {
    struct guest_hello *h = container_of(w, struct guest_hello, page);
    struct err e;
    int r = 0;
    if (a->e) { /* the guest refused the request, or the link did not send it */
        e = *a->e;
        if (e.code != ERR_GUEST_VERSION && e.code != ERR_GUEST_LOST)
            e.code = w->id < 0 ? ERR_GUEST_LOST : ERR_GUEST_PROTOCOL;
        r = err_wrap(&e, "hello");
    }
    if (r == 0 && !h->greeted)
        r = hello_take_version(h, a->result, &e);
    if (r == 0)
        r = hello_take_execs(h, a->result, &e);
    if (r < 0)
        h->on_done(h->link, &e);
}

void guest_hello_begin(struct guest_hello *h, struct guest_link *l,
                       const struct guest_link_spec *spec,
                       void (*on_done)(struct guest_link *l, const struct err *e)) {
    *h = (struct guest_hello){.link = l,
                              .is_bytes_only = spec->is_bytes_only,
                              .on_exec = spec->events->on_exec,
                              .on_done = on_done};
    guest_wait_init(&h->page, on_page);
    struct json_out *o = guest_link_ask(l, "hello");
    json_key(o, "versions");
    json_open(o, '[');
    json_i64(o, VERSION_SPOKEN);
    json_close(o, ']');
    json_put_str(o, "daemon", STR(BERM_VERSION));
    if (spec->run_id)
        json_put_str(o, "run_id", str_of(spec->run_id));
    json_put_i64(o, "lease_ms", spec->lease_ms);
    if (failpoint_file_chunks() || spec->is_bytes_only)
        json_put_bool(o, "file_chunks", true);
    if (spec->sandbox_id)
        json_put_str(o, "sandbox_id", str_of(spec->sandbox_id));
    if (spec->incarnation > 0)
        json_put_u64(o, "incarnation", spec->incarnation);
    guest_link_send(l, NULL, 0, &h->page);
}

void guest_hello_end(struct guest_hello *h) {
    h->ended = true;
    guest_wait_cancel(&h->page);
}

void guest_hello_done(struct guest_hello *h) {
    free(h->capabilities);
}

bool guest_hello_has(const struct guest_hello *h, const char *capability) {
    for (const char *it = h->capabilities; it && *it; it += strlen(it) + 1)
        if (strcmp(it, capability) == 0)
            return true;
    return false;
}
