/* jobs — file work in a child process that runs as the sandbox user. The kernel checks the user's rights, and a
 * slow disk or a huge tree never blocks the loop.
 *
 * Owner:  struct jobs, from the request to its reply.
 * Trust:  the child is not dumpable, so user code cannot trace it. User code may kill it; then that one
 *         request fails with INTERNAL. The child has its socket and the descriptors of its handle, no others.
 * Bounds: JOBS_RUNNING jobs at once; further requests wait, at most JOBS_WAITING of them. At most
 *         SEARCHES_RUNNING jobs are searches; further searches fail at once, so that slow searches leave jobs
 *         free for quick work. JOB_MAX_MS and JOB_MEMORY per job.
 * End:    on_result, exactly once, which sends the reply. With `then` the child keeps running after its
 *         result, as a watcher or to pack a tree; on_result moves j->child to the new owner. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "guest/child.h"
#include "guest/handles.h"
#include "guest/loop.h"
#include "guest/user.h"

#define JOBS_RUNNING 16
#define JOBS_WAITING 256
#define JOBS_WAITING_BYTES ((size_t)4 << 20)
#define JOB_MAX_MS 300000
#define JOB_MEMORY ((size_t)256 << 20) /* bytes of address space */
#define SEARCHES_RUNNING 8
#define SEARCH_MAX_MS 40000 /* kills a search that misses its own time bound */
#define JOB_FDS_MAX 2

struct guest;
struct request;

/* What a work function gets in the child. The function writes the members of its result to
 * `out`. */
struct work {
    const struct json *params;
    struct json_out *out;
    struct arena *arena;
    const char *workspace;
    const struct handle *handle; /* the handle that the request names; NULL: none */
    int fds[JOB_FDS_MAX];        /* descriptors to pass to the guest */
    size_t n_fds;
    void (*then)(struct work *w); /* runs once the result is sent; NULL: the child exits */
    void *then_arg;
};
typedef int work_fn(struct work *w, struct err *e);

/* Reads the member `name` or `name`_b64 as a clean absolute path. Fails with INVALID_ARGUMENT or
 * OUT_OF_MEMORY. */
MUST_USE int work_path(struct work *w, const char *name, char **ret, struct err *e);

struct job;
/* Runs in the guest and replies to the request. `members` is what the child wrote, as JSON without
 * the outer braces. Takes ownership of the descriptors. */
typedef void job_result_fn(struct guest *g, struct job *j, struct str members, const int *fds,
                           size_t n_fds);

struct job {
    struct list node;
    struct later grave;
    struct guest *guest;
    int64_t id;
    uint64_t generation;
    uint64_t handle; /* handle that the request names; 0: none */
    job_result_fn *on_result;
    bool is_search;
    uint64_t max_ms;
    struct child child;
    struct source sock;
    struct timer limit;
    struct buf reply;
    int fds[JOB_FDS_MAX];
    size_t n_fds;
};

/* The unparsed text of a request that waits until a job ends. */
struct jobs_waiting {
    struct list node;
    uint64_t generation;
    size_t n;
    char text[];
};

struct jobs {
    struct list waiting;
    size_t n_waiting;
    size_t waiting_bytes;
    struct list running;
    size_t n_running;
    size_t n_searches;
    struct list children; /* list of struct child: children of jobs, watches and archives */
};

void jobs_init(struct jobs *js);
/* Kills running jobs and drops waiting requests, without replies. */
void jobs_done(struct jobs *js);
/* Starts a job. Returns REQUEST_LATER, or REQUEST_WAIT when JOBS_RUNNING jobs run, or fails. `handle` may be
 * NULL; else the job runs as the user that opened it. */
MUST_USE int jobs_start(struct request *r, work_fn *work, job_result_fn *on_result,
                        const struct handle *handle, struct err *e);
/* Does the same for a search, but fails with LIMIT_REACHED when SEARCHES_RUNNING searches run. */
MUST_USE int jobs_start_search(struct request *r, work_fn *work, struct err *e);
/* Keeps the text of a request that has to wait. Fails with LIMIT_REACHED or OUT_OF_MEMORY. */
MUST_USE int jobs_wait(struct jobs *js, uint64_t generation, struct str text, struct err *e);
/* Returns the next waiting request once a job can start, else NULL. The caller frees it. */
struct jobs_waiting *jobs_next(struct jobs *js);
/* An on_result that replies with the members as they are. */
void jobs_reply(struct guest *g, struct job *j, struct str members, const int *fds, size_t n_fds);
