/* stopwatch — does one thing at a time and says how long it took.
 *
 * bench/sandbox starts it and writes commands to its standard input, one per line, words apart by tabs;
 * each is answered by one line of microseconds. The clock runs in here, in a small process that waits by
 * blocking, so that neither Python nor an event loop of our own is part of what is measured. Anything
 * unexpected ends the program with a line on standard error. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spawn/request.h"

#define FDS_MAX 8

double now_us(void);
_Noreturn void die(const char *what);
_Noreturn void die_of(const char *what, const char *why);

/* --- spawn.c: berm-spawn, asked as the native driver asks --- */

struct sandbox_spec {
    const char *id;
    uint32_t layer; /* enum spawn_layer */
    uint64_t memory_bytes;
    uint64_t cpu_milli;
    uint64_t pids;
    int is_parked;
    int control_fd;     /* PID 1's bound socket, or -1 */
    char *const *words; /* argv of PID 1, NULL at the end */
};

/* `mount_root`: beneath which a claim's directory lies. */
void spawn_open(const char *program, const char *guest, const char *state, const char *mount_root);
/* Removes everything that is left in this state, from a run that was cut short. */
void spawn_sweep(void);
/* Ends berm-spawn, if there is one. */
void spawn_close(void);
/* PID 1's pidfd. */
int spawn_create(const struct sandbox_spec *spec);
void spawn_destroy(const char *id);

struct claim_spec {
    const char *id;
    const char *hostname;  /* "" = as it was made */
    uint64_t memory_bytes; /* 0 = as it was made */
    uint64_t cpu_milli;
    uint64_t pids;
    int dir_fd; /* a directory of the host, or -1 */
};
/* Asks, and waits for the answer: what else there is to do for a claim is done in between. */
void spawn_claim_begin(const struct claim_spec *spec);
void spawn_claim_end(void);
/* The descriptors of one cgroup for a program: its directory first, then files to write "0" to. */
size_t spawn_make_cgroup(const char *id, uint32_t cgroup, int fds[FDS_MAX]);
void spawn_kill_cgroup(const char *id, uint32_t cgroup);

/* --- guest.c: berm-guest in a sandbox, spoken to as bermd speaks to it --- */

void guest_open(const char *state, const char *layer);
/* Runs a program with a cgroup of its own, made ahead, and logs in `dir`; how long until it was told as
 * ended, and until its cgroup was gone and that of the next program made. */
void guest_run(const char *dir, char *const *argv, double *ret_told_us, double *ret_next_us);
/* Makes a cgroup for a program and removes it again, which is what guest_run does after the program. */
void guest_exec_cgroup(void);
void guest_close(void);

/* --- claim.c: parked sandboxes, claimed as bermd claims them --- */

void claim_open(const char *state, unsigned n);
/* Microseconds until the oldest of them is somebody's. `name`: another than it was made with; `dir`: that
 * directory, three limits and eight variables. Either may be NULL; without both it is as it was made. */
double claim_one(const char *name, const char *dir);
void claim_close(void);

/* --- rpc.c: bermd, over gRPC --- */

void rpc_open(const char *socket_path);
void rpc_create(const char *id, const char *layer);
void rpc_run(const char *id, char *const *argv);
/* `wait`: until it is gone; else until that is recorded. */
void rpc_delete(const char *id, int wait);

/* --- files.c: files and trees of a sandbox, from and to files of ours, with libberm --- */

void files_open(const char *socket_path);
void file_put(const char *id, const char *path, const char *from);
void file_get(const char *id, const char *path, const char *to);
/* From and to an archive of tar's. The number of files. */
uint64_t tree_put(const char *id, const char *path, const char *tar);
uint64_t tree_get(const char *id, const char *path, const char *tar);
void file_stat(const char *id, const char *path);
/* The number of entries. */
size_t file_list(const char *id, const char *path);
void file_remove(const char *id, const char *path);
