/* config — every knob: its default, its range, and where it was set.
 *
 * A file of `name = value` lines with # comments; the command line comes on top. The knobs are the
 * rows of config.def and, as limits.NAME, those limits of base/limits.def that may be set. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

#define CONFIG_MAX_UIDS 64
#define CONFIG_MAX_PATHS 16
#define CONFIG_PATHS_BYTES 4096

struct config_uids {
    uid_t uids[CONFIG_MAX_UIDS];
    size_t n;
};

struct config {
    char state[256];
    char socket[108];
    char listen[128]; /* empty: no TCP */
    uint64_t socket_mode;
    uint64_t log_level; /* enum log_level */
    bool access_log;
    struct config_uids allow_uids;
    struct config_uids admins;
    char user[64];   /* empty: berm when there is such a user, else a number of our own */
    char spawn[256]; /* empty: beside bermd */
    char open[256];  /* empty: beside bermd */
    char guest[256]; /* empty: beside bermd */
    char mount_roots[CONFIG_PATHS_BYTES]; /* separated by commas; see config_next_path */
    struct config_uids token_uid;         /* none or one */
    struct limits limits;
};

void config_init(struct config *c);
/* Unknown names and bad values are refused with file and line. */
MUST_USE int config_read(struct config *c, const char *path, struct err *e);
MUST_USE int config_set(struct config *c, struct str name, struct str value, struct err *e);
/* The next path of a list of them, without the spaces around it. False at the end,
 * which `rest` is before it when there is none: a zeroed one. */
bool config_next_path(struct str *rest, struct str *ret_path);
/* Prints a configuration file that sets every knob to what it is now. */
void config_print(const struct config *c);
