/* Checks that a store that cannot write reports it, keeps what it promised, and recovers.
 *
 * Tests that change the process or its mounts run in a child, which returns true or prints what it
 * saw. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "db_fixture.h"
#include "store/schema.h"

static struct db_fixture f;
static char page[4096];
static const struct str record = {page, sizeof page};

static bool in_child(bool (*body)(void)) {
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(body() ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static void hand_over(uint64_t sequence, struct str bytes) {
    struct db_txn *t = db_begin(f.db);
    struct db_event event = db_event_of(sequence, bytes);
    db_put_event(t, &event);
    db_commit(t, db_on_done, &f);
}

static void wait_for(unsigned answers) {
    while (f.answered < answers)
        uv_run(&f.loop, UV_RUN_ONCE);
}

TEST(db_failure_fails_all_txns_committed_before_its_report) {
    db_fresh(&f);
    CHECK_INT(db_put_event_now(&f, 1, record), 0);
    hand_over(1, record); /* a duplicate number is a bug */
    hand_over(2, record);
    usleep(30000); /* so that the writer has usually failed before these come */
    hand_over(3, record);
    hand_over(4, record);
    wait_for(5);
    CHECK_INT(f.failed, 4);
    CHECK_INT(f.e.code, ERR_INTERNAL);
    CHECK_INT(db_count_events(&f), 1);
    CHECK_INT(db_put_event_now(&f, 2, record), 0);
    CHECK_INT(db_count_events(&f), 2);
    db_finish(&f);
}

static void on_first(void *user, const struct err *e) {
    db_on_done(user, e);
    hand_over(3, record);
}

/* Two batches are reported in one loop iteration, the second with a failure that is not reported
 * yet. */
TEST(db_failure_fails_txns_committed_inside_an_earlier_done) {
    db_fresh(&f);
    struct db_txn *t = db_begin(f.db);
    struct db_event event = db_event_of(1, record);
    db_put_event(t, &event);
    db_commit(t, on_first, &f);
    t = db_begin(f.db);
    db_spoil(t);
    db_commit(t, db_on_done, &f);
    usleep(100000);
    wait_for(3);
    CHECK_INT(f.failed, 2);
    CHECK_INT(db_count_events(&f), 1);
    CHECK_INT(db_put_event_now(&f, 2, record), 0);
    db_finish(&f);
}

TEST(db_refuses_a_duplicate_number) {
    db_fresh(&f);
    struct db_txn *t = db_begin(f.db);
    struct db_sandbox row = {.id = STR("a"), .owner = STR("me"), .number = 1, .record = STR("r")};
    db_put_sandbox(t, &row);
    CHECK_INT(db_commit_now(&f, t), 0);
    t = db_begin(f.db);
    row.id = STR("b");
    db_put_sandbox(t, &row);
    CHECK_INT(db_commit_now(&f, t), -ERR_INTERNAL);
    db_finish(&f);
}

TEST(db_refuses_txns_past_its_queue_bound_in_order) {
    static char big[1 << 20];
    enum { FITS = 63 }; /* of DB_QUEUE_BYTES; each is a little larger than its record */
    db_fresh(&f);
    for (uint64_t i = 1; i <= FITS + 3; i++) /* the loop does not run, so all of them are queued */
        hand_over(i, (struct str){big, sizeof big});
    hand_over(1000, record); /* would fit, but comes after refused txns */
    wait_for(FITS + 4);
    CHECK_INT(f.first_failed, FITS + 1);
    CHECK_INT(f.failed, 4);
    CHECK_INT(f.e.code, ERR_LIMIT_REACHED);
    CHECK_INT(db_count_events(&f), FITS);
    CHECK_INT(db_put_event_now(&f, 1000, record), 0);
    db_finish(&f);
}

