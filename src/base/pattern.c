/* A pattern becomes a list of nodes, each a state of a machine that is in many states at once: for every
 * character of the path each state says which ones follow. */
#include "base/pattern.h"

enum op {
    OP_CHAR,  /* lo */
    OP_ANY,   /* one character, no "/" */
    OP_STAR,  /* any number of them */
    OP_CLASS, /* one of `n` ranges from `at`, or none of them */
    OP_SPLIT, /* here and at `at` */
    OP_JUMP,  /* to `at` */
    OP_DIRS,  /* any directories: here the node after next, or a name first */
    OP_DIR_NAME,
    OP_END,
};

struct node {
    enum op op;
    bool is_negated;
    uint32_t at;
    uint32_t n;
};

struct range {
    uint32_t lo, hi;
};

/* The states at one place of the path, each once. */
struct states {
    uint32_t *of;
    size_t n;
};

struct pattern {
    struct node *nodes;
    size_t n_nodes;
    struct range *ranges;
    size_t n_ranges;
    bool is_for_last_name;
    struct states now, next;
    uint64_t *seen; /* for each node the turn in which it was added */
    uint64_t turn;
};

/* UTF-8, one character at a time; what is not UTF-8 is a character above all others for each byte. */
static uint32_t take_char(const char **at, const char *end) {
    const uint8_t *p = (const uint8_t *)*at;
    size_t left = (size_t)(end - *at);
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (n == 1 || n == 0 || n > left || !str_is_utf8(p, n)) {
        ++*at;
        return n == 1 ? p[0] : 0x110000u + p[0];
    }
    uint32_t c = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3f);
    *at += n;
    return c;
}

struct parser {
    struct pattern *p;
    const char *start, *at, *end;
    int depth;
};

static struct node *put(struct parser *s, enum op op, uint32_t at) {
    struct node *node = &s->p->nodes[s->p->n_nodes++];
    *node = (struct node){.op = op, .at = at};
    return node;
}

/* Where a class ends, or NULL when it does not: `]` right after the opening is a member. */
static const char *class_end(const char *at, const char *end) {
    at += at < end && *at == '!';
    for (const char *p = at + 1; p < end; p++)
        if (*p == ']')
            return p;
    return NULL;
}

static bool parse_class(struct parser *s) {
    const char *close = class_end(s->at, s->end);
    if (!close)
        return false;
    struct node *node = put(s, OP_CLASS, (uint32_t)s->p->n_ranges);
    node->is_negated = *s->at == '!';
    s->at += node->is_negated;
    while (s->at < close) {
        uint32_t lo = take_char(&s->at, close), hi = lo;
        if (close - s->at >= 2 && *s->at == '-') {
            s->at++;
            hi = take_char(&s->at, close);
        }
        s->p->ranges[s->p->n_ranges++] = (struct range){lo, hi};
        node->n++;
    }
    s->at = close + 1;
    return true;
}

static bool ends_name(const struct parser *s, const char *at) {
    return at == s->end || *at == '/' || (s->depth > 0 && (*at == ',' || *at == '}'));
}

static bool begins_name(const struct parser *s, const char *at) {
    return at == s->start || at[-1] == '/' || (s->depth > 0 && (at[-1] == '{' || at[-1] == ','));
}

/* At the second of several stars. */
static void parse_stars(struct parser *s) {
    const char *first = s->at - 1;
    while (s->at < s->end && *s->at == '*')
        s->at++;
    if (s->at - first == 2 && begins_name(s, first) && ends_name(s, s->at)) {
        put(s, OP_DIRS, 0);
        put(s, OP_DIR_NAME, 0);
        if (s->at < s->end && *s->at == '/') {
            s->at++;
            return;
        }
    }
    put(s, OP_STAR, 0);
}

static const char *brace_end(const char *at, const char *end) {
    int depth = 1;
    for (; at < end; at++) {
        depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
        if (depth == 0)
            return at;
    }
    return NULL;
}

