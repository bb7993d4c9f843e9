/* guest_sandbox — calls to the guest about its whole sandbox: settings and shutdown.
 *
 * Arguments are borrowed for the call only. The answers hold nothing but success or an error.
 * Spec: spec/guest.md, "The conversation" */
#pragma once

#include "berm/v1/berm.pb-c.h"
#include "core/guest/guest_link.h"

struct guest_settings {
    const char *sandbox_id;
    uint64_t incarnation;
    const char *workspace; /* "": use the guest's default */
    const char *user;
    int64_t lease_ms;
    const char *path; /* PATH of programs; NULL: use the guest's default */
    size_t n_env;
    Berm__V1__KeyValue *const *env;
};

void guest_sandbox_configure(struct guest_link *l, const struct guest_settings *settings,
                             struct guest_wait *w);
/* The link ignores the answer, because the guest ends. */
void guest_sandbox_shutdown(struct guest_link *l, int64_t grace_ms);