TEST(db_reports_out_of_memory_and_recovers) { /* covers: ERR-8 */
    static char big[100000];
    db_make_dir(&f);
    unsigned n = 0;
    int r;
    do { /* fail every allocation of opening the store */
        alloc_fail_at(++n);
        r = db_start(&f);
        if (r < 0)
            CHECK_INT(r, -ERR_OUT_OF_MEMORY);
    } while (r < 0);
    alloc_fail_at(0);
    CHECK(n > 3);
    CHECK_INT(db_put_event_now(&f, 1, record), 0);

    for (n = 1; n <= 2; n++) {
        alloc_fail_at(n);
        CHECK(db_begin(f.db) == NULL);
    }
    struct db_txn *t = db_begin(f.db);
    struct db_event event = db_event_of(2, (struct str){big, sizeof big});
    alloc_fail_at(1);
    db_put_event(t, &event);
    CHECK(alloc_failed());
    alloc_fail_at(0);
    event = db_event_of(3, STR("small"));
    db_put_event(t, &event); /* an incomplete txn must not be written */
    CHECK_INT(db_commit_now(&f, t), -ERR_OUT_OF_MEMORY);
    CHECK_INT(db_count_events(&f), 1);
    CHECK_INT(db_put_event_now(&f, 2, record), 0);
    db_finish(&f);
}

TEST(db_writes_nothing_of_a_spoiled_txn) {
    db_fresh(&f);
    struct db_txn *t = db_begin(f.db);
    struct db_event event = db_event_of(1, record);
    db_put_event(t, &event);
    db_spoil(t);
    db_put_event(t, &event);
    CHECK_INT(db_commit_now(&f, t), -ERR_OUT_OF_MEMORY);
    CHECK_INT(db_count_events(&f), 0);
    db_finish(&f);
}

static bool open_while_held(void) {
    struct db_fixture other = f;
    return CHECK_INT(db_start(&other), -ERR_STORE_FAILED) &&
           CHECK(strstr(other.e.text, "another process uses it") != NULL);
}

TEST(db_refuses_a_second_process) {
    db_fresh(&f);
    CHECK(open_while_held());
    CHECK(in_child(open_while_held));
    CHECK_INT(db_put_event_now(&f, 1, record), 0);
    db_finish(&f);
    db_make_dir(&f);
    CHECK_INT(rmdir(f.dir), 0);
    CHECK_INT(db_start(&f), -ERR_STORE_FAILED); /* no such directory */
}

/* ---- Invalid files ---- */

struct bytes {
    char *p;
    size_t n;
};

static struct bytes load(const char *name) {
    struct stat st;
    struct bytes b = {.p = NULL};
    int fd = open(db_path(&f, name), O_RDONLY);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        b.p = malloc((size_t)st.st_size + 1);
        b.n = (size_t)st.st_size;
        CHECK_INT(read(fd, b.p, b.n), b.n);
        close(fd);
    }
    if (!b.p)
        b.p = calloc(1, 1); /* no such file: no bytes */
    return b;
}

static void store_bytes(const char *name, const void *p, size_t n, off_t at) {
    int fd = open(db_path(&f, name), O_WRONLY | O_CREAT, 0600);
    CHECK_INT(pwrite(fd, p, n, at), n);
    close(fd);
}

/* Checks that opening fails with `want` and does not change the database and its log. */
static void check_refused(int want) {
    struct bytes db = load("berm.db"), log = load("berm.db-wal");
    CHECK_INT(db_start(&f), want);
    CHECK_INT(db_start(&f), want); /* again, because the first attempt must not repair anything */
    struct bytes db_after = load("berm.db"), log_after = load("berm.db-wal");
    CHECK_BYTES(db_after.p, db_after.n, db.p, db.n);
    CHECK_BYTES(log_after.p, log_after.n, log.p, log.n);
    free(db.p), free(log.p), free(db_after.p), free(log_after.p);
}

static bool write_and_die(void) {
    if (db_start(&f) < 0)
        return false;
    for (uint64_t i = 1; i <= 200; i++)
        if (db_put_event_now(&f, i, record) < 0)
            return false;
    return true; /* without closing, so that the log stays */
}

static void with_log_left(void) {
    db_make_dir(&f);
    CHECK(in_child(write_and_die));
    CHECK_INT(access(db_path(&f, "berm.db-wal"), F_OK), 0);
}

TEST(db_recovers_the_log_of_a_dead_process) {
    with_log_left();
    CHECK_INT(db_start(&f), 0);
    CHECK_INT(f.facts.head_sequence, 200);
    CHECK_INT(db_count_events(&f), 200);
    db_finish(&f);
}

