/* registry_list — reads pages of records and accepted request ids from the store, for calls. */
#include "base/clock.h"
#include "core/registry/registry_impl.h"

struct row_reader {
    registry_on_row *on;
    void *user;
};

static bool on_sandbox_row(void *user, const struct db_sandbox *row) {
    const struct row_reader *reader = user;
    return reader->on(reader->user, &(struct registry_row){.number = row->number,
                                                           .state = row->state,
                                                           .sandbox_id = row->id,
                                                           .record = row->record});
}

static bool on_exec_row(void *user, const struct db_exec *row) {
    const struct row_reader *reader = user;
    return reader->on(reader->user, &(struct registry_row){.number = row->number,
                                                           .state = row->state,
                                                           .sandbox_id = row->sandbox_id,
                                                           .record = row->record});
}

int registry_list_sandboxes(struct registry *r, struct str owner, uint64_t before,
                            registry_on_row *on, void *user, struct err *e) {
    return db_list_sandboxes(r->env.db, owner, before, on_sandbox_row,
                             &(struct row_reader){on, user}, e);
}

int registry_list_execs(struct registry *r, struct str owner, struct str sandbox_id,
                        uint64_t before, registry_on_row *on, void *user, struct err *e) {
    return db_list_execs(r->env.db, owner, sandbox_id, before, on_exec_row,
                         &(struct row_reader){on, user}, e);
}

int registry_list_running_execs(struct registry *r, registry_on_row *on, void *user,
                                struct err *e) {
    return db_each_running(r->env.db, on_exec_row, &(struct row_reader){on, user}, e);
}

struct request_finder {
    const struct request_key *key;
    struct arena *arena;
    struct accepted_request *found;
    bool has_expired;
};

static struct str copy_to_arena(struct arena *arena, struct str s) {
    return (struct str){arena_copy(arena, s.p, s.n), s.n};
}

static bool on_request(void *user, const struct db_request *row) {
    struct request_finder *f = user;
    f->has_expired = row->expires_unix_ms <= clock_unix_ms();
    f->found->is_same = str_is(row->method, str_of(f->key->method)) &&
                        memcmp(row->digest, f->key->digest, sizeof f->key->digest) == 0;
    f->found->object_id = copy_to_arena(f->arena, row->object_id);
    f->found->answer = copy_to_arena(f->arena, row->answer);
    return false;
}

int registry_find_request(struct registry *r, const struct request_key *key, struct arena *arena,
                          struct accepted_request *ret, struct err *e) {
    struct accepted_request accepted = {0};
    struct request_finder f = {.key = key, .arena = arena, .found = &accepted};
    int found = db_find_request(r->env.db, str_of(key->identity), str_of(key->request_id),
                                on_request, &f, e);
    if (found <= 0 || f.has_expired)
        return MIN(found, 0);
    if (!accepted.object_id.p || !accepted.answer.p)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    *ret = accepted;
    return 1;
}
