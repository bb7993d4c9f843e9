/* caps — what is left of root's powers inside: capabilities, no_new_privs, Landlock scopes.
 *
 * Raw system calls only: these run in the child between clone3 and exec. */
#pragma once

#include <stdint.h>

/* PID 1 keeps what starting and killing programs takes; the root profile adds what package managers
 * need. Nothing here reaches beyond the sandbox's user namespace. */
uint64_t caps_for_profile(uint32_t profile);

/* The ceiling becomes `keep`: no exec gains more. What the process holds is untouched. */
int caps_bound(uint64_t keep, int last_cap);
/* Securebits and the process's own sets follow; no_new_privs is set. */
int caps_apply(uint64_t keep);

/* Highest Landlock ABI, 0 if none. Signals and abstract sockets can be scoped from 6 on. */
int landlock_abi(void);
/* Signals and abstract sockets stay inside, as a second wall behind the namespaces. */
int landlock_apply_scopes(void);
