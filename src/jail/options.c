#include "jail/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "base/usage.h"

#define STATE_DIR "/var/lib/berm/jail"

static const char usage[] =
    "usage: berm-jail [options] [--] COMMAND [ARGUMENT]...\n"
    "Runs COMMAND in a new sandbox with the host's programs, but without its data or network.\n"
    "  --root              run as root inside (packages can be installed); default: user\n"
    "  --image DIR         use DIR as the root file system instead of the host's\n"
    "  --bind SRC:DST[:rw|:layer] mount the host directory SRC at DST: read-only, writable (rw), or\n"
    "                      with changes kept apart, so that SRC does not change (layer)\n"
    "  --env NAME=VALUE    set an environment variable (the host's are not inherited)\n"
    "  --cwd DIR           working directory inside (default /workspace)\n"
    "  --memory SIZE       memory limit          --cpu N     CPUs, such as 0.5\n"
    "  --pids N            process limit         --disk SIZE writable layer, a real ENOSPC\n"
    "  --layer memory|disk where written files go (default memory; disk with --disk and --keep)\n"
    "  --network none      the only supported value\n"
    "  --hostname NAME     host name inside\n"
    "  --strict            /proc shows processes only, no ptrace\n"
    "  --keep NAME         keep the written files as NAME and reuse them next time\n"
    "  --state DIR         directory of written files and generated roots (default " STATE_DIR ")\n"
    "If stdin, stdout and stderr are terminals, COMMAND gets its own terminal with job control.\n"
    "SIZE is bytes, or with a suffix K, M, G, T.\n"
    "Exit code: that of COMMAND; 128 + N if signal N ended it; 125 if the sandbox could not be\n"
    "created; 126 if COMMAND cannot be executed; 127 if it was not found.\n";

enum option_id {
    OPT_ROOT = 1,
    OPT_IMAGE,
    OPT_BIND,
    OPT_ENV,
    OPT_CWD,
    OPT_MEMORY,
    OPT_CPU,
    OPT_PIDS,
    OPT_DISK,
    OPT_LAYER,
    OPT_NETWORK,
    OPT_HOSTNAME,
    OPT_STRICT,
    OPT_KEEP,
    OPT_STATE,
    OPT_WITHOUT,
    OPT_HELP,
};

/* Option values that are evaluated once all options are known. */
struct draft {
    struct jail_options *o;
    const char *cwd;
    const char *state;
    int image;
    int binds[SPAWN_MOUNTS_MAX];
    const char *env[SPAWN_STRINGS_MAX];
    uint32_t n_env;
    size_t text_at;
};

static int jail_parse_size(const char *text, uint64_t *ret) {
    static const char suffixes[] = "KMGT";
    struct str s = str_of(text);
    const char *suffix = s.n > 0 ? strchr(suffixes, s.p[s.n - 1]) : NULL;
    unsigned shift = suffix != NULL ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    s.n -= shift != 0;
    uint64_t value;
    int r = str_to_u64(s, 1, UINT64_MAX >> shift, &value);
    if (r == 0)
        *ret = value << shift;
    return r;
}

/* Parses "2" or "0.25" into thousandths of a CPU. */
static int jail_parse_cpu(const char *text, uint64_t *ret) {
    char *end;
    double value = strtod(text, &end);
    if (*end != '\0' || !(value > 0 && value < 1024))
        return -EINVAL;
    *ret = (uint64_t)(value * 1000 + 0.5);
    return 0;
}

static int jail_put_name(char *out, size_t cap, const char *text) {
    size_t n = strlen(text);
    if (n >= cap)
        return -ENAMETOOLONG;
    memcpy(out, text, n + 1);
    return 0;
}

