/* file_work — a step of a transfer that may wait for the disk, on a thread of libuv's pool.
 *
 * Most: FILE_WORK_MOST at a time of those that take turns; who comes later waits in order. The pool has
 * FILE_WORK_THREADS: a disk that hangs takes none of the rest, which are for what else waits for disks, such as the
 * removal of sandboxes.
 * Owner:   whoever embeds it, until on_done or a cancel that answers true. All but `run` is the loop's. */
#pragma once

#include <uv.h>

#include "base/list.h"
#include "base/macros.h"

#define FILE_WORK_MOST 12
#define FILE_WORK_THREADS "16" /* bermd's UV_THREADPOOL_SIZE */

/* The daemon's; it ends after its loop. */
struct file_turns {
    uv_loop_t *loop;
    unsigned running;
    struct list waiting;
};

struct file_work {
    uv_work_t work;
    struct file_turns *turns;
    struct list waiting;
    void (*run)(struct file_work *w); /* on the thread */
    void (*on_done)(struct file_work *w);
};

void file_turns_init(struct file_turns *t, uv_loop_t *loop);

void file_work_start(struct file_work *w);
/* True: it has not begun and never will; on_done does not come. */
MUST_USE bool file_work_cancel(struct file_work *w);
