#include "base/packer.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "harness.h"

#define TEXT_MAX 16384
#define OWNER_NOBODY 65534

/* A tree and a packer with so little buffer space that an event comes between any two members. The
 * tests run inside the tree, so that names are short. */
struct fixture {
    char root[32];
    int before; /* the previous working directory */
    struct packer packer;
    struct buf out, archive;
    char reported[TEXT_MAX];
};

static void begin(struct fixture *f) {
    memset(f, 0, sizeof *f);
    strcpy(f->root, "/tmp/berm-packer-XXXXXX");
    CHECK(mkdtemp(f->root) != NULL);
    f->before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(chdir(f->root), 0);
    f->packer.mode_mask = 0777;
    buf_init(&f->out, PACKER_HEADERS + TAR_BLOCK);
    buf_init(&f->archive, (size_t)1 << 24);
}

static void begin_packer(struct fixture *f) {
    int root = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(packer_begin(&f->packer, root, NULL), 0);
}

static int on_remove(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void end(struct fixture *f) {
    packer_done(&f->packer);
    buf_done(&f->out);
    buf_done(&f->archive);
    CHECK_INT(fchdir(f->before), 0);
    CHECK_INT(nftw(f->root, on_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
    close(f->before);
}

static void put_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK_INT(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* Takes and records one event. */
static int step(struct fixture *f) {
    static const char *const names[] = {[PACKER_SPECIAL] = "special",
                                        [PACKER_LEADS_OUT] = "leads out",
                                        [PACKER_UNREADABLE] = "unreadable",
                                        [PACKER_SHORT] = "short"};
    int r = packer_next(&f->packer, &f->out);
    CHECK_INT(buf_append(&f->archive, buf_data(&f->out), buf_len(&f->out)), 0);
    buf_clear(&f->out);
    size_t n = strlen(f->reported);
    if (r > PACKER_END)
        snprintf(f->reported + n, sizeof f->reported - n, "%s: %s\n", f->packer.member.path,
                 names[r]);
    return r;
}

static int run(struct fixture *f) {
    int r;
    while ((r = step(f)) > 0 && r != PACKER_END)
        continue;
    return r;
}

/* Lists the members, one per line: path, target, and the size and last byte of the contents. */
static const char *list(const struct fixture *f) {
    static char text[TEXT_MAX];
    struct tar_in tar;
    struct str input = {(const char *)buf_data(&f->archive), buf_len(&f->archive)}, data;
    size_t n = 0;
    int event;
    text[0] = '\0';
    tar_in_init(&tar);
    while ((event = tar_in_next(&tar, &input, &data)) > 0 && event != TAR_END) {
        const struct tar_member *m = &tar.member;
        if (event == TAR_MEMBER)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%s\n", m->path,
                                  m->target[0] ? " -> " : "", m->target);
        else if (event == TAR_DATA)
            n += (size_t)snprintf(text + n - 1, sizeof text - n, " %zu %02x\n", data.n,
                                  (unsigned char)data.p[data.n - 1]) -
                 1;
    }
    CHECK_INT(event, TAR_END);
    CHECK(tar_in_is_whole(&tar));
    tar_in_done(&tar);
    return text;
}

TEST(packer_packs_names_of_any_bytes_in_order) {
    struct fixture f;
    begin(&f);
    put_file("new\nline", "a");
    put_file("\xff\xfe", "b");
    put_file("d.txt", "");
    put_file("d0", "");
    CHECK_INT(mkdir("d", 0750), 0);
    put_file("d/x", "c");
    CHECK_INT(symlink("../\xff", "d/link"), 0);
    CHECK_INT(link("d.txt", "hard"), 0);
    begin_packer(&f);
    CHECK_INT(run(&f), PACKER_END);
    CHECK_STR(f.reported, "");
    CHECK_STR(list(&f),
              "d/\nd.txt\nd/link -> ../\xff\nd/x 1 63\nd0\nhard\nnew\nline 1 61\n\xff\xfe 1 62\n");
    CHECK_INT(f.packer.files, 7);
    CHECK_INT(f.packer.directories, 1);
    CHECK_INT(f.packer.total_bytes, 3);
    CHECK_INT(f.packer.walk.names_left, WALK_NAMES_MAX);
    CHECK_INT(buf_len(&f.archive) % TAR_BLOCK, 0);
    CHECK_INT(packer_next(&f.packer, &f.out), PACKER_END);
    end(&f);
}

TEST(packer_applies_its_owner_and_mode_options) {
    struct fixture f;
    begin(&f);
    put_file("f", "");
    CHECK_INT(chmod("f", 04751), 0);
    f.packer.mode_mask = 0700;
    f.packer.has_start = true;
    begin_packer(&f);
    CHECK_INT(run(&f), PACKER_END);
    CHECK_STR(list(&f), "./\nf\n");
    CHECK_INT(f.packer.member.mode, 0700);
    CHECK_INT(f.packer.member.uid, 0);
    packer_done(&f.packer);
    CHECK(chown("f", 7, 8) == 0 || geteuid() != 0);
    f.packer = (struct packer){.mode_mask = 07777, .has_owners = true};
    begin_packer(&f);
    CHECK_INT(step(&f), PACKER_FULL);
    CHECK_INT(f.packer.member.uid, geteuid() == 0 ? 7 : geteuid());
    end(&f);
}

TEST(packer_omits_excluded_special_and_outside_entries) {
    struct fixture f;
    struct arena arena;
    struct err e;
    struct sockaddr_un here = {.sun_family = AF_UNIX, .sun_path = "sock"};
    begin(&f);
    CHECK_INT(arena_init(&arena, 4096, 1 << 20), 0);
    CHECK_INT(mkdir("d", 0755), 0);
    put_file("d/a.pyc", "");
    put_file("d/a.py", "");
    CHECK_INT(mkdir("skip", 0755), 0);
    put_file("skip/x", "");
    CHECK_INT(mkfifo("fifo", 0644), 0);
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_INT(bind(sock, (struct sockaddr *)&here, sizeof here), 0);
    close(sock);
    CHECK_INT(symlink("..", "d/in"), 0);
    CHECK_INT(symlink("../..", "d/out"), 0);
    f.packer.refuses_ways_out = true;
    CHECK_INT(packer_exclude(&f.packer, &arena, STR("*.pyc"), &e), 0);
    CHECK_INT(packer_exclude(&f.packer, &arena, STR("/skip"), &e), 0);
    begin_packer(&f);
    CHECK_INT(run(&f), PACKER_END);
    CHECK_STR(list(&f), "d/\nd/a.py\nd/in -> ..\n");
    CHECK_STR(f.reported, "d/out: leads out\nfifo: special\nsock: special\n");
    while (f.packer.n_excludes < PACKER_EXCLUDES_MAX)
        CHECK_INT(packer_exclude(&f.packer, &arena, STR("x"), &e), 0);
    CHECK_INT(packer_exclude(&f.packer, &arena, STR("x"), &e), -ERR_INVALID_ARGUMENT);
    arena_done(&arena);
    end(&f);
}

TEST(packer_tolerates_a_changing_tree) {
    struct fixture f;
    begin(&f);
    CHECK_INT(mkdir("a", 0755), 0);
    put_file("b", "gone before its turn");
    put_file("c", "becomes a directory");
    CHECK_INT(mkdir("d", 0755), 0);
    put_file("d/inside", "");
    CHECK_INT(mkdir("e", 0755), 0);
    put_file("e/inside", "");
    CHECK_INT(mkdir("f", 0755), 0);
    put_file("g", "becomes a FIFO");
    put_file("h", "becomes a link");
    begin_packer(&f);
    CHECK_INT(step(&f), PACKER_FULL); /* a/ */
    put_file("a/new", "met");
    CHECK_INT(unlink("b"), 0);
    CHECK_INT(unlink("c"), 0);
    CHECK_INT(mkdir("c", 0755), 0);
    CHECK_INT(rename("d", "a/d"), 0);
    CHECK_INT(symlink("/", "d"), 0); /* packed as a symlink, not followed */
    CHECK_INT(rename("e", "a/e"), 0);
    CHECK_INT(unlink("g"), 0);
    CHECK_INT(mkfifo("g", 0644), 0);
    CHECK_INT(unlink("h"), 0);
    CHECK_INT(symlink("/", "h"), 0);
    put_file("z", "too late: the names here were read");
    while (step(&f) != PACKER_UNREADABLE)
        continue;
    CHECK_INT(f.packer.error, ENOTDIR); /* for d */
    while (strcmp(f.packer.member.path, "f/") != 0)
        CHECK(step(&f) > 0);
    CHECK_INT(rmdir("f"), 0); /* between reading its header and its names */
    CHECK_INT(run(&f), PACKER_END);
    CHECK_STR(list(&f),
              "a/\na/d/\na/d/inside\na/e/\na/e/inside\na/new 3 74\nc/\nd -> /\nf/\nh -> /\n");
    CHECK_STR(f.reported, "d: unreadable\ng: special\n");
    end(&f);
}

static bool make_mounts(void) {
    return CHECK_INT(unshare(CLONE_NEWNS), 0) &&
           CHECK_INT(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0) &&
           CHECK_INT(mount("tmpfs", "d", "tmpfs", 0, NULL), 0) &&
           CHECK_INT(mount("fifo", "file", NULL, MS_BIND, NULL), 0);
}

/* readdir reports the type below the mount. */
static bool pack_mounts(struct fixture *f) {
    char event[sizeof(struct inotify_event) + NAME_MAX + 1];
    CHECK_INT(mkdir("d", 0755), 0);
    CHECK_INT(mkfifo("fifo", 0644), 0);
    put_file("file", "below");
    if (!make_mounts())
        return false;
    put_file("d/x", "text");
    AUTO_CLOSE int opens = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    CHECK(inotify_add_watch(opens, "fifo", IN_OPEN) > 0);
    begin_packer(f);
    CHECK_INT(run(f), PACKER_END);
    ssize_t while_packed = read(opens, event, sizeof event);
    close(open("file", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    return CHECK_INT(while_packed, -1) && CHECK(read(opens, event, sizeof event) > 0) &&
           CHECK_STR(list(f), "d/\nd/x 4 74\n") &&
           CHECK_STR(f->reported, "fifo: special\nfile: special\n");
}

TEST(packer_does_not_open_a_device_mounted_on_a_file) {
    struct fixture f;
    int status;
    if (geteuid() != 0) {
        test_skip("only root mounts a FIFO on a file");
        return;
    }
    begin(&f);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(pack_mounts(&f) ? 0 : 1);
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    end(&f);
}

TEST(packer_keeps_the_size_of_an_opened_file) {
    struct fixture f;
    begin(&f);
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    put_file("grows", text);
    put_file("shrinks", text);
    begin_packer(&f);
    CHECK_INT(step(&f), PACKER_FULL); /* the header of "grows" */
    CHECK_INT(truncate("grows", 1 << 20), 0);
    while (strcmp(f.packer.member.path, "shrinks") != 0)
        CHECK_INT(step(&f), PACKER_FULL);
    CHECK_INT(truncate("shrinks", 700), 0);
    CHECK_INT(run(&f), PACKER_END);
    CHECK_STR(list(&f), "grows 1999 78\nshrinks 1999 00\n");
    CHECK_STR(f.reported, "shrinks: short\n");
    CHECK_INT(f.packer.error, 0);
    CHECK_INT(f.packer.total_bytes, 1999 + 700);
    end(&f);
}

TEST(packer_reports_unreadable_entries) {
    struct fixture f;
    begin(&f);
    CHECK_INT(chmod(".", 0755), 0);
    put_file("good", "x");
    put_file("secret", "x");
    CHECK_INT(chmod("secret", 0), 0);
    CHECK_INT(mkdir("private", 0), 0);
    CHECK_INT(mkdir("listed", 0744), 0);
    put_file("listed/x", "");
    bool is_root = geteuid() == 0;
    CHECK(!is_root || seteuid(OWNER_NOBODY) == 0);
    begin_packer(&f);
    CHECK_INT(run(&f), PACKER_END);
    CHECK(!is_root || seteuid(0) == 0);
    CHECK_STR(list(&f), is_root ? "good 1 78\nlisted/\nprivate/\n"
                                : "good 1 78\nlisted/\nlisted/x\nprivate/\n");
    CHECK_STR(f.reported, is_root
                              ? "listed/x: unreadable\nprivate: unreadable\nsecret: unreadable\n"
                              : "private: unreadable\nsecret: unreadable\n");
    CHECK_INT(f.packer.error, EACCES);
    CHECK_INT(chmod("private", 0755), 0);
    end(&f);
}

/* A start that cannot be read fails. */
TEST(packer_fails_if_its_start_cannot_be_read) {
    struct fixture f;
    begin(&f);
    CHECK_INT(packer_begin(&f.packer, -EACCES, NULL), -EACCES);
    begin_packer(&f);
    CHECK_INT(chmod(".", 0), 0);
    bool is_root = geteuid() == 0;
    CHECK(!is_root || seteuid(OWNER_NOBODY) == 0);
    CHECK_INT(run(&f), -EACCES);
    CHECK(!is_root || seteuid(0) == 0);
    CHECK_INT(chmod(f.root, 0755), 0);
    end(&f);
}

TEST(packer_bounds_depth_and_names) {
    struct fixture f;
    char name[256], long_name[300];
    begin(&f);
    memset(name, 'd', 255);
    name[255] = '\0';
    AUTO_CLOSE int at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int depth = 0; depth < 15; depth++) { /* 15 * 256 bytes of path with the slashes */
        CHECK_INT(mkdirat(at, name, 0755), 0);
        int next = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    snprintf(long_name, sizeof long_name, "%.254s", name);
    CHECK_INT(mkdirat(at, long_name, 0755), 0);                   /* 4094 bytes and a slash */
    CHECK_INT(mkdirat(at, name, 0755), 0);                        /* one byte too long */
    close(openat(at, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)); /* continues below */
    begin_packer(&f);
    int r, reported = 0;
    while ((r = packer_next(&f.packer, &f.out)) > 0 && r != PACKER_END) {
        buf_clear(&f.out);
        if (r == PACKER_UNREADABLE && ++reported)
            CHECK_INT(f.packer.error, ENAMETOOLONG);
    }
    CHECK_INT(r, PACKER_END);
    CHECK_INT(reported, 1);
    CHECK_INT(f.packer.directories, 16);
    CHECK_INT(f.packer.files, 1);
    packer_done(&f.packer);
    f.packer = (struct packer){.mode_mask = 0777};
    begin_packer(&f);
    f.packer.walk.names_left = 3 * 4096; /* enough for three directories */
    buf_clear(&f.out);
    CHECK_INT(run(&f), -E2BIG);
    CHECK_INT(f.packer.directories, 3);
    /* no tool of the host can remove such a long path */
    CHECK_INT(unlinkat(at, long_name, AT_REMOVEDIR), 0);
    CHECK_INT(unlinkat(at, name, AT_REMOVEDIR), 0);
    end(&f);
}

TEST(packer_packs_one_file) {
    struct fixture f;
    begin(&f);
    put_file("file", "text");
    CHECK_INT(packer_begin(&f.packer, open("file", O_RDONLY | O_CLOEXEC), "other name"), 0);
    CHECK_INT(run(&f), PACKER_END);
    CHECK_STR(list(&f), "other name 4 74\n");
    packer_done(&f.packer);
    f.packer = (struct packer){.mode_mask = 0777};
    CHECK_INT(packer_begin(&f.packer, open("/dev/null", O_RDONLY | O_CLOEXEC), "null"), 0);
    CHECK_INT(step(&f), PACKER_UNREADABLE);
    end(&f);
}

TEST(packer_writes_to_a_nonblocking_pipe) {
    struct fixture f;
    int ends[2];
    begin(&f);
    put_file("large", "");
    CHECK_INT(truncate("large", 1 << 20), 0);
    CHECK_INT(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    pid_t reader = fork();
    if (reader == 0) {
        char some[4096];
        size_t total = 0;
        close(ends[1]);
        fcntl(ends[0], F_SETFL, 0);
        for (ssize_t n; (n = read(ends[0], some, sizeof some)) > 0;)
            total += (size_t)n;
        _exit(total == (1 << 20) + 3 * TAR_BLOCK ? 0 : 1);
    }
    close(ends[0]);
    begin_packer(&f);
    CHECK_INT(packer_write(&f.packer, &f.out, ends[1]), PACKER_END);
    close(ends[1]);
    int status;
    CHECK_INT(waitpid(reader, &status, 0), reader);
    CHECK_INT(status, 0);
    packer_done(&f.packer);

    void (*was)(int) = signal(SIGPIPE, SIG_IGN);
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    f.packer = (struct packer){.mode_mask = 0777};
    begin_packer(&f);
    CHECK_INT(packer_write(&f.packer, &f.out, ends[1]), -EPIPE);
    close(ends[1]);
    signal(SIGPIPE, was);
    end(&f);
}

TEST(packer_survives_memory_running_out) {
    struct fixture f;
    begin(&f);
    CHECK_INT(mkdir("d", 0755), 0);
    put_file("d/\xff", "x");
    bool failed = true;
    for (unsigned n = 1; failed && n < 100; n++) {
        f.packer = (struct packer){.mode_mask = 0777};
        buf_done(&f.out);
        buf_init(&f.out, PACKER_HEADERS + ((size_t)1 << 16));
        begin_packer(&f);
        alloc_fail_at(n);
        int r = packer_next(&f.packer, &f.out);
        failed = alloc_failed();
        alloc_fail_at(0);
        CHECK_INT(r, failed ? -ENOMEM : PACKER_END);
        packer_done(&f.packer);
    }
    CHECK(!failed);
    end(&f);
}
