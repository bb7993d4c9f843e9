/* recovery — what a daemon does with its records before it listens.
 *
 * Adopts the places that live, connects to their guests, asks them for their programs; closes the books
 * on what is gone; sweeps what no record names, at the driver and in our own folder; and says in an
 * event what it found. */
#pragma once

#include "core/registry_impl.h"

/* The event of a clean end. */
void registry_says_goodbye(struct registry *r);
