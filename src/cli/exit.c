/* How a program ended, as an exit status and in words. */
#include "cli/cli.h"

static int not_started(const Berm__V1__ExitNotStarted *n) {
    cli_complain("the program did not start: %s (%s)", n->message, n->code);
    if (strcmp(n->code, berm_code_name(BERM_PROGRAM_NOT_FOUND)) == 0)
        return EXIT_NOT_FOUND;
    if (strcmp(n->code, berm_code_name(BERM_PROGRAM_NOT_EXECUTABLE)) == 0)
        return EXIT_NOT_EXECUTABLE;
    return EXIT_BERM;
}

int exit_status_of(const Berm__V1__ExitStatus *exit) {
    switch (exit ? (int)exit->how_case : 0) {
    case BERM__V1__EXIT_STATUS__HOW_CODE:
        return exit->code;
    case BERM__V1__EXIT_STATUS__HOW_SIGNAL:
        return EXIT_SIGNAL + exit->signal->signal_number;
    case BERM__V1__EXIT_STATUS__HOW_TIMED_OUT:
        cli_complain("the program exceeded its timeout of %lld ms",
                     (long long)exit->timed_out->timeout_ms);
        return EXIT_TIMED_OUT;
    case BERM__V1__EXIT_STATUS__HOW_OUT_OF_MEMORY:
        cli_complain(
            "the program was killed at its memory limit of %lld bytes; raise it with --memory",
            (long long)exit->out_of_memory->limit_bytes);
        return EXIT_SIGNAL + 9;
    case BERM__V1__EXIT_STATUS__HOW_LOST:
        return cli_complain("the exit status of the program is lost: %s (%s)", exit->lost->message,
                            exit->lost->code);
    case BERM__V1__EXIT_STATUS__HOW_OUTPUT_LIMIT:
        return cli_complain("the program was killed at its output limit of %lld bytes",
                            (long long)exit->output_limit->limit_bytes);
    case BERM__V1__EXIT_STATUS__HOW_NOT_STARTED:
        return not_started(exit->not_started);
    default:
        return cli_complain("the daemon did not report how the program ended");
    }
}

const char *exit_text(struct cli *cli, const Berm__V1__Exec *exec) {
    const Berm__V1__ExitStatus *exit = exec->exit;
    switch (exit ? (int)exit->how_case : 0) {
    case BERM__V1__EXIT_STATUS__HOW_CODE:
        return cli_text(cli, "exited %d", exit->code);
    case BERM__V1__EXIT_STATUS__HOW_SIGNAL:
        return cli_text(cli, "signal %d", exit->signal->signal_number);
    case BERM__V1__EXIT_STATUS__HOW_TIMED_OUT:
        return "timed out";
    case BERM__V1__EXIT_STATUS__HOW_OUT_OF_MEMORY:
        return "out of memory";
    case BERM__V1__EXIT_STATUS__HOW_LOST:
        return "lost";
    case BERM__V1__EXIT_STATUS__HOW_OUTPUT_LIMIT:
        return "output limit";
    case BERM__V1__EXIT_STATUS__HOW_NOT_STARTED:
        return "not started";
    default:
        return cli_enum(cli, &berm__v1__exec_state__descriptor, (int)exec->state);
    }
}
