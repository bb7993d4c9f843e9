/* net — network namespaces with nothing but loopback, made ahead of need.
 *
 * Making one costs more than the rest of a sandbox, so a process of its own makes them and
 * passes them here; the socket's buffer and the credits it is given bound how many wait. They
 * belong to the initial user namespace: root in a sandbox has no rights over the network it sits
 * in. Each is used once. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

#define NET_POOL_MAX 64

struct net_pool {
    int sock; /* -1: no pool, every namespace is made on demand */
    pid_t pid;
    unsigned ahead; /* how many are kept ready */
    unsigned owed;  /* taken and not yet asked for again */
    pid_t once;     /* makes a single one beside us, or -1 */
    int once_ns;
};

/* `ahead` namespaces are kept ready; 0 for none. */
MUST_USE int net_pool_start(struct net_pool *p, unsigned ahead);
/* Begins to make one, on the other CPU if there is one: for a program that needs exactly one
 * soon. */
void net_prepare_one(struct net_pool *p);
/* Has made again what was taken. It keeps a CPU busy for as long as a sandbox takes to begin, so this is
 * for when nothing else is to be done; a pool half empty is refilled at once. */
void net_pool_refill(struct net_pool *p);
/* Moves the calling process into a fresh namespace (the child it clones next inherits it). */
MUST_USE int net_enter_fresh(struct net_pool *p);
