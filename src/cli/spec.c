/* Converts options into a sandbox spec. */
#include <limits.h>
#include <sys/stat.h>

#include "cli/cli.h"

const struct opt spec_opts[] = {
    {"id", 0, "ID", "id of the sandbox; by default the daemon generates one"},
    {"label", 'l', "KEY=VALUE", "set a label; may repeat"},
    {"env", 'e', "KEY=VALUE", "set an environment variable for every program; may repeat"},
    {"memory", 'm', "SIZE", "memory limit of all programs together, such as 512M"},
    {"cpus", 0, "N", "CPU limit, such as 0.5 or 2"},
    {"pids", 0, "N", "limit of processes and threads"},
    {"disk", 0, "SIZE", "size limit of the writable layer"},
    {"inodes", 0, "N", "inode limit of the writable layer"},
    {"output", 0, "SIZE", "bytes of program output to keep"},
    {"idle-ttl", 0, "TIME", "idle time before --idle-action"},
    {"idle-action", 0, "ACTION", "action when idle: stop (default), pause or delete"},
    {"ttl", 0, "TIME", "time before --ttl-action"},
    {"ttl-action", 0, "ACTION", "action at the end of the TTL: delete (default), stop or pause"},
    {"wake", 0, NULL, "let a call wake the sandbox after an idle stop or pause"},
    {"network", 0, "MODE", "network mode: none (default), egress or open"},
    {"allow", 0, "HOST[:PORT]", "host that mode egress allows; may repeat"},
    {"image", 0, "REFERENCE",
     "root filesystem: a directory, a tar file, an OCI layout, or name:tag"},
    {"snapshot", 0, "ID", "root filesystem: a snapshot"},
    {"layer", 0, "WHERE", "location of the writable layer: disk (default) or memory"},
    {"mount", 'v', "SOURCE[:TARGET][:rw]",
     "mount a host directory at TARGET; without TARGET, at the workspace; may repeat"},
    {"copy", 0, "SOURCE[:TARGET]",
     "copy a host file or directory to TARGET; without TARGET, to the workspace; may repeat"},
    {"tool", 0, "NAME[:credentials][:cache]", "add a tool, such as git; may repeat"},
    {"device", 0, "KIND[:COUNT]", "add a hardware device; may repeat"},
    {"profile", 0, "WHO", "rights of programs inside: user (default) or root"},
    {"driver", 0, "NAME", "driver that creates the sandbox"},
    {"workspace", 0, "DIR",
     "working directory of programs and base of relative paths; default /workspace"},
    {0},
};

/* Parses "1.5" into thousandths of a processor. */
static bool fill_cpus(struct cli *cli, int64_t *millis) {
    const char *text = opt_get(cli, "cpus");
    char *end;
    if (!text)
        return true;
    double cpus = strtod(text, &end);
    if (end == text || *end != '\0' || !(cpus >= 0.01 && cpus <= 100000)) {
        opt_usage(cli, "--cpus: must be a number of at least 0.01, got \"%s\"", text);
        return false;
    }
    *millis = (int64_t)(cpus * 1000 + 0.5);
    return true;
}

bool limits_fill(struct cli *cli, Berm__V1__Limits *limits, bool *ret_any) {
    berm__v1__limits__init(limits);
    *ret_any = opt_has(cli, "memory") || opt_has(cli, "cpus") || opt_has(cli, "pids") ||
               opt_has(cli, "disk") || opt_has(cli, "inodes") || opt_has(cli, "output");
    return opt_size(cli, "memory", &limits->memory_bytes) && fill_cpus(cli, &limits->cpu_millis) &&
           opt_number(cli, "pids", 1, INT32_MAX, &limits->pids) &&
           opt_size(cli, "disk", &limits->disk_bytes) &&
           opt_number(cli, "inodes", 1, INT64_MAX, &limits->disk_inodes) &&
           opt_size(cli, "output", &limits->output_bytes);
}

