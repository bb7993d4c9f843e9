/* doctor: checks what this machine supports, line by line, and how to fix what is missing. Works
 * without a daemon. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/json.h"
#include "cli/cli.h"

#define KERNEL_MAJOR 6 /* required by berm-spawn */
#define KERNEL_MINOR 1
#define DISK_BYTES ((uint64_t)1 << 30)

/* Each check sets a text in cli's memory, and returns whether the result suffices. */
typedef bool (*check_fn)(struct cli *cli, const char **found);

static const char *read_line(struct cli *cli, const char *path) {
    char line[512];
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (n < 0)
        return NULL;
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return cli_text(cli, "%s", line);
}

/* Checks that a crash in a sandbox starts no core dump handler of the host. Every sandbox has a
 * core limit of 1, at which the kernel skips a handler that reads a pipe. A handler that reads a
 * socket ("@") ignores the limit. */
static bool check_core_dumps(struct cli *cli, const char **found) {
    const char *pattern = read_line(cli, "/proc/sys/kernel/core_pattern");
    *found = cli_text(cli, "core_pattern %s", pattern ? pattern : "unknown");
    return pattern && pattern[0] != '@';
}

static bool check_root(struct cli *cli, const char **found) {
    *found = cli_text(cli, "uid %u", (unsigned)geteuid());
    return geteuid() == 0;
}

static bool check_kernel(struct cli *cli, const char **found) {
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name) < 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2)
        return false;
    *found = cli_text(cli, "Linux %s", name.release);
    return major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR);
}

static bool has_word(const char *words, const char *wanted) {
    struct str rest = str_of(words), word;
    while (str_split(&rest, ' ', &word))
        if (str_is(word, str_of(wanted)))
            return true;
    return false;
}

/* Has the same requirements as berm-spawn: a v2 tree or the v1 freezer to hold programs, and a tree
 * of either version for each limit. */
static bool check_cgroups(struct cli *cli, const char **found) {
    static const char *const needed[] = {"cpu", "memory", "pids"};
    const char *v2 = NULL, *v1 = "", *missing = "";
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    for (struct mntent *m; mounts && (m = getmntent(mounts));) {
        if (strcmp(m->mnt_type, "cgroup2") == 0 && !v2)
            v2 = read_line(cli, cli_text(cli, "%s/cgroup.controllers", m->mnt_dir));
        for (size_t i = 0; strcmp(m->mnt_type, "cgroup") == 0 && i < COUNT_OF(needed); i++)
            if (hasmntopt(m, needed[i]))
                v1 = cli_text(cli, "%s %s", v1, needed[i]);
        if (strcmp(m->mnt_type, "cgroup") == 0 && hasmntopt(m, "freezer"))
            v1 = cli_text(cli, "%s freezer", v1);
    }
    if (mounts)
        endmntent(mounts);
    for (size_t i = 0; i < COUNT_OF(needed); i++)
        if (!has_word(v2 ? v2 : "", needed[i]) && !has_word(v1, needed[i]))
            missing = cli_text(cli, "%s %s", missing, needed[i]);
    *found = cli_text(cli, "v2: %s; v1:%s%s%s", v2 ? v2 : "none", v1[0] != '\0' ? v1 : " none",
                      missing[0] != '\0' ? "; without" : "", missing);
    return missing[0] == '\0' && (v2 || has_word(v1, "freezer"));
}

/* If overlay is a module that is not loaded yet, fsopen loads it; that needs root. */
static bool check_overlay(struct cli *cli, const char **found) {
    char line[128];
    AUTO_CLOSE int asked = (int)syscall(SYS_fsopen, "overlay", 1 /* FSOPEN_CLOEXEC */);
    FILE *f = fopen("/proc/filesystems", "re");
    bool has = asked >= 0;
    (void)cli;
    while (f && fgets(line, sizeof line, f))
        has |= strstr(line, "\toverlay\n") != NULL;
    if (f)
        fclose(f);
    *found = has ? "in the kernel" : "not in /proc/filesystems";
    return has;
}

static bool check_seccomp(struct cli *cli, const char **found) {
    const char *actions = read_line(cli, "/proc/sys/kernel/seccomp/actions_avail");
    *found = actions ? actions : "the kernel has none";
    return actions != NULL;
}

static bool check_user_namespaces(struct cli *cli, const char **found) {
    const char *most = read_line(cli, "/proc/sys/user/max_user_namespaces");
    *found = most ? cli_text(cli, "at most %s", most) : "the kernel has none";
    return most && strcmp(most, "0") != 0;
}

static bool check_loop(struct cli *cli, const char **found) {
    AUTO_CLOSE int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    *found = fd < 0 ? cli_text(cli, "/dev/loop-control: %s", strerror(errno)) : "/dev/loop-control";
    return fd >= 0;
}

