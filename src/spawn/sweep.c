#include "spawn/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "spawn/check.h"
#include "spawn/layer.h"
#include "spawn/place.h"

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
    return w.count;
}

void sweep_clear(struct list *owned, unsigned *n_owned) {
    for (struct list *it = list_pop_front(owned); it != NULL; it = list_pop_front(owned))
        free(container_of(it, struct owned_part, node));
    *n_owned = 0;
}
