/* methods — the table of methods that the daemon may call, and the way from a message to its reply. */
#pragma once

#include "guest/link.h"

struct guest;

/* Handles every message of the link. */
extern const struct link_events methods_link_events;

/* Starts requests that waited for a job to end. Call once per turn. */
void methods_serve_waiting(struct guest *g);
