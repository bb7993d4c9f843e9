#include "spawn/seccomp.h"

#include <linux/seccomp.h>

#include "spawn/sys.h"

static long add(const struct sock_fprog *filter) {
    return sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)filter);
}

int seccomp_apply(bool strict, bool no_marks) {
    long r = add(strict ? &seccomp_strict : &seccomp_dev);
    return (int)(r < 0 || !no_marks ? r : add(&seccomp_marks));
}
