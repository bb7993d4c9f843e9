/* create, ls, update, stop, start, pause, resume, rm. */
#include "cli/cli.h"

#define WAIT_MS 60000 /* longest wait that bermd allows; berm then waits for events */
#define STATE(name) (1u << BERM__V1__SANDBOX_STATE__SANDBOX_STATE_##name)

static bool is_state(const Berm__V1__Sandbox *s, uint32_t states) {
    return (unsigned)s->state < 32 && (states >> s->state & 1) != 0;
}

/* Prints an error for a sandbox that did not reach the requested state, with the sandbox's own
 * reason. */
static int complain_state(struct cli *cli, const Berm__V1__Sandbox *s) {
    const char *state = cli_enum(cli, &berm__v1__sandbox_state__descriptor, (int)s->state);
    const char *code = s->reason && s->reason->code[0] != '\0' ? s->reason->code : NULL;
    const char *why = s->reason ? cli_clean(cli, s->reason->message) : "";
    cli_complain("sandbox %s is %s%s%s%s%s%s", s->sandbox_id, state, why[0] != '\0' ? ": " : "",
                 why, code ? " (" : "", code ? code : "", code ? ")" : "");
    return EXIT_BERM;
}

/* --- create --- */

int sandbox_make(struct cli *cli, bool wait, Berm__V1__Sandbox **ret_sandbox,
                 struct berm_error *e) {
    Berm__V1__SandboxSpec spec;
    Berm__V1__CreateSandboxRequest request = BERM__V1__CREATE_SANDBOX_REQUEST__INIT;
    Berm__V1__CreateSandboxResponse *made;
    Berm__V1__GetSandboxResponse *later;
    e->code = BERM_OK;
    *ret_sandbox = NULL;
    if (!spec_fill(cli, &spec))
        return -1;
    request.spec = &spec;
    request.request_id = cli_random(cli);
    request.wait_ms = wait ? WAIT_MS : 0;
    if (opt_has(cli, "id"))
        request.sandbox_id = opt_get(cli, "id");
    int r = berm_sandbox_create(cli->client, &request, &made, e);
    if (r == -(int)BERM_CANCELLED) { /* repeat the request to get its outcome */
        request.wait_ms = 0;
        berm_client_set_wake(cli->client, -1, NULL, NULL);
        if (berm_sandbox_create(cli->client, &request, &made, NULL) < 0)
            return r;
    } else if (r < 0) {
        return r;
    }
    cli_keep(cli, made);
    *ret_sandbox = made->sandbox;
    if (r < 0)
        return r;
    uint32_t settled = ~STATE(PENDING);
    if (wait && !is_state(made->sandbox, settled)) {
        r = berm_sandbox_wait(cli->client, made->sandbox->sandbox_id, made->sequence, settled,
                              &later, e);
        if (r < 0)
            return r;
        cli_keep(cli, later);
        *ret_sandbox = later->sandbox;
    }
    return 0;
}

int cmd_create(struct cli *cli) {
    struct berm_error e;
    Berm__V1__Sandbox *s;
    bool wait = !opt_has(cli, "no-wait");
    if (sandbox_make(cli, wait, &s, &e) < 0)
        return e.code == BERM_OK ? EXIT_BERM : cli_fail(cli, &e);
    if (cli->json)
        cli_print_json(s);
    else if (opt_has(cli, "quiet"))
        puts(s->sandbox_id);
    else
        printf("%s %s\n", s->sandbox_id,
               cli_enum(cli, &berm__v1__sandbox_state__descriptor, (int)s->state));
    return wait && !is_state(s, STATE(READY)) ? complain_state(cli, s) : 0;
}

/* --- ls --- */

static bool fill_states(struct cli *cli, Berm__V1__ListSandboxesRequest *request) {
    size_t at = 0;
    request->states = cli_alloc(cli, (opt_count(cli, "state") + 16) * sizeof *request->states);
    for (const char *text; (text = opt_next(cli, "state", &at));) {
        char *name = cli_text(cli, "SANDBOX_STATE_%s", text);
        for (char *p = name; *p != '\0'; p++)
            *p = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
        const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value_by_name(
            &berm__v1__sandbox_state__descriptor, name);
        if (!v || v->value == 0) {
            opt_usage(cli, "--state: must be a state such as ready, got \"%s\"", text);
            return false;
        }
        request->states[request->n_states++] = (Berm__V1__SandboxState)v->value;
    }
    if (opt_has(cli, "all"))
        for (int s = 1; s <= BERM__V1__SANDBOX_STATE__SANDBOX_STATE_DELETED; s++)
            request->states[request->n_states++] = (Berm__V1__SandboxState)s;
    return true;
}

