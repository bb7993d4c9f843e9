#include "base/macros.h"
#include "spawn/request.h"

const char *spawn_step_name(uint32_t step) {
    static const char *const names[] = {
        [STEP_NONE] = "none",
        [STEP_REQUEST] = "check the request",
        [STEP_EXISTS] = "use the id and uid slot: already in use",
        [STEP_FEATURE] = "the kernel lacks the feature",
        [STEP_STATE_DIR] = "open the state directory",
        [STEP_CGROUP] = "create the cgroup",
        [STEP_NETNS] = "enter a network namespace",
        [STEP_CLONE] = "clone into new namespaces",
        [STEP_IDMAP] = "map ids",
        [STEP_LAYER] = "create the writable layer",
        [STEP_DISK_RESERVE] = "keep the disk reserve",
        [STEP_OVERLAY] = "build the root overlay",
        [STEP_TREE] = "clone a tree of the root",
        [STEP_BIND] = "clone a passed directory",
        [STEP_ATTACH_CGROUP] = "join the cgroup",
        [STEP_NAMESPACE_LIMITS] = "forbid nested namespaces",
        [STEP_IDENTITY] = "become the sandbox's root",
        [STEP_PROC] = "mount and mask /proc",
        [STEP_DEV] = "mount /dev",
        [STEP_MOUNT] = "attach a mount",
        [STEP_ROOT] = "switch to the new root",
        [STEP_HOSTNAME] = "set the host name",
        [STEP_RLIMIT] = "set resource limits",
        [STEP_LANDLOCK] = "apply Landlock scopes",
        [STEP_CAPS] = "drop capabilities",
        [STEP_SECCOMP] = "install the system call filter",
        [STEP_FDS] = "arrange descriptors",
        [STEP_EXEC] = "execute PID 1",
        [STEP_KILL] = "kill the sandbox",
        [STEP_REMOVE] = "remove its files",
    };
    _Static_assert(COUNT_OF(names) == STEP_COUNT, "every step has a name");
    return step < STEP_COUNT ? names[step] : "unknown";
}
