/* box_state — the three states of a sandbox besides the SandboxState in its record.
 *
 * Goal:     the state that the last accepted request asked for. It is stored with the record.
 * Instance: what exists of the sandbox at the driver. Not stored: a restart learns it by adopting.
 * Link:     the connection to the guest, and whether the guest has its settings.
 *
 * Each has one setter with a table of legal transitions (box_state.c, drawn in
 * docs/architecture.md). sandbox_converge.c switches over goal, instance state and link state to
 * find the next step. */
#pragma once

#include "core/state_table.h"

struct box;

/* The store contains these numbers, so they must not change. */
enum sandbox_goal {
    GOAL_NONE = 0, /* only between sandbox_new and the first box_set_goal */
    GOAL_RUN = 1,
    GOAL_PAUSE = 2,
    GOAL_STOP = 3,
    GOAL_DELETE = 4,
};

enum sandbox_instance_state {
    INST_NONE,     /* no process of the instance exists */
    INST_PARKED,   /* taken from the pool: the guest runs, but is not configured for this sandbox */
    INST_OPENING,  /* berm-open opens the imports; the instance is created or claimed next */
    INST_CREATING, /* the driver creates the instance */
    INST_CLAIMING, /* the driver gives a parked instance this sandbox's name, limits and mounts */
    INST_UP,       /* the guest runs */
    INST_FREEZING, /* the driver freezes the instance */
    INST_FROZEN,
    INST_THAWING,  /* the driver thaws the instance */
    INST_SHUTDOWN, /* the guest was asked to end its execs and itself */
    INST_STOPPING, /* the driver kills the instance */
    INST_CLEARING, /* the driver removes the remains of an ended instance */
    INST_REMOVING, /* the sandbox's files are being removed; DELETED follows */
};

enum sandbox_link_state {
    LINK_NONE,         /* no connection; the guest does not have its settings */
    LINK_CONNECTING,   /* hello was sent */
    LINK_GREETED,      /* hello was answered */
    LINK_CONFIGURING,  /* configure was sent */
    LINK_CONFIGURED,   /* the guest has its settings: execs may start */
    LINK_LOST,         /* no connection; the guest got its settings earlier */
    LINK_RECONNECTING, /* hello was sent; the guest has its settings */
};

extern const struct state_table box_goal_table;
extern const struct state_table box_instance_table;
extern const struct state_table box_link_table;

void box_set_goal(struct box *b, enum sandbox_goal to);
/* Resets the goal to `to`, the goal in the durable record, without a check of the transition. Call
 * this after a restart or a failed commit. */
void box_restore_goal(struct box *b, enum sandbox_goal to);
void box_set_instance(struct box *b, enum sandbox_instance_state to);
void box_set_link(struct box *b, enum sandbox_link_state to);

/* Returns whether the driver has an instance, or is creating or removing one. */
bool box_has_instance(const struct box *b);
/* Returns whether the guest runs (frozen or not) and is not being killed. */
bool box_is_up(const struct box *b);
/* Returns whether the guest has its settings, with or without a link. */
bool box_is_configured(const struct box *b);
/* Returns whether the link can carry requests to the guest. */
bool box_is_linked(const struct box *b);
/* Returns whether bermd may send an exec to the guest now. */
bool box_takes_execs(const struct box *b);
