/* SPDX-License-Identifier: Apache-2.0
 *
 * The notification protocol of systemd, which is small enough to be spoken by hand.
 */
#include "server/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void once__notify(const char *lines)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t size = path ? strlen(path) : 0;
    int fd;

    if (size == 0 || (path[0] != '/' && path[0] != '@') || size >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, size);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* a socket without a file */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, lines, strlen(lines), MSG_NOSIGNAL | MSG_DONTWAIT,
                 (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
    (void)close(fd);
}

void once__notify_reloading(void)
{
    struct timespec now;
    char lines[96];

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(lines, sizeof(lines), "RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    once__notify(lines);
}
