/* SPDX-License-Identifier: Apache-2.0
 *
 * `once serve`: runs the server. Flags go over variables, variables over the file; there is a flag
 * for every setting of the whole server, made from the table of settings.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/options.h"
#include "cli/serve.h"
#include "server/server.h"
#include "server/tls.h"
#include "store/postgres/pg.h"

enum { LARGE_MEMORY = 1 << 18, OWNER_SIZE = 256 };

static const char serve_help[] =
    "usage: once serve [--config FILE] [SETTING...]\n"
    "       once serve [--config FILE] [SETTING...] [--json] --check-config\n"
    "       once serve --hash-password | --make-token | --help-settings | --help-commands\n"
    "\n"
    "Serves a store over the Redis protocol (127.0.0.1:7411, and once.sock in the folder) and "
    "over\n"
    "HTTP (127.0.0.1:7412), until it is told to stop: SIGTERM and SIGINT answer what was begun "
    "and\n"
    "seal the store (a second one cuts what is left), SIGHUP reads the configuration, the\n"
    "certificates and the log file again.\n"
    "\n"
    "  --config FILE            read settings from this file (default: $ONCE_CONFIG, else none)\n"
    "  --check-config           say whether the configuration is right, and what it comes to\n"
    "  --json                   errors, and what --check-config says, as one JSON object; the log "
    "is\n"
    "                           JSON with --log json\n"
    "  --hash-password          read a password, print the line of the file for it\n"
    "  --make-token             print a new token, and the line of the file for it\n"
    "  --help-settings          every setting, as a page\n"
    "  --help-commands          every command of the Redis protocol, as a page\n"
    "\n"
    "settings (as NAME = VALUE in the file, as ONCE_NAME in the environment):\n"
    "  --dir FOLDER             the store's folder (default: $ONCE_DIR, else $XDG_DATA_HOME/once,\n"
    "                           else ~/.local/share/once)\n"
    "  --store URL              a store that servers share, instead of a folder:\n"
    "                           postgres://USER@HOST/DATABASE\n"
    "  --accept-loss            go on where that database may lose what it has acknowledged\n"
    "  --listen [tls://]HOST:PORT   where RESP is served; may stand more than once; off is "
    "nowhere\n"
    "  --http [tls://]HOST:PORT     the same for HTTP\n"
    "  --socket PATH            the unix socket; off is none\n"
    "  --durability WORD        always, interval or none (default: always)\n"
    "  --interval TIME          between durable writes with --durability interval\n"
    "  --disk-max SIZE          bytes of the log on disk, such as 100g (default: 0, no bound)\n"
    "  --keys-max N             keys that the store may hold\n"
    "  --objects-max SIZE       bytes of memory for objects (default: 4g)\n"
    "  --tls-cert FILE          the certificate, PEM\n"
    "  --tls-key FILE           its key, PEM\n"
    "  --plaintext yes|no       other machines may be served without TLS (default: no)\n"
    "  --log text|json          the form of the log (default: text)\n"
    "  --log-level WORD         error, warn, info or debug (default: info)\n"
    "  --log-file FILE          where the log goes (default: standard error)\n"
    "  --connections-max N      connections at the same time (default: 20000)\n"
    "  --idle TIME              closes silent RESP connections (default: 0, never)\n"
    "  --drain TIME             how long stopping waits for what was begun (default: 30s)\n"
    "  --namespaces WORD        any, or declared: only those of the file (default: any)\n"
    "\n"
    "exit status: 0 it was told to stop, and all is sealed; 64 usage; 69 the store is in use, a\n"
    "port is in use, a write failed, or the database does not let us in; 70 the store is damaged;\n"
    "78 the configuration is wrong, or the database may lose what it has acknowledged\n";

enum { FLAGS_MAX = 64, OPTIONS_MAX = 64, NAME_SIZE = 40 };

enum option {
    OPTION_CONFIG,
    OPTION_JSON,
    OPTION_CHECK,
    OPTION_HASH,
    OPTION_TOKEN,
    OPTION_HELP_SETTINGS,
    OPTION_HELP_COMMANDS,
    OPTION_SETTINGS /* and from here on, by index in once__settings */
};

/* What the arguments say; also what a reload reads again. */
struct serve_args {
    const char *config;
    bool json;
    int only; /* one of the options that print something and end; OPTION_CONFIG is none */
    struct once__setting flags[FLAGS_MAX];
    size_t flag_count;
};

/* "--log-level" of "log_level". */
static void flag_name(const char *setting, char ret_name[NAME_SIZE])
{
    snprintf(ret_name, NAME_SIZE, "--%s", setting);
    for (char *c = ret_name; *c; c++)
        *c = *c == '_' ? '-' : *c;
}

/* What is dangerous is said in one word, and never by a yes that was meant for another. */
static bool stands_alone(const struct once__setting_help *setting)
{
    return strcmp(setting->name, "accept_loss") == 0;
}

/* A setting's name stands at its index in once__settings; messages point into it. */
static char names[OPTIONS_MAX][NAME_SIZE];

