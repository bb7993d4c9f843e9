/* cli — shared by the commands of berm: the rows of the table, the arguments of this run, and
 * output.
 *
 * A command returns the exit status. Memory belongs to the arena of the run, because berm is
 * short-lived. */
#pragma once

#include <berm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/str.h"

/* Exit statuses of berm itself; a program's own status is passed through. */
enum cli_exit {
    EXIT_TIMED_OUT = 124,
    EXIT_BERM = 125, /* berm or the daemon failed, or invalid usage */
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128, /* plus the signal number; 137 also for out of memory */
};

struct opt {
    const char *name;  /* without dashes; NULL ends a list */
    char letter;       /* 0: none */
    const char *takes; /* name of the value; NULL: a switch */
    const char *what;
};

struct cli;

struct command {
    const char *name;          /* "run", "daemon start" */
    const char *usage;         /* arguments after the options */
    const char *what;          /* one line */
    const char *more;          /* more lines of help; may be NULL */
    const struct opt *opts[3]; /* lists of the options that apply */
    int min_args;
    int max_args;     /* -1: any number */
    bool has_program; /* a program's command line follows the arguments */
    int (*run)(struct cli *cli);
    bool no_daemon; /* needs no daemon, so berm does not start one */
};

extern const struct command commands[];
extern const size_t n_commands;

#define CLI_VALUES_MAX 512

struct cli {
    const struct command *command;
    struct arena arena;
    struct berm_client *client;
    char **args;
    size_t n_args;
    char **program; /* the program to run, and its arguments */
    size_t n_program;
    struct {
        const char *name;
        char *text;
    } values[CLI_VALUES_MAX];
    size_t n_values;
    struct kept *kept;
    bool json;
    bool color;
    bool detached; /* the user detached from a running program */
    bool feeds;    /* a thread may still wait for input, so do not free memory at the end */
};

/* --- help.c --- */

void help_all(FILE *to);
void help_command(const struct command *c);
void help_docs(void);
void help_man(void);

/* --- args.c --- */

extern const struct opt common_opts[];
extern const struct opt quiet_opt[];
/* Returns -1 to continue, or the exit status of an invalid command line. */
int args_parse(struct cli *cli, int argc, char **argv);
bool opt_has(const struct cli *cli, const char *name);
/* Returns the last value of the option on the command line, or NULL. */
char *opt_get(const struct cli *cli, const char *name);
size_t opt_count(const struct cli *cli, const char *name);
/* Returns the next value of a repeated option and advances *at, or returns NULL. */
char *opt_next(const struct cli *cli, const char *name, size_t *at);
/* Each function sets *value if the option is given, and leaves the default otherwise. Returns false
 * after printing an error. */
bool opt_size(const struct cli *cli, const char *name, int64_t *value);
bool opt_duration(const struct cli *cli, const char *name, int64_t *value_ms);
bool opt_number(const struct cli *cli, const char *name, int64_t min, int64_t max, int64_t *value);
bool opt_choice(const struct cli *cli, const char *name, const char *const *names,
                const int *choices, int *value);
bool opt_pairs(struct cli *cli, const char *name, size_t *ret_n, Berm__V1__KeyValue ***ret_pairs);
int opt_usage(const struct cli *cli, const char *fmt, ...) PRINTF(2, 3);

/* --- out.c --- */

/* Returns zeroed memory that is valid until the end of the run. Exits when out of memory. */
void *cli_alloc(struct cli *cli, size_t n);
char *cli_text(struct cli *cli, const char *fmt, ...) PRINTF(2, 3);
/* Returns sixteen random hexadecimal digits. */
char *cli_random(struct cli *cli);
/* Takes ownership of a response. cli_done frees it at the end of the run. */
void cli_keep(struct cli *cli, void *message);
void cli_done(struct cli *cli);
/* Prints the error and what to do next. Returns EXIT_BERM. */
int cli_fail(const struct cli *cli, const struct berm_error *e);
int cli_complain(const char *fmt, ...) PRINTF(1, 2);
/* Prints the message as one JSON document with a newline. */
void cli_print_json(const void *message);
/* Removes control characters, so that foreign text is safe for a terminal. */
char *cli_clean(struct cli *cli, const char *text);
/* Returns "ready" for SANDBOX_STATE_READY. */
const char *cli_enum(struct cli *cli, const ProtobufCEnumDescriptor *type, int value);
/* Returns an age such as "5s" or "3h", from milliseconds since 1970. */
const char *cli_age(struct cli *cli, int64_t unix_ms);
const char *cli_bytes(struct cli *cli, int64_t bytes);
const char *cli_pairs(struct cli *cli, size_t n, Berm__V1__KeyValue **pairs);

struct table {
    struct cli *cli;
    size_t n_columns;
    size_t colored; /* index of the column with colours */
    size_t n_rows;
    size_t cap;
    const char **cells;
};
void table_init(struct table *t, struct cli *cli, const char *const *heads, size_t n_columns,
                size_t colored);
void table_add(struct table *t, const char *const *cells);
/* Truncates columns if the terminal is too narrow; output into a pipe is complete. */
void table_print(const struct table *t);

/* --- what commands share --- */

