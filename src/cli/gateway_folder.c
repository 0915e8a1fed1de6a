/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder that all of nginx's files are in while it runs: the configuration, its pid, bodies
 * that are too large for memory. Only its owner can look inside.
 */
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/gateway.h"

enum { OPEN_MAX_FOLDERS = 8 };

char *gateway_folder_make(void)
{
    const char *place = getenv("TMPDIR");
    char *folder = NULL;

    if (asprintf(&folder, "%s/once-gateway-XXXXXX", place && place[0] ? place : "/tmp") < 0) {
        errno = ENOMEM;
        return NULL;
    }
    if (!mkdtemp(folder)) {
        free(folder);
        return NULL;
    }
    return folder;
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *where)
{
    (void)stat;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

void gateway_folder_remove(const char *folder)
{
    if (folder)
        (void)nftw(folder, remove_one, OPEN_MAX_FOLDERS, FTW_DEPTH | FTW_PHYS);
}