/* Our own, and a flag for every setting of the whole server: those have no section. */
static const struct cli_option *make_options(size_t *ret_count)
{
    static const struct cli_option own[] = {
        {"--config", "FILE", OPTION_CONFIG},
        {"--json", NULL, OPTION_JSON},
        {"--check-config", NULL, OPTION_CHECK},
        {"--hash-password", NULL, OPTION_HASH},
        {"--make-token", NULL, OPTION_TOKEN},
        {"--help-settings", NULL, OPTION_HELP_SETTINGS},
        {"--help-commands", NULL, OPTION_HELP_COMMANDS},
    };
    static struct cli_option options[OPTIONS_MAX];
    size_t count = sizeof(own) / sizeof(own[0]);
    const char *value;

    memcpy(options, own, sizeof(own));
    for (size_t i = 0; i < once__setting_count && i < OPTIONS_MAX && count < OPTIONS_MAX; i++) {
        if (once__settings[i].section[0] != '\0')
            continue;
        flag_name(once__settings[i].name, names[i]);
        value = stands_alone(&once__settings[i]) ? NULL : once__settings[i].value;
        options[count++] = (struct cli_option){names[i], value, OPTION_SETTINGS + (int)i};
    }
    *ret_count = count;
    return options;
}

static bool has_flag(const struct serve_args *args, const char *setting)
{
    for (size_t i = 0; i < args->flag_count; i++) {
        if (strcmp(args->flags[i].name, setting) == 0)
            return true;
    }
    return false;
}

static int read_args(int argc, char **argv, struct serve_args *args)
{
    struct cli_args reader = {.command = &cli_serve, .argc = argc, .argv = argv, .next = 1};
    const char *value;
    int got;

    reader.options = make_options(&reader.option_count);
    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        if (got == CLI_ARG_VALUE)
            return cli_usage(&cli_serve, "'%s' is no option", cli_echo(value).text);
        if (got == OPTION_CONFIG && args->config)
            return cli_usage(&cli_serve, "--config stands twice");
        if (got == OPTION_CONFIG) {
            args->config = value;
        } else if (got == OPTION_JSON) {
            args->json = true;
        } else if (got < OPTION_SETTINGS) {
            if (args->only != OPTION_CONFIG && args->only != got)
                return cli_usage(&cli_serve, "one thing at a time, please");
            args->only = got;
        } else if (args->flag_count == FLAGS_MAX) {
            return cli_usage(&cli_serve, "too many settings");
        } else {
            args->flags[args->flag_count++] = (struct once__setting){
                .name = once__settings[got - OPTION_SETTINGS].name,
                .value = value ? value : "yes",
                .from = names[got - OPTION_SETTINGS]};
        }
    }
    if (has_flag(args, "dir") && has_flag(args, "store"))
        return cli_usage(&cli_serve, "--dir is a folder, --store a shared store: give one of them");
    return CLI_OK;
}

/* ---- The configuration ----------------------------------------------------------------------- */

static int read_config(void *user, struct once__config **ret_config,
                       struct once__config_error *ret_error)
{
    const struct serve_args *args = user;
    const struct once__config_sources sources = {.file = args->config,
                                                 .environment = environ,
                                                 .flags = args->flags,
                                                 .flag_count = args->flag_count};

    return once__config_read(&sources, ret_config, ret_error);
}

static int config_status(int err)
{
    return err == ONCE_ERR_MEMORY ? CLI_INTERNAL : CLI_CONFIG;
}

/* Can the server use the certificate and its key? */
static int check_certificate(const struct once__config *config)
{
    struct once_message message = {{0}};
    struct once__tls *tls = NULL;
    int err = config->tls_cert ? once__tls_new(config->tls_cert, config->tls_key, &tls, &message)
                               : ONCE_OK;

    once__tls_free(tls);
    if (err == ONCE_OK)
        return CLI_OK;
    return cli_error(&cli_serve, config_status(err), "%s",
                     cli_clean(message.text[0] ? message.text : once_err_text(err)).text);
}

static void show_config_json(const struct once__config *config, struct once_bytes text)
{
    fputs("{\"ok\":true,\"configuration\":", stdout);
    cli_json_string(stdout, text);
    fputs(",\"warnings\":[", stdout);
    for (size_t i = 0; i < config->warning_count; i++) {
        fputs(i > 0 ? "," : "", stdout);
        cli_json_string(stdout, once_bytes_of(config->warnings[i]));
    }
    puts("]}");
}

static void show_config(const struct once__config *config, struct once_bytes text)
{
    puts("ok");
    cli_print_lines(stdout, text);
    for (size_t i = 0; i < config->warning_count; i++)
        fprintf(stderr, "once serve: warning: %s\n", cli_clean(config->warnings[i]).text);
}

