/* events: prints past and new events. */
#include <time.h>

#include "cli/cli.h"

static const char *detail(struct cli *cli, const Berm__V1__Event *v) {
    switch ((int)v->body_case) {
    case BERM__V1__EVENT__BODY_SANDBOX_STATE:
        return cli_text(
            cli, "%s (%s)",
            cli_enum(cli, &berm__v1__sandbox_state__descriptor, (int)v->sandbox_state->state),
            v->sandbox_state->reason ? cli_enum(cli, &berm__v1__state_cause__descriptor,
                                                (int)v->sandbox_state->reason->cause)
                                     : "-");
    case BERM__V1__EVENT__BODY_EXEC_START:
        return cli_text(cli, "%s %s", v->exec_start->exec_id,
                        v->exec_start->n_argv > 0 ? v->exec_start->argv[0] : "");
    case BERM__V1__EVENT__BODY_EXEC_EXIT: {
        Berm__V1__Exec ended = BERM__V1__EXEC__INIT;
        ended.exit = v->exec_exit->exit;
        return cli_text(cli, "%s %s", v->exec_exit->exec_id, exit_text(cli, &ended));
    }
    case BERM__V1__EVENT__BODY_EXEC_SIGNAL:
        return cli_text(cli, "%s %d", v->exec_signal->exec_id, v->exec_signal->signal_number);
    case BERM__V1__EVENT__BODY_FILE:
        return cli_text(
            cli, "%s %s",
            cli_enum(cli, &berm__v1__file_operation__descriptor, (int)v->file->operation),
            v->file->path);
    case BERM__V1__EVENT__BODY_OUTPUT_CAP:
        return v->output_cap->exec_id;
    case BERM__V1__EVENT__BODY_SNAPSHOT:
        return v->snapshot->snapshot_id;
    case BERM__V1__EVENT__BODY_DAEMON:
        return cli_enum(cli, &berm__v1__daemon_state__descriptor, (int)v->daemon->state);
    default:
        return "";
    }
}

static int on_event(const Berm__V1__WatchEventsResponse *m, void *user) {
    struct cli *cli = user;
    if (m->item_case != BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_EVENT)
        return 0;
    const Berm__V1__Event *v = m->event;
    if (cli->json) {
        cli_print_json(v);
        return 0;
    }
    /* Uses a separate arena, because a watch may run for days. */
    struct cli line = *cli;
    char when[32];
    time_t seconds = (time_t)(v->time_unix_ms / 1000);
    struct tm local;
    if (arena_init(&line.arena, 4096, 1 << 20) < 0)
        return 1;
    strftime(when, sizeof when, "%F %T", localtime_r(&seconds, &local));
    printf("%8llu  %s  %-14s  %-24s  %s\n", (unsigned long long)v->sequence, when,
           cli_enum(&line, &berm__v1__event_kind__descriptor, (int)v->kind),
           v->sandbox_id[0] != '\0' ? v->sandbox_id : "-", cli_clean(&line, detail(&line, v)));
    arena_done(&line.arena);
    return fflush(stdout) != 0;
}

/* Without -f: all stored events, then the end. With -f: from now on, unless --since is given. */
static bool fill_start(struct cli *cli, Berm__V1__WatchEventsRequest *request) {
    const char *since = opt_get(cli, "since");
    bool follow = opt_has(cli, "follow");
    uint64_t sequence;
    request->until_now = !follow;
    if ((!since && follow) || (since && strcmp(since, "now") == 0))
        return true;
    if (!since || strcmp(since, "oldest") == 0) {
        Berm__V1__StartOldest *start = cli_alloc(cli, sizeof *start);
        berm__v1__start_oldest__init(start);
        request->start_case = BERM__V1__WATCH_EVENTS_REQUEST__START_OLDEST;
        request->oldest = start;
        return true;
    }
    if (str_to_u64(str_of(since), 0, UINT64_MAX, &sequence) < 0) {
        opt_usage(cli, "--since: must be a sequence, oldest or now, got \"%s\"", since);
        return false;
    }
    request->start_case = BERM__V1__WATCH_EVENTS_REQUEST__START_AFTER_SEQUENCE;
    request->after_sequence = sequence;
    return true;
}

int cmd_events(struct cli *cli) {
    struct berm_error e;
    Berm__V1__WatchEventsRequest request = BERM__V1__WATCH_EVENTS_REQUEST__INIT;
    request.sandbox_ids = cli->args;
    request.n_sandbox_ids = cli->n_args;
    if (!fill_start(cli, &request) ||
        !opt_pairs(cli, "label", &request.n_label_selector, &request.label_selector))
        return EXIT_BERM;
    int r = berm_events_watch(cli->client, &request, on_event, cli, &e);
    return r < 0 ? cli_fail(cli, &e) : r > 0 ? EXIT_BERM : 0;
}
