/* SPDX-License-Identifier: Apache-2.0
 *
 * The one binary, `once`: finds the subcommand and runs it.
 */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/echo.h"
#include "cli/options.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_SIZE = 4096 };

static bool errors_as_json; /* --json was given */

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

__attribute__((format(printf, 3, 0))) static void
tell(const struct cli_command *command, int json_status, const char *format, va_list args)
{
    char message[MESSAGE_SIZE];

    vsnprintf(message, sizeof(message), format, args);
    fflush(stdout); /* where both go to one place, what was said first stands first */
    fprintf(stderr, "once %s: %s\n", command->name, message);
    if (!errors_as_json || json_status == CLI_OK)
        return;
    fputs("{\"error\":", stdout);
    cli_json_string(stdout, once_bytes_of(message));
    printf(",\"exit_status\":%d}\n", json_status);
}

int cli_usage(const struct cli_command *command, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(command, CLI_USAGE, format, args);
    va_end(args);
    fprintf(stderr, "Try 'once %s --help'.\n", command->name);
    return CLI_USAGE;
}

int cli_error(const struct cli_command *command, int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(command, status, format, args);
    va_end(args);
    return status;
}

int cli_message(const struct cli_command *command, int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(command, CLI_OK, format, args);
    va_end(args);
    return status;
}

static int tell_no_command(const char *name)
{
    const char *nearest = cli_command_nearest(name);

    fprintf(stderr, "once: there is no command '%s'", cli_echo(name).text);
    if (nearest)
        fprintf(stderr, "; did you mean '%s'?", nearest);
    fputs(name[0] == '-' ? "; the command comes first\nTry 'once --help'.\n"
                         : "\nTry 'once --help'.\n",
          stderr);
    return CLI_USAGE;
}

static int run(int argc, char **argv)
{
    const struct cli_command *command;

    if (argc < 2) {
        cli_print_overview(stderr);
        return CLI_USAGE;
    }
    if (is_help(argv[1])) {
        cli_print_overview(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("once " ONCE_VERSION);
        return CLI_OK;
    }
    command = cli_command_find(argv[1]);
    if (!command)
        return tell_no_command(argv[1]);
    if (cli_has_flag(argc - 1, argv + 1, "--help") || cli_has_flag(argc - 1, argv + 1, "-h")) {
        fputs(command->help, stdout);
        return CLI_OK;
    }
    errors_as_json = cli_has_flag(argc - 1, argv + 1, "--json");
    return command->run(argc - 1, argv + 1);
}

/* Where standard files were closed, the next ones that are opened would take their numbers, and
 * messages would be written into a store. Writing to what stands in for them fails, as before. */
static void fill_standard_files(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        (void)close(fd);
}

int main(int argc, char **argv)
{
    int status;

    fill_standard_files();
    status = run(argc, argv);
    /* A full disk or a closed pipe behind stdout is an error of its own, not a success. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("once: cannot write the output");
        return status != CLI_OK ? status : CLI_INTERNAL;
    }
    return status;
}
