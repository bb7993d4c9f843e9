/* seccomp — the system call filter of a sandbox, generated from seccomp.policy. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>

extern const struct sock_fprog seccomp_dev;    /* allows debuggers */
extern const struct sock_fprog seccomp_strict; /* refuses ptrace and process_vm_* */
/* Installed in addition to one of the two filters above: */
extern const struct sock_fprog seccomp_marks; /* forbids setuid and setgid bits */
extern const struct sock_fprog seccomp_attrs; /* forbids changes of file attributes */

/* Installs the filters, with raw system calls only. Runs in the child, with the sandbox's final
 * capabilities and with no_new_privs. */
int seccomp_apply(bool strict, bool no_marks);
