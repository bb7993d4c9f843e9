#include "api/sandbox/sandbox_spec_check.h"

#include <stdio.h>

#include "api/checks.h"
#include "api/sandbox/sandbox_imports_check.h"

#define DEFAULT_WORKSPACE "/workspace"

#define NETWORK(mode) BERM__V1__NETWORK_MODE__NETWORK_MODE_##mode
#define ACTION(name) BERM__V1__LIFETIME_ACTION__LIFETIME_ACTION_##name
#define LAYER(name) BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_##name
#define PROFILE(name) BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_##name
#define IMAGE(name) BERM__V1__IMAGE_KIND__IMAGE_KIND_##name

static int spec_no_memory(struct err *e) {
    return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
}

/* Without a driver every feature passes, because spec_fill_driver reports the missing driver
 * last. */
static bool spec_driver_can(const struct spec_rules *rules, unsigned feature) {
    return !rules->driver || (rules->driver->features & feature) == feature;
}

/* --- limits --- */

/* The limits of a sandbox. The row of each in limits.def gives its minimum and maximum. */
static const struct limit_row {
    const char *name;
    size_t offset;
    enum limit_id limit;
    unsigned feature;
    bool needs_bound; /* -1 is refused, because the limit bounds resources of the daemon */
} limit_rows[] = {
    {"memory_bytes", offsetof(Berm__V1__Limits, memory_bytes), LIMIT_SANDBOX_MEMORY,
     DRIVER_HAS_LIMIT_MEMORY, false},
    {"cpu_millis", offsetof(Berm__V1__Limits, cpu_millis), LIMIT_SANDBOX_CPU, DRIVER_HAS_LIMIT_CPU,
     false},
    {"pids", offsetof(Berm__V1__Limits, pids), LIMIT_SANDBOX_PIDS, DRIVER_HAS_LIMIT_PIDS, false},
    {"disk_bytes", offsetof(Berm__V1__Limits, disk_bytes), LIMIT_SANDBOX_DISK,
     DRIVER_HAS_LIMIT_DISK, false},
    {"disk_inodes", offsetof(Berm__V1__Limits, disk_inodes), LIMIT_SANDBOX_INODES,
     DRIVER_HAS_LIMIT_DISK, false},
    {"output_bytes", offsetof(Berm__V1__Limits, output_bytes), LIMIT_OUTPUT_SANDBOX, 0, true},
    {"exec_wall_ms", offsetof(Berm__V1__Limits, exec_wall_ms), LIMIT_EXEC_WALL, 0, false},
    {"execs", offsetof(Berm__V1__Limits, execs), LIMIT_EXECS, 0, true},
};

static int64_t *spec_limit(Berm__V1__Limits *l, const struct limit_row *row) {
    return (int64_t *)((char *)l + row->offset);
}

static int spec_check_limit(const struct spec_rules *rules, const char *at,
                            const struct limit_row *row, int64_t value, struct err *e) {
    const struct limit *range = &limit_table[row->limit];
    char field[64];
    snprintf(field, sizeof field, "%s.%s", at, row->name);
    if (value == -1 && row->needs_bound)
        return err_field(e, field, "%s: must have a bound, got -1", field);
    if (value == -1)
        return 0;
    if (value < range->min || value > range->max)
        return err_field(e, field, "%s: must be between %lld and %lld%s", field,
                         (long long)range->min, (long long)range->max,
                         row->needs_bound ? "" : ", or -1 for none");
    if (!spec_driver_can(rules, row->feature))
        return err_unsupported(e, field, "this host cannot enforce a limit on %s", row->name);
    return 0;
}

/* Fills every limit. A limit that is 0 in `asked` comes from `old`, or from the daemon's defaults
 * if there is no `old`. */
static int spec_fill_limits(const struct spec_rules *rules, const char *at,
                            const Berm__V1__Limits *asked, const Berm__V1__Limits *old,
                            struct arena *arena, Berm__V1__Limits **ret_limits, struct err *e) {
    Berm__V1__Limits *l = arena_alloc(arena, sizeof *l);
    if (!l)
        return spec_no_memory(e);
    berm__v1__limits__init(l);
    if (old)
        *l = *old;
    for (size_t i = 0; i < COUNT_OF(limit_rows); i++) {
        const struct limit_row *row = &limit_rows[i];
        int64_t *in_force = spec_limit(l, row);
        int64_t value = asked ? *spec_limit((Berm__V1__Limits *)asked, row) : 0;
        int r = value != 0 ? spec_check_limit(rules, at, row, value, e) : 0;
        if (r < 0)
            return r;
        if (value != 0)
            *in_force = value;
        else if (!old)
            *in_force = spec_driver_can(rules, row->feature) ? rules->limits->of[row->limit] : -1;
    }
    *ret_limits = l;
    if (l->disk_inodes != -1 && l->disk_bytes == -1) {
        err_field(e, at, "%s.disk_inodes: must be given with disk_bytes", at);
        return err_at(e, "%s.disk_inodes", at);
    }
    return 0;
}

