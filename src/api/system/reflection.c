/* reflection — grpc.reflection.v1 and v1alpha: lets a stock client discover the contract. */
#include <assert.h>

#include "api/methods.h"
#include "api/system/reflection_data.h"
#include "grpc/reflection/v1/reflection.pb-c.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

#define MAX_SERVICES 32
#define ANSWER(kind) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##kind
#define ASKS(kind) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##kind

static void reflection_send(struct call *c, reflection_response *response) {
    if (call_send(c, &response->base) == CALL_FULL)
        call_hold(c); /* take no further request until the client reads */
}

static void reflection_on_writable(struct call *c) {
    call_release(c);
}

static void reflection_answer_error(struct call *c, reflection_response *response,
                                    enum grpc_code code, const char *text) {
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    error.error_code = (int32_t)code;
    error.error_message = (char *)text;
    response->message_response_case = ANSWER(ERROR_RESPONSE);
    response->error_response = &error;
    reflection_send(c, response);
}

static void reflection_answer_file(struct call *c, reflection_response *response,
                                   const struct reflection_file *file) {
    Grpc__Reflection__V1__FileDescriptorResponse files =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    if (!file) {
        reflection_answer_error(c, response, GRPC_NOT_FOUND,
                                "no file of the contract has this name");
        return;
    }
    ProtobufCBinaryData bytes = {file->n, (uint8_t *)file->bytes};
    files.n_file_descriptor_proto = 1;
    files.file_descriptor_proto = &bytes;
    response->message_response_case = ANSWER(FILE_DESCRIPTOR_RESPONSE);
    response->file_descriptor_response = &files;
    reflection_send(c, response);
}

static const struct reflection_file *reflection_file_named(const char *name) {
    for (size_t i = 0; i < reflection_n_files; i++)
        if (strcmp(reflection_files[i].name, name) == 0)
            return &reflection_files[i];
    return NULL;
}

static int reflection_compare_symbol(const void *name, const void *symbol) {
    return strcmp(name, ((const struct reflection_symbol *)symbol)->name);
}

static const struct reflection_file *reflection_file_with(const char *symbol) {
    const struct reflection_symbol *found =
        bsearch(symbol, reflection_symbols, reflection_n_symbols, sizeof *reflection_symbols,
                reflection_compare_symbol);
    return found ? &reflection_files[found->file] : NULL;
}

static void reflection_answer_services(struct call *c, reflection_response *response) {
    Grpc__Reflection__V1__ListServiceResponse list =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse items[MAX_SERVICES];
    Grpc__Reflection__V1__ServiceResponse *pointers[MAX_SERVICES];
    assert(reflection_n_services <= MAX_SERVICES); /* generated at build time */
    for (size_t i = 0; i < reflection_n_services; i++) {
        grpc__reflection__v1__service_response__init(&items[i]);
        items[i].name = (char *)reflection_services[i];
        pointers[i] = &items[i];
    }
    list.n_service = reflection_n_services;
    list.service = pointers;
    response->message_response_case = ANSWER(LIST_SERVICES_RESPONSE);
    response->list_services_response = &list;
    reflection_send(c, response);
}

static void reflection_answer_extensions(struct call *c, reflection_response *response,
                                         const char *type) {
    Grpc__Reflection__V1__ExtensionNumberResponse none =
        GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;
    if (!reflection_file_with(type)) {
        reflection_answer_error(c, response, GRPC_NOT_FOUND, "the contract has no such type");
        return;
    }
    /* the list of numbers stays empty: proto3 has no extensions */
    none.base_type_name = (char *)type;
    response->message_response_case = ANSWER(ALL_EXTENSION_NUMBERS_RESPONSE);
    response->all_extension_numbers_response = &none;
    reflection_send(c, response);
}

static void reflection_on_message(struct call *c, const ProtobufCMessage *m) {
    const reflection_request *request = (const reflection_request *)m;
    reflection_response response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    response.valid_host = request->host;
    response.original_request = (reflection_request *)request;
    switch (request->message_request_case) {
    case ASKS(FILE_BY_FILENAME):
        reflection_answer_file(c, &response, reflection_file_named(request->file_by_filename));
        return;
    case ASKS(FILE_CONTAINING_SYMBOL):
        reflection_answer_file(c, &response, reflection_file_with(request->file_containing_symbol));
        return;
    case ASKS(FILE_CONTAINING_EXTENSION):
        reflection_answer_file(c, &response, NULL);
        return;
    case ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE):
        reflection_answer_extensions(c, &response, request->all_extension_numbers_of_type);
        return;
    case ASKS(LIST_SERVICES):
        reflection_answer_services(c, &response);
        return;
    case ASKS(_NOT_SET):
    case _GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__CASE_IS_INT_SIZE:
        break;
    }
    reflection_answer_error(c, &response, GRPC_INVALID_ARGUMENT, "the request asks for nothing");
}

static void reflection_on_half_close(struct call *c) {
    call_finish(c, NULL);
}

static void reflection_on_drain(struct call *c) {
    struct err e;
    err_set(&e, ERR_SHUTTING_DOWN, "the daemon is stopping");
    call_finish(c, &e);
}

const struct handler api_reflection = {
    .on_message = reflection_on_message,
    .on_half_close = reflection_on_half_close,
    .on_writable = reflection_on_writable,
    .on_drain = reflection_on_drain,
};
