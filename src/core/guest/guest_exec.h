/* guest_exec — the exec methods of the guest protocol, as typed calls and typed answers.
 *
 * Calls:   arguments are borrowed for the call only and are written straight into the link's send
 *          buffer.
 * Answers: arrive at the waiter in guest_answer.exec or guest_answer.input, validated. Their
 *          pointers are borrowed until on_answer returns. Methods without either answer with
 *          success or an error alone.
 * Errors:  an answer that breaks the protocol reaches its waiter as GUEST_PROTOCOL, and then the
 *          link ends.
 *
 * A state is read leniently: a number that cannot be valid counts as not sent, and an exit that
 * cannot be valid is GUEST_EXIT_UNKNOWN, so that the daemon still records the end of the exec.
 * Spec: spec/guest.md, "Programs"; spec/guest.schema.json */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "berm/v1/berm.pb-c.h"
#include "core/guest/guest_link.h"

#define GUEST_STATUS_MAX 4096    /* bytes of a status file */
#define GUEST_STDIN_BYTES 49152  /* most raw bytes of one guest_exec_write */
#define GUEST_OUTPUT_BYTES 49152 /* most raw bytes of one guest_exec_read_output */

enum guest_exit_kind {
    GUEST_EXIT_UNKNOWN, /* the guest sent no valid exit */
    GUEST_EXIT_CODE,
    GUEST_EXIT_SIGNAL,
    GUEST_EXIT_TIMED_OUT,
    GUEST_EXIT_OUT_OF_MEMORY,
    GUEST_EXIT_OUTPUT_LIMIT,
    GUEST_EXIT_NOT_STARTED,
};

struct guest_exit {
    enum guest_exit_kind kind;
    int number;         /* CODE: 0 to 255. SIGNAL and TIMED_OUT: the signal, 1 to 64 */
    const char *code;   /* NOT_STARTED: a name of errors.def */
    struct str message; /* NOT_STARTED: at most 255 bytes */
};

/* What guest.schema.json calls exec_state. */
struct guest_exec_state {
    struct str exec_id; /* valid */
    bool has_exited;
    struct guest_exit exit; /* UNKNOWN unless it has exited */
    uint64_t stdin_next;
    bool stdin_closed;
    int64_t started_unix_ms;  /* 0 = not sent */
    int64_t exited_unix_ms;   /* 0 = not sent */
    uint64_t max_rss_bytes;   /* 0 = not sent */
    uint64_t output_bytes[2]; /* sizes of stdout and stderr */
};

/* Output that the guest keeps. `offset` is that of the request, or greater if bytes were dropped.
 * `data` is empty only after dropped bytes. */
struct guest_output_answer {
    uint64_t offset;
    struct str data;
};

struct guest_input_answer {
    uint64_t next_offset;
    uint64_t window_bytes;
};

struct guest_exec_start {
    const char *exec_id;
    const Berm__V1__ExecSpec
        *spec; /* as recorded, so that neither arguments nor environment are copied */
    bool takes_input;
    int64_t output_limit_bytes;
    size_t n_fds;
    const int *fds;              /* stay the caller's */
    const char *const *fd_roles; /* of each descriptor, as spec/guest.md names them */
};

/* Answered with guest_answer.exec. */
void guest_exec_start(struct guest_link *l, const struct guest_exec_start *start,
                      struct guest_wait *w);
/* Sends at most GUEST_STDIN_BYTES of `data`. Answered with guest_answer.input. */
void guest_exec_write(struct guest_link *l, const char *exec_id, uint64_t offset, struct str data,
                      struct guest_wait *w);
void guest_exec_close_stdin(struct guest_link *l, const char *exec_id, uint64_t offset,
                            struct guest_wait *w);
/* The guest sends a signal of the same `number` once only. */
void guest_exec_signal(struct guest_link *l, const char *exec_id, int signal, bool leader_only,
                       uint64_t number, struct guest_wait *w);
/* Reads the log that a guest without descriptors keeps. The caller knows that there is more than
 * `offset` bytes. Answered with guest_answer.output. */
void guest_exec_read_output(struct guest_link *l, const char *exec_id, bool is_stderr,
                            uint64_t offset, struct guest_wait *w);
void guest_exec_resize(struct guest_link *l, const char *exec_id, uint32_t cols, uint32_t rows,
                       struct guest_wait *w);
/* The link ignores the answers to the following. */
void guest_exec_kill(struct guest_link *l, const char *exec_id);
void guest_exec_grant(struct guest_link *l, const char *exec_id, uint64_t total_bytes);
void guest_exec_forget(struct guest_link *l, struct str exec_id);

/* Appends the line of a status file, for an exit that the guest did not write itself. -errno */
MUST_USE int guest_exec_status_write(const struct guest_exec_state *state, struct buf *to);
/* Reads the status file that the guest writes when an exec ends. -EBADMSG: it holds no whole line
 * or no exec_state, which counts as an empty file. -ENOMEM. The state borrows from `text` and the
 * arena. */
MUST_USE int guest_exec_status_read(struct str text, struct arena *a, struct guest_exec_state *ret);
