/* guest_hello — the handshake of a link: protocol version, capabilities, execs of the guest.
 *
 * Sends `hello`, and then `status` for as long as the guest has more execs to list.
 * Owner:  its guest_link.
 * End:    on_done, exactly once, from the loop, after on_exec for each exec. Neither fires after
 *         guest_hello_end.
 * Bounds: PAGES_MAX pages and EXECS_MAX execs (guest_hello.c). The link sets the deadline.
 * Errors: GUEST_VERSION, GUEST_PROTOCOL or GUEST_LOST, through on_done. */
#pragma once

#include "core/guest/guest_link.h"

struct guest_hello {
    struct guest_link *link;
    struct guest_wait page; /* the pending hello or status request */
    unsigned n_pages;
    size_t n_execs;
    bool greeted; /* the guest answered hello; the members below are set */
    bool ended;
    bool is_bytes_only; /* from the driver: the stream cannot pass descriptors */
    bool passes_fds;
    char *capabilities; /* NUL-terminated strings, ended by an empty one */
    void (*on_exec)(struct guest_link *l, const struct guest_exec_state *state);
    void (*on_done)(struct guest_link *l, const struct err *e); /* NULL: success */
};

void guest_hello_begin(struct guest_hello *h, struct guest_link *l,
                       const struct guest_link_spec *spec,
                       void (*on_done)(struct guest_link *l, const struct err *e));
void guest_hello_end(struct guest_hello *h); /* the members stay valid */
void guest_hello_done(struct guest_hello *h);
bool guest_hello_has(const struct guest_hello *h, const char *capability);
