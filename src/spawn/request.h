/* request — the protocol of berm-spawn: one fixed-layout message per request and per reply.
 *
 * The socket is SEQPACKET, so a message arrives whole or not at all. Every field has a fixed width.
 * Text is a bounded array that contains a NUL; unused bytes are zero. A message whose size differs
 * from its struct is refused, so a new version is a new struct. There are no pointers, no nested
 * lengths and no host paths: directories are passed as open descriptors. Both ends run on one
 * machine and use its byte order.
 *
 * Replies carry the request's `seq`. The reply to a DESTROY may come after those to later
 * requests. */
#pragma once

#include <stdint.h>

#define SPAWN_VERSION 1
#define SPAWN_ID_MAX 64 /* including the NUL; [a-z0-9-], starts with a letter or digit */
#define SPAWN_MOUNTS_MAX 64
#define SPAWN_LAYERED_MAX 8      /* LAYERED mounts per sandbox; each is a file system of its own */
#define SPAWN_CLAIM_MOUNTS_MAX 8 /* few, because a short message is sent faster */
#define SPAWN_LAYERS_MAX 8
#define SPAWN_TARGET_MAX 256
#define SPAWN_TEXT_MAX 16384 /* argv and environment of PID 1, NUL-terminated strings */
#define SPAWN_STRINGS_MAX 512
#define SPAWN_EXEC_CGROUPS_MAX 16 /* exec cgroups per request */
#define SPAWN_SWEEP_MAX 256       /* ids per SWEEP message */
#define SPAWN_SLOTS 65000         /* uid slots: 65536 * (slot + 3) stays below 2^32 */
#define SPAWN_UID_SPAN 65536u
#define SPAWN_USER_UID 1000u /* uid of `user` inside */

enum spawn_kind {
    SPAWN_HELLO = 1,
    SPAWN_CREATE = 2,
    SPAWN_DESTROY = 3,
    SPAWN_FREEZE = 4,
    SPAWN_THAW = 5,
    SPAWN_LIMITS = 6,
    SPAWN_USAGE = 7,
    SPAWN_EXEC_CGROUP = 8,
    SPAWN_KILL_CGROUP = 9,
    SPAWN_SWEEP = 10,
    SPAWN_CLAIM = 11,
};

/* The step at which a request failed: `step` in the reply. steps.c has the names. */
enum spawn_step {
    STEP_NONE = 0,
    STEP_REQUEST, /* the message: version, size, kind, a field, a descriptor */
    STEP_EXISTS,  /* the id or the slot is in use */
    STEP_FEATURE, /* the kernel lacks a requested feature */
    STEP_STATE_DIR,
    STEP_CGROUP,
    STEP_NETNS,
    STEP_CLONE,
    STEP_IDMAP,
    STEP_LAYER,        /* the writable layer: directory, tmpfs or disk image */
    STEP_DISK_RESERVE, /* the host's disk is too full to start */
    STEP_OVERLAY,
    STEP_TREE, /* a read-only tree of the root */
    STEP_BIND, /* a passed directory */
    STEP_ATTACH_CGROUP,
    STEP_NAMESPACE_LIMITS,
    STEP_IDENTITY,
    STEP_PROC,
    STEP_DEV,
    STEP_MOUNT,
    STEP_ROOT,
    STEP_HOSTNAME,
    STEP_RLIMIT,
    STEP_LANDLOCK,
    STEP_CAPS,
    STEP_SECCOMP,
    STEP_FDS,
    STEP_EXEC,
    STEP_KILL,
    STEP_REMOVE,
    STEP_COUNT,
};
const char *spawn_step_name(uint32_t step);

enum spawn_profile { SPAWN_PROFILE_USER = 1, SPAWN_PROFILE_ROOT = 2 };
enum spawn_root { SPAWN_ROOT_HOST = 1, SPAWN_ROOT_IMAGE = 2 };
enum spawn_layer { SPAWN_LAYER_DISK = 1, SPAWN_LAYER_MEMORY = 2 };
enum spawn_network { SPAWN_NETWORK_NONE = 1 }; /* more values may be added */

