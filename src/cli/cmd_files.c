/* cat, find, grep; and the notation for paths in a sandbox. */
#include <errno.h>

#include "cli/cli.h"

bool remote_parse(struct cli *cli, const char *text, char **ret_sandbox, char **ret_path) {
    size_t n = strcspn(text, ":/");
    if (n == 0 || text[n] != ':')
        return false;
    *ret_sandbox = cli_text(cli, "%.*s", (int)n, text);
    *ret_path = cli_text(cli, "%s", text[n + 1] == '\0' ? "." : text + n + 1);
    return true;
}

void remote_path(const char *path, char **ret_text, ProtobufCBinaryData *ret_raw) {
    if (str_is_utf8(path, strlen(path)))
        *ret_text = (char *)path;
    else
        *ret_raw = (ProtobufCBinaryData){.len = strlen(path), .data = (uint8_t *)path};
}

const char *remote_name(struct cli *cli, const char *text, const ProtobufCBinaryData *raw) {
    return raw->len > 0 ? cli_text(cli, "%.*s", (int)raw->len, (const char *)raw->data) : text;
}

/* "SANDBOX" alone means its workspace. */
static void sandbox_and_path(struct cli *cli, char *text, char **ret_sandbox, char **ret_path) {
    if (!remote_parse(cli, text, ret_sandbox, ret_path)) {
        *ret_sandbox = text;
        *ret_path = (char *)".";
    }
}

/* Removes control characters of a name or line if the output is a terminal. */
static const char *shown(struct cli *cli, const char *text) {
    return isatty(STDOUT_FILENO) ? cli_clean(cli, text) : text;
}

static void tell_truncated(struct cli *cli, Berm__V1__TruncatedReason why) {
    if (why != BERM__V1__TRUNCATED_REASON__TRUNCATED_REASON_UNSPECIFIED)
        cli_complain("the result is incomplete: the limit on %s was reached",
                     cli_enum(cli, &berm__v1__truncated_reason__descriptor, (int)why));
}

static void tell_unreadable(uint64_t n) {
    if (n > 0)
        cli_complain("cannot read %llu files or directories", (unsigned long long)n);
}

int cmd_cat(struct cli *cli) {
    int status = 0;
    for (size_t i = 0; i < cli->n_args; i++) {
        struct berm_error e;
        struct berm_fd out = {.fd = STDOUT_FILENO};
        Berm__V1__ReadFileRequest request = BERM__V1__READ_FILE_REQUEST__INIT;
        char *path;
        if (!remote_parse(cli, cli->args[i], &request.sandbox_id, &path))
            return opt_usage(cli, "must be SANDBOX:PATH, got \"%s\"", cli->args[i]);
        remote_path(path, &request.path, &request.raw_path);
        if (opt_has(cli, "user"))
            request.user = opt_get(cli, "user");
        int r = berm_file_read(cli->client, &request, berm_fd_sink, &out, NULL, &e);
        if (r > 0)
            return cli_complain("cannot write the output: %s", strerror(errno));
        if (r < 0)
            status = cli_fail(cli, &e);
    }
    return status;
}

int cmd_find(struct cli *cli) {
    struct berm_error e;
    Berm__V1__GlobRequest request = BERM__V1__GLOB_REQUEST__INIT;
    Berm__V1__GlobResponse *response;
    char *path;
    sandbox_and_path(cli, cli->args[0], &request.sandbox_id, &path);
    remote_path(path, &request.path, &request.raw_path);
    request.pattern = cli->args[1];
    request.all_types = opt_has(cli, "all");
    if (opt_has(cli, "user"))
        request.user = opt_get(cli, "user");
    if (berm_glob(cli->client, &request, &response, &e) < 0)
        return cli_fail(cli, &e);
    cli_keep(cli, response);
    if (cli->json) {
        cli_print_json(response);
        return 0;
    }
    for (size_t i = 0; i < response->n_matches; i++) {
        const Berm__V1__FileInfo *f = response->matches[i];
        const char *name = remote_name(cli, f->path, &f->raw_path);
        printf("%s%c", opt_has(cli, "null") ? name : shown(cli, name),
               opt_has(cli, "null") ? '\0' : '\n');
    }
    tell_truncated(cli, response->truncated);
    tell_unreadable(response->unreadable);
    return 0;
}

static void show_match(struct cli *cli, const Berm__V1__GrepMatch *m) {
    const char *path = shown(cli, remote_name(cli, m->path, &m->raw_path));
    for (size_t i = 0; i < m->n_before; i++)
        printf("%s-%llu-%s\n", path, (unsigned long long)(m->line - m->n_before + i),
               shown(cli, m->before[i]));
    printf("%s:%llu:%s\n", path, (unsigned long long)m->line, shown(cli, m->text));
    for (size_t i = 0; i < m->n_after; i++)
        printf("%s-%llu-%s\n", path, (unsigned long long)(m->line + 1 + i),
               shown(cli, m->after[i]));
}

int cmd_grep(struct cli *cli) {
    struct berm_error e;
    Berm__V1__GrepRequest request = BERM__V1__GREP_REQUEST__INIT;
    Berm__V1__GrepResponse *response;
    int64_t before = 0, after = 0;
    char *path;
    if (!opt_number(cli, "before", 0, 20, &before) || !opt_number(cli, "after", 0, 20, &after))
        return EXIT_BERM;
    sandbox_and_path(cli, cli->args[1], &request.sandbox_id, &path);
    remote_path(path, &request.path, &request.raw_path);
    request.pattern = cli->args[0];
    request.regex = opt_has(cli, "extended");
    request.ignore_case = opt_has(cli, "ignore-case");
    request.before_lines = (uint32_t)before;
    request.after_lines = (uint32_t)after;
    if (opt_has(cli, "glob"))
        request.glob = opt_get(cli, "glob");
    if (opt_has(cli, "user"))
        request.user = opt_get(cli, "user");
    if (berm_grep(cli->client, &request, &response, &e) < 0)
        return cli_fail(cli, &e);
    cli_keep(cli, response);
    if (cli->json)
        cli_print_json(response);
    for (size_t i = 0; !cli->json && i < response->n_matches; i++)
        show_match(cli, response->matches[i]);
    tell_truncated(cli, response->truncated);
    tell_unreadable(response->unreadable);
    return response->n_matches > 0 ? 0 : 1;
}