TEST(db_leaves_a_damaged_file_untouched) {
    static char noise[65536];
    memset(noise, 0xa5, sizeof noise);
    db_make_dir(&f); /* not a database */
    store_bytes("berm.db", noise, sizeof noise, 0);
    check_refused(-ERR_STORE_CORRUPT);
    db_remove_dir(&f);

    db_make_dir(&f); /* a page that does not fit the others */
    CHECK(in_child(write_and_die));
    CHECK_INT(db_start(&f), 0);
    db_stop(&f);
    store_bytes("berm.db", noise, 8192, 60 * 4096); /* only the check at start reads these pages */
    check_refused(-ERR_STORE_CORRUPT);
    db_remove_dir(&f);

    with_log_left(); /* the same, in a page that the log does not replace */
    store_bytes("berm.db", noise, 4096, 4096);
    check_refused(-ERR_STORE_CORRUPT);
    db_remove_dir(&f);
}

TEST(db_refuses_an_empty_file_beside_a_log) {
    with_log_left();
    CHECK_INT(truncate(db_path(&f, "berm.db"), 0), 0);
    check_refused(-ERR_STORE_CORRUPT);
    unlink(db_path(&f, "berm.db"));
    check_refused(-ERR_STORE_CORRUPT);
    CHECK(access(db_path(&f, "berm.db"), F_OK) < 0);
    db_remove_dir(&f);
}

static void change_file(const char *text) {
    struct sql *s;
    CHECK_INT(sql_open(db_path(&f, "berm.db"), NULL, 0, &s, &f.e), 0);
    CHECK_INT(sql_exec(s, text, NULL, NULL, &f.e), 0);
    sql_keep_log(s, false);
    sql_close(s);
}

TEST(db_refuses_newer_versions_and_foreign_files) {
    db_fresh(&f);
    db_stop(&f);
    change_file("PRAGMA user_version = 99");
    check_refused(-ERR_STORE_FAILED);
    CHECK(strstr(f.e.text, "version 99") != NULL);
    db_remove_dir(&f);

    db_make_dir(&f);
    store_bytes("berm.db", "", 0, 0); /* an empty file counts as absent */
    change_file("CREATE TABLE theirs (x)");
    check_refused(-ERR_STORE_CORRUPT);
    change_file("DROP TABLE theirs");
    CHECK_INT(db_start(&f), 0); /* version 0 without tables */
    CHECK(f.facts.is_new);
    db_finish(&f);
}

static bool on_number(void *user, struct sql_row *row) {
    *(int64_t *)user = sql_get_int(row, 0);
    return false;
}

TEST(schema_migrates_in_one_transaction_or_not_at_all) {
    static const char *const texts[] = {"CREATE TABLE a (x); INSERT INTO a VALUES (1)",
                                        "ALTER TABLE a ADD COLUMN y DEFAULT 5",
                                        "UPDATE a SET x = x + 1; CREATE TABLE b (x)",
                                        "CREATE TABLE c (x); INSERT INTO nowhere VALUES (1)"};
    struct sql *s;
    unsigned was;
    int64_t version = 0, sum = 0, tables = 0;
    db_make_dir(&f);
    store_bytes("berm.db", "", 0, 0);
    CHECK_INT(sql_open(db_path(&f, "berm.db"), NULL, 0, &s, &f.e), 0);
    CHECK_INT(schema_migrate(s, &(struct schema_steps){texts, 1}, &was, &f.e), 0);
    CHECK_INT(was, 0);
    CHECK_INT(schema_migrate(s, &(struct schema_steps){texts, 3}, &was, &f.e), 0);
    CHECK_INT(was, 1);
    CHECK_INT(schema_migrate(s, &(struct schema_steps){texts, 3}, &was, &f.e), 0);
    CHECK_INT(was, 3);
    CHECK_INT(schema_migrate(s, &(struct schema_steps){texts, 4}, &was, &f.e), -ERR_INTERNAL);
    CHECK_INT(schema_migrate(s, &(struct schema_steps){texts, 2}, &was, &f.e), -ERR_STORE_FAILED);
    CHECK_INT(sql_exec(s, "PRAGMA user_version", on_number, &version, &f.e), 0);
    CHECK_INT(version, 3);
    CHECK_INT(sql_exec(s, "SELECT x + y FROM a", on_number, &sum, &f.e), 0);
    CHECK_INT(sum, 7);
    CHECK_INT(sql_exec(s, "SELECT count(*) FROM sqlite_schema", on_number, &tables, &f.e), 0);
    CHECK_INT(tables, 2);
    sql_close(s);
    db_remove_dir(&f);
}

