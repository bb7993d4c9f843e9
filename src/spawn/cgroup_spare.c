/* Part of cgroup.h: v1 groups that outlive their sandbox and wait for the next one.
 *
 * A group is told apart from a new one by what the kernel counted in it. Limits are written anew whenever one
 * is taken; what cannot be set back decides whether it is taken at all. v2 groups cannot be renamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "spawn/cgroup.h"

/* Of caches that the last sandbox filled: they count for the next one until the kernel drops them. */
#define LEFT_BYTES_MAX (UINT64_C(1) << 20)

#define NAME_BYTES 16
static void spare_name(char out[NAME_BYTES], unsigned n) {
    snprintf(out, NAME_BYTES, ".spare-%u", n);
}

static bool is_kept_kind(enum cgroup_v1 which) {
    return which == CG_MEMORY || which == CG_PIDS || which == CG_CPU;
}

void cgroup_keep_spares(struct cgroups *cg) {
    cg->keeps_spares = true;
    for (int i = 0; i < CG_V1_COUNT; i++)
        for (unsigned n = 0; n < CG_SPARES && cg->v1[i] >= 0 && is_kept_kind(i); n++) {
            char name[NAME_BYTES];
            spare_name(name, n);
            if (fd_has_entry(cg->v1[i], name))
                cg->spares[i].kept |= UINT32_C(1) << n;
        }
}

bool cgroup_spare_put(struct cgroups *cg, enum cgroup_v1 which, const char *id) {
    struct cgroup_spares *s = &cg->spares[which];
    uint32_t bit = UINT32_C(1) << s->next;
    if (!cg->keeps_spares || !is_kept_kind(which) || cg->v1[which] < 0 || (s->kept & bit) != 0)
        return false;
    char name[NAME_BYTES];
    spare_name(name, s->next);
    if (renameat(cg->v1[which], id, cg->v1[which], name) < 0)
        return false;
    s->kept |= bit;
    s->next = (s->next + 1) % CG_SPARES;
    return true;
}

/* Nobody in it, and nothing of the last one's that the next would have to answer for. */
static bool is_as_new(int dir, enum cgroup_v1 which) {
    char text[16];
    if (fd_read_text(dir, "cgroup.procs", text, sizeof text) != 0)
        return false;
    return which != CG_MEMORY || (cgroup_read(dir, "memory.usage_in_bytes", "") <= LEFT_BYTES_MAX &&
                                  cgroup_read(dir, "memory.oom_control", "oom_kill ") == 0 &&
                                  fd_write_text(dir, "memory.max_usage_in_bytes", "0") == 0);
}

int cgroup_spare_take(struct cgroups *cg, enum cgroup_v1 which, const char *id) {
    struct cgroup_spares *s = &cg->spares[which];
    unsigned n = s->next; /* whose turn it would be to be written is the oldest */
    while (s->kept != 0 && !(s->kept & UINT32_C(1) << n))
        n = (n + 1) % CG_SPARES;
    if (s->kept == 0)
        return -ENOENT;
    s->kept &= ~(UINT32_C(1) << n);
    char name[NAME_BYTES];
    spare_name(name, n);
    AUTO_CLOSE int dir = openat(cg->v1[which], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0 && is_as_new(dir, which)) {
        if (renameat(cg->v1[which], name, cg->v1[which], id) == 0)
            return 0;
        if (errno == EEXIST) {
            s->kept |= UINT32_C(1) << n;
            return -EEXIST;
        }
    }
    unlinkat(cg->v1[which], name,
             AT_REMOVEDIR); /* with somebody in it, it stays and is never used */
    return -ENOENT;
}

void cgroup_spares_remove(struct cgroups *cg) {
    for (int i = 0; i < CG_V1_COUNT; i++) {
        for (unsigned n = 0; n < CG_SPARES; n++) {
            char name[NAME_BYTES];
            spare_name(name, n);
            if (cg->spares[i].kept & UINT32_C(1) << n)
                unlinkat(cg->v1[i], name, AT_REMOVEDIR);
        }
        cg->spares[i].kept = 0;
    }
}
