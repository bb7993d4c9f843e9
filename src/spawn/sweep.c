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
#include "spawn/place.h"
#include "spawn/sys.h"

#define SWEEP_IDS_MAX 1000000

struct owned_part {
    struct list node;
    unsigned n;
    char ids[SPAWN_SWEEP_MAX][SPAWN_ID_MAX]; /* sorted */
};

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

int sweep_add(struct list *owned, unsigned *n_owned, const struct spawn_sweep *req) {
    if (req->last > 1 || req->n_ids > SPAWN_SWEEP_MAX)
        return -EINVAL;
    for (uint32_t i = 0; i < req->n_ids; i++)
        if (!check_id(req->ids[i]))
            return -EINVAL;
    if (*n_owned + req->n_ids > SWEEP_IDS_MAX)
        return -E2BIG;
    struct owned_part *part = malloc(sizeof *part);
    if (part == NULL)
        return -ENOMEM;
    part->n = req->n_ids;
    memcpy(part->ids, req->ids, sizeof part->ids);
    qsort(part->ids, part->n, SPAWN_ID_MAX, by_text);
    list_push_back(owned, &part->node);
    *n_owned += req->n_ids;
    return 0;
}

static bool is_owned(const struct list *owned, const char *id) {
    for (const struct list *it = owned->next; it != owned; it = it->next) {
        const struct owned_part *part = container_of(it, struct owned_part, node);
        if (bsearch(id, part->ids, part->n, SPAWN_ID_MAX, by_text) != NULL)
            return true;
    }
    return false;
}

struct sweep {
    struct spawn *s;
    const struct list *owned;
    uint32_t count;
};

/* Goes the way of DESTROY, but for the answer. */
static void sweep_id(const char *id, void *arg) {
    struct sweep *w = arg;
    struct spawn_destroy req = {.flags = SPAWN_DESTROY_FILES};
    size_t n = strlen(id);
    if (n >= sizeof req.id)
        return;
    memcpy(req.id, id, n + 1);
    if (!check_id(req.id) || is_owned(w->owned, id))
        return;
    LIST_FOR_EACH(it, &w->s->dying) {
        if (strcmp(container_of(it, struct place, node)->id, id) == 0)
            return;
    }
    struct place *p = place_destroy(w->s, &req);
    if (p == NULL)
        return;
    p->is_swept = true;
    w->count++;
}

static bool is_same(int dir, const char *name, int fd) {
    struct stat a, b;
    return fstatat(dir, name, &a, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Ours stand on the root that we opened at our start. */
static void count_strangers(const char *id, void *arg) {
    struct sweep *w = arg;
    LIST_FOR_EACH(it, &w->s->places) {
        const struct place *p = container_of(it, struct place, node);
        if (p->pid > 0 && strcmp(p->id, id) == 0)
            return;
    }
    w->count++;
}

/* The host's /etc changed and the generated root with it: the older ones go as soon as nobody can stand
 * on one. That is so when every sandbox is ours, and we alone work on this state. */
void sweep_roots(struct spawn *s) {
    struct sweep w = {.s = s};
    cgroup_each(&s->cg, count_strangers, &w);
    AUTO_CLOSE int roots = openat(s->state, "roots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w.count > 0 || roots < 0)
        return;
    int copy = openat(roots, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    bool alone = flock(s->state, LOCK_EX | LOCK_NB) == 0;
    for (struct dirent *e; alone && list != NULL && (e = readdir(list)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            !is_same(roots, e->d_name, s->host_root) && !is_same(roots, e->d_name, s->points) &&
            sys_rename_new(roots, e->d_name, s->trash, e->d_name) == 0)
            layer_empty_trash(s);
    if (list != NULL)
        closedir(list);
    while (flock(s->state, LOCK_SH) < 0 && errno == EINTR)
        ;
}

uint32_t sweep_run(struct spawn *s, struct list *owned) {
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

void sweep_clear(struct list *owned, unsigned *n_owned) {
    for (struct list *it = list_pop_front(owned); it != NULL; it = list_pop_front(owned))
        free(container_of(it, struct owned_part, node));
    *n_owned = 0;
}
