#include "core/guest/guest_files.h"

#include "core/guest/guest_field.h"
#include "core/guest/guest_files_read.h"
#include "core/guest/guest_link_impl.h"

/* --- requests: what each method takes besides its path or handle --- */

static void files_put_read_lines(struct json_out *o, const struct guest_file_request *r) {
    json_put_u64(o, "first_line", r->read_lines.first_line);
    json_put_u64(o, "max_lines", r->read_lines.max_lines);
    json_put_u64(o, "max_bytes", r->read_lines.max_bytes);
}

static void files_put_read_chunk(struct json_out *o, const struct guest_file_request *r) {
    json_put_u64(o, "offset", r->read_chunk.offset);
    json_put_u64(o, "max_bytes", r->read_chunk.max_bytes);
}

static void files_put_write_chunk(struct json_out *o, const struct guest_file_request *r) {
    json_put_u64(o, "offset", r->write_chunk.offset);
    json_key(o, "data_b64");
    json_base64(o, r->write_chunk.data.p, r->write_chunk.data.n);
}

static void files_put_mkdir(struct json_out *o, const struct guest_file_request *r) {
    if (r->make.has_mode)
        json_put_u64(o, "mode", r->make.mode);
    json_put_bool(o, "make_parents", r->make.make_parents);
}

static void files_put_write(struct json_out *o, const struct guest_file_request *r) {
    files_put_mkdir(o, r);
    json_put_bool(o, "must_not_exist", r->make.must_not_exist);
}

static void files_put_commit(struct json_out *o, const struct guest_file_request *r) {
    json_put_u64(o, "size_bytes", r->commit.size_bytes);
}

static void files_put_list(struct json_out *o, const struct guest_file_request *r) {
    json_put_u64(o, "depth", r->list.depth);
    json_put_u64(o, "max_entries", r->list.max_entries);
    if (r->list.page_token.n == 0)
        return;
    json_key(o, "page_token");
    json_base64(o, r->list.page_token.p, r->list.page_token.n);
}

static void files_put_stat(struct json_out *o, const struct guest_file_request *r) {
    json_put_bool(o, "follow", r->stat.follow);
}

static void files_put_remove(struct json_out *o, const struct guest_file_request *r) {
    json_put_bool(o, "recursive", r->remove.recursive);
    json_put_bool(o, "missing_ok", r->remove.missing_ok);
}

static void files_put_rename(struct json_out *o, const struct guest_file_request *r) {
    guest_field_put_path(o, "new_path", &r->rename.new_path);
    json_put_bool(o, "replace", r->rename.replace);
    json_put_bool(o, "make_parents", r->rename.make_parents);
}

static void files_put_edit(struct json_out *o, const struct guest_file_request *r) {
    json_key(o, "edits");
    json_open(o, '[');
    for (size_t i = 0; i < r->edit.n_edits; i++) {
        const Berm__V1__TextEdit *edit = r->edit.edits[i];
        json_open(o, '{');
        json_key(o, "old_b64");
        json_base64(o, edit->old_text, strlen(edit->old_text));
        json_key(o, "new_b64");
        json_base64(o, edit->new_text, strlen(edit->new_text));
        json_put_bool(o, "replace_all", edit->replace_all);
        json_close(o, '}');
    }
    json_close(o, ']');
}

static void files_put_grep(struct json_out *o, const struct guest_file_request *r) {
    json_put_str(o, "pattern", str_of(r->grep.pattern));
    json_put_bool(o, "regex", r->grep.regex);
    json_put_bool(o, "ignore_case", r->grep.ignore_case);
    if (r->grep.glob[0] != '\0')
        json_put_str(o, "glob", str_of(r->grep.glob));
    json_put_u64(o, "max_matches", r->grep.max_matches);
    json_put_u64(o, "before_lines", r->grep.before_lines);
    json_put_u64(o, "after_lines", r->grep.after_lines);
}