static int check_config(const struct once__config *config, bool json)
{
    struct once_buf text;
    int status = check_certificate(config), err;

    if (status != CLI_OK)
        return status;
    once_buf_init(&text, 1U << 26);
    err = once__config_show(config, &text);
    if (err == ONCE_OK && json)
        show_config_json(config, once_buf_bytes(&text));
    else if (err == ONCE_OK)
        show_config(config, once_buf_bytes(&text));
    once_buf_release(&text);
    if (err != ONCE_OK)
        return cli_error(&cli_serve, CLI_INTERNAL, "%s", once_err_text(err));
    return CLI_OK;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* A word that a shell reads as it stands. */
static bool is_plain(const char *word)
{
    return word[0] != '\0' &&
           word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789/._+-")] == '\0';
}

static void print_address(const char *host, unsigned port)
{
    fprintf(stderr, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

/* Where someone on this machine finds what listens there. */
static const char *own_host(const char *host)
{
    if (strcmp(host, "0.0.0.0") == 0)
        return "127.0.0.1";
    return strcmp(host, "::") == 0 ? "::1" : host;
}

/* A few lines for whoever started it by hand: what is where, and what to type next. */
static void greet(const struct once__server *server, const struct once__config *config)
{
    bool resp = config->resp_count > 0, http = config->http_count > 0;
    char url[ONCE_STORE_URL_SIZE_MAX + 64];

    if (!isatty(STDERR_FILENO))
        return;
    fputs("once serves", stderr);
    if (resp) {
        fputs(" RESP on ", stderr);
        print_address(config->resp[0].host, once__server_resp_port(server, 0));
    }
    if (http) {
        fputs(resp ? " and HTTP on " : " HTTP on ", stderr);
        print_address(config->http[0].host, once__server_http_port(server, 0));
    }
    if (config->store_url)
        once__pg_url_shown(config->store_url, url, sizeof(url));
    fprintf(stderr, "%s from %s; Ctrl-C stops it\n", resp || http ? "," : "",
            config->folder ? config->folder : cli_clean(url).text);
    if (config->folder && is_plain(program_invocation_name) && is_plain(config->folder))
        fprintf(stderr, "try: %s run --dir %s hello -- date\n", program_invocation_name,
                config->folder);
    if (resp && !config->resp[0].tls)
        fprintf(stderr, "try: redis-cli -p %u ONCE.BEGIN demo k1\n",
                once__server_resp_port(server, 0));
    if (http) {
        fprintf(stderr, "see: %s://", config->http[0].tls ? "https" : "http");
        print_address(own_host(config->http[0].host), once__server_http_port(server, 0));
        fputs("/\n", stderr);
    }
}

/* A store's option comes from the configuration here, and so does a database that may lose data. */
static int run_status(int err)
{
    return err == ONCE_ERR_INVALID || err == ONCE_ERR_UNSUPPORTED ? CLI_CONFIG
                                                                  : cli_store_status(err);
}

/* A port in use is most often that of a server which has this very folder. */
static int tell_start(const struct once__config *config, int err, const char *what)
{
    char owner[OWNER_SIZE];

    if (err == ONCE_ERR_IO && config->folder &&
        cli_folder_owner(config->folder, owner, sizeof(owner)))
        return cli_error(&cli_serve, run_status(err), "%s. '%s' is served already, by %s",
                         cli_clean(what).text, cli_echo(config->folder).text,
                         owner[0] ? owner : "another process");
    return cli_error(&cli_serve, run_status(err), "%s", cli_clean(what).text);
}

static int serve(struct serve_args *args, struct once__config *config)
{
    const struct once__server_setup setup = {
        .config = config, .signals = true, .reload = read_config, .user = args};
    struct once__server *server = NULL;
    struct once_message message = {{0}};
    int err;

    (void)umask(077); /* whatever is made is its owner's */
#ifdef M_MMAP_THRESHOLD
    /* Memory of large results goes back to the system: left alone, glibc keeps more and more. */
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_MEMORY);
#endif
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a limit on files is a failed write, and says so */
    err = once__server_new(&setup, &server, &message);
    if (err != ONCE_OK)
        return tell_start(config, err, message.text[0] ? message.text : once_err_text(err));
    greet(server, config);
    err = once__server_run(server, &message);
    once__server_free(server);
    if (err == ONCE_OK)
        return CLI_OK;
    return cli_error(&cli_serve, run_status(err), "%s",
                     cli_clean(message.text[0] ? message.text : once_err_text(err)).text);
}

static int serve_run(int argc, char **argv)
{
    struct serve_args args = {.only = OPTION_CONFIG};
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;
    int status = read_args(argc, argv, &args), err;

    if (status != CLI_OK)
        return status;
    if (args.only == OPTION_HASH)
        return cli_serve_hash_password();
    if (args.only == OPTION_TOKEN)
        return cli_serve_make_token();
    if (args.only == OPTION_HELP_SETTINGS)
        return cli_serve_help_settings();
    if (args.only == OPTION_HELP_COMMANDS)
        return cli_serve_help_commands();
    err = read_config(&args, &config, &error);
    if (err != ONCE_OK)
        return cli_error(&cli_serve, config_status(err), "%s", cli_clean(error.text).text);
    status = args.only == OPTION_CHECK ? check_config(config, args.json) : serve(&args, config);
    once__config_unref(config);
    return status;
}

const struct cli_command cli_serve = {
    .name = "serve",
    .summary = "serve a store over the Redis protocol and HTTP",
    .help = serve_help,
    .run = serve_run,
    .make_options = make_options,
};
