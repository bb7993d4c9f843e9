/* health — grpc.health.v1: is the daemon, or one of its services, serving? */
#include "api/methods.h"
#include "api/system/reflection_data.h"
#include "grpc/health/v1/health.pb-c.h"

#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

/* Returns the status of a service; "" stands for the daemon as a whole. */
static serving_status health_status(const struct call *c, const char *service) {
    bool known = service[0] == '\0';
    for (size_t i = 0; i < reflection_n_services && !known; i++)
        known = strcmp(reflection_services[i], service) == 0;
    if (!known)
        return SERVICE_UNKNOWN;
    return c->api->draining ? NOT_SERVING : SERVING;
}

static void health_on_check(struct call *c, const ProtobufCMessage *m) {
    const Grpc__Health__V1__HealthCheckRequest *request = (const void *)m;
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct err e;
    response.status = health_status(c, request->service);
    if (response.status != SERVICE_UNKNOWN) {
        call_reply(c, &response.base);
        return;
    }
    err_set(&e, ERR_SERVICE_NOT_FOUND, "no service has the name \"%.80s\"", request->service);
    call_finish(c, &e);
}

const struct handler api_health_check = {.on_message = health_on_check};

/* The status changes only when the daemon starts to drain, which ends the watch. */
static void health_on_watch(struct call *c, const ProtobufCMessage *m) {
    const Grpc__Health__V1__HealthCheckRequest *request = (const void *)m;
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = health_status(c, request->service);
    call_send(c, &response.base);
}

static void health_on_watch_drain(struct call *c) {
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct err e;
    response.status = NOT_SERVING;
    if (call_send(c, &response.base) == CALL_GONE)
        return;
    err_set(&e, ERR_SHUTTING_DOWN, "the daemon is stopping");
    call_finish(c, &e);
}

const struct handler api_health_watch = {.on_message = health_on_watch,
                                         .on_drain = health_on_watch_drain};
