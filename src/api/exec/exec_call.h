/* exec_call — what the handlers of ExecService share. */
#pragma once

#include "api/context.h"
#include "core/exec/exec.h"

static inline struct registry *exec_call_registry(const struct call *c) {
    return context_of(c)->registry;
}
static inline struct ledger *exec_call_ledger(const struct call *c) {
    return registry_ledger(exec_call_registry(c));
}
static inline int64_t exec_call_limit(const struct call *c, enum limit_id id) {
    return registry_limits(exec_call_registry(c))->of[id];
}

/* The handler's state, zeroed, in the call's arena; NULL: the call has been finished. */
void *exec_call_state(struct call *c, size_t n);
/* INVALID_ARGUMENT by the name of the field, EXEC_NOT_FOUND. */
MUST_USE int exec_call_find(const struct call *c, const char *id, const char *field,
                            struct exec **ret_x, struct err *e);
/* SANDBOX_DELETED while it is known that there was one, SANDBOX_NOT_FOUND. */
MUST_USE int exec_call_find_sandbox(const struct call *c, const char *id, const char *field,
                                    struct sandbox **ret_sb, struct err *e);
/* An allocator for messages that live as long as the call. */
ProtobufCAllocator exec_call_allocator(struct call *c);
/* What the guest or core said, with the program's id and, of input, the next byte. */
struct err exec_call_error(const struct err *e, const char *exec_id, const struct exec_ask *ask);
/* exec_close_input, refused when more was accepted before the end than the caller thinks. */
MUST_USE int exec_call_close_input(struct exec *x, uint64_t offset, struct exec_ask *a,
                                   struct err *e);
/* OFFSET_BEYOND_END, with the end in the metadata. */
MUST_USE int exec_call_check_offsets(struct exec *x, const uint64_t offsets[EXEC_STREAMS],
                                     struct err *e);
