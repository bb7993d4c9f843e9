/* fuzz-replay CORPUS... runs every file of CORPUS/TARGET/ through its fuzzer and prints TAP.
 *
 * A fault ends the process, so the plan is not complete; the last line names the file. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#define TARGET(name) int fuzz_##name(const uint8_t *data, size_t size);
#include "targets.def"
#undef TARGET

static const struct target {
    const char *name;
    int (*run)(const uint8_t *data, size_t size);
} targets[] = {
#define TARGET(name) {#name, fuzz_##name},
#include "targets.def"
#undef TARGET
};

#define N_TARGETS (sizeof targets / sizeof targets[0])

/* Copies the file into memory of exactly its size, so that reading past the end is noticed. */
static void replay_file(const struct target *t, int fd) {
    off_t size = lseek(fd, 0, SEEK_END);
    CHECK(size >= 0);
    uint8_t *bytes = malloc((size_t)size + (size == 0));
    CHECK(bytes && pread(fd, bytes, (size_t)size, 0) == size);
    t->run(bytes, (size_t)size);
    free(bytes);
}

static unsigned replay_dir(const struct target *t, const char *corpus) {
    char path[PATH_MAX];
    unsigned n = 0;
    snprintf(path, sizeof path, "%s/%s", corpus, t->name);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0);
        printf("# %s/%s\n", path, entry->d_name);
        fflush(stdout);
        replay_file(t, fd);
        close(fd);
        n++;
    }
    if (dir)
        closedir(dir);
    return n;
}

int main(int argc, char **argv) {
    int bad = 0;
    printf("1..%zu\n", N_TARGETS);
    for (size_t i = 0; i < N_TARGETS; i++) {
        unsigned n = 0;
        for (int a = 1; a < argc; a++)
            n += replay_dir(&targets[i], argv[a]);
        printf("%sok %zu - %s: %u files\n", n > 0 ? "" : "not ", i + 1, targets[i].name, n);
        bad |= n == 0;
    }
    return bad;
}
