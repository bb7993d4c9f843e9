#include "drivers/native/listeners.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"

#define MANY 600 /* more than one reply of the kernel contains */

static char dir[64];

static int dir_open(void) {
    strcpy(dir, "/tmp/berm-listeners-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void dir_close(int fd) {
    char command[96];
    close(fd);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK_INT(system(command), 0);
}

static int bound(const char *name) {
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s/%s", dir, name);
    CHECK_INT(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    return fd;
}

static int listening(const char *name) {
    int fd = bound(name);
    CHECK_INT(listen(fd, 1), 0);
    return fd;
}

TEST(listeners_lists_only_sockets_that_listen_now) {
    int at = dir_open();
    int alive = listening("alive"), silent = bound("silent"), moved = listening("moved");
    close(listening("dead"));
    CHECK_INT(symlinkat("alive", at, "symlink"), 0);
    CHECK_INT(mknodat(at, "file", S_IFREG | 0600, 0), 0);
    struct listeners *l = listeners_read(at);
    if (!CHECK(l != NULL))
        return;
    CHECK(listeners_has(l, at, "alive"));
    CHECK(listeners_has(l, at, "moved"));
    static const char *const others[] = {"silent", "dead", "symlink", "file", "missing", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check(!listeners_has(l, at, others[i]), __FILE__, __LINE__, "\"%s\"", others[i]);
    CHECK_INT(renameat(at, "moved", at, "elsewhere"), 0); /* the file counts, not its name */
    int other = bound("moved");
    CHECK(!listeners_has(l, at, "moved"));
    CHECK(listeners_has(l, at, "elsewhere"));
    CHECK(!listeners_has(NULL, at, "alive"));
    listeners_free(l);
    listeners_free(NULL);
    close(alive);
    close(silent);
    close(moved);
    close(other);
    dir_close(at);
}

TEST(listeners_lists_any_number_of_sockets) {
    static int fds[MANY];
    char name[16];
    int at = dir_open();
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "s-%d", i);
        fds[i] = listening(name);
    }
    struct listeners *l = listeners_read(at);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "s-%d", i);
        check(listeners_has(l, at, name), __FILE__, __LINE__, "%s", name);
    }
    listeners_free(l);
    for (unsigned n = 1;; n++) { /* an incomplete list must fail */
        alloc_fail_at(n);
        l = listeners_read(at);
        bool failed = alloc_failed();
        alloc_fail_at(0);
        CHECK((l == NULL) == failed);
        listeners_free(l);
        if (!failed)
            break;
    }
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    dir_close(at);
}
