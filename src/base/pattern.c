/* A pattern is compiled to the nodes of a nondeterministic automaton. Matching keeps the set of
 * current states and computes their successors for every character of the path. */
#include "base/pattern.h"

enum op {
    OP_CHAR,  /* the character `at` */
    OP_ANY,   /* one character except "/" */
    OP_STAR,  /* any number of characters except "/" */
    OP_CLASS, /* one character in (or, if negated, outside) the `n` ranges from index `at` */
    OP_SPLIT, /* continue both at the next node and at `at` */
    OP_JUMP,  /* continue at `at` */
    OP_DIRS,  /* any number of directories: continue after OP_DIR_NAME, or match a name first */
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

/* The set of states at one position of the path. */
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
    uint64_t *seen; /* for each node, the value of `turn` when the node was last added */
    uint64_t turn;
};

/* Decodes one UTF-8 character. Each invalid byte counts as a character above the Unicode range. */
static uint32_t pattern_take_char(const char **at, const char *end) {
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

static struct node *pattern_put(struct parser *s, enum op op, uint32_t at) {
    struct node *node = &s->p->nodes[s->p->n_nodes++];
    *node = (struct node){.op = op, .at = at};
    return node;
}

/* Returns the end of a class, or NULL when it is not closed. A `]` right after the opening is a
 * member. */
static const char *pattern_class_end(const char *at, const char *end) {
    at += at < end && *at == '!';
    for (const char *p = at + 1; p < end; p++)
        if (*p == ']')
            return p;
    return NULL;
}

static bool pattern_parse_class(struct parser *s) {
    const char *close = pattern_class_end(s->at, s->end);
    if (!close)
        return false;
    struct node *node = pattern_put(s, OP_CLASS, (uint32_t)s->p->n_ranges);
    node->is_negated = *s->at == '!';
    s->at += node->is_negated;
    while (s->at < close) {
        uint32_t lo = pattern_take_char(&s->at, close), hi = lo;
        if (close - s->at >= 2 && *s->at == '-') {
            s->at++;
            hi = pattern_take_char(&s->at, close);
        }
        s->p->ranges[s->p->n_ranges++] = (struct range){lo, hi};
        node->n++;
    }
    s->at = close + 1;
    return true;
}

static bool pattern_ends_name(const struct parser *s, const char *at) {
    return at == s->end || *at == '/' || (s->depth > 0 && (*at == ',' || *at == '}'));
}

static bool pattern_begins_name(const struct parser *s, const char *at) {
    return at == s->start || at[-1] == '/' || (s->depth > 0 && (at[-1] == '{' || at[-1] == ','));
}

/* Called after the first of two or more stars. */
static void pattern_parse_stars(struct parser *s) {
    const char *first = s->at - 1;
    while (s->at < s->end && *s->at == '*')
        s->at++;
    if (s->at - first == 2 && pattern_begins_name(s, first) && pattern_ends_name(s, s->at)) {
        pattern_put(s, OP_DIRS, 0);
        pattern_put(s, OP_DIR_NAME, 0);
        if (s->at < s->end && *s->at == '/') {
            s->at++;
            return;
        }
    }
    pattern_put(s, OP_STAR, 0);
}

static const char *pattern_brace_end(const char *at, const char *end) {
    int depth = 1;
    for (; at < end; at++) {
        depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
        if (depth == 0)
            return at;
    }
    return NULL;
}

static bool pattern_parse_sequence(struct parser *s);

/* Emits, for each alternative but the last, a split to the next alternative and a jump to the end.
 * The jumps form a linked list until the end is known. */
static bool pattern_parse_braces(struct parser *s) {
    uint32_t jumps = 0;
    if (++s->depth > PATTERN_DEPTH)
        return false;
    for (;;) {
        size_t split = s->p->n_nodes;
        pattern_put(s, OP_SPLIT, 0);
        if (!pattern_parse_sequence(s))
            return false;
        if (s->at == s->end) /* a class consumed the closing brace */
            return false;
        bool is_last = *s->at++ == '}';
        if (is_last) {
            s->p->nodes[split].op = OP_JUMP;
            s->p->nodes[split].at = (uint32_t)split + 1;
            break;
        }
        pattern_put(s, OP_JUMP, jumps);
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

/* Parses to the end of the pattern or, inside braces, to the comma or brace that ends the
 * alternative. */
static bool pattern_parse_sequence(struct parser *s) {
    while (s->at < s->end) {
        if (s->depth > 0 && (*s->at == ',' || *s->at == '}'))
            return true;
        uint32_t c = pattern_take_char(&s->at, s->end);
        if (c == '*')
            pattern_parse_stars(s);
        else if (c == '?')
            pattern_put(s, OP_ANY, 0);
        else if (c == '{' && pattern_brace_end(s->at, s->end)) {
            if (!pattern_parse_braces(s))
                return false;
        } else if (c != '[' || !pattern_parse_class(s))
            pattern_put(s, OP_CHAR, c);
    }
    return true;
}

int pattern_new(struct arena *a, struct str text, enum pattern_bare bare, const char *field,
                struct pattern **ret, struct err *e) {
    if (text.n == 0 || text.n > PATTERN_MAX)
        return err_field(e, field, "%s: must have 1 to %d bytes, got %zu", field, PATTERN_MAX,
                         text.n);
    if (memchr(text.p, '\0', text.n))
        return err_field(e, field, "%s: must not contain NUL", field);
    size_t cap = 3 * text.n + 8; /* a character produces at most three nodes */
    struct pattern *p = arena_zalloc(a, sizeof *p);
    if (!p || !(p->nodes = arena_alloc(a, cap * sizeof *p->nodes)) ||
        !(p->ranges = arena_alloc(a, text.n * sizeof *p->ranges)) ||
        !(p->now.of = arena_alloc(a, cap * sizeof *p->now.of)) ||
        !(p->next.of = arena_alloc(a, cap * sizeof *p->next.of)) ||
        !(p->seen = arena_zalloc(a, cap * sizeof *p->seen)))
        return err_set(e, ERR_OUT_OF_MEMORY, "allocate a pattern: out of memory");
    bool is_bare = !memchr(text.p, '/', text.n);
    size_t anchor = text.p[0] == '/';
    struct parser s = {.p = p, .at = text.p + anchor, .end = text.p + text.n};
    s.start = s.at;
    p->is_for_last_name = is_bare && bare == PATTERN_ANY;
    if (is_bare && bare == PATTERN_VISIBLE) {
        pattern_put(&s, OP_DIRS, 0);
        pattern_put(&s, OP_DIR_NAME, 0);
    }
    if (!pattern_parse_sequence(&s))
        return err_field(e, field, "%s: must close its braces and nest at most %d of them", field,
                         PATTERN_DEPTH);
    pattern_put(&s, OP_END, 0);
    *ret = p;
    return 0;
}

/* Adds a node and every node that is reachable without consuming a character. `is_hidden` means
 * that a name with a leading "." starts here; wildcards do not match that ".". */
static void pattern_add(struct pattern *p, struct states *to, uint32_t first, bool is_hidden) {
    /* A chain of splits can be as long as the pattern, so this function does not recurse. The nodes
     * still to visit form a stack in the upper part of the list. The stack cannot overflow, because
     * each node occurs once. */
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

static bool pattern_class_has(const struct pattern *p, const struct node *node, uint32_t c) {
    for (uint32_t i = 0; i < node->n; i++) {
        const struct range *r = &p->ranges[node->at + i];
        if (c >= r->lo && c <= r->hi)
            return !node->is_negated;
    }
    return node->is_negated;
}

/* Returns the successor of a state for a character, or UINT32_MAX if there is none. */
static uint32_t pattern_follow(const struct pattern *p, uint32_t at, uint32_t c) {
    const struct node *node = &p->nodes[at];
    switch (node->op) {
    case OP_CHAR:
        return c == node->at ? at + 1 : UINT32_MAX;
    case OP_ANY:
        return c != '/' ? at + 1 : UINT32_MAX;
    case OP_CLASS:
        return c != '/' && pattern_class_has(p, node, c) ? at + 1 : UINT32_MAX;
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

/* Runs the automaton over the path and leaves the final states in p->now. */
static void pattern_run(struct pattern *p, const char *path, const char *end) {
    p->now.n = 0;
    p->turn++;
    pattern_add(p, &p->now, 0, path < end && *path == '.');
    while (path < end && p->now.n > 0) {
        uint32_t c = pattern_take_char(&path, end);
        bool is_hidden = c == '/' && path < end && *path == '.';
        p->next.n = 0;
        p->turn++;
        for (size_t i = 0; i < p->now.n; i++) {
            uint32_t to = pattern_follow(p, p->now.of[i], c);
            if (to != UINT32_MAX)
                pattern_add(p, &p->next, to, is_hidden);
        }
        struct states done = p->now;
        p->now = p->next;
        p->next = done;
    }
}

bool pattern_matches(struct pattern *p, const char *path) {
    const char *slash = p->is_for_last_name ? strrchr(path, '/') : NULL;
    const char *from = slash ? slash + 1 : path;
    pattern_run(p, from, from + strlen(from));
    for (size_t i = 0; i < p->now.n; i++)
        if (p->nodes[p->now.of[i]].op == OP_END)
            return true;
    return false;
}

bool pattern_leads_into(struct pattern *p, const char *dir) {
    if (p->is_for_last_name)
        return true;
    pattern_run(p, dir, dir + strlen(dir));
    bool leads = false;
    p->next.n = 0;
    p->turn++;
    for (size_t i = 0; i < p->now.n && !leads; i++)
        leads = pattern_follow(p, p->now.of[i], '/') != UINT32_MAX;
    return leads;
}