bool lifetime_fill(struct cli *cli, Berm__V1__Lifetime *lifetime, bool *ret_any) {
    static const char *const names[] = {"stop", "pause", "delete", NULL};
    static const int actions[] = {BERM__V1__LIFETIME_ACTION__LIFETIME_ACTION_STOP,
                                  BERM__V1__LIFETIME_ACTION__LIFETIME_ACTION_PAUSE,
                                  BERM__V1__LIFETIME_ACTION__LIFETIME_ACTION_DELETE};
    int idle = 0, ttl = 0;
    berm__v1__lifetime__init(lifetime);
    if (!opt_duration(cli, "idle-ttl", &lifetime->idle_ttl_ms) ||
        !opt_duration(cli, "ttl", &lifetime->ttl_ms) ||
        !opt_choice(cli, "idle-action", names, actions, &idle) ||
        !opt_choice(cli, "ttl-action", names, actions, &ttl))
        return false;
    lifetime->idle_action = (Berm__V1__LifetimeAction)idle;
    lifetime->ttl_action = (Berm__V1__LifetimeAction)ttl;
    lifetime->wake_on_call = opt_has(cli, "wake");
    *ret_any = opt_has(cli, "idle-ttl") || opt_has(cli, "ttl") || idle != 0 || ttl != 0 ||
               lifetime->wake_on_call;
    return true;
}

static bool fill_egress(struct cli *cli, Berm__V1__Network *network) {
    size_t at = 0;
    network->egress = cli_alloc(cli, (opt_count(cli, "allow") + 1) * sizeof *network->egress);
    for (char *text; (text = opt_next(cli, "allow", &at));) {
        Berm__V1__EgressRule *rule = cli_alloc(cli, sizeof *rule);
        const char *colon = strrchr(text, ':');
        uint64_t port;
        berm__v1__egress_rule__init(rule);
        rule->host = colon ? cli_text(cli, "%.*s", (int)(colon - text), text) : text;
        if (colon) {
            if (str_to_u64(str_of(colon + 1), 1, 65535, &port) < 0) {
                opt_usage(cli, "--allow: must have a port from 1 to 65535, got \"%s\"", text);
                return false;
            }
            rule->ports = cli_alloc(cli, sizeof *rule->ports);
            rule->ports[0] = (uint32_t)port;
            rule->n_ports = 1;
        }
        network->egress[network->n_egress++] = rule;
    }
    return true;
}

static bool fill_network(struct cli *cli, Berm__V1__SandboxSpec *spec) {
    static const char *const names[] = {"none", "egress", "open", NULL};
    static const int modes[] = {BERM__V1__NETWORK_MODE__NETWORK_MODE_NONE,
                                BERM__V1__NETWORK_MODE__NETWORK_MODE_EGRESS,
                                BERM__V1__NETWORK_MODE__NETWORK_MODE_OPEN};
    int mode = opt_has(cli, "allow") ? modes[1] : 0;
    if (!opt_choice(cli, "network", names, modes, &mode))
        return false;
    if (mode == 0)
        return true;
    spec->network = cli_alloc(cli, sizeof *spec->network);
    berm__v1__network__init(spec->network);
    spec->network->mode = (Berm__V1__NetworkMode)mode;
    return fill_egress(cli, spec->network);
}

