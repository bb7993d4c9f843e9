/* methods — the rows of methods.def as a table, and what their handlers share. */
#pragma once

#include "api/api.h"

const struct api_methods *api_daemon_methods(void);

extern const struct handler api_system_ping;
extern const struct handler api_system_get_info;
extern const struct handler api_health_check;
extern const struct handler api_health_watch;
extern const struct handler api_reflection;
