#include "api/file/file_target.h"

#include <stdio.h>

#include "api/checks.h"
#include "api/subject.h"

const void *file_field(const ProtobufCMessage *m, const char *name) {
    return (const uint8_t *)m +
           protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name)->offset;
}

static const char *file_target_text(const ProtobufCMessage *m, const char *name) {
    return *(char *const *)file_field(m, name);
}

int file_target_read(struct file_target *t, const ProtobufCMessage *m, const char *prefix,
                     bool or_workspace, struct err *e) {
    char field[48];
    const char *path = file_target_text(m, "path");
    ProtobufCBinaryData raw = *(const ProtobufCBinaryData *)file_field(m, "raw_path");
    *t = (struct file_target){.prefix = prefix,
                              .sandbox_id = file_target_text(m, "sandbox_id"),
                              .incarnation = *(const uint64_t *)file_field(m, "incarnation"),
                              .user = file_target_text(m, "user")};
    snprintf(field, sizeof field, "%ssandbox_id", prefix);
    if (check_id(field, t->sandbox_id, e) < 0)
        return -(int)e->code;
    int r = or_workspace ? path_check_or_workspace("path", path, raw, &t->path, e)
                         : path_check(prefix, "path", path, raw, &t->path, e);
    snprintf(field, sizeof field, "%suser", prefix);
    if (r == 0 && strlen(t->user) > FILE_USER_MAX)
        r = err_field(e, field, "%s: must have at most %d bytes", field, FILE_USER_MAX);
    return r;
}

int file_target_open(const struct file_target *t, const struct call *c, bool with_handle,
                     const struct file_events *events, void *user, struct file_call **ret,
                     struct err *e) {
    struct sandbox *sb;
    if (subject_find_sandbox(c, t->sandbox_id, "sandbox_id", &sb, e) < 0)
        return -(int)e->code;
    return file_call_open(sandbox_files(sb), t->incarnation, with_handle, events, user, ret, e);
}

struct guest_file_request file_target_request(const struct file_target *t,
                                              enum guest_file_method method) {
    return (struct guest_file_request){
        .method = method, .path = file_target_path(&t->path), .user = t->user};
}

/* --- errors --- */

/* Returns whether a guest may report this error for a file request. Numbers 80 to 99 of errors.def
 * are about files. */
static bool file_target_is_guest_error(enum err_code code) {
    static const enum err_code others[] = {
        ERR_INVALID_ARGUMENT, ERR_LIMIT_REACHED, ERR_GUEST_LOST,        ERR_GUEST_PROTOCOL,
        ERR_UNIMPLEMENTED,    ERR_UNSUPPORTED,   ERR_INTERNAL,          ERR_MESSAGE_TOO_LARGE,
        ERR_USER_NOT_FOUND,   ERR_CANCELLED,     ERR_DEADLINE_EXCEEDED, ERR_OUT_OF_MEMORY,
    };
    if (code >= ERR_FILE_NOT_FOUND && (int)code < 100)
        return true;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (others[i] == code)
            return true;
    return false;
}

struct err file_target_error(const char *prefix, const char *sandbox_id, const struct err *e) {
    struct err reported = *e;
    size_t n = strlen(e->field);
    if (!file_target_is_guest_error(e->code)) {
        err_set(&reported, ERR_GUEST_PROTOCOL, "the guest reported %s, which a guest cannot report",
                err_face(e->code)->name);
    } else if (e->code != ERR_INVALID_ARGUMENT) {
        reported.field[0] = '\0';
    } else if (n > 4 && strcmp(e->field + n - 4, "_b64") == 0) {
        snprintf(reported.field, sizeof reported.field, "%sraw_%.*s", prefix, (int)(n - 4),
                 e->field);
    } else {
        snprintf(reported.field, sizeof reported.field, "%s%.60s", prefix,
                 n > 0 ? e->field : "path");
    }
    err_about(&reported, "sandbox_id", sandbox_id);
    return reported;
}

/* --- checks --- */

int file_check_mode(const char *field, const Berm__V1__FileMode *mode, struct err *e) {
    if (mode && mode->bits > 0777)
        return err_field(e, field, "%s: must be between 0 and 0777", field);
    return 0;
}

int file_check_most(const char *field, uint64_t value, enum limit_id limit, int64_t most,
                    struct err *e) {
    if (value <= (uint64_t)most)
        return 0;
    err_limit(e, ERR_INVALID_ARGUMENT, limit, most, "%s: must be at most %lld", field,
              (long long)most);
    return err_at(e, "%s", field);
}
