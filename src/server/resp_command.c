/* SPDX-License-Identifier: Apache-2.0
 *
 * COMMAND, HELP and ONCE.HELP: what the command table says, in the forms that client libraries and
 * people read.
 */
#include "server/resp_commands.h"

#include <stdio.h>
#include <string.h>

/* ---- The table, for libraries ---------------------------------------------------------------- */

static const struct {
    unsigned flag;
    const char *name; /* as Redis calls it */
} flag_names[] = {
    {ONCE__COMMAND_READ, "readonly"},   {ONCE__COMMAND_WRITE, "write"},
    {ONCE__COMMAND_ADMIN, "admin"},     {ONCE__COMMAND_FAST, "fast"},
    {ONCE__COMMAND_NO_AUTH, "no_auth"}, {ONCE__COMMAND_NO_STORE, "loading"},
    {ONCE__COMMAND_WAITS, "blocking"},
};

enum { FLAG_NAMES = sizeof(flag_names) / sizeof(flag_names[0]) };

static void write_flags(struct once__out *out, unsigned flags)
{
    once__out_set(out, (size_t)__builtin_popcount(flags));
    for (size_t i = 0; i < FLAG_NAMES; i++)
        if (flags & flag_names[i].flag)
            once__out_simple(out, flag_names[i].name);
}

/* How many subcommands stand behind it. */
static size_t subcommands(const struct once__command *command)
{
    const struct once__command *end = once__commands + once__command_count;
    size_t count = 0;

    if (command->parent)
        return 0;
    while (command + 1 + count < end && command[1 + count].parent)
        count++;
    return count;
}

static void write_info(struct once__out *out, const struct once__command *command)
{
    size_t count = subcommands(command);

    once__out_array(out, 10);
    once__out_text(out, once__command_full_name(command));
    once__out_integer(out, command->arity);
    write_flags(out, command->flags);
    once__out_integer(out, command->key_first);
    once__out_integer(out, command->key_last);
    once__out_integer(out, command->key_step);
    once__out_set(out, 0);   /* categories of access lists: there are none */
    once__out_array(out, 0); /* tips */
    once__out_array(out, 0); /* where keys are, in a longer form */
    once__out_array(out, count);
    for (size_t i = 1; i <= count; i++)
        write_info(out, command + i);
}

static size_t count_commands(void)
{
    size_t count = 0;

    for (size_t i = 0; i < once__command_count; i++)
        count += once__commands[i].parent ? 0 : 1;
    return count;
}

enum once__next once__resp_command(struct once__request *request, struct once__out *out)
{
    (void)request;
    once__out_array(out, count_commands());
    for (size_t i = 0; i < once__command_count; i++)
        if (!once__commands[i].parent)
            write_info(out, &once__commands[i]);
    return ONCE__ANSWERED;
}

enum once__next once__resp_command_count(struct once__request *request, struct once__out *out)
{
    (void)request;
    once__out_integer(out, (int64_t)count_commands());
    return ONCE__ANSWERED;
}

/* "get", or "client|list". NULL: there is no such command. */
static const struct once__command *find_name(struct once_bytes name)
{
    const uint8_t *bar = name.size > 0 ? memchr(name.data, '|', name.size) : NULL;
    struct once_bytes words[2] = {name, {NULL, 0}};
    const char *what;

    if (bar) {
        words[0].size = (size_t)(bar - name.data);
        words[1] = (struct once_bytes){bar + 1, name.size - words[0].size - 1};
    }
    return once__command_find(words, bar ? 2 : 1, &what);
}

enum once__next once__resp_command_info(struct once__request *request, struct once__out *out)
{
    if (request->arg_count == 2)
        return once__resp_command(request, out);
    once__out_array(out, request->arg_count - 2);
    for (size_t i = 2; i < request->arg_count; i++) {
        const struct once__command *command = find_name(request->args[i]);

        if (command)
            write_info(out, command);
        else
            once__out_null(out);
    }
    return ONCE__ANSWERED;
}

/* ---- Docs ------------------------------------------------------------------------------------ */

static void write_docs(struct once__out *out, const struct once__command *command)
{
    size_t count = subcommands(command);

    once__out_text(out, once__command_full_name(command));
    once__out_map(out, count > 0 ? 6 : 5);
    once__out_text(out, "summary");
    once__out_text(out, command->summary);
    once__out_text(out, "since");
    once__out_text(out, ONCE_VERSION);
    once__out_text(out, "group");
    once__out_text(out, command->group);
    once__out_text(out, "usage");
    once__out_text(out, command->usage);
    once__out_text(out, "answers");
    once__out_text(out, command->answers);
    if (count == 0)
        return;
    once__out_text(out, "subcommands");
    once__out_map(out, count);
    for (size_t i = 1; i <= count; i++)
        write_docs(out, command + i);
}

enum once__next once__resp_command_docs(struct once__request *request, struct once__out *out)
{
    size_t count = 0;