static int jail_open_dir(const char *path) {
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int jail_add_bind(struct draft *d, char *text) {
    struct spawn_create *req = d->o->req;
    if (req->n_mounts == SPAWN_MOUNTS_MAX)
        return -E2BIG;
    struct spawn_mount *m = &req->mounts[req->n_mounts];
    static const struct {
        const char *word;
        uint32_t flag;
    } kinds[] = {{"rw", SPAWN_MOUNT_WRITABLE}, {"layer", SPAWN_MOUNT_LAYERED}};
    char *target = strrchr(text, ':');
    for (size_t i = 0; target != NULL && m->flags == 0 && i < COUNT_OF(kinds); i++)
        if (strcmp(target + 1, kinds[i].word) == 0) {
            m->flags = kinds[i].flag;
            *target = '\0';
            target = strrchr(text, ':');
        }
    if (target == NULL)
        return -EINVAL;
    *target++ = '\0';
    int fd = jail_open_dir(text);
    if (fd < 0)
        return fd;
    d->binds[req->n_mounts++] = fd;
    return jail_put_name(m->target, sizeof m->target, target);
}

static int jail_apply_limit(struct spawn_limits *l, enum option_id id) {
    if (id == OPT_MEMORY)
        return jail_parse_size(optarg, &l->memory_bytes);
    if (id == OPT_CPU)
        return jail_parse_cpu(optarg, &l->cpu_milli);
    if (id == OPT_PIDS)
        return str_to_u64(str_of(optarg), 1, UINT32_MAX, &l->pids);
    return jail_parse_size(optarg, &l->disk_bytes);
}

static int jail_apply(struct draft *d, enum option_id id) {
    struct spawn_create *req = d->o->req;
    switch (id) {
    case OPT_ROOT:
        req->profile = SPAWN_PROFILE_ROOT;
        return 0;
    case OPT_IMAGE:
        req->root = SPAWN_ROOT_IMAGE;
        return d->image = jail_open_dir(optarg);
    case OPT_BIND:
        return jail_add_bind(d, optarg);
    case OPT_ENV:
        if (d->n_env == SPAWN_STRINGS_MAX || strchr(optarg, '=') == NULL)
            return -EINVAL;
        d->env[d->n_env++] = optarg;
        return 0;
    case OPT_CWD:
        d->cwd = optarg;
        return 0;
    case OPT_MEMORY:
    case OPT_CPU:
    case OPT_PIDS:
    case OPT_DISK:
        return jail_apply_limit(&req->limits, id);
    case OPT_LAYER:
        req->layer = strcmp(optarg, "disk") == 0     ? SPAWN_LAYER_DISK
                     : strcmp(optarg, "memory") == 0 ? SPAWN_LAYER_MEMORY
                                                     : 0;
        return req->layer == 0 ? -EINVAL : 0;
    case OPT_NETWORK:
        return strcmp(optarg, "none") == 0 ? 0 : -ENOTSUP;
    case OPT_HOSTNAME:
        return jail_put_name(req->hostname, sizeof req->hostname, optarg);
    case OPT_STRICT:
        req->flags |= SPAWN_CREATE_STRICT_PROC | SPAWN_CREATE_NO_PTRACE;
        return 0;
    case OPT_KEEP:
        d->o->keep = true;
        return jail_put_name(req->id, sizeof req->id, optarg);
    case OPT_STATE:
        d->state = optarg;
        return 0;
    case OPT_WITHOUT:
        d->o->without |= spawn_feature_named(optarg);
        return spawn_feature_named(optarg) != 0 ? 0 : -EINVAL;
    case OPT_HELP:
        break;
    }
    return -EINVAL;
}

static int jail_add_text(struct draft *d, const char *text) {
    struct spawn_create *req = d->o->req;
    size_t n = strlen(text) + 1;
    if (n > sizeof req->text - d->text_at)
        return -E2BIG;
    memcpy(req->text + d->text_at, text, n);
    d->text_at += n;
    return 0;
}

/* Fills argv with berm-init UID CWD COMMAND... and adds a small default environment. */
static int jail_fill_text(struct draft *d, char **command) {
    struct spawn_create *req = d->o->req;
    bool root = req->profile == SPAWN_PROFILE_ROOT;
    const char *head[] = {"berm-init", root ? "0" : "1000", d->cwd};
    int r = 0;
    for (size_t i = 0; r == 0 && i < COUNT_OF(head); i++, req->n_argv++)
        r = jail_add_text(d, head[i]);
    for (; r == 0 && *command != NULL; command++, req->n_argv++)
        r = jail_add_text(d, *command);
    const char *term = getenv("TERM");
    char term_line[80];
    snprintf(term_line, sizeof term_line, "TERM=%.60s", term ? term : "dumb");
    const char *env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                         root ? "HOME=/root" : "HOME=/home/user", root ? "USER=root" : "USER=user",
                         "LANG=C.UTF-8", term_line};
    /* The first entry of a name wins, so the caller's variables come before the defaults. */
    for (uint32_t i = 0; r == 0 && i < d->n_env; i++, req->n_env++)
        r = jail_add_text(d, d->env[i]);
    for (size_t i = 0; r == 0 && i < COUNT_OF(env); i++, req->n_env++)
        r = jail_add_text(d, env[i]);
    return r;
}

static void jail_fill_fds(struct draft *d) {
    struct jail_options *o = d->o;
    for (int i = 0; i < 3; i++)
        o->fds[o->n_fds++] = i;
    if (d->image >= 0)
        o->fds[o->n_fds++] = d->image;
    for (uint32_t i = 0; i < o->req->n_mounts; i++)
        o->fds[o->n_fds++] = d->binds[i];
}

void jail_options_link(struct jail_options *o, int link) {
    o->req->flags &= ~(uint32_t)SPAWN_CREATE_STDIO;
    o->req->flags |= SPAWN_CREATE_CONTROL;
    o->fds[0] = link; /* replaces descriptors 0, 1 and 2, which are not passed */
    memmove(o->fds + 1, o->fds + 3, (o->n_fds - 3) * sizeof o->fds[0]);
    o->n_fds -= 2;
}

