/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of the dashboard (src/server/web), as they are in the binary.
 */
#ifndef ONCE_SERVER_WEB_H
#define ONCE_SERVER_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/bytes.h>

struct once__web_file {
    const char *name; /* "index.html" */
    const char *type; /* its media type */
    const char *etag; /* in quotes; another one for other bytes */
    struct once_bytes bytes;
};

/* Made by web/embed.py when it is built. */
extern const struct once__web_file once__web_files[];
extern const size_t once__web_file_count;

/* NULL: there is none of that name. */
const struct once__web_file *once__web_find(struct once_bytes name);
/* Does an If-None-Match name this ETag, by itself, in a list, weak, or as *? NULL names none. */
bool once__web_matches(const char *header, const char *etag);

#endif
