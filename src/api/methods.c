#include "api/methods.h"

#include "berm/v1/berm.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"

#define ROW(service, name, req, res, kind, scope, symbol) \
    {STR("/" service "/" name),                           \
     &req##__descriptor,                                  \
     &res##__descriptor,                                  \
     METHOD_##kind,                                       \
     SCOPE_##scope,                                       \
     symbol},
#define METHOD(service, name, req, res, kind, scope, symbol) \
    ROW(service, name, req, res, kind, scope, &symbol)
#define UNBUILT(service, name, req, res, kind, scope) \
    ROW(service, name, req, res, kind, scope, NULL)

const struct api_methods *api_daemon_methods(void) {
    static const struct method rows[] = {
#include "api/methods.def"
    };
    static const struct api_methods table = {rows, COUNT_OF(rows)};
    return &table;
}
