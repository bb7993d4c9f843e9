/* settings — what `configure` sets for the sandbox. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

#define SETTINGS_ENV_BYTES 65536
#define SETTINGS_ENV_COUNT 512

/* The struct owns each string. Each string ends with NUL. */
struct settings {
    bool is_configured;
    bool needs_workspace; /* settings_make_workspace has not run yet */
    int64_t lease_ms;     /* -1: unchanged */
    char hostname[64];    /* empty: unchanged */
    char *workspace;      /* NULL: / */
    char *user;           /* NULL: the user that the guest runs as */
    char *path;           /* PATH of programs when env has none; NULL: the default */
    char **env;           /* NAME=value, NULL at the end; NULL: none */
};

/* Reads the parameters of `configure`. Fails with INVALID_ARGUMENT or OUT_OF_MEMORY. */
MUST_USE int settings_read(struct settings *s, const struct json *params, struct arena *a,
                           struct err *e);
void settings_done(struct settings *s);
/* Creates the workspace unless it exists. Runs after the reply to `configure`, before any other request. */
void settings_make_workspace(struct settings *s);
