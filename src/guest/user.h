/* user — who a program or a file operation runs as, by the sandbox's own /etc/passwd and /etc/group.
 *
 * Both files belong to the sandbox and are hostile: they are opened without following into devices or
 * FIFOs and read up to USER_FILE_MAX. No name service is asked. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define USER_FILE_MAX 1048576
#define USER_GROUPS_MAX 64

struct user {
    uint32_t uid;
    uint32_t gid;
    uint32_t groups[USER_GROUPS_MAX];
    uint32_t n_groups;
    char name[65];
    char home[256]; /* empty: none known */
    char shell[256];
};

/* A file as it was when it was read; all 0: it was not there. */
struct user_file {
    uint64_t device, inode, size;
    int64_t changed_s, changed_ns;
};

/* The last one that was found, with what it was read from. It holds while neither file has changed. */
struct user_cache {
    char name[65];
    bool is_known;
    struct user_file files[2];
    struct user user;
};

/* A name or a number; empty: whoever the guest itself is. USER_NOT_FOUND. */
MUST_USE int user_find(struct user_cache *cache, struct user *u, struct str name, struct err *e);

/* The names of a uid or gid, for listings; empty when there is none. `cache` holds one file at a time. */
struct user_names {
    char *passwd;
    size_t passwd_n;
    char *group;
    size_t group_n;
};
void user_names_load(struct user_names *n);
struct str user_name_of(const struct user_names *n, uint32_t uid);
struct str user_group_of(const struct user_names *n, uint32_t gid);

/* What the guest holds and its programs must not. */
struct privileges {
    uint64_t bounding; /* capabilities in the bounding set */
    bool can_drop;     /* CAP_SETPCAP is there */
    bool is_filtered;  /* a system call filter is in force, so programs get the second one */
};
void privileges_read(struct privileges *p);
/* Becomes `u` for good: groups, ids, capabilities. Raw system calls alone, so that it works after vfork.
 * -errno. */
MUST_USE int user_become(const struct user *u, const struct privileges *p);
