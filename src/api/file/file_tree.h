/* file_tree — what UploadTree and DownloadTree share. */
#pragma once

#include "base/err.h"
#include "berm/v1/berm.pb-c.h"

MUST_USE int tree_check_compression(const char *field, Berm__V1__TreeCompression compression,
                                    struct err *e);
