#include "spawn/seccomp.h"

#include <linux/seccomp.h>

#include "spawn/sys.h"

int seccomp_apply(bool strict) {
    const struct sock_fprog *prog = strict ? &seccomp_strict : &seccomp_dev;
    return (int)sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)prog);
}