static void print_sandboxes(struct cli *cli, const Berm__V1__ListSandboxesResponse *all) {
    static const char *const heads[] = {"SANDBOX", "STATE", "AGE", "PROGRAMS", "LABELS"};
    struct table t;
    table_init(&t, cli, heads, COUNT_OF(heads), 1);
    for (size_t i = 0; i < all->n_sandboxes; i++) {
        const Berm__V1__Sandbox *s = all->sandboxes[i];
        const char *labels = s->spec ? cli_pairs(cli, s->spec->n_labels, s->spec->labels) : "-";
        const char *cells[] = {
            s->sandbox_id, cli_enum(cli, &berm__v1__sandbox_state__descriptor, (int)s->state),
            cli_age(cli, s->created_unix_ms), cli_text(cli, "%u", s->running_execs), labels};
        table_add(&t, cells);
    }
    table_print(&t);
}

/* Collects all pages into one response. */
static int list_all(struct cli *cli, Berm__V1__ListSandboxesRequest *request,
                    Berm__V1__ListSandboxesResponse *all, struct berm_error *e) {
    size_t cap = 0;
    for (;;) {
        Berm__V1__ListSandboxesResponse *page;
        int r = berm_sandbox_list(cli->client, request, &page, e);
        if (r < 0)
            return r;
        cli_keep(cli, page);
        if (all->n_sandboxes + page->n_sandboxes > cap) {
            cap = (all->n_sandboxes + page->n_sandboxes) * 2;
            Berm__V1__Sandbox **more = cli_alloc(cli, cap * sizeof *more);
            for (size_t i = 0; i < all->n_sandboxes; i++)
                more[i] = all->sandboxes[i];
            all->sandboxes = more;
        }
        for (size_t i = 0; i < page->n_sandboxes; i++)
            all->sandboxes[all->n_sandboxes++] = page->sandboxes[i];
        all->sequence = page->sequence;
        if (page->next_page_token[0] == '\0')
            return 0;
        request->page_token = page->next_page_token;
    }
}

int cmd_ls(struct cli *cli) {
    struct berm_error e;
    Berm__V1__ListSandboxesRequest request = BERM__V1__LIST_SANDBOXES_REQUEST__INIT;
    Berm__V1__ListSandboxesResponse all = BERM__V1__LIST_SANDBOXES_RESPONSE__INIT;
    request.page_size = 1000;
    if (!opt_pairs(cli, "label", &request.n_label_selector, &request.label_selector) ||
        !fill_states(cli, &request))
        return EXIT_BERM;
    if (list_all(cli, &request, &all, &e) < 0)
        return cli_fail(cli, &e);
    if (cli->json)
        cli_print_json(&all);
    else if (opt_has(cli, "quiet"))
        for (size_t i = 0; i < all.n_sandboxes; i++)
            puts(all.sandboxes[i]->sandbox_id);
    else
        print_sandboxes(cli, &all);
    return 0;
}

/* --- update --- */

int cmd_update(struct cli *cli) {
    struct berm_error e;
    Berm__V1__UpdateSandboxRequest request = BERM__V1__UPDATE_SANDBOX_REQUEST__INIT;
    Berm__V1__UpdateSandboxResponse *response;
    Berm__V1__LabelsUpdate labels = BERM__V1__LABELS_UPDATE__INIT;
    Berm__V1__Limits limits;
    Berm__V1__Lifetime lifetime;
    bool any_limits, any_lifetime;
    size_t at = 0;
    request.sandbox_id = cli->args[0];
    if (!opt_pairs(cli, "label", &labels.n_set, &labels.set) ||
        !limits_fill(cli, &limits, &any_limits) || !lifetime_fill(cli, &lifetime, &any_lifetime))
        return EXIT_BERM;
    labels.remove = cli_alloc(cli, (opt_count(cli, "unlabel") + 1) * sizeof *labels.remove);
    for (char *key; (key = opt_next(cli, "unlabel", &at));)
        labels.remove[labels.n_remove++] = key;
    request.labels = labels.n_set + labels.n_remove > 0 ? &labels : NULL;
    request.limits = any_limits ? &limits : NULL;
    request.lifetime = any_lifetime ? &lifetime : NULL;
    if (!request.labels && !request.limits && !request.lifetime)
        return opt_usage(cli, "nothing to change; give an option");
    if (berm_sandbox_update(cli->client, &request, &response, &e) < 0)
        return cli_fail(cli, &e);
    if (cli->json)
        cli_print_json(response->sandbox);
    berm_free(response);
    return 0;
}

/* --- stop, start, pause, resume, rm: the same call with different methods --- */

struct change {
    const char *method;
    uint32_t until; /* states that end the wait */
    uint32_t good;  /* the states in `until` that mean success */
};

