/* Checks that the store returns what was written, in order and once. test_db_failures.c covers
 * failures. */
#include <sys/stat.h>

#include "berm/v1/berm.pb-c.h"
#include "db_fixture.h"
#include "store/schema.h"

static struct db_fixture f;

static struct str text(char *out, size_t cap, const char *prefix, uint64_t number) {
    int n = snprintf(out, cap, "%s%llu", prefix, (unsigned long long)number);
    return (struct str){out, (size_t)n};
}

/* The id is derived from `number`. */
static void put_sandbox(struct db_txn *t, uint64_t number, struct str owner, uint32_t state,
                        struct str record) {
    char id[32];
    const struct db_sandbox row = {
        .id = text(id, sizeof id, "box-", number),
        .owner = owner,
        .number = number,
        .state = state,
        .wanted = 2,
        .slot = number + 100,
        .record = record,
        .deleted_unix_ms =
            state == BERM__V1__SANDBOX_STATE__SANDBOX_STATE_DELETED ? (int64_t)number * 1000 : 0};
    db_put_sandbox(t, &row);
}

static void put_exec(struct db_txn *t, uint64_t number, struct str sandbox_id, struct str owner,
                     uint32_t state) {
    char id[32];
    const struct db_exec row = {.id = text(id, sizeof id, "exec-", number),
                                .sandbox_id = sandbox_id,
                                .owner = owner,
                                .number = number,
                                .state = state,
                                .cgroup = 7,
                                .record = STR("program")};
    db_put_exec(t, &row);
}

/* Collects a list as text: "3 2 1". */
struct seen {
    char text[256];
    unsigned most; /* 0: all */
    unsigned n;
};
static bool see(struct seen *s, uint64_t number) {
    size_t at = strlen(s->text);
    snprintf(s->text + at, sizeof s->text - at, "%s%llu", s->n > 0 ? " " : "",
             (unsigned long long)number);
    return ++s->n != s->most;
}
static bool see_sandbox(void *user, const struct db_sandbox *row) {
    return see(user, row->number);
}
static bool see_exec(void *user, const struct db_exec *row) {
    return see(user, row->number);
}
static bool see_event(void *user, const struct db_event *row) {
    return see(user, row->sequence);
}

static void check_sandboxes(struct str owner, uint64_t before, const char *want) {
    struct seen s = {0};
    CHECK_INT(db_list_sandboxes(f.db, owner, before, see_sandbox, &s, &f.e), 0);
    CHECK_STR(s.text, want);
}

static void check_execs(struct str owner, struct str sandbox_id, uint64_t before,
                        const char *want) {
    struct seen s = {0};
    CHECK_INT(db_list_execs(f.db, owner, sandbox_id, before, see_exec, &s, &f.e), 0);
    CHECK_STR(s.text, want);
}

static void check_events(struct str owner, uint64_t after, const char *want) {
    struct seen s = {0};
    CHECK_INT(db_list_events(f.db, owner, after, see_event, &s, &f.e), 0);
    CHECK_STR(s.text, want);
}

static bool is_box_1(void *user, const struct db_sandbox *row) {
    CHECK_BYTES(row->id.p, row->id.n, "box-1", 5);
    CHECK_BYTES(row->owner.p, row->owner.n, "uid:1000", 8);
    CHECK_INT(row->number, 1);
    CHECK_INT(row->state, 2);
    CHECK_INT(row->wanted, 2);
    CHECK_INT(row->slot, 101);
    CHECK_BYTES(row->record.p, row->record.n, "a\0b", 3);
    CHECK_INT(row->deleted_unix_ms, 0);
    ++*(int *)user;
    return true;
}

static bool is_exec_1(void *user, const struct db_exec *row) {
    CHECK_BYTES(row->id.p, row->id.n, "exec-1", 6);
    CHECK_BYTES(row->sandbox_id.p, row->sandbox_id.n, "box-1", 5);
    CHECK_BYTES(row->owner.p, row->owner.n, "uid:1000", 8);
    CHECK_INT(row->number, 1);
    CHECK_INT(row->state, 2);
    CHECK_INT(row->cgroup, 7);
    CHECK_BYTES(row->record.p, row->record.n, "program", 7);
    ++*(int *)user;
    return true;
}

