/* folder — a sandbox's own folder below the state directory: its programs' output, exits and input, and
 * the transcript of what was said to its guest. Flat, and nobody's but ours. */
#pragma once

#include <stdint.h>

/* Removes a folder with its files; harmless when it is not there. */
void folder_remove(int parent_fd, const char *name);
/* Bytes of output kept in it. */
uint64_t folder_output_bytes(int dir_fd);
