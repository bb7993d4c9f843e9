/* file_tree — what UploadTree and DownloadTree share. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "berm/v1/berm.pb-c.h"

/* How a tree ended, as the guest says it. */
struct tree_outcome {
    struct err failure; /* code ERR_NONE: it went well */
    uint64_t files;
    uint64_t directories;
    uint64_t total_bytes;
    uint64_t skipped_special;
    uint64_t skipped_unreadable;
};

/* GUEST_PROTOCOL. */
MUST_USE int tree_outcome_read(const struct json *params, struct tree_outcome *ret, struct err *e);
MUST_USE int tree_check_compression(const char *field, Berm__V1__TreeCompression compression,
                                    struct err *e);
