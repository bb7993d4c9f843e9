/* methods — numbers for the rows of methods.def, and a lookup by number. */
#pragma once

struct berm_method;

enum method_id {
#define METHOD(function, service, name, message, kind) METHOD_ID_##name,
#include "clients/c/methods.def"
#undef METHOD
};

const struct berm_method *method_of(enum method_id id);
