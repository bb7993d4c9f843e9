/* Packs a local tree as a tar stream. Omits and reports what a sandbox would refuse: special files,
 * and links that lead out of the tree. Also reports a file that could not be read completely, which
 * is filled up with zeros. */
#include <errno.h>
#include <fcntl.h>

#include "base/packer.h"
#include "cli/cli.h"

#define OUT_BYTES ((size_t)256 * 1024)

struct pack {
    struct cli *cli;
    struct progress *progress;
    char *root;
    struct packer packer;
    struct buf out;
    bool is_over;
    uint64_t left_out;
};

static void left_out(struct pack *k, const char *why) {
    k->left_out++;
    progress_end(k->progress);
    cli_complain("left out %s/%s: %s", cli_clean(k->cli, k->root),
                 cli_clean(k->cli, k->packer.member.path), why);
}

/* Starts the archive from the beginning. Also called when the upload restarts. */
static int pack_begin(struct pack *k) {
    packer_done(&k->packer);
    buf_clear(&k->out);
    k->is_over = false;
    k->left_out = 0;
    k->packer = (struct packer){.mode_mask = 0777, .refuses_ways_out = true, .has_start = true};
    int root = open(k->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return packer_begin(&k->packer, root < 0 ? -errno : root, NULL);
}

static int put_next(struct pack *k) {
    int r = packer_next(&k->packer, &k->out);
    progress_at(k->progress, k->packer.total_bytes);
    if (r == PACKER_SPECIAL)
        left_out(k, "it is neither file, directory nor link");
    else if (r == PACKER_LEADS_OUT)
        left_out(k, "the link leads outside");
    else if (r == PACKER_UNREADABLE)
        left_out(k, strerror(k->packer.error));
    else if (r == PACKER_SHORT)
        left_out(k, k->packer.error ? strerror(k->packer.error) : "it shrank, and ends in zeros");
    k->is_over = r == PACKER_END;
    return MIN(r, 0);
}

struct pack *pack_new(struct cli *cli, const char *root, struct progress *p) {
    struct pack *k = cli_alloc(cli, sizeof *k);
    k->cli = cli;
    k->progress = p;
    k->root = cli_text(cli, "%s", root);
    k->packer.file = k->packer.walk.root = -1;
    for (size_t n = strlen(k->root); n > 1 && k->root[n - 1] == '/'; n--)
        k->root[n - 1] = '\0';
    buf_init(&k->out, OUT_BYTES + PACKER_HEADERS);
    return k;
}

ssize_t pack_source(void *user, uint64_t offset, void *into, size_t n) {
    struct pack *k = user;
    int r = offset == 0 ? pack_begin(k) : 0;
    while (r == 0 && buf_len(&k->out) < n && !k->is_over && buf_available(&k->out) > PACKER_HEADERS)
        r = put_next(k);
    if (r < 0)
        return r;
    n = MIN(n, buf_len(&k->out));
    memcpy(into, buf_data(&k->out), n);
    buf_consume(&k->out, n);
    return (ssize_t)n;
}

uint64_t pack_left_out(const struct pack *k) {
    return k->left_out;
}

void pack_free(struct pack *k) {
    packer_done(&k->packer);
    buf_done(&k->out);
}
