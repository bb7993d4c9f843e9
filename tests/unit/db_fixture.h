/* db_fixture — a store in a temporary directory, and a loop to run it. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "store/db.h"

struct db_fixture {
    char dir[64];
    uv_loop_t loop;
    struct db *db;
    struct db_facts facts;
    unsigned answered; /* by on_done */
    unsigned failed;
    unsigned first_failed; /* number of the first failed report, from 1 */
    struct err e;          /* the last failure */
    bool closed;
};

static inline void db_make_dir(struct db_fixture *f) {
    *f = (struct db_fixture){.dir = "/tmp/berm-db-XXXXXX"};
    CHECK(mkdtemp(f->dir) != NULL);
}

static inline int db_start(struct db_fixture *f) {
    f->closed = false;
    uv_loop_init(&f->loop);
    int r = db_open(&f->loop, f->dir, &f->db, &f->facts, &f->e);
    if (r < 0) {
        uv_run(&f->loop, UV_RUN_DEFAULT);
        CHECK_INT(uv_loop_close(&f->loop), 0);
    }
    return r;
}

static inline void db_on_closed(void *user) {
    ((struct db_fixture *)user)->closed = true;
}

static inline void db_stop(struct db_fixture *f) {
    db_close(f->db, db_on_closed, f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    CHECK(f->closed);
    CHECK_INT(uv_loop_close(&f->loop), 0);
}

static inline const char *db_path(const struct db_fixture *f, const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    return path;
}

static inline void db_remove_dir(struct db_fixture *f) {
    static const char *const names[] = {"berm.db", "berm.db-wal", "berm.db-shm", "berm.db-journal",
                                        "ballast"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        unlink(db_path(f, names[i]));
    CHECK_INT(rmdir(f->dir), 0);
}

static inline void db_fresh(struct db_fixture *f) {
    db_make_dir(f);
    CHECK_INT(db_start(f), 0);
}

static inline void db_finish(struct db_fixture *f) {
    db_stop(f);
    db_remove_dir(f);
}

static inline void db_on_done(void *user, const struct err *e) {
    struct db_fixture *f = user;
    f->answered++;
    if (e) {
        if (f->failed++ == 0)
            f->first_failed = f->answered;
        f->e = *e;
    }
}

/* Commits and waits for the result: 0 or -code. */
static inline int db_commit_now(struct db_fixture *f, struct db_txn *t) {
    unsigned answered = f->answered, failed = f->failed;
    db_commit(t, db_on_done, f);
    while (f->answered == answered)
        uv_run(&f->loop, UV_RUN_ONCE);
    return f->failed == failed ? 0 : -(int)f->e.code;
}

static inline struct db_event db_event_of(uint64_t sequence, struct str record) {
    return (struct db_event){.sequence = sequence,
                             .time_unix_ms = (int64_t)sequence * 1000,
                             .owner = STR("uid:1000"),
                             .sandbox_id = STR("box"),
                             .kind = 3,
                             .labels = STR("k\0v\0"),
                             .record = record};
}

static inline int db_put_event_now(struct db_fixture *f, uint64_t sequence, struct str record) {
    struct db_txn *t = db_begin(f->db);
    struct db_event row = db_event_of(sequence, record);
    db_put_event(t, &row);
    return db_commit_now(f, t);
}

static inline bool db_count_event(void *user, const struct db_event *row) {
    (void)row;
    ++*(unsigned *)user;
    return true;
}

static inline unsigned db_count_events(struct db_fixture *f) {
    unsigned n = 0;
    CHECK_INT(db_list_events(f->db, STR(""), 0, db_count_event, &n, &f->e), 0);
    return n;
}
