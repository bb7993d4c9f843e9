/* The table of methods, and a function for each method with one response. */
#include <string.h>

#include "base/macros.h"
#include "clients/c/client.h"
#include "clients/c/methods.h"

static const struct berm_method methods[] = {
#define METHOD(function, service, name, message, kind)                          \
    {"/berm.v1." service "/" #name, &berm__v1__##message##_request__descriptor, \
     &berm__v1__##message##_response__descriptor, METHOD_##kind},
#include "clients/c/methods.def"
#undef METHOD
};

const struct berm_method *method_of(enum method_id id) {
    return &methods[id];
}

const struct berm_method *berm_method_find(const char *name) {
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        const char *path = methods[i].path;
        if (strcmp(name, path) == 0 || strcmp(name, path + 1) == 0 ||
            strcmp(name, strrchr(path, '/') + 1) == 0)
            return &methods[i];
    }
    return NULL;
}

const char *berm_method_path(const struct berm_method *m) {
    return m->path;
}

bool berm_method_is_stream(const struct berm_method *m) {
    return m->kind != METHOD_UNARY;
}

const ProtobufCMessageDescriptor *berm_method_request(const struct berm_method *m) {
    return m->request;
}

const ProtobufCMessageDescriptor *berm_method_response(const struct berm_method *m) {
    return m->response;
}

#define DEFINE_UNARY(function, name)                                                 \
    int function(struct berm_client *c, const Berm__V1__##name##Request *request,    \
                 Berm__V1__##name##Response **ret_response, struct berm_error *e) {  \
        return berm_unary(c, method_of(METHOD_ID_##name), request, ret_response, e); \
    }
#define DEFINE_STREAM(function, name)
#define DEFINE_UPLOAD(function, name)
#define DEFINE_INTERACT(function, name)
#define METHOD(function, service, name, message, kind) DEFINE_##kind(function, name)
#include "clients/c/methods.def"
#undef METHOD
