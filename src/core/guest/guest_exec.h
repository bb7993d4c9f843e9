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

#define GUEST_STATUS_MAX 4096    /* largest size of a status file */
#define GUEST_STDIN_BYTES 49152  /* largest number of raw bytes in one guest_exec_write */
#define GUEST_OUTPUT_BYTES 49152 /* largest number of raw bytes in one guest_exec_read_output */

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

/* The type exec_state of guest.schema.json. */
struct guest_exec_state {
    struct str exec_id; /* a valid exec id */
    bool has_exited;
    struct guest_exit exit; /* GUEST_EXIT_UNKNOWN unless the exec has exited */
    uint64_t stdin_next;
    bool stdin_closed;
    int64_t started_unix_ms;  /* 0 = not sent */
    int64_t exited_unix_ms;   /* 0 = not sent */
    uint64_t max_rss_bytes;   /* 0 = not sent */
    uint64_t output_bytes[2]; /* sizes of stdout and stderr */
};

/* Output that the guest keeps. `offset` is the offset of the request, or greater if bytes were
 * dropped. `data` is empty only after dropped bytes. */
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
    /* The recorded spec, borrowed so that nothing is copied. */
    const Berm__V1__ExecSpec *spec;
    bool takes_input;
    int64_t output_limit_bytes;
    size_t n_fds;
    const int *fds;              /* the caller keeps ownership */
    const char *const *fd_roles; /* role of each descriptor, as in spec/guest.md */
};

/* The answer is in guest_answer.exec. */
void guest_exec_start(struct guest_link *l, const struct guest_exec_start *start,
                      struct guest_wait *w);
/* Sends at most GUEST_STDIN_BYTES of `data`. The answer is in guest_answer.input. */
void guest_exec_write(struct guest_link *l, const char *exec_id, uint64_t offset, struct str data,
                      struct guest_wait *w);
void guest_exec_close_stdin(struct guest_link *l, const char *exec_id, uint64_t offset,
                            struct guest_wait *w);
/* The guest delivers a signal only once per `number`, so that a request can be repeated. */
void guest_exec_signal(struct guest_link *l, const char *exec_id, int signal, bool leader_only,
                       uint64_t number, struct guest_wait *w);
/* Reads the log that the guest keeps when the link passes no descriptors. The log must be longer
 * than `offset` bytes. The answer is in guest_answer.output. */
void guest_exec_read_output(struct guest_link *l, const char *exec_id, bool is_stderr,
                            uint64_t offset, struct guest_wait *w);
void guest_exec_resize(struct guest_link *l, const char *exec_id, uint32_t cols, uint32_t rows,
                       struct guest_wait *w);
/* The link ignores the answers to the following requests. */
void guest_exec_kill(struct guest_link *l, const char *exec_id);
void guest_exec_grant(struct guest_link *l, const char *exec_id, uint64_t total_bytes);
void guest_exec_forget(struct guest_link *l, struct str exec_id);

/* Appends the line of a status file, for an exit whose status file the guest did not write. Returns
 * 0 or -errno. */
MUST_USE int guest_exec_status_write(const struct guest_exec_state *state, struct buf *to);
/* Reads the status file that the guest writes when an exec ends. -EBADMSG: the file has no complete
 * line or no exec_state; treat it as an empty file. -ENOMEM. The state borrows from `text` and the
 * arena. */
MUST_USE int guest_exec_status_read(struct str text, struct arena *a, struct guest_exec_state *ret);
