#include "clients/c/outbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

void outbox_lend(struct outbox *o, const uint8_t *lent, size_t n, size_t *owed) {
    o->lent = lent;
    o->n_lent = *owed = n;
    o->lent_at = buf_len(&o->bytes);
    o->owed = owed;
}

static void settle(struct outbox *o) {
    if (o->owed)
        *o->owed = 0;
    o->owed = NULL;
    o->n_lent = 0;
}

static void sent(struct outbox *o, size_t n) {
    size_t before = o->owed ? MIN(n, o->lent_at) : n;
    size_t lent = MIN(n - before, o->n_lent);
    buf_consume(&o->bytes, n - lent);
    o->lent_at -= o->owed ? before : 0;
    o->lent += lent;
    o->n_lent -= lent;
    if (o->n_lent == 0)
        settle(o);
}

ssize_t outbox_send(struct outbox *o, int fd) {
    size_t before = o->owed ? o->lent_at : buf_len(&o->bytes);
    struct iovec parts[] = {
        {buf_data(&o->bytes), before},
        {(void *)o->lent, o->n_lent},
        {buf_data(&o->bytes) + before, buf_len(&o->bytes) - before},
    };
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = COUNT_OF(parts)};
    ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return -errno;
    sent(o, (size_t)n);
    return n;
}

int outbox_keep(struct outbox *o) {
    uint8_t *unused;
    size_t n = o->n_lent, after = buf_len(&o->bytes) - o->lent_at;
    int r = buf_reserve(&o->bytes, n, &unused);
    if (r == 0) {
        buf_commit(&o->bytes, n);
        uint8_t *at = buf_data(&o->bytes) + o->lent_at;
        memmove(at + n, at, after);
        memcpy(at, o->lent, n);
    }
    settle(o);
    return r;
}

void outbox_clear(struct outbox *o) {
    settle(o);
    buf_clear(&o->bytes);
}
