/* cli — what the commands of berm share: the table's rows, the arguments of this run, and output.
 *
 * A command answers the exit status. Memory of a run is its arena's; berm is short-lived. */
#pragma once

#include <berm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/str.h"

/* What berm itself answers; a program's own status is passed on. */
enum cli_exit {
    EXIT_TIMED_OUT = 124,
    EXIT_BERM = 125, /* berm or the daemon failed, wrong usage included */
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128, /* and the signal's number; 137 also for out of memory */
};

struct opt {
    const char *name;  /* without its dashes; NULL ends a list */
    char letter;       /* 0 = none */
    const char *takes; /* what stands behind it; NULL = a switch */
    const char *what;
};

struct cli;

struct command {
    const char *name;          /* "run", "daemon start" */
    const char *usage;         /* what stands behind the options */
    const char *what;          /* one line */
    const char *more;          /* further lines of its help; may be NULL */
    const struct opt *opts[3]; /* lists that hold */
    int min_args;
    int max_args;     /* -1 = any number */
    bool has_program; /* what follows the arguments is a program's command line */
    int (*run)(struct cli *cli);
    bool no_daemon; /* works without one, and starts none */
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
    char **program; /* and its arguments */
    size_t n_program;
    struct {
        const char *name;
        char *text;
    } values[CLI_VALUES_MAX];
    size_t n_values;
    struct kept *kept;
    bool json;
    bool color;
    bool detached; /* the user left a program that goes on */
    bool feeds;    /* a thread of ours may still wait for input: no memory is freed at the end */
};

/* --- help.c --- */

void help_all(FILE *to);
void help_command(const struct command *c);
void help_docs(void);
void help_man(void);

/* --- args.c --- */

extern const struct opt common_opts[];
extern const struct opt quiet_opt[];
/* -1 to go on, or the exit status of a wrong command line. */
int args_parse(struct cli *cli, int argc, char **argv);
bool opt_has(const struct cli *cli, const char *name);
/* The last one given, or NULL. */
char *opt_get(const struct cli *cli, const char *name);
size_t opt_count(const struct cli *cli, const char *name);
/* The next one from *at on, or NULL. */
char *opt_next(const struct cli *cli, const char *name, size_t *at);
/* Each writes what an option says, or leaves the default; false after a word to the user. */
bool opt_size(const struct cli *cli, const char *name, int64_t *value);
bool opt_duration(const struct cli *cli, const char *name, int64_t *value_ms);
bool opt_number(const struct cli *cli, const char *name, int64_t min, int64_t max, int64_t *value);
bool opt_choice(const struct cli *cli, const char *name, const char *const *names,
                const int *choices, int *value);
bool opt_pairs(struct cli *cli, const char *name, size_t *ret_n, Berm__V1__KeyValue ***ret_pairs);
int opt_usage(const struct cli *cli, const char *fmt, ...) PRINTF(2, 3);

/* --- out.c --- */

/* Zeroed memory of the run; ends berm when there is none. */
void *cli_alloc(struct cli *cli, size_t n);
char *cli_text(struct cli *cli, const char *fmt, ...) PRINTF(2, 3);
/* Sixteen hexadecimal digits nobody guesses. */
char *cli_random(struct cli *cli);
/* An answer that lives as long as the run. */
void cli_keep(struct cli *cli, void *message);
void cli_done(struct cli *cli);
/* Says why and what to do next. EXIT_BERM. */
int cli_fail(const struct cli *cli, const struct berm_error *e);
int cli_complain(const char *fmt, ...) PRINTF(1, 2);
/* The message as one JSON document and a newline. */
void cli_print_json(const void *message);
/* Text from elsewhere, fit for a terminal: no control characters. */
char *cli_clean(struct cli *cli, const char *text);
/* "ready" for SANDBOX_STATE_READY. */
const char *cli_enum(struct cli *cli, const ProtobufCEnumDescriptor *type, int value);
/* "5s", "3h"; of a time in milliseconds since 1970. */
const char *cli_age(struct cli *cli, int64_t unix_ms);
const char *cli_bytes(struct cli *cli, int64_t bytes);
const char *cli_pairs(struct cli *cli, size_t n, Berm__V1__KeyValue **pairs);

struct table {
    struct cli *cli;
    size_t n_columns;
    size_t colored; /* the column whose words have a colour */
    size_t n_rows;
    size_t cap;
    const char **cells;
};
void table_init(struct table *t, struct cli *cli, const char *const *heads, size_t n_columns,
                size_t colored);
