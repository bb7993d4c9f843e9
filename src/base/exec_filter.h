/* exec_filter — the small second system call filter that berm-guest installs in every program it
 * starts.
 *
 * The sandbox's main filter allows clone3 and openat2 because berm-guest itself needs them:
 * CLONE_INTO_CGROUP, and paths that cannot leave a tree. Both calls take their arguments in a
 * struct behind a pointer, and a filter cannot read memory. So this filter returns ENOSYS to user
 * code, which then falls back to clone and openat. The main filter already refuses foreign
 * architectures, so this filter compares only the system call numbers of the native one.
 *
 * This filter also prevents programs from installing filters, because all filters of the host share
 * the kernel's budget for compiled BPF (net.core.bpf_jit_limit), and no filter can limit the number
 * of other filters. Programs get EINVAL, as from a kernel built without filters; libseccomp,
 * browsers and sshd handle that. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#define EXEC_FILTER_CODE                                                       \
    {                                                                          \
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0 /* seccomp_data.nr */},             \
            {BPF_JMP | BPF_JEQ | BPF_K, 9, 0, 435 /* clone3 */},               \
            {BPF_JMP | BPF_JEQ | BPF_K, 8, 0, 437 /* openat2 */},              \
            {BPF_JMP | BPF_JEQ | BPF_K, 5, 0, SYS_seccomp},                    \
            {BPF_JMP | BPF_JEQ | BPF_K, 0, 8, SYS_prctl},                      \
            {BPF_LD | BPF_W | BPF_ABS, 0, 0, 16 /* low half of argument 0 */}, \
            {BPF_JMP | BPF_JEQ | BPF_K, 0, 6, 22 /* PR_SET_SECCOMP */},        \
            {BPF_LD | BPF_W | BPF_ABS, 0, 0, 24 /* low half of argument 1 */}, \
            {BPF_JMP | BPF_JEQ | BPF_K, 3, 4, SECCOMP_MODE_FILTER},            \
            {BPF_LD | BPF_W | BPF_ABS, 0, 0, 16 /* low half of argument 0 */}, \
            {BPF_JMP | BPF_JEQ | BPF_K, 1, 2, SECCOMP_SET_MODE_FILTER},        \
            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | 38 /* ENOSYS */},      \
            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | 22 /* EINVAL */},      \
            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},                        \
    }
#define EXEC_FILTER_LEN 14
