/* SPDX-License-Identifier: Apache-2.0
 *
 * `once help`: all commands in their groups, the help text of one, and the same for machines.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/echo.h"
#include "cli/help_text.h"
#include "cli/options.h"

enum option { OPTION_JSON };

static const struct cli_option help_options[] = {{"--json", NULL, OPTION_JSON}};

static const char help_help[] =
    "usage: once help [--json] [COMMAND]\n"
    "\n"
    "Shows all commands, or how COMMAND is used: the same as `once COMMAND --help`. The manual "
    "pages\n"
    "(`once man`) and the completions of shells (`once completion`) are made from the same text.\n"
    "\n"
    "  --json     one JSON object for machines, errors too: commands with their options\n"
    "\n"
    "exit status: 0 shown; 64 usage, no such command; 71 an output that cannot be written\n";

void cli_print_overview(FILE *out)
{
    fputs("once: exactly-once effects over at-least-once networks\n"
          "\n"
          "usage: once COMMAND [ARGUMENTS]\n"
          "       once help [COMMAND]\n"
          "       once --version\n",
          out);
    for (size_t i = 0; i < cli_group_count; i++) {
        fprintf(out, "\n%s:\n", cli_groups[i].title);
        for (const struct cli_command *const *at = cli_groups[i].commands; *at; at++)
            fprintf(out, "  %-10s  %s\n", (*at)->name, (*at)->summary);
    }
    fputs("\nThe store is in --dir DIR, else $ONCE_DIR, else $XDG_DATA_HOME/once, else\n"
          "~/.local/share/once. Nothing needs to run: commands open the store for a moment, or ask "
          "the\n"
          "server that owns it.\n",
          out);
}

/* ---- For machines ---------------------------------------------------------------------------- */

static void print_pair(const char *name, const char *value)
{
    printf("\"%s\":", name);
    cli_json_string(stdout, once_bytes_of(value));
}

static void print_options(const struct cli_command *command)
{
    size_t count;
    const struct cli_option *options = cli_command_options(command, &count);

    fputs(",\"options\":[", stdout);
    for (size_t i = 0; i < count; i++) {
        fputs(i > 0 ? ",{" : "{", stdout);
        print_pair("name", options[i].name);
        fputs(",\"value\":", stdout);
        if (options[i].value)
            cli_json_string(stdout, once_bytes_of(options[i].value));
        else
            fputs("null", stdout);
        putchar(',');
        print_pair("brief", cli_option_brief(command->help, options[i].name).text);
        putchar('}');
    }
    putchar(']');
}

static void print_words(const char *words)
{
    struct cli_span rest = cli_span_of(words ? words : ""), word;

    fputs(",\"words\":[", stdout);
    for (bool first = true; cli_word_next(&rest, &word); first = false) {
        if (!first)
            putchar(',');
        cli_json_string(stdout, (struct once_bytes){(const uint8_t *)word.text, word.size});
    }
    putchar(']');
}

static void print_command(const struct cli_command *command)
{
    putchar('{');
    print_pair("name", command->name);
    putchar(',');
    print_pair("group", cli_command_group(command)->title);
    putchar(',');
    print_pair("summary", command->summary);
    print_options(command);
    print_words(command->words);
    putchar(',');
    print_pair("help", command->help);
    putchar('}');
}

static void print_json(const struct cli_command *only)
{
    const struct cli_command *command = NULL;
    bool first = true;

    if (only) {
        print_command(only);
        putchar('\n');
        return;
    }
    fputs("{\"version\":\"" ONCE_VERSION "\",\"commands\":[", stdout);
    while ((command = cli_command_next(command)) != NULL) {
        if (!first)
            putchar(',');
        first = false;
        print_command(command);
    }
    puts("]}");
}

/* ---- The command ----------------------------------------------------------------------------- */

static int help_run(int argc, char **argv)
{
    struct cli_args reader = CLI_ARGS(&cli_help, help_options, argc, argv);
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
            return cli_usage(&cli_help, "one command at a time: '%s'", cli_echo(value).text);
        command = cli_command_named(&cli_help, value);
        if (!command)
            return CLI_USAGE;
    }
    if (json)
        print_json(command);
    else if (command)
        fputs(command->help, stdout);
    else
        cli_print_overview(stdout);
    return CLI_OK;
}

const struct cli_command cli_help = {
    .name = "help",
    .summary = "all commands, or how one is used",
    .help = help_help,
    .run = help_run,
    .options = help_options,
    .option_count = sizeof(help_options) / sizeof(help_options[0]),
    .words = CLI_WORDS_COMMANDS,
};
