/* jobs — file work done by a child of the guest as the sandbox user, so that the kernel checks the user's
 * rights and a slow disk or a huge tree never holds up the loop.
 *
 * Owner:  struct jobs; a job lives from its request to its answer.
 * Trust:  the child cannot be traced (it is not dumpable); user code may kill it, which is an INTERNAL
 *         error of that request alone. It holds no descriptor but its socket and those of its handle.
 * Bounds: JOBS_RUNNING at once, SEARCHES_RUNNING of them searches, which are refused above that and not kept
 *         waiting, so that they leave room for quick work; JOBS_WAITING requests in all; JOB_MAX_MS and
 *         JOB_MEMORY each.
 * Ends:   on_result, once, then the answer. The child may run on after it (`then`), as a watcher or for a
 *         tree; it is whoever on_result gave it to then. */
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
#define JOB_MEMORY ((size_t)256 << 20) /* of address space */
#define SEARCHES_RUNNING 8
#define SEARCH_MAX_MS 40000 /* for those that do not stop by themselves at their own bound */
#define JOB_FDS_MAX 2

struct guest;
struct request;

/* What the child works with. It writes the members of its result to `out`. */
struct work {
    const struct json *params;
    struct json_out *out;
    struct arena *arena;
    const char *workspace;
    const struct handle *handle; /* the one the request names, or NULL */
    int fds[JOB_FDS_MAX];        /* to pass to the guest; -1 at first */
    size_t n_fds;
    void (*then)(struct work *w); /* what to do once the answer is sent; NULL: nothing */
    void *then_arg;
};
typedef int work_fn(struct work *w, struct err *e);

struct job;
/* In the guest, with what the child wrote (members without braces) and its descriptors, which are the
 * callee's from here. It answers the request. */
typedef void job_result_fn(struct guest *g, struct job *j, struct str members, const int *fds,
                           size_t n_fds);

struct job {
    struct list node;
    struct later grave;
    struct guest *guest;
    int64_t id;
    uint64_t generation;
    uint64_t handle; /* 0: none */
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

/* A request whose work cannot begin yet, as it came. */
struct waiting {
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
    struct list children; /* of all kinds */
};

void jobs_init(struct jobs *js);
/* Ends what is being worked on, without answers. */
void jobs_done(struct jobs *js);
/* Begins the work of a request; answers REQUEST_LATER, REQUEST_WAIT when as many as may are at work, or
 * fails. `handle` may be NULL. */
MUST_USE int jobs_start(struct request *r, work_fn *work, job_result_fn *on_result,
                        const struct handle *handle, struct err *e);
/* The same for a search; fails with LIMIT_REACHED instead of waiting. */
MUST_USE int jobs_start_search(struct request *r, work_fn *work, struct err *e);
/* Keeps a request's text for later; LIMIT_REACHED. */
MUST_USE int jobs_wait(struct jobs *js, uint64_t generation, struct str text, struct err *e);
/* The next one that can begin, for the caller to free; or NULL. */
struct waiting *jobs_next(struct jobs *js);
/* The plain on_result: the members are the result. */
void jobs_answer(struct guest *g, struct job *j, struct str members, const int *fds, size_t n_fds);