static bool check_programs(struct cli *cli, const char **found) {
    static const char *const names[] = {"bermd", "berm-spawn", "berm-jail", "berm-guest",
                                        "berm-open"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return false;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    *found = self[0] != '\0' ? cli_text(cli, "in %s", self) : "in /";
    bool all = true;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (access(cli_text(cli, "%s/%s", self, names[i]), X_OK) < 0) {
            *found = cli_text(cli, "%s, without %s", *found, names[i]);
            all = false;
        }
    return all;
}

/* Checks the disk of the state directory, which may not exist yet. */
static bool check_disk(struct cli *cli, const char **found) {
    static const char *const folders[] = {"/var/lib/berm", "/var/lib", "/"};
    struct statvfs fs;
    size_t i = 0;
    const char *home = getenv("HOME");
    const char *at = geteuid() == 0 || !home ? folders[0] : home;
    while (statvfs(at, &fs) < 0 && ++i < COUNT_OF(folders))
        at = folders[i];
    uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    *found = cli_text(cli, "%s free in %s", cli_bytes(cli, (int64_t)bytes), at);
    return bytes >= DISK_BYTES;
}

static bool check_daemon(struct cli *cli, const char **found) {
    struct berm_error e;
    Berm__V1__GetInfoRequest request = BERM__V1__GET_INFO_REQUEST__INIT;
    Berm__V1__GetInfoResponse *info;
    const char *target = berm_client_target(cli->client);
    if (berm_info(cli->client, &request, &info, &e) < 0) {
        *found = cli_text(cli, "none answers at %s", target);
        return false;
    }
    bool any = false;
    *found = cli_text(cli, "bermd %s at %s", info->version, target);
    for (size_t i = 0; i < info->n_drivers; i++) {
        const Berm__V1__DriverInfo *d = info->drivers[i];
        any |= d->available;
        if (!d->available)
            *found = cli_text(cli, "%s; driver %s: %s", *found, d->name, d->unavailable_reason);
    }
    berm_free(info);
    return any;
}

static const struct check {
    const char *name;
    check_fn check;
    bool is_needed; /* required for sandboxes; otherwise recommended */
    const char *fix;
} checks[] = {
    {"root", check_root, true, "run berm and bermd as root: sudo berm doctor"},
    {"kernel", check_kernel, true, "boot Linux 6.1 or newer"},
    {"cgroups", check_cgroups, true,
     "boot with systemd.unified_cgroup_hierarchy=1, or mount -t cgroup2 none /sys/fs/cgroup"},
    {"overlayfs", check_overlay, true, "modprobe overlay"},
    {"seccomp", check_seccomp, true, "use a kernel with CONFIG_SECCOMP_FILTER"},
    {"user namespaces", check_user_namespaces, true, "sysctl user.max_user_namespaces=15000"},
    {"loop devices", check_loop, false,
     "modprobe loop; without them a limit on a sandbox's disk needs project quota"},
    {"programs", check_programs, true,
     "keep bermd, berm-spawn, berm-jail, berm-guest and berm-open beside berm: make builds them all"},
    {"disk", check_disk, false, "free some space: a GiB at least, or move the state with --state"},
    {"core dumps", check_core_dumps, false,
     "sysctl kernel.core_pattern=core: a crash in a sandbox reaches the host's core dump socket"},
    {"daemon", check_daemon, false, "berm daemon start"},
};

static void show_json(const bool *good, const char *const *found) {
    struct buf text;
    struct json_out o;
    buf_init(&text, (size_t)1 << 20);
    json_begin(&o, &text);
    json_open(&o, '[');
    for (size_t i = 0; i < COUNT_OF(checks); i++) {
        json_open(&o, '{');
        json_put_str(&o, "name", str_of(checks[i].name));
        json_put_bool(&o, "ok", good[i]);
        json_put_bool(&o, "needed", checks[i].is_needed);
        json_put_str(&o, "found", str_of(found[i]));
        if (!good[i])
            json_put_str(&o, "fix", str_of(checks[i].fix));
        json_close(&o, '}');
    }
    json_close(&o, ']');
    if (json_end(&o) == 0)
        printf("%.*s\n", (int)buf_len(&text), buf_data(&text));
    buf_done(&text);
}

int cmd_doctor(struct cli *cli) {
    bool good[COUNT_OF(checks)];
    const char *found[COUNT_OF(checks)];
    int status = 0;
    for (size_t i = 0; i < COUNT_OF(checks); i++) {
        found[i] = "unknown";
        good[i] = checks[i].check(cli, &found[i]);
        status |= !good[i] && checks[i].is_needed;
    }
    if (cli->json) {
        show_json(good, found);
        return status;
    }
    for (size_t i = 0; i < COUNT_OF(checks); i++) {
        const char *mark = good[i] ? "ok     " : checks[i].is_needed ? "MISSING" : "absent ";
        printf("%s  %-16s %s\n", mark, checks[i].name, cli_clean(cli, found[i]));
        if (!good[i])
            printf("         %-16s fix: %s\n", "", checks[i].fix);
    }
    return status;
}
