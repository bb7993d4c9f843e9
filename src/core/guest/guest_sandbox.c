#include "core/guest/guest_sandbox.h"

#include "core/guest/guest_field.h"
#include "core/guest/guest_link_impl.h"

void guest_sandbox_configure(struct guest_link *l, const struct guest_settings *settings,
                             struct guest_wait *w) {
    struct json_out *o = guest_link_ask(l, "configure");
    json_put_str(o, "sandbox_id", str_of(settings->sandbox_id));
    json_put_u64(o, "incarnation", settings->incarnation);
    if (settings->workspace[0])
        json_put_str(o, "workspace", str_of(settings->workspace));
    json_put_str(o, "user", str_of(settings->user));
    json_put_i64(o, "lease_ms", settings->lease_ms);
    if (settings->path)
        json_put_str(o, "path", str_of(settings->path));
    guest_field_put_env(o, settings->n_env, settings->env);
    guest_link_send(l, NULL, 0, w);
}

void guest_sandbox_shutdown(struct guest_link *l, int64_t grace_ms) {
    json_put_i64(guest_link_ask(l, "shutdown"), "grace_ms", grace_ms);
    guest_link_send(l, NULL, 0, NULL);
}
