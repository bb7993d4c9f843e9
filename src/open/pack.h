/* pack — sends a file or tree of the caller as a tar stream into a pipe that a sandbox reads.
 *
 * Excluded entries are skipped. An entry that is not a file, directory or symlink, that cannot be
 * read, or that is a symlink out of the tree fails the whole copy: a copy is complete or it fails.
 * The reader is hostile: it may stop reading, close the pipe, or make it non-blocking. */
#pragma once

#include "base/err.h"
#include "open/request.h"

/* Takes ownership of `source`: a directory, or a regular file if `is_file`. A failed archive has no
 * end marker, so the reader does not accept it as complete. Fails with TREE_INVALID, FILE_DENIED or
 * GUEST_LOST. */
MUST_USE int pack_source(int source, bool is_file, const struct open_pack *q, int pipe,
                         struct err *e);
