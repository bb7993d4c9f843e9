/* stopwatch — performs one operation at a time and prints how long it took.
 *
 * bench/sandbox starts it and writes commands to its standard input: one per line, words separated
 * by tabs. It answers each with one line of microseconds. The clock runs in this small, blocking
 * process, so that neither Python nor an event loop is part of the measurement. On any unexpected
 * result the program prints an error and exits. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spawn/request.h"

#define FDS_MAX 8

double now_us(void);
_Noreturn void die(const char *what);
_Noreturn void die_of(const char *what, const char *why);

/* --- spawn.c: requests to berm-spawn, like the native driver's --- */

struct sandbox_spec {
    const char *id;
    uint32_t layer; /* enum spawn_layer */
    uint64_t memory_bytes;
    uint64_t cpu_milli;
    uint64_t pids;
    int is_parked;
    int control_fd;     /* bound socket of PID 1, or -1 */
    char *const *words; /* argv of PID 1, NULL-terminated */
};

/* `mount_root`: the directory of a claim must be beneath it. */
void spawn_open(const char *program, const char *guest, const char *state, const char *mount_root);
/* Removes everything that an interrupted run left in this state directory. */
void spawn_sweep(void);
/* Ends berm-spawn if it runs. */
void spawn_close(void);
/* Returns the pidfd of PID 1. */
int spawn_create(const struct sandbox_spec *spec);
void spawn_destroy(const char *id);

struct claim_spec {
    const char *id;
    const char *hostname;  /* "": unchanged */
    uint64_t memory_bytes; /* 0: unchanged */
    uint64_t cpu_milli;
    uint64_t pids;
    int dir_fd; /* a host directory, or -1 */
};
/* The first sends the request, the second waits for the reply. The other steps of a claim run in
 * between. */
void spawn_claim_begin(const struct claim_spec *spec);
void spawn_claim_end(void);
/* Returns the descriptors of an exec cgroup: its directory, then files to write "0" to. */
size_t spawn_make_cgroup(const char *id, uint32_t cgroup, int fds[FDS_MAX]);
void spawn_kill_cgroup(const char *id, uint32_t cgroup);

/* --- guest.c: requests to berm-guest in a sandbox, like bermd's --- */

void guest_open(const char *state, const char *layer);
/* Runs a program in a cgroup that was created ahead, with logs in `dir`. Measures the time until
 * its exit is reported, and until its cgroup is removed and the next one is created. */
void guest_run(const char *dir, char *const *argv, double *ret_told_us, double *ret_next_us);
/* Creates and removes an exec cgroup, as guest_run does after the program. */
void guest_exec_cgroup(void);
void guest_close(void);

/* --- claim.c: claims parked instances like bermd --- */

void claim_open(const char *state, unsigned n);
/* Returns the microseconds to claim the oldest instance. `name` sets another name; `dir` adds that
 * directory, three limits and eight variables. Both may be NULL: then nothing changes. */
double claim_one(const char *name, const char *dir);
void claim_close(void);

/* --- rpc.c: bermd, over gRPC --- */

void rpc_open(const char *socket_path);
void rpc_create(const char *id, const char *layer);
void rpc_run(const char *id, char *const *argv);
/* `wait`: until the sandbox is gone; otherwise until the deletion is recorded. */
void rpc_delete(const char *id, int wait);

/* --- files.c: transfers files and trees between a sandbox and local files, with libberm --- */

void files_open(const char *socket_path);
void file_put(const char *id, const char *path, const char *from);
void file_get(const char *id, const char *path, const char *to);
/* From and to a tar archive. Return the number of files. */
uint64_t tree_put(const char *id, const char *path, const char *tar);
uint64_t tree_get(const char *id, const char *path, const char *tar);
void file_stat(const char *id, const char *path);
/* Returns the number of entries. */
size_t file_list(const char *id, const char *path);
void file_remove(const char *id, const char *path);