enum spawn_create_flags {
    SPAWN_CREATE_STDIO = 1 << 0,       /* three descriptors for 0, 1, 2 of PID 1; else /dev/null */
    SPAWN_CREATE_CONTROL = 1 << 1,     /* a bound Unix socket, descriptor 3 of PID 1 */
    SPAWN_CREATE_STRICT_PROC = 1 << 2, /* /proc shows only processes */
    SPAWN_CREATE_NO_PTRACE = 1 << 3,   /* refuse ptrace and process_vm_* */
    SPAWN_CREATE_PARKED = 1 << 4,      /* created ahead, for at most one CLAIM; no mounts */
    SPAWN_CREATE_ALL = 31,
};
enum spawn_mount_flags {
    SPAWN_MOUNT_WRITABLE = 1 << 0,
    SPAWN_MOUNT_PUBLIC = 1 << 1,  /* all owners appear as nobody */
    SPAWN_MOUNT_LAYERED = 1 << 2, /* writes go to the sandbox's layer */
    SPAWN_MOUNT_ALL = 7,          /* a mount has at most one of these flags */
};
enum spawn_destroy_flags { SPAWN_DESTROY_FILES = 1 << 0, SPAWN_DESTROY_ALL = 1 };

struct spawn_head {
    uint32_t version;
    uint32_t kind;
    uint32_t size; /* size of the whole message */
    uint32_t seq;
};

/* The limits of a sandbox. 0 means no limit. */
struct spawn_limits {
    uint64_t memory_bytes;
    uint64_t cpu_milli; /* thousandths of a CPU */
    uint64_t pids;
    uint64_t disk_bytes;
    uint64_t disk_inodes;
    uint64_t file_bytes; /* largest file that a program may write, including its output logs */
};

/* A host directory, mounted at `target`. Its owner appears as PID 1's user: 1000 in profile user, 0
 * in profile root. All other owners appear as nobody. With PUBLIC all owners appear as nobody, so
 * that only world-readable files can be read. With LAYERED the directory is the lower layer of an
 * overlay whose upper layer is part of the sandbox's layer, named after the target. */
struct spawn_mount {
    char target[SPAWN_TARGET_MAX]; /* absolute, without empty, `.` or `..` components */
    uint32_t flags;
    uint32_t reserved;
};

struct spawn_hello {
    struct spawn_head head;
};

/* Descriptors, in this order: control socket if CONTROL, three if STDIO, image directory if
 * ROOT_IMAGE, one directory per mount. */
struct spawn_create {
    struct spawn_head head;
    char id[SPAWN_ID_MAX];
    uint32_t slot;
    uint32_t profile;
    uint32_t root;
    uint32_t layer;
    uint32_t network;
    uint32_t flags;
    uint32_t n_mounts;
    uint32_t n_layers;
    uint32_t n_argv;
    uint32_t n_env;
    struct spawn_limits limits;
    char hostname[SPAWN_ID_MAX];                 /* empty: the id */
    char layers[SPAWN_LAYERS_MAX][SPAWN_ID_MAX]; /* kept layers below the writable one, top first */
    struct spawn_mount mounts[SPAWN_MOUNTS_MAX];
    char text[SPAWN_TEXT_MAX];
};

struct spawn_destroy {
    struct spawn_head head;
    char id[SPAWN_ID_MAX];
    uint32_t flags;
    uint32_t reserved;
};

/* Sets what a PARKED instance lacks: a name, limits, directories. It is allowed once: the instance
 * is no longer parked afterwards, even on failure, nor after an EXEC_CGROUP. An instance that needs
 * no change needs no CLAIM. Descriptors: one directory per mount. */
struct spawn_claim {
    struct spawn_head head;
    char id[SPAWN_ID_MAX];
    char hostname[SPAWN_ID_MAX]; /* empty: unchanged */
    struct spawn_limits limits;  /* 0: unchanged; disk and file fields must be 0 */
    uint32_t n_mounts;
    uint32_t reserved;
    struct spawn_mount
        mounts[SPAWN_CLAIM_MOUNTS_MAX]; /* not WRITABLE, which needs a filter from the start */
};

