/* exec_filter — the second, small system call filter that berm-guest installs in every program
 * it starts.
 *
 * The sandbox's main filter leaves clone3 open because berm-guest itself needs
 * CLONE_INTO_CGROUP; user code gets ENOSYS, and libc falls back to clone, whose flags the main
 * filter can see. The number is the same on every architecture, and the main filter has already
 * refused foreign ones. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#define EXEC_FILTER_CODE                                                                    \
    {                                                                                       \
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0 /* seccomp_data.nr */},                          \
            {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 435 /* clone3 */},                            \
            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | 38 /* ENOSYS */},                   \
            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},                                     \
    }
#define EXEC_FILTER_LEN 4