/* --- lifetime --- */

static int spec_check_span(const char *at, const char *name, int64_t value, struct err *e) {
    char field[64];
    snprintf(field, sizeof field, "%s.%s", at, name);
    if (value < -1)
        return err_field(e, field, "%s: must be a time, 0 for the default, or -1 for never", field);
    return 0;
}

static int spec_check_action(const struct spec_rules *rules, const char *at, const char *name,
                             Berm__V1__LifetimeAction action, struct err *e) {
    char field[64];
    snprintf(field, sizeof field, "%s.%s", at, name);
    if ((unsigned)action > ACTION(DELETE))
        return err_field(e, field, "%s: must be a known action, got %d", field, (int)action);
    if (action == ACTION(PAUSE) && rules->driver && !rules->driver->pause)
        return err_unsupported(e, field, "this driver cannot pause");
    return 0;
}

static int spec_fill_lifetime(const struct spec_rules *rules, const char *at,
                              const Berm__V1__Lifetime *asked, struct arena *arena,
                              Berm__V1__Lifetime **ret_lifetime, struct err *e) {
    Berm__V1__Lifetime *l = arena_alloc(arena, sizeof *l);
    if (!l)
        return spec_no_memory(e);
    berm__v1__lifetime__init(l);
    if (asked)
        *l = *asked;
    int r = spec_check_span(at, "idle_ttl_ms", l->idle_ttl_ms, e);
    if (r == 0)
        r = spec_check_span(at, "ttl_ms", l->ttl_ms, e);
    if (r == 0)
        r = spec_check_action(rules, at, "idle_action", l->idle_action, e);
    if (r == 0)
        r = spec_check_action(rules, at, "ttl_action", l->ttl_action, e);
    if (r == 0 && l->wake_on_call) {
        char field[64];
        snprintf(field, sizeof field, "%s.wake_on_call", at);
        r = err_unsupported(e, field, "this daemon cannot wake a sandbox");
    }
    if (l->idle_ttl_ms == 0)
        l->idle_ttl_ms = rules->limits->of[LIMIT_SANDBOX_IDLE_TTL];
    if (l->ttl_ms == 0)
        l->ttl_ms = rules->limits->of[LIMIT_SANDBOX_TTL];
    if (l->idle_action == ACTION(UNSPECIFIED))
        l->idle_action = ACTION(STOP);
    if (l->ttl_action == ACTION(UNSPECIFIED))
        l->ttl_action = ACTION(DELETE);
    *ret_lifetime = l;
    return r;
}

/* --- network --- */

static int spec_fill_network(const struct spec_rules *rules, const char *at,
                             const Berm__V1__Network *asked, struct arena *arena,
                             Berm__V1__Network **ret_network, struct err *e) {
    Berm__V1__Network *n = arena_alloc(arena, sizeof *n);
    char mode[64], egress[64];
    if (!n)
        return spec_no_memory(e);
    snprintf(mode, sizeof mode, "%s.mode", at);
    snprintf(egress, sizeof egress, "%s.egress", at);
    berm__v1__network__init(n);
    if (asked)
        *n = *asked;
    if (n->mode == NETWORK(UNSPECIFIED))
        n->mode = NETWORK(NONE);
    *ret_network = n;
    if ((unsigned)n->mode > NETWORK(OPEN))
        return err_field(e, mode, "%s: must be a known mode, got %d", mode, (int)n->mode);
    if (n->mode == NETWORK(EGRESS) && !spec_driver_can(rules, DRIVER_HAS_EGRESS))
        return err_unsupported(e, mode, "this driver has no network mode EGRESS");
    if (n->mode == NETWORK(OPEN) && !spec_driver_can(rules, DRIVER_HAS_OPEN))
        return err_unsupported(e, mode, "this driver has no network mode OPEN");
    if (n->mode != NETWORK(EGRESS) && n->n_egress > 0)
        return err_field(e, egress, "%s: must be empty unless the mode is EGRESS", egress);
    int64_t max = rules->limits->of[LIMIT_EGRESS_RULES];
    if (n->n_egress > (size_t)max) {
        err_limit(e, ERR_INVALID_ARGUMENT, LIMIT_EGRESS_RULES, max,
                  "%s: must have at most %lld rules", egress, (long long)max);
        return err_at(e, "%s", egress);
    }
    return 0;
}

/* --- root --- */

