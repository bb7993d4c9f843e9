/* Output for people: words for values, tables that fit, errors that say what to do next. */
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <time.h>

#include "base/json.h"
#include "cli/cli.h"

void *cli_alloc(struct cli *cli, size_t n) {
    void *p = arena_zalloc(&cli->arena, n);
    if (!p) {
        cli_complain("out of memory");
        exit(EXIT_BERM);
    }
    return p;
}

char *cli_text(struct cli *cli, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    size_t n = (size_t)vsnprintf(NULL, 0, fmt, args) + 1;
    va_end(args);
    char *text = cli_alloc(cli, n);
    vsnprintf(text, n, fmt, again);
    va_end(again);
    return text;
}

char *cli_random(struct cli *cli) {
    uint64_t random;
    while (getrandom(&random, sizeof random, 0) != sizeof random)
        ; /* getrandom returns less only when a signal interrupts it */
    return cli_text(cli, "%016llx", (unsigned long long)random);
}

struct kept {
    void *message;
    struct kept *next;
};

void cli_keep(struct cli *cli, void *message) {
    struct kept *k = cli_alloc(cli, sizeof *k);
    *k = (struct kept){.message = message, .next = cli->kept};
    cli->kept = k;
}

void cli_done(struct cli *cli) {
    for (struct kept *k = cli->kept; k; k = k->next)
        berm_free(k->message);
    berm_client_free(cli->client);
    arena_done(&cli->arena);
}

