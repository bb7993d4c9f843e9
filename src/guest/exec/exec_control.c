#include "guest/exec/exec_control.h"

#include <signal.h>

#include "guest/exec/exec.h"
#include "guest/exec/pty.h"
#include "guest/guest.h"
#include "guest/params.h"

/* Remembers the number of a signal request and returns whether the number is new. 0 stands for a
 * request without a number and always counts as new. */
static bool exec_control_remember(struct exec_signals *s, int64_t number) {
    if (number == 0)
        return true;
    for (size_t i = 0; i < COUNT_OF(s->numbers); i++)
        if (s->numbers[i] == number)
            return false;
    s->numbers[s->next++ % COUNT_OF(s->numbers)] = number;
    return true;
}

int exec_control_method_signal(struct request *r, struct err *e) {
    struct exec *x;
    int64_t sig, number = 0;
    bool leader_only = false;
    if (exec_of_request(r, &x, e) < 0 || params_need_int(r->params, "signal", 1, 64, &sig, e) < 0 ||
        params_int(r->params, "number", 1, PARAMS_OFFSET_MAX, &number, e) < 0 ||
        params_bool(r->params, "leader_only", &leader_only, e) < 0 || exec_check_running(x, e) < 0)
        return -(int)e->code;
    if (!exec_control_remember(&x->signals, number))
        return 0;
    if (sig == SIGKILL)
        exec_end_mark_killed(x);
    if (leader_only)
        kill(x->tree.leader, (int)sig);
    else if (sig == SIGKILL)
        exec_end_kill(x);
    else
        tree_signal(&x->tree, (int)sig);
    return 0;
}

int exec_control_method_resize(struct request *r, struct err *e) {
    struct exec *x;
    int64_t cols, rows;
    if (exec_of_request(r, &x, e) < 0 ||
        params_need_int(r->params, "cols", 1, 4096, &cols, e) < 0 ||
        params_need_int(r->params, "rows", 1, 4096, &rows, e) < 0 || exec_check_running(x, e) < 0)
        return -(int)e->code;
    if (x->terminal < 0)
        return err_set(e, ERR_EXEC_NO_TERMINAL, "%s has no terminal", x->id);
    int s = pty_resize(x->terminal, (uint16_t)cols, (uint16_t)rows);
    return s < 0 ? err_sys(e, ERR_INTERNAL, -s, "resize the terminal of %s", x->id) : 0;
}
