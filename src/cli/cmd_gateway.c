/* SPDX-License-Identifier: Apache-2.0
 *
 * once gateway: an Idempotency-Key for a service that knows none, by nginx and our module. Writes
 * a configuration into a folder of its own, runs a server of Once if the store's folder has none,
 * runs nginx, and ends both in the right order: nginx first, because its last requests have
 * outcomes to record.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/gateway.h"
#include "cli/reach_server.h"
#include "client/client.h"

static const char gateway_help[] =
    "usage: once gateway --listen HOST:PORT --upstream URL [--dir DIR | --server ADDR]\n"
    "                    [OPTION...]\n"
    "       once gateway --listen HOST:PORT --upstream URL [OPTION...] --print-config\n"
    "\n"
    "Puts nginx with the module of Once in front of a service: a request with an Idempotency-Key\n"
    "has its effect once, however often it is sent. Serves the store's folder while it runs, if "
    "no\n"
    "server does. SIGTERM and SIGINT finish what was begun (a second one cuts it), SIGHUP reads\n"
    "certificates and the server's configuration again, SIGUSR1 opens the access log again.\n"
    "\n"
    "  once gateway --listen 127.0.0.1:8080 --upstream http://127.0.0.1:3000\n"
    "  curl -H 'Idempotency-Key: \"k1\"' -d amount=100 http://127.0.0.1:8080/charges\n"
    "\n"
    "  --listen HOST:PORT  where clients ask\n"
    "  --upstream URL  the service: http://HOST:PORT, https://HOST or unix:/PATH\n"
    "  --upstream-ca FILE  who signs the service's certificate, PEM (default: the system's)\n"
    "  --timeout TIME  how long the service may be silent (default: 60s)\n" CLI_HELP_DIR
    "  --server ADDR  or a server: HOST:PORT, its socket's path; you are $ONCE_USER with\n"
    "             $ONCE_PASSWORD\n"
    "  --require  refuse requests without a key\n"
    "  --namespace NS, -n NS\n"
    "             where keys are kept (default: http)\n"
    "  --scope TEXT  whose key it is: variables of nginx, such as '$http_authorization'\n"
    "  --methods LIST  which have keys (default: POST,PATCH)\n"
    "  --ttl TIME  how long answers are kept (default: 24h)\n"
    "  --lease TIME  after which an attempt that nobody renews is in doubt (default: 30s)\n"
    "  --wait TIME  hold a duplicate of a request that is running so long (default: not at all)\n"
    "  --on-5xx default|release|store|doubt  what a 5xx of the service means\n"
    "  --doubt reject|retry  what a duplicate of a doubt gets (default: reject)\n"
    "  --profile ietf|stripe  whose errors are spoken (default: ietf)\n"
    "  --fingerprint LIST  raw or json, then headers, such as json,content-type (default: raw)\n"
    "  --max-body SIZE  of a request (default: 1m)\n"
    "  --max-answer SIZE  of an answer that is kept (default: 1m)\n"
    "  --fail closed|open  when the server is away (default: closed)\n"
    "  --workers N  processes of nginx (default: one for each core)\n"
    "  --access-log FILE  a line of JSON for each request (default: none)\n"
    "  --metrics HOST:PORT  counters for Prometheus at /metrics there (default: none)\n"
    "  --print-config  print a configuration for a set-up of your own, and end\n"
    "  --json     say where it listens, and errors, as one JSON object\n"
    "\n"
    "$ONCE_NGINX and $ONCE_NGINX_MODULE say where nginx and the module are, if not in the usual\n"
    "places. docs/gateway.md has the directives and set-ups for real use.\n"
    "\n"
    "exit status: 0 it was told to stop; 64 usage; 69 nginx, its module, the port or the store is\n"
    "not to be had; 70 the store is damaged; 71 no memory, no temporary folder; 78 nginx refuses\n"
    "the configuration\n";

enum {
    POLL_MS = 10,
    TURN_MS = 1000,
    RESTART_MS = 1000, /* a server that ended is not started again sooner */
    ANSWER_MS = 2000,
    SOCKET_PATH_MAX = 107
};

struct gateway {
    struct gateway_args args;
    char *nginx, *module, *access_log, *authorities;
    char *folder, *config, *password_file;
    char *dir;    /* the store's; NULL with --server */
    char *socket; /* its server's */
    char *server; /* for once_server */
    bool own_server;
    pid_t server_pid, nginx_pid; /* 0: not running */
    once_ms server_since_ms;
    int stops;  /* how often we were told to */
    int status; /* why we end by ourselves */
};

