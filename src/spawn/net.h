/* net — network namespaces with only a loopback device, created ahead of need.
 *
 * Creating a namespace takes longer than the rest of a sandbox, so a separate process creates them
 * and sends them over a socket. The socket buffer and the credits bound how many are ready. The
 * namespaces belong to the initial user namespace, so root in a sandbox has no rights over its
 * network. Each namespace is used once. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

#define NET_POOL_MAX 64

struct net_pool {
    int sock; /* -1: no pool; namespaces are created on demand */
    pid_t pid;
    unsigned ahead; /* how many to keep ready */
    unsigned owed;  /* namespaces taken and not requested again yet */
    pid_t once;     /* child that creates a single namespace, or -1 */
    int once_ns;
};

/* Keeps `ahead` namespaces ready; 0: none. */
MUST_USE int net_pool_start(struct net_pool *p, unsigned ahead);
/* Starts creating one namespace in parallel, for a program that needs exactly one soon. */
void net_prepare_one(struct net_pool *p);
/* Requests replacements for the namespaces taken. Creating them uses a CPU as long as starting a
 * sandbox, so call this when idle. A pool that is half empty is refilled immediately. */
void net_pool_refill(struct net_pool *p);
/* Moves the calling process into a fresh namespace, which the next cloned child inherits. */
MUST_USE int net_enter_fresh(struct net_pool *p);
