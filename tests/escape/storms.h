/* storms — one kind of work, without a pause, from as many processes as there may be. */
#pragma once

/* Does not return while it can work; see the table in storms.c. args: kind, processes. */
int storm_run(char **args);
