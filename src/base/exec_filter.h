/* exec_filter — the second, small system call filter that berm-guest installs in every program
 * it starts.
 *
 * The sandbox's main filter leaves clone3 and openat2 open because berm-guest itself needs them
 * (CLONE_INTO_CGROUP, paths that cannot leave a tree). What they are asked for lies behind a
 * pointer, where no filter can look, so user code gets ENOSYS and falls back to clone and openat.
 * The numbers are the same on every architecture, and the main filter has already refused foreign
 * ones. */
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
