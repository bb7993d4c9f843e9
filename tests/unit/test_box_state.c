#include "core/box/box_state.h"

#include "core/box/box.h"
#include "harness.h"
#include "state_walk.h"

static void set_goal(unsigned from, unsigned to) {
    Berm__V1__Sandbox record = BERM__V1__SANDBOX__INIT;
    struct box b = {.record = &record, .goal = (enum sandbox_goal)from};
    box_set_goal(&b, (enum sandbox_goal)to);
    CHECK_INT(b.goal, to);
}

static void set_instance(unsigned from, unsigned to) {
    Berm__V1__Sandbox record = BERM__V1__SANDBOX__INIT;
    struct box b = {.record = &record, .instance_state = (enum sandbox_instance_state)from};
    box_set_instance(&b, (enum sandbox_instance_state)to);
    CHECK_INT(b.instance_state, to);
}

static void set_link(unsigned from, unsigned to) {
    Berm__V1__Sandbox record = BERM__V1__SANDBOX__INIT;
    struct box b = {.record = &record, .link_state = (enum sandbox_link_state)from};
    box_set_link(&b, (enum sandbox_link_state)to);
    CHECK_INT(b.link_state, to);
}

TEST(sandbox_goal_changes_only_as_requests_allow) {
    static const struct state_pair legal[] = {
        {GOAL_NONE, GOAL_RUN},     {GOAL_RUN, GOAL_PAUSE}, {GOAL_RUN, GOAL_STOP},
        {GOAL_RUN, GOAL_DELETE},   {GOAL_PAUSE, GOAL_RUN}, {GOAL_PAUSE, GOAL_STOP},
        {GOAL_PAUSE, GOAL_DELETE}, {GOAL_STOP, GOAL_RUN},  {GOAL_STOP, GOAL_DELETE},
    };
    state_walk(&box_goal_table, legal, COUNT_OF(legal), set_goal);
}

TEST(sandbox_instance_changes_only_along_the_diagram) {
    static const struct state_pair legal[] = {
        {INST_NONE, INST_PARKED},       {INST_NONE, INST_OPENING},
        {INST_NONE, INST_CREATING},     {INST_NONE, INST_UP},
        {INST_NONE, INST_FROZEN},       {INST_NONE, INST_CLEARING},
        {INST_NONE, INST_REMOVING},     {INST_PARKED, INST_NONE},
        {INST_PARKED, INST_OPENING},    {INST_PARKED, INST_CLAIMING},
        {INST_PARKED, INST_UP},         {INST_PARKED, INST_STOPPING},
        {INST_PARKED, INST_CLEARING},   {INST_OPENING, INST_NONE},
        {INST_OPENING, INST_PARKED},    {INST_OPENING, INST_CLEARING},
        {INST_CREATING, INST_NONE},     {INST_CREATING, INST_UP},
        {INST_CLAIMING, INST_NONE},     {INST_CLAIMING, INST_UP},
        {INST_CLAIMING, INST_CLEARING}, {INST_UP, INST_NONE},
        {INST_UP, INST_FREEZING},       {INST_UP, INST_SHUTDOWN},
        {INST_UP, INST_STOPPING},       {INST_UP, INST_CLEARING},
        {INST_FREEZING, INST_NONE},     {INST_FREEZING, INST_FROZEN},
        {INST_FREEZING, INST_UP},       {INST_FROZEN, INST_NONE},
        {INST_FROZEN, INST_THAWING},    {INST_FROZEN, INST_STOPPING},
        {INST_THAWING, INST_NONE},      {INST_THAWING, INST_UP},
        {INST_THAWING, INST_FROZEN},    {INST_SHUTDOWN, INST_NONE},
        {INST_SHUTDOWN, INST_STOPPING}, {INST_STOPPING, INST_NONE},
        {INST_CLEARING, INST_NONE},     {INST_REMOVING, INST_NONE},
    };
    state_walk(&box_instance_table, legal, COUNT_OF(legal), set_instance);
}

TEST(sandbox_link_changes_only_along_the_diagram) {
    static const struct state_pair legal[] = {
        {LINK_NONE, LINK_CONNECTING},
        {LINK_NONE, LINK_GREETED},
        {LINK_NONE, LINK_LOST},
        {LINK_CONNECTING, LINK_NONE},
        {LINK_CONNECTING, LINK_GREETED},
        {LINK_GREETED, LINK_NONE},
        {LINK_GREETED, LINK_CONFIGURING},
        {LINK_CONFIGURING, LINK_NONE},
        {LINK_CONFIGURING, LINK_CONFIGURED},
        {LINK_CONFIGURING, LINK_GREETED},
        {LINK_CONFIGURED, LINK_NONE},
        {LINK_CONFIGURED, LINK_LOST},
        {LINK_LOST, LINK_NONE},
        {LINK_LOST, LINK_RECONNECTING},
        {LINK_RECONNECTING, LINK_NONE},
        {LINK_RECONNECTING, LINK_CONFIGURED},
        {LINK_RECONNECTING, LINK_LOST},
    };
    state_walk(&box_link_table, legal, COUNT_OF(legal), set_link);
}

TEST(sandbox_goal_of_the_record_replaces_any_goal) {
    Berm__V1__Sandbox record = BERM__V1__SANDBOX__INIT;
    struct box b = {.record = &record, .goal = GOAL_DELETE};
    box_restore_goal(&b, GOAL_RUN);
    CHECK_INT(b.goal, GOAL_RUN);
}

TEST(sandbox_takes_execs_only_with_settings_and_unfrozen) {
    Berm__V1__Sandbox record = BERM__V1__SANDBOX__INIT;
    struct box b = {.record = &record, .instance_state = INST_UP, .link_state = LINK_CONFIGURED};
    CHECK(box_takes_execs(&b));
    b.link_state = LINK_GREETED;
    CHECK(!box_takes_execs(&b) && box_is_linked(&b));
    b.link_state = LINK_LOST;
    CHECK(!box_takes_execs(&b) && !box_is_linked(&b) && box_is_configured(&b));
    b.link_state = LINK_CONFIGURED;
    b.instance_state = INST_FROZEN;
    CHECK(!box_takes_execs(&b) && box_is_up(&b));
    b.instance_state = INST_REMOVING;
    CHECK(!box_is_up(&b) && !box_has_instance(&b));
}
