/* cgroup — limits, usage, freeze and the kill switch of a sandbox.
 *
 * Layout, in each hierarchy:  berm/<state>/<id>/{guest, x-<n>}. <state> is made from the state
 * directory's identity, so that two berm-spawns on one machine never meet: the sweep of one must not
 * end what the other made. PID 1 sits in `guest` and every exec in an `x-<n>` of its own; limits are
 * set on <id>. On a pure v2 host all
 * of that is one tree. On a hybrid host the v2 tree (no controllers needed) kills, freezes and
 * counts CPU time, and v1 memory, pids and cpu carry the limits at <id>. Without v2 the v1
 * freezer and cpuacct stand in for it.
 *
 * What a sandbox had on v1 is kept for the next one (cgroup_spare.c): the kernel's end of a memory
 * cgroup looks at every file system of the machine while all other cgroup calls wait.
 *
 * Nothing is ever attached by writing a pid into cgroup.procs from outside, which waits for the
 * whole machine: v2 uses CLONE_INTO_CGROUP; on v1 the child writes "0" into the `tasks` files
 * opened for it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "spawn/request.h"

enum cgroup_v1 { CG_MEMORY, CG_PIDS, CG_CPU, CG_FREEZER, CG_CPUACCT, CG_V1_COUNT };
#define CG_SPARES 16

struct cgroups {
    int v2;              /* berm/<state>, -1 if there is no v2 tree */
    int v1[CG_V1_COUNT]; /* the same, -1 where v1 does not hold the controller */
    bool v2_has[CG_V1_COUNT];
    bool has_kill;
    char state[48]; /* the name <state> */
    struct cgroup_spares {
        uint32_t kept; /* a bit for each `.spare-<n>` that is there */
        unsigned next; /* the next n to use, so that the oldest is taken first */
    } spares[CG_V1_COUNT];
    bool keeps_spares;
};

/* The tree that every sandbox has a directory in. */
static inline int cgroup_seats(const struct cgroups *cg) {
    return cg->v2 >= 0 ? cg->v2 : cg->v1[CG_FREEZER];
}

/* Files that limits are written to. */
enum cgroup_knob {
    CG_KNOB_MEMORY,
    CG_KNOB_SWAP,
    CG_KNOB_SOCKETS,
    CG_KNOB_PIDS,
    CG_KNOB_CPU,
    CG_KNOBS
};
/* Those of one sandbox, open; -1 where it has none. Whoever has them closes them before its groups go: those of
 * v1 become another's. */
struct cgroup_knobs {
    int fds[CG_KNOBS];
};

/* What a child needs to join. */
struct cgroup_seat {
    int v2_cgroup; /* for CLONE_INTO_CGROUP, or -1 */
    int tasks[CG_V1_COUNT];
    unsigned n_tasks;
};

/* None: cgroup_finish is harmless from here on. */
void cgroup_init(struct cgroups *cg);
/* Finds the hierarchies and makes berm/<state>. Without use_v2 a v2 tree is passed over. `v1_wanted` has a bit
 * (1 << CG_MEMORY…) for each controller to look for in v1; what stands in for a missing v2 is always. */
MUST_USE int cgroup_start(struct cgroups *cg, int state_fd, bool use_v2, unsigned v1_wanted);
/* From here on v1 groups are kept for the next sandbox; also those that an earlier berm-spawn kept. */
void cgroup_keep_spares(struct cgroups *cg);
/* Removes berm/<state> and the spares in it, if no sandbox lives on. */
void cgroup_finish(struct cgroups *cg);
/* Bits for v1_wanted: those that these limits need. */
unsigned cgroup_v1_for(const struct spawn_limits *limits);
uint32_t cgroup_features(const struct cgroups *cg);

/* Makes <id> and PID 1's exec cgroup. A failure leaves nothing behind. `owner` is the host uid of
 * root inside, who may start programs in the exec cgroups. */
MUST_USE int cgroup_make(struct cgroups *cg, const char *id, const struct spawn_limits *limits,
                         uint32_t owner, struct cgroup_seat *ret_seat);
void cgroup_seat_close(struct cgroup_seat *seat);

/* Whose sandbox it is: the owner that cgroup_make was given. */
MUST_USE int cgroup_owner(const struct cgroups *cg, const char *id, uint32_t *ret_owner);

/* cgroup_limits.c: 0 is none, and what was there stays. */
MUST_USE int cgroup_set_limits(const struct cgroups *cg, const char *id,
                               const struct spawn_limits *limits);
/* Of one controller, in a directory of its own or of the v2 tree. */
MUST_USE int cgroup_limit(int dir, bool is_v2, enum cgroup_v1 which,
                          const struct spawn_limits *limits);
bool cgroup_wants(const struct spawn_limits *limits, enum cgroup_v1 which);
/* Opens them all, with numbers from first_fd on, or none. */
void cgroup_knobs_open(const struct cgroups *cg, const char *id, int first_fd,
                       struct cgroup_knobs *k);
void cgroup_knobs_init(struct cgroup_knobs *k);
void cgroup_knobs_close(struct cgroup_knobs *k);
/* As cgroup_set_limits, where these suffice for it. */
bool cgroup_knobs_suffice(const struct cgroup_knobs *k, const struct spawn_limits *limits);
MUST_USE int cgroup_knobs_turn(const struct cgroups *cg, const struct cgroup_knobs *k,
                               const struct spawn_limits *limits);
MUST_USE int cgroup_freeze(const struct cgroups *cg, const char *id, bool frozen);
MUST_USE int cgroup_usage(const struct cgroups *cg, const char *id, struct spawn_usage *ret_usage);

/* Sends SIGKILL to all of it, frozen or not; harmless when there is nothing. */
void cgroup_kill(const struct cgroups *cg, const char *id);
/* Removes the directories; -EBUSY while something still lives in them, 0 also when there were
 * none. */
MUST_USE int cgroup_remove(struct cgroups *cg, const char *id);

/* A directory in one of the trees; -ENOENT also where there is no such tree. */
MUST_USE int cgroup_open(int parent, const char *name);
/* The number after `key ` at the start of a line, or the whole file when key is "". 0 if there is none. */
uint64_t cgroup_read(int dir, const char *name, const char *key);

/* cgroup_spare.c. A spare becomes <id>, as good as new but for its limits; -ENOENT when there is none. */
MUST_USE int cgroup_spare_take(struct cgroups *cg, enum cgroup_v1 which, const char *id);
/* <id>, in which nothing lives any more, becomes a spare; false when it has to be removed. */
MUST_USE bool cgroup_spare_put(struct cgroups *cg, enum cgroup_v1 which, const char *id);
void cgroup_spares_remove(struct cgroups *cg);

/* One exec cgroup for an exec: the descriptor to start a program in it. */
MUST_USE int cgroup_exec_make(const struct cgroups *cg, const char *id, uint32_t cgroup,
                              uint32_t owner, int *ret_fd);
/* Kills and removes an exec cgroup; -EBUSY when it did not empty within a tenth of a second. */
MUST_USE int cgroup_exec_kill(const struct cgroups *cg, const char *id, uint32_t cgroup);

/* Calls each(id) for every id that has a directory in the hierarchy that all sandboxes have one in. */
void cgroup_each_seat(const struct cgroups *cg, void (*each)(const char *id, void *arg), void *arg);
/* The same for any hierarchy; an id comes once for each that has it. */
void cgroup_each(const struct cgroups *cg, void (*each)(const char *id, void *arg), void *arg);
