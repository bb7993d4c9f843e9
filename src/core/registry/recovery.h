/* recovery — what a new daemon does with its records before it listens.
 *
 * Recovery adopts the live instances. Where programs were running in a guest, it asks the guest
 * what became of them. It ends the records of everything that is gone. It then sweeps the resources
 * that no record names, at the driver and in the state directory, and records the result in an
 * event. The driver lists the live instances without connecting to them
 * (docs/decisions/0026-among-thousands.md). Recovery does not connect to guests in which no program
 * was running. bermd connects to those after it starts to listen: a few at a time, and at once to a
 * guest that a call needs. Until bermd has connected to a guest, it does not notice the end of that
 * instance. */
#pragma once

#include "core/registry/registry_impl.h"

void recovery_init(struct registry *r);
/* Records the event of a clean shutdown. */
void recovery_report_end(struct registry *r);
