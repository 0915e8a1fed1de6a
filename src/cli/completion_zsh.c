/* SPDX-License-Identifier: Apache-2.0
 *
 * The script for zsh: a file of its fpath (_once), or for eval behind compinit.
 */
#include "cli/completion.h"
#include "cli/help_text.h"

/* What ends a text in single quotes, and what ends the text of an option in _arguments. */
static const struct cli_escape in_quotes[] = {{'\'', "'\\''"}, {0, NULL}};
static const struct cli_escape in_option[] = {{'\'', "'\\''"}, {'[', "\\["},   {']', "\\]"},
                                              {':', "\\:"},    {'\\', "\\\\"}, {0, NULL}};

static void print_commands(FILE *out)
{
    fputs("    if (( CURRENT == 2 )); then\n"
          "        local -a commands\n"
          "        commands=(\n",
          out);
    for (const struct cli_command *at = cli_command_next(NULL); at; at = cli_command_next(at)) {
        fprintf(out, "            '%s:", at->name);
        cli_offer_escaped(out, at->summary, in_quotes);
        fputs("'\n", out);
    }
    fputs("        )\n"
          "        _describe -t commands 'command of once' commands\n"
          "        _arguments '--help[show all commands]' '--version[show the version]'\n"
          "        return\n"
          "    fi\n",
          out);
}

/* '--state=[only those in this state]:STATE:(started completed)' */
static void print_option(FILE *out, const struct cli_command *command,
                         const struct cli_option *option)
{
    enum cli_offer offer = cli_offer_of(option);

    fprintf(out, " \\\n            '*%s%s[", option->name,
            offer != CLI_OFFER_NO_VALUE && option->name[1] == '-' ? "=" : "");
    cli_offer_escaped(out, cli_option_brief(command->help, option->name).text, in_option);
    putc(']', out);
    if (offer != CLI_OFFER_NO_VALUE) {
        putc(':', out);
        cli_offer_escaped(out, option->value, in_option);
        putc(':', out);
    }
    if (offer == CLI_OFFER_WORDS) {
        putc('(', out);
        cli_offer_words(out, option);
        putc(')', out);
    }
    if (offer == CLI_OFFER_FOLDERS || offer == CLI_OFFER_FILES)
        fputs(offer == CLI_OFFER_FOLDERS ? "_files -/" : "_files", out);
    putc('\'', out);
}

static void print_arguments(FILE *out, const struct cli_command *command)
{
    size_t count;
    const struct cli_option *options = cli_command_options(command, &count);

    fprintf(out, "    %s)\n", command->name);
    if (cli_offer_runs_commands(command))
        fputs("        if (( words[(i)--] < CURRENT )); then\n"
              "            local at=$words[(i)--]\n"
              "            shift $at words\n"
              "            (( CURRENT -= at ))\n"
              "            _normal\n"
              "            return\n"
              "        fi\n",
              out);
    fputs("        _arguments -S", out);
    for (size_t i = 0; i < count; i++)
        print_option(out, command, &options[i]);
    fputs(" \\\n            '(- *)--help[show how it is used]'", out);
    if (cli_offer_has_arguments(command)) {
        fputs(" \\\n            '1:word:(", out);
        cli_offer_arguments(out, command);
        fputs(")'", out);
    }
    fputs(" \\\n            '*:argument:_files' ;;\n", out);
}

void cli_completion_zsh(FILE *out)
{
    fputs(
        "#compdef once\n"
        "# Completes once in zsh. Made by `once completion zsh` from the tables of its commands.\n"
        "_once() {\n",
        out);
    print_commands(out);
    fputs("    shift words\n"
          "    (( CURRENT -= 1 ))\n"
          "    case $words[1] in\n",
          out);
    for (const struct cli_command *at = cli_command_next(NULL); at; at = cli_command_next(at))
        print_arguments(out, at);
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _once ]]; then\n"
          "    _once \"$@\"\n"
          "else\n"
          "    compdef _once once\n"
          "fi\n",
          out);
}
