/* seccomp — the system call filter of a sandbox, generated from seccomp.policy. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>

extern const struct sock_fprog seccomp_dev;    /* debuggers work */
extern const struct sock_fprog seccomp_strict; /* ptrace and process_vm_* refused */
/* Over one of these: */
extern const struct sock_fprog seccomp_marks; /* no file becomes setuid or setgid */
extern const struct sock_fprog seccomp_attrs; /* no attribute of a file changes */

/* Raw system calls only: runs in the child, with the capabilities that the sandbox will have and
 * with no_new_privs. */
int seccomp_apply(bool strict, bool no_marks);
