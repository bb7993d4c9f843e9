/* acts — longer parts that a sandbox plays while the host or a neighbour looks on. */
#pragma once

/* The exit code; see the table in acts.c. */
int act_run(const char *name, char **args);