static int spec_refuse_image(const Berm__V1__ImageRoot *image, struct err *e) {
    static const char *const kinds[] = {"REGISTRY", "REGISTRY", "DIRECTORY", "TARBALL",
                                        "OCI_LAYOUT"};
    if ((unsigned)image->kind >= COUNT_OF(kinds))
        return err_field(e, "spec.root.image.kind",
                         "spec.root.image.kind: must be a known kind, got %d", (int)image->kind);
    return err_unsupported(e, "spec.root.image.kind", "this driver cannot use an image of kind %s",
                           kinds[image->kind]);
}

static int spec_fill_root(const struct spec_rules *rules, const Berm__V1__RootFilesystem *asked,
                          struct arena *arena, Berm__V1__RootFilesystem **ret_root, struct err *e) {
    Berm__V1__RootFilesystem *root = arena_alloc(arena, sizeof *root);
    Berm__V1__HostRoot *host = arena_alloc(arena, sizeof *host);
    if (!root || !host)
        return spec_no_memory(e);
    berm__v1__root_filesystem__init(root);
    berm__v1__host_root__init(host);
    if (asked && asked->source_case == BERM__V1__ROOT_FILESYSTEM__SOURCE_IMAGE)
        return spec_refuse_image(asked->image, e);
    if (asked && asked->source_case == BERM__V1__ROOT_FILESYSTEM__SOURCE_SNAPSHOT)
        return err_unsupported(e, "spec.root.snapshot", "this driver cannot use snapshots");
    root->source_case = BERM__V1__ROOT_FILESYSTEM__SOURCE_HOST;
    root->host = host;
    root->layer = asked && asked->layer != LAYER(UNSPECIFIED) ? asked->layer : LAYER(DISK);
    if ((unsigned)root->layer > LAYER(MEMORY))
        return err_field(e, "spec.root.layer", "spec.root.layer: must be a known layer, got %d",
                         (int)root->layer);
    if (root->layer == LAYER(MEMORY) && !spec_driver_can(rules, DRIVER_HAS_LAYER_MEMORY))
        return err_unsupported(e, "spec.root.layer", "this driver has no layer MEMORY");
    *ret_root = root;
    return 0;
}

/* --- the rest --- */

static int spec_fill_driver(const struct spec_rules *rules, Berm__V1__SandboxSpec *s,
                            struct err *e) {
    if (!rules->driver)
        return err_set(e, ERR_DRIVER_UNAVAILABLE, "no driver can create sandboxes: %s",
                       rules->no_driver ? rules->no_driver : "no driver is loaded");
    const char *name = rules->driver->ops->name;
    if (s->driver[0] != '\0' && strcmp(s->driver, name) != 0)
        return err_unsupported(e, "spec.driver", "no driver has the name \"%.60s\"", s->driver);
    s->driver = (char *)name;
    return 0;
}

static int spec_fill_plain(const struct spec_rules *rules, Berm__V1__SandboxSpec *s,
                           struct err *e) {
    int r = check_labels("spec.labels", s->n_labels, s->labels,
                         limit_table[LIMIT_LABELS_COUNT].value, e);
    if (r == 0)
        r = check_env("spec.env", s->n_env, s->env, LIMIT_ENV_SIZE, e);
    if (r < 0)
        return r;
    if (s->profile == PROFILE(UNSPECIFIED))
        s->profile = PROFILE(USER);
    if ((unsigned)s->profile > PROFILE(ROOT))
        return err_field(e, "spec.profile", "spec.profile: must be a known profile, got %d",
                         (int)s->profile);
    if (s->profile == PROFILE(ROOT) && !spec_driver_can(rules, DRIVER_HAS_PROFILE_ROOT))
        return err_unsupported(e, "spec.profile", "this driver has no profile ROOT");
    if (s->workspace[0] == '\0')
        s->workspace = DEFAULT_WORKSPACE;
    return check_clean_path("spec.workspace", s->workspace, e);
}

int spec_check(const struct spec_rules *rules, const Berm__V1__SandboxSpec *asked,
               struct arena *arena, Berm__V1__SandboxSpec **ret_spec, struct err *e) {
    Berm__V1__SandboxSpec *s = arena_alloc(arena, sizeof *s);
    if (!s)
        return spec_no_memory(e);
    berm__v1__sandbox_spec__init(s);
    if (asked)
        *s = *asked;
    int r = spec_fill_plain(rules, s, e);
    if (r == 0)
        r = spec_fill_limits(rules, "spec.limits", s->limits, NULL, arena, &s->limits, e);
    if (r == 0)
        r = spec_fill_lifetime(rules, "spec.lifetime", s->lifetime, arena, &s->lifetime, e);
    if (r == 0)
        r = spec_fill_network(rules, "spec.network", s->network, arena, &s->network, e);
    if (r == 0)
        r = spec_fill_root(rules, s->root, arena, &s->root, e);
    if (r == 0)
        r = imports_check(s, e);
    if (r == 0 && (s->n_mounts > 0 || s->n_tools > 0) && !spec_driver_can(rules, DRIVER_HAS_MOUNTS))
        r = err_unsupported(e, s->n_mounts > 0 ? "spec.mounts" : "spec.tools",
                            "this driver has no mounts");
    if (r == 0)
        r = spec_fill_driver(rules, s, e);
    *ret_spec = s;
    return r;
}

