/* guest_hello — the first words on a link: version, what the guest can do, the programs it knows.
 *
 * Owner: its guest_link, by whose requests it asks: `hello`, then a page of `status` while there are more.
 * Ends:  on_done, once, from the loop, after on_exec for each program; its error is GUEST_VERSION,
 *        GUEST_PROTOCOL or GUEST_LOST. Neither comes after guest_hello_end.
 * Bounds: PAGES_MAX pages, EXECS_MAX programs (guest_hello.c); the link gives it its time. */
#pragma once

#include "core/guest/guest_link.h"

struct guest_hello {
    struct guest_link *link;
    struct guest_wait page; /* the request it waits for */
    unsigned n_pages;
    size_t n_execs;
    bool greeted; /* hello is answered, the members below are known */
    bool ended;
    bool passes_fds;
    char *capabilities; /* each ends with NUL, the last with two */
    void (*on_exec)(struct guest_link *l, const struct guest_exec_state *state);
    void (*on_done)(struct guest_link *l, const struct err *e); /* NULL: agreed */
};

void guest_hello_begin(struct guest_hello *h, struct guest_link *l,
                       const struct guest_link_spec *spec,
                       void (*on_done)(struct guest_link *l, const struct err *e));
void guest_hello_end(struct guest_hello *h); /* what it learned stays */
void guest_hello_done(struct guest_hello *h);
bool guest_hello_has(const struct guest_hello *h, const char *capability);
