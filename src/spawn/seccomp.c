#include "spawn/seccomp.h"

#include <linux/memfd.h>
#include <linux/seccomp.h>

#include "spawn/sys.h"

static long seccomp_add(const struct sock_fprog *filter) {
    return sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)filter);
}

/* Returns whether this kernel lets a process without capabilities set a `security.` attribute. */
static int seccomp_attrs_are_open(void) {
    long fd = sys2(SYS_memfd_create, (long)"", MFD_CLOEXEC);
    if (fd < 0)
        return (int)fd;
    long r = sys5(SYS_fsetxattr, fd, (long)"security.berm", (long)"", 0, 0);
    sys_close((int)fd);
    return r == 0;
}

int seccomp_apply(bool strict, bool no_marks) {
    int open = seccomp_attrs_are_open();
    long r = open < 0 ? open : seccomp_add(strict ? &seccomp_strict : &seccomp_dev);
    if (r == 0 && open > 0)
        r = seccomp_add(&seccomp_attrs);
    if (r == 0 && no_marks)
        r = seccomp_add(&seccomp_marks);
    return (int)r;
}