static void release(struct gateway *gateway)
{
    gateway_folder_remove(gateway->folder);
    free(gateway->nginx);
    free(gateway->module);
    free(gateway->access_log);
    free(gateway->authorities);
    free(gateway->folder);
    free(gateway->config);
    free(gateway->password_file);
    free(gateway->dir);
    free(gateway->socket);
    free(gateway->server);
}

static int no_memory(void)
{
    return cli_error(&cli_gateway, CLI_INTERNAL, "no memory");
}

/* ---- Where the server is --------------------------------------------------------------------- */

static int find_address(struct gateway *gateway)
{
    const char *given = gateway->args.where.server;
    char *path = NULL;

    if (strncmp(given, "tls://", 6) == 0)
        return cli_usage(&cli_gateway, "nginx asks the server without TLS: give its socket, or "
                                       "HOST:PORT of a network that is yours");
    if (strncmp(given, "tcp://", 6) == 0)
        given += 6;
    if (strchr(given, '/')) {
        path = gateway_absolute(given);
        if (!path || asprintf(&gateway->server, "unix:%s", path) < 0)
            gateway->server = NULL;
        free(path);
    } else {
        const char *wrong = gateway_address_check(given);

        if (wrong)
            return cli_usage(&cli_gateway, "--server '%s': %s", cli_echo(given).text, wrong);
        gateway->server = strdup(given);
    }
    if (gateway->server && gateway_path_check(gateway->server))
        return cli_usage(&cli_gateway, "--server '%s': %s", cli_echo(given).text,
                         gateway_path_check(gateway->server));
    return gateway->server ? CLI_OK : no_memory();
}