/* --- updates --- */

static bool spec_has_key(const Berm__V1__KeyValue *const *list, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i]->key, key) == 0)
            return true;
    return false;
}

static bool spec_has_name(char *const *list, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

static int spec_check_labels_update(const Berm__V1__LabelsUpdate *u, struct err *e) {
    int64_t max = limit_table[LIMIT_LABELS_COUNT].value;
    int r = check_labels("labels.set", u->n_set, u->set, max, e);
    if (r < 0)
        return r;
    if (u->n_remove > (size_t)max) {
        err_limit(e, ERR_INVALID_ARGUMENT, LIMIT_LABELS_COUNT, max,
                  "labels.remove: must have at most %lld keys", (long long)max);
        return err_at(e, "labels.remove");
    }
    for (size_t i = 0; i < u->n_remove; i++)
        if (spec_has_name(u->remove, i, u->remove[i]) ||
            spec_has_key((const Berm__V1__KeyValue *const *)u->set, u->n_set, u->remove[i])) {
            err_field(e, "labels.remove", "labels.remove[%zu]: \"%.80s\" must be given once", i,
                      u->remove[i]);
            return err_at(e, "labels.remove[%zu]", i);
        }
    return 0;
}

/* Remaining labels keep their order; new ones follow. */
static int spec_update_labels(const Berm__V1__SandboxSpec *old, const Berm__V1__LabelsUpdate *u,
                              struct arena *arena, Berm__V1__SandboxSpec *s, struct err *e) {
    int r = spec_check_labels_update(u, e);
    if (r < 0)
        return r;
    s->labels = arena_alloc(arena, (old->n_labels + u->n_set + 1) * sizeof *s->labels);
    if (!s->labels)
        return spec_no_memory(e);
    s->n_labels = 0;
    for (size_t i = 0; i < old->n_labels; i++)
        if (!spec_has_name(u->remove, u->n_remove, old->labels[i]->key) &&
            !spec_has_key((const Berm__V1__KeyValue *const *)u->set, u->n_set, old->labels[i]->key))
            s->labels[s->n_labels++] = old->labels[i];
    for (size_t i = 0; i < u->n_set; i++)
        s->labels[s->n_labels++] = u->set[i];
    return check_labels("labels.set", s->n_labels, s->labels, limit_table[LIMIT_LABELS_COUNT].value,
                        e);
}

static int spec_update_network(const struct spec_rules *rules, const Berm__V1__SandboxSpec *old,
                               const Berm__V1__Network *asked, struct arena *arena,
                               Berm__V1__SandboxSpec *s, struct err *e) {
    int r = spec_fill_network(rules, "network", asked, arena, &s->network, e);
    if (r == 0 && s->network->mode != old->network->mode)
        r = err_field(e, "network.mode",
                      "network.mode: must be the mode that the sandbox was created with");
    return r;
}

int spec_check_update(const struct spec_rules *rules, const Berm__V1__SandboxSpec *old,
                      const Berm__V1__UpdateSandboxRequest *asked, struct arena *arena,
                      Berm__V1__SandboxSpec **ret_spec, const char *ret_parts[SPEC_PARTS],
                      size_t *ret_n_parts, struct err *e) {
    Berm__V1__SandboxSpec *s = arena_alloc(arena, sizeof *s);
    int r = 0;
    size_t n = 0;
    if (!s)
        return spec_no_memory(e);
    *s = *old;
    if (asked->labels) {
        ret_parts[n++] = "labels";
        r = spec_update_labels(old, asked->labels, arena, s, e);
    }
    if (r == 0 && asked->limits) {
        ret_parts[n++] = "limits";
        r = spec_fill_limits(rules, "limits", asked->limits, old->limits, arena, &s->limits, e);
    }
    if (r == 0 && asked->lifetime) {
        ret_parts[n++] = "lifetime";
        r = spec_fill_lifetime(rules, "lifetime", asked->lifetime, arena, &s->lifetime, e);
    }
    if (r == 0 && asked->network) {
        ret_parts[n++] = "network";
        r = spec_update_network(rules, old, asked->network, arena, s, e);
    }
    *ret_spec = s;
    *ret_n_parts = n;
    return r;
}
