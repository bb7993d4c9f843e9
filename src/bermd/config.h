/* config — the knobs of the daemon: defaults, ranges and values.
 *
 * The configuration file has `name = value` lines and # comments. The command line overrides it.
 * The knobs are the rows of config.def and, as limits.NAME, the limits of base/limits.def that may
 * be set. */
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
    char user[64];   /* empty: the user berm if it exists, else a reserved uid */
    char spawn[256]; /* empty: the program in the directory of bermd */
    char open[256];  /* empty: the program in the directory of bermd */
    char guest[256]; /* empty: the program in the directory of bermd */
    char mount_roots[CONFIG_PATHS_BYTES]; /* comma-separated; see config_next_path */
    struct config_uids token_uid;         /* at most one uid */
    struct limits limits;
};

void config_init(struct config *c);
/* Refuses unknown names and invalid values; the error names file and line. */
MUST_USE int config_read(struct config *c, const char *path, struct err *e);
MUST_USE int config_set(struct config *c, struct str name, struct str value, struct err *e);
/* Returns the next path of a comma-separated list, without surrounding spaces, or false at the end.
 * Pass a zeroed `rest` for an empty list. */
bool config_next_path(struct str *rest, struct str *ret_path);
/* Prints a configuration file that sets every knob to its current value. */
void config_print(const struct config *c);
