#include "core/exec/exec_state.h"

#include "core/exec/exec_impl.h"
#include "harness.h"
#include "state_walk.h"

static void set_phase(unsigned from, unsigned to) {
    Berm__V1__Exec record = BERM__V1__EXEC__INIT;
    struct exec x = {.record = &record, .phase = (enum exec_phase)from};
    exec_set_phase(&x, (enum exec_phase)to);
    CHECK_INT(x.phase, to);
}

static void set_cgroup(unsigned from, unsigned to) {
    Berm__V1__Exec record = BERM__V1__EXEC__INIT;
    struct exec x = {.record = &record, .cgroup_state = (enum exec_cgroup_state)from};
    exec_set_cgroup(&x, (enum exec_cgroup_state)to);
    CHECK_INT(x.cgroup_state, to);
}

TEST(exec_phase_changes_only_along_the_diagram) {
    static const struct state_pair legal[] = {
        {PHASE_INTENT, PHASE_WAITING},  {PHASE_INTENT, PHASE_ENDING},
        {PHASE_INTENT, PHASE_OVER},     {PHASE_WAITING, PHASE_SENT},
        {PHASE_WAITING, PHASE_RUNNING}, {PHASE_WAITING, PHASE_ENDING},
        {PHASE_SENT, PHASE_WAITING},    {PHASE_SENT, PHASE_RUNNING},
        {PHASE_SENT, PHASE_ENDING},     {PHASE_RUNNING, PHASE_WAITING},
        {PHASE_RUNNING, PHASE_ENDING},  {PHASE_ENDING, PHASE_OVER},
    };
    state_walk(&exec_phase_table, legal, COUNT_OF(legal), set_phase);
}

TEST(exec_cgroup_changes_only_along_the_diagram) {
    static const struct state_pair legal[] = {
        {CGROUP_NONE, CGROUP_REQUESTED},
        {CGROUP_REQUESTED, CGROUP_READY},
        {CGROUP_REQUESTED, CGROUP_NONE},
    };
    state_walk(&exec_cgroup_table, legal, COUNT_OF(legal), set_cgroup);
}

TEST(exec_is_live_until_its_exit_arrives) {
    Berm__V1__Exec record = BERM__V1__EXEC__INIT;
    struct exec x = {.record = &record, .phase = PHASE_RUNNING};
    CHECK(exec_is_live(&x));
    exec_set_phase(&x, PHASE_ENDING);
    CHECK(!exec_is_live(&x) && !exec_is_over(&x));
    exec_set_phase(&x, PHASE_OVER);
    CHECK(exec_is_over(&x));
}
