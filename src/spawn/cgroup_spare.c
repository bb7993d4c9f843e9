/* Part of cgroup.h: keeps v1 cgroups of ended sandboxes for the next one.
 *
 * A used cgroup differs from a new one by the kernel's counters. cgroup_make writes all limits
 * again. A spare whose counters cannot be reset is not used. v2 cgroups cannot be renamed, so they
 * are not kept. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "spawn/cgroup.h"

/* The largest page cache that a spare may have left from its previous sandbox. The cache counts for
 * the next sandbox until the kernel drops it. */
#define LEFT_BYTES_MAX (UINT64_C(1) << 20)

#define NAME_BYTES 16
static void cgroup_spare_name(char out[NAME_BYTES], unsigned n) {
    snprintf(out, NAME_BYTES, ".spare-%u", n);
}

static bool cgroup_is_kept_kind(enum cgroup_v1 which) {
    return which == CG_MEMORY || which == CG_PIDS || which == CG_CPU;
}

void cgroup_keep_spares(struct cgroups *cg) {
    cg->keeps_spares = true;
    for (int i = 0; i < CG_V1_COUNT; i++)
        for (unsigned n = 0; n < CG_SPARES && cg->v1[i] >= 0 && cgroup_is_kept_kind(i); n++) {
            char name[NAME_BYTES];
            cgroup_spare_name(name, n);
            if (fd_has_entry(cg->v1[i], name))
                cg->spares[i].kept |= UINT32_C(1) << n;
        }
}

bool cgroup_spare_put(struct cgroups *cg, enum cgroup_v1 which, const char *id) {
    struct cgroup_spares *s = &cg->spares[which];
    uint32_t bit = UINT32_C(1) << s->next;
    if (!cg->keeps_spares || !cgroup_is_kept_kind(which) || cg->v1[which] < 0 ||
        (s->kept & bit) != 0)
        return false;
    char name[NAME_BYTES];
    cgroup_spare_name(name, s->next);
    if (renameat(cg->v1[which], id, cg->v1[which], name) < 0)
        return false;
    s->kept |= bit;
    s->next = (s->next + 1) % CG_SPARES;
    return true;
}

/* Returns whether the cgroup is empty and has no usage that the next sandbox would be charged
 * for. */
static bool cgroup_is_as_new(int dir, enum cgroup_v1 which) {
    char text[16];
    if (fd_read_text(dir, "cgroup.procs", text, sizeof text) != 0)
        return false;
    return which != CG_MEMORY || (cgroup_read(dir, "memory.usage_in_bytes", "") <= LEFT_BYTES_MAX &&
                                  cgroup_read(dir, "memory.oom_control", "oom_kill ") == 0 &&
                                  fd_write_text(dir, "memory.max_usage_in_bytes", "0") == 0);
}

int cgroup_spare_take(struct cgroups *cg, enum cgroup_v1 which, const char *id) {
    struct cgroup_spares *s = &cg->spares[which];
    unsigned n = s->next; /* the oldest spare is at or after `next` */
    while (s->kept != 0 && !(s->kept & UINT32_C(1) << n))
        n = (n + 1) % CG_SPARES;
    if (s->kept == 0)
        return -ENOENT;
    s->kept &= ~(UINT32_C(1) << n);
    char name[NAME_BYTES];
    cgroup_spare_name(name, n);
    AUTO_CLOSE int dir = openat(cg->v1[which], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0 && cgroup_is_as_new(dir, which)) {
        if (renameat(cg->v1[which], name, cg->v1[which], id) == 0)
            return 0;
        if (errno == EEXIST) {
            s->kept |= UINT32_C(1) << n;
            return -EEXIST;
        }
    }
    unlinkat(cg->v1[which], name,
             AT_REMOVEDIR); /* if processes are in it, it stays and is never used */
    return -ENOENT;
}

void cgroup_spares_remove(struct cgroups *cg) {
    for (int i = 0; i < CG_V1_COUNT; i++) {
        for (unsigned n = 0; n < CG_SPARES; n++) {
            char name[NAME_BYTES];
            cgroup_spare_name(name, n);
            if (cg->spares[i].kept & UINT32_C(1) << n)
                unlinkat(cg->v1[i], name, AT_REMOVEDIR);
        }
        cg->spares[i].kept = 0;
    }
}
