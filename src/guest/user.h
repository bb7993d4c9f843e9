/* user — the users of the sandbox, from its own /etc/passwd and /etc/group. No name service is asked.
 *
 * Both files are hostile input: the guest reads them only if they are regular files, and at most
 * USER_FILE_MAX bytes of each. */
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
    char home[256]; /* empty: unknown */
    char shell[256];
};

/* Identifies the version of a file that was read; all 0: there was no file. */
struct user_file {
    uint64_t device, inode, size;
    int64_t changed_s, changed_ns;
};

/* The last result of user_find. It is valid while neither file has changed. */
struct user_cache {
    char name[65];
    bool is_known;
    struct user_file files[2];
    struct user user;
};

/* Finds a user by name or number. An empty name stands for the user that the guest runs as. Fails
 * with USER_NOT_FOUND. */
MUST_USE int user_find(struct user_cache *cache, struct user *u, struct str name, struct err *e);

/* Both files, to look up the names of uids and gids. A name is empty when there is none. */
struct user_names {
    char *passwd;
    size_t passwd_n;
    char *group;
    size_t group_n;
};
/* Loads both files. Nothing frees the memory, because only children that exit soon call this. */
void user_names_load(struct user_names *n);
struct str user_name_of(const struct user_names *n, uint32_t uid);
struct str user_group_of(const struct user_names *n, uint32_t gid);

/* Privileges that the guest has and its programs must not have. */
struct privileges {
    uint64_t bounding; /* the capability bounding set */
    bool can_drop;     /* the guest has CAP_SETPCAP */
    bool is_filtered;  /* the guest runs under a seccomp filter, so programs get a stricter one */
};
void privileges_read(struct privileges *p);
/* Changes to user `u` permanently: groups, ids and capabilities. Safe after vfork, because it makes
 * raw system calls only. Fails with -errno. */
MUST_USE int user_become(const struct user *u, const struct privileges *p);
