#include "core/guest/guest_files_read.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "core/guest/guest_field.h"

/* These bounds are the same as in guest.schema.json. */
#define ENTRIES_MAX 10000
#define UNREADABLE_MAX 100
#define MATCHES_MAX 10000
#define AROUND_MAX 20

/* The argument of each reader function; `into` is zeroed. */
struct result {
    const struct json *object;
    struct arena *arena;
    struct guest_bound bound; /* range of the request */
    const int *fds;
    size_t n_fds;
    struct guest_file_answer *into;
};

static int files_read_member_info(const struct result *r, struct err *e) {
    return guest_field_info(json_get(r->object, "info"), r->arena, &r->into->info, e);
}

static int files_read_handle(const struct result *r, struct err *e) {
    return guest_field_id(r->object, "handle", &r->into->handle, e);
}

static int files_read_opened(const struct result *r, struct err *e) {
    return files_read_handle(r, e) < 0 || files_read_member_info(r, e) < 0 ? -(int)e->code : 0;
}

static int files_read_lines(const struct result *r, struct err *e) {
    struct guest_file_answer *f = r->into;
    if (files_read_opened(r, e) < 0 ||
        guest_field_u64(r->object, "offset", &f->read_lines.offset, e) < 0 ||
        guest_field_u64(r->object, "length", &f->read_lines.length, e) < 0 ||
        guest_field_u64(r->object, "next_line", &f->read_lines.next_line, e) < 0 ||
        guest_field_u64(r->object, "total_lines", &f->read_lines.total_lines, e) < 0 ||
        guest_field_bool(r->object, "total_truncated", &f->read_lines.total_truncated, e) < 0)
        return -(int)e->code;
    if (f->read_lines.length > r->bound.max_bytes ||
        f->read_lines.offset > (uint64_t)INT64_MAX - f->read_lines.length)
        return guest_field_bad(e, "length");
    return 0;
}

static int files_read_chunk(const struct result *r, struct err *e) {
    struct guest_file_answer *f = r->into;
    if (guest_field_bytes(r->object, "data_b64", (size_t)r->bound.max_bytes, r->arena,
                          &f->read_chunk.data, e) < 0 ||
        guest_field_bool(r->object, "end", &f->read_chunk.is_end, e) < 0)
        return -(int)e->code;
    /* Refuse this, because a reader would repeat its request forever. */
    return f->read_chunk.data.n == 0 && !f->read_chunk.is_end ? guest_field_bad(e, "end") : 0;
}

static int files_read_write_chunk(const struct result *r, struct err *e) {
    uint64_t next = r->bound.offset + r->bound.max_bytes;
    /* Without next_offset, the guest accepted all bytes. A wrong answer harms only the guest's own
     * file. */
    if (json_get(r->object, "next_offset") &&
        guest_field_u64(r->object, "next_offset", &next, e) < 0)
        return -(int)e->code;
    uint64_t taken = next - r->bound.offset;
    if (next < r->bound.offset || taken > r->bound.max_bytes ||
        (taken == 0 && r->bound.max_bytes > 0))
        return guest_field_bad(e, "next_offset");
    r->into->write_chunk.n_taken = (size_t)taken;
    return 0;
}

static int files_read_made(const struct result *r, struct err *e) {
    if (files_read_member_info(r, e) < 0)
        return -(int)e->code;
    return guest_field_bool(r->object, "created", &r->into->created, e);
}

static int files_read_infos(const struct result *r, const char *key, size_t max, size_t *ret_n,
                            const struct guest_file_info **ret, struct err *e) {
    const struct json *list = guest_field_list(r->object, key, max, e);
    if (!list)
        return -(int)e->code;
    size_t n = 0;
    struct guest_file_info *infos =
        arena_alloc(r->arena, MAX(list->items.count, (size_t)1) * sizeof *infos);
    if (!infos)
        return guest_field_no_memory(e);
    JSON_FOR_EACH(it, list)
    if (guest_field_info(it, r->arena, &infos[n++], e) < 0)
        return -(int)e->code;
    *ret = infos;
    *ret_n = n;
    return 0;
}

static int files_read_list(const struct result *r, struct err *e) {
    struct guest_file_answer *f = r->into;
    if (files_read_infos(r, "entries", ENTRIES_MAX, &f->list.n_entries, &f->list.entries, e) < 0 ||
        guest_field_texts(r->object, "unreadable", UNREADABLE_MAX, r->arena, &f->list.n_unreadable,
                          &f->list.unreadable, e) < 0)
        return -(int)e->code;
    return guest_field_bytes(r->object, "next_page_token", GUEST_TOKEN_BYTES, r->arena,
                             &f->list.next_page_token, e);
}

static int files_read_remove(const struct result *r, struct err *e) {
    return guest_field_u64(r->object, "removed", &r->into->remove.removed, e);
}

static int files_read_edit(const struct result *r, struct err *e) {
    if (guest_field_u64(r->object, "replacements", &r->into->edit.replacements, e) < 0)
        return -(int)e->code;
    return files_read_member_info(r, e);
}