static bool parse_sequence(struct parser *s);

/* Each alternative but the last is preceded by a split to the next and followed by a jump to the end; the
 * jumps are strung together until the end is known. */
static bool parse_braces(struct parser *s) {
    uint32_t jumps = 0;
    if (++s->depth > PATTERN_DEPTH)
        return false;
    for (;;) {
        size_t split = s->p->n_nodes;
        put(s, OP_SPLIT, 0);
        if (!parse_sequence(s))
            return false;
        if (s->at == s->end) /* a class took the brace that was meant to close */
            return false;
        bool is_last = *s->at++ == '}';
        if (is_last) {
            s->p->nodes[split].op = OP_JUMP;
            s->p->nodes[split].at = (uint32_t)split + 1;
            break;
        }
        put(s, OP_JUMP, jumps);
        jumps = (uint32_t)s->p->n_nodes - 1;
        s->p->nodes[split].at = (uint32_t)s->p->n_nodes;
    }
    while (jumps != 0) {
        uint32_t before = s->p->nodes[jumps].at;
        s->p->nodes[jumps].at = (uint32_t)s->p->n_nodes;
        jumps = before;
    }
    s->depth--;
    return true;
}

/* Up to the end, or inside braces to the comma or brace that ends an alternative. */
static bool parse_sequence(struct parser *s) {
    while (s->at < s->end) {
        if (s->depth > 0 && (*s->at == ',' || *s->at == '}'))
            return true;
        uint32_t c = take_char(&s->at, s->end);
        if (c == '*')
            parse_stars(s);
        else if (c == '?')
            put(s, OP_ANY, 0);
        else if (c == '{' && brace_end(s->at, s->end)) {
            if (!parse_braces(s))
                return false;
        } else if (c != '[' || !parse_class(s))
            put(s, OP_CHAR, c);
    }
    return true;
}

int pattern_new(struct arena *a, struct str text, enum pattern_bare bare, const char *field,
                struct pattern **ret, struct err *e) {
    if (text.n == 0 || text.n > PATTERN_MAX)
        return err_field(e, field, "is empty or longer than %d bytes", PATTERN_MAX);
    if (memchr(text.p, '\0', text.n))
        return err_field(e, field, "holds a NUL");
    size_t cap = 3 * text.n + 8; /* no character makes more than three */
    struct pattern *p = arena_zalloc(a, sizeof *p);
    if (!p || !(p->nodes = arena_alloc(a, cap * sizeof *p->nodes)) ||
        !(p->ranges = arena_alloc(a, text.n * sizeof *p->ranges)) ||
        !(p->now.of = arena_alloc(a, cap * sizeof *p->now.of)) ||
        !(p->next.of = arena_alloc(a, cap * sizeof *p->next.of)) ||
        !(p->seen = arena_zalloc(a, cap * sizeof *p->seen)))
        return err_set(e, ERR_LIMIT_REACHED, "no memory for a pattern");
    bool is_bare = !memchr(text.p, '/', text.n);
    size_t anchor = text.p[0] == '/';
    struct parser s = {.p = p, .at = text.p + anchor, .end = text.p + text.n};
    s.start = s.at;
    p->is_for_last_name = is_bare && bare == PATTERN_ANY;
    if (is_bare && bare == PATTERN_VISIBLE) {
        put(&s, OP_DIRS, 0);
        put(&s, OP_DIR_NAME, 0);
    }
    if (!parse_sequence(&s))
        return err_field(e, field, "has braces that do not close, or more than %d in one another",
                         PATTERN_DEPTH);
    put(&s, OP_END, 0);
    *ret = p;
    return 0;
}

/* Adds a node and all that follow without a character. `is_hidden`: a name with a leading "." begins here,
 * which no wildcard may take. */
