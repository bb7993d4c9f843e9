#include "guest/user.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* The text of a file, followed by NUL. `p` is NULL when the file cannot be read, and points to `small` for a
 * small file. */
struct user_text {
    char *p;
    size_t n;
    char small[4096];
};

static void user_text_done(struct user_text *t) {
    if (t->p != t->small)
        free(t->p);
}
#define AUTO_TEXT __attribute__((cleanup(user_text_done)))

static void user_read_text(struct user_text *t, const char *path) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    t->p = NULL;
    t->n = 0;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    bool is_small = st.st_size < (off_t)sizeof t->small;
    size_t cap = is_small ? sizeof t->small - 1 : (size_t)MIN(st.st_size, USER_FILE_MAX);
    t->p = is_small ? t->small : malloc(cap + 1);
    ssize_t n = t->p ? 1 : 0;
    for (; n > 0 && t->n < cap; t->n += (size_t)MAX(n, 0))
        n = read(fd, t->p + t->n, cap - t->n);
    if (t->p)
        t->p[t->n] = '\0';
}

/* Returns the text of a file on the heap; NULL when it cannot be read. */
static char *user_read_file(const char *path, size_t *ret_n) {
    AUTO_TEXT struct user_text t;
    user_read_text(&t, path);
    *ret_n = t.n;
    char *copy = t.p == t.small ? strndup(t.p, t.n) : t.p;
    t.p = NULL;
    return copy;
}

/* Returns field n of a line, counted from 0. */
static struct str user_field(struct str line, int n) {
    struct str part = {0};
    for (int i = 0; i <= n; i++)
        if (!str_split(&line, ':', &part))
            return (struct str){"", 0};
    return part;
}

