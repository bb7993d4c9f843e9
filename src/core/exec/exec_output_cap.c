/* exec_output_cap — how much output all execs of a sandbox keep together (OUT-6).
 *
 * The guest applies the cap of each exec. bermd applies the cap of the sandbox: when the output of
 * an exec exceeds it, the output policy of that exec decides what happens. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "core/exec/exec_impl.h"
#include "core/box/box_dir.h"

#define BLOCK_BYTES UINT64_C(4096)
#define LEAST_BYTES INT64_C(65536) /* the smallest cap of an exec */
/* A copy may exceed the cap by this much: under BLOCK, acknowledged output counts until the
 * filesystem has freed whole blocks. */
#define SURPLUS_BYTES (UINT64_C(8) << 20)

static int64_t exec_output_limit(const struct execs *set) {
    return set->box->record->spec->limits ? set->box->record->spec->limits->output_bytes : -1;
}

uint64_t execs_output_bytes(struct execs *set) {
    if (!set->output_counted)
        execs_count_output(set);
    return set->output_kept;
}

int64_t exec_cap(const struct exec *x) {
    int64_t asked = x->record->spec->output_limit_bytes, limit = exec_output_limit(x->set);
    if (limit <= 0)
        return asked;
    return MIN(asked, MAX(limit - (int64_t)execs_output_bytes(x->set), LEAST_BYTES));
}

static uint64_t exec_output_kept(struct exec *x) {
    uint64_t kept = 0;
    for (unsigned s = 0; s < exec_n_streams(x); s++) {
        uint64_t first, end;
        exec_extent(x, (enum exec_stream)s, &first, &end);
        kept += end - first;
    }
    return kept;
}

/* Drops whole blocks from the front of the stream that keeps more bytes. */
static void exec_output_drop_oldest(struct exec *x, uint64_t excess) {
    char name[80];
    uint64_t first[EXEC_STREAMS] = {0}, end[EXEC_STREAMS] = {0};
    for (unsigned s = 0; s < exec_n_streams(x); s++)
        exec_extent(x, (enum exec_stream)s, &first[s], &end[s]);
    unsigned s = end[1] - first[1] > end[0] - first[0] ? 1 : 0;
    uint64_t upto = MIN(first[s] + excess + BLOCK_BYTES, end[s]) / BLOCK_BYTES * BLOCK_BYTES;
    int dir = box_dir(x->set->box);
    exec_log_name(x, (enum exec_file)s, name, sizeof name);
    AUTO_CLOSE int fd = dir < 0 ? -1 : fd_open_beneath(dir, name, O_WRONLY, 0);
    if (fd >= 0 && upto > 0)
        (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)upto);
}

/* The guest drops old output from its own log, but bermd's copy still has it. */
bool exec_output_hold_cap(struct exec *x) {
    uint64_t kept = exec_output_kept(x), cap = (uint64_t)x->record->spec->output_limit_bytes;
    bool drops =
        x->record->spec->output_policy <= BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_DROP_OLDEST;
    if (drops && kept > cap)
        exec_output_drop_oldest(x, kept - cap);
    return drops || kept <= cap + SURPLUS_BYTES;
}

static void exec_output_kill(struct exec *x) {
    struct execs *set = x->set;
    if (x->is_over_limit || !box_is_linked(set->box))
        return;
    x->is_over_limit = true;
    guest_exec_kill(set->box->link, x->record->exec_id);
}

void exec_count_output(struct exec *x) {
    struct execs *set = x->set;
    int64_t limit = exec_output_limit(set);
    uint64_t all = execs_output_bytes(set); /* may include x->kept */
    uint64_t kept = exec_output_kept(x);
    set->output_kept = all - x->kept + kept;
    x->kept = kept;
    if (limit <= 0 || set->output_kept <= (uint64_t)limit)
        return;
    if (x->record->spec->output_policy == BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_KILL)
        exec_output_kill(x);
    else if (x->record->spec->output_policy != BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_BLOCK)
        exec_output_drop_oldest(x, set->output_kept - (uint64_t)limit);
    kept = exec_output_kept(x);
    set->output_kept += kept - x->kept;
    x->kept = kept;
}

/* Counts the bytes of all output files in the directory. */
void execs_count_output(struct execs *set) {
    LIST_FOR_EACH(node, &set->all) {
        struct exec *x = container_of(node, struct exec, in_set);
        x->kept = exec_output_kept(x);
        exec_close_logs(x);
    }
    int dir = box_dir(set->box);
    set->output_kept = dir < 0 ? 0 : box_dir_output_bytes(dir);
    set->output_counted = true;
}