static bool is_event_9(void *user, const struct db_event *row) {
    CHECK_INT(row->sequence, 9);
    CHECK_INT(row->time_unix_ms, 9000);
    CHECK_BYTES(row->owner.p, row->owner.n, "uid:1000", 8);
    CHECK_BYTES(row->sandbox_id.p, row->sandbox_id.n, "box", 3);
    CHECK_INT(row->kind, 3);
    CHECK_BYTES(row->labels.p, row->labels.n, "k\0v\0", 4);
    CHECK_BYTES(row->record.p, row->record.n, "said", 4);
    ++*(int *)user;
    return true;
}

static const struct db_request request = {.identity = STR("uid:1000"),
                                          .request_id = STR("r-1"),
                                          .method = STR("CreateSandbox"),
                                          .digest = {1, 2, 3, [31] = 9},
                                          .object_id = STR("box-1"),
                                          .answer = STR(""),
                                          .expires_unix_ms = 5000};

static bool is_request(void *user, const struct db_request *row) {
    CHECK_BYTES(row->identity.p, row->identity.n, "uid:1000", 8);
    CHECK_BYTES(row->request_id.p, row->request_id.n, "r-1", 3);
    CHECK_BYTES(row->method.p, row->method.n, "CreateSandbox", 13);
    CHECK_BYTES(row->digest, 32, request.digest, 32);
    CHECK_BYTES(row->object_id.p, row->object_id.n, "box-1", 5);
    CHECK_INT(row->answer.n, 0);
    CHECK_INT(row->expires_unix_ms, 5000);
    ++*(int *)user;
    return true;
}

static void check_all_are_there(void) {
    int seen = 0;
    CHECK_INT(db_find_sandbox(f.db, STR("box-1"), is_box_1, &seen, &f.e), 1);
    CHECK_INT(db_find_exec(f.db, STR("exec-1"), is_exec_1, &seen, &f.e), 1);
    CHECK_INT(db_list_events(f.db, STR(""), 0, is_event_9, &seen, &f.e), 0);
    CHECK_INT(db_find_request(f.db, STR("uid:1000"), STR("r-1"), is_request, &seen, &f.e), 1);
    CHECK_INT(seen, 4);
    CHECK_INT(db_find_sandbox(f.db, STR("box-2"), is_box_1, &seen, &f.e), 0);
    CHECK_INT(db_find_exec(f.db, STR("exec-2"), is_exec_1, &seen, &f.e), 0);
    CHECK_INT(db_find_request(f.db, STR("uid:1001"), STR("r-1"), is_request, &seen, &f.e), 0);
    CHECK_INT(seen, 4);
}

