#include "api/page.h"

#include "api/context.h"
#include "api/digest.h"
#include "berm/v1/berm.pb-c.h"
#include "harness.h"

static struct context context = {.facts = {.instance_id = "one"}};
static struct api api = {.user = &context};
static struct method list_method = {.path = {"/berm.v1.SandboxService/ListSandboxes", 37}};
static struct call call = {.api = &api, .method = &list_method};
static struct err e;

static int begin(struct page *p, const Berm__V1__ListSandboxesRequest *m, const char *who) {
    return page_begin(p, &call, &m->base, who, &e);
}

TEST(page_token_is_bound_to_its_caller_and_request) {
    Berm__V1__ListSandboxesRequest m = BERM__V1__LIST_SANDBOXES_REQUEST__INIT;
    struct page p;
    CHECK_INT(arena_init(&call.arena, 1024, 4096), 0);
    CHECK_INT(begin(&p, &m, "uid:1"), 0);
    CHECK_INT(p.size, 100);
    CHECK_INT(p.before, 0);
    m.page_token = page_token(&p, &call, 4711);
    CHECK_INT(begin(&p, &m, "uid:1"), 0);
    CHECK_INT(p.before, 4711);
    CHECK_INT(begin(&p, &m, "uid:2"), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "page_token");
    m.page_size = 7;
    CHECK_INT(begin(&p, &m, "uid:1"), -ERR_INVALID_ARGUMENT);
    m.page_size = 0;
    m.owner = "uid:3";
    CHECK_INT(begin(&p, &m, "uid:1"), -ERR_INVALID_ARGUMENT);
    m.owner = "";
    context.facts.instance_id = "two";
    CHECK_INT(begin(&p, &m, "uid:1"), -ERR_INVALID_ARGUMENT);
    context.facts.instance_id = "one";
    for (size_t i = 0; i < strlen(m.page_token); i++) {
        m.page_token[i] ^= 1;
        CHECK_INT(begin(&p, &m, "uid:1"), -ERR_INVALID_ARGUMENT);
        m.page_token[i] ^= 1;
    }
    CHECK_INT(begin(&p, &m, "uid:1"), 0);
    m.page_token = "nonsense";
    CHECK_INT(begin(&p, &m, "uid:1"), -ERR_INVALID_ARGUMENT);
    arena_done(&call.arena);
}

TEST(page_size_has_a_default_and_a_maximum) {
    Berm__V1__ListSandboxesRequest m = BERM__V1__LIST_SANDBOXES_REQUEST__INIT;
    struct page p;
    m.page_size = 1000;
    CHECK_INT(begin(&p, &m, "uid:1"), 0);
    CHECK_INT(p.size, 1000);
    m.page_size = 1001;
    CHECK_INT(begin(&p, &m, "uid:1"), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.limit, "page.max");
}

static bool same(const Berm__V1__CreateSandboxRequest *a, const Berm__V1__CreateSandboxRequest *b,
                 const char *path_b) {
    static const char *const without[] = {"wait_ms", "request_id"};
    uint8_t x[DIGEST_BYTES], y[DIGEST_BYTES];
    digest_message(STR(""), STR("/a"), &a->base, without, 2, x);
    digest_message(STR(""), str_of(path_b), &b->base, without, 2, y);
    return memcmp(x, y, sizeof x) == 0;
}

TEST(digest_ignores_wait_ms_and_request_id) {
    Berm__V1__CreateSandboxRequest a = BERM__V1__CREATE_SANDBOX_REQUEST__INIT,
                                   b = BERM__V1__CREATE_SANDBOX_REQUEST__INIT;
    Berm__V1__SandboxSpec spec = BERM__V1__SANDBOX_SPEC__INIT;
    a.sandbox_id = b.sandbox_id = "x";
    a.wait_ms = 5;
    a.request_id = "one";
    b.request_id = "two";
    CHECK(same(&a, &b, "/a"));
    CHECK(!same(&a, &b, "/b"));
    b.sandbox_id = "y";
    CHECK(!same(&a, &b, "/a"));
    b.sandbox_id = "x";
    b.spec = &spec;
    CHECK(!same(&a, &b, "/a"));
    a.spec = &spec;
    CHECK(same(&a, &b, "/a"));
    CHECK_STR(a.request_id, "one");
    CHECK_INT(a.wait_ms, 5);
}
