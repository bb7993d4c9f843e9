#include "api/methods.h"

#include <stdio.h>

#include "api/system/reflection_data.h"
#include "berm/v1/berm.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "harness.h"

static const struct method *row_of(const char *path) {
    const struct api_methods *table = api_daemon_methods();
    for (size_t i = 0; i < table->n; i++)
        if (str_is(table->rows[i].path, str_of(path)))
            return &table->rows[i];
    return NULL;
}

TEST(methods_match_the_rpcs_of_the_proto) { /* covers: RPC-1 */
    CHECK_INT(api_daemon_methods()->n, reflection_n_methods);
    for (size_t i = 0; i < reflection_n_methods; i++) {
        const struct reflection_method *m = &reflection_methods[i];
        const struct method *row = row_of(m->path);
        if (!check(row != NULL, __FILE__, __LINE__, "no row for %s", m->path))
            continue;
        enum method_kind kind = m->client_streams
                                    ? (m->server_streams ? METHOD_BIDI : METHOD_CLIENT_STREAM)
                                    : (m->server_streams ? METHOD_SERVER_STREAM : METHOD_UNARY);
        check(row->kind == kind, __FILE__, __LINE__, "%s has another kind in methods.def", m->path);
    }
}

TEST(methods_have_the_types_of_the_proto) {
    static const ProtobufCServiceDescriptor *const services[] = {
        &berm__v1__sandbox_service__descriptor,
        &berm__v1__exec_service__descriptor,
        &berm__v1__file_service__descriptor,
        &berm__v1__system_service__descriptor,
        &grpc__health__v1__health__descriptor,
        &grpc__reflection__v1__server_reflection__descriptor};
    for (size_t s = 0; s < COUNT_OF(services); s++)
        for (unsigned i = 0; i < services[s]->n_methods; i++) {
            char path[200];
            snprintf(path, sizeof path, "/%s/%s", services[s]->name, services[s]->methods[i].name);
            const struct method *row = row_of(path);
            check(row && row->request == services[s]->methods[i].input &&
                      row->response == services[s]->methods[i].output,
                  __FILE__, __LINE__, "%s has other types in methods.def", path);
        }
}

TEST(methods_reflection_symbols_are_sorted) {
    for (size_t i = 1; i < reflection_n_symbols; i++)
        CHECK(strcmp(reflection_symbols[i - 1].name, reflection_symbols[i].name) < 0);
}
