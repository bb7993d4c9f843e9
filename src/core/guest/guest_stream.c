#include "core/guest/guest_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "base/fd.h"

#define READ_BYTES ((size_t)65536)

/* The descriptors of a message whose first byte is not sent yet. */
struct parcel {
    struct list in_stream;
    uint64_t at;  /* stream offset of the first byte */
    bool is_ours; /* the stream owns them; false: borrowed from the caller of post */
    size_t n;
    int fds[RPC_MESSAGE_FDS_MAX];
};

void guest_stream_init(struct guest_stream *s, int fd) {
    *s = (struct guest_stream){.fd = fd};
    rpc_in_init(&s->rx, GUEST_MESSAGE_MAX);
    buf_init(&s->tx, GUEST_UNREAD_MAX);
    list_init(&s->parcels);
}

static void parcel_drop(struct parcel *p) {
    list_remove(&p->in_stream);
    if (!p->is_ours)
        return;
    fd_close_all(p->fds, p->n);
    free(p);
}

void guest_stream_end(struct guest_stream *s) {
    LIST_FOR_EACH(it, &s->parcels)
        parcel_drop(container_of(it, struct parcel, in_stream));
    buf_done(&s->tx);
    shutdown(s->fd, SHUT_RDWR);
}

void guest_stream_done(struct guest_stream *s) {
    guest_stream_end(s);
    rpc_in_done(&s->rx);
    close(s->fd);
}

static ssize_t stream_send(int fd, const void *bytes, size_t n, const struct parcel *p) {
    struct iovec iov = {.iov_base = (void *)bytes, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(RPC_MESSAGE_FDS_MAX * sizeof(int))];
    } control = {0};
    if (p) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(p->n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(p->n * sizeof(int));
        memcpy(CMSG_DATA(c), p->fds, p->n * sizeof(int));
    }
    ssize_t sent = sendmsg(fd, &msg, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

/* Writes up to the next message that has descriptors, because descriptors travel with the first
 * byte of their message. */
static ssize_t stream_write(struct guest_stream *s) {
    size_t n = buf_len(&s->tx);
    struct parcel *now = NULL;
    LIST_FOR_EACH(it, &s->parcels) {
        struct parcel *p = container_of(it, struct parcel, in_stream);
        if (p->at > s->tx_offset) {
            n = MIN(n, (size_t)(p->at - s->tx_offset));
            break;
        }
        now = p;
    }
    ssize_t sent = stream_send(s->fd, buf_data(&s->tx), n, now);
    if (sent > 0 && now)
        parcel_drop(now);
    return sent;
}

int guest_stream_flush(struct guest_stream *s) {
    s->is_full = false;
    while (buf_len(&s->tx) > 0) {
        ssize_t n = stream_write(s);
        if (n == -EINTR)
            continue;
        if (n == -EAGAIN) {
            s->is_full = true;
            return 0;
        }
        if (n < 0)
            return (int)n;
        buf_consume(&s->tx, (size_t)n);
        s->tx_offset += (size_t)n;
    }
    buf_trim(&s->tx);
    return 0;
}

static int parcel_keep(struct guest_stream *s, const struct parcel *from) {
    struct parcel *p = malloc(sizeof *p);
    if (!p)
        return -ENOBUFS;
    *p = (struct parcel){.at = from->at, .is_ours = true};
    list_init(&p->in_stream);
    for (; p->n < from->n; p->n++) {
        p->fds[p->n] = fcntl(from->fds[p->n], F_DUPFD_CLOEXEC, 0);
        if (p->fds[p->n] < 0) {
            parcel_drop(p);
            return -ENOBUFS;
        }
    }
    list_push_back(&s->parcels, &p->in_stream);
    return 0;
}

int guest_stream_post(struct guest_stream *s, size_t from, const int *fds, size_t n_fds) {
    struct parcel here = {.at = s->tx_offset + from, .n = n_fds};
    list_init(&here.in_stream);
    if (n_fds > 0) {
        memcpy(here.fds, fds, n_fds * sizeof fds[0]);
        list_push_back(&s->parcels, &here.in_stream);
    }
    int r = s->is_full ? 0 : guest_stream_flush(s);
    bool unsent = !list_is_empty(&here.in_stream);
    list_remove(&here.in_stream);
    if (unsent && r == 0)
        r = parcel_keep(s, &here);
    /* Too many descriptors are in flight to guests at the moment. */
    return unsent && r == -ETOOMANYREFS ? -ENOBUFS : r;
}

int guest_stream_receive(struct guest_stream *s) {
    uint8_t *at;
    int fds[FD_PASS_MAX];
    size_t n_fds = 0;
    int r = rpc_in_reserve(&s->rx, READ_BYTES, &at);
    if (r < 0)
        return r;
    ssize_t n = fd_recv(s->fd, at, MIN(READ_BYTES, buf_available(&s->rx.bytes)), fds, COUNT_OF(fds),
                        &n_fds);
    if (n == -EAGAIN)
        return 0;
    if (n <= 0)
        return n == 0 ? -EPIPE : (int)n;
    rpc_in_commit(&s->rx, (size_t)n);
    r = rpc_in_take_fds(&s->rx, fds, n_fds);
    return r < 0 ? r : 1;
}