TEST(db_returns_stored_rows_even_after_a_restart) {
    struct stat st;
    db_fresh(&f);
    CHECK(f.facts.is_new);
    CHECK_INT(f.facts.head_sequence + f.facts.sandbox_number + f.facts.exec_number, 0);
    struct db_txn *t = db_begin(f.db);
    put_sandbox(t, 1, STR("uid:1000"), 2, STR("a\0b"));
    put_exec(t, 1, STR("box-1"), STR("uid:1000"), 2);
    struct db_event event = db_event_of(9, STR("said"));
    db_put_event(t, &event);
    db_put_request(t, &request);
    CHECK_INT(db_commit_now(&f, t), 0);
    check_all_are_there();
    CHECK_INT(stat(db_path(&f, "berm.db"), &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    CHECK_INT(stat(db_path(&f, "berm.db-wal"), &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    db_stop(&f);
    CHECK(access(db_path(&f, "berm.db-wal"), F_OK) < 0);

    CHECK_INT(db_start(&f), 0);
    CHECK(!f.facts.is_new);
    CHECK_INT(f.facts.head_sequence, 9);
    CHECK_INT(f.facts.oldest_sequence, 9);
    CHECK_INT(db_oldest_sequence(f.db), 9);
    CHECK_INT(f.facts.sandbox_number, 1);
    CHECK_INT(f.facts.exec_number, 1);
    check_all_are_there();
    db_finish(&f);
}

TEST(db_lists_newest_first_by_owner_sandbox_and_number) {
    db_fresh(&f);
    struct db_txn *t = db_begin(f.db);
    for (uint64_t i = 1; i <= 6; i++) {
        put_sandbox(t, i, i % 2 ? STR("odd") : STR("even"), i <= 2 ? 8 : 2, STR("r"));
        put_exec(t, i, i <= 3 ? STR("box-1") : STR("box-2"), i <= 3 ? STR("odd") : STR("even"),
                 (uint32_t)i % 4 + 1);
        struct db_event event = db_event_of(i, STR("e"));
        event.owner = i == 3 ? STR("") : i % 2 ? STR("odd") : STR("even");
        db_put_event(t, &event);
    }
    CHECK_INT(db_commit_now(&f, t), 0);
    check_sandboxes(STR(""), 0, "6 5 4 3 2 1");
    check_sandboxes(STR(""), 3, "2 1");
    check_sandboxes(STR("odd"), 0, "5 3 1");
    check_sandboxes(STR("odd"), 5, "3 1");
    check_sandboxes(STR("nobody"), 0, "");
    check_execs(STR(""), STR(""), 0, "6 5 4 3 2 1");
    check_execs(STR(""), STR("box-1"), 0, "3 2 1");
    check_execs(STR("even"), STR("box-1"), 0, "");
    check_execs(STR("even"), STR("box-2"), 6, "5 4");
    check_execs(STR("odd"), STR(""), 3, "2 1");
    check_events(STR(""), 0, "1 2 3 4 5 6");
    check_events(STR(""), 4, "5 6");
    check_events(STR("odd"), 0, "1 5");
    check_events(STR("even"), 2, "4 6");
    struct seen s = {.most = 2};
    CHECK_INT(db_list_sandboxes(f.db, STR(""), 0, see_sandbox, &s, &f.e), 0);
    CHECK_STR(s.text, "6 5");
    db_finish(&f);
}

TEST(db_lists_living_sandboxes_and_running_execs) {
    db_fresh(&f);
    struct db_txn *t = db_begin(f.db);
    for (uint32_t state = 1; state <= 8; state++)
        put_sandbox(t, state, STR("me"), state, STR("r"));
    for (uint32_t state = 1; state <= 4; state++)
        put_exec(t, state, STR("box-1"), STR("me"), state);
    CHECK_INT(db_commit_now(&f, t), 0);
    struct seen living = {0}, running = {0};
    CHECK_INT(db_each_living(f.db, see_sandbox, &living, &f.e), 0);
    CHECK_STR(living.text, "1 2 3 4 5 6 7");
    CHECK_INT(db_each_running(f.db, see_exec, &running, &f.e), 0);
    CHECK_STR(running.text, "1 2");
    /* The numbers in the schema must be those of the API. */
    CHECK_INT(BERM__V1__SANDBOX_STATE__SANDBOX_STATE_DELETED, 8);
    CHECK_INT(BERM__V1__EXEC_STATE__EXEC_STATE_STARTING, 1);
    CHECK_INT(BERM__V1__EXEC_STATE__EXEC_STATE_RUNNING, 2);
    CHECK_INT(BERM__V1__EXEC_STATE__EXEC_STATE_EXITED, 3);
    CHECK_INT(BERM__V1__EXEC_STATE__EXEC_STATE_LOST, 4);
    db_finish(&f);
}

static bool see_change(void *user, const struct db_sandbox *row) {
    CHECK_INT(row->state, 8);
    CHECK_INT(row->number, 1);
    CHECK_BYTES(row->owner.p, row->owner.n, "me", 2);
    CHECK_BYTES(row->record.p, row->record.n, "new", 3);
    CHECK_INT(row->deleted_unix_ms, 1000);
    ++*(int *)user;
    return true;
}

TEST(db_put_with_the_same_id_updates_the_row) {
    int seen = 0;
    db_fresh(&f);
    struct db_txn *t = db_begin(f.db);
    put_sandbox(t, 1, STR("me"), 2, STR("old"));
    put_exec(t, 1, STR("box-1"), STR("me"), 2);
    CHECK_INT(db_commit_now(&f, t), 0);
    t = db_begin(f.db);
    put_sandbox(t, 1, STR("me"), 8, STR("new"));
    put_exec(t, 1, STR("box-1"), STR("me"), 3);
    CHECK_INT(db_commit_now(&f, t), 0);
    CHECK_INT(db_find_sandbox(f.db, STR("box-1"), see_change, &seen, &f.e), 1);
    CHECK_INT(seen, 1);
    struct seen s = {0};
    CHECK_INT(db_each_living(f.db, see_sandbox, &s, &f.e), 0);
    CHECK_INT(db_each_running(f.db, see_exec, &s, &f.e), 0);
    CHECK_INT(s.n, 0);
    check_sandboxes(STR("me"), 0, "1");
    db_finish(&f);
}

static bool has_no_record(void *user, const struct db_sandbox *row) {
    *(bool *)user = row->record.n == 0;
    return true;
}
static bool exec_has_no_record(void *user, const struct db_exec *row) {
    *(bool *)user = row->record.n == 0;
    return true;
}

TEST(db_keeps_the_ids_of_deleted_records) {
    bool empty = false;
    db_fresh(&f);
    struct db_txn *t = db_begin(f.db);
    for (uint64_t i = 1; i <= 5; i++)
        put_exec(t, i, i <= 3 ? STR("box-1") : STR("box-2"), STR("me"), 3);
    CHECK_INT(db_commit_now(&f, t), 0);
    t = db_begin(f.db);
    db_forget_execs(t, STR("box-1"));
    db_forget_exec(t, STR("exec-4"));
    CHECK_INT(db_commit_now(&f, t), 0);
    check_execs(STR(""), STR(""), 0, "5");
    check_execs(STR(""), STR("box-1"), 0, "");
    check_execs(STR("me"), STR(""), 0, "5");
    CHECK_INT(db_find_exec(f.db, STR("exec-1"), exec_has_no_record, &empty, &f.e), 1);
    CHECK(empty);
    CHECK_INT(db_find_exec(f.db, STR("exec-4"), exec_has_no_record, &empty, &f.e), 1);
    CHECK(empty);
    CHECK_INT(db_find_exec(f.db, STR("exec-5"), exec_has_no_record, &empty, &f.e), 1);
    CHECK(!empty);
    db_finish(&f);
}

static void prune(int64_t now, int64_t events_before, uint64_t least, int64_t deleted_before) {
    struct db_txn *t = db_begin(f.db);
    db_prune(t, now, events_before, least, deleted_before);
    CHECK_INT(db_commit_now(&f, t), 0);
}

TEST(db_prunes_expired_requests_events_and_histories) {
    bool empty = false;
    int seen = 0;
    db_fresh(&f);
    struct db_txn *t = db_begin(f.db);
    db_put_request(t, &request);
    for (uint64_t i = 1; i <= 10; i++) {
        put_sandbox(t, i, STR("me"), i <= 5 ? 8 : 2, STR("r"));
        struct db_event event = db_event_of(i, STR("e"));
        if (i == 5)
            event.time_unix_ms = 50; /* the clock was set back */
        if (i == 3)
            event.time_unix_ms = 100000;
        db_put_event(t, &event);
    }
    CHECK_INT(db_commit_now(&f, t), 0);
    prune(4999, 0, 0, 0);
    check_events(STR(""), 0, "1 2 3 4 5 6 7 8 9 10");
    check_sandboxes(STR(""), 0, "10 9 8 7 6 5 4 3 2 1");
    CHECK_INT(db_find_request(f.db, STR("uid:1000"), STR("r-1"), is_request, &seen, &f.e), 1);
    prune(5000, 8000, 9, 3000);
    CHECK_INT(db_find_request(f.db, STR("uid:1000"), STR("r-1"), is_request, &seen, &f.e), 0);
    check_events(STR(""), 0, "2 3 4 5 6 7 8 9 10"); /* at least nine stay */
    check_sandboxes(STR("me"), 0, "10 9 8 7 6 5 4 3");
    CHECK_INT(db_find_sandbox(f.db, STR("box-2"), has_no_record, &empty, &f.e), 1);
    CHECK(empty);
    prune(5000, 8000, 0, 3000);
    check_events(STR(""), 0, "3 4 5 6 7 8 9 10"); /* no gap after the third */
    CHECK_INT(db_oldest_sequence(f.db), 3);
    prune(5000, 1000000, 0, 3000);
    check_events(STR(""), 0, "10"); /* the newest stays because it holds the last sequence */
    db_stop(&f);
    CHECK_INT(db_start(&f), 0);
    CHECK_INT(f.facts.head_sequence, 10);
    CHECK_INT(f.facts.oldest_sequence, 10);
    CHECK_INT(f.facts.sandbox_number, 10);
    db_finish(&f);
}

struct order {
    unsigned index;
    unsigned *next;
    bool durable;
};
static void on_ordered(void *user, const struct err *e) {
    struct order *o = user;
    CHECK_INT(o->index, (*o->next)++);
    o->durable = !e;
}

TEST(db_reports_in_order_and_never_inside_commit) {
    enum { N = 300 };
    static struct order orders[N];
    unsigned next = 0;
    db_fresh(&f);
    for (unsigned i = 0; i < N; i++) {
        struct db_txn *t = db_begin(f.db);
        struct db_event event = db_event_of(i + 1, STR("e"));
        if (i % 10 != 5) /* every tenth is a barrier */
            db_put_event(t, &event);
        orders[i] = (struct order){i, &next, false};
        db_commit(t, on_ordered, &orders[i]);
        CHECK_INT(next, 0);
    }
    while (next < N)
        uv_run(&f.loop, UV_RUN_ONCE);
    CHECK_INT(db_count_events(&f), N - N / 10);
    for (unsigned i = 0; i < N; i++)
        CHECK(orders[i].durable);
    db_finish(&f);
}

/* Commits a follow-up txn inside each `done`, even while the store is closing. */
struct chain {
    uint64_t at;
    uint64_t end;
};
static void on_link(void *user, const struct err *e) {
    struct chain *c = user;
    CHECK(!e);
    CHECK(!f.closed);
    if (c->at == c->end)
        return;
    struct db_event event = db_event_of(++c->at, STR("e"));
    struct db_txn *t = db_begin(f.db);
    db_put_event(t, &event);
    db_commit(t, on_link, c);
}

TEST(db_close_commits_queued_and_follow_up_txns) {
    struct chain chain = {0, 20};
    db_fresh(&f);
    on_link(&chain, NULL);
    db_finish(&f);
    CHECK_INT(chain.at, 20);
    db_fresh(&f);
    for (uint64_t i = 1; i <= 100; i++) {
        struct db_txn *t = db_begin(f.db);
        struct db_event event = db_event_of(i, STR("e"));
        db_put_event(t, &event);
        db_commit(t, NULL, NULL);
    }
    db_stop(&f);
    CHECK_INT(db_start(&f), 0);
    CHECK_INT(db_count_events(&f), 100);
    db_finish(&f);
}

static void on_close_inside(void *user, const struct err *e) {
    CHECK(!e);
    if (user)
        db_close(f.db, db_on_closed, &f);
    f.answered++;
}

TEST(db_may_be_closed_inside_done) {
    db_fresh(&f);
    db_commit(db_begin(f.db), on_close_inside, &f);
    db_commit(db_begin(f.db), on_close_inside, NULL);
    db_drop(db_begin(f.db));
    uv_run(&f.loop, UV_RUN_DEFAULT);
    CHECK(f.closed);
    CHECK_INT(f.answered, 2);
    CHECK_INT(uv_loop_close(&f.loop), 0);
    db_remove_dir(&f);
}

/* The writer checkpoints regularly, so the log does not grow with the total amount of writes. */
TEST(db_log_stays_short) {
    static char big[16384];
    struct stat st;
    db_fresh(&f);
    for (uint64_t i = 1; i <= 3000; i++) {
        struct db_txn *t = db_begin(f.db);
        struct db_event event = db_event_of(i, (struct str){big, sizeof big});
        db_put_event(t, &event);
        if (i % 50 == 0)
            CHECK_INT(db_commit_now(&f, t), 0);
        else
            db_commit(t, NULL, NULL);
    }
    CHECK_INT(stat(db_path(&f, "berm.db-wal"), &st), 0);
    CHECK(st.st_size < 16 << 20);
    CHECK_INT(db_count_events(&f), 3000);
    db_finish(&f);
}

static bool on_plan(void *user, struct sql_row *row) {
    struct str detail = sql_get_bytes(row, 3);
    char *out = user;
    size_t at = strlen(out);
    snprintf(out + at, 512 - at, "%.*s; ", (int)detail.n, detail.p);
    return true;
}

/* Every list uses an index in its order. No statement sorts, and only one may scan. */
TEST(db_statements_use_their_indexes) {
    struct sql *s;
    char query[1024];
    db_fresh(&f);
    db_stop(&f);
    CHECK_INT(sql_open(db_path(&f, "berm.db"), NULL, 0, &s, &f.e), 0);
    for (int i = STATEMENT_FORGET_EXECS; i < STATEMENT_COUNT; i++) {
        char plan[512] = "";
        snprintf(query, sizeof query, "EXPLAIN QUERY PLAN %s", schema_statements[i]);
        CHECK_INT(sql_exec(s, query, on_plan, plan, &f.e), 0);
        bool sorts = strstr(plan, "TEMP B-TREE");
        bool scans = strstr(plan, "SCAN events;") || strstr(plan, "SCAN sandboxes;") ||
                     strstr(plan, "SCAN execs;") || strstr(plan, "SCAN requests;");
        bool may_scan = i == STATEMENT_PRUNE_EVENTS; /* scans up to the first event that stays */
        check(!sorts && (!scans || may_scan), __FILE__, __LINE__, "%s: %s", query, plan);
    }
    sql_close(s);
    db_remove_dir(&f);
}
