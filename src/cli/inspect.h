/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of `once inspect` share.
 */
#ifndef ONCE_CLI_INSPECT_H
#define ONCE_CLI_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include <once/bytes.h>
#include <once/verdict.h>

#include "engine/vfs.h"

struct inspect_args {
    bool json;
    bool records;
    bool values;
    bool at; /* offset is given */
    uint64_t offset;
    const char *path;
};

/* Each shows a file and returns an exit status. */
int inspect_segment(const struct inspect_args *args, struct once__file *file, uint64_t file_size);
int inspect_snapshot(const struct inspect_args *args, struct once__file *file);
/* Shows encoded edits of objects with this between them (NULL: only counts them). False when one
 * cannot be read; those before it were shown. */
bool inspect_edits(const struct inspect_args *args, struct once_bytes edits, const char *between,
                   uint64_t *ret_count);

/* "2026-01-31T12:00:00.000Z". */
struct inspect_time {
    char text[32];
};
struct inspect_time inspect_time(once_ms ms);

/* Bytes for a person, in quotes, or as JSON. */
void inspect_bytes(const struct inspect_args *args, struct once_bytes bytes);
void inspect_hex(struct once_bytes bytes);
/* Opens the JSON object of a file: {"file":…,"kind":… . */
void inspect_json_head(const struct inspect_args *args, const char *kind);
/* A whole file that is damaged. Returns CLI_DAMAGED. */
int inspect_broken(const struct inspect_args *args, const char *kind, uint64_t offset,
                   const char *what);

#endif
