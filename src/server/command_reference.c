/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference page of the commands, written from the table: docs/reference/commands.md.
 */
#include "server/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *group;
    const char *title;
    const char *text;
} groups[] = {
    {"operations", "Operations",
     "An operation is named by a namespace and a key. Whoever is told EXECUTE does it and says so "
     "with its fence; everyone else gets the first answer. A verdict is an array whose first "
     "element is the word; what is absent (a point, data) is null."},
    {"objects", "Objects",
     "Counters, sets, registers, machines, logs, leases and outboxes that Once keeps itself: "
     "an apply changes them and remembers its key in one atomic step. The effects that follow DO "
     "are described in [the guides](../guides/README.md)."},
    {"values", "Values",
     "The commands of Redis that idempotency layers use, with the answers of Redis 7, durable "
     "before they are answered. Values live in the namespace `redis`. A key has 1 to 255 bytes of "
     "printable ASCII; nothing is kept longer than ten years."},
    {"connection", "Connection", "Who is calling, and in which version of the protocol."},
    {"server", "Server", "Looking at the server."},
};

static const char *const opening =
    "# Commands\n"
    "\n"
    "The commands of the Redis protocol that `once serve` answers, RESP2 and RESP3. This page is\n"
    "written by `once serve --help-commands` from the table in `src/server/command_table.c`.\n"
    "\n"
    "Words of commands and options are read without regard to case; options come in any order,\n"
    "each at most once. An error begins with a word in capitals:\n"
    "\n"
    "| word | meaning |\n"
    "|---|---|\n"
    "| `ERR` | an argument is wrong; the text says which and why |\n"
    "| `NOAUTH`, `WRONGPASS`, `NOPERM` | nobody is known yet; wrong password; not allowed |\n"
    "| `LOADING` | the store is being opened; come back |\n"
    "| `RATE` | too many calls; the number is how many milliseconds to wait |\n"
    "| `FULL` | the disk, or a bound of the store, is full; nothing was changed |\n"
    "| `TOOBIG` | larger than the namespace or a segment of the store allows |\n"
    "| `STOPPED` | a write failed, the server is stopping, or a shared store does not answer: "
    "whether the call was kept is not known; repeat it |\n"
    "| `STALE`, `NOTFOUND`, `MISMATCH`, `BUSY`, `DOUBT`, `REJECTED` | what was decided about the "
    "call |\n"
    "\n"
    "Errors of Once end with the name of the error in parentheses, such as "
    "`(ERR_KEY_TOO_LONG)`.\n";

static int add(struct once_buf *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int add(struct once_buf *out, const char *format, ...)
{
    char text[4096];
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof(text))
        return ONCE_ERR_FULL;
    return once_buf_append(out, text, (size_t)size);
}

/* Who may, and what else is to know. */
static int add_flags(struct once_buf *out, const struct once__command *command)
{
    unsigned flags = command->flags;
    const char *who = flags & ONCE__COMMAND_NO_AUTH ? "everyone, before AUTH too"
                      : flags & ONCE__COMMAND_ADMIN ? "administrators"
                      : flags & ONCE__COMMAND_WRITE ? "users who may write"
                                                    : "every user";

    return add(out, "\nFor %s.%s%s\n", who,
               flags & ONCE__COMMAND_NO_STORE ? " Works while the store is being opened." : "",
               flags & ONCE__COMMAND_WAITS ? " May be answered late." : "");
}

/* One kind of answer. What stands before the colon is the answer itself, where it is one: a word in
 * capitals, an error, a number. */
static int add_answer(struct once_buf *out, const char *line, size_t size)
{
    const char *colon = memchr(line, ':', size);
    size_t head = colon ? (size_t)(colon - line) : size;
    bool word = line[0] == '-' || (line[0] >= '0' && line[0] <= '9') ||
                (size >= 2 && line[0] >= 'A' && line[0] <= 'Z' && line[1] >= 'A' && line[1] <= 'Z');

    if (!word)
        return add(out, "- %.*s\n", (int)size, line);
    return add(out, "- `%.*s`%.*s\n", (int)head, line, (int)(size - head), line + head);
}

static int add_command(struct once_buf *out, const struct once__command *command)
{
    const char *parent = command->parent ? command->parent : "", *gap = command->parent ? " " : "";
    const char *line = command->answers;
    int err = add(out, "\n### %s%s%s\n\n    %s%s%s%s%s\n\n%s\n\n", parent, gap, command->name,
                  parent, gap, command->name, command->usage[0] ? " " : "", command->usage,
                  command->summary);

    while (err == ONCE_OK && *line) {
        size_t size = strcspn(line, "\n");

        err = add_answer(out, line, size);
        line += size + (line[size] == '\n' ? 1 : 0);
    }
    return err == ONCE_OK ? add_flags(out, command) : err;
}

int once__command_reference(struct once_buf *out)
{
    int err = add(out, "%s", opening);

    for (size_t i = 0; err == ONCE_OK && i < sizeof(groups) / sizeof(groups[0]); i++) {
        err = add(out, "\n## %s\n\n%s\n", groups[i].title, groups[i].text);
        for (size_t j = 0; err == ONCE_OK && j < once__command_count; j++)
            if (strcmp(once__commands[j].group, groups[i].group) == 0)
                err = add_command(out, &once__commands[j]);
    }
    return err;
}