    if (request->arg_count == 2) {
        once__out_map(out, count_commands());
        for (size_t i = 0; i < once__command_count; i++)
            if (!once__commands[i].parent)
                write_docs(out, &once__commands[i]);
        return ONCE__ANSWERED;
    }
    for (size_t i = 2; i < request->arg_count; i++)
        count += find_name(request->args[i]) ? 1 : 0;
    once__out_map(out, count);
    for (size_t i = 2; i < request->arg_count; i++) {
        const struct once__command *command = find_name(request->args[i]);

        if (command)
            write_docs(out, command);
    }
    return ONCE__ANSWERED;
}

/* ---- Names and keys -------------------------------------------------------------------------- */

static bool listed(const struct once__command *command, const struct once_bytes *pattern)
{
    return !command->parent &&
           (!pattern || once__glob(*pattern, once_bytes_of(once__command_full_name(command))));
}

enum once__next once__resp_command_list(struct once__request *request, struct once__out *out)
{
    const struct once_bytes *args = request->args, *pattern = NULL;
    size_t count = 0;

    if (request->arg_count == 5 && once__arg_is(args[2], "FILTERBY") &&
        once__arg_is(args[3], "PATTERN")) {
        pattern = &args[4];
    } else if (request->arg_count != 2) {
        once__out_error(out, "ERR", "syntax error");
        return ONCE__ANSWERED;
    }
    for (size_t i = 0; i < once__command_count; i++)
        count += listed(&once__commands[i], pattern) ? 1 : 0;
    once__out_array(out, count);
    for (size_t i = 0; i < once__command_count; i++)
        if (listed(&once__commands[i], pattern))
            once__out_text(out, once__command_full_name(&once__commands[i]));
    return ONCE__ANSWERED;
}

enum once__next once__resp_command_getkeys(struct once__request *request, struct once__out *out)
{
    const struct once_bytes *args = request->args + 2;
    size_t count = request->arg_count - 2, first, last;
    const char *what;
    const struct once__command *command = once__command_find(args, count, &what);

    if (!command) {
        once__out_error(out, "ERR", "Invalid command specified");
    } else if (command->key_first == 0) {
        once__out_error(out, "ERR", "The command has no key arguments");
    } else if (!once__command_arity_ok(command, count)) {
        once__out_error(out, "ERR", "Invalid number of arguments specified for command");
    } else {
        first = (size_t)command->key_first;
        last = command->key_last < 0 ? count - 1 : (size_t)command->key_last;
        once__out_array(out, (last - first) / (size_t)command->key_step + 1);
        for (size_t i = first; i <= last; i += (size_t)command->key_step)
            once__out_bulk(out, args[i]);
    }
    return ONCE__ANSWERED;
}

/* ---- For people ------------------------------------------------------------------------------ */

static void write_line(struct once__out *out, const char *before, const char *text, size_t size)
{
    char line[512];

    (void)snprintf(line, sizeof(line), "%s%.*s", before, (int)size, text);
    once__out_text(out, line);
}

static size_t count_lines(const char *text)
{
    size_t count = 1;

    for (; *text; text++)
        count += *text == '\n' ? 1 : 0;
    return count;
}

static void write_usage(struct once__out *out, const struct once__command *command)
{
    char line[512];

    (void)snprintf(line, sizeof(line), "%s%s%s%s%s", command->parent ? command->parent : "",
                   command->parent ? " " : "", command->name, command->usage[0] ? " " : "",
                   command->usage);
    once__out_text(out, line);
}

enum once__next once__resp_subcommand_help(struct once__request *request, struct once__out *out)
{
    const struct once__command *parent = request->command - 1;
    size_t count;

    while (parent->parent)
        parent--;
    count = subcommands(parent);
    once__out_array(out, 2 * count);
    for (size_t i = 1; i <= count; i++) {
        write_usage(out, parent + i);
        write_line(out, "    ", parent[i].summary, strlen(parent[i].summary));
    }
    return ONCE__ANSWERED;
}

static void help_one(struct once__out *out, const struct once__command *command)
{
    const char *line = command->answers;

    once__out_array(out, 2 + count_lines(command->answers));
    write_usage(out, command);
    write_line(out, "    ", command->summary, strlen(command->summary));
    for (; line; line = *line ? line + 1 : NULL) {
        size_t size = strcspn(line, "\n");

        write_line(out, "    -> ", line, size);
        line += size;
    }
}

static bool is_ours(const struct once__command *command)
{
    return strncmp(command->name, "ONCE.", 5) == 0;
}

enum once__next once__resp_once_help(struct once__request *request, struct once__out *out)
{
    const struct once__command *command;
    const char *what;
    size_t count = 0;

    if (request->arg_count > 1) {
        command = once__command_find(request->args + 1, request->arg_count - 1, &what);
        if (command)
            help_one(out, command);
        else
            once__out_bad(request, out, "there is no %s '%s'", what,
                          once__arg_echo(request->args[request->arg_count - 1]).text);
        return ONCE__ANSWERED;
    }
    for (size_t i = 0; i < once__command_count; i++)
        count += is_ours(&once__commands[i]) ? 1 : 0;
    once__out_array(out, count);
    for (size_t i = 0; i < once__command_count; i++)
        if (is_ours(&once__commands[i]))
            write_usage(out, &once__commands[i]);
    return ONCE__ANSWERED;
}