static void files_put_glob(struct json_out *o, const struct guest_file_request *r) {
    json_put_str(o, "pattern", str_of(r->glob.pattern));
    json_put_bool(o, "all_types", r->glob.all_types);
    json_put_u64(o, "max_matches", r->glob.max_matches);
}

static void files_put_watch(struct json_out *o, const struct guest_file_request *r) {
    json_put_bool(o, "recursive", r->watch.recursive);
    json_put_bool(o, "include_info", r->watch.include_info);
}

static void files_put_pack(struct json_out *o, const struct guest_file_request *r) {
    json_key(o, "excludes");
    json_open(o, '[');
    for (size_t i = 0; i < r->pack.n_excludes; i++)
        json_str(o, str_of(r->pack.excludes[i]));
    json_close(o, ']');
}

/* --- the methods --- */

static const struct {
    const char *name;
    bool takes_handle; /* the method takes a handle instead of a path and a user */
    /* NULL: no further members. */
    void (*put)(struct json_out *o, const struct guest_file_request *r);
} methods[] = {
    [GUEST_READ] = {"read", false, NULL},
    [GUEST_READ_LINES] = {"read_lines", false, files_put_read_lines},
    [GUEST_READ_CHUNK] = {"read_chunk", true, files_put_read_chunk},
    [GUEST_WRITE] = {"write", false, files_put_write},
    [GUEST_WRITE_CHUNK] = {"write_chunk", true, files_put_write_chunk},
    [GUEST_COMMIT] = {"commit", true, files_put_commit},
    [GUEST_LIST] = {"list", false, files_put_list},
    [GUEST_STAT] = {"stat", false, files_put_stat},
    [GUEST_MKDIR] = {"mkdir", false, files_put_mkdir},
    [GUEST_REMOVE] = {"remove", false, files_put_remove},
    [GUEST_RENAME] = {"rename", false, files_put_rename},
    [GUEST_EDIT] = {"edit", false, files_put_edit},
    [GUEST_GREP] = {"grep", false, files_put_grep},
    [GUEST_GLOB] = {"glob", false, files_put_glob},
    [GUEST_WATCH] = {"watch", false, files_put_watch},
    [GUEST_PACK] = {"pack", false, files_put_pack},
    [GUEST_UNPACK] = {"unpack", false, NULL},
};

/* Returns the range within which the answer to `r` must stay. */
static struct guest_bound files_bound_of(const struct guest_file_request *r) {
    switch ((int)r->method) {
    case GUEST_READ_LINES:
        return (struct guest_bound){.max_bytes = r->read_lines.max_bytes};
    case GUEST_READ_CHUNK:
        return (struct guest_bound){.max_bytes = r->read_chunk.max_bytes};
    case GUEST_WRITE_CHUNK:
        return (struct guest_bound){r->write_chunk.offset, r->write_chunk.data.n};
    default:
        return (struct guest_bound){0};
    }
}

void guest_files_ask(struct guest_link *l, const struct guest_file_request *r,
                     struct guest_wait *w) {
    struct json_out *o = guest_link_ask(l, methods[r->method].name);
    if (methods[r->method].takes_handle) {
        json_put_u64(o, "handle", r->handle);
    } else {
        guest_field_put_path(o, "path", &r->path);
        if (r->user && r->user[0] != '\0')
            json_put_str(o, "user", str_of(r->user));
    }
    if (methods[r->method].put)
        methods[r->method].put(o, r);
    w->read = guest_files_read;
    w->method = r->method;
    w->bound = files_bound_of(r);
    guest_link_send(l, NULL, 0, w);
}

void guest_files_close(struct guest_link *l, uint64_t handle) {
    json_put_u64(guest_link_ask(l, "close"), "handle", handle);
    guest_link_send(l, NULL, 0, NULL);
}

void guest_files_unwatch(struct guest_link *l, uint64_t watch_id) {
    json_put_u64(guest_link_ask(l, "unwatch"), "watch_id", watch_id);
    guest_link_send(l, NULL, 0, NULL);
}
