#include "bermd/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/log.h"

#define MAX_FILE_BYTES ((size_t)64 * 1024)
#define LIMIT_PREFIX "limits."

static const char *const level_names[] = {"debug", "info", "warn", "error"};

/* --- values, one function per type; each returns 0 or -EINVAL --- */

static int set_TEXT(char *out, size_t cap, struct str value) {
    if (value.n >= cap || memchr(value.p, '\0', value.n))
        return -EINVAL;
    memcpy(out, value.p, value.n);
    out[value.n] = '\0';
    return 0;
}

static int set_PATH(char *out, size_t cap, struct str value) {
    return value.n > 0 && value.p[0] == '/' ? set_TEXT(out, cap, value) : -EINVAL;
}

static int set_MODE(uint64_t *out, struct str value) {
    uint64_t mode = 0;
    if (value.n == 0 || value.n > 4)
        return -EINVAL;
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '7')
            return -EINVAL;
        mode = mode * 8 + (uint64_t)(value.p[i] - '0');
    }
    if (mode > 0777)
        return -EINVAL;
    *out = mode;
    return 0;
}

static int set_LEVEL(uint64_t *out, struct str value) {
    for (size_t i = 0; i < COUNT_OF(level_names); i++)
        if (str_is(value, str_of(level_names[i]))) {
            *out = i;
            return 0;
        }
    return -EINVAL;
}

static int set_BOOL(bool *out, struct str value) {
    bool yes = str_is(value, STR("true"));
    if (!yes && !str_is(value, STR("false")))
        return -EINVAL;
    *out = yes;
    return 0;
}

static int set_UIDS(struct config_uids *out, struct str value) {
    uid_t uids[CONFIG_MAX_UIDS];
    size_t n = 0;
    struct str part;
    while (value.n > 0 && str_split(&value, ',', &part)) {
        uint64_t uid;
        if (n == CONFIG_MAX_UIDS || str_to_u64(str_trim(part), 0, UINT32_MAX - 1, &uid) < 0)
            return -EINVAL;
        uids[n++] = (uid_t)uid;
    }
    memcpy(out->uids, uids, n * sizeof *uids);
    out->n = n;
    return 0;
}

static int set_UID(struct config_uids *out, struct str value) {
    struct config_uids read = {.n = 0};
    if (set_UIDS(&read, value) < 0 || read.n > 1)
        return -EINVAL;
    *out = read;
    return 0;
}

bool config_next_path(struct str *rest, struct str *ret_path) {
    if (!str_split(rest, ',', ret_path))
        return false;
    *ret_path = str_trim(*ret_path);
    return true;
}

static int set_PATHS(char *out, size_t cap, struct str value) {
    struct str rest = value.n > 0 ? value : (struct str){0}, path;
    for (size_t n = 0; config_next_path(&rest, &path); n++)
        if (n == CONFIG_MAX_PATHS || path.n == 0 || path.p[0] != '/')
            return -EINVAL;
    return set_TEXT(out, cap, value);
}

/* --- names --- */

#define SET_PATH(c, member, value) set_PATH((c)->member, sizeof(c)->member, value)
#define SET_TEXT(c, member, value) set_TEXT((c)->member, sizeof(c)->member, value)
#define SET_MODE(c, member, value) set_MODE(&(c)->member, value)
#define SET_LEVEL(c, member, value) set_LEVEL(&(c)->member, value)
#define SET_BOOL(c, member, value) set_BOOL(&(c)->member, value)
#define SET_UID(c, member, value) set_UID(&(c)->member, value)
#define SET_PATHS(c, member, value) set_PATHS((c)->member, sizeof(c)->member, value)
#define SET_UIDS(c, member, value) set_UIDS(&(c)->member, value)

static int config_set_limit(struct config *c, struct str name, struct str value, struct err *e) {
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        const struct limit *l = &limit_table[i];
        uint64_t n;
        if (!str_is(name, str_of(l->name)))
            continue;
        if (l->how != LIMIT_HOW_KNOB)
            return err_set(e, ERR_INVALID_ARGUMENT, "%s%s: must not be set, because %s",
                           LIMIT_PREFIX, l->name,
                           l->how == LIMIT_HOW_FIXED ? "it is part of the API"
                                                     : "the feature does not exist yet");
        if (l->value == -1 && str_is(value, STR("-1"))) {
            c->limits.of[i] = -1;
            return 0;
        }
        if (str_to_u64(value, (uint64_t)l->min, (uint64_t)l->max, &n) < 0)
            return err_set(
                e, ERR_INVALID_ARGUMENT, "%s%s: must be a number from %lld to %lld%s, got \"%.*s\"",
                LIMIT_PREFIX, l->name, (long long)l->min, (long long)l->max,
                l->value == -1 ? ", or -1 for none" : "", (int)MIN(value.n, (size_t)40), value.p);
        c->limits.of[i] = (int64_t)n;
        return 0;
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "%s%.*s: no such knob", LIMIT_PREFIX,
                   (int)MIN(name.n, (size_t)60), name.p);
}