static int jail_open_state(struct draft *d) {
    char part[4096];
    int r = jail_put_name(part, sizeof part, d->state);
    for (char *p = part + 1; r == 0 && *p != '\0'; p++) { /* create missing parents */
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            r = -errno;
        *p = '/';
    }
    if (r == 0 && mkdir(part, 0700) < 0 && errno != EEXIST)
        r = -errno;
    d->o->state_fd = r < 0 ? r : open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return d->o->state_fd < 0 ? (r < 0 ? r : -errno) : 0;
}

static const struct option options[] = {{"root", no_argument, NULL, OPT_ROOT},
                                        {"image", required_argument, NULL, OPT_IMAGE},
                                        {"bind", required_argument, NULL, OPT_BIND},
                                        {"env", required_argument, NULL, OPT_ENV},
                                        {"cwd", required_argument, NULL, OPT_CWD},
                                        {"memory", required_argument, NULL, OPT_MEMORY},
                                        {"cpu", required_argument, NULL, OPT_CPU},
                                        {"pids", required_argument, NULL, OPT_PIDS},
                                        {"disk", required_argument, NULL, OPT_DISK},
                                        {"layer", required_argument, NULL, OPT_LAYER},
                                        {"network", required_argument, NULL, OPT_NETWORK},
                                        {"hostname", required_argument, NULL, OPT_HOSTNAME},
                                        {"strict", no_argument, NULL, OPT_STRICT},
                                        {"keep", required_argument, NULL, OPT_KEEP},
                                        {"state", required_argument, NULL, OPT_STATE},
                                        {"help", no_argument, NULL, OPT_HELP},
                                        {"without", required_argument, NULL, OPT_WITHOUT},
                                        {NULL, 0, NULL, 0}};

/* Without the daemon, nobody assigns uid slots. Sandboxes that are not kept choose a slot by
 * process number, so that concurrent sandboxes differ. Kept sandboxes use a hash of their name, so
 * that their files keep their owner. */
static uint32_t jail_choose_slot(const struct jail_options *o) {
    if (!o->keep)
        return (uint32_t)getpid() % JAIL_SLOTS;
    uint32_t hash = 2166136261u;
    for (const char *p = o->req->id; *p != '\0'; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    return JAIL_SLOTS + hash % JAIL_SLOTS;
}

/* Files that are not kept go to a tmpfs, not to disk. They may use half the memory, like the
 * default of tmpfs. */
static void jail_choose_layer(struct jail_options *o) {
    struct spawn_create *req = o->req;
    if (req->layer == 0)
        req->layer = o->keep || req->limits.disk_bytes != 0 ? SPAWN_LAYER_DISK : SPAWN_LAYER_MEMORY;
    if (req->layer == SPAWN_LAYER_DISK || req->limits.disk_bytes != 0)
        return;
    req->limits.disk_bytes =
        (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 * (uint64_t)sysconf(_SC_PAGESIZE);
    req->limits.disk_inodes = 1 << 20;
}

static int jail_finish(struct draft *d, char **command) {
    struct spawn_create *req = d->o->req;
    if (req->id[0] == '\0')
        snprintf(req->id, sizeof req->id, "jail-%d", (int)getpid());
    req->slot = jail_choose_slot(d->o);
    jail_choose_layer(d->o);
    int r = jail_fill_text(d, command);
    jail_fill_fds(d);
    if (r == 0)
        r = jail_open_state(d);
    if (r == 0) {
        r = d->o->allowed[0] = jail_open_dir("/");
        d->o->n_allowed = 1;
    }
    return MIN(r, 0);
}

int jail_options_read(int argc, char **argv, struct jail_options *o) {
    if (usage_answered(argc, argv, usage))
        return 1;
    *o = (struct jail_options){.req = calloc(1, sizeof *o->req), .state_fd = -1};
    if (o->req == NULL)
        return -ENOMEM;
    struct draft d = {.o = o, .cwd = "/workspace", .state = STATE_DIR, .image = -1};
    o->req->profile = SPAWN_PROFILE_USER;
    o->req->root = SPAWN_ROOT_HOST;
    o->req->network = SPAWN_NETWORK_NONE;
    o->req->flags = SPAWN_CREATE_STDIO;
    for (int id; (id = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
        if (id == OPT_HELP) {
            fputs(usage, stdout);
            return 1;
        }
        int r = id == '?' ? -EINVAL : jail_apply(&d, (enum option_id)id);
        if (r < 0) {
            fprintf(stderr, "berm-jail: %s: %s\n", argv[optind - 1], strerror(-r));
            return r;
        }
    }
    if (optind >= argc) {
        fputs(usage, stderr);
        return -EINVAL;
    }
    int r = jail_finish(&d, argv + optind);
    if (r < 0)
        fprintf(stderr, "berm-jail: %s: %s\n", d.state, strerror(-r));
    return r;
}
