#include "base/json.h"

#include <errno.h>
#include <stdio.h>

#include "harness.h"

static const struct json_bounds bounds = {.depth = 8, .nodes = 64, .members = 16};

/* Returns 0 and the root, or the error. */
static int parse(struct arena *a, const char *text, struct json **ret) {
    arena_reset(a);
    return json_parse(a, text, strlen(text), &bounds, ret);
}

TEST(json_parses_every_type) {
    struct arena a;
    struct json *root;
    CHECK_INT(arena_init(&a, 4096, 65536), 0);
    CHECK_INT(parse(&a, " {\"a\": [1, -2.5e1, true, null], \"b\":{\"c\":\"x\\u00fc\\n\"}} ", &root),
              0);
    const struct json *list = json_get(root, "a");
    CHECK_INT(list->items.count, 4);
    CHECK_INT(list->items.first->integer, 1);
    CHECK(list->items.first->next->number == -25.0);
    CHECK(list->items.first->next->next->boolean);
    CHECK_INT(list->items.first->next->next->next->type, JSON_NULL);
    const struct json *text = json_get(json_get(root, "b"), "c");
    CHECK_BYTES(text->text.p, text->text.n, "x\xc3\xbc\n", 4);
    CHECK(!json_get(root, "none") && !json_get(list, "a") && !json_get(NULL, "a"));
    arena_done(&a);
}

TEST(json_parses_numbers_exactly) {
    static const struct {
        const char *text;
        int result;
        enum json_type type;
        int64_t integer;
    } rows[] = {
        {"0", 0, JSON_INT, 0},
        {"-0", 0, JSON_INT, 0},
        {"9223372036854775807", 0, JSON_INT, INT64_MAX},
        {"-9223372036854775808", 0, JSON_INT, INT64_MIN},
        {"9223372036854775808", 0, JSON_DOUBLE, 0},
        {"-9223372036854775809", 0, JSON_DOUBLE, 0},
        {"1.0", 0, JSON_DOUBLE, 0},
        {"1e3", 0, JSON_DOUBLE, 0},
        {"1e999", -E2BIG, 0, 0},
        {"01", -EBADMSG, 0, 0},
        {"+1", -EBADMSG, 0, 0},
        {"-", -EBADMSG, 0, 0},
        {".5", -EBADMSG, 0, 0},
        {"1.", -EBADMSG, 0, 0},
        {"1e", -EBADMSG, 0, 0},
        {"0x1", -EBADMSG, 0, 0},
        {"NaN", -EBADMSG, 0, 0},
        {"Infinity", -EBADMSG, 0, 0},
    };
    struct arena a;
    CHECK_INT(arena_init(&a, 4096, 65536), 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json *root = NULL;
        if (!CHECK_INT(parse(&a, rows[i].text, &root), rows[i].result) || !root)
            continue;
        CHECK_INT(root->type, rows[i].type);
        if (root->type == JSON_INT)
            CHECK_INT(root->integer, rows[i].integer);
    }
    arena_done(&a);
}

TEST(json_refuses_invalid_text) {
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1}x",
        "{}{}",
        "tru",
        "truex",
        "nul",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\t\"",
        "\"\n\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}",
        "\xef\xbb\xbf{}",
        "/**/{}",
        "[1]]",
        "{]",
        "[}",
    };
    struct arena a;
    CHECK_INT(arena_init(&a, 4096, 65536), 0);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct json *root;
        if (!CHECK_INT(parse(&a, bad[i], &root), -EBADMSG))
            printf("# by %s\n", bad[i]);
    }
    struct json *root;
    CHECK_INT(json_parse(&a, "\0", 1, &bounds, &root), -EBADMSG);
    arena_done(&a);
}

TEST(json_decodes_surrogate_pairs_and_marks_nul) {
    struct arena a;
    struct json *root;
    CHECK_INT(arena_init(&a, 4096, 65536), 0);
    CHECK_INT(parse(&a, "\"\\ud83d\\ude00\"", &root), 0);
    CHECK_BYTES(root->text.p, root->text.n, "\xf0\x9f\x98\x80", 4);
    CHECK(!root->has_nul);
    CHECK_INT(parse(&a, "\"a\\u0000b\"", &root), 0);
    CHECK_BYTES(root->text.p, root->text.n, "a\0b", 3);
    CHECK(root->has_nul);
    arena_done(&a);
}

