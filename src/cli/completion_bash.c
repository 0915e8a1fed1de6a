/* SPDX-License-Identifier: Apache-2.0
 *
 * The script for bash (4.4 or newer). It needs nothing besides bash.
 */
#include "cli/completion.h"

static const char head[] =
    "# Completes once in bash. Made by `once completion bash` from the tables of its commands.\n"
    "_once() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} option='' options='' "
    "words=''\n"
    "    local i behind=0 chosen=''\n"
    "    COMPREPLY=()\n"
    "    # Bash takes --name=value apart into three words.\n"
    "    if [[ $cur == '=' ]]; then\n"
    "        cur='' option=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    elif [[ ${COMP_WORDS[COMP_CWORD-1]} == '=' ]]; then\n"
    "        option=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    else\n"
    "        option=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    fi\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        if [[ ${COMP_WORDS[i]} == '--' ]]; then\n"
    "            behind=$i\n"
    "            break\n"
    "        fi\n"
    "    done\n";

static void print_commands(FILE *out)
{
    fputs("    if ((COMP_CWORD == 1)); then\n"
          "        COMPREPLY=($(compgen -W '",
          out);
    for (const struct cli_command *at = cli_command_next(NULL); at; at = cli_command_next(at))
        fprintf(out, "%s ", at->name);
    fputs("--help --version' -- \"$cur\"))\n"
          "        return\n"
          "    fi\n",
          out);
}

/* Behind --: somebody else's command, or no options at least. */
static void print_behind(FILE *out)
{
    fputs("    if ((behind)); then\n"
          "        case $command in\n",
          out);
    for (const struct cli_command *at = cli_command_next(NULL); at; at = cli_command_next(at)) {
        if (cli_offer_runs_commands(at))
            fprintf(out,
                    "        %s)\n"
                    "            if ((COMP_CWORD == behind + 1)); then\n"
                    "                COMPREPLY=($(compgen -c -- \"$cur\"))\n"
                    "            fi ;;\n",
                    at->name);
    }
    fputs("        esac\n"
          "        return\n"
          "    fi\n",
          out);
}

static void print_values(FILE *out, const struct cli_command *command)
{
    size_t count;
    const struct cli_option *options = cli_command_options(command, &count);

    for (size_t i = 0; i < count; i++) {
        enum cli_offer offer = cli_offer_of(&options[i]);

        if (offer == CLI_OFFER_NO_VALUE)
            continue;
        fprintf(out, "    '%s %s')\n", command->name, options[i].name);
        if (offer == CLI_OFFER_WORDS) {
            fputs("        COMPREPLY=($(compgen -W '", out);
            cli_offer_words(out, &options[i]);
            fputs("' -- \"$cur\"))\n", out);
        } else if (offer != CLI_OFFER_NOTHING) {
            fprintf(out,
                    "        compopt -o filenames\n"
                    "        mapfile -t COMPREPLY < <(compgen -%c -- \"$cur\")\n",
                    offer == CLI_OFFER_FOLDERS ? 'd' : 'f');
        } else {
            fputs("        compopt +o default +o bashdefault\n", out);
        }
        fputs("        return ;;\n", out);
    }
}

static void print_options(FILE *out, const struct cli_command *command)
{
    size_t count;
    const struct cli_option *options = cli_command_options(command, &count);

    fprintf(out, "    %s)\n        options='", command->name);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s ", options[i].name);
    fputs("--help'", out);
    if (cli_offer_has_arguments(command)) {
        fputs(" words='", out);
        cli_offer_arguments(out, command);
        putc('\'', out);
    }
    fputs(" ;;\n", out);
}

void cli_completion_bash(FILE *out)
{
    fputs(head, out);
    print_commands(out);
    print_behind(out);
    fputs("    case \"$command $option\" in\n", out);
    for (const struct cli_command *at = cli_command_next(NULL); at; at = cli_command_next(at))
        print_values(out, at);
    fputs("    esac\n"
          "    case $command in\n",
          out);
    for (const struct cli_command *at = cli_command_next(NULL); at; at = cli_command_next(at))
        print_options(out, at);
    fputs("    esac\n"
          "    if [[ $cur == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
          "        return\n"
          "    fi\n"
          "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "        [[ \" $words \" == *\" ${COMP_WORDS[i]} \"* ]] && chosen=1\n"
          "    done\n"
          "    if [[ -n $words && -z $chosen ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "    fi\n"
          "}\n"
          "complete -o bashdefault -o default -F _once once\n",
          out);
}