/* The message of FREEZE, THAW and USAGE. */
struct spawn_by_id {
    struct spawn_head head;
    char id[SPAWN_ID_MAX];
};

struct spawn_set_limits {
    struct spawn_head head;
    char id[SPAWN_ID_MAX];
    struct spawn_limits limits; /* disk and file fields must be 0: they cannot change */
};

/* Creates exec cgroups numbered first .. first + count - 1. The reply carries `fds_per_cgroup`
 * descriptors for each: with a v2 tree, the exec cgroup as a detached mount for CLONE_INTO_CGROUP;
 * with v1, the `tasks` file into which the child writes "0". */
struct spawn_exec_cgroup {
    struct spawn_head head;
    char id[SPAWN_ID_MAX];
    uint32_t first;
    uint32_t count;
};

/* Kills all processes in the exec cgroup and removes it. */
struct spawn_kill_cgroup {
    struct spawn_head head;
    char id[SPAWN_ID_MAX];
    uint32_t cgroup;
    uint32_t reserved;
};

/* Kills and removes every sandbox whose id is not in these messages. A list longer than one message
 * comes in parts; the sweep runs at the part with last = 1. */
struct spawn_sweep {
    struct spawn_head head;
    uint32_t last;
    uint32_t n_ids;
    char ids[SPAWN_SWEEP_MAX][SPAWN_ID_MAX];
};

enum spawn_feature {
    /* The kernel accepts overlay layers as descriptors; otherwise layers are attached
     * temporarily. */
    SPAWN_HAS_OVERLAY_FD = 1 << 0,
    SPAWN_HAS_LANDLOCK_SCOPE = 1 << 1,
    SPAWN_HAS_CGROUP_KILL = 1 << 2,
    SPAWN_HAS_CGROUP_V2 = 1 << 3, /* a v2 tree, with or without controllers */
    SPAWN_HAS_LIMIT_MEMORY = 1 << 4,
    SPAWN_HAS_LIMIT_CPU = 1 << 5,
    SPAWN_HAS_LIMIT_PIDS = 1 << 6,
    SPAWN_HAS_LIMIT_DISK = 1 << 7, /* by image or quota, see below */
    SPAWN_HAS_TMPFS_IDMAP = 1 << 8,
    SPAWN_HAS_DISK_IMAGE = 1 << 9,  /* disk images on loop devices */
    SPAWN_HAS_DISK_QUOTA = 1 << 10, /* project quota of the state's file system */
};

struct spawn_usage {
    uint64_t memory_bytes;
    uint64_t memory_peak_bytes;
    uint64_t cpu_us;
    uint64_t pids;
    uint64_t oom_kills;
};

struct spawn_reply {
    struct spawn_head head;  /* kind and seq of the request */
    int32_t error;           /* 0 or an errno */
    uint32_t step;           /* enum spawn_step when error != 0 */
    uint32_t n_fds;          /* descriptors sent with this message */
    uint32_t fds_per_cgroup; /* EXEC_CGROUP */
    uint32_t features;       /* HELLO: enum spawn_feature */
    uint32_t landlock_abi;   /* HELLO */
    uint32_t missing;        /* for ENOTSUP at STEP_FEATURE: the missing feature */
    int32_t pid;             /* CREATE: host pid of PID 1; its pidfd is descriptor 0 */
    /* DESTROY: wait status of PID 1; -1 if another berm-spawn created it */
    int32_t wait_status;
    uint32_t swept;           /* SWEEP: number of removed ids */
    struct spawn_usage usage; /* USAGE, KILL_CGROUP: of the whole sandbox */
};

union spawn_request {
    struct spawn_head head;
    struct spawn_hello hello;
    struct spawn_create create;
    struct spawn_destroy destroy;
    struct spawn_by_id by_id;
    struct spawn_set_limits set_limits;
    struct spawn_exec_cgroup exec_cgroup;
    struct spawn_kill_cgroup kill_exec_cgroup;
    struct spawn_sweep sweep;
    struct spawn_claim claim;
};