int config_set(struct config *c, struct str name, struct str value, struct err *e) {
#define KNOB(knob, type, member, range, what)                                                    \
    if (str_is(name, STR(#knob)))                                                                \
        return SET_##type(c, member, value) == 0                                                 \
                   ? 0                                                                           \
                   : err_set(e, ERR_INVALID_ARGUMENT, #knob ": must be " range ", got \"%.*s\"", \
                             (int)MIN(value.n, (size_t)80), value.p);
#include "bermd/config.def"
#undef KNOB
    struct str prefix = STR(LIMIT_PREFIX);
    if (str_starts(name, prefix))
        return config_set_limit(c, (struct str){name.p + prefix.n, name.n - prefix.n}, value, e);
    return err_set(e, ERR_INVALID_ARGUMENT, "%.*s: no such knob", (int)MIN(name.n, (size_t)60),
                   name.p);
}

/* --- defaults: system directories for root, the user's directories for others --- */

/* Sets an empty path when the environment names no directory of the user. The configuration must
 * then set the path. */
static void config_default_path(char *out, size_t cap, const char *root_path, const char *xdg,
                                const char *rest) {
    const char *dir = getenv(xdg);
    const char *home = getenv("HOME");
    out[0] = '\0';
    if (geteuid() == 0)
        snprintf(out, cap, "%s", root_path);
    else if (dir && dir[0] == '/')
        snprintf(out, cap, "%s%s", dir, rest);
    else if (home && home[0] == '/')
        snprintf(out, cap, "%s/.local/state%s", home, rest);
}

void config_init(struct config *c) {
    *c = (struct config){.socket_mode = 0600, .log_level = LOG_INFO, .access_log = true};
    config_default_path(c->state, sizeof c->state, "/var/lib/berm", "XDG_STATE_HOME", "/berm");
    config_default_path(c->socket, sizeof c->socket, "/run/berm/bermd.sock", "XDG_RUNTIME_DIR",
                        "/berm/bermd.sock");
    limits_init(&c->limits);
}

/* --- the file --- */

static int config_set_line(struct config *c, struct str line, struct err *e) {
    const char *hash = memchr(line.p, '#', line.n);
    if (hash)
        line.n = (size_t)(hash - line.p);
    line = str_trim(line);
    if (line.n == 0)
        return 0;
    struct str name;
    struct str rest = line;
    if (!memchr(line.p, '=', line.n) || !str_split(&rest, '=', &name))
        return err_set(e, ERR_INVALID_ARGUMENT, "must be NAME = VALUE, got \"%.*s\"",
                       (int)MIN(line.n, (size_t)60), line.p);
    return config_set(c, str_trim(name), str_trim(rest), e);
}

static ssize_t config_read_file(const char *path, char *out, size_t cap) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    while (fd >= 0 && n < cap) {
        ssize_t r = read(fd, out + n, cap - n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -errno;
        if (r == 0)
            return (ssize_t)n;
        n += (size_t)r;
    }
    return fd < 0 ? -errno : -EFBIG;
}

int config_read(struct config *c, const char *path, struct err *e) {
    AUTO_FREE char *text = malloc(MAX_FILE_BYTES);
    if (!text)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    ssize_t n = config_read_file(path, text, MAX_FILE_BYTES);
    if (n < 0)
        return err_sys(e, ERR_INVALID_ARGUMENT, (int)-n, "read %s", path);
    struct str rest = {text, (size_t)n};
    struct str line;
    for (unsigned number = 1; str_split(&rest, '\n', &line); number++)
        if (config_set_line(c, line, e) < 0)
            return err_wrap(e, "%s:%u", path, number);
    return 0;
}

/* --- printing --- */

static void config_print_uids(const struct config_uids *list) {
    for (size_t i = 0; i < list->n; i++)
        printf("%s%u", i > 0 ? "," : "", (unsigned)list->uids[i]);
}

#define PRINT_PATH(c, member) printf("%s", (c)->member)
#define PRINT_TEXT(c, member) printf("%s", (c)->member)
#define PRINT_MODE(c, member) printf("%04o", (unsigned)(c)->member)
#define PRINT_LEVEL(c, member) printf("%s", level_names[(c)->member])
#define PRINT_BOOL(c, member) printf("%s", (c)->member ? "true" : "false")
#define PRINT_UID(c, member) config_print_uids(&(c)->member)
#define PRINT_PATHS(c, member) printf("%s", (c)->member)
#define PRINT_UIDS(c, member) config_print_uids(&(c)->member)

void config_print(const struct config *c) {
#define KNOB(knob, type, member, range, what)       \
    printf("# %s (%s)\n" #knob " = ", what, range); \
    PRINT_##type(c, member);                        \
    printf("\n\n");
#include "bermd/config.def"
#undef KNOB
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        const struct limit *l = &limit_table[i];
        if (l->how == LIMIT_HOW_KNOB)
            printf("# %s (%s, %lld to %lld)\n" LIMIT_PREFIX "%s = %lld\n\n", l->what,
                   limit_unit_name(l->unit), (long long)l->min, (long long)l->max, l->name,
                   (long long)c->limits.of[i]);
    }
}
