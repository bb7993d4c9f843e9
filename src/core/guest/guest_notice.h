/* guest_notice — notifications of the guest, validated into one typed struct.
 *
 * Pointers are borrowed until on_notice returns. A notification that breaks the protocol is never
 * delivered: it ends the link. The link ignores notifications that it does not know.
 * Spec: spec/guest.md, "Methods"; spec/guest.schema.json */
#pragma once

#include "core/guest/guest_exec.h"
#include "core/guest/guest_files.h"

enum guest_notice_kind {
    GUEST_GREW,
    GUEST_EXITED,
    GUEST_STDIN_ROOM,
    GUEST_CHANGED,
    GUEST_TREE_DONE,
};

/* The numbers are the same as in FileChangeKind of berm.proto. */
enum guest_change_kind {
    GUEST_CHANGE_CREATED = 1,
    GUEST_CHANGE_MODIFIED,
    GUEST_CHANGE_REMOVED,
    GUEST_CHANGE_RENAMED,
    GUEST_CHANGE_ATTRIBUTES,
};

struct guest_change {
    enum guest_change_kind kind;
    struct guest_path path;
    struct guest_path old_path; /* may be empty */
    bool has_info;
    struct guest_file_info info;
};

/* The numbers are the same as in FileResyncReason of berm.proto. */
enum guest_resync {
    GUEST_RESYNC_NONE,
    GUEST_RESYNC_OVERFLOW,
    GUEST_RESYNC_RESTARTED,
    GUEST_RESYNC_ROOT_CHANGED,
};

struct guest_changed {
    uint64_t watch_id; /* never 0 */
    size_t n_changes;
    const struct guest_change *changes;
    enum guest_resync resync;
    bool has_ended;
};

struct guest_tree_done {
    uint64_t handle;    /* never 0 */
    struct err failure; /* code ERR_NONE: the tree is complete; otherwise the reason */
    uint64_t files;
    uint64_t directories;
    uint64_t total_bytes;
    uint64_t skipped_special;
    uint64_t skipped_unreadable;
};

struct guest_notice {
    enum guest_notice_kind kind;
    union {
        struct {
            struct str exec_id;
            uint64_t output_bytes[2]; /* sizes of stdout and stderr */
        } grew;
        struct guest_exec_state exited;
        struct {
            struct str exec_id;
            uint64_t next_offset;
        } stdin_room;
        struct guest_changed changed;
        struct guest_tree_done tree_done;
    };
};

/* Returns 1 for a valid notification, 0 for an unknown one, which the caller ignores, or an error
 * as in guest_field.h. */
MUST_USE int guest_notice_read(struct str method, const struct json *params, struct arena *a,
                               struct guest_notice *ret, struct err *e);
