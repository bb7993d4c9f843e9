/* config — any file is accepted with all values in range, or refused with its line. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "bermd/config.h"

static void check_config(const struct config *c) {
    CHECK(c->state[0] == '/' && memchr(c->state, '\0', sizeof c->state));
    CHECK(c->socket[0] == '/' && memchr(c->socket, '\0', sizeof c->socket));
    CHECK(memchr(c->listen, '\0', sizeof c->listen));
    CHECK(c->socket_mode <= 0777 && c->log_level <= 3 && c->allow_uids.n <= CONFIG_MAX_UIDS);
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        const struct limit *l = &limit_table[i];
        int64_t value = c->limits.of[i];
        bool in_range = value >= l->min && value <= l->max;
        CHECK(value == l->value || (l->how == LIMIT_HOW_KNOB && in_range));
    }
}

static void check_file(struct feed f) {
    struct config c;
    struct err e;
    char path[64];
    AUTO_CLOSE int fd = memfd_create("config", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, f.at, f.n) == (ssize_t)f.n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    config_init(&c);
    if (config_read(&c, path, &e) < 0) {
        CHECK(e.code == ERR_INVALID_ARGUMENT && memchr(e.text, '\0', sizeof e.text));
        CHECK(f.n >= 64 * 1024 || strncmp(e.text + strlen(path), ":", 1) == 0);
    }
    check_config(&c);
}

static void check_knobs(struct feed f) {
    struct config c;
    struct err e;
    struct str rest = {(const char *)f.at, f.n};
    struct str line, name;
    config_init(&c);
    while (str_split(&rest, '\n', &line)) {
        struct str value = line;
        str_split(&value, '=', &name);
        if (!value.p)
            value = STR("");
        struct config before = c;
        if (config_set(&c, name, value, &e) < 0) {
            CHECK(e.code == ERR_INVALID_ARGUMENT && e.text[0] != '\0');
            CHECK(memcmp(&before, &c, sizeof c) == 0); /* a refused line changes nothing */
        }
        check_config(&c);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct feed f = {data, size};
    check_file(f);
    check_knobs(f);
    return 0;
}
