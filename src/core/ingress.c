#include "core/ingress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/str.h"
#include "core/registry_impl.h"

int ingress_uid(struct registry *r, const char *owner, uint32_t *ret_uid, struct err *e) {
    const char prefix[] = "uid:";
    uint64_t uid;
    if (!r->spec.opener)
        return err_set(e, ERR_HOST_PATH_REFUSED, "no host path may go in: %s", r->spec.no_opener);
    if (strncmp(owner, prefix, sizeof prefix - 1) == 0 &&
        str_to_u64(str_of(owner + sizeof prefix - 1), 0, UINT32_MAX - 1, &uid) == 0)
        *ret_uid = (uint32_t)uid;
    else if (r->spec.token_uid >= 0)
        *ret_uid = (uint32_t)r->spec.token_uid;
    else
        return err_set(e, ERR_HOST_PATH_REFUSED,
                       "callers by token bring in no host path: the knob token_uid is empty");
    return 0;
}

static bool add(struct ingress *in, const char *source, bool is_copy, bool writable, size_t index) {
    struct ingress_item *item = &in->items[in->n_items];
    *item = (struct ingress_item){.source = strdup(source),
                                  .is_copy = is_copy,
                                  .writable = writable,
                                  .index = (unsigned)index,
                                  .fd = -1};
    in->n_items += item->source != NULL;
    return item->source != NULL;
}

static bool take(struct ingress *in, const Berm__V1__SandboxSpec *spec, size_t n_copies) {
    bool ok = true;
    in->items = calloc(spec->n_mounts + n_copies, sizeof *in->items);
    for (size_t i = 0; in->items && ok && i < spec->n_mounts; i++)
        ok = add(in, spec->mounts[i]->source, false, spec->mounts[i]->writable, i);
    for (size_t i = 0; in->items && ok && i < n_copies; i++)
        ok = add(in, spec->copies[i]->source, true, false, i);
    return in->items && ok;
}

static void ask_next(struct ingress *in) {
    const struct ingress_item *item = &in->items[in->at];
    struct opener *o = in->registry->spec.opener;
    if (item->is_copy)
        opener_source(o, &in->ask, in->uid, item->source);
    else
        opener_directory(o, &in->ask, in->uid, item->source, item->writable);
}

static void on_opened(struct open_ask *a, const struct open_result *result) {
    struct ingress *in = container_of(a, struct ingress, ask);
    struct ingress_item *item = &in->items[in->at];
    struct err e;
    bool lacks_fd = !result->e && !item->is_copy && *result->fd < 0;
    if (lacks_fd)
        err_set(&e, ERR_DRIVER_UNAVAILABLE, "berm-open answered without a descriptor");
    if (result->e || lacks_fd) {
        if (result->e)
            e = *result->e;
        snprintf(e.field, sizeof e.field, "spec.%s[%u].source", item->is_copy ? "copies" : "mounts",
                 item->index);
        (void)err_wrap(&e, "%s", e.field);
        in->on_done(in, &e);
        return;
    }
    if (!item->is_copy)
        item->fd = TAKE_FD(*result->fd);
    item->is_foreign = result->is_foreign;
    if (++in->at < in->n_items)
        ask_next(in);
    else
        in->on_done(in, NULL);
}

/* Credentials come from the caller's home, as copies do. */
static int check_tools(struct registry *r, const char *owner, const Berm__V1__SandboxSpec *spec,
                       struct err *e) {
    uint32_t uid;
    for (size_t i = 0; i < spec->n_tools; i++)
        if (spec->tools[i]->credentials && ingress_uid(r, owner, &uid, e) < 0) {
            snprintf(e->field, sizeof e->field, "spec.tools[%zu].credentials", i);
            return err_wrap(e, "%s", e->field);
        }
    return 0;
}

int ingress_begin(struct ingress *in, struct registry *r, const char *owner,
                  const Berm__V1__SandboxSpec *spec, bool with_copies,
                  void (*on_done)(struct ingress *in, const struct err *e), struct err *e) {
    size_t n_copies = with_copies ? spec->n_copies : 0;
    if (with_copies && check_tools(r, owner, spec, e) < 0)
        return -(int)e->code;
    if (spec->n_mounts + n_copies == 0)
        return 0;
    *in = (struct ingress){.registry = r, .on_done = on_done};
    open_ask_init(&in->ask, on_opened);
    if (ingress_uid(r, owner, &in->uid, e) < 0) {
        const char *field = spec->n_mounts > 0 ? "spec.mounts[0].source" : "spec.copies[0].source";
        in->registry = NULL;
        snprintf(e->field, sizeof e->field, "%s", field);
        return err_wrap(e, "%s", field);
    }
    if (!take(in, spec, n_copies)) {
        ingress_end(in);
        return err_set(e, ERR_LIMIT_REACHED, "out of memory");
    }
    ask_next(in);
    return 1;
}

void ingress_end(struct ingress *in) {
    if (!in->registry)
        return;
    open_ask_cancel(&in->ask);
    for (size_t i = 0; i < in->n_items; i++) {
        free(in->items[i].source);
        if (in->items[i].fd >= 0)
            close(in->items[i].fd);
    }
    free(in->items);
    *in = (struct ingress){0};
}
