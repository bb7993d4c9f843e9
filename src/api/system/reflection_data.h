/* reflection_data — the contract's descriptors as bytes, generated at build time by
 * scripts/gen-reflection.py from protoc's descriptor set. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reflection_file {
    const char *name;
    const uint8_t *bytes; /* a FileDescriptorProto */
    size_t n;
};

struct reflection_symbol {
    const char *name; /* fully qualified: a message, enum, service or method */
    unsigned file;
};

struct reflection_method {
    const char *path;
    bool client_streams;
    bool server_streams;
};

extern const struct reflection_file reflection_files[];
extern const size_t reflection_n_files;
extern const struct reflection_symbol reflection_symbols[]; /* sorted by name */
extern const size_t reflection_n_symbols;
extern const char *const reflection_services[];
extern const size_t reflection_n_services;
extern const struct reflection_method reflection_methods[];
extern const size_t reflection_n_methods;
