#include "api/subject.h"

#include "api/checks.h"

int subject_find_sandbox(const struct call *c, const char *id, const char *field,
                         struct sandbox **ret_sb, struct err *e) {
    struct registry *r = context_registry(c);
    Berm__V1__Sandbox *deleted;
    struct caller who;
    struct err ignored;
    if (check_id(field, id, e) < 0)
        return -(int)e->code;
    context_caller(c, &who);
    if (registry_find_sandbox(r, &who, id, ret_sb, e) == 0)
        return 0;
    if (registry_find_deleted(r, &who, id, &deleted, &ignored) == 0) {
        berm__v1__sandbox__free_unpacked(deleted, NULL);
        err_set(e, ERR_SANDBOX_DELETED, "%s is deleted", id);
    }
    return err_about(e, "sandbox_id", id);
}

int subject_find_exec(const struct call *c, const char *id, const char *field, struct exec **ret_x,
                      struct err *e) {
    struct caller who;
    if (check_id(field, id, e) < 0)
        return -(int)e->code;
    context_caller(c, &who);
    if (registry_find_exec(context_registry(c), &who, id, ret_x, e) < 0)
        return err_about(e, "exec_id", id);
    return 0;
}

struct err subject_exec_error(const struct err *e, const char *exec_id,
                              const struct exec_ask *ask) {
    struct err reported = *e;
    if (!reported.subject)
        err_about(&reported, "exec_id", exec_id);
    if (reported.code == ERR_STDIN_OFFSET && ask && !reported.numbers[0].key)
        err_number(&reported, "next_offset", (int64_t)ask->next_offset);
    return reported;
}
