/* SPDX-License-Identifier: Apache-2.0
 *
 * `once gateway`: nginx with our module, in front of one service, for trying and for simple use.
 * What its files share.
 *
 *     read and check arguments      gateway_args.c, gateway_value.c
 *     find nginx and the module     gateway_find.c
 *     a configuration in a folder   gateway_config.c, gateway_folder.c
 *     server of Once, nginx         gateway_child.c
 *     wait, pass signals on         cmd_gateway.c
 *
 * Nothing that was typed reaches the configuration unchecked: see gateway_value.c.
 */
#ifndef ONCE_CLI_GATEWAY_H
#define ONCE_CLI_GATEWAY_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/reach.h"

/* ---- Values (gateway_value.c) ---------------------------------------------------------------- */

/* The service behind: http://HOST[:PORT][/PATH], https://…, unix:/PATH. */
struct gateway_url {
    bool tls;
    bool socket;
    char address[300];   /* for nginx's server: HOST:PORT, or unix:/PATH */
    char host[260];      /* without port, for certificates */
    char authority[300]; /* as it was written, for the header Host */
    char path[256];      /* with / at both ends; "" is none */
};

/* Each gives NULL, or what is wrong. */
const char *gateway_url_read(const char *text, struct gateway_url *ret_url);
const char *gateway_address_check(const char *text); /* HOST:PORT to listen on */
const char *gateway_path_check(const char *text);    /* may stand between quotes in nginx.conf */
const char *gateway_scope_check(const char *text);   /* text with variables of nginx */
const char *gateway_fingerprint_check(const char *text);
const char *gateway_methods_check(const char *text);

bool gateway_is_loopback(const char *address);
/* Digits, and k, m or g for 1024 and so on. */
bool gateway_size(const char *text, uint64_t max, uint64_t *ret_size);
/* Is it one of "a|b|c"? */
bool gateway_is_one_of(const char *words, const char *text);

/* ---- Arguments (gateway_args.c) -------------------------------------------------------------- */

enum { GATEWAY_OPTION_COUNT = 26 };
extern const struct cli_option gateway_options[GATEWAY_OPTION_COUNT];

/* NULL and 0: not given, and nginx.conf says nothing about it. */
struct gateway_args {
    struct cli_where where;
    const char *listen;
    struct gateway_url upstream;
    const char *upstream_text, *upstream_ca;
    const char *ns, *scope, *methods, *on_5xx, *doubt, *profile, *fingerprint, *fail;
    once_ms ttl_ms, lease_ms, wait_ms, timeout_ms;
    uint64_t body_max, answer_max, workers;
    const char *access_log, *metrics;
    bool require, print, json;
};

/* Tells what is wrong; an exit status. */
int gateway_args_read(int argc, char **argv, struct gateway_args *ret_args);

/* ---- Files (gateway_find.c, gateway_folder.c) ------------------------------------------------ */

/* The caller frees them. NULL: there is none. */
char *gateway_find_nginx(void);
char *gateway_find_module(void);
const char *gateway_find_authorities(void); /* the system's certificates; NULL: not found */
char *gateway_absolute(const char *path);   /* NULL: no memory */

/* A folder of our own, 0700, which the caller frees and removes. NULL: errno says why. */
char *gateway_folder_make(void);
void gateway_folder_remove(const char *folder); /* and all that is in it; accepts NULL */

/* ---- The configuration (gateway_config.c) ---------------------------------------------------- */

struct gateway_places {
    const char *module;
    const char *folder;        /* NULL: a start for a set-up of one's own is printed */
    const char *server;        /* for once_server: HOST:PORT or unix:/PATH */
    const char *user;          /* at the server; NULL: none */
    const char *password_file; /* with user */
    const char *authorities;   /* for a service with TLS */
    const char *access_log;    /* NULL: none */
};
void gateway_config_write(FILE *out, const struct gateway_args *args,
                          const struct gateway_places *places);

/* ---- Processes (gateway_child.c) ------------------------------------------------------------- */

/* Blocks the signals that gateway_wait gives, from here on. */
void gateway_signals_take(void);

/* One of ours: a process group of its own, so that Ctrl-C reaches us and not it; end_signal is what
 * it gets if we are killed. 0: not running. */
pid_t gateway_child_start(char *const command[], int end_signal);
/* Waits up to ms for a signal: its number, 0 for none. SIGCHLD: something ended. */
int gateway_wait(once_ms ms);
/* Has it ended? Then its exit status, 128 and more for a signal, is in ret_status. */
bool gateway_child_ended(pid_t pid, int *ret_status);

#endif
