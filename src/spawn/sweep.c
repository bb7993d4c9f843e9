#include "spawn/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "spawn/check.h"
#include "spawn/layer.h"
#include "spawn/instance.h"
#include "spawn/sys.h"

#define SWEEP_IDS_MAX 1000000

struct owned_part {
    struct list node;
    struct {
        struct map_node by_id;
        char id[SPAWN_ID_MAX];
    } ids[SPAWN_SWEEP_MAX];
};

void sweep_init(struct sweep_owned *owned) {
    list_init(&owned->parts);
    owned->ids = (struct map){0};
}

int sweep_add(struct sweep_owned *owned, const struct spawn_sweep *req) {
    if (req->last > 1 || req->n_ids > SPAWN_SWEEP_MAX)
        return -EINVAL;
    for (uint32_t i = 0; i < req->n_ids; i++)
        if (!check_id(req->ids[i]))
            return -EINVAL;
    if (owned->ids.count + req->n_ids > SWEEP_IDS_MAX)
        return -E2BIG;
    if (owned->ids.slots == NULL && map_init(&owned->ids) < 0)
        return -ENOMEM;
    struct owned_part *part = calloc(1, sizeof *part);
    if (part == NULL)
        return -ENOMEM;
    list_push_back(&owned->parts, &part->node);
    for (uint32_t i = 0; i < req->n_ids; i++) {
        memcpy(part->ids[i].id, req->ids[i], SPAWN_ID_MAX);
        if (map_find(&owned->ids, req->ids[i]) == NULL)
            map_add(&owned->ids, &part->ids[i].by_id, part->ids[i].id);
    }
    return 0;
}

struct sweep {
    struct spawn *s;
    const struct sweep_owned *owned;
    uint32_t count;
};

/* Destroys an instance like DESTROY, without a reply. */
static void sweep_id(const char *id, void *arg) {
    struct sweep *w = arg;
    struct spawn_destroy req = {.flags = SPAWN_DESTROY_FILES};
    size_t n = strlen(id);
    if (n >= sizeof req.id)
        return;
    memcpy(req.id, id, n + 1);
    if (!check_id(req.id) || map_find(&w->owned->ids, id) != NULL)
        return;
    LIST_FOR_EACH(it, &w->s->dying) {
        if (strcmp(container_of(it, struct instance, node)->id, id) == 0)
            return;
    }
    struct instance *p = instance_destroy(w->s, &req);
    if (p == NULL)
        return;
    p->is_swept = true;
    w->count++;
}

static bool sweep_is_same(int dir, const char *name, int fd) {
    struct stat a, b;
    return fstatat(dir, name, &a, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Counts instances that another berm-spawn created. Our own instances use the root that we opened
 * at start. */
static void sweep_count_strangers(const char *id, void *arg) {
    struct sweep *w = arg;
    const struct instance *p = instance_find(w->s, id);
    w->count += p == NULL || p->pid <= 0;
}

/* Removes the root directories that were generated from an older state of the host's /etc. That is
 * safe when all instances are ours and no other process uses this state directory. */
void sweep_roots(struct spawn *s) {
    struct sweep w = {.s = s};
    cgroup_each(&s->cg, sweep_count_strangers, &w);
    AUTO_CLOSE int roots = openat(s->state, "roots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w.count > 0 || roots < 0)
        return;
    int copy = openat(roots, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    bool alone = flock(s->state, LOCK_EX | LOCK_NB) == 0;
    for (struct dirent *e; alone && list != NULL && (e = readdir(list)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            !sweep_is_same(roots, e->d_name, s->host_root) &&
            !sweep_is_same(roots, e->d_name, s->points) &&
            sys_rename_new(roots, e->d_name, s->trash, e->d_name) == 0)
            layer_empty_trash(s);
    if (list != NULL)
        closedir(list);
    while (flock(s->state, LOCK_SH) < 0 && errno == EINTR)
        ;
}

uint32_t sweep_run(struct spawn *s, const struct sweep_owned *owned) {
    struct sweep w = {.s = s, .owned = owned};
    cgroup_each(&s->cg, sweep_id, &w);
    int copy = openat(s->layers, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    for (struct dirent *e; list != NULL && (e = readdir(list)) != NULL;)
        sweep_id(e->d_name, &w);
    if (list != NULL)
        closedir(list);
    layer_empty_trash(s);
    sweep_roots(s);
    return w.count;
}

void sweep_clear(struct sweep_owned *owned) {
    map_done(&owned->ids);
    for (struct list *it = list_pop_front(&owned->parts); it; it = list_pop_front(&owned->parts))
        free(container_of(it, struct owned_part, node));
}
