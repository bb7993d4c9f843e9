#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "harness.h"

static int temp_dir(char *path) {
    strcpy(path, "/tmp/berm-fd-XXXXXX");
    return mkdtemp(path) == NULL ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

TEST(fd_passes_descriptors_that_close_on_exec) {
    int pair[2], got[4];
    size_t n_got = 0;
    char byte = 0;
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    int two[2] = {open("/dev/null", O_RDWR), open("/dev/zero", O_RDONLY)};
    CHECK_INT(fd_send(pair[0], "x", 1, two, 2), 0);
    CHECK_INT(fd_recv(pair[1], &byte, 1, got, 4, &n_got), 1);
    CHECK_INT(byte, 'x');
    CHECK_INT(n_got, 2);
    CHECK_INT(fcntl(got[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    char zero = 1;
    CHECK_INT(read(got[1], &zero, 1), 1);
    CHECK_INT(zero, 0);
    fd_close_all(got, n_got);
    CHECK_INT(got[0], -1);
    fd_close_all(two, 2);
    fd_close_all(pair, 2);
}

/* Returns the number of the next descriptor. An unchanged number means that nothing leaked. */
static int next_fd(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

TEST(fd_recv_refuses_oversized_messages) {
    int pair[2], got[1];
    size_t n_got = 7;
    char text[8];
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    int three[3] = {dup(0), dup(0), dup(0)};
    int before = next_fd();
    CHECK_INT(fd_send(pair[0], "abc", 3, three, 3), 0);
    CHECK_INT(fd_recv(pair[1], text, sizeof text, got, 1, &n_got), -EMSGSIZE);
    CHECK_INT(n_got, 7); /* written only on success */
    CHECK_INT(next_fd(), before);
    CHECK_INT(fd_send(pair[0], "0123456789", 10, three, 1), 0);
    CHECK_INT(fd_recv(pair[1], text, sizeof text, got, 1, &n_got), -EMSGSIZE);
    CHECK_INT(next_fd(), before);
    CHECK_INT(fd_send(pair[0], "", 0, three, 1), -EINVAL);
    int many[FD_PASS_MAX + 1] = {0};
    CHECK_INT(fd_send(pair[0], "x", 1, many, FD_PASS_MAX + 1), -EINVAL);
    fd_close_all(three, 3);
    close(pair[0]);
    CHECK_INT(fd_recv(pair[1], text, sizeof text, got, 1, &n_got), 0);
    close(pair[1]);
}

TEST(fd_recv_keeps_the_message_when_descriptors_run_out) {
    int pair[2], got[4];
    size_t n_got = 7;
    char text[8] = "";
    struct rlimit before, none;
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    int three[3] = {dup(0), dup(0), dup(0)};
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_INT(fd_send(pair[0], "abc", 4, three, 3), 0);
    none = before;
    for (rlim_t room = 0; room < 3; room++) { /* no space for any, and for some of them */
        none.rlim_cur = (rlim_t)next_fd() + room;
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
        CHECK_INT(fd_recv(pair[1], text, sizeof text, got, 4, &n_got), -EMFILE);
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
        CHECK_STR(text, "abc");
        CHECK_INT(n_got, 7);
        CHECK_INT(fd_send(pair[0], "abc", 4, three, 3), 0);
    }
    CHECK_INT(fd_recv(pair[1], text, sizeof text, got, 4, &n_got), 4);
    CHECK_INT(n_got, 3);
    fd_close_all(got, n_got);
    fd_close_all(three, 3);
    fd_close_all(pair, 2);
}

TEST(fd_open_beneath_never_leaves_its_directory) {
    char path[64];
    int dir = temp_dir(path);
    CHECK(dir >= 0);
    int sub = fd_make_dir(dir, "sub", 0755);
    CHECK(sub >= 0);
    CHECK_INT(symlinkat("/etc/passwd", dir, "link"), 0);
    CHECK_INT(symlinkat("sub", dir, "inner"), 0);
    int fd = fd_open_beneath(dir, "sub/file", O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0);
    CHECK_INT(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close(fd);
    CHECK_INT(fd_open_beneath(dir, "link", O_RDONLY, 0), -ELOOP);
    CHECK_INT(fd_open_beneath(dir, "inner/file", O_RDONLY, 0), -ELOOP);
    CHECK_INT(fd_open_beneath(dir, "../etc", O_RDONLY, 0), -EXDEV);
    CHECK_INT(fd_open_beneath(dir, "/etc/passwd", O_RDONLY, 0), -EXDEV);
    CHECK_INT(fd_open_beneath(sub, "..", O_PATH, 0), -EXDEV);
    CHECK_INT(fd_open_beneath(dir, "absent", O_RDONLY, 0), -ENOENT);
    int again = fd_make_dir(dir, "sub", 0755);
    CHECK(again >= 0);
    CHECK_INT(fd_make_dir(dir, "link", 0755), -ELOOP);
    close(again);
    unlinkat(sub, "file", 0);
    unlinkat(dir, "sub", AT_REMOVEDIR);
    unlinkat(dir, "link", 0);
    unlinkat(dir, "inner", 0);
    close(sub);
    close(dir);
    rmdir(path);
}

TEST(fd_sealed_copy_cannot_change) {
    char path[64];
    int dir = temp_dir(path);
    int source = fd_open_beneath(dir, "source", O_RDWR | O_CREAT, 0600);
    CHECK_INT(write(source, "program", 7), 7);
    int fd = fd_sealed_copy("test", source);
    CHECK(fd >= 0);
    char text[16] = "";
    CHECK_INT(pread(fd, text, sizeof text, 0), 7);
    CHECK_STR(text, "program");
    CHECK_INT(pwrite(fd, "X", 1, 0), -1);
    CHECK_INT(errno, EPERM);
    CHECK_INT(ftruncate(fd, 0), -1);
    CHECK_INT(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    close(fd);
    close(source);
    unlinkat(dir, "source", 0);
    close(dir);
    rmdir(path);
}

TEST(fd_text_files_are_bounded) {
    char path[64], text[6];
    int dir = temp_dir(path);
    CHECK_INT(fd_write_text(dir, "f", "12345"), -ENOENT); /* never creates a file */
    close(fd_open_beneath(dir, "f", O_WRONLY | O_CREAT, 0600));
    CHECK_INT(fd_write_text(dir, "f", "12345"), 0);
    CHECK_INT(fd_read_text(dir, "f", text, sizeof text), 5);
    CHECK_STR(text, "12345");
    CHECK_INT(fd_read_text(dir, "f", text, 5), -EFBIG);
    CHECK_INT(fd_read_text(dir, "absent", text, sizeof text), -ENOENT);
    unlinkat(dir, "f", 0);
    close(dir);
    rmdir(path);
}

/* A lease holder gets 45 seconds to release the lease. A non-blocking open fails until then. */
TEST(fd_open_beneath_does_not_wait_for_a_lease) {
    char path[32];
    int dir = temp_dir(path);
    int file = openat(dir, "leased", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    signal(SIGIO, SIG_IGN);
    CHECK_INT(fcntl(file, F_SETLEASE, F_WRLCK), 0);
    CHECK_INT(fd_open_beneath(dir, "leased", O_RDONLY | O_NONBLOCK, 0), -EAGAIN);
    CHECK_INT(fcntl(file, F_SETLEASE, F_UNLCK), 0);
    int got = fd_open_beneath(dir, "leased", O_RDONLY | O_NONBLOCK, 0);
    CHECK(got >= 0);
    signal(SIGIO, SIG_DFL);
    unlinkat(dir, "leased", 0);
    rmdir(path);
    fd_close_all((int[]){dir, file, got}, 3);
}
