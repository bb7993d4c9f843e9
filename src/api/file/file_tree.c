#include "api/file/file_tree.h"

int tree_check_compression(const char *field, Berm__V1__TreeCompression compression,
                           struct err *e) {
    if (compression <= BERM__V1__TREE_COMPRESSION__TREE_COMPRESSION_GZIP)
        return 0;
    return err_field(e, field, "%s: must be a known TreeCompression, got %d", field,
                     (int)compression);
}
