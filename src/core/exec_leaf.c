/* exec_leaf — a program's cgroup: made ahead in a sandbox whose programs come one after another, else when it
 * is asked for.
 *
 * Numbers: the program with number N may have 2N made for it, and the one made ahead after it is 2N + 1; so
 *          none is another's, and the next daemon knows the name of what this one had made and not used.
 * Ahead:   one per sandbox, from the moment an exit is durable; none in a sandbox that never ran anything, and
 *          none for longer than LEAF_QUIET_US without use. LEAVES_AHEAD_MAX in all.
 * Restart: what lies ready is of no use to a new daemon and is removed by it, as are those of programs that ended
 *          just before: the daemon may have been killed before it had asked for that. See leaf_sweep. */
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "core/exec_impl.h"

#define LEAF_QUIET_US 10000000
#define LEAF_RECENT_MS 60000
#define LEAVES_AHEAD_MAX 256 /* each is a descriptor of ours and a memory cgroup of the kernel's */

static uint32_t leaf_of(uint64_t number) {
    return (uint32_t)(number << 1);
}

static uint32_t leaf_after(uint64_t number) {
    return (uint32_t)(number << 1 | 1);
}

static struct exec *exec_with_leaf(struct sandbox *sb, uint32_t leaf) {
    LIST_FOR_EACH(node, &sb->execs) {
        struct exec *x = container_of(node, struct exec, in_sandbox);
        if (x->leaf == leaf)
            return x;
    }
    return NULL;
}

static void give(struct exec *x, int fd) {
    struct stat st;
    if (x->leaf_fd >= 0)
        close(x->leaf_fd);
    x->leaf_fd = fd;
    x->leaf_is_dir = fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    x->leaf_waits = false;
}

/* --- the one made ahead --- */

static void forget_ahead(struct sandbox *sb) {
    struct leaf_ahead *ahead = &sb->ahead;
    deadline_clear(sb->registry->spec.deadlines, &ahead->quiet);
    sb->registry->n_leaves_ahead -= ahead->leaf != 0;
    ahead->leaf = 0;
    ahead->fd = -1;
}

static void on_quiet(struct deadline *d) {
    struct sandbox *sb = container_of(d, struct sandbox, ahead.quiet);
    uint32_t leaf = sb->ahead.leaf;
    close(sb->ahead.fd);
    forget_ahead(sb);
    if (sb->place)
        place_kill_leaf(sb->place, leaf, NULL, NULL);
    failpoint(FAIL_LEAF_BACK);
}

void leaf_ahead_init(struct sandbox *sb) {
    sb->ahead.fd = -1;
    deadline_init(&sb->ahead.quiet, on_quiet);
}

void leaf_ahead_done(struct sandbox *sb) {
    if (sb->ahead.fd >= 0)
        close(sb->ahead.fd);
    forget_ahead(sb);
}

/* --- asking --- */

/* By number, because the program may be gone when the answer comes, or only have come meanwhile. Without a
 * cgroup of its own the guest keeps a process above the program instead. */
static void on_leaf(struct place *p, const struct place_answer *a, void *user) {
    struct sandbox *sb = p->user;
    uint32_t leaf = (uint32_t)(uintptr_t)user;
    struct exec *x = exec_with_leaf(sb, leaf);
    int fd = !a->e && a->n_fds > 0 ? a->fds[0] : -1;
    for (size_t i = 1; !a->e && i < a->n_fds; i++)
        close(a->fds[i]);
    if (x && !x->over) {
        give(x, fd);
        exec_go(x);
    } else if (leaf == sb->ahead.leaf && fd >= 0) {
        sb->ahead.fd = fd;
        deadline_set(sb->registry->spec.deadlines, &sb->ahead.quiet, clock_us() + LEAF_QUIET_US);
        failpoint(FAIL_LEAF_ACK);
    } else if (leaf == sb->ahead.leaf) {
        forget_ahead(sb); /* the next program asks for its own */
    } else if (fd >= 0) {
        close(fd);
        place_kill_leaf(p, leaf, NULL, NULL);
    }
}

static void ask(struct sandbox *sb, uint32_t leaf) {
    place_leaves(sb->place, leaf, 1, on_leaf, (void *)(uintptr_t)leaf);
}

static bool has_leaves(const struct sandbox *sb) {
    return sb->place && (sb->place->driver->features & DRIVER_HAS_LEAVES);
}

/* In parallel with the commit of the intent: an empty cgroup without a program harms nobody and goes
 * with its sandbox. */
void exec_ask_leaf(struct exec *x) {
    if (!has_leaves(x->sandbox))
        return;
    if (x->leaf == 0)
        x->leaf = leaf_of(x->number);
    x->leaf_waits = true;
    ask(x->sandbox, x->leaf);
}

void exec_take_leaf(struct exec *x) {
    struct sandbox *sb = x->sandbox;
    int fd = sb->ahead.fd;
    sb->newest_exec = x->number;
    if (sb->ahead.leaf == 0) {
        exec_ask_leaf(x);
        return;
    }
    x->leaf = sb->ahead.leaf;
    x->leaf_waits = true; /* where it is still being made, the answer finds its program */
    forget_ahead(sb);
    if (fd >= 0)
        give(x, fd);
}

void exec_return_leaf(struct exec *x) {
    if (x->sandbox && x->leaf != 0 && !x->leaf_waits && has_leaves(x->sandbox))
        place_kill_leaf(x->sandbox->place, x->leaf, NULL, NULL);
}

void leaf_make_ahead(struct sandbox *sb) {
    bool is_in_use = has_leaves(sb) && sb->presence == PRESENCE_UP && sb->wanted == WANTED_RUN &&
                     !sb->frozen && !sb->registry->closing;
    if (!is_in_use || sb->newest_exec == 0 || sb->ahead.leaf != 0 ||
        sb->registry->n_leaves_ahead >= LEAVES_AHEAD_MAX)
        return;
    sb->ahead.leaf = leaf_after(sb->newest_exec);
    sb->registry->n_leaves_ahead++;
    ask(sb, sb->ahead.leaf);
    failpoint(FAIL_LEAF_SEND);
}

/* --- after a restart --- */

/* And its cgroup was to be removed. */
static bool has_just_ended(const struct db_exec *row) {
    Berm__V1__Exec *record = NULL;
    if (row->leaf != 0 && (row->state == EXEC_EXITED || row->state == EXEC_LOST))
        record = berm__v1__exec__unpack(NULL, row->record.n, (const uint8_t *)row->record.p);
    bool is_so = record && record->spec && !record->spec->keep_descendants &&
                 record->exited_unix_ms > registry_unix_ms() - LEAF_RECENT_MS;
    if (record)
        berm__v1__exec__free_unpacked(record, NULL);
    return is_so;
}

void leaf_sweep(struct sandbox *sb, const struct db_exec *row) {
    if (!has_leaves(sb))
        return;
    if (!sb->leaf_is_swept) /* nobody runs in it: a program that had taken it would be the newest itself */
        place_kill_leaf(sb->place, leaf_after(row->number), NULL, NULL);
    sb->leaf_is_swept = true;
    if (has_just_ended(row))
        place_kill_leaf(sb->place, row->leaf, NULL, NULL);
}
