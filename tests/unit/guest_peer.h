/* guest_peer — a guest_link and a socketpair whose other end, the guest, the test controls.
 *
 * `log` collects the link's events, one word each: `exec:ID`, `ready`, `notice:METHOD`,
 * `lost:CODE`, and `NAME=ok` or `NAME=CODE` for each reply. */
#pragma once

#include <uv.h>

#include "core/guest/guest_link_impl.h"
#include "harness.h"

#define HELLO_ANSWER                                                                               \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"version\":1,\"guest\":\"t\",\"fd_passing\":true," \
    "\"capabilities\":[\"terminal\",\"leaf\"],\"execs\":[]}}\n"
#define RESULT(id, members) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"result\":{" members "}}\n"

struct request {
    struct guest_wait wait;
    struct peer *peer;
    char name[16];
    int64_t next_offset;
    int kept_fd;
    bool keeps; /* keep the first descriptor of the reply */
};

struct peer {
    uv_loop_t loop;
    struct deadlines deadlines;
    struct guest_link *link; /* NULL after close */
    struct transcript *transcript;
    int fd; /* the guest's end */
    struct request requests[300];
    char log[32768];
    struct err last;        /* the last error */
    const char *close_at;   /* close the link inside the callback that logs this word */
    bool asks_in_callbacks; /* send the next request inside callbacks of a lost link */
    bool in_call;
};

void peer_open(struct peer *p);
/* Uses a connection to a real guest; takes ownership of fd. */
void peer_open_on(struct peer *p, int fd);
/* Opens the link and sends the guest's hello. */
void peer_greet(struct peer *p);
void peer_close(struct peer *p);

/* The waiter of a typed call, with the name r0, r1 … by its slot. */
struct guest_wait *peer_wait(struct peer *p, size_t slot);
/* Starts a request of that name; its params stay open until peer_send. */
struct request *peer_begin(struct peer *p, size_t slot, const char *method,
                           struct json_out **ret_params);
struct request *peer_send(struct request *r, const int *fds, size_t n_fds);
/* Starts and sends a request with its name as the only member. */
struct request *peer_ask(struct peer *p, size_t slot, const char *method, const int *fds,
                         size_t n_fds);
void peer_ask_nobody(struct peer *p, const char *method);

/* The guest's side: sends text. */
void peer_says(struct peer *p, const char *text);
void peer_says_bytes(struct peer *p, const void *bytes, size_t n, const int *fds, size_t n_fds);
/* Reads one line. Its descriptors go to fds. */
size_t peer_hears(struct peer *p, char *line, size_t cap, int *fds, size_t *n_fds);

/* Runs the loop until the log contains `word`, or a few iterations if NULL. */
bool peer_until(struct peer *p, const char *word);
/* Runs the loop, compares the log and empties it. */
#define CHECK_LOG(p, want)                      \
    do {                                        \
        peer_until(p, (want)[0] ? want : NULL); \
        CHECK_STR((p)->log, want);              \
        (p)->log[0] = '\0';                     \
    } while (0)
size_t open_fds(void);
