/* box_dir — a sandbox's directory below the state directory: output, exits and input of its execs,
 * and the transcript of its guest's link. It is flat, and only bermd has access. */
#pragma once

#include <stdint.h>

struct box;

/* Removes a directory with its files; does nothing when it does not exist. */
void box_dir_remove(int parent_fd, const char *name);
/* Returns the bytes of output in the directory. */
uint64_t box_dir_output_bytes(int dir_fd);
/* Returns the descriptor of the directory, which the first call creates, or -errno. */
int box_dir(struct box *b);
