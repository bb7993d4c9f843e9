#include "drivers/native/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/macros.h"

#define ANSWER_BYTES 32768

/* The snapshot identifies a socket by its inode, because any process can bind the same name. The
 * kernel keeps the inode while the socket lives, so no other socket has the number. unix_diag
 * reports the low 32 bits. */
struct listeners {
    dev_t device;
    size_t n, capacity;
    uint32_t *inodes;
};

static int listeners_ask(int fd) {
    struct {
        struct nlmsghdr head;
        struct unix_diag_req body;
    } question = {
        .head = {.nlmsg_len = sizeof question,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .body = {.sdiag_family = AF_UNIX,
                 .udiag_states = 1 << TCP_LISTEN,
                 .udiag_show = UDIAG_SHOW_VFS},
    };
    return send(fd, &question, sizeof question, 0) == sizeof question ? 0 : -errno;
}

static int listeners_add(struct listeners *l, uint32_t inode) {
    if (l->n == l->capacity) {
        size_t capacity = l->capacity > 0 ? 2 * l->capacity : 256;
        uint32_t *more = realloc(l->inodes, capacity * sizeof *more);
        if (!more)
            return -ENOMEM;
        l->inodes = more;
        l->capacity = capacity;
    }
    l->inodes[l->n++] = inode;
    return 0;
}

static int listeners_take_socket(struct listeners *l, const struct nlmsghdr *message) {
    const struct nlattr *at = (const void *)((const char *)NLMSG_DATA(message) +
                                             NLMSG_ALIGN(sizeof(struct unix_diag_msg)));
    const char *end = (const char *)message + message->nlmsg_len;
    while ((const char *)(at + 1) <= end && at->nla_len >= sizeof *at &&
           (const char *)at + at->nla_len <= end) {
        const struct unix_diag_vfs *vfs = (const void *)(at + 1);
        if (at->nla_type == UNIX_DIAG_VFS && at->nla_len >= sizeof *at + sizeof *vfs &&
            makedev(vfs->udiag_vfs_dev >> 20, vfs->udiag_vfs_dev & 0xfffff) == l->device)
            return listeners_add(l, vfs->udiag_vfs_ino);
        at = (const void *)((const char *)at + NLA_ALIGN(at->nla_len));
    }
    return 0; /* skip a socket without a path or on another filesystem */
}

/* Returns 1 after the last message of the dump, 0 if more follow, or -errno. */
static int listeners_take_answer(struct listeners *l, const struct nlmsghdr *message, ssize_t n) {
    for (; NLMSG_OK(message, n); message = NLMSG_NEXT(message, n)) {
        if (message->nlmsg_type == NLMSG_DONE)
            return 1;
        if (message->nlmsg_type == NLMSG_ERROR)
            return -EOPNOTSUPP; /* a kernel without unix_diag */
        int r = message->nlmsg_len < NLMSG_LENGTH(sizeof(struct unix_diag_msg))
                    ? -EPROTO
                    : listeners_take_socket(l, message);
        if (r < 0)
            return r;
    }
    return 0;
}

static int listeners_read_all(struct listeners *l, int fd) {
    _Alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
    int r = listeners_ask(fd);
    while (r == 0) {
        /* recv itself makes the kernel write the next part of the dump, so it never has to wait. */
        ssize_t n = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
        r = n <= 0 ? -EIO : listeners_take_answer(l, (const struct nlmsghdr *)answer, n);
    }
    return MIN(r, 0);
}

static int listeners_compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

struct listeners *listeners_read(int dir_fd) {
    struct stat dir;
    AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    struct listeners *l =
        fd < 0 || fstat(dir_fd, &dir) < 0 ? NULL : calloc(1, sizeof(struct listeners));
    if (!l)
        return NULL;
    l->device = dir.st_dev;
    if (listeners_read_all(l, fd) < 0) {
        listeners_free(l);
        return NULL;
    }
    if (l->n > 0)
        qsort(l->inodes, l->n, sizeof *l->inodes, listeners_compare);
    return l;
}

bool listeners_has(const struct listeners *l, int dir_fd, const char *name) {
    struct stat st;
    if (!l || l->n == 0 || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISSOCK(st.st_mode) || st.st_dev != l->device)
        return false;
    uint32_t inode = (uint32_t)st.st_ino;
    return bsearch(&inode, l->inodes, l->n, sizeof inode, listeners_compare) != NULL;
}

void listeners_free(struct listeners *l) {
    if (l)
        free(l->inodes);
    free(l);
}