void table_add(struct table *t, const char *const *cells);
/* Columns are cut where the terminal is too narrow; into a pipe everything goes whole. */
void table_print(const struct table *t);

/* --- what commands share --- */

extern const struct opt spec_opts[];
extern const struct opt exec_opts[];
/* From the options of create and run. False after a word to the user. */
bool spec_fill(struct cli *cli, Berm__V1__SandboxSpec *spec);
bool limits_fill(struct cli *cli, Berm__V1__Limits *limits, bool *ret_any);
bool lifetime_fill(struct cli *cli, Berm__V1__Lifetime *lifetime, bool *ret_any);
bool exec_fill(struct cli *cli, Berm__V1__ExecSpec *spec);
/* Makes a sandbox and waits until it is ready. -code, or -1 when the user was told and e->code is 0.
 * Cut off by a signal, it still says which sandbox there is to remove. */
int sandbox_make(struct cli *cli, bool wait, Berm__V1__Sandbox **ret_sandbox, struct berm_error *e);
int sandbox_remove(struct cli *cli, const char *id, struct berm_error *e);
/* A program in front. From begin to end our signals end calls, and go to the program once it runs. */
struct foreground;
struct foreground *foreground_begin(struct cli *cli);
/* Starts it, shows its output, takes our input to it when asked. Answers the exit status. */
int foreground_run(struct foreground *f, char *sandbox_id, Berm__V1__ExecSpec *spec, bool input);
int foreground_signal(const struct foreground *f); /* the last one that came, or 0 */
void foreground_end(struct foreground *f);
/* The same for a program that runs already; signals are ours alone. */
int foreground_attach(struct cli *cli, Berm__V1__AttachExecRequest *request, bool input);
/* A program with our terminal, or a stream of our input where we have none: starts it, or attaches to a running
 * one. Answers the exit status; 0 when the user left it, which cli->detached says. */
int terminal_run(struct cli *cli, const Berm__V1__InteractRequest *first);
/* What a new terminal is like: ours. */
Berm__V1__Terminal *terminal_fill(struct cli *cli);
/* Says why a program could not be started; the exit status. */
int start_failed(struct cli *cli, const struct berm_error *e);
/* The status to end with, and a word on stderr where a number says too little. */
int exit_status_of(const Berm__V1__ExitStatus *exit);
/* "exited 3", "out of memory". */
const char *exit_text(struct cli *cli, const Berm__V1__Exec *exec);
struct berm_client *cli_client(const struct cli *cli, int64_t connect_ms);

/* Root starts a daemon where one listens by default and none does, unless told not to. */
void daemon_ensure(struct cli *cli);

/* --- files --- */

/* "SANDBOX:PATH"; false when there is no colon before the first slash. */
bool remote_parse(struct cli *cli, const char *text, char **ret_sandbox, char **ret_path);
/* A name as the contract has it: text when it is UTF-8, else bytes. */
void remote_path(const char *path, char **ret_text, ProtobufCBinaryData *ret_raw);
const char *remote_name(struct cli *cli, const char *text, const ProtobufCBinaryData *raw);

/* How far a copy has got, on a terminal. */
struct progress {
    bool shown;
    uint64_t total_bytes; /* 0 = not known */
    uint64_t drawn_us;
};
void progress_begin(struct progress *p, struct cli *cli, uint64_t total_bytes);
void progress_at(struct progress *p, uint64_t bytes);
void progress_end(struct progress *p);

/* A local tree as a tar stream: a berm_source that can begin anew. */
struct pack;
struct pack *pack_new(struct cli *cli, const char *root, struct progress *p);
ssize_t pack_source(void *user, uint64_t offset, void *into, size_t n);
uint64_t pack_left_out(const struct pack *k); /* things the archive does not hold; each was told */
void pack_free(struct pack *k);
/* A tar stream below a local directory: a berm_sink that can begin anew. Follows no link. */
struct unpack;
struct unpack *unpack_new(struct cli *cli, int root, struct progress *p);
int unpack_sink(void *user, uint64_t offset, const void *bytes, size_t n);
/* False after a word to the user: the archive was not whole. */
bool unpack_end(struct unpack *u);
/* Puts a local tree at a path of a sandbox. The exit status; what was left out was told. */
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
