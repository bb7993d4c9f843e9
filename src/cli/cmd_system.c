/* info, ping, debug guest-log. */
#include <errno.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/cli.h"

/* --- info --- */

static const char *words(struct cli *cli, size_t n, char **list) {
    const char *text = n > 0 ? list[0] : "-";
    for (size_t i = 1; i < n; i++)
        text = cli_text(cli, "%s %s", text, list[i]);
    return text;
}

static void show_info(struct cli *cli, const Berm__V1__GetInfoResponse *info) {
    printf("bermd %s, contract %s %s\n", info->version, info->protocol, info->spec_version);
    printf("state     %s, up %lld s\n",
           cli_enum(cli, &berm__v1__daemon_state__descriptor, (int)info->state),
           (long long)(info->uptime_ms / 1000));
    printf("instance  %s\n", info->instance_id);
    printf("you are   %s%s\n", info->identity,
           info->admin ? ", who sees everyone's sandboxes" : "");
    printf("events    %llu to %llu\n", (unsigned long long)info->oldest_sequence,
           (unsigned long long)info->head_sequence);
    printf("can       %s\n", words(cli, info->n_capabilities, info->capabilities));
    for (size_t i = 0; i < info->n_drivers; i++) {
        const Berm__V1__DriverInfo *d = info->drivers[i];
        printf("driver    %s: %s\n", d->name,
               d->available ? words(cli, d->n_capabilities, d->capabilities)
                            : cli_clean(cli, d->unavailable_reason));
    }
}

static void show_limits(struct cli *cli, const Berm__V1__GetInfoResponse *info) {
    static const char *const heads[] = {"LIMIT", "VALUE", "UNIT"};
    struct table t;
    table_init(&t, cli, heads, COUNT_OF(heads), SIZE_MAX);
    for (size_t i = 0; i < info->n_limits; i++) {
        const char *cells[] = {info->limits[i]->name,
                               cli_text(cli, "%lld", (long long)info->limits[i]->value),
                               info->limits[i]->unit};
        table_add(&t, cells);
    }
    table_print(&t);
}

int cmd_info(struct cli *cli) {
    struct berm_error e;
    Berm__V1__GetInfoRequest request = BERM__V1__GET_INFO_REQUEST__INIT;
    Berm__V1__GetInfoResponse *info;
    if (berm_info(cli->client, &request, &info, &e) < 0)
        return cli_fail(cli, &e);
    if (cli->json)
        cli_print_json(info);
    else if (opt_has(cli, "limits"))
        show_limits(cli, info);
    else
        show_info(cli, info);
    berm_free(info);
    return 0;
}

/* --- ping --- */

int cmd_ping(struct cli *cli) {
    struct berm_error e;
    Berm__V1__PingRequest request = BERM__V1__PING_REQUEST__INIT;
    Berm__V1__PingResponse *response;
    uint64_t began = clock_us();
    if (berm_ping(cli->client, &request, &response, &e) < 0)
        return cli_fail(cli, &e);
    if (cli->json)
        cli_print_json(response);
    else
        printf("%s answers in %llu us\n", berm_client_target(cli->client),
               (unsigned long long)(clock_us() - began));
    berm_free(response);
    return 0;
}

/* --- debug guest-log --- */

/* Like bermd: the system's directory for root, the user's directory for others. */
static const char *state_folder(struct cli *cli) {
    const char *given = opt_get(cli, "state");
    const char *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (!given)
        given = getenv("BERM_STATE");
    if (given && given[0] != '\0')
        return given;
    if (geteuid() == 0)
        return "/var/lib/berm";
    if (xdg && xdg[0] == '/')
        return cli_text(cli, "%s/berm", xdg);
    return cli_text(cli, "%s/.local/state/berm", home ? home : "");
}

static bool is_id(const char *text) {
    return text[0] != '\0' && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(text);
}

int cmd_guest_log(struct cli *cli) {
    const char *id = cli->args[0];
    const char *state = state_folder(cli);
    char bytes[16384];
    if (!is_id(id))
        return opt_usage(cli, "\"%s\" is not an id", id);
    AUTO_CLOSE int dir = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return cli_complain(
            "open state directory %s: %s\n      choose another one with --state DIR", state,
            strerror(errno));
    const char *path = cli_text(cli, "sandboxes/%s/guest.log", id);
    AUTO_CLOSE int fd = fd_open_beneath(dir, path, O_RDONLY, 0);
    if (fd < 0)
        return cli_complain("%s/%s: %s", state, path, strerror(-fd));
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) != 0;) {
        if (n < 0)
            return cli_complain("%s/%s: %s", state, path, strerror(errno));
        if (fwrite(bytes, 1, (size_t)n, stdout) != (size_t)n)
            return EXIT_BERM;
    }
    return 0;
}
