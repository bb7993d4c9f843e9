/* methods — the table of every method that the daemon serves, built from methods.def. */
#pragma once

#include "api/api.h"

const struct api_methods *api_daemon_methods(void);

#define UNBUILT(service, name, req, res, kind, scope)
#define METHOD(service, name, req, res, kind, scope, symbol) extern const struct handler symbol;
#include "api/methods.def"
#undef METHOD
#undef UNBUILT