static int find_folder(struct gateway *gateway)
{
    char *dir = NULL;
    const char *wrong;
    int status = cli_folder(&cli_gateway, gateway->args.where.dir, &dir);

    if (status != CLI_OK)
        return status;
    gateway->dir = gateway_absolute(dir);
    free(dir);
    if (!gateway->dir || asprintf(&gateway->socket, "%s/once.sock", gateway->dir) < 0) {
        gateway->socket = NULL;
        return no_memory();
    }
    wrong = gateway_path_check(gateway->dir);
    if (!wrong && strlen(gateway->socket) > SOCKET_PATH_MAX)
        wrong = "its name is too long for a socket";
    if (wrong)
        return cli_usage(&cli_gateway, "the folder '%s': %s", cli_echo(gateway->dir).text, wrong);
    if (asprintf(&gateway->server, "unix:%s", gateway->socket) < 0) {
        gateway->server = NULL;
        return no_memory();
    }
    return CLI_OK;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

/* The user is for --server: who may open a folder's socket needs none. */
static const char *user_of(const struct gateway *gateway)
{
    return gateway->args.where.server ? variable("ONCE_USER") : NULL;
}

static int find_places(struct gateway *gateway)
{
    const struct gateway_args *args = &gateway->args;
    const char *user, *wrong = NULL;
    int status = args->where.server ? find_address(gateway) : find_folder(gateway);

    if (status != CLI_OK)
        return status;
    user = user_of(gateway);
    if (user && !variable("ONCE_PASSWORD"))
        return cli_usage(&cli_gateway, "ONCE_USER is set and ONCE_PASSWORD is not");
    if (user && (wrong = gateway_path_check(user)) != NULL)
        return cli_usage(&cli_gateway, "ONCE_USER: %s", wrong);
    if (args->access_log) {
        gateway->access_log = strcmp(args->access_log, "-") == 0
                                  ? strdup("/dev/stdout")
                                  : gateway_absolute(args->access_log);
        if (!gateway->access_log)
            return no_memory();
        wrong = gateway_path_check(gateway->access_log);
    }
    if (wrong)
        return cli_usage(&cli_gateway, "--access-log: %s", wrong);
    if (args->upstream.tls) {
        const char *found = args->upstream_ca ? args->upstream_ca : gateway_find_authorities();

        if (!found)
            return cli_error(&cli_gateway, CLI_UNAVAILABLE,
                             "this system has no list of authorities (package ca-certificates); "
                             "give --upstream-ca");
        gateway->authorities = gateway_absolute(found);
        if (!gateway->authorities)
            return no_memory();
        wrong = gateway_path_check(gateway->authorities); /* with the folder that we are in */
        if (wrong)
            return cli_usage(&cli_gateway, "--upstream-ca '%s': %s",
                             cli_echo(gateway->authorities).text, wrong);
    }
    return CLI_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void write_config(const struct gateway *gateway, FILE *out)
{
    const struct gateway_places places = {
        .module = gateway->module ? gateway->module : "modules/ngx_http_once_module.so",
        .folder = gateway->folder,
        .server = gateway->server,
        .user = user_of(gateway),
        .password_file = gateway->password_file ? gateway->password_file
                                                : "/etc/nginx/once.password",
        .authorities = gateway->authorities,
        .access_log = gateway->access_log,
    };

    gateway_config_write(out, &gateway->args, &places);
}

/* A new file of our own. NULL: told. */
static FILE *make_file(const struct gateway *gateway, const char *name, char **ret_path)
{
    FILE *file = NULL;
    int fd;

    if (asprintf(ret_path, "%s/%s", gateway->folder, name) < 0) {
        *ret_path = NULL;
        (void)no_memory();
        return NULL;
    }
    fd = open(*ret_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        file = fdopen(fd, "w");
    if (!file)
        (void)cli_error(&cli_gateway, CLI_INTERNAL, "%s: %s", *ret_path, strerror(errno));
    return file;
}

static int close_file(FILE *file)
{
    bool bad = ferror(file) != 0;

    if (fclose(file) != 0 || bad)
        return cli_error(&cli_gateway, CLI_INTERNAL, "the temporary folder: %s", strerror(errno));
    return CLI_OK;
}

static int make_files(struct gateway *gateway)
{
    int status = CLI_OK;
    FILE *file;

    gateway->folder = gateway_folder_make();
    if (!gateway->folder)
        return cli_error(&cli_gateway, CLI_INTERNAL, "no temporary folder: %s", strerror(errno));
    if (gateway_path_check(gateway->folder))
        return cli_usage(&cli_gateway, "TMPDIR '%s': %s", cli_echo(gateway->folder).text,
                         gateway_path_check(gateway->folder));
    if (user_of(gateway)) {
        file = make_file(gateway, "password", &gateway->password_file);
        if (!file)
            return CLI_INTERNAL;
        fprintf(file, "%s\n", variable("ONCE_PASSWORD"));
        status = close_file(file);
    }
    if (status != CLI_OK)
        return status;
    file = make_file(gateway, "nginx.conf", &gateway->config);
    if (!file)
        return CLI_INTERNAL;
    write_config(gateway, file);
    return close_file(file);
}

static int find_programs(struct gateway *gateway)
{
    gateway->nginx = gateway_find_nginx();
    if (!gateway->nginx)
        return cli_error(&cli_gateway, CLI_UNAVAILABLE,
                         "nginx is not here%s: install it (Debian: apt install nginx), or say in "
                         "$ONCE_NGINX where it is",
                         variable("ONCE_NGINX") ? " ($ONCE_NGINX)" : "");
    gateway->module = gateway_find_module();
    if (!gateway->module)
        return cli_error(&cli_gateway, CLI_UNAVAILABLE,
                         "the module for nginx is not here%s: build it (make gateway), or say in "
                         "$ONCE_NGINX_MODULE where ngx_http_once_module.so is",
                         variable("ONCE_NGINX_MODULE") ? " ($ONCE_NGINX_MODULE)" : "");
    if (gateway_path_check(gateway->module))
        return cli_usage(&cli_gateway, "the module's path '%s': %s", cli_echo(gateway->module).text,
                         gateway_path_check(gateway->module));
    return CLI_OK;
}

/* ---- The server of Once ---------------------------------------------------------------------- */

static bool is_served(const struct gateway *gateway)
{
    const struct once__client_options options = {.timeout_ms = ANSWER_MS};
    struct once__client *client = NULL;
    bool served = once__client_open(gateway->socket, &options, &client, NULL) == ONCE_OK;

    once__client_close(client);
    return served;
}

static void start_server(struct gateway *gateway)
{
    static char serve[] = "serve", dir[] = "--dir", listen[] = "--listen", http[] = "--http";
    static char off[] = "off", at[] = "--socket", level[] = "--log-level", warn[] = "warn";
    static char most[] = "--connections-max", some[] = "1000";
    char exe[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    char *command[] = {exe, serve,           dir,   gateway->dir, listen, off,  http, off,
                       at,  gateway->socket, level, warn,         most,   some, NULL};

    exe[size > 0 ? size : 0] = '\0';
    gateway->own_server = true;
    gateway->server_since_ms = reach_now_ms();
    gateway->server_pid = gateway_child_start(command, SIGTERM);
}

static bool told_to_stop(struct gateway *gateway, int signal)
{
    if (signal == SIGTERM || signal == SIGINT || signal == SIGQUIT)
        gateway->stops++;
    return gateway->stops > 0;
}

/* Until somebody answers for the folder. One that another process started meanwhile is as good. */
static int serve_folder(struct gateway *gateway)
{
    int status = CLI_UNAVAILABLE;

    if (!gateway->dir || is_served(gateway))
        return CLI_OK;
    start_server(gateway);
    while (!is_served(gateway)) {
        if (gateway->server_pid == 0 || gateway_child_ended(gateway->server_pid, &status)) {
            gateway->server_pid = 0;
            if (is_served(gateway))
                break;
            return status == CLI_OK || status > CLI_CONFIG ? CLI_UNAVAILABLE : status; /* it told */
        }
        if (told_to_stop(gateway, gateway_wait(POLL_MS)))
            return CLI_OK;
    }
    return CLI_OK;
}

/* It ended by itself. What a restart cannot help ends us; outcomes that wait to be recorded are
 * recorded after one that does. */
static void server_ended(struct gateway *gateway, int status)
{
    gateway->server_pid = 0;
    if (status == CLI_USAGE || status == CLI_DAMAGED || status == CLI_CONFIG) {
        gateway->status = status;
        gateway->stops++;
        (void)kill(gateway->nginx_pid, SIGQUIT);
    }
    (void)cli_message(&cli_gateway, status, "the server ended with status %d%s", status,
                      gateway->stops > 0 ? "" : "; it is started again");
}

static void keep_server(struct gateway *gateway)
{
    int status;

    if (gateway_child_ended(gateway->server_pid, &status))
        server_ended(gateway, status);
    if (gateway->own_server && gateway->server_pid == 0 && gateway->status == CLI_OK &&
        reach_now_ms() - gateway->server_since_ms >= RESTART_MS) {
        gateway->server_since_ms = reach_now_ms();
        if (!is_served(gateway))
            start_server(gateway);
    }
}

static void stop_server(struct gateway *gateway)
{
    int status = 0;

    if (gateway->server_pid <= 0)
        return;
    (void)kill(gateway->server_pid, SIGTERM);
    while (!gateway_child_ended(gateway->server_pid, &status)) {
        int before = gateway->stops;

        (void)told_to_stop(gateway, gateway_wait(TURN_MS));
        if (gateway->stops > before)
            (void)kill(gateway->server_pid, SIGTERM); /* it cuts what is left */
    }
    gateway->server_pid = 0;
    if (status != CLI_OK && gateway->status == CLI_OK)
        gateway->status = cli_message(&cli_gateway, CLI_UNAVAILABLE,
                                      "the server ended with status %d", status);
}

/* ---- nginx ----------------------------------------------------------------------------------- */

static char flag_test[] = "-t", flag_quiet[] = "-q", flag_prefix[] = "-p", flag_config[] = "-c";
static char flag_errors[] = "-e", to_stderr[] = "stderr";

static int test_config(struct gateway *gateway)
{
    char *command[] = {gateway->nginx, flag_test,       flag_quiet,  flag_prefix, gateway->folder,
                       flag_config,    gateway->config, flag_errors, to_stderr,   NULL};
    pid_t pid = gateway_child_start(command, SIGKILL);
    int status = CLI_UNAVAILABLE;

    while (pid > 0 && !gateway_child_ended(pid, &status))
        (void)told_to_stop(gateway, gateway_wait(POLL_MS));
    if (status == 0)
        return CLI_OK;
    if (pid == 0 || status == CLI_UNAVAILABLE)
        return cli_error(&cli_gateway, CLI_UNAVAILABLE, "%s cannot be run", gateway->nginx);
    return cli_error(&cli_gateway, CLI_CONFIG,
                     "nginx refuses the configuration; what it says is above");
}

/* It has its sockets when it has written its pid. */
static bool is_listening(const struct gateway *gateway)
{
    struct stat stat_of;
    char *path = NULL;
    bool is;

    if (asprintf(&path, "%s/nginx.pid", gateway->folder) < 0)
        return false;
    is = stat(path, &stat_of) == 0 && stat_of.st_size > 0;
    free(path);
    return is;
}

static int start_nginx(struct gateway *gateway)
{
    char *command[] = {gateway->nginx,  flag_prefix, gateway->folder, flag_config,
                       gateway->config, flag_errors, to_stderr,       NULL};
    int status;

    gateway->nginx_pid = gateway_child_start(command, SIGQUIT);
    while (!is_listening(gateway)) {
        if (gateway->nginx_pid == 0 || gateway_child_ended(gateway->nginx_pid, &status)) {
            gateway->nginx_pid = 0;
            return cli_error(&cli_gateway, CLI_UNAVAILABLE,
                             "nginx could not start; what it says is above");
        }
        if (told_to_stop(gateway, gateway_wait(POLL_MS))) {
            (void)kill(gateway->nginx_pid, SIGQUIT);
            return CLI_OK;
        }
    }
    return CLI_OK;
}

static void tell_listening(const struct gateway *gateway)
{
    const struct gateway_args *args = &gateway->args;

    if (args->json) {
        fputs("{\"listening\":", stdout);
        cli_json_string(stdout, once_bytes_of(args->listen));
        fputs(",\"upstream\":", stdout);
        cli_json_string(stdout, once_bytes_of(args->upstream_text));
        fputs(",\"server\":", stdout);
        cli_json_string(stdout, once_bytes_of(gateway->server));
        printf(",\"nginx_pid\":%ld}\n", (long)gateway->nginx_pid);
    } else {
        printf("listening on http://%s, for %s\n", args->listen, args->upstream_text);
    }
    (void)fflush(stdout);
}

static void warn(const struct gateway *gateway)
{
    if (!gateway_is_loopback(gateway->args.listen))
        (void)cli_message(&cli_gateway, 0,
                          "warning: %s is open to other machines, without TLS; docs/gateway.md has "
                          "set-ups with",
                          gateway->args.listen);
    if (gateway->args.metrics && !gateway_is_loopback(gateway->args.metrics))
        (void)cli_message(&cli_gateway, 0, "warning: %s shows its counters to other machines",
                          gateway->args.metrics);
    if (geteuid() == 0)
        (void)cli_message(&cli_gateway, 0,
                          "warning: you are root, and so are the processes of "
                          "nginx that clients talk to");
}

/* ---- While it runs --------------------------------------------------------------------------- */

static void act(struct gateway *gateway, int signal)
{
    int before = gateway->stops;

    (void)told_to_stop(gateway, signal);
    if (gateway->stops > before)
        (void)kill(gateway->nginx_pid, gateway->stops == 1 ? SIGQUIT : SIGTERM);
    if (signal == SIGHUP || signal == SIGUSR1)
        (void)kill(gateway->nginx_pid, signal);
    if (signal == SIGHUP && gateway->server_pid > 0)
        (void)kill(gateway->server_pid, signal);
}

/* Until nginx has ended. */
static void stay(struct gateway *gateway)
{
    int status;

    while (gateway->nginx_pid > 0) {
        int signal = gateway_wait(TURN_MS);

        if (gateway_child_ended(gateway->nginx_pid, &status)) {
            gateway->nginx_pid = 0;
            if (gateway->stops == 0 || status != 0)
                gateway->status = cli_message(&cli_gateway, CLI_UNAVAILABLE,
                                              "nginx ended with status %d", status);
            return;
        }
        act(gateway, signal);
        keep_server(gateway);
    }
}

static int run(struct gateway *gateway)
{
    int status = find_programs(gateway);

    if (status != CLI_OK)
        return status;
    warn(gateway);
    gateway_signals_take();
    status = make_files(gateway);
    if (status == CLI_OK)
        status = test_config(gateway);
    if (status == CLI_OK && gateway->stops == 0)
        status = serve_folder(gateway);
    if (status == CLI_OK && gateway->stops == 0)
        status = start_nginx(gateway);
    if (status == CLI_OK && gateway->stops == 0)
        tell_listening(gateway);
    stay(gateway);
    stop_server(gateway);
    return status != CLI_OK ? status : gateway->status;
}

static int gateway_run(int argc, char **argv)
{
    struct gateway gateway = {.nginx_pid = 0};
    int status = gateway_args_read(argc, argv, &gateway.args);

    if (status == CLI_OK)
        status = find_places(&gateway);
    if (status == CLI_OK && gateway.args.print) {
        gateway.module = gateway_find_module();
        write_config(&gateway, stdout);
    } else if (status == CLI_OK) {
        status = run(&gateway);
    }
    release(&gateway);
    return status;
}

const struct cli_command cli_gateway = {
    .name = "gateway",
    .summary = "an Idempotency-Key for any HTTP service, by nginx",
    .help = gateway_help,
    .run = gateway_run,
    .options = gateway_options,
    .option_count = sizeof(gateway_options) / sizeof(gateway_options[0]),
};
