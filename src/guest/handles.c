#include "guest/handles.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>

void handles_init(struct handles *hs) {
    *hs = (struct handles){0};
    for (size_t i = 0; i < HANDLES_MAX; i++)
        hs->of[i].fd = hs->of[i].dir = -1;
}

struct handle *handles_add(struct handles *hs) {
    for (size_t i = 0; i < HANDLES_MAX; i++) {
        if (hs->of[i].id != 0)
            continue;
        hs->of[i] = (struct handle){.id = ++hs->last_id, .fd = -1, .dir = -1};
        return &hs->of[i];
    }
    return NULL;
}

struct handle *handles_find(struct handles *hs, uint64_t id) {
    for (size_t i = 0; id != 0 && i < HANDLES_MAX; i++)
        if (hs->of[i].id == id)
            return &hs->of[i];
    return NULL;
}

void handles_close(struct handle *h) {
    if (h->archive)
        h->close_archive(h->archive);
    if (h->temp[0] && h->dir >= 0) {
        setfsuid(h->uid); /* unlink with the rights of the user that created the file */
        unlinkat(h->dir, h->temp, 0);
        setfsuid(geteuid());
    }
    if (h->fd >= 0)
        close(h->fd);
    if (h->dir >= 0)
        close(h->dir);
    free(h->path);
    *h = (struct handle){.fd = -1, .dir = -1};
}

void handles_close_all(struct handles *hs) {
    for (size_t i = 0; i < HANDLES_MAX; i++)
        if (hs->of[i].id != 0)
            handles_close(&hs->of[i]);
}
