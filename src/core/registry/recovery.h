/* recovery — what a daemon does with its records before it listens.
 *
 * Adopts the instances that live, and asks the guests of those in which programs ran what became of them;
 * closes the books on what is gone; sweeps what no record names, at the driver and in our own folder; and
 * says in an event what it found. An instance that is adopted has taken a connection and its end will be
 * told; its guest, when nothing ran in it, is greeted when somebody needs it, or after the start, a few at
 * a time. */
#pragma once

#include "core/registry/registry_impl.h"

void recovery_init(struct registry *r);
/* The event of a clean end. */
void registry_says_goodbye(struct registry *r);