static void add(struct pattern *p, struct states *to, uint32_t first, bool is_hidden) {
    /* A chain of splits is as long as the pattern, so those still to be looked at wait in the upper part
     * of the list itself: every node is in it once. */
    size_t cap = p->n_nodes, n_waiting = 0;
    for (uint32_t at = first;;) {
        if (p->seen[at] != p->turn) {
            p->seen[at] = p->turn;
            const struct node *node = &p->nodes[at];
            bool is_wild = node->op == OP_STAR || node->op == OP_ANY || node->op == OP_CLASS ||
                           node->op == OP_DIR_NAME;
            if (!(is_wild && is_hidden) && node->op != OP_SPLIT && node->op != OP_JUMP &&
                node->op != OP_DIRS)
                to->of[to->n++] = at;
            if (node->op == OP_SPLIT || node->op == OP_DIRS)
                to->of[cap - ++n_waiting] = node->op == OP_SPLIT ? node->at : at + 2;
            if (node->op == OP_JUMP) {
                at = node->at;
                continue;
            }
            if (node->op == OP_SPLIT || node->op == OP_DIRS ||
                (node->op == OP_STAR && !is_hidden)) {
                at++;
                continue;
            }
        }
        if (n_waiting == 0)
            return;
        at = to->of[cap - n_waiting--];
    }
}

static bool class_has(const struct pattern *p, const struct node *node, uint32_t c) {
    for (uint32_t i = 0; i < node->n; i++) {
        const struct range *r = &p->ranges[node->at + i];
        if (c >= r->lo && c <= r->hi)
            return !node->is_negated;
    }
    return node->is_negated;
}

/* The state after this one and the character; UINT32_MAX: none. */
static uint32_t follow(const struct pattern *p, uint32_t at, uint32_t c) {
    const struct node *node = &p->nodes[at];
    switch (node->op) {
    case OP_CHAR:
        return c == node->at ? at + 1 : UINT32_MAX;
    case OP_ANY:
        return c != '/' ? at + 1 : UINT32_MAX;
    case OP_CLASS:
        return c != '/' && class_has(p, node, c) ? at + 1 : UINT32_MAX;
    case OP_STAR:
        return c != '/' ? at : UINT32_MAX;
    case OP_DIR_NAME:
        return c != '/' ? at : at - 1;
    case OP_SPLIT:
    case OP_JUMP:
    case OP_DIRS:
    case OP_END:
        break;
    }
    return UINT32_MAX;
}

/* Runs over the path; the states at its end are in p->now. */
static void run(struct pattern *p, const char *path, const char *end) {
    p->now.n = 0;
    p->turn++;
    add(p, &p->now, 0, path < end && *path == '.');
    while (path < end && p->now.n > 0) {
        uint32_t c = take_char(&path, end);
        bool is_hidden = c == '/' && path < end && *path == '.';
        p->next.n = 0;
        p->turn++;
        for (size_t i = 0; i < p->now.n; i++) {
            uint32_t to = follow(p, p->now.of[i], c);
            if (to != UINT32_MAX)
                add(p, &p->next, to, is_hidden);
        }
        struct states done = p->now;
        p->now = p->next;
        p->next = done;
    }
}

bool pattern_matches(struct pattern *p, const char *path) {
    const char *slash = p->is_for_last_name ? strrchr(path, '/') : NULL;
    const char *from = slash ? slash + 1 : path;
    run(p, from, from + strlen(from));
    for (size_t i = 0; i < p->now.n; i++)
        if (p->nodes[p->now.of[i]].op == OP_END)
            return true;
    return false;
}

bool pattern_leads_into(struct pattern *p, const char *dir) {
    if (p->is_for_last_name)
        return true;
    run(p, dir, dir + strlen(dir));
    bool leads = false;
    p->next.n = 0;
    p->turn++;
    for (size_t i = 0; i < p->now.n && !leads; i++)
        leads = follow(p, p->now.of[i], '/') != UINT32_MAX;
    return leads;
}
