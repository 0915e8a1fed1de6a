/* SPDX-License-Identifier: Apache-2.0
 *
 * The script for fish (3.0 or newer).
 */
#include "cli/completion.h"
#include "cli/help_text.h"

static const struct cli_escape in_quotes[] = {{'\'', "\\'"}, {'\\', "\\\\"}, {0, NULL}};

static const char head[] =
    "# Completes once in fish. Made by `once completion fish` from the tables of its commands.\n"
    "\n"
    "# The command is this one, and what is typed does not stand behind --.\n"
    "function __once_is\n"
    "    set -l words (commandline -opc)\n"
    "    test (count $words) -ge 2; and test $words[2] = $argv[1]; and not contains -- -- $words\n"
    "end\n"
    "\n"
    "# And none of the words that its first argument may be was typed yet.\n"
    "function __once_chooses\n"
    "    __once_is $argv[1]; or return 1\n"
    "    for word in (commandline -opc)[3..-1]\n"
    "        contains -- $word $argv[2..-1]; and return 1\n"
    "    end\n"
    "    return 0\n"
    "end\n"
    "\n"
    "# The command is this one, and its -- was typed.\n"
    "function __once_runs\n"
    "    set -l words (commandline -opc)\n"
    "    test (count $words) -ge 2; and test $words[2] = $argv[1]; and contains -- -- $words\n"
    "end\n"
    "\n"
    "function __once_starts\n"
    "    test (count (commandline -opc)) -eq 1\n"
    "end\n"
    "\n"
    "complete -c once -n __once_starts -f\n"
    "complete -c once -n __once_starts -l help -d 'show all commands'\n"
    "complete -c once -n __once_starts -l version -d 'show the version'\n";

static void print_option(FILE *out, const struct cli_command *command,
                         const struct cli_option *option)
{
    bool is_long = option->name[1] == '-';

    fprintf(out, "complete -c once -n '__once_is %s' -%c %s", command->name, is_long ? 'l' : 's',
            option->name + (is_long ? 2 : 1));
    switch (cli_offer_of(option)) {
    case CLI_OFFER_NO_VALUE:
        break;
    case CLI_OFFER_WORDS:
        fputs(" -x -a '", out);
        cli_offer_words(out, option);
        putc('\'', out);
        break;
    case CLI_OFFER_FOLDERS:
        fputs(" -x -a '(__fish_complete_directories)'", out);
        break;
    case CLI_OFFER_FILES:
        fputs(" -r -F", out);
        break;
    case CLI_OFFER_NOTHING:
        fputs(" -x", out);
        break;
    }
    fputs(" -d '", out);
    cli_offer_escaped(out, cli_option_brief(command->help, option->name).text, in_quotes);
    fputs("'\n", out);
}

static void print_command(FILE *out, const struct cli_command *command)
{
    size_t count;
    const struct cli_option *options = cli_command_options(command, &count);

    fprintf(out, "\ncomplete -c once -n __once_starts -a %s -d '", command->name);
    cli_offer_escaped(out, command->summary, in_quotes);
    fputs("'\n", out);
    for (size_t i = 0; i < count; i++)
        print_option(out, command, &options[i]);
    fprintf(out, "complete -c once -n '__once_is %s' -l help -d 'show how it is used'\n",
            command->name);
    if (cli_offer_has_arguments(command)) {
        fprintf(out, "complete -c once -n '__once_chooses %s ", command->name);
        cli_offer_arguments(out, command);
        fputs("' -f -a '", out);
        cli_offer_arguments(out, command);
        fputs("'\n", out);
    }
    if (cli_offer_runs_commands(command))
        fprintf(out, "complete -c once -n '__once_runs %s' -a '(__fish_complete_command)'\n",
                command->name);
}

void cli_completion_fish(FILE *out)
{
    fputs(head, out);
    for (const struct cli_command *at = cli_command_next(NULL); at; at = cli_command_next(at))
        print_command(out, at);
}
