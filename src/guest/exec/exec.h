/* exec — one program in the sandbox, with every process that it starts.
 *
 * Owner:  struct execs, from the `exec` request until `done` and one loop turn longer.
 * States: exec_state.h. The exit is reported exactly once, after it is on disk.
 * Bounds: EXECS_MAX remembered, EXECS_RUNNING_MAX running.
 * Errors: EXEC_NOT_FOUND, EXEC_ENDED.   Spec: spec/guest.md, "Programs"
 * Files:  exec_spec and exec_start handle the request, exec_input and exec_output move bytes, exec_end
 *         ends the exec, exec_report writes it as JSON; launch, tree and pty deal with the kernel. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "guest/exec/exec_control.h"
#include "guest/exec/exec_end.h"
#include "guest/exec/exec_input.h"
#include "guest/exec/exec_output.h"
#include "guest/exec/exec_report.h"
#include "guest/exec/exec_start.h"
#include "guest/exec/exec_state.h"
#include "guest/exec/tree.h"
#include "guest/loop.h"

#define EXECS_MAX 4096
#define EXECS_RUNNING_MAX 1024
#define EXEC_ID_MAX 48
#define GRACE_DEFAULT_MS 5000
#define GRACE_MAX_MS 60000

struct guest;
struct request;

struct exec {
    struct list node; /* in execs.all, oldest first, or in execs.lingering */
    struct later grave;
    struct guest *guest;
    char id[EXEC_ID_MAX + 1];

    enum exec_life life;
    enum exec_processes processes;
    enum exec_cause cause;
    enum exec_kill kill;
    unsigned notices; /* one bit for each pending notification (enum exec_notice) */

    struct tree tree;
    pid_t session; /* session id of the leader; descendants share it unless they call setsid */
    bool keep_descendants;
    int terminal; /* master side of the terminal; -1: no terminal */
    struct exec_input input;
    struct exec_output output;
    struct exec_signals signals;
    struct exec_end end;

    uint64_t started_unix_ms;
    uint64_t max_rss_bytes; /* peak memory of the largest reaped process */
    struct exec_exit exit;
};

struct execs {
    struct guest *guest;
    struct list all;
    struct list lingering;
    size_t count; /* number of execs in `all` */
    size_t running;
    struct exec *spare; /* the last freed exec, reused because new memory costs page faults */
    uint64_t ignored;   /* signals that the guest ignores, as in struct launch; 0: not read yet */
};

void execs_init(struct execs *all, struct guest *g);
void execs_done(struct execs *all);
struct exec *execs_find(struct execs *all, struct str id);
/* Returns whether the guest keeps output that the daemon has not released with `done`. */
bool execs_hold_output(const struct execs *all);

/* Returns NULL when out of memory. The caller has checked `id`. */
struct exec *exec_new(struct guest *g, struct str id);
void exec_free(struct exec *x);
/* Frees the exec at the end of the loop turn. */
void exec_free_later(struct exec *x);
/* Adds a new exec to the list. */
void exec_register(struct exec *x);
/* Finds the exec that the member `exec_id` names. Fails with EXEC_NOT_FOUND. */
MUST_USE int exec_of_request(struct request *r, struct exec **ret, struct err *e);
/* Fails with EXEC_ENDED unless the leader is running. */
MUST_USE int exec_check_running(const struct exec *x, struct err *e);

int exec_method_done(struct request *r, struct err *e);