TEST(json_enforces_its_bounds) {
    struct arena a;
    struct json *root;
    CHECK_INT(arena_init(&a, 4096, 65536), 0);
    CHECK_INT(parse(&a, "[[[[[[[[]]]]]]]]", &root), 0);
    CHECK_INT(parse(&a, "[[[[[[[[[]]]]]]]]]", &root), -E2BIG);
    char many[512] = "[0";
    for (int i = 0; i < 62; i++)
        strcat(many, ",0");
    CHECK_INT(parse(&a, strcat(many, "]"), &root), 0);
    many[strlen(many) - 1] = '\0';
    CHECK_INT(parse(&a, strcat(many, ",0]"), &root), -E2BIG);
    char members[512] = "{";
    for (int i = 0; i < 17; i++)
        snprintf(members + strlen(members), 16, "%s\"%d\":0", i ? "," : "", i);
    CHECK_INT(parse(&a, strcat(members, "}"), &root), -E2BIG);
    arena_done(&a);
}

/* A million brackets cause no recursion and take little time. */
TEST(json_refuses_a_depth_bomb) {
    static char bomb[1 << 20];
    struct arena a;
    struct json *root;
    memset(bomb, '[', sizeof bomb);
    CHECK_INT(arena_init(&a, 4096, 65536), 0);
    CHECK_INT(json_parse(&a, bomb, sizeof bomb, &bounds, &root), -E2BIG);
    arena_done(&a);
}

static void write_sample(struct json_out *o, struct buf *to) {
    json_begin(o, to);
    json_open(o, '{');
    json_put_str(o, "s", (struct str){"q\"\\\n\x01\x7f\xc3\xbc", 8});
    json_put_u64(o, "u", UINT64_MAX);
    json_put_i64(o, "i", INT64_MIN);
    json_key(o, "l");
    json_open(o, '[');
    json_bool(o, true);
    json_null(o);
    json_base64(o, "abcd", 4);
    json_raw(o, STR("{\"r\":1}"));
    json_open(o, '[');
    json_close(o, ']');
    json_close(o, ']');
    json_put_bool(o, "f", false);
    json_close(o, '}');
}

TEST(json_writer_produces_valid_text) {
    static const char want[] =
        "{\"s\":\"q\\\"\\\\\\n\\u0001\\u007f\xc3\xbc\",\"u\":18446744073709551615,\"i\":-9223372036854775808,"
        "\"l\":[true,null,\"YWJjZA==\",{\"r\":1},[]],\"f\":false}";
    struct buf b;
    struct json_out o;
    buf_init(&b, 4096);
    write_sample(&o, &b);
    CHECK_INT(json_end(&o), 0);
    CHECK_BYTES(buf_data(&b), buf_len(&b), want, sizeof want - 1);
    buf_done(&b);
    for (size_t max = 0; max < sizeof want - 1; max++) {
        buf_init(&b, max);
        write_sample(&o, &b);
        CHECK_INT(json_end(&o), -ENOBUFS);
        buf_done(&b);
    }
    buf_init(&b, 100);
    json_begin(&o, &b);
    json_str(&o, STR("\xff"));
    CHECK_INT(json_end(&o), -EILSEQ);
    buf_done(&b);
}

TEST(json_survives_failing_memory) {
    static const char text[] = "{\"a\":[\"\\n\",{\"b\":\"\\u00fc\"},1,2,3],\"c\":\"plain\"}";
    for (unsigned n = 1;; n++) {
        struct arena a = {0};
        struct json *root;
        struct json_out o;
        struct buf b;
        buf_init(&b, 4096);
        alloc_fail_at(n);
        int r = arena_init(&a, 16, 65536);
        if (r == 0)
            r = json_parse(&a, text, sizeof text - 1, &bounds, &root);
        write_sample(&o, &b);
        int w = json_end(&o);
        bool failed = alloc_failed();
        alloc_fail_at(0);
        CHECK(failed ? r == -ENOMEM || w == -ENOMEM : r == 0 && w == 0);
        arena_done(&a);
        buf_done(&b);
        if (!failed)
            break;
    }
}

TEST(json_escapes_del_and_c1_controls) {
    struct buf text;
    struct json_out o;
    buf_init(&text, 1024);
    json_begin(&o, &text);
    json_str(&o, STR("a\177\xc2\x80\xc2\x9b"
                     "b\xc2\x9f\xc2\xa0\xc3\xbc"));
    CHECK_INT(json_end(&o), 0);
    static const char want[] = "\"a\\u007f\\u0080\\u009bb\\u009f\xc2\xa0\xc3\xbc\"";
    CHECK_BYTES(buf_data(&text), buf_len(&text), want, sizeof want - 1);
    buf_done(&text);
}