static int files_read_truncated(const struct result *r, enum guest_truncated *ret, struct err *e) {
    static const char *const reasons[] = {"", "matches", "size", "work"};
    int reason = 0;
    if (guest_field_word(r->object, "truncated", reasons, COUNT_OF(reasons), &reason, e) < 0)
        return -(int)e->code;
    *ret = (enum guest_truncated)reason;
    return 0;
}

static int files_read_match(const struct json *node, struct arena *a, struct guest_match *ret,
                            struct err *e) {
    *ret = (struct guest_match){0};
    if (guest_field_path(node, "path", a, &ret->path, e) < 0 ||
        guest_field_u64(node, "line", &ret->line, e) < 0 ||
        guest_field_text(node, "text", &ret->text, e) < 0 ||
        guest_field_bool(node, "text_truncated", &ret->text_truncated, e) < 0 ||
        guest_field_texts(node, "before", AROUND_MAX, a, &ret->n_before, &ret->before, e) < 0)
        return -(int)e->code;
    return guest_field_texts(node, "after", AROUND_MAX, a, &ret->n_after, &ret->after, e);
}

static int files_read_matches(const struct result *r, struct err *e) {
    struct guest_file_answer *f = r->into;
    const struct json *list = guest_field_list(r->object, "matches", MATCHES_MAX, e);
    if (!list)
        return -(int)e->code;
    struct guest_match *matches =
        arena_alloc(r->arena, MAX(list->items.count, (size_t)1) * sizeof *matches);
    if (!matches)
        return guest_field_no_memory(e);
    f->grep.matches = matches;
    JSON_FOR_EACH(it, list)
    if (files_read_match(it, r->arena, &matches[f->grep.n_matches++], e) < 0)
        return -(int)e->code;
    return 0;
}

static int files_read_grep(const struct result *r, struct err *e) {
    struct guest_file_answer *f = r->into;
    if (files_read_matches(r, e) < 0 || files_read_truncated(r, &f->grep.truncated, e) < 0 ||
        guest_field_u64(r->object, "files", &f->grep.files, e) < 0 ||
        guest_field_u64(r->object, "binary_files", &f->grep.binary_files, e) < 0)
        return -(int)e->code;
    return guest_field_u64(r->object, "unreadable", &f->grep.unreadable, e);
}

static int files_read_glob(const struct result *r, struct err *e) {
    struct guest_file_answer *f = r->into;
    if (files_read_infos(r, "matches", MATCHES_MAX, &f->glob.n_matches, &f->glob.matches, e) < 0 ||
        files_read_truncated(r, &f->glob.truncated, e) < 0)
        return -(int)e->code;
    return guest_field_u64(r->object, "unreadable", &f->glob.unreadable, e);
}

static int files_read_watch(const struct result *r, struct err *e) {
    if (guest_field_id(r->object, "watch_id", &r->into->watch_id, e) < 0)
        return -(int)e->code;
    return files_read_member_info(r, e);
}

/* Reads the pipe of a tree. Without a descriptor, the bytes of the tree travel in chunks. */
static int files_read_tree(const struct result *r, int access, struct err *e) {
    struct stat st;
    if (files_read_handle(r, e) < 0)
        return -(int)e->code;
    if (r->n_fds == 0)
        return 0;
    int flags = r->n_fds == 1 ? fcntl(r->fds[0], F_GETFL) : -1;
    if (flags < 0 || (flags & O_ACCMODE) != access || fstat(r->fds[0], &st) < 0 ||
        !S_ISFIFO(st.st_mode))
        return guest_field_bad(e, "pipe");
    return 0;
}

static int files_read_pack(const struct result *r, struct err *e) {
    return files_read_tree(r, O_RDONLY, e);
}

static int files_read_unpack(const struct result *r, struct err *e) {
    return files_read_tree(r, O_WRONLY, e);
}

int guest_files_read(const struct guest_wait *w, const struct json *result, struct arena *a,
                     struct guest_answer *ret, struct err *e) {
    static int (*const readers[])(const struct result *r, struct err *e) = {
        [GUEST_READ] = files_read_opened,
        [GUEST_READ_LINES] = files_read_lines,
        [GUEST_READ_CHUNK] = files_read_chunk,
        [GUEST_WRITE] = files_read_handle,
        [GUEST_WRITE_CHUNK] = files_read_write_chunk,
        [GUEST_COMMIT] = files_read_made,
        [GUEST_LIST] = files_read_list,
        [GUEST_STAT] = files_read_member_info,
        [GUEST_MKDIR] = files_read_made,
        [GUEST_REMOVE] = files_read_remove,
        [GUEST_RENAME] = files_read_member_info,
        [GUEST_EDIT] = files_read_edit,
        [GUEST_GREP] = files_read_grep,
        [GUEST_GLOB] = files_read_glob,
        [GUEST_WATCH] = files_read_watch,
        [GUEST_PACK] = files_read_pack,
        [GUEST_UNPACK] = files_read_unpack,
    };
    struct guest_file_answer *into = arena_zalloc(a, sizeof *into);
    if (!into)
        return guest_field_no_memory(e);
    into->method = (enum guest_file_method)w->method;
    struct result r = {result, a, w->bound, ret->fds, ret->n_fds, into};
    if (readers[w->method](&r, e) < 0)
        return -(int)e->code;
    ret->file = into;
    return 0;
}
