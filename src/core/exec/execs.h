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

/* The execs of all sandboxes. The registry owns the table. */
struct exec_table {
    struct map by_id;
    /* Execs that have ended and have no watchers: freed at the end of the loop turn. */
    struct list idle;
    uint64_t newest;       /* number of the newest exec */
    uint64_t newest_found; /* the value of `newest` when this daemon started */
    unsigned n_cgroups_ahead;
};

/* An exec cgroup that was created ahead of its exec; see exec_cgroup.c. */
struct exec_cgroup_ahead {
    uint32_t cgroup;       /* number of the cgroup; 0 = none */
    int fd;                /* -1 = the driver is creating the cgroup */
    struct deadline quiet; /* when to remove the cgroup if no exec has used it */
};

struct execs {
    struct box *box;
    struct exec_table *table;
    struct list all;
    unsigned n_started; /* execs started since records were last pruned */
    unsigned n_running;
    uint64_t newest; /* number of the last exec that this daemon started; 0 = none */
    struct exec_cgroup_ahead ahead;
    bool cgroups_are_swept;  /* bermd has removed the cgroups that the previous daemon left */
    uint64_t oom_kills_seen; /* OOM kills of the instance when bermd last looked */
    uint64_t output_kept;    /* bytes of all execs of the sandbox, valid if output_counted */
    bool output_counted;
};

/* Returns 0 or -errno. */
MUST_USE int exec_table_init(struct exec_table *t, uint64_t newest);
void exec_table_done(struct exec_table *t);
/* NULL: the exec is not in memory. */
struct exec *exec_table_find(const struct exec_table *t, const char *id);
void exec_table_drop_idle(struct exec_table *t);
/* Rebuilds an exec from its row. `set` NULL: the sandbox is gone. Returns NULL if the record is
 * damaged or memory is short. */
struct exec *exec_restore(struct env *env, struct exec_table *t, struct execs *set,
                          const struct db_exec *row);

void execs_init(struct execs *set, struct box *b, struct exec_table *t);
/* Frees all execs of the set. */
void execs_done(struct execs *set);
/* Returns an exec of this sandbox, or NULL. The id comes from the guest, so an exec of another
 * sandbox is not found. */
struct exec *execs_find(struct execs *set, struct str id);
/* Reads the current count of OOM kills, so that later kills can be detected. */
void execs_learn_kills(struct execs *set);
/* Call this when the guest answers. Starts every exec that the guest does not know, and continues
 * the others. */
void execs_resume(struct execs *set);
/* Call this when the guest answers. Copies output that only the guest has, if the link passes no
 * descriptors. */
void execs_fetch(struct execs *set);
/* Wakes the watchers of execs that have not started, because the sandbox is no longer ready. */
void execs_wake_starting(struct execs *set);
/* Call this when the guest does not answer. Reads the exits from the status files: the previous
 * daemon may have reported these exits to clients, so they must neither be lost nor change. */
void execs_take_reported(struct execs *set);
/* Call this when the instance is gone. Takes exits from status files; execs without a status file
 * become LOST. */
void execs_gone(struct execs *set);
/* Call this when the files are being removed. Frees every exec without pending entries. */
void execs_drop_settled(struct execs *set);
/* Puts the current record of every running exec into the entry. */
void execs_put_running(struct execs *set, struct entry *t);
/* Removes the records and files of the oldest ended execs beyond the limit. */
void execs_prune(struct execs *set, struct entry *t);
/* Returns the bytes of output kept on disk, which the first call counts. */
uint64_t execs_output_bytes(struct execs *set);
void execs_count_output(struct execs *set);

/* Handles reports of the guest about one exec, from its hello or a notification. */
void exec_on_known(struct exec *x, const struct guest_exec_state *state);
void exec_on_grew(struct exec *x, const uint64_t sizes[EXEC_STREAMS]);
void exec_on_exited(struct exec *x, const struct guest_exec_state *state);
void exec_on_stdin_writable(struct exec *x, uint64_t next_offset);
/* Returns whether the end of the exec is durable. */
bool exec_is_settled(const struct exec *x);
/* Returns whether the files of the sandbox are being removed. */
bool exec_is_removed(const struct exec *x);
