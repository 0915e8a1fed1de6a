/* SPDX-License-Identifier: Apache-2.0
 *
 * `once man`: manual pages. On a terminal the page is shown by man, where there is one.
 */
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/echo.h"
#include "cli/manual.h"
#include "cli/options.h"

enum option { OPTION_JSON };

static const struct cli_option man_options[] = {{"--json", NULL, OPTION_JSON}};

static const char man_help[] =
    "usage: once man [--json] [COMMAND]\n"
    "\n"
    "The manual page of a command, or of once itself. On a terminal it is shown by `man`, where "
    "that\n"
    "is installed; elsewhere it is printed in roff, for a file. `make install` installs all of "
    "them.\n"
    "\n"
    "  once man run\n"
    "  once man run >once-run.1\n"
    "\n"
    "  --json     one JSON object for machines, errors too: the page as a string\n"
    "\n"
    "exit status: 0 shown; 64 usage, no such command; 71 out of memory, or an output that cannot "
    "be\n"
    "written\n";

extern char **environ;

/* Through a file that has no name: a pager that ends early is then no broken pipe. */
static bool show(const char *page, size_t size)
{
    char *arguments[] = {(char[]){"man"}, (char[]){"-l"}, (char[]){"-"}, NULL};
    posix_spawn_file_actions_t actions;
    int fd = memfd_create("once.1", MFD_CLOEXEC), status = -1;
    pid_t pid;

    if (fd < 0)
        return false;
    if (write(fd, page, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0 ||
        posix_spawn_file_actions_init(&actions) != 0) {
        (void)close(fd);
        return false;
    }
    fflush(stdout);
    if (posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO) == 0 &&
        posix_spawnp(&pid, arguments[0], &actions, NULL, arguments, environ) == 0) {
        while (waitpid(pid, &status, 0) < 0)
            continue; /* only a signal ends it early */
    }
    posix_spawn_file_actions_destroy(&actions);
    (void)close(fd);
    return status == 0;
}

static int print_page(const struct cli_command *command, bool json)
{
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);

    if (out) {
        cli_manual(out, command);
        if (fclose(out) != 0)
            out = NULL;
    }
    if (!out) {
        free(page);
        return cli_error(&cli_man, CLI_INTERNAL, "out of memory");
    }
    if (json) {
        printf("{\"name\":\"once%s%s\",\"section\":1,\"page\":", command ? "-" : "",
               command ? command->name : "");
        cli_json_string(stdout, once_bytes_of(page));
        puts("}");
    } else if (!isatty(STDOUT_FILENO)) {
        fputs(page, stdout);
    } else if (!show(page, size)) {
        /* roff is for no person's eyes. */
        if (command)
            fputs(command->help, stdout);
        else
            cli_print_overview(stdout);
    }
    free(page);
    return CLI_OK;
}

static int man_run(int argc, char **argv)
{
    struct cli_args reader = CLI_ARGS(&cli_man, man_options, argc, argv);
    const struct cli_command *command = NULL;
    bool json = false;
    const char *value;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        if (got == OPTION_JSON) {
            json = true;
            continue;
        }
        if (command)
            return cli_usage(&cli_man, "one command at a time: '%s'", cli_echo(value).text);
        command = cli_command_named(&cli_man, value);
        if (!command)
            return CLI_USAGE;
    }
    return print_page(command, json);
}

const struct cli_command cli_man = {
    .name = "man",
    .summary = "manual pages",
    .help = man_help,
    .run = man_run,
    .options = man_options,
    .option_count = sizeof(man_options) / sizeof(man_options[0]),
    .words = CLI_WORDS_COMMANDS,
};