static bool user_field_u32(struct str line, int n, uint32_t *ret_value) {
    uint64_t value;
    if (str_to_u64(user_field(line, n), 0, UINT32_MAX - 1, &value) < 0)
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

static void user_copy_field(char *out, size_t cap, struct str line, int n) {
    struct str f = user_field(line, n);
    bool fits = f.n < cap && !memchr(f.p, '\0', f.n);
    snprintf(out, cap, "%.*s", fits ? (int)f.n : 0, f.p);
}

static bool user_find_passwd(struct user *u, struct str name, bool by_uid, uint32_t uid) {
    AUTO_TEXT struct user_text text;
    user_read_text(&text, "/etc/passwd");
    struct str rest = {text.p, text.n}, line;
    while (str_split(&rest, '\n', &line)) {
        uint32_t line_uid, line_gid;
        if (!user_field_u32(line, 2, &line_uid) || !user_field_u32(line, 3, &line_gid))
            continue;
        if (by_uid ? line_uid != uid : !str_is(user_field(line, 0), name))
            continue;
        u->uid = line_uid;
        u->gid = line_gid;
        user_copy_field(u->name, sizeof u->name, line, 0);
        user_copy_field(u->home, sizeof u->home, line, 5);
        user_copy_field(u->shell, sizeof u->shell, line, 6);
        return true;
    }
    return false;
}

/* Finds the two users of a sandbox whose image has no /etc/passwd. */
static bool user_find_own(struct user *u, struct str name) {
    static const struct user own[] = {{.name = "root", .home = "/root", .uid = 0},
                                      {.name = "user", .home = "/home/user", .uid = 1000}};
    if (access("/etc/passwd", F_OK) == 0)
        return false;
    for (size_t i = 0; i < COUNT_OF(own); i++)
        if (str_is(name, str_of(own[i].name))) {
            *u = own[i];
            u->gid = u->uid;
            return true;
        }
    return false;
}

static void user_find_groups(struct user *u) {
    AUTO_TEXT struct user_text text;
    user_read_text(&text, "/etc/group");
    struct str rest = {text.p, text.n}, line, member;
    while (u->n_groups < USER_GROUPS_MAX && str_split(&rest, '\n', &line)) {
        uint32_t gid;
        struct str members = user_field(line, 3);
        if (members.n == 0 || !user_field_u32(line, 2, &gid) || gid == u->gid)
            continue;
        while (str_split(&members, ',', &member)) {
            if (str_is(str_trim(member), str_of(u->name))) {
                u->groups[u->n_groups++] = gid;
                break;
            }
        }
    }
}

static int user_read(struct user *u, struct str name, struct err *e) {
    *u = (struct user){.uid = getuid(), .gid = getgid()};
    uint64_t number = u->uid;
    bool by_uid = name.n == 0 || str_to_u64(name, 0, UINT32_MAX - 1, &number) == 0;
    bool known =
        user_find_passwd(u, name, by_uid, (uint32_t)number) || (!by_uid && user_find_own(u, name));
    if (!known && !by_uid)
        return err_set(e, ERR_USER_NOT_FOUND, "no user has the name %.*s",
                       (int)MIN(name.n, (size_t)64), name.p);
    if (!known) {
        u->uid = (uint32_t)number;
        u->gid = name.n == 0 ? (uint32_t)getgid() : (uint32_t)number;
    }
    if (u->name[0])
        user_find_groups(u);
    return 0;
}

/* Reads the version of a file. Returns false when it changed within the last second: the clock of the change
 * time is coarse, so a further change might not show. */
static bool user_read_version(const char *path, struct user_file *ret) {
    struct stat st;
    struct timespec now;
    *ret = (struct user_file){0};
    if (stat(path, &st) < 0)
        return errno == ENOENT;
    *ret = (struct user_file){st.st_dev, st.st_ino, (uint64_t)st.st_size, st.st_ctim.tv_sec,
                              st.st_ctim.tv_nsec};
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > st.st_ctim.tv_sec + 1;
}

int user_find(struct user_cache *cache, struct user *u, struct str name, struct err *e) {
    struct user_file files[2];
    if (name.n == 0)
        name = STR(""); /* memcmp must not get NULL */
    bool is_stable =
        user_read_version("/etc/passwd", &files[0]) & user_read_version("/etc/group", &files[1]);
    if (is_stable && cache->is_known && str_is(name, str_of(cache->name)) &&
        memcmp(files, cache->files, sizeof files) == 0) {
        *u = cache->user;
        return 0;
    }
    int r = user_read(u, name, e);
    cache->is_known = r == 0 && is_stable && name.n < sizeof cache->name;
    if (!cache->is_known)
        return r;
    snprintf(cache->name, sizeof cache->name, "%.*s", (int)name.n, name.p);
    memcpy(cache->files, files, sizeof files);
    cache->user = *u;
    return 0;
}

void user_names_load(struct user_names *n) {
    n->passwd = user_read_file("/etc/passwd", &n->passwd_n);
    n->group = user_read_file("/etc/group", &n->group_n);
}

static struct str user_find_name(const char *text, size_t n, uint32_t id) {
    struct str rest = {text, n}, line;
    uint32_t line_id;
    while (str_split(&rest, '\n', &line)) {
        struct str name = user_field(line, 0);
        if (user_field_u32(line, 2, &line_id) && line_id == id && name.n <= 64 &&
            str_is_utf8(name.p, name.n))
            return name;
    }
    return (struct str){"", 0};
}

struct str user_name_of(const struct user_names *n, uint32_t uid) {
    return user_find_name(n->passwd, n->passwd_n, uid);
}

struct str user_group_of(const struct user_names *n, uint32_t gid) {
    return user_find_name(n->group, n->group_n, gid);
}

void privileges_read(struct privileges *p) {
    *p = (struct privileges){0};
    for (int cap = 0; cap < 64; cap++) {
        int set = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (set < 0)
            break;
        p->bounding |= (uint64_t)set << cap;
    }
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    if (syscall(SYS_capget, &head, data) == 0)
        p->can_drop = data[0].effective >> CAP_SETPCAP & 1;
    p->is_filtered = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2;
}

/* An ordinary user keeps no capability. Root keeps those of the profile except CAP_SETPCAP. */
static int user_drop_bounding(const struct user *u, const struct privileges *p) {
    uint64_t drop = u->uid != 0 ? p->bounding : p->bounding & UINT64_C(1) << CAP_SETPCAP;
    if (!p->can_drop)
        return 0;
    for (int cap = 0; cap < 64; cap++)
        if (drop >> cap & 1 && syscall(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return -errno;
    return 0;
}

int user_become(const struct user *u, const struct privileges *p) {
    if (geteuid() != 0 && u->uid == getuid() && u->gid == getgid())
        return 0;
    int r = user_drop_bounding(u, p);
    if (r < 0)
        return r;
    /* Raw system calls, because the wrappers of libc would signal other threads, which do not exist after
     * vfork. A user namespace may forbid setgroups; then the process keeps the guest's groups, of which there
     * are none. */
    if (syscall(SYS_setgroups, (size_t)u->n_groups, u->groups) < 0 && errno != EPERM)
        return -errno;
    if (syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
        syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)
        return -errno;
    if (u->uid == 0)
        return 0;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}
