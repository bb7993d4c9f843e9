#include "core/env.h"

#include <stdio.h>
#include <sys/random.h>

struct driver *env_driver_at(const struct env *env, size_t i) {
    return i < env->n_drivers ? env->drivers[i] : NULL;
}

struct driver *env_driver(const struct env *env, const char *name) {
    struct driver *d = env_driver_at(env, 0);
    for (size_t i = 0; name[0] && d && strcmp(d->ops->name, name) != 0;)
        d = env_driver_at(env, ++i);
    return d;
}

void env_job_begin(struct env *env) {
    env->n_jobs++;
}

bool env_job_end(struct env *env) {
    bool is_closing = env->is_closing;
    if (--env->n_jobs == 0 && is_closing)
        env->on_idle(env);
    return is_closing;
}

void env_make_id(const char *prefix, char ret_id[64]) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t bytes[20];
    char text[21] = {0};
    for (size_t got = 0; got < sizeof bytes;) {
        ssize_t more = getrandom(bytes + got, sizeof bytes - got, 0);
        got += more > 0 ? (size_t)more : 0;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        text[i] = letters[bytes[i] % 32];
    snprintf(ret_id, 64, "%s%s", prefix, text);
}
