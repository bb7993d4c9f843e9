/* cgroup — limits, usage, freezing and killing of a sandbox.
 *
 * Layout in each hierarchy: berm/<state>/<id>/{guest, x-<n>}. <state> identifies the state
 * directory, so that two berm-spawns on one machine do not share cgroups: the sweep of one must not
 * kill the sandboxes of the other. PID 1 is in `guest`, and every exec is in its own `x-<n>`.
 * Limits are set on <id>. On a v2 host this is one tree. On a hybrid host the v2 tree, which needs
 * no controllers, serves to kill, freeze and count CPU time, and the v1 controllers memory, pids
 * and cpu enforce the limits on <id>. Without v2, the v1 freezer and cpuacct replace it.
 *
 * berm-spawn reuses the v1 cgroups of ended sandboxes (cgroup_spare.c), because when the kernel
 * destroys a memory cgroup, it visits every file system while all other cgroup calls wait.
 *
 * berm-spawn never attaches a process by writing its pid into cgroup.procs from outside, because
 * that blocks the whole machine. v2 uses CLONE_INTO_CGROUP; on v1 the child writes "0" into the
 * `tasks` files that were opened for it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "spawn/request.h"

enum cgroup_v1 { CG_MEMORY, CG_PIDS, CG_CPU, CG_FREEZER, CG_CPUACCT, CG_V1_COUNT };
#define CG_SPARES 16

struct cgroups {
    int v2;              /* directory berm/<state>; -1: there is no v2 tree */
    int v1[CG_V1_COUNT]; /* directories berm/<state>; -1: v1 does not have the controller */
    bool v2_has[CG_V1_COUNT];
    bool has_kill;
    char state[48]; /* the name <state> */
    struct cgroup_spares {
        uint32_t kept; /* one bit per existing `.spare-<n>` */
        unsigned next; /* n of the next spare; the oldest spare is at or after it */
    } spares[CG_V1_COUNT];
    bool keeps_spares;
};

/* Returns the tree in which every sandbox has a directory. */
static inline int cgroup_seats(const struct cgroups *cg) {
    return cg->v2 >= 0 ? cg->v2 : cg->v1[CG_FREEZER];
}

/* The cgroup files that set limits. */
enum cgroup_knob {
    CG_KNOB_MEMORY,
    CG_KNOB_SWAP,
    CG_KNOB_SOCKETS,
    CG_KNOB_PIDS,
    CG_KNOB_CPU,
    CG_KNOBS
};
/* The open limit files of one sandbox; -1 if absent. Close them before the cgroups are removed,
 * because v1 cgroups are reused for another sandbox. */
struct cgroup_knobs {
    int fds[CG_KNOBS];
};

/* What a child needs to join the cgroups. */
struct cgroup_seat {
    int v2_cgroup; /* for CLONE_INTO_CGROUP; -1: none */
    int tasks[CG_V1_COUNT];
    unsigned n_tasks;
};

/* Initialises to empty, so that cgroup_finish is safe. */
void cgroup_init(struct cgroups *cg);
/* Finds the hierarchies and creates berm/<state>. Ignores v2 if use_v2 is false. `v1_wanted` has a
 * bit (1 << CG_MEMORY…) for each controller to use from v1. Those that replace a missing v2 are
 * always used. */
MUST_USE int cgroup_start(struct cgroups *cg, int state_fd, bool use_v2, unsigned v1_wanted);
/* Enables the reuse of v1 cgroups, including those that an earlier berm-spawn left. */
void cgroup_keep_spares(struct cgroups *cg);
/* Removes berm/<state> and its spares if no sandbox is left. */
void cgroup_finish(struct cgroups *cg);
/* Returns the bits for v1_wanted that these limits need. */
unsigned cgroup_v1_for(const struct spawn_limits *limits);
uint32_t cgroup_features(const struct cgroups *cg);

/* Creates <id> and the cgroup of PID 1. Leaves nothing behind on failure. `owner` is the host uid
 * of root inside, which may start programs in the exec cgroups. */
