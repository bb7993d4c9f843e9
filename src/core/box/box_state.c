#include "core/box/box_state.h"

#include "core/box/box.h"

#define B(state) STATE_BIT(state)

static const char *const goal_names[] = {
    [GOAL_NONE] = "NONE", [GOAL_RUN] = "RUN",       [GOAL_PAUSE] = "PAUSE",
    [GOAL_STOP] = "STOP", [GOAL_DELETE] = "DELETE",
};
static const uint32_t goal_next[] = {
    [GOAL_NONE] = B(GOAL_RUN),
    [GOAL_RUN] = B(GOAL_PAUSE) | B(GOAL_STOP) | B(GOAL_DELETE),
    [GOAL_PAUSE] = B(GOAL_RUN) | B(GOAL_STOP) | B(GOAL_DELETE),
    [GOAL_STOP] = B(GOAL_RUN) | B(GOAL_DELETE),
    [GOAL_DELETE] = 0,
};
const struct state_table box_goal_table = {"sandbox_goal", goal_names, goal_next,
                                           COUNT_OF(goal_next)};

static const char *const instance_names[] = {
    [INST_NONE] = "NONE",         [INST_PARKED] = "PARKED",     [INST_OPENING] = "OPENING",
    [INST_CREATING] = "CREATING", [INST_CLAIMING] = "CLAIMING", [INST_UP] = "UP",
    [INST_FREEZING] = "FREEZING", [INST_FROZEN] = "FROZEN",     [INST_THAWING] = "THAWING",
    [INST_SHUTDOWN] = "SHUTDOWN", [INST_STOPPING] = "STOPPING", [INST_CLEARING] = "CLEARING",
    [INST_REMOVING] = "REMOVING",
};
/* Every state may fall back to NONE: the instance can end at any moment. */
static const uint32_t instance_next[] = {
    [INST_NONE] = B(INST_PARKED) | B(INST_OPENING) | B(INST_CREATING) | B(INST_UP) /* adopted */ |
                  B(INST_FROZEN) /* adopted */ | B(INST_CLEARING) | B(INST_REMOVING),
    [INST_PARKED] = B(INST_NONE) | B(INST_OPENING) | B(INST_CLAIMING) | B(INST_UP) |
                    B(INST_STOPPING) | B(INST_CLEARING),
    [INST_OPENING] = B(INST_NONE) | B(INST_PARKED) | B(INST_CLEARING),
    [INST_CREATING] = B(INST_NONE) | B(INST_UP),
    [INST_CLAIMING] = B(INST_NONE) | B(INST_UP) | B(INST_CLEARING),
    [INST_UP] =
        B(INST_NONE) | B(INST_FREEZING) | B(INST_SHUTDOWN) | B(INST_STOPPING) | B(INST_CLEARING),
    [INST_FREEZING] = B(INST_NONE) | B(INST_FROZEN) | B(INST_UP),
    [INST_FROZEN] = B(INST_NONE) | B(INST_THAWING) | B(INST_STOPPING),
    [INST_THAWING] = B(INST_NONE) | B(INST_UP) | B(INST_FROZEN),
    [INST_SHUTDOWN] = B(INST_NONE) | B(INST_STOPPING),
    [INST_STOPPING] = B(INST_NONE),
    [INST_CLEARING] = B(INST_NONE),
    [INST_REMOVING] = B(INST_NONE),
};
const struct state_table box_instance_table = {"sandbox_instance", instance_names, instance_next,
                                               COUNT_OF(instance_next)};

static const char *const link_names[] = {
    [LINK_NONE] = "NONE",
    [LINK_CONNECTING] = "CONNECTING",
    [LINK_GREETED] = "GREETED",
    [LINK_CONFIGURING] = "CONFIGURING",
    [LINK_CONFIGURED] = "CONFIGURED",
    [LINK_LOST] = "LOST",
    [LINK_RECONNECTING] = "RECONNECTING",
};
static const uint32_t link_next[] = {
    [LINK_NONE] = B(LINK_CONNECTING) | B(LINK_GREETED) /* the pool greeted the guest */ |
                  B(LINK_LOST) /* adopted */,
    [LINK_CONNECTING] = B(LINK_NONE) | B(LINK_GREETED),
    [LINK_GREETED] = B(LINK_NONE) | B(LINK_CONFIGURING),
    [LINK_CONFIGURING] = B(LINK_NONE) | B(LINK_CONFIGURED) | B(LINK_GREETED) /* refused */,
    [LINK_CONFIGURED] = B(LINK_NONE) | B(LINK_LOST),
    [LINK_LOST] = B(LINK_NONE) | B(LINK_RECONNECTING),
    [LINK_RECONNECTING] = B(LINK_NONE) | B(LINK_CONFIGURED) | B(LINK_LOST),
};
const struct state_table box_link_table = {"sandbox_link", link_names, link_next,
                                           COUNT_OF(link_next)};

void box_set_goal(struct box *b, enum sandbox_goal to) {
    b->goal = state_change(&box_goal_table, b->record->sandbox_id, b->goal, to);
}

void box_restore_goal(struct box *b, enum sandbox_goal to) {
    b->goal = to;
}

void box_set_instance(struct box *b, enum sandbox_instance_state to) {
    b->instance_state =
        state_change(&box_instance_table, b->record->sandbox_id, b->instance_state, to);
}

void box_set_link(struct box *b, enum sandbox_link_state to) {
    b->link_state = state_change(&box_link_table, b->record->sandbox_id, b->link_state, to);
}

bool box_has_instance(const struct box *b) {
    return b->instance_state != INST_NONE && b->instance_state != INST_REMOVING;
}

bool box_is_configured(const struct box *b) {
    return (B(LINK_CONFIGURED) | B(LINK_LOST) | B(LINK_RECONNECTING)) & B(b->link_state);
}

bool box_is_up(const struct box *b) {
    static const uint32_t up =
        B(INST_UP) | B(INST_FREEZING) | B(INST_FROZEN) | B(INST_THAWING) | B(INST_SHUTDOWN);
    return up & B(b->instance_state);
}

bool box_is_linked(const struct box *b) {
    return (B(LINK_GREETED) | B(LINK_CONFIGURING) | B(LINK_CONFIGURED)) & B(b->link_state);
}

bool box_takes_execs(const struct box *b) {
    static const uint32_t thawed = B(INST_UP) | B(INST_FREEZING) | B(INST_SHUTDOWN);
    return b->link_state == LINK_CONFIGURED && (thawed & B(b->instance_state));
}
