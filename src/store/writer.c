#include "store/writer.h"

#include <assert.h>
#include <signal.h>

#include "base/arena.h"
#include "base/list.h"
#include "store/schema.h"

/* Most txns contain one or two records of a few hundred bytes. */
#define FIRST_BYTES 2032
/* Length of the log, in pages. Past the first bound the thread checkpoints when it is idle; past
 * the second, right after it has posted the results. */
#define LOG_PAGES_IDLE 256
#define LOG_PAGES_MAX 2048
#define IDLE_NS ((uint64_t)100 * 1000 * 1000)

/* One statement with its values. Values and bytes are in the txn's arena. */
struct op {
    struct op *next;
    size_t statement;
    size_t n_values;
    struct sql_value values[];
};

struct db_txn {
    struct list node;
    struct writer *writer;
    struct arena arena;
    struct op *first;
    struct op **last;
    size_t bytes;
    bool out_of_memory;
    bool refused; /* the thread must not write it: out of memory, or the queue is full */
    bool failed;
    db_done *done;
    void *user;
};

struct writer {
    uv_async_t async;
    uv_thread_t thread;
    char *path;
    /* Used by the loop only. */
    size_t unanswered;
    bool closing;
    void (*on_closed)(void *user);
    void *user;
    /* Used by the thread only. */
    struct sql *sql;
    /* Shared, protected by the mutex. */
    uv_mutex_t mutex;
    uv_cond_t wake;
    struct list queue;
    struct list answered;
    size_t queue_bytes; /* total size of the txns without a result */
    bool broken;        /* `failure` is not reported yet; the thread writes nothing meanwhile */
    struct err failure;
    bool ending; /* no txn will be queued any more */
    bool ended;
};

/* ---- The thread ---- */

static int writer_open_sql(struct writer *w, struct err *e) {
    if (w->sql)
        return 0;
    int r = sql_open(w->path, schema_statements, STATEMENT_COUNT, &w->sql, e);
    if (r == 0)
        sql_mark_running(w->sql);
    if (r == 0)
        r = sql_exec(w->sql, "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864",
                     NULL, NULL, e);
    if (r < 0) {
        sql_close(w->sql);
        w->sql = NULL;
    }
    return r;
}

