#include "clients/c/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

void outbox_lend(struct outbox *o, struct loan lent, size_t *owed) {
    o->lent = lent;
    *owed = loan_len(&lent);
    o->lent_at = buf_len(&o->bytes);
    o->owed = owed;
}

static void settle(struct outbox *o) {
    if (o->owed)
        *o->owed = 0;
    o->owed = NULL;
    o->lent = (struct loan){0};
}

static void sent(struct outbox *o, size_t n) {
    size_t before = o->owed ? MIN(n, o->lent_at) : n;
    size_t lent = MIN(n - before, loan_len(&o->lent));
    buf_consume(&o->bytes, n - lent);
    o->lent_at -= o->owed ? before : 0;
    (void)loan_cut(&o->lent, lent);
    if (loan_len(&o->lent) == 0)
        settle(o);
}

/* Calls splice without letting it raise SIGPIPE. splice has no MSG_NOSIGNAL, and a library must not
 * change the program's signal handler, so this blocks SIGPIPE and consumes it if splice raised
 * it. */
static ssize_t splice_unsignalled(int from, int to, size_t n) {
    sigset_t pipe_only, pending, before;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    int r = pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    if (r != 0)
        return -r;
    ssize_t moved = splice(from, NULL, to, NULL, n, SPLICE_F_NONBLOCK);
    moved = moved < 0 ? -errno : moved;
    if (moved == -EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe_only, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return moved != 0 ? moved : -EIO;
}

static ssize_t send_bytes(struct outbox *o, int fd) {
    size_t before = o->owed ? o->lent_at : buf_len(&o->bytes);
    struct iovec parts[] = {
        {buf_data(&o->bytes), before},
        {(void *)o->lent.bytes, o->lent.n},
        {buf_data(&o->bytes) + before, buf_len(&o->bytes) - before},
    };
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = COUNT_OF(parts)};
    if (o->lent.n_piped > 0) /* omit the last part: outbox_send splices the piped bytes before it */
        m.msg_iovlen--;
    ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

ssize_t outbox_send(struct outbox *o, int fd) {
    bool is_pipes_turn = o->lent.n_piped > 0 && o->lent.n == 0 && o->lent_at == 0;
    ssize_t n =
        is_pipes_turn ? splice_unsignalled(o->lent.pipe, fd, o->lent.n_piped) : send_bytes(o, fd);
    if (n > 0)
        sent(o, (size_t)n);
    return n;
}

static int read_whole(int fd, uint8_t *into, size_t n) {
    for (ssize_t r; n > 0; into += r, n -= (size_t)r) {
        r = read(fd, into, n);
        if (r < 0 && errno == EINTR)
            r = 0;
        else if (r <= 0)
            return -EIO;
    }
    return 0;
}

int outbox_keep(struct outbox *o) {
    uint8_t *unused;
    size_t n = loan_len(&o->lent), after = buf_len(&o->bytes) - o->lent_at;
    int r = buf_reserve(&o->bytes, n, &unused);
    if (r == 0) {
        buf_commit(&o->bytes, n);
        uint8_t *at = buf_data(&o->bytes) + o->lent_at;
        memmove(at + n, at, after);
        if (o->lent.n > 0)
            memcpy(at, o->lent.bytes, o->lent.n);
        r = read_whole(o->lent.pipe, at + o->lent.n, o->lent.n_piped);
    }
    settle(o);
    return r;
}

void outbox_clear(struct outbox *o) {
    settle(o);
    buf_clear(&o->bytes);
}
