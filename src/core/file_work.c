#include "core/file_work.h"

/* The pool is the process's, and so is the order before it. */
static struct {
    unsigned running;
    struct list waiting;
} turns = {.waiting = {&turns.waiting, &turns.waiting}};

static void on_work(uv_work_t *work) {
    struct file_work *w = container_of(work, struct file_work, work);
    w->run(w);
}

static void on_after(uv_work_t *work, int status);

static void begin(struct file_work *w) {
    turns.running++;
    uv_queue_work(w->loop, &w->work, on_work, on_after);
}

static void on_after(uv_work_t *work, int status) {
    (void)status; /* what was begun is not cancelled */
    struct file_work *w = container_of(work, struct file_work, work);
    struct list *next = list_pop_front(&turns.waiting);
    turns.running--;
    if (next)
        begin(container_of(next, struct file_work, waiting));
    w->on_done(w);
}

void file_work_start(struct file_work *w) {
    list_init(&w->waiting);
    if (turns.running < FILE_WORK_MOST)
        begin(w);
    else
        list_push_back(&turns.waiting, &w->waiting);
}

bool file_work_cancel(struct file_work *w) {
    if (list_is_empty(&w->waiting))
        return false;
    list_remove(&w->waiting);
    return true;
}
