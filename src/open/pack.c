#include "open/pack.h"

#include <errno.h>

#include "base/packer.h"

#define OUT_BYTES 65536
#define ARENA_BYTES 65536
#define ARENA_MAX ((size_t)16 << 20)

static int pack_take_excludes(struct packer *p, const struct open_pack *q, struct err *e) {
    struct arena arena; /* never freed, because the process ends with the archive */
    const char *at = q->excludes;
    if (arena_init(&arena, ARENA_BYTES, ARENA_MAX) < 0)
        return err_set(e, ERR_OUT_OF_MEMORY, "allocate the patterns: out of memory");
    for (uint32_t i = 0; i < q->n_excludes; i++, at += strlen(at) + 1)
        if (packer_exclude(p, &arena, str_of(at), e) < 0)
            return -(int)e->code;
    return 0;
}

static int pack_fail(const struct packer *p, int r, struct err *e) {
    static const struct {
        enum err_code code;
        const char *what;
    } rows[] = {
        [PACKER_SPECIAL] = {ERR_TREE_INVALID, "is neither a file, a directory nor a symlink"},
        [PACKER_LEADS_OUT] = {ERR_TREE_INVALID, "is a symlink that leaves the tree"},
        [PACKER_UNREADABLE] = {ERR_FILE_DENIED,
                               "is a file or directory that the caller cannot read"},
        [PACKER_SHORT] = {ERR_FILE_CHANGED, "shrank or failed while it was read"},
    };
    if (r == -EPIPE)
        return err_set(e, ERR_GUEST_LOST, "copy %.100s: the sandbox stopped reading",
                       p->member.path);
    if (r < 0)
        return err_sys(e, ERR_LIMIT_REACHED, -r, "copy %.100s", p->member.path);
    return err_set(e, rows[r].code, "%.100s %s", p->member.path, rows[r].what);
}

int pack_source(int source, bool is_file, const struct open_pack *q, int pipe, struct err *e) {
    struct packer *p = calloc(1, sizeof *p);
    struct buf out;
    if (!p)
        return err_set(e, ERR_OUT_OF_MEMORY, "pack the tree: out of memory");
    buf_init(&out, OUT_BYTES + PACKER_HEADERS);
    p->mode_mask = q->head.flags & OPEN_PRIVATE ? 0600 : 07777;
    p->refuses_ways_out = true; /* has_owners stays false: host uids mean nothing inside */
    if (pack_take_excludes(p, q, e) < 0)
        return -(int)e->code; /* not freed, because the process ends */
    int r = packer_begin(p, source, is_file ? q->name : NULL);
    if (r == 0)
        r = packer_write(p, &out, pipe);
    return r == PACKER_END ? 0 : pack_fail(p, r, e);
}