static const struct change STOP = {"StopSandbox", ~STATE(STOPPING), STATE(STOPPED)};
static const struct change START = {"StartSandbox", ~STATE(PENDING), STATE(READY)};
static const struct change PAUSE = {"PauseSandbox", ~STATE(READY), STATE(PAUSED)};
static const struct change RESUME = {"ResumeSandbox", ~STATE(PAUSED), STATE(READY)};
static const struct change DELETE = {"DeleteSandbox", STATE(DELETED), STATE(DELETED)};

/* Returns a pointer to the field with this name in any message, or NULL if the message has no such
 * field. */
static void *member(void *message, const char *name) {
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(
        ((ProtobufCMessage *)message)->descriptor, name);
    return f ? (char *)message + f->offset : NULL;
}

/* Calls the method, and waits for the outcome if wait_ms is positive. *ret_sandbox is valid until
 * the end of the run. */
static int change(struct cli *cli, const struct change *how, const char *id, int64_t wait_ms,
                  Berm__V1__Sandbox **ret_sandbox, struct berm_error *e) {
    const struct berm_method *m = berm_method_find(how->method);
    void *request = cli_alloc(cli, berm_method_request(m)->sizeof_message);
    void *response;
    Berm__V1__GetSandboxResponse *later;
    protobuf_c_message_init(berm_method_request(m), request);
    *(char **)member(request, "sandbox_id") = (char *)id;
    *(int64_t *)member(request, "wait_ms") = wait_ms;
    int64_t *grace = member(request, "grace_ms");
    e->code = BERM_OK;
    if (grace && !opt_duration(cli, "grace", grace))
        return -1; /* the error is already printed */
    if (grace && opt_has(cli, "grace") && *grace == 0)
        *grace = -1; /* -1 means SIGKILL immediately; 0 would select the daemon's default */
    int r = berm_unary(cli->client, m, request, &response, e);
    if (r < 0)
        return r;
    cli_keep(cli, response);
    *ret_sandbox = *(Berm__V1__Sandbox **)member(response, "sandbox");
    uint64_t sequence = *(uint64_t *)member(response, "sequence");
    if (wait_ms > 0 && !is_state(*ret_sandbox, how->until)) {
        r = berm_sandbox_wait(cli->client, id, sequence, how->until, &later, e);
        if (r < 0)
            return r;
        cli_keep(cli, later);
        *ret_sandbox = later->sandbox;
    }
    return 0;
}

/* Changes each sandbox named in the arguments. Continues with the next one after a failure. */
static int change_all(struct cli *cli, const struct change *how) {
    int status = 0;
    int64_t wait_ms = opt_has(cli, "no-wait") ? 0 : WAIT_MS;
    for (size_t i = 0; i < cli->n_args; i++) {
        struct berm_error e;
        Berm__V1__Sandbox *s;
        if (change(cli, how, cli->args[i], wait_ms, &s, &e) < 0) {
            status = e.code == BERM_OK ? EXIT_BERM : cli_fail(cli, &e);
            continue;
        }
        if (cli->json)
            cli_print_json(s);
        else
            puts(s->sandbox_id);
        if (wait_ms > 0 && !is_state(s, how->good))
            status = complain_state(cli, s);
    }
    return status;
}

int cmd_stop(struct cli *cli) {
    return change_all(cli, &STOP);
}

int cmd_start(struct cli *cli) {
    return change_all(cli, &START);
}

int cmd_pause(struct cli *cli) {
    return change_all(cli, &PAUSE);
}

int cmd_resume(struct cli *cli) {
    return change_all(cli, &RESUME);
}

int sandbox_remove(struct cli *cli, const char *id, struct berm_error *e) {
    Berm__V1__Sandbox *unused;
    return change(cli, &DELETE, id, 0, &unused, e);
}

static int remove_by_label(struct cli *cli) {
    struct berm_error e;
    Berm__V1__DeleteSandboxesRequest request = BERM__V1__DELETE_SANDBOXES_REQUEST__INIT;
    Berm__V1__DeleteSandboxesResponse *response;
    if (!opt_pairs(cli, "label", &request.n_label_selector, &request.label_selector))
        return EXIT_BERM;
    request.wait_ms = opt_has(cli, "no-wait") ? 0 : WAIT_MS;
    for (bool more = true; more;) {
        if (berm_sandbox_delete_all(cli->client, &request, &response, &e) < 0)
            return cli_fail(cli, &e);
        more = response->more;
        if (cli->json)
            cli_print_json(response);
        else
            for (size_t i = 0; i < response->n_sandbox_ids; i++)
                puts(response->sandbox_ids[i]);
        berm_free(response);
    }
    return 0;
}

int cmd_rm(struct cli *cli) {
    bool by_label = opt_has(cli, "label");
    if (by_label == (cli->n_args > 0))
        return opt_usage(cli, "give sandboxes, or --label to select them");
    return by_label ? remove_by_label(cli) : change_all(cli, &DELETE);
}
