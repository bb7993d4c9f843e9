/* recovery — what a new daemon does with its records before it listens.
 *
 * Recovery adopts the live instances, reads from guests in which programs ran what became of those
 * programs, and ends the records of everything that is gone. It then sweeps the resources that no
 * record names, at the driver and in the state directory, and records the result in an event. The
 * driver lists the live instances without connecting to them
 * (docs/decisions/0026-among-thousands.md). bermd connects to a guest in which nothing ran after
 * the start, a few at a time, or when a call needs the guest; only from then on does bermd notice
 * the end of that instance. */
#pragma once

#include "core/registry/registry_impl.h"

void recovery_init(struct registry *r);
/* Records the event of a clean shutdown. */
void recovery_report_end(struct registry *r);
