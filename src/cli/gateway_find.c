/* SPDX-License-Identifier: Apache-2.0
 *
 * Where nginx and our module for it are: a variable, then where a build or an installation puts
 * them.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/gateway.h"

static const char MODULE[] = "ngx_http_once_module.so";

/* DIR/NAME if it is there with these rights; the caller frees it. */
static char *there(const char *dir, size_t size, const char *name, int rights)
{
    char *path = NULL;

    if (asprintf(&path, "%.*s/%s", (int)size, dir, name) < 0)
        return NULL;
    if (access(path, rights) == 0)
        return path;
    free(path);
    return NULL;
}

/* *ret_set: the variable says where, and nothing else counts. */
static char *of_variable(const char *name, int rights, bool *ret_set)
{
    const char *value = getenv(name);

    *ret_set = value && value[0];
    return *ret_set && access(value, rights) == 0 ? strdup(value) : NULL;
}

char *gateway_find_nginx(void)
{
    static const char *const places[] = {"/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin"};
    const char *path = getenv("PATH");
    bool set;
    char *found = of_variable("ONCE_NGINX", X_OK, &set);

    while (!set && !found && path && *path) {
        size_t size = strcspn(path, ":");

        if (size > 0)
            found = there(path, size, "nginx", X_OK);
        path += size + (path[size] == ':');
    }
    for (size_t i = 0; !set && !found && i < sizeof(places) / sizeof(places[0]); i++)
        found = there(places[i], strlen(places[i]), "nginx", X_OK);
    return found;
}

char *gateway_find_module(void)
{
    /* Beside the binary; build/release/src/cli/once and build/; bin/once and lib/. */
    static const char *const near[] = {".", "..", "../../..", "../lib/nginx/modules"};
    static const char *const places[] = {"/usr/local/lib/nginx/modules", "/usr/lib/nginx/modules"};
    char exe[PATH_MAX], *plain;
    ssize_t size = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    bool set;
    char *found = of_variable("ONCE_NGINX_MODULE", R_OK, &set);

    exe[size > 0 ? size : 0] = '\0';
    for (size_t i = 0; !set && !found && i < sizeof(near) / sizeof(near[0]); i++) {
        char *slash = strrchr(exe, '/'), *dir = NULL;

        if (slash && asprintf(&dir, "%.*s/%s", (int)(slash - exe), exe, near[i]) >= 0)
            found = there(dir, strlen(dir), MODULE, R_OK);
        free(dir);
    }
    for (size_t i = 0; !set && !found && i < sizeof(places) / sizeof(places[0]); i++)
        found = there(places[i], strlen(places[i]), MODULE, R_OK);
    if (!found)
        return NULL;
    plain = realpath(found, NULL);
    free(found);
    return plain;
}

const char *gateway_find_authorities(void)
{
    static const char *const places[] = {"/etc/ssl/certs/ca-certificates.crt",
                                         "/etc/pki/tls/certs/ca-bundle.crt",
                                         "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (access(places[i], R_OK) == 0)
            return places[i];
    }
    return NULL;
}

char *gateway_absolute(const char *path)
{
    char *here, *all = NULL;

    if (path[0] == '/')
        return strdup(path);
    here = getcwd(NULL, 0);
    if (here && asprintf(&all, "%s/%s", here, path) < 0)
        all = NULL;
    free(here);
    return all;
}
