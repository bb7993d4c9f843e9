/* A PID 1 that means harm: a guest as bermd must expect it. It speaks just enough of spec/guest.md to be READY, and
 * answers what is asked of files below /hostile with descriptors that a guest of ours would not pass:
 *
 *   pack /hostile/fifo      the reading end of a FIFO with a name that is written to now and then
 *   unpack /hostile/fifo    the writing end of one that nobody reads; `stat` is answered when that is full
 *                           of either it clears O_NONBLOCK all the time: the flags are shared
 *   exec /hostile/silent    no answer
 *   exec /hostile/flood     has exited with 32 MiB of output, whatever its cap is; for a link without descriptors,
 *                           which the guest of a sandbox named no-fds asks for
 *   write /hostile/memory   a file in memory that no limit counts; commit fails and says its size */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define FIFO "/tmp/fifo"
#define MESSAGE_MAX (2 << 20)
#define FLOOD_BYTES (32 << 20)
#define CHUNK_TEXT 65536 /* of 49152 bytes, the largest chunk */

static int fifo = -1;   /* both ends of it */
static int memory = -1; /* of the last write */

static void say(int link, const char *text, int fd) {
    if (fd_send(link, text, strlen(text), &fd, fd >= 0 ? 1 : 0) < 0)
        exit(1);
}

static void answer(int link, long id, const char *result, int fd) {
    char text[512];
    snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":%s}\n", id, result);
    say(link, text, fd);
}

/* Does `step` for ever, in a child. */
static void keep_at(void (*step)(int fd), int fd) {
    if (fork() != 0)
        return;
    for (;; usleep(1000))
        step(fd);
}

static void write_byte(int fd) {
    if (write(fd, "x", 1) < 0)
        exit(1);
}

static void let_wait(int fd) {
    fcntl(fd, F_SETFL, 0);
}

static void pass_fifo(int link, long id, int access) {
    mkfifo(FIFO, 0600);
    fifo = open(FIFO, O_RDWR);
    int end = open(FIFO, access | O_NONBLOCK);
    keep_at(let_wait, end);
    if (access == O_RDONLY)
        keep_at(write_byte, fifo);
    answer(link, id, "{\"handle\":1,\"fds\":1}", end);
}

static void pass_memory(int link, long id) {
    memory = memfd_create("memory", 0);
    answer(link, id, "{\"handle\":1,\"fds\":1}", memory);
}

static void fail(int link, long id, long long size) {
    char text[256];
    snprintf(text, sizeof text,
             "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"error\":{\"code\":86,\"message\":\"size %lld\"}}\n",
             id, size);
    say(link, text, -1);
}

static void fail_when_full(int link, long id) {
    int n = 0, room = fcntl(fifo, F_GETPIPE_SZ);
    while (ioctl(fifo, FIONREAD, &n) == 0 && n < room)
        usleep(1000);
    fail(link, id, n);
}

static void fail_commit(int link, long id) {
    struct stat st = {0};
    fstat(memory, &st);
    fail(link, id, st.st_size);
}

/* Writes the exec id of the request to `to`. */
static void copy_exec_id(const char *line, char to[64]) {
    const char *at = strstr(line, "\"exec_id\":\"");
    if (!at || sscanf(at + strlen("\"exec_id\":\""), "%63[a-z0-9-]", to) != 1)
        exit(1);
}

static void start_flood(int link, long id, const char *line) {
    char name[64], text[256];
    copy_exec_id(line, name);
    snprintf(text, sizeof text,
             "{\"exec_id\":\"%s\",\"state\":\"exited\",\"exit\":{\"code\":0},\"stdout_bytes\":%d}",
             name, FLOOD_BYTES);
    answer(link, id, text, -1);
}

/* A whole chunk of `x`, from whichever offset it is asked for. */
static void flood(int link, long id, const char *line) {
    static char text[CHUNK_TEXT + 256];
    const char *at = strstr(line, "\"offset\":");
    int n = snprintf(text, sizeof text,
                     "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"offset\":%lld,\"data_b64\":\"",
                     id, at ? atoll(at + strlen("\"offset\":")) : 0);
    for (int i = 0; i < CHUNK_TEXT; i += 4)
        memcpy(text + n + i, "eHh4", 4);
    strcpy(text + n + CHUNK_TEXT, "\"}}\n");
    for (size_t sent = 0, all = strlen(text); sent < all;) {
        ssize_t w = send(link, text + sent, all - sent, 0);
        if (w < 0)
            exit(1);
        sent += (size_t)w;
    }
}

static void take(int link, const char *line) {
    const char *id_at = strstr(line, "\"id\":"), *method = strstr(line, "\"method\":\"");
    if (!id_at || !method)
        exit(1);
    long id = atol(id_at + strlen("\"id\":"));
    method += strlen("\"method\":\"");
    bool is_fifo = strstr(line, "/hostile/fifo") != NULL;
    if (strncmp(method, "hello\"", 6) == 0)
        answer(link, id,
               strstr(line, "\"no-fds\"") ? "{\"version\":1,\"fd_passing\":false,\"execs\":[]}"
                                          : "{\"version\":1,\"fd_passing\":true,\"execs\":[]}",
               -1);
    else if (strncmp(method, "exec\"", 5) == 0 && strstr(line, "/hostile/flood"))
        start_flood(link, id, line);
    else if (strncmp(method, "read_output\"", 12) == 0)
        flood(link, id, line);
    else if (strncmp(method, "pack\"", 5) == 0 && is_fifo)
        pass_fifo(link, id, O_RDONLY);
    else if (strncmp(method, "unpack\"", 7) == 0 && is_fifo)
        pass_fifo(link, id, O_WRONLY);
    else if (strncmp(method, "write\"", 6) == 0)
        pass_memory(link, id);
    else if (strncmp(method, "commit\"", 7) == 0)
        fail_commit(link, id);
    else if (strncmp(method, "stat\"", 5) == 0)
        fail_when_full(link, id);
    else if (strncmp(method, "exec\"", 5) != 0 || !strstr(line, "/hostile/silent"))
        answer(link, id, "{}", -1);
}

static void serve(int link) {
    static char bytes[MESSAGE_MAX];
    size_t n = 0;
    for (ssize_t got; (got = recv(link, bytes + n, sizeof bytes - n, 0)) > 0;) {
        n += (size_t)got;
        for (char *end; (end = memchr(bytes, '\n', n)) != NULL;) {
            *end++ = '\0';
            take(link, bytes);
            n -= (size_t)(end - bytes);
            memmove(bytes, end, n);
        }
    }
    close(link);
}

int main(void) {
    listen(3, 1);
    for (int link; (link = accept(3, NULL, NULL)) >= 0;)
        serve(link);
    return 1;
}
