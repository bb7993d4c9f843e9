#include "core/files/file_work.h"

void file_turns_init(struct file_turns *t, uv_loop_t *loop) {
    *t = (struct file_turns){.loop = loop};
    list_init(&t->waiting);
}

static void on_work(uv_work_t *work) {
    struct file_work *w = container_of(work, struct file_work, work);
    w->run(w);
}

static void on_after(uv_work_t *work, int status);

static void file_work_submit(struct file_work *w) {
    w->turns->running++;
    uv_queue_work(w->turns->loop, &w->work, on_work, on_after);
}

static void on_after(uv_work_t *work, int status) {
    (void)status; /* always 0, because bermd never calls uv_cancel */
    struct file_work *w = container_of(work, struct file_work, work);
    struct list *next = list_pop_front(&w->turns->waiting);
    w->turns->running--;
    if (next)
        file_work_submit(container_of(next, struct file_work, waiting));
    w->on_done(w);
}

void file_work_start(struct file_work *w) {
    list_init(&w->waiting);
    if (w->turns->running < FILE_WORK_MOST)
        file_work_submit(w);
    else
        list_push_back(&w->turns->waiting, &w->waiting);
}

bool file_work_cancel(struct file_work *w) {
    if (list_is_empty(&w->waiting))
        return false;
    list_remove(&w->waiting);
    return true;
}
