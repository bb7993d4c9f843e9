/* execs — all execs of one sandbox that are in memory, and what they share.
 *
 * Owner:   the sandbox, which embeds the set and calls it when the guest answers, when the instance
 *          is gone, and when the files are removed.
 * Memory:  execs that run, that a caller watches, or whose end is not durable; the table finds them
 *          by id.
 * Bounds:  limits.execs running at once, limits.output_bytes of output together. */
#pragma once

#include "base/map.h"
#include "core/box/box.h"
#include "core/exec/exec.h"
#include "core/guest/guest_notice.h"
#include "store/db.h"

/* The execs of all sandboxes; the registry owns it. */
struct exec_table {
    struct map by_id;
    struct list idle;      /* ended and without watchers: freed at the end of the loop turn */
    uint64_t newest;       /* number of the newest exec */
    uint64_t newest_found; /* the value of `newest` when this daemon started */
    unsigned n_cgroups_ahead;
};

/* An exec cgroup that was created ahead of its exec; see exec_cgroup.c. */
struct exec_cgroup_ahead {
    uint32_t cgroup;       /* its number; 0 = none */
    int fd;                /* -1 = the driver is creating it */
    struct deadline quiet; /* when an unused cgroup is removed */
};

struct execs {
    struct box *box;
    struct exec_table *table;
    struct list all;
    unsigned n_started; /* since records were last pruned */
    unsigned n_running;
    uint64_t newest; /* number of the last exec that this daemon started; 0 = none */
    struct exec_cgroup_ahead ahead;
    bool cgroups_are_swept;  /* cgroups that the previous daemon left are removed */
    uint64_t oom_kills_seen; /* the instance's count when bermd last looked for an OOM kill */
    uint64_t output_kept;    /* bytes of all its execs, once output_counted */
    bool output_counted;
};

/* -errno */
MUST_USE int exec_table_init(struct exec_table *t, uint64_t newest);
void exec_table_done(struct exec_table *t);
struct exec *exec_table_find(const struct exec_table *t, const char *id); /* NULL: not in memory */
void exec_table_drop_idle(struct exec_table *t);
/* Rebuilds an exec from its row. `set` NULL: its sandbox is gone. NULL on a damaged record or no
 * memory. */
struct exec *exec_restore(struct env *env, struct exec_table *t, struct execs *set,
                          const struct db_exec *row);

void execs_init(struct execs *set, struct box *b, struct exec_table *t);
/* Frees all execs of the set. */
void execs_done(struct execs *set);
/* NULL: this sandbox has no such exec. The id comes from the guest, so an exec of another sandbox
 *       is not found. */
struct exec *execs_find(struct execs *set, struct str id);
/* Reads the current count of OOM kills, so that later kills can be detected. */
void execs_learn_kills(struct execs *set);
/* The guest answers: starts every exec that it does not know, and continues the others. */
void execs_resume(struct execs *set);
/* The guest answers: copies output that only the guest has, if the link passes no descriptors. */
void execs_fetch(struct execs *set);
/* Wakes the watchers of execs that have not started: the sandbox is no longer ready. */
void execs_wake_starting(struct execs *set);
/* The guest does not answer: takes exits from status files, which the last daemon may have
 * reported. */
void execs_take_reported(struct execs *set);
/* The instance is gone: takes exits from status files, else the execs are lost. */
void execs_gone(struct execs *set);
/* The files are being removed: frees every exec without pending entries. */
void execs_drop_settled(struct execs *set);
/* Puts the current record of every running exec into the entry. */
void execs_put_running(struct execs *set, struct entry *t);
/* Removes the records and files of the oldest ended execs beyond the limit. */
void execs_prune(struct execs *set, struct entry *t);
/* Bytes of output kept on disk, counted on first use. */
uint64_t execs_output_bytes(struct execs *set);
void execs_count_output(struct execs *set);

/* Reports of the guest about one exec, in its hello or as a notification. */
void exec_on_known(struct exec *x, const struct guest_exec_state *state);
void exec_on_grew(struct exec *x, const uint64_t sizes[EXEC_STREAMS]);
void exec_on_exited(struct exec *x, const struct guest_exec_state *state);
void exec_on_stdin_writable(struct exec *x, uint64_t next_offset);
/* The end of the exec is durable. */
bool exec_is_settled(const struct exec *x);
/* The files of the sandbox are being removed. */
bool exec_is_removed(const struct exec *x);
