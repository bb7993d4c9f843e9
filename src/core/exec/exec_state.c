#include "core/exec/exec_state.h"

#include "core/exec/exec_impl.h"

#define B(state) STATE_BIT(state)

static const char *const phase_names[] = {
    [PHASE_INTENT] = "INTENT",   [PHASE_WAITING] = "WAITING", [PHASE_SENT] = "SENT",
    [PHASE_RUNNING] = "RUNNING", [PHASE_ENDING] = "ENDING",   [PHASE_OVER] = "OVER",
};
static const uint32_t phase_next[] = {
    [PHASE_INTENT] =
        B(PHASE_WAITING) | B(PHASE_ENDING) | B(PHASE_OVER) /* restored from its record */,
    [PHASE_WAITING] = B(PHASE_SENT) | B(PHASE_RUNNING) | B(PHASE_ENDING),
    [PHASE_SENT] = B(PHASE_WAITING) /* the link broke */ | B(PHASE_RUNNING) | B(PHASE_ENDING),
    [PHASE_RUNNING] = B(PHASE_WAITING) /* the instance is gone */ | B(PHASE_ENDING),
    [PHASE_ENDING] = B(PHASE_OVER),
    [PHASE_OVER] = 0,
};
const struct state_table exec_phase_table = {"exec_phase", phase_names, phase_next,
                                             COUNT_OF(phase_next)};

static const char *const cgroup_names[] = {
    [CGROUP_NONE] = "NONE",
    [CGROUP_REQUESTED] = "REQUESTED",
    [CGROUP_READY] = "READY",
};
static const uint32_t cgroup_next[] = {
    [CGROUP_NONE] = B(CGROUP_REQUESTED),
    [CGROUP_REQUESTED] = B(CGROUP_READY) | B(CGROUP_NONE),
    [CGROUP_READY] = 0,
};
const struct state_table exec_cgroup_table = {"exec_cgroup", cgroup_names, cgroup_next,
                                              COUNT_OF(cgroup_next)};

void exec_set_phase(struct exec *x, enum exec_phase to) {
    x->phase = state_change(&exec_phase_table, x->record->exec_id, x->phase, to);
}

void exec_set_cgroup(struct exec *x, enum exec_cgroup_state to) {
    x->cgroup_state = state_change(&exec_cgroup_table, x->record->exec_id, x->cgroup_state, to);
}

bool exec_is_live(const struct exec *x) {
    return x->phase < PHASE_ENDING;
}
