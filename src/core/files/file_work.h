/* file_work — one step of a transfer that may block on the disk, on a thread of libuv's pool.
 *
 * Owner:   whoever embeds it.       End: on_done, or a cancel that returns true.
 * Bounds:  FILE_WORK_MOST run at a time; later ones wait in order. The pool has FILE_WORK_THREADS
 *          threads, so a disk that hangs leaves threads for other jobs, such as the removal of
 *          sandboxes.
 * Threads: only `run` is called on a worker thread. */
#pragma once

#include <uv.h>

#include "base/list.h"
#include "base/macros.h"

#define FILE_WORK_MOST 12
#define FILE_WORK_THREADS "16" /* value of UV_THREADPOOL_SIZE in bermd */

/* The queue of all file work, one per daemon. It outlives the loop. */
struct file_turns {
    uv_loop_t *loop;
    unsigned running;
    struct list waiting;
};

struct file_work {
    uv_work_t work;
    struct file_turns *turns;
    struct list waiting;
    void (*run)(struct file_work *w); /* called on a worker thread */
    void (*on_done)(struct file_work *w);
};

void file_turns_init(struct file_turns *t, uv_loop_t *loop);

void file_work_start(struct file_work *w);
/* Returns true when the work has not started and never will; on_done does not fire then. */
MUST_USE bool file_work_cancel(struct file_work *w);