static bool is_of_native(void *user, const struct db_sandbox *row) {
    *(unsigned *)user +=
        str_is(row->driver, STR("native")) && str_is(row->instance, STR("p-1-")) && row->slot == 7;
    return true;
}

TEST(schema_gives_sandboxes_of_version_2_to_the_native_driver) {
    struct sql *s;
    unsigned was, seen = 0;
    db_make_dir(&f);
    store_bytes("berm.db", "", 0, 0);
    CHECK_INT(sql_open(db_path(&f, "berm.db"), NULL, 0, &s, &f.e), 0);
    CHECK_INT(schema_migrate(s, &(struct schema_steps){schema_steps.texts, 2}, &was, &f.e), 0);
    CHECK_INT(
        sql_exec(s,
                 "INSERT INTO sandboxes (id, owner, number, state, wanted, slot, record,"
                 " deleted_unix_ms, place) VALUES ('a', 'uid:0', 1, 2, 1, 7, x'00', 0, 'p-1-')",
                 NULL, NULL, &f.e),
        0);
    sql_close(s);
    CHECK_INT(db_start(&f), 0);
    CHECK_INT(db_each_living(f.db, is_of_native, &seen, &f.e), 0);
    CHECK_INT(seen, 1);
    db_finish(&f);
}

/* ---- A disk that is full, read-only, or failing ---- */

/* Runs the body in a mount namespace where it can mount. */
static void check_on_own_mount(bool (*body)(void)) {
    if (geteuid() != 0) {
        test_skip("only root mounts a small tmpfs");
        return;
    }
    db_make_dir(&f);
    CHECK(in_child(body));
    db_remove_dir(&f);
}

static bool mount_tmpfs(const char *options) {
    return CHECK_INT(unshare(CLONE_NEWNS), 0) &&
           CHECK_INT(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0) &&
           CHECK_INT(mount("tmpfs", f.dir, "tmpfs", 0, options), 0);
}

static bool put_ballast(size_t n) {
    int fd = open(db_path(&f, "ballast"), O_WRONLY | O_CREAT, 0600);
    bool ok = fd >= 0 && posix_fallocate(fd, 0, (off_t)n) == 0;
    close(fd);
    return CHECK(ok);
}

static bool fill_up(void) {
    uint64_t next = 1;
    if (!mount_tmpfs("size=1m") || !put_ballast(256 << 10) || !CHECK_INT(db_start(&f), 0))
        return false;
    while (db_put_event_now(&f, next, record) == 0)
        next++;
    if (!CHECK_INT(f.e.code, ERR_STORE_FULL) || !CHECK(next > 20))
        return false;
    for (int i = 0; i < 5; i++) /* stays full, and reads still work */
        if (!CHECK_INT(db_put_event_now(&f, next, record), -ERR_STORE_FULL) ||
            !CHECK_INT(db_count_events(&f), next - 1))
            return false;
    unlink(db_path(&f, "ballast"));
    for (int i = 0; i < 5; i++, next++)
        if (!CHECK_INT(db_put_event_now(&f, next, record), 0))
            return false;
    db_stop(&f);
    return CHECK_INT(db_start(&f), 0) && CHECK_INT(db_count_events(&f), next - 1);
}

TEST(db_reports_a_full_disk_and_recovers) {
    check_on_own_mount(fill_up);
}

/* Rewriting the same row needs no more disk space in the end: the log is checkpointed and
 * reused. */
