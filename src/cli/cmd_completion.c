/* SPDX-License-Identifier: Apache-2.0
 *
 * `once completion`: prints the script for a shell; and what the scripts of all shells need to know
 * about options.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/completion.h"
#include "cli/echo.h"
#include "cli/options.h"

enum option { OPTION_JSON };

static const struct cli_option completion_options[] = {{"--json", NULL, OPTION_JSON}};

static const char completion_help[] =
    "usage: once completion [--json] bash|zsh|fish\n"
    "\n"
    "Prints the script that teaches a shell to complete commands, options and their values.\n"
    "`make install` puts all three where the shells look. Without it, say in the shell's own "
    "file:\n"
    "\n"
    "  bash   eval \"$(once completion bash)\" in ~/.bashrc\n"
    "  zsh    eval \"$(once completion zsh)\" in ~/.zshrc, behind compinit\n"
    "  fish   once completion fish | source, in ~/.config/fish/config.fish\n"
    "\n"
    "  --json     one JSON object for machines, errors too: the script as a string\n"
    "\n"
    "exit status: 0 printed; 64 usage, no such shell; 71 out of memory, or an output that cannot "
    "be\n"
    "written\n";

static const struct {
    const char *name;
    void (*print)(FILE *out);
} shells[] = {
    {"bash", cli_completion_bash},
    {"zsh", cli_completion_zsh},
    {"fish", cli_completion_fish},
};

/* ---- What can be offered --------------------------------------------------------------------- */

enum cli_offer cli_offer_of(const struct cli_option *option)
{
    static const char *const folders[] = {"DIR", "FOLDER"};
    static const char *const files[] = {"FILE", "PATH", "F"};

    if (!option->value)
        return CLI_OFFER_NO_VALUE;
    if (strchr(option->value, '|'))
        return CLI_OFFER_WORDS;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (strcmp(option->value, folders[i]) == 0)
            return CLI_OFFER_FOLDERS;
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (strcmp(option->value, files[i]) == 0)
            return CLI_OFFER_FILES;
    }
    return CLI_OFFER_NOTHING;
}

void cli_offer_words(FILE *out, const struct cli_option *option)
{
    for (const char *c = option->value; *c; c++)
        putc(*c == '|' ? ' ' : *c, out);
}

bool cli_offer_has_arguments(const struct cli_command *command)
{
    return command->words != NULL;
}

void cli_offer_arguments(FILE *out, const struct cli_command *command)
{
    if (!command->words)
        return;
    if (strcmp(command->words, CLI_WORDS_COMMANDS) != 0) {
        fputs(command->words, out);
        return;
    }
    for (const struct cli_command *at = cli_command_next(NULL); at; at = cli_command_next(at))
        fprintf(out, "%s%s", at == cli_command_next(NULL) ? "" : " ", at->name);
}

bool cli_offer_runs_commands(const struct cli_command *command)
{
    return strstr(command->help, "-- COMMAND") != NULL;
}

void cli_offer_escaped(FILE *out, const char *text, const struct cli_escape *escapes)
{
    for (; *text; text++) {
        const struct cli_escape *escape = escapes;

        while (escape->text && escape->character != *text)
            escape++;
        if (escape->text)
            fputs(escape->text, out);
        else
            putc(*text, out);
    }
}

/* ---- The command ----------------------------------------------------------------------------- */

static int print_json(size_t shell)
{
    char *script = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&script, &size);

    if (out) {
        shells[shell].print(out);
        if (fclose(out) != 0)
            out = NULL;
    }
    if (!out) {
        free(script);
        return cli_error(&cli_completion, CLI_INTERNAL, "out of memory");
    }
    printf("{\"shell\":\"%s\",\"script\":", shells[shell].name);
    cli_json_string(stdout, once_bytes_of(script));
    puts("}");
    free(script);
    return CLI_OK;
}

static int completion_run(int argc, char **argv)
{
    struct cli_args reader = CLI_ARGS(&cli_completion, completion_options, argc, argv);
    const char *value, *name = NULL;
    bool json = false;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        json = json || got == OPTION_JSON;
        if (got != CLI_ARG_VALUE)
            continue;
        if (name)
            return cli_usage(&cli_completion, "one shell at a time: '%s'", cli_echo(value).text);
        name = value;
    }
    if (!name)
        return cli_usage(&cli_completion, "for which shell? bash, zsh or fish");
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(name, shells[i].name) != 0)
            continue;
        if (json)
            return print_json(i);
        shells[i].print(stdout);
        return CLI_OK;
    }
    return cli_usage(&cli_completion, "there is no script for '%s'; there is: bash, zsh, fish",
                     cli_echo(name).text);
}

const struct cli_command cli_completion = {
    .name = "completion",
    .summary = "the script with which bash, zsh or fish completes once",
    .help = completion_help,
    .run = completion_run,
    .options = completion_options,
    .option_count = sizeof(completion_options) / sizeof(completion_options[0]),
    .words = "bash zsh fish",
};