static int writer_write_txn(struct sql *s, const struct db_txn *t, struct err *e) {
    for (const struct op *op = t->first; op; op = op->next) {
        int r = sql_run(s, op->statement, op->values, op->n_values, NULL, NULL, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static int writer_write_batch(struct writer *w, struct list *batch, struct err *e) {
    bool has_work = false;
    LIST_FOR_EACH(it, batch) {
        const struct db_txn *t = container_of(it, struct db_txn, node);
        if (t->refused)
            return t->out_of_memory ? err_set(e, ERR_OUT_OF_MEMORY, "out of memory")
                                    : err_set(e, ERR_LIMIT_REACHED,
                                              "queue a write: %zu MiB already wait for the disk",
                                              DB_QUEUE_BYTES >> 20);
        has_work = has_work || t->first;
    }
    if (!has_work)
        return 0;
    int r = writer_open_sql(w, e);
    if (r < 0)
        return r;
    r = sql_run(w->sql, STATEMENT_BEGIN, NULL, 0, NULL, NULL, e);
    LIST_FOR_EACH(it, batch) {
        if (r == 0)
            r = writer_write_txn(w->sql, container_of(it, struct db_txn, node), e);
    }
    if (r == 0)
        r = sql_run(w->sql, STATEMENT_COMMIT, NULL, 0, NULL, NULL, e);
    return r;
}

/* Rolls back. On a full disk, checkpoints: the log then starts again at its beginning, which may
 * free disk space. Any other failure may be caused by the connection, so the next batch reopens
 * it. */
static void writer_recover(struct writer *w, const struct err *e) {
    if (!w->sql)
        return;
    sql_rollback(w->sql);
    if (e->code == ERR_STORE_FULL) {
        sql_checkpoint(w->sql);
        return;
    }
    sql_close(w->sql);
    w->sql = NULL;
}

/* Moves queued txns to the batch, up to the first refused txn. A refused txn gets a batch of its
 * own. */
static void writer_take_batch(struct writer *w, struct list *batch) {
    list_init(batch);
    LIST_FOR_EACH(it, &w->queue) {
        bool refused = container_of(it, struct db_txn, node)->refused;
        if (refused && !list_is_empty(batch))
            return;
        list_remove(it);
        list_push_back(batch, it);
        if (refused)
            return;
    }
}

static void writer_hand_back(struct writer *w, struct list *batch, bool failed) {
    struct list *it;
    while ((it = list_pop_front(batch))) {
        container_of(it, struct db_txn, node)->failed = failed;
        list_push_back(&w->answered, it);
    }
    uv_async_send(&w->async);
}

/* The mutex must be held. Returns false when the thread must end. */
static bool writer_wait_for_work(struct writer *w) {
    while (w->broken || list_is_empty(&w->queue)) {
        if (w->ending)
            return false;
        if (w->broken || !w->sql || sql_log_pages(w->sql) < LOG_PAGES_IDLE) {
            uv_cond_wait(&w->wake, &w->mutex);
        } else if (uv_cond_timedwait(&w->wake, &w->mutex, IDLE_NS) == UV_ETIMEDOUT) {
            uv_mutex_unlock(&w->mutex);
            sql_checkpoint(w->sql);
            uv_mutex_lock(&w->mutex);
        }
    }
    return true;
}

static void writer_run_thread(void *arg) {
    struct writer *w = arg;
    struct list batch;
    struct err e;
    uv_mutex_lock(&w->mutex);
    while (writer_wait_for_work(w)) {
        writer_take_batch(w, &batch);
        uv_mutex_unlock(&w->mutex);
        int r = writer_write_batch(w, &batch, &e);
        if (r < 0)
            writer_recover(w, &e);
        uv_mutex_lock(&w->mutex);
        if (r < 0) {
            w->broken = true;
            w->failure = e;
        }
        writer_hand_back(w, &batch, r < 0);
        if (r == 0 && w->sql && sql_log_pages(w->sql) >= LOG_PAGES_MAX) {
            uv_mutex_unlock(&w->mutex);
            sql_checkpoint(w->sql);
            uv_mutex_lock(&w->mutex);
        }
    }
    uv_mutex_unlock(&w->mutex);
    if (w->sql) {
        sql_checkpoint(w->sql); /* so that the loop's sql_close has nothing to write */
        sql_close(w->sql);
    }
    uv_mutex_lock(&w->mutex);
    w->ended = true;
    uv_async_send(&w->async);
    uv_mutex_unlock(&w->mutex);
}

/* ---- The loop ---- */

static void writer_free(struct writer *w) {
    uv_cond_destroy(&w->wake);
    uv_mutex_destroy(&w->mutex);
    free(w->path);
    free(w);
}

static void on_async_closed(uv_handle_t *handle) {
    struct writer *w = handle->data;
    void (*on_closed)(void *) = w->on_closed;
    void *user = w->user;
    writer_free(w);
    if (on_closed)
        on_closed(user);
}

/* Ends the thread when no further txn can come. */
static void writer_end_if_idle(struct writer *w) {
    if (!w->closing || w->unanswered > 0)
        return;
    uv_mutex_lock(&w->mutex);
    w->ending = true;
    uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->mutex);
}

static void writer_collect(struct writer *w, struct list *ret_answers, bool *ret_ended) {
    list_init(ret_answers);
    uv_mutex_lock(&w->mutex);
    for (struct list *it; (it = list_pop_front(&w->answered));) {
        w->queue_bytes -= container_of(it, struct db_txn, node)->bytes;
        list_push_back(ret_answers, it);
    }
    *ret_ended = w->ended;
    uv_mutex_unlock(&w->mutex);
}

/* Takes the first failure and fails every queued txn with it, including txns that earlier `done`
 * callbacks have queued. Then lets the thread continue. */
static void writer_fail_queue(struct writer *w, struct list *answers, struct err *ret_failure) {
    uv_mutex_lock(&w->mutex);
    *ret_failure = w->failure;
    for (struct list *it; (it = list_pop_front(&w->queue));) {
        struct db_txn *t = container_of(it, struct db_txn, node);
        t->failed = true;
        w->queue_bytes -= t->bytes;
        list_push_back(answers, it);
    }
    w->broken = false;
    uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->mutex);
}

static void on_async(uv_async_t *async) {
    struct writer *w = async->data;
    struct list answers, *it;
    struct err failure = {0};
    bool ended;
    writer_collect(w, &answers, &ended);
    if (ended) {
        uv_thread_join(&w->thread);
        uv_close((uv_handle_t *)&w->async, on_async_closed);
        return;
    }
    while ((it = list_pop_front(&answers))) {
        struct db_txn *t = container_of(it, struct db_txn, node);
        db_done *done = t->done;
        void *user = t->user;
        bool failed = t->failed;
        if (failed && failure.code == ERR_NONE)
            writer_fail_queue(w, &answers, &failure);
        writer_drop(t);
        if (done)
            done(user, failed ? &failure : NULL);
        /* after done(), so that a close inside it waits for the remaining results */
        w->unanswered--;
    }
    writer_end_if_idle(w);
}

int writer_start(uv_loop_t *loop, const char *path, struct writer **ret_writer, struct err *e) {
    struct writer *w = calloc(1, sizeof *w);
    if (!w || !(w->path = strdup(path))) {
        free(w);
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    }
    list_init(&w->queue);
    list_init(&w->answered);
    uv_mutex_init(&w->mutex);
    uv_cond_init(&w->wake);
    w->async.data = w;
    int r = uv_async_init(loop, &w->async, on_async);
    if (r < 0) {
        writer_free(w);
        return err_sys(e, ERR_STORE_FAILED, -r, "start the writer");
    }
    sigset_t all, old; /* block all signals in the thread; the loop handles them */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    r = uv_thread_create(&w->thread, writer_run_thread, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r < 0) {
        uv_close((uv_handle_t *)&w->async, on_async_closed);
        return err_sys(e, ERR_STORE_FAILED, -r, "start the writer");
    }
    *ret_writer = w;
    return 0;
}

void writer_close(struct writer *w, void (*on_closed)(void *user), void *user) {
    assert(!w->closing);
    w->closing = true;
    w->on_closed = on_closed;
    w->user = user;
    writer_end_if_idle(w);
}

struct db_txn *writer_begin(struct writer *w) {
    struct db_txn *t = calloc(1, sizeof *t);
    if (!t || arena_init(&t->arena, FIRST_BYTES, DB_QUEUE_BYTES) < 0) {
        free(t);
        return NULL;
    }
    list_init(&t->node);
    t->writer = w;
    t->last = &t->first;
    return t;
}

void writer_drop(struct db_txn *t) {
    arena_done(&t->arena);
    free(t);
}

void writer_add(struct db_txn *t, size_t statement, const struct sql_value *values, size_t n) {
    size_t bytes = sizeof(struct op) + n * sizeof values[0];
    size_t at = bytes;
    for (size_t i = 0; i < n; i++)
        bytes += values[i].bytes.n;
    struct op *op = t->out_of_memory ? NULL : arena_alloc(&t->arena, bytes);
    if (!op) {
        t->out_of_memory = true;
        return;
    }
    *op = (struct op){.statement = statement, .n_values = n};
    for (size_t i = 0; i < n; i++) {
        op->values[i] = values[i];
        if (values[i].bytes.n == 0)
            continue;
        op->values[i].bytes.p = (char *)op + at;
        memcpy((char *)op + at, values[i].bytes.p, values[i].bytes.n);
        at += values[i].bytes.n;
    }
    *t->last = op;
    t->last = &op->next;
    t->bytes += bytes;
}

void writer_spoil(struct db_txn *t) {
    t->out_of_memory = true;
}

void writer_commit(struct db_txn *t, db_done *done, void *user) {
    struct writer *w = t->writer;
    assert(!w->closing || w->unanswered > 0);
    t->done = done;
    t->user = user;
    w->unanswered++;
    uv_mutex_lock(&w->mutex);
    t->refused = t->out_of_memory || t->bytes > DB_QUEUE_BYTES - w->queue_bytes;
    if (t->refused) {
        arena_done(&t->arena);
        t->first = NULL;
        t->bytes = 0;
    }
    w->queue_bytes += t->bytes;
    list_push_back(&w->queue, &t->node);
    uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->mutex);
}
