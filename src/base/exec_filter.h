/* exec_filter — the small second system call filter that berm-guest installs in every program it
 * starts.
 *
 * The sandbox's main filter allows clone3 and openat2 because berm-guest itself needs them:
 * CLONE_INTO_CGROUP, and paths that cannot leave a tree. Both calls take their arguments behind a
 * pointer, which a filter cannot read. So this filter returns ENOSYS to user code, which then falls
 * back to clone and openat. The call numbers are the same on every architecture, and the main
 * filter already refuses foreign architectures. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#define EXEC_FILTER_CODE                                                  \
    {                                                                     \
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0 /* seccomp_data.nr */},        \
            {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 435 /* clone3 */},          \
            {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 437 /* openat2 */},         \
            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | 38 /* ENOSYS */}, \
            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},                   \
    }
#define EXEC_FILTER_LEN 5
