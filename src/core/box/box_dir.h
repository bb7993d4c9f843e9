/* box_dir — a sandbox's directory below the state directory: output, exits and input of its execs,
 * and the transcript of its guest's link. It is flat, and only bermd has access. */
#pragma once

#include <stdint.h>

struct box;

/* Removes a directory with its files. Does nothing when the directory does not exist. */
void box_dir_remove(int parent_fd, const char *name);
/* Returns the bytes of output in the directory. */
uint64_t box_dir_output_bytes(int dir_fd);
/* Returns the descriptor of the directory, or -errno. The first call creates the directory. */
int box_dir(struct box *b);
