#include "base/failpoint.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
#define FAILPOINT(id, name) name,
#include "base/failpoints.def"
#undef FAILPOINT
};

/* The armed failpoint, and how many passes remain until it kills the process. failpoint_setup sets
 * it before the loop runs. */
static struct {
    int id;
    unsigned left;
    _Bool file_chunks;
    const char *file_hold;
} armed = {.id = -1};

const char *failpoint_name(enum failpoint_id id) {
    return names[id];
}

_Bool failpoint_setup(void) {
    const char *text = getenv("BERM_FAILPOINT");
    armed.file_chunks = getenv("BERM_FILE_CHUNKS") != NULL;
    armed.file_hold = getenv("BERM_FILE_HOLD");
    if (!text || !*text)
        return 1;
    size_t n = strcspn(text, ":");
    for (int i = 0; i < FAILPOINT_COUNT; i++)
        if (strlen(names[i]) == n && memcmp(names[i], text, n) == 0) {
            armed.id = i;
            armed.left = text[n] ? (unsigned)strtoul(text + n + 1, NULL, 10) : 1;
            return armed.left > 0;
        }
    return 0;
}

_Bool failpoint_file_chunks(void) {
    return armed.file_chunks;
}

void failpoint_file_hold(void) {
    while (armed.file_hold && access(armed.file_hold, F_OK) == 0)
        usleep(2000);
}

void failpoint(enum failpoint_id id) {
    if (armed.id != (int)id || --armed.left > 0)
        return;
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}
