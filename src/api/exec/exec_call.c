#include "api/exec/exec_call.h"

#include "api/checks.h"

void *exec_call_state(struct call *c, size_t n) {
    struct err e;
    c->state = arena_zalloc(&c->arena, n);
    if (!c->state) {
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        call_finish(c, &e);
    }
    return c->state;
}

int exec_call_find(const struct call *c, const char *id, const char *field, struct exec **ret_x,
                   struct err *e) {
    struct caller who;
    if (check_id(field, id, e) < 0)
        return -(int)e->code;
    context_caller(c, &who);
    if (registry_find_exec(exec_call_registry(c), &who, id, ret_x, e) < 0)
        return err_about(e, "exec_id", id);
    return 0;
}

int exec_call_find_sandbox(const struct call *c, const char *id, const char *field,
                           struct sandbox **ret_sb, struct err *e) {
    struct registry *r = exec_call_registry(c);
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

static void *alloc_in_arena(void *arena, size_t n) {
    return arena_alloc(arena, n);
}

static void leave_in_arena(void *arena, void *p) {
    (void)arena;
    (void)p;
}

ProtobufCAllocator exec_call_allocator(struct call *c) {
    return (ProtobufCAllocator){alloc_in_arena, leave_in_arena, &c->arena};
}

struct err exec_call_error(const struct err *e, const char *exec_id, const struct exec_ask *ask) {
    struct err told = *e;
    if (!told.subject)
        err_about(&told, "exec_id", exec_id);
    if (told.code == ERR_STDIN_OFFSET && ask && !told.numbers[0].key)
        err_number(&told, "next_offset", (int64_t)ask->next_offset);
    return told;
}

int exec_call_close_input(struct exec *x, uint64_t offset, struct exec_ask *a, struct err *e) {
    const Berm__V1__StdinState *input = exec_record(x)->input;
    if (input->closed || offset >= input->next_offset)
        return exec_close_input(x, offset, a, e);
    err_set(e, ERR_STDIN_OFFSET, "%llu bytes were accepted",
            (unsigned long long)input->next_offset);
    return err_number(e, "next_offset", (int64_t)input->next_offset);
}

int exec_call_check_offsets(struct exec *x, const uint64_t offsets[EXEC_STREAMS], struct err *e) {
    for (unsigned s = 0; s < EXEC_STREAMS; s++) {
        uint64_t first, end = 0;
        if (s < exec_n_streams(x))
            exec_extent(x, s, &first, &end);
        if (offsets[s] <= end)
            continue;
        err_set(e, ERR_OFFSET_BEYOND_END, "%s ends at %llu", s == EXEC_STDOUT ? "stdout" : "stderr",
                (unsigned long long)end);
        return err_number(e, "end_offset", (int64_t)end);
    }
    return 0;
}