static bool write_over(void) {
    struct db_sandbox row = {.id = STR("a"), .owner = STR("me"), .number = 1, .record = record};
    unsigned full = 0;
    bool was_full = false;
    if (!mount_tmpfs("size=1m") || !put_ballast(512 << 10) || !CHECK_INT(db_start(&f), 0))
        return false;
    for (int i = 0; i < 500; i++) {
        if (i == 1) { /* from here on the file has space for one row */
            db_stop(&f);
            if (!CHECK_INT(db_start(&f), 0))
                return false;
        }
        struct db_txn *t = db_begin(f.db);
        db_put_sandbox(t, &row);
        bool is_full = db_commit_now(&f, t) < 0;
        if (is_full && (!CHECK_INT(f.e.code, ERR_STORE_FULL) || !CHECK(!was_full)))
            return false;
        full += is_full;
        was_full = is_full;
    }
    return CHECK(full > 0);
}

TEST(db_frees_disk_space_by_a_checkpoint) {
    check_on_own_mount(write_over);
}

static bool begin_full(void) {
    size_t left = 0;
    if (!mount_tmpfs("size=256k") || !put_ballast(256 << 10))
        return false;
    /* wherever opening runs out of space */
    for (int r = -ERR_STORE_FULL; r < 0; left += 16 << 10) {
        if (left > 256 << 10 || truncate(db_path(&f, "ballast"), (256 << 10) - (off_t)left) < 0)
            return CHECK(!"there was room enough");
        r = db_start(&f);
        if (r < 0 && !CHECK(r == -ERR_STORE_FULL || r == -ERR_STORE_FAILED))
            return false;
    }
    unlink(db_path(&f, "ballast"));
    return CHECK_INT(db_put_event_now(&f, 1, record), 0) && CHECK(left > 0);
}

TEST(db_can_be_created_after_a_full_disk) {
    check_on_own_mount(begin_full);
}

static bool open_read_only(void) {
    if (!mount_tmpfs("size=8m") || !CHECK_INT(db_start(&f), 0) ||
        !CHECK_INT(db_put_event_now(&f, 1, record), 0))
        return false;
    db_stop(&f);
    if (!CHECK_INT(mount("none", f.dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0) ||
        !CHECK_INT(db_start(&f), -ERR_STORE_FAILED))
        return false;
    return CHECK_INT(mount("none", f.dir, NULL, MS_REMOUNT, NULL), 0) &&
           CHECK_INT(db_start(&f), 0) && CHECK_INT(db_count_events(&f), 1);
}

TEST(db_reports_an_unwritable_directory) {
    check_on_own_mount(open_read_only);
}

/* A file at its size limit fails writes with EFBIG, an error that a disk might return. */
static bool fail_writes(void) {
    uint64_t next = 1;
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    if (!CHECK_INT(db_start(&f), 0) || getrlimit(RLIMIT_FSIZE, &limit) < 0)
        return false;
    limit.rlim_cur = 200000;
    setrlimit(RLIMIT_FSIZE, &limit);
    while (db_put_event_now(&f, next, record) == 0)
        next++;
    if (!CHECK_INT(f.e.code, ERR_STORE_FAILED) || !CHECK_INT(db_count_events(&f), next - 1) ||
        !CHECK_INT(db_put_event_now(&f, next, record), -ERR_STORE_FAILED))
        return false;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 5; i++, next++)
        if (!CHECK_INT(db_put_event_now(&f, next, record), 0))
            return false;
    db_stop(&f);
    return CHECK_INT(db_start(&f), 0) && CHECK_INT(db_count_events(&f), next - 1);
}

TEST(db_recovers_after_a_failing_disk) {
    db_make_dir(&f);
    CHECK(in_child(fail_writes));
    db_remove_dir(&f);
}

static bool lose_file(void) {
    if (!CHECK_INT(db_start(&f), 0))
        return false;
    unlink(db_path(&f, "berm.db"));
    return CHECK_INT(db_put_event_now(&f, 1, record), -ERR_STORE_FAILED) &&
           CHECK(access(db_path(&f, "berm.db"), F_OK) < 0);
}

TEST(db_never_recreates_a_deleted_file) {
    db_make_dir(&f);
    CHECK(in_child(lose_file));
    db_remove_dir(&f);
}
