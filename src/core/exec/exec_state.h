/* exec_state — how far bermd is with an exec, besides the ExecState in its record.
 *
 * Phase:  INTENT → WAITING → SENT → RUNNING → ENDING → OVER. A record read from the store starts in
 *         WAITING, or in OVER when the exec has ended.
 * Cgroup: NONE → REQUESTED → READY; NONE again when the driver has none to give.
 *
 * Each has one setter with a table of legal transitions (drawn in docs/architecture.md). */
#pragma once

#include "core/state_table.h"

struct exec;

enum exec_phase {
    PHASE_INTENT,  /* the start is being committed */
    PHASE_WAITING, /* the start is durable and waits for the link, the exec cgroup, or a thaw */
    PHASE_SENT,    /* the start was sent to the guest on the current link */
    PHASE_RUNNING, /* the guest has confirmed the exec */
    PHASE_ENDING,  /* the exit is known; usage or output is still missing */
    PHASE_OVER,    /* the exit may be reported */
};

enum exec_cgroup_state {
    CGROUP_NONE,      /* not requested, or the driver could not create a cgroup */
    CGROUP_REQUESTED, /* the driver is creating the cgroup */
    CGROUP_READY,     /* bermd has the descriptor of the cgroup */
};

extern const struct state_table exec_phase_table;
extern const struct state_table exec_cgroup_table;

void exec_set_phase(struct exec *x, enum exec_phase to);
void exec_set_cgroup(struct exec *x, enum exec_cgroup_state to);

/* Returns whether no exit is known yet. */
bool exec_is_live(const struct exec *x);