/* An existing path is a directory or archive; anything else names an image in a registry. */
static void fill_image(struct cli *cli, Berm__V1__RootFilesystem *root, char *reference) {
    Berm__V1__ImageRoot *image = cli_alloc(cli, sizeof *image);
    struct stat st;
    berm__v1__image_root__init(image);
    image->reference = reference;
    image->kind = BERM__V1__IMAGE_KIND__IMAGE_KIND_REGISTRY;
    if (strchr(reference, '/') && stat(reference, &st) == 0) {
        char *path = cli_alloc(cli, PATH_MAX);
        if (realpath(reference, path))
            image->reference = path;
        bool is_oci = stat(cli_text(cli, "%s/oci-layout", reference), &(struct stat){0}) == 0;
        image->kind = is_oci                ? BERM__V1__IMAGE_KIND__IMAGE_KIND_OCI_LAYOUT
                      : S_ISDIR(st.st_mode) ? BERM__V1__IMAGE_KIND__IMAGE_KIND_DIRECTORY
                                            : BERM__V1__IMAGE_KIND__IMAGE_KIND_TARBALL;
    }
    root->source_case = BERM__V1__ROOT_FILESYSTEM__SOURCE_IMAGE;
    root->image = image;
}

static bool fill_root(struct cli *cli, Berm__V1__SandboxSpec *spec) {
    static const char *const names[] = {"disk", "memory", NULL};
    static const int layers[] = {BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_DISK,
                                 BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_MEMORY};
    int layer = 0;
    char *image = opt_get(cli, "image");
    char *snapshot = opt_get(cli, "snapshot");
    if (!opt_choice(cli, "layer", names, layers, &layer))
        return false;
    if (image && snapshot) {
        opt_usage(cli, "--image and --snapshot: must not be used together, because each is a root");
        return false;
    }
    if (!image && !snapshot && layer == 0)
        return true;
    spec->root = cli_alloc(cli, sizeof *spec->root);
    berm__v1__root_filesystem__init(spec->root);
    spec->root->layer = (Berm__V1__WritableLayer)layer;
    if (image)
        fill_image(cli, spec->root, image);
    if (snapshot) {
        spec->root->source_case = BERM__V1__ROOT_FILESYSTEM__SOURCE_SNAPSHOT;
        spec->root->snapshot = cli_alloc(cli, sizeof *spec->root->snapshot);
        berm__v1__snapshot_root__init(spec->root->snapshot);
        spec->root->snapshot->snapshot_id = snapshot;
    }
    return true;
}

/* Parses SOURCE[:TARGET][:rw]. A relative source starts at the current directory. Without a target,
 * the target is the workspace. */
static bool split_paths(struct cli *cli, const char *name, const char *text, char **ret_source,
                        char **ret_target, bool *ret_writable) {
    char *copy = cli_text(cli, "%s", text);
    size_t n = strlen(copy);
    *ret_writable = n > 3 && strcmp(copy + n - 3, ":rw") == 0;
    if (*ret_writable)
        copy[n - 3] = '\0';
    char *colon = strrchr(copy, ':');
    if (copy[0] == '\0' || colon == copy || (colon && colon[1] != '/')) {
        opt_usage(cli, "--%s: must be SOURCE, or SOURCE:TARGET with an absolute TARGET, got \"%s\"",
                  name, text);
        return false;
    }
    char *workspace = opt_get(cli, "workspace");
    *ret_target = colon ? colon + 1 : workspace ? workspace : (char *)"/workspace";
    if (colon)
        *colon = '\0';
    char *path = cli_alloc(cli, PATH_MAX);
    *ret_source = copy[0] != '/' && realpath(copy, path) ? path : copy;
    return true;
}

static bool fill_paths(struct cli *cli, Berm__V1__SandboxSpec *spec) {
    size_t at = 0;
    bool writable;
    spec->mounts = cli_alloc(cli, (opt_count(cli, "mount") + 1) * sizeof *spec->mounts);
    for (char *text; (text = opt_next(cli, "mount", &at));) {
        Berm__V1__Mount *m = cli_alloc(cli, sizeof *m);
        berm__v1__mount__init(m);
        if (!split_paths(cli, "mount", text, &m->source, &m->target, &writable))
            return false;
        m->writable = writable;
        spec->mounts[spec->n_mounts++] = m;
    }
    at = 0;
    spec->copies = cli_alloc(cli, (opt_count(cli, "copy") + 1) * sizeof *spec->copies);
    for (char *text; (text = opt_next(cli, "copy", &at));) {
        Berm__V1__Copy *c = cli_alloc(cli, sizeof *c);
        berm__v1__copy__init(c);
        if (!split_paths(cli, "copy", text, &c->source, &c->target, &writable))
            return false;
        spec->copies[spec->n_copies++] = c;
    }
    return true;
}