MUST_USE int cgroup_make(struct cgroups *cg, const char *id, const struct spawn_limits *limits,
                         uint32_t owner, struct cgroup_seat *ret_seat);
void cgroup_seat_close(struct cgroup_seat *seat);

/* Returns the owner that was passed to cgroup_make. */
MUST_USE int cgroup_owner(const struct cgroups *cg, const char *id, uint32_t *ret_owner);

/* Sets the limits of a sandbox. A limit of 0 leaves the old value. Implemented in
 * cgroup_limits.c. */
MUST_USE int cgroup_set_limits(const struct cgroups *cg, const char *id,
                               const struct spawn_limits *limits);
/* Sets the limits of one controller in a v1 directory or in the v2 tree. */
MUST_USE int cgroup_limit(int dir, bool is_v2, enum cgroup_v1 which,
                          const struct spawn_limits *limits);
bool cgroup_wants(const struct spawn_limits *limits, enum cgroup_v1 which);
/* Opens all limit files of a sandbox, or none on failure. The descriptor numbers start at
 * first_fd. */
void cgroup_knobs_open(const struct cgroups *cg, const char *id, int first_fd,
                       struct cgroup_knobs *k);
void cgroup_knobs_init(struct cgroup_knobs *k);
void cgroup_knobs_close(struct cgroup_knobs *k);
/* Returns whether the open files suffice for these limits; then cgroup_knobs_turn replaces
 * cgroup_set_limits. */
bool cgroup_knobs_suffice(const struct cgroup_knobs *k, const struct spawn_limits *limits);
MUST_USE int cgroup_knobs_turn(const struct cgroups *cg, const struct cgroup_knobs *k,
                               const struct spawn_limits *limits);
MUST_USE int cgroup_freeze(const struct cgroups *cg, const char *id, bool frozen);
MUST_USE int cgroup_usage(const struct cgroups *cg, const char *id, struct spawn_usage *ret_usage);

/* Sends SIGKILL to all processes, frozen or not. Does nothing if there are none. */
void cgroup_kill(const struct cgroups *cg, const char *id);
/* Removes the cgroups of a sandbox. Fails with -EBUSY while processes are left. Returns 0 if the
 * sandbox has no cgroups. */
MUST_USE int cgroup_remove(struct cgroups *cg, const char *id);

/* Opens a directory in one of the trees. Fails with -ENOENT also if the tree does not exist. */
MUST_USE int cgroup_open(int parent, const char *name);
/* Returns the number after `key ` at the start of a line, or of the whole file if key is "".
 * Returns 0 if there is none. */
uint64_t cgroup_read(int dir, const char *name, const char *key);

/* Renames a spare to <id>. The spare equals a new cgroup except for its limits. Fails with -ENOENT
 * if there is no spare. Implemented in cgroup_spare.c. */
MUST_USE int cgroup_spare_take(struct cgroups *cg, enum cgroup_v1 which, const char *id);
/* Turns the empty <id> into a spare. Returns false if it must be removed instead. */
MUST_USE bool cgroup_spare_put(struct cgroups *cg, enum cgroup_v1 which, const char *id);
void cgroup_spares_remove(struct cgroups *cg);

/* Creates an exec cgroup and returns the descriptor to start a program in it. */
MUST_USE int cgroup_exec_make(const struct cgroups *cg, const char *id, uint32_t cgroup,
                              uint32_t owner, int *ret_fd);
/* Kills and removes an exec cgroup. Fails with -EBUSY if it is not empty after 100 ms. */
MUST_USE int cgroup_exec_kill(const struct cgroups *cg, const char *id, uint32_t cgroup);

/* Calls each(id) for every sandbox, using the hierarchy in which all have a directory. */
void cgroup_each_seat(const struct cgroups *cg, void (*each)(const char *id, void *arg), void *arg);
/* Does the same for all hierarchies: calls each(id) once for every hierarchy that has the id. */
void cgroup_each(const struct cgroups *cg, void (*each)(const char *id, void *arg), void *arg);