int cli_complain(const char *fmt, ...) {
    va_list args;
    fputs("berm: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return EXIT_BERM;
}

/* --- errors --- */

static const struct {
    enum berm_code code;
    const char *next;
} hints[] = {
    {BERM_UNREACHABLE,
     "start a daemon with `berm daemon start`, or give its socket: --socket PATH"},
    {BERM_DISCONNECTED, "check the daemon: `berm daemon status`"},
    {BERM_SHUTTING_DOWN, "check the daemon: `berm daemon status`"},
    {BERM_UNAUTHENTICATED,
     "pass the file `token` of the daemon's state directory: --token-file FILE"},
    {BERM_PERMISSION_DENIED,
     "the setting allow_uids of the daemon lists who may call, and socket_mode who may connect"},
    {BERM_SANDBOX_NOT_FOUND, "`berm ls` lists the sandboxes"},
    {BERM_SANDBOX_STOPPED, "start it with `berm start SANDBOX`"},
    {BERM_SANDBOX_PAUSED, "resume it with `berm resume SANDBOX`"},
    {BERM_SANDBOX_FAILED, "`berm get SANDBOX` shows the reason; only `berm rm` is possible"},
    {BERM_SANDBOX_NOT_READY, "`berm get SANDBOX` shows its state"},
    {BERM_SANDBOX_EXISTS, "Berm never reuses an id: choose another, or omit --id"},
    {BERM_EXEC_NOT_FOUND, "`berm ps --all` lists the programs"},
    {BERM_EXEC_ENDED, "`berm get EXEC` shows how it ended, `berm logs EXEC` what it wrote"},
    {BERM_UNIMPLEMENTED, "this daemon is older than this berm: `berm info` shows its version"},
    {BERM_UNSUPPORTED, "`berm info` lists the capabilities of this daemon"},
    {BERM_DRIVER_UNAVAILABLE, "`berm info` shows the drivers and why one is unavailable"},
    {BERM_EVENT_CURSOR_EXPIRED, "start with the oldest kept event: --since oldest"},
    {BERM_EVENT_CURSOR_AHEAD, "`berm info` shows the newest sequence"},
    {BERM_SANDBOX_DELETED,
     "a deleted sandbox cannot be restored: create another with `berm create`"},
    {BERM_LIMIT_REACHED, "`berm info --limits` shows the limits in force"},
    {BERM_HOST_PATH_REFUSED,
     "the setting mount_roots of the daemon lists the directories that may be imported; `berm run --copy-here` needs none"},
    {BERM_PLACE_FAILED, "`berm doctor` shows what this machine supports"},
    {BERM_PROGRAM_NOT_FOUND, "look for it inside: `berm exec SANDBOX -- sh -c 'echo $PATH'`"},
    {BERM_PROGRAM_NOT_EXECUTABLE, "check it inside: `berm exec SANDBOX -- ls -l PROGRAM`"},
    {BERM_CWD_NOT_FOUND, "create it first: `berm exec SANDBOX -- mkdir -p DIR`"},
    {BERM_USER_NOT_FOUND, "`berm exec SANDBOX -- cat /etc/passwd` lists the users"},
    {BERM_OFFSET_BEYOND_END, "`berm get EXEC` shows the size of the output"},
    {BERM_STDIN_CLOSED, "only a program started with -i accepts input"},
    {BERM_FILE_NOT_FOUND, "`berm find SANDBOX NAME` looks for it"},
    {BERM_FILE_DENIED, "try another user: --user root"},
    {BERM_OUT_OF_MEMORY, "free memory on the host, or lower the limits of sandboxes"},
    {BERM_DISK_FULL, "raise the limit: `berm update --disk SIZE SANDBOX`"},
    {BERM_STORE_FULL,
     "free space on the filesystem of the state directory, or remove sandboxes: `berm rm`"},
    {BERM_STORE_FAILED, "read the daemon's log, by default next to its socket"},
    {BERM_STORE_CORRUPT, "read the daemon's log, by default next to its socket"},
};

static const char *hint_of(enum berm_code code) {
    for (size_t i = 0; i < COUNT_OF(hints); i++)
        if (hints[i].code == code)
            return hints[i].next;
    return NULL;
}

static void fail_json(const struct berm_error *e) {
    static const char *const retries[] = {"never", "later", "check"};
    struct buf text;
    struct json_out o;
    buf_init(&text, 64 * 1024);
    json_begin(&o, &text);
    json_open(&o, '{');
    json_put_str(&o, "code", str_of(e->name));
    json_put_str(&o, "message", str_of(e->message));
    json_put_str(&o, "retry", str_of(retries[e->retry]));
    if (e->field[0] != '\0')
        json_put_str(&o, "field", str_of(e->field));
    json_key(&o, "metadata");
    json_open(&o, '{');
    for (size_t i = 0; i < e->n_metadata; i++)
        json_put_str(&o, e->metadata[i].key, str_of(e->metadata[i].value));
    json_close(&o, '}');
    json_close(&o, '}');
    if (json_end(&o) == 0)
        fprintf(stderr, "%.*s\n", (int)buf_len(&text), buf_data(&text));
    buf_done(&text);
}

int cli_fail(const struct cli *cli, const struct berm_error *e) {
    if (cli->json) {
        fail_json(e);
        return EXIT_BERM;
    }
    char message[sizeof e->message];
    snprintf(message, sizeof message, "%s", e->message);
    str_clean(message, '?');
    fprintf(stderr, "berm: %s (%s)\n", message, e->name);
    const char *hint = hint_of(e->code);
    if (hint)
        fprintf(stderr, "      %s\n", hint);
    return EXIT_BERM;
}

/* --- JSON --- */

/* Indents by two spaces per level, for a terminal. */
static void print_indented(const char *json) {
    unsigned depth = 0;
    bool in_string = false;
    for (const char *p = json; *p != '\0'; p++) {
        if (in_string) {
            putchar(*p);
            if (*p == '\\' && p[1] != '\0')
                putchar(*++p);
            else if (*p == '"')
                in_string = false;
            continue;
        }
        bool opens = *p == '{' || *p == '[', closes = *p == '}' || *p == ']';
        bool empty =
            (opens && (p[1] == '}' || p[1] == ']')) || (closes && (p[-1] == '{' || p[-1] == '['));
        depth += (unsigned)opens;
        depth -= (unsigned)closes;
        if (closes && !empty)
            printf("\n%*s", (int)depth * 2, "");
        putchar(*p);
        if ((opens && !empty) || *p == ',')
            printf("\n%*s", (int)depth * 2, "");
        if (*p == ':')
            putchar(' ');
        in_string = *p == '"';
    }
}

void cli_print_json(const void *message) {
    char *text = berm_json(message);
    if (!text) {
        cli_complain("cannot print the reply as JSON");
        exit(EXIT_BERM);
    }
    if (isatty(STDOUT_FILENO))
        print_indented(text);
    else
        fputs(text, stdout);
    putchar('\n');
    fflush(stdout); /* so that a stream of documents arrives one by one */
    free(text);
}

/* --- words --- */

char *cli_clean(struct cli *cli, const char *text) {
    char *copy = cli_text(cli, "%s", text);
    str_clean(copy, ' ');
    return copy;
}

/* Omits the common prefix of an enum's names, which is that of the zero value, UNSPECIFIED. */
const char *cli_enum(struct cli *cli, const ProtobufCEnumDescriptor *type, int value) {
    const ProtobufCEnumValue *zero = protobuf_c_enum_descriptor_get_value(type, 0);
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);
    size_t prefix = zero ? strlen(zero->name) - strlen("UNSPECIFIED") : 0;
    if (!known || strlen(known->name) < prefix)
        return cli_text(cli, "%d", value);
    char *text = cli_text(cli, "%s", known->name + prefix);
    for (char *p = text; *p != '\0'; p++)
        *p = (char)(*p == '_' ? ' ' : *p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    return text;
}

const char *cli_age(struct cli *cli, int64_t unix_ms) {
    static const struct {
        int64_t seconds;
        char unit;
    } steps[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    if (unix_ms == 0)
        return "-";
    int64_t seconds = MAX((int64_t)time(NULL) - unix_ms / 1000, (int64_t)0);
    size_t i = 0;
    while (i < COUNT_OF(steps) - 1 && seconds < steps[i].seconds * 2)
        i++;
    return cli_text(cli, "%lld%c", (long long)(seconds / steps[i].seconds), steps[i].unit);
}

const char *cli_bytes(struct cli *cli, int64_t bytes) {
    static const char units[] = "BKMGT";
    size_t i = 0;
    if (bytes < 0)
        return "none";
    while (i + 2 < sizeof units && bytes >= 10240) {
        bytes /= 1024;
        i++;
    }
    return cli_text(cli, i == 0 ? "%lld" : "%lld%c", (long long)bytes, units[i]);
}

const char *cli_pairs(struct cli *cli, size_t n, Berm__V1__KeyValue **pairs) {
    const char *text = "";
    for (size_t i = 0; i < n; i++)
        text = cli_text(cli, "%s%s%s=%s", text, i > 0 ? "," : "", pairs[i]->key, pairs[i]->value);
    return n > 0 ? text : "-";
}

/* --- tables --- */

void table_init(struct table *t, struct cli *cli, const char *const *heads, size_t n_columns,
                size_t colored) {
    *t = (struct table){.cli = cli, .n_columns = n_columns, .colored = colored};
    table_add(t, heads);
}

void table_add(struct table *t, const char *const *cells) {
    if (t->n_rows == t->cap) {
        t->cap = MAX(t->cap * 2, (size_t)16);
        const char **more = cli_alloc(t->cli, t->cap * t->n_columns * sizeof *more);
        if (t->n_rows > 0)
            memcpy(more, t->cells, t->n_rows * t->n_columns * sizeof *more);
        t->cells = more;
    }
    for (size_t i = 0; i < t->n_columns; i++)
        t->cells[t->n_rows * t->n_columns + i] = cli_clean(t->cli, cells[i]);
    t->n_rows++;
}

/* Counts characters, not bytes. */
static size_t width_of(const char *text) {
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static size_t terminal_width(void) {
    struct winsize size;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
               ? size.ws_col
               : SIZE_MAX;
}

static const char *color_of(const char *word) {
    static const struct {
        const char *word;
        const char *color;
    } colors[] = {{"ready", "\033[32m"},  {"running", "\033[32m"}, {"serving", "\033[32m"},
                  {"failed", "\033[31m"}, {"lost", "\033[31m"},    {"out of memory", "\033[31m"},
                  {"paused", "\033[33m"}, {"pending", "\033[33m"}, {"timed out", "\033[33m"}};
    for (size_t i = 0; i < COUNT_OF(colors); i++)
        if (strcmp(word, colors[i].word) == 0)
            return colors[i].color;
    return NULL;
}

/* Prints at most `width` characters; a truncated text ends with a dot. */
static void print_cell(const char *text, size_t width, bool pad, const char *color) {
    size_t full = width_of(text);
    if (color)
        fputs(color, stdout);
    size_t n = 0;
    for (const char *p = text; *p != '\0'; p++) {
        n += ((unsigned char)*p & 0xc0) != 0x80;
        if (full > width && n >= width)
            break;
        putchar(*p);
    }
    if (full > width)
        fputs("…", stdout);
    if (color)
        fputs("\033[0m", stdout);
    if (pad)
        printf("%*s", (int)(width - MIN(full, width)) + 2, "");
}

#define COLUMNS_MAX 12
#define COLUMN_LEAST 6

static void fit(size_t *widths, size_t n, size_t room) {
    for (;;) {
        size_t total = (n - 1) * 2, widest = 0;
        for (size_t i = 0; i < n; i++) {
            total += widths[i];
            widest = widths[i] >= widths[widest] ? i : widest;
        }
        if (total <= room || widths[widest] <= COLUMN_LEAST)
            return;
        widths[widest]--;
    }
}

void table_print(const struct table *t) {
    size_t widths[COLUMNS_MAX] = {0};
    size_t n = MIN(t->n_columns, (size_t)COLUMNS_MAX);
    for (size_t r = 0; r < t->n_rows; r++)
        for (size_t i = 0; i < n; i++)
            widths[i] = MAX(widths[i], width_of(t->cells[r * n + i]));
    fit(widths, n, terminal_width());
    for (size_t r = 0; r < t->n_rows; r++) {
        for (size_t i = 0; i < n; i++) {
            const char *text = t->cells[r * n + i];
            const char *color = !t->cli->color    ? NULL
                                : r == 0          ? "\033[1m"
                                : i == t->colored ? color_of(text)
                                                  : NULL;
            print_cell(text, widths[i], i + 1 < n, color);
        }
        putchar('\n');
    }
}
