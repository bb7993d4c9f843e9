#include "guest/reply.h"

#include "guest/guest.h"

/* Returns whether the connection that sent the request still exists. A later connection does not
 * know the id of the request. */
static bool reply_is_wanted(const struct guest *g, uint64_t generation) {
    return g->link.connected && g->link.generation == generation;
}

void reply_error(struct guest *g, uint64_t generation, int64_t id, const struct err *e,
                 int64_t next_offset) {
    if (!reply_is_wanted(g, generation))
        return;
    buf_clear(&g->text);
    if (rpc_write_error(&g->text, id, e, next_offset) < 0 || link_send_buf(&g->link, &g->text) < 0)
        link_fail(&g->link);
}

static void reply_close_fds(const int *fds, size_t n_fds) {
    for (size_t i = 0; i < n_fds; i++)
        close(fds[i]);
}

void reply_send(struct guest *g, uint64_t generation, int64_t id, struct str members,
                const int *fds, size_t n_fds) {
    struct json_out o;
    struct err e;
    if (!reply_is_wanted(g, generation)) {
        reply_close_fds(fds, n_fds);
        return;
    }
    buf_clear(&g->text);
    rpc_open_result(&o, &g->text, id);
    if (members.n > 0)
        json_raw(&o, members);
    if (rpc_close(&o) < 0) {
        reply_close_fds(fds, n_fds);
        err_set(&e, ERR_MESSAGE_TOO_LARGE, "the reply is larger than a message");
        reply_error(g, generation, id, &e, -1);
        return;
    }
    struct str text = {(const char *)buf_data(&g->text), buf_len(&g->text)};
    if (link_send(&g->link, text, fds, n_fds) < 0)
        link_fail(&g->link);
}
