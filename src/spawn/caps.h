/* caps — the privileges that remain inside a sandbox: capabilities, no_new_privs, Landlock scopes.
 *
 * Uses raw system calls only, because these functions run in the child between clone3 and exec. */
#pragma once

#include <stdint.h>

/* Returns the capabilities that PID 1 keeps to start and kill programs. The root profile adds those
 * that package managers need. They apply only within the sandbox's user namespace. */
uint64_t caps_for_profile(uint32_t profile);

/* Reduces the bounding set to `keep`, so that no exec can gain more. Does not change the current
 * sets. */
int caps_bound(uint64_t keep, int last_cap);
/* Sets securebits, the process's own capability sets, and no_new_privs. */
int caps_apply(uint64_t keep);

/* Returns the highest Landlock ABI, or 0. Scopes for signals and abstract sockets exist since ABI
 * 6. */
int landlock_abi(void);
/* Restricts signals and abstract sockets to the sandbox, as a second barrier behind the
 * namespaces. */
int landlock_apply_scopes(void);
