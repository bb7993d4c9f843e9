/* acts — longer scenarios inside a sandbox, while the host or a neighbour observes. */
#pragma once

/* Returns the exit code. acts.c has the table. */
int act_run(const char *name, char **args);
