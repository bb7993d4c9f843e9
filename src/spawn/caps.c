#include "spawn/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/securebits.h>

#include "spawn/request.h"
#include "spawn/sys.h"

#define CAP_BIT(cap) (UINT64_C(1) << (cap))
/* Not defined in the oldest kernel headers that we build with. */
#define RULESET_VERSION 1u
#define SCOPE_ABSTRACT_UNIX UINT64_C(1)
#define SCOPE_SIGNAL UINT64_C(2)

uint64_t caps_for_profile(uint32_t profile) {
    /* SETPCAP lets PID 1 empty the bounding set of each program that it starts. */
    uint64_t keep =
        CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETPCAP);
    if (profile == SPAWN_PROFILE_ROOT)
        keep |= CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) |
                CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_NET_BIND_SERVICE);
    return keep;
}

int caps_bound(uint64_t keep, int last_cap) {
    for (int cap = 0; cap <= last_cap; cap++) {
        if (keep & CAP_BIT(cap))
            continue;
        long r = sys2(SYS_prctl, PR_CAPBSET_DROP, cap);
        if (r < 0)
            return (int)r;
    }
    return 0;
}

int caps_apply(uint64_t keep) {
    long bits = SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    long r = sys2(SYS_prctl, PR_SET_SECUREBITS, bits);
    if (r < 0)
        return (int)r;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)keep, .permitted = (uint32_t)keep},
        {.effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32)},
    };
    r = sys2(SYS_capset, (long)&head, (long)data);
    if (r < 0)
        return (int)r;
    return (int)sys5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int landlock_abi(void) {
    long abi = sys3(SYS_landlock_create_ruleset, 0, 0, RULESET_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

int landlock_apply_scopes(void) {
    struct {
        uint64_t handled_access_fs;
        uint64_t handled_access_net;
        uint64_t scoped;
    } attr = {.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL};
    long fd = sys3(SYS_landlock_create_ruleset, (long)&attr, sizeof attr, 0);
    if (fd < 0)
        return (int)fd;
    long r = sys2(SYS_landlock_restrict_self, fd, 0);
    sys_close((int)fd);
    return (int)r;
}
