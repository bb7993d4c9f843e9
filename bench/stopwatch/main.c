#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stopwatch/stopwatch.h"

extern char **environ;

#define WORDS_MAX 64

double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void die(const char *what) {
    die_of(what, errno ? strerror(errno) : "ended");
}

void die_of(const char *what, const char *why) {
    fprintf(stderr, "stopwatch: %s: %s\n", what, why);
    exit(1);
}

/* --- commands: get their words, set times in ret_us, return how many times --- */

/* COMMAND...: from posix_spawn until it is reaped. */
static int do_time(char **words, double *ret_us) {
    pid_t pid;
    int status;
    double begin = now_us();
    if (posix_spawn(&pid, words[0], NULL, NULL, words, environ) != 0)
        die(words[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    ret_us[0] = now_us() - begin;
    if (status != 0)
        die_of(words[0], "did not end with 0");
    return 1;
}

/* FILE: writes a block and syncs it, the minimum cost of a record on this file system. */
static int do_sync(char **words, double *ret_us) {
    static const char block[4096] = "block";
    int fd = open(words[0], O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    double begin = now_us();
    if (fd < 0 || write(fd, block, sizeof block) != sizeof block || fdatasync(fd) < 0)
        die(words[0]);
    ret_us[0] = now_us() - begin;
    close(fd);
    return 1;
}

/* BERM-SPAWN GUEST STATE MOUNT-ROOT */
static int do_spawn(char **words, double *ret_us) {
    (void)ret_us;
    spawn_open(words[0], words[1], words[2], words[3]);
    return 0;
}

static int do_sweep(char **words, double *ret_us) {
    (void)words, (void)ret_us;
    spawn_sweep();
    return 0;
}

/* LAYER MEMORY PIDS PROGRAM...: until the program is reaped, and until the sandbox is destroyed. */
static int do_create(char **words, double *ret_us) {
    static unsigned serial;
    char id[32], *init[WORDS_MAX + 4] = {"berm-init", "1000", "/workspace"};
    for (size_t i = 3; words[i]; i++)
        init[i] = words[i];
    snprintf(id, sizeof id, "bench-%u", ++serial);
    struct sandbox_spec spec = {
        .id = id,
        .layer = strcmp(words[0], "disk") == 0 ? SPAWN_LAYER_DISK : SPAWN_LAYER_MEMORY,
        .memory_bytes = strtoull(words[1], NULL, 10),
        .pids = strtoull(words[2], NULL, 10),
        .control_fd = -1,
        .words = init,
    };
    double begin = now_us();
    int pid_fd = spawn_create(&spec);
    struct pollfd end = {.fd = pid_fd, .events = POLLIN};
    while (poll(&end, 1, -1) < 0 && errno == EINTR)
        ;
    ret_us[0] = now_us() - begin;
    spawn_destroy(id);
    ret_us[1] = now_us() - begin;
    close(pid_fd);
    return 2;
}

/* STATE LAYER: starts a sandbox with berm-guest. */
static int do_guest(char **words, double *ret_us) {
    (void)ret_us;
    guest_open(words[0], words[1]);
    return 0;
}

/* DIR PROGRAM... */
static int do_exec(char **words, double *ret_us) {
    guest_run(words[0], words + 1, &ret_us[0], &ret_us[1]);
    return 2;
}

static int do_exec_cgroup(char **words, double *ret_us) {
    (void)words;
    double begin = now_us();
    guest_exec_cgroup();
    ret_us[0] = now_us() - begin;
    return 1;
}

static int do_guest_end(char **words, double *ret_us) {
    (void)words, (void)ret_us;
    guest_close();
    return 0;
}

/* STATE N: parks N instances. */
static int do_park(char **words, double *ret_us) {
    (void)ret_us;
    claim_open(words[0], (unsigned)strtoul(words[1], NULL, 10));
    return 0;
}

/* NAME [DIR]: claims a parked instance; NAME "-" keeps its name. */
static int do_claim(char **words, double *ret_us) {
    ret_us[0] = claim_one(strcmp(words[0], "-") == 0 ? NULL : words[0], words[1]);
    return 1;
}

static int do_park_end(char **words, double *ret_us) {
    (void)words, (void)ret_us;
    claim_close();
    return 0;
}

/* SOCKET of a bermd */
static int do_connect(char **words, double *ret_us) {
    (void)ret_us;
    rpc_open(words[0]);
    files_open(words[0]);
    return 0;
}

/* ID LAYER: CreateSandbox until READY. */
static int do_make(char **words, double *ret_us) {
    double begin = now_us();
    rpc_create(words[0], words[1]);
    ret_us[0] = now_us() - begin;
    return 1;
}

/* ID PROGRAM...: RunExec. */
static int do_run(char **words, double *ret_us) {
    double begin = now_us();
    rpc_run(words[0], words + 1);
    ret_us[0] = now_us() - begin;
    return 1;
}

/* ID LAYER PROGRAM...: CreateSandbox until READY, and until the first RunExec replies. */
static int do_first(char **words, double *ret_us) {
    double begin = now_us();
    rpc_create(words[0], words[1]);
    ret_us[0] = now_us() - begin;
    rpc_run(words[0], words + 2);
    ret_us[1] = now_us() - begin;
    return 2;
}

/* ID: DeleteSandbox until the sandbox is gone. */
static int do_delete(char **words, double *ret_us) {
    double begin = now_us();
    rpc_delete(words[0], 1);
    ret_us[0] = now_us() - begin;
    return 1;
}

/* ID: DeleteSandbox until the deletion is recorded. */
static int do_drop(char **words, double *ret_us) {
    double begin = now_us();
    rpc_delete(words[0], 0);
    ret_us[0] = now_us() - begin;
    return 1;
}

/* ID PATH FILE: WriteFile from a local file. */
static int do_put(char **words, double *ret_us) {
    double begin = now_us();
    file_put(words[0], words[1], words[2]);
    ret_us[0] = now_us() - begin;
    return 1;
}

/* ID PATH FILE: ReadFile into a local file. */
static int do_get(char **words, double *ret_us) {
    double begin = now_us();
    file_get(words[0], words[1], words[2]);
    ret_us[0] = now_us() - begin;
    return 1;
}

/* ID PATH TAR: UploadTree of an archive; also the number of files. */
static int do_tree_put(char **words, double *ret_us) {
    double begin = now_us();
    ret_us[1] = (double)tree_put(words[0], words[1], words[2]);
    ret_us[0] = now_us() - begin;
    return 2;
}

/* ID PATH TAR: DownloadTree into an archive; also the number of files. */
static int do_tree_get(char **words, double *ret_us) {
    double begin = now_us();
    ret_us[1] = (double)tree_get(words[0], words[1], words[2]);
    ret_us[0] = now_us() - begin;
    return 2;
}

/* ID PATH */
static int do_stat(char **words, double *ret_us) {
    double begin = now_us();
    file_stat(words[0], words[1]);
    ret_us[0] = now_us() - begin;
    return 1;
}

/* ID PATH: also the number of entries. */
static int do_list(char **words, double *ret_us) {
    double begin = now_us();
    ret_us[1] = (double)file_list(words[0], words[1]);
    ret_us[0] = now_us() - begin;
    return 2;
}

/* ID PATH: removes recursively. */
static int do_remove(char **words, double *ret_us) {
    (void)ret_us;
    file_remove(words[0], words[1]);
    return 0;
}

static const struct {
    const char *name;
    int n_words; /* minimum */
    int (*run)(char **words, double *ret_us);
} commands[] = {
    {"time", 1, do_time},
    {"sync", 1, do_sync},
    {"spawn", 4, do_spawn},
    {"sweep", 0, do_sweep},
    {"create", 4, do_create},
    {"guest", 2, do_guest},
    {"exec", 2, do_exec},
    {"exec-cgroup", 0, do_exec_cgroup},
    {"guest-end", 0, do_guest_end},
    {"connect", 1, do_connect},
    {"make", 2, do_make},
    {"run", 2, do_run},
    {"first", 3, do_first},
    {"delete", 1, do_delete},
    {"drop", 1, do_drop},
    {"put", 3, do_put},
    {"get", 3, do_get},
    {"tree-put", 3, do_tree_put},
    {"tree-get", 3, do_tree_get},
    {"stat", 2, do_stat},
    {"list", 2, do_list},
    {"remove", 2, do_remove},
    {"park", 2, do_park},
    {"claim", 1, do_claim},
    {"park-end", 0, do_park_end},
};

static void obey(char *line) {
    char *words[WORDS_MAX + 1] = {0};
    double us[2];
    int n = 0;
    for (char *word; n < WORDS_MAX && (word = strsep(&line, "\t\n")) && (word[0] || line);)
        words[n++] = word;
    for (size_t i = 0; n > 0 && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, words[0]) != 0 || n <= commands[i].n_words)
            continue;
        int n_us = commands[i].run(words + 1, us);
        printf("ok");
        for (int k = 0; k < n_us; k++)
            printf(" %.1f", us[k]);
        printf("\n");
        fflush(stdout);
        return;
    }
    die_of(n > 0 ? words[0] : "", "no such command");
}

int main(void) {
    static char line[65536];
    signal(SIGPIPE, SIG_IGN);
    while (fgets(line, sizeof line, stdin))
        obey(line);
    spawn_close();
    return 0;
}