extern const struct opt spec_opts[];
extern const struct opt exec_opts[];
/* Fills in the options of create and run. Returns false after printing an error. */
bool spec_fill(struct cli *cli, Berm__V1__SandboxSpec *spec);
bool limits_fill(struct cli *cli, Berm__V1__Limits *limits, bool *ret_any);
bool lifetime_fill(struct cli *cli, Berm__V1__Lifetime *lifetime, bool *ret_any);
bool exec_fill(struct cli *cli, Berm__V1__ExecSpec *spec);
/* Creates a sandbox and waits until it is ready. Returns -code, or -1 with e->code 0 after printing
 * an error. When a signal interrupts the wait, ret_sandbox is still set, so that the caller can
 * remove the sandbox. */
int sandbox_make(struct cli *cli, bool wait, Berm__V1__Sandbox **ret_sandbox, struct berm_error *e);
int sandbox_remove(struct cli *cli, const char *id, struct berm_error *e);
/* A program in the foreground. Between foreground_begin and foreground_end, a signal cancels our
 * calls; while a program runs, the first signal is forwarded to the program instead. */
struct foreground;
struct foreground *foreground_begin(struct cli *cli);
/* Starts the program, prints its output and, if asked, sends our input. Returns the exit status. */
int foreground_run(struct foreground *f, char *sandbox_id, Berm__V1__ExecSpec *spec, bool input);
int foreground_signal(const struct foreground *f); /* the last signal, or 0 */
void foreground_end(struct foreground *f);
/* Prints the output of a running program and, if asked, sends our input. Does not forward signals.
 * Returns the exit status. */
int foreground_attach(struct cli *cli, Berm__V1__AttachExecRequest *request, bool input);
/* Starts a program or attaches to a running one, and connects it with our terminal, or with our
 * input stream if we have no terminal. Returns the exit status. When the user detached, returns 0
 * and sets cli->detached. */
int terminal_run(struct cli *cli, const Berm__V1__InteractRequest *first);
/* Returns the settings of a new terminal, with the type and size of ours. */
Berm__V1__Terminal *terminal_fill(struct cli *cli);
/* Prints why a program could not be started. Returns the exit status. */
int start_failed(struct cli *cli, const struct berm_error *e);
/* Returns the exit status, and prints a message where the number alone is unclear. */
int exit_status_of(const Berm__V1__ExitStatus *exit);
/* Returns a text such as "exited 3" or "out of memory". */
const char *exit_text(struct cli *cli, const Berm__V1__Exec *exec);
struct berm_client *cli_client(const struct cli *cli, int64_t connect_ms);

/* If berm runs as root and no daemon listens at the default socket, starts a daemon, unless the
 * user disabled that. */
void daemon_ensure(struct cli *cli);

/* --- files --- */

/* Parses "SANDBOX:PATH". Returns false if there is no colon before the first slash. */
bool remote_parse(struct cli *cli, const char *text, char **ret_sandbox, char **ret_path);
/* Sets a path as text if it is UTF-8, else as bytes. */
void remote_path(const char *path, char **ret_text, ProtobufCBinaryData *ret_raw);
const char *remote_name(struct cli *cli, const char *text, const ProtobufCBinaryData *raw);

/* The progress of a copy, shown on a terminal. */
struct progress {
    bool shown;
    uint64_t total_bytes; /* 0: unknown */
    uint64_t drawn_us;
};
void progress_begin(struct progress *p, struct cli *cli, uint64_t total_bytes);
void progress_at(struct progress *p, uint64_t bytes);
void progress_end(struct progress *p);

/* A local tree as a tar stream: a berm_source that can restart from the beginning. */
struct pack;
struct pack *pack_new(struct cli *cli, const char *root, struct progress *p);
ssize_t pack_source(void *user, uint64_t offset, void *into, size_t n);
uint64_t pack_left_out(const struct pack *k); /* number of omitted entries; each was reported */
void pack_free(struct pack *k);
/* Unpacks a tar stream below a local directory: a berm_sink that can restart from the beginning.
 * Follows no links. */
struct unpack;
struct unpack *unpack_new(struct cli *cli, int root, struct progress *p);
int unpack_sink(void *user, uint64_t offset, const void *bytes, size_t n);
/* Returns false after printing an error: the archive was incomplete. */
bool unpack_end(struct unpack *u);
/* Copies a local tree to a path of a sandbox. Returns the exit status; omitted entries were
 * reported. */
int tree_put(struct cli *cli, const char *local, char *sandbox_id, char *path,
             uint64_t *ret_left_out);

/* --- the commands --- */

int cmd_run(struct cli *cli);
int cmd_create(struct cli *cli);
int cmd_ls(struct cli *cli);
int cmd_get(struct cli *cli);
int cmd_update(struct cli *cli);
int cmd_stop(struct cli *cli);
int cmd_start(struct cli *cli);
int cmd_pause(struct cli *cli);
int cmd_resume(struct cli *cli);
int cmd_rm(struct cli *cli);
int cmd_exec(struct cli *cli);
int cmd_attach(struct cli *cli);
int cmd_logs(struct cli *cli);
int cmd_shell(struct cli *cli);
int cmd_cp(struct cli *cli);
int cmd_cat(struct cli *cli);
int cmd_find(struct cli *cli);
int cmd_grep(struct cli *cli);
int cmd_doctor(struct cli *cli);
int cmd_completion(struct cli *cli);
int cmd_kill(struct cli *cli);
int cmd_ps(struct cli *cli);
int cmd_events(struct cli *cli);
int cmd_info(struct cli *cli);
int cmd_ping(struct cli *cli);
int cmd_daemon_start(struct cli *cli);
int cmd_daemon_stop(struct cli *cli);
int cmd_daemon_status(struct cli *cli);
int cmd_guest_log(struct cli *cli);
