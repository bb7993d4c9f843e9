/* pack — the child that writes a directory tree as a tar stream, with owners. base/packer.c does the work; this
 * file counts what it skips. */
#include <errno.h>
#include <fcntl.h>

#include "base/packer.h"
#include "guest/files/archive.h"
#include "guest/files/files.h"
#include "guest/files/newfile.h"
#include "guest/params.h"
#include "guest/path.h"

#define OUT_BYTES 65536

struct pack {
    struct packer packer;
    const char *path;
    int out, sock;
    struct buf bytes; /* output that is not written to the pipe yet */
    struct archive_result result;
};

static void pack_run(struct work *w) {
    struct pack *p = w->then_arg;
    struct archive_result *to = &p->result;
    int r;
    while ((r = packer_write(&p->packer, &p->bytes, p->out)) > 0 && r != PACKER_END) {
        to->skipped_special += r == PACKER_SPECIAL;
        to->skipped_unreadable += r != PACKER_SPECIAL;
    }
    if (r == -EPIPE)
        err_set(&to->err, ERR_CANCELLED, "the reader closed the archive");
    else if (r == -E2BIG)
        err_set(&to->err, ERR_LIMIT_REACHED, "the names of a directory must fit into %zu MiB",
                WALK_NAMES_MAX >> 20);
    else if (r < 0)
        path_error(&to->err, -r, "pack", p->path);
    to->files = p->packer.files;
    to->directories = p->packer.directories;
    to->total_bytes = p->packer.total_bytes;
    archive_end(p->sock, to);
}

static int pack_read_excludes(struct work *w, struct pack *p, struct err *e) {
    const struct json *list;
    if (params_node(w->params, "excludes", JSON_ARRAY, &list, e) < 0)
        return -(int)e->code;
    if (!list)
        return 0;
    JSON_FOR_EACH(it, list) {
        if (it->type != JSON_STRING)
            return err_field(e, "excludes", "entries must be strings");
        if (packer_exclude(&p->packer, w->arena, it->text, e) < 0)
            return -(int)e->code;
    }
    return 0;
}

/* Opens a directory or a regular file. */
static int pack_open_source(struct pack *p, struct err *e) {
    int fd = path_open(p->path, O_PATH | O_DIRECTORY, 0);
    bool is_file = fd == -ENOTDIR;
    if (is_file)
        fd = path_open_regular(p->path, e);
    if (is_file && fd < 0)
        return fd;
    int r = packer_begin(&p->packer, fd, is_file ? strrchr(p->path, '/') + 1 : NULL);
    return r < 0 ? path_error(e, -r, "pack", p->path) : 0;
}

int pack_work(struct work *w, struct err *e) {
    char *path;
    struct pack *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, ERR_OUT_OF_MEMORY, "pack: out of memory");
    if (work_path(w, "path", &path, e) < 0 || pack_read_excludes(w, p, e) < 0)
        return -(int)e->code;
    p->path = path;
    p->packer.mode_mask = 07777;
    p->packer.has_owners = true;
    buf_init(&p->bytes, OUT_BYTES + PACKER_HEADERS);
    if (pack_open_source(p, e) < 0 || archive_begin(w, false, &p->out, &p->sock, e) < 0)
        return -(int)e->code;
    w->then = pack_run;
    w->then_arg = p;
    return 0;
}
