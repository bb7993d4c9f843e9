/* guest_files — the file methods of the guest protocol, as typed requests and typed answers.
 *
 * Requests: a caller fills a struct guest_file_request and calls guest_files_ask. The request is
 *           borrowed for that call only and is written straight into the link's send buffer.
 * Answers:  arrive in guest_answer.file. Every member has been validated; the guest is hostile. All
 *           pointers are borrowed until on_answer returns.
 * Errors:   an answer that breaks the protocol reaches its waiter as GUEST_PROTOCOL, and then the
 *           link ends.
 * Spec:     spec/guest.md, "Files"; spec/guest.schema.json */
#pragma once

#include "berm/v1/berm.pb-c.h"
#include "core/guest/guest_link.h"

#define GUEST_CHUNK_BYTES 49152 /* largest number of raw bytes in a read_chunk or write_chunk */
#define GUEST_TOKEN_BYTES 4096  /* largest number of raw bytes in a page token of `list` */

/* The guest protocol carries UTF-8 paths as text and raw paths as base64. */
struct guest_path {
    struct str bytes;
    bool is_raw;
};

enum guest_file_method {
    GUEST_READ,
    GUEST_READ_LINES,
    GUEST_READ_CHUNK,
    GUEST_WRITE,
    GUEST_WRITE_CHUNK,
    GUEST_COMMIT,
    GUEST_LIST,
    GUEST_STAT,
    GUEST_MKDIR,
    GUEST_REMOVE,
    GUEST_RENAME,
    GUEST_EDIT,
    GUEST_GREP,
    GUEST_GLOB,
    GUEST_WATCH,
    GUEST_PACK,
    GUEST_UNPACK,
};

struct guest_file_request {
    enum guest_file_method method;
    struct guest_path path; /* for methods that take a path */
    const char *user;       /* NULL or "": use the sandbox's user */
    uint64_t handle;        /* for READ_CHUNK, WRITE_CHUNK and COMMIT */
    union {
        struct {
            uint64_t first_line;
            uint64_t max_lines;
            uint64_t max_bytes;
        } read_lines;
        struct {
            uint64_t offset;
            uint64_t max_bytes;
        } read_chunk;
        struct {
            uint64_t offset;
            struct str data; /* empty: marks the end of a tree */
        } write_chunk;
        struct {
            bool has_mode;
            uint32_t mode;
            bool make_parents;
            bool must_not_exist; /* for WRITE only */
        } make;                  /* for WRITE and MKDIR */
        struct {
            uint64_t size_bytes;
        } commit;
        struct {
            uint64_t depth;
            uint64_t max_entries;
            struct str page_token; /* raw bytes; empty: request the first page */
        } list;
        struct {
            bool follow;
        } stat;
        struct {
            bool recursive;
            bool missing_ok;
        } remove;
        struct {
            struct guest_path new_path;
            bool replace;
            bool make_parents;
        } rename;
        struct {
            size_t n_edits;
            /* Borrowed from the caller's request, so that nothing is copied. */
            Berm__V1__TextEdit *const *edits;
        } edit;
        struct {
            const char *pattern;
            bool regex;
            bool ignore_case;
            const char *glob; /* "": search every file */
            uint64_t max_matches;
            uint32_t before_lines;
            uint32_t after_lines;
        } grep;
        struct {
            const char *pattern;
            bool all_types;
            uint64_t max_matches;
        } glob;
        struct {
            bool recursive;
            bool include_info;
        } watch;
        struct {
            size_t n_excludes;
            char *const *excludes;
        } pack;
    };
};

/* The numbers are the same as in FileType of berm.proto. */
enum guest_file_type {
    GUEST_FILE_UNKNOWN,
    GUEST_FILE_REGULAR,
    GUEST_FILE_DIRECTORY,
    GUEST_FILE_SYMLINK,
    GUEST_FILE_FIFO,
    GUEST_FILE_SOCKET,
    GUEST_FILE_DEVICE,
};

struct guest_file_info {
    struct guest_path path; /* never empty */
    enum guest_file_type type;
    uint64_t size_bytes; /* 0 unless the file is regular */
    uint32_t mode;       /* at most 07777 */
    uint32_t uid;
    uint32_t gid;
    struct str user;
    struct str group;
    int64_t modified_unix_ns; /* clamped to the years 1678 to 2262 */
    struct guest_path target; /* for a symlink; otherwise empty */
};

struct guest_match {
    struct guest_path path;
    uint64_t line;
    struct str text;
    bool text_truncated;
    size_t n_before;
    const struct str *before;
    size_t n_after;
    const struct str *after;
};

/* The numbers are the same as in TruncatedReason of berm.proto. */
enum guest_truncated {
    GUEST_TRUNCATED_NONE,
    GUEST_TRUNCATED_MATCHES,
    GUEST_TRUNCATED_SIZE,
    GUEST_TRUNCATED_WORK,
};

struct guest_file_answer {
    enum guest_file_method method;
    uint64_t handle;   /* set by READ, READ_LINES, WRITE, PACK and UNPACK; these never set 0 */
    uint64_t watch_id; /* set by WATCH, which never sets 0 */
    /* Set by READ, READ_LINES, COMMIT, STAT, MKDIR, RENAME, EDIT and WATCH. */
    struct guest_file_info info;
    bool created; /* set by COMMIT and MKDIR */
    union {
        struct {
            uint64_t offset; /* offset + length fits into int64_t */
            uint64_t length; /* at most the max_bytes of the request */
            uint64_t next_line;
            uint64_t total_lines;
            bool total_truncated;
        } read_lines;
        struct {
            struct str data; /* at most the max_bytes of the request */
            bool is_end;     /* always true when data is empty */
        } read_chunk;
        struct {
            /* Number of bytes that the guest accepted: at most as many as were sent, and at least
             * one unless none were sent. */
            size_t n_taken;
        } write_chunk;
        struct {
            size_t n_entries;
            const struct guest_file_info *entries;
            size_t n_unreadable;
            const struct str *unreadable;
            struct str next_page_token; /* raw bytes; empty: this was the last page */
        } list;
        struct {
            uint64_t removed;
        } remove;
        struct {
            uint64_t replacements;
        } edit;
        struct {
            size_t n_matches;
            const struct guest_match *matches;
            enum guest_truncated truncated;
            uint64_t files;
            uint64_t binary_files;
            uint64_t unreadable;
        } grep;
        struct {
            size_t n_matches;
            const struct guest_file_info *matches;
            enum guest_truncated truncated;
            uint64_t unreadable;
        } glob;
    };
};

/* Sends the request. The answer, or a failure, arrives at `w`. A pipe that comes with PACK or
 * UNPACK has the right access mode. */
void guest_files_ask(struct guest_link *l, const struct guest_file_request *r,
                     struct guest_wait *w);
/* These two release a handle or a watch of the guest. The link ignores the answer. */
void guest_files_close(struct guest_link *l, uint64_t handle);
void guest_files_unwatch(struct guest_link *l, uint64_t watch_id);
