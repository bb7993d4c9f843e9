/* exec_check — checks the requests of ExecService and fills in the defaults of an ExecSpec. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/limits.h"
#include "berm/v1/berm.pb-c.h"
#include "core/exec/exec.h"

#define EXEC_LABELS_MAX 16
#define READER_ID_MAX 64

/* The input of exec_check_spec besides the spec. */
struct exec_check {
    const struct limits *limits;
    const Berm__V1__Limits *sandbox; /* limits of the sandbox, with defaults; NULL: none */
    struct arena *arena;
    const char *path;  /* path of the spec in the request: "spec" or "start.spec" */
    bool is_run;       /* RunExec: no terminal, and the request contains the input */
    bool has_run_data; /* RunExec: the input is not empty */
};

/* Fills *ret_spec with `asked` and every default. Parts of `asked` are borrowed; new parts are in
 * the arena. Fails with INVALID_ARGUMENT. */
MUST_USE int exec_check_spec(const struct exec_check *c, const Berm__V1__ExecSpec *asked,
                             Berm__V1__ExecSpec *ret_spec, struct err *e);
/* Checks the id of a reader: 1 to READER_ID_MAX characters that are allowed in ids. */
MUST_USE int exec_check_reader(const char *id, const char *field, struct err *e);
MUST_USE int exec_check_size(const Berm__V1__TerminalSize *size, const char *field, struct err *e);
MUST_USE int exec_check_signal(int32_t number, const char *field, struct err *e);
/* Fails with OFFSET_BEYOND_END, with the end in the metadata, if an offset is past the end of its
 * stream. */
MUST_USE int exec_check_offsets(struct exec *x, const uint64_t offsets[EXEC_STREAMS],
                                struct err *e);
/* Fails with STDIN_OFFSET when the accepted input is longer than the end that the caller sent. */
MUST_USE int exec_check_input_end(struct exec *x, uint64_t offset, struct err *e);
/* Fails with INVALID_ARGUMENT, because the field is larger than the limit. The error has the
 * limit's name and `value`. */
int exec_check_over(struct err *e, const char *field, enum limit_id limit, int64_t value);
