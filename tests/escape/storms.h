/* storms — one kind of work without pause, in as many processes as possible. */
#pragma once

/* Does not return while it can work. storms.c has the table. args: kind, processes. */
int storm_run(char **args);