/* Parses NAME[:credentials][:cache], in any order. */
static bool fill_tool(struct cli *cli, const char *text, Berm__V1__Tool *t) {
    char *rest = cli_text(cli, "%s", text);
    t->name = strsep(&rest, ":");
    for (const char *word; (word = strsep(&rest, ":"));) {
        bool is_credentials = strcmp(word, "credentials") == 0;
        if (!is_credentials && strcmp(word, "cache") != 0) {
            opt_usage(cli, "--tool: must be NAME, NAME:credentials, NAME:cache or both, got \"%s\"",
                      text);
            return false;
        }
        t->credentials = t->credentials || is_credentials;
        t->cache = t->cache || !is_credentials;
    }
    return true;
}

static bool fill_extras(struct cli *cli, Berm__V1__SandboxSpec *spec) {
    size_t at = 0;
    spec->tools = cli_alloc(cli, (opt_count(cli, "tool") + 1) * sizeof *spec->tools);
    for (char *text; (text = opt_next(cli, "tool", &at));) {
        Berm__V1__Tool *t = cli_alloc(cli, sizeof *t);
        berm__v1__tool__init(t);
        if (!fill_tool(cli, text, t))
            return false;
        spec->tools[spec->n_tools++] = t;
    }
    at = 0;
    spec->devices = cli_alloc(cli, (opt_count(cli, "device") + 1) * sizeof *spec->devices);
    for (char *text; (text = opt_next(cli, "device", &at));) {
        Berm__V1__DeviceRequest *d = cli_alloc(cli, sizeof *d);
        const char *colon = strchr(text, ':');
        uint64_t count = 0;
        berm__v1__device_request__init(d);
        d->kind = colon ? cli_text(cli, "%.*s", (int)(colon - text), text) : text;
        if (colon && str_to_u64(str_of(colon + 1), 1, 1024, &count) < 0) {
            opt_usage(cli, "--device: must have a count from 1 to 1024, got \"%s\"", text);
            return false;
        }
        d->count = (uint32_t)count;
        spec->devices[spec->n_devices++] = d;
    }
    return true;
}

bool spec_fill(struct cli *cli, Berm__V1__SandboxSpec *spec) {
    static const char *const profiles[] = {"user", "root", NULL};
    static const int profile_values[] = {BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_USER,
                                         BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_ROOT};
    int profile = 0;
    bool any_limits, any_lifetime;
    berm__v1__sandbox_spec__init(spec);
    Berm__V1__Limits *limits = cli_alloc(cli, sizeof *limits);
    Berm__V1__Lifetime *lifetime = cli_alloc(cli, sizeof *lifetime);
    if (!opt_pairs(cli, "label", &spec->n_labels, &spec->labels) ||
        !opt_pairs(cli, "env", &spec->n_env, &spec->env) ||
        !limits_fill(cli, limits, &any_limits) || !lifetime_fill(cli, lifetime, &any_lifetime) ||
        !fill_network(cli, spec) || !fill_root(cli, spec) || !fill_paths(cli, spec) ||
        !fill_extras(cli, spec) || !opt_choice(cli, "profile", profiles, profile_values, &profile))
        return false;
    spec->limits = any_limits ? limits : NULL;
    spec->lifetime = any_lifetime ? lifetime : NULL;
    spec->profile = (Berm__V1__SandboxProfile)profile;
    if (opt_has(cli, "driver"))
        spec->driver = opt_get(cli, "driver");
    if (opt_has(cli, "workspace"))
        spec->workspace = opt_get(cli, "workspace");
    return true;
}
