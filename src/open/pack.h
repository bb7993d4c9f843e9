/* pack — a file or a tree of the caller's as a tar stream into a pipe that a sandbox reads.
 *
 * Excluded entries are not looked at. What is neither file, directory nor symlink, cannot be read, or is a
 * symlink that leaves the tree fails the whole: a copy is exact or there is none.
 * The reader is hostile: it may stop reading, close, or make the pipe not block. */
#pragma once

#include "base/err.h"
#include "open/request.h"

/* `source` is a directory, or the regular file when `is_file`, both taken. The end of an archive that failed is
 * missing, so that the reader does not take it for whole. TREE_INVALID, FILE_DENIED, GUEST_LOST. */
MUST_USE int pack_source(int source, bool is_file, const struct open_pack *q, int pipe,
                         struct err *e);
