/* seccomp — the system call filter of a sandbox, generated from seccomp.policy. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>

extern const struct sock_fprog seccomp_dev;    /* debuggers work */
extern const struct sock_fprog seccomp_strict; /* ptrace and process_vm_* refused */
extern const struct sock_fprog
    seccomp_marks; /* over one of these: no file becomes setuid or setgid */

/* Raw system calls only: runs in the child. Needs no_new_privs. */
int seccomp_apply(bool strict, bool no_marks);
