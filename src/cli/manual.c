/* SPDX-License-Identifier: Apache-2.0
 *
 * Help text becomes roff: paragraphs are filled, options and lists are tagged paragraphs, examples
 * stand as they are. What no help text says at length (variables, files) is in the tables below,
 * and goes on the pages of those commands whose help names it.
 */
#include "cli/manual.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/help_text.h"

struct note {
    const char *name; /* as the help texts have it */
    const char *text;
};

static const struct note variables[] = {
    {"$ONCE_DIR", "The store's folder, where --dir is not given."},
    {"$XDG_DATA_HOME",
     "The store is $XDG_DATA_HOME/once, where neither --dir nor ONCE_DIR is given; without it, "
     "~/.local/share/once."},
    {"$ONCE_CONFIG", "The server's configuration, where --config is not given."},
    {"$ONCE_USER", "Who you are to a server that has users."},
    {"$ONCE_PASSWORD", "The password of that user, or a token."},
    {"$ONCE_TLS_CA", "A PEM file of who signs the server's certificate, where the system does not "
                     "know them."},
    {"$ONCE_NGINX", "The nginx that the gateway runs, where it is not in the usual place."},
    {"$ONCE_NGINX_MODULE", "The module of Once for nginx, where it is not in the usual place."},
    {"$ONCE_KEY", "Set for the command that is run: the key that it runs under."},
    {"$ONCE_NAMESPACE", "Set for the command that is run: the namespace of its key."},
    {"$ONCE_FENCE",
     "Set for the command that is run: a number larger than that of all runs before. "
     "Whoever remembers the largest can refuse an older run that comes late."},
    {"$ONCE_ATTEMPT", "Set for the command that is run: 1 the first time."},
    {"$ONCE_DOUBT", "Set to 1 for a command that is run although an earlier run is in doubt."},
    {"$ONCE_POINT", "Set for the command that is run: the last recovery point of an earlier run."},
    {"$NO_COLOR",
     "If set and not empty, nothing is coloured. Output that is no terminal never is."},
};

static const struct note files[] = {
    {"~/.local/share/once", "The store's folder, where nothing says otherwise."},
    {"DIR/once.sock", "The socket of the server that owns the folder DIR. Commands find it there, "
                      "and ask the server."},
};

enum {
    VARIABLE_COUNT = sizeof(variables) / sizeof(variables[0]),
    FILE_COUNT = sizeof(files) / sizeof(files[0]),
    LINE_SIZE = 72
};

/* What every command keeps to; the page of once has it. */
static const struct {
    const char *number, *text;
} statuses[] = {
    {"0", "Done, or done before and replayed."},
    {"1", "What was checked does not hold."},
    {"64", "The arguments are wrong."},
    {"65", "MISMATCH: the key belongs to another request."},
    {"66", "There is no such store, operation or object."},
    {"69", "The store or the server cannot be had: in use, a disk that failed or is full."},
    {"70", "The store, or a file of it, is damaged."},
    {"71", "Out of memory, no random bytes, or an output that cannot be written."},
    {"75", "BUSY: someone is at it."},
    {"76", "DOUBT: someone began it and vanished."},
    {"77", "Rejected, stale, too old, or not allowed."},
    {"78", "The server's configuration is wrong."},
};

/* ---- Words ----------------------------------------------------------------------------------- */

/* Nothing of a text is a request to roff, and a dash is the dash that people type. */
static void put(FILE *out, struct cli_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        switch (text.text[i]) {
        case '\\':
            fputs("\\e", out);
            break;
        case '-':
            fputs("\\-", out);
            break;
        case '\'':
            fputs("\\(aq", out);
            break;
        case '`':
            fputs("\\(ga", out);
            break;
        case '^':
            fputs("\\(ha", out);
            break;
        case '~':
            fputs("\\(ti", out);
            break;
        case '"':
            fputs("\\(dq", out);
            break;
        default:
            putc(text.text[i], out);
        }
    }
}

/* One word of a paragraph. What stands in `backquotes` is bold. */
static void put_word(FILE *out, struct cli_span word, bool *bold)
{
    while (word.size > 0) {
        const char *quote = memchr(word.text, '`', word.size);
        size_t size = quote ? (size_t)(quote - word.text) : word.size;

        put(out, (struct cli_span){word.text, size});
        if (quote) {
            *bold = !*bold;
            fputs(*bold ? "\\fB" : "\\fR", out);
            size++;
        }
        word.text += size;
        word.size -= size;
    }
}

static void put_text(FILE *out, struct cli_span text)
{
    struct cli_span word;
    bool bold = false;
    size_t column = 0;

    while (cli_word_next(&text, &word)) {
        if (column > 0 && column + word.size < LINE_SIZE) {
            putc(' ', out);
            column++;
        } else {
            fputs(column > 0 ? "\n" : "", out);
            fputs(word.text[0] == '.' ? "\\&" : "", out); /* a dot in front would be a request */
            column = 0;
        }
        put_word(out, word, &bold);
        column += word.size;
    }
    fputs(bold ? "\\fR\n" : "\n", out);
}

static bool is_place(struct cli_span word)
{
    bool letter = false;

    for (size_t i = 0; i < word.size; i++) {
        if (islower((unsigned char)word.text[i]))
            return false;
        letter = letter || isupper((unsigned char)word.text[i]);
    }
    return letter;
}

/* What is typed as it stands is bold, what stands for something else is in italics. The first
 * words of a list that is not ours to style are bold. */
static void put_tag(FILE *out, struct cli_span tag)
{
    bool option = tag.size > 0 && tag.text[0] == '-', first = true;
    struct cli_span word;

    while (cli_word_next(&tag, &word)) {
        bool italic = option ? word.text[0] != '-' : !first && is_place(word);

        fputs(first ? "" : " ", out);
        fputs(italic ? "\\fI" : "\\fB", out);
        put(out, word);
        fputs("\\fR", out);
        first = false;
    }
    putc('\n', out);
}

static void put_title(FILE *out, const char *title)
{
    fprintf(out, ".SH %s\n", title);
}

static void put_note(FILE *out, const char *name, const char *text)
{
    fputs(".TP\n\\fB", out);
    put(out, cli_span_of(name));
    fputs("\\fR\n", out);
    put_text(out, cli_span_of(text));
}

/* ---- Blocks of a help text ------------------------------------------------------------------- */

static void put_synopsis(FILE *out, const char *help)
{
    struct cli_span text = cli_span_of(help), usage, word;
    struct cli_block block;
    struct cli_item item;

    if (!cli_block_next(&text, &block))
        return;
    put_title(out, "SYNOPSIS");
    usage = (struct cli_span){block.intro.text, block.intro.size + block.items.size};
    for (bool first = true; cli_usage_next(&usage, &item); first = false) {
        if (!first)
            fputs(".br\n", out);
        for (int i = 0; cli_word_next(&item.tag, &word); i++) {
            fputs(i == 0 ? "\\fB" : " ", out);
            put(out, word);
            fputs(i == 1 ? "\\fR" : "", out);
        }
        putc('\n', out);
        if (item.text.size == 0)
            continue;
        fputs(".RS 4\n", out);
        put_text(out, item.text);
        fputs(".RE\n", out);
    }
}

static void put_items(FILE *out, struct cli_span items)
{
    bool nested = false;
    struct cli_item item;

    while (cli_item_next(&items, &item)) {
        bool inner = item.indent > 2;

        if (inner != nested)
            fputs(inner ? ".RS\n" : ".RE\n", out);
        nested = inner;
        fputs(".TP\n", out);
        put_tag(out, item.tag);
        if (item.text.size > 0)
            put_text(out, item.text);
    }
    fputs(nested ? ".RE\n" : "", out);
}

/* Text and lists that are no options, in their order. */
static void put_description(FILE *out, const char *help)
{
    struct cli_span text = cli_span_of(help);
    struct cli_block block;
    bool first = true;

    put_title(out, "DESCRIPTION");
    while (cli_block_next(&text, &block)) {
        if (block.kind != CLI_BLOCK_TEXT && block.kind != CLI_BLOCK_ITEMS)
            continue;
        if (block.intro.size > 0) {
            fputs(first ? "" : ".PP\n", out);
            put_text(out, block.intro);
        }
        if (block.items.size > 0)
            put_items(out, block.items);
        first = false;
    }
}

static void put_options(FILE *out, const char *help)
{
    struct cli_span text = cli_span_of(help);
    struct cli_block block;

    put_title(out, "OPTIONS");
    while (cli_block_next(&text, &block)) {
        if (block.kind != CLI_BLOCK_OPTIONS)
            continue;
        if (block.intro.size > 0) {
            fputs(".PP\n", out);
            put_text(out, block.intro);
        }
        put_items(out, block.items);
    }
    fputs(".TP\n\\fB\\-\\-help\\fR, \\fB\\-h\\fR\nShow the help text.\n", out);
}

static void put_examples(FILE *out, const char *help)
{
    struct cli_span text = cli_span_of(help);
    struct cli_block block;
    bool first = true;

    while (cli_block_next(&text, &block)) {
        if (block.kind != CLI_BLOCK_EXAMPLES)
            continue;
        if (first)
            put_title(out, "EXAMPLES");
        if (!first || block.intro.size > 0)
            fputs(".PP\n", out);
        if (block.intro.size > 0)
            put_text(out, block.intro);
        first = false;
        fputs(".nf\n", out);
        put(out, block.items);
        fputs(".fi\n", out);
    }
}

static void put_statuses(FILE *out, const char *help)
{
    struct cli_span text = cli_span_of(help);
    struct cli_block block;
    struct cli_item item;

    while (cli_block_next(&text, &block)) {
        if (block.kind != CLI_BLOCK_STATUS)
            continue;
        put_title(out, "EXIT STATUS");
        while (cli_status_next(&block.intro, &item)) {
            if (item.tag.size > 0) { /* else it is what the title says, such as "that of …" */
                fputs(".TP\n", out);
                put_tag(out, item.tag);
            }
            put_text(out, item.text);
        }
    }
}

/* ---- The rest of a page ---------------------------------------------------------------------- */

/* help NULL: all of them. */
static void put_notes(FILE *out, const char *title, const struct note *notes, size_t count,
                      const char *help)
{
    bool first = true;

    for (size_t i = 0; i < count; i++) {
        if (help && !strstr(help, notes[i].name))
            continue;
        if (first)
            put_title(out, title);
        first = false;
        put_note(out, notes[i].name + (notes[i].name[0] == '$' ? 1 : 0), notes[i].text);
    }
}

static void put_head(FILE *out, const char *name, const char *summary)
{
    fputs(".\\\" Made by `once man` from the help text; SPDX-License-Identifier: Apache-2.0\n"
          ".TH ONCE",
          out);
    if (name[0] != '\0')
        putc('-', out);
    for (const char *c = name; *c; c++)
        putc(toupper((unsigned char)*c), out);
    fprintf(out, " 1 \"\" \"once %s\" \"Once\"\n.nh\n.ad l\n", ONCE_VERSION);
    put_title(out, "NAME");
    fprintf(out, "once%s%s \\- ", name[0] != '\0' ? "\\-" : "", name);
    put_text(out, cli_span_of(summary));
}

static void put_page(FILE *out, const char *name, bool last)
{
    fprintf(out, ".BR once%s%s (1)%s\n", name[0] != '\0' ? "\\-" : "", name, last ? "" : ",");
}

/* once(1), and the neighbours of the command in its group. */
static void put_see_also(FILE *out, const struct cli_command *command)
{
    const struct cli_command *const *at = cli_command_group(command)->commands;
    bool alone = !at[1];

    put_title(out, "SEE ALSO");
    put_page(out, "", alone);
    for (; *at; at++) {
        bool last = !at[1] || (at[1] == command && !at[2]);

        if (*at != command)
            put_page(out, (*at)->name, last);
    }
}

static void put_overview(FILE *out)
{
    put_head(out, "", "exactly-once effects over at-least-once networks");
    put_title(out, "SYNOPSIS");
    fputs("\\fBonce\\fR COMMAND [ARGUMENTS]\n.br\n\\fBonce help\\fR [COMMAND]\n.br\n"
          "\\fBonce \\-\\-version\\fR\n",
          out);
    put_title(out, "DESCRIPTION");
    put_text(out, cli_span_of(
                      "A request, message or command may arrive many times; its effect happens "
                      "once, and every retry gets the first answer. When the process that started "
                      "an operation dies, Once does not run it again by itself: the operation is "
                      "in doubt, which people can see and resolve."));
    fputs(".PP\n", out);
    put_text(out,
             cli_span_of("Nothing needs to run: commands open the store for a moment, or ask "
                         "the server that owns it. Each has a page of its own, and `--help`."));
    put_title(out, "COMMANDS");
    for (size_t i = 0; i < cli_group_count; i++) {
        fprintf(out, ".SS %c%s\n", toupper((unsigned char)cli_groups[i].title[0]),
                cli_groups[i].title + 1);
        for (const struct cli_command *const *at = cli_groups[i].commands; *at; at++) {
            fprintf(out, ".TP\n.BR once\\-%s (1)\n", (*at)->name);
            put_text(out, cli_span_of((*at)->summary));
        }
    }
    put_title(out, "EXIT STATUS");
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        put_note(out, statuses[i].number, statuses[i].text);
    put_notes(out, "ENVIRONMENT", variables, VARIABLE_COUNT, NULL);
    put_notes(out, "FILES", files, FILE_COUNT, NULL);
    put_title(out, "SEE ALSO");
    for (const struct cli_command *at = cli_command_next(NULL); at; at = cli_command_next(at))
        put_page(out, at->name, !cli_command_next(at));
}

void cli_manual(FILE *out, const struct cli_command *command)
{
    if (!command) {
        put_overview(out);
        return;
    }
    put_head(out, command->name, command->summary);
    put_synopsis(out, command->help);
    put_description(out, command->help);
    put_options(out, command->help);
    put_statuses(out, command->help);
    put_notes(out, "ENVIRONMENT", variables, VARIABLE_COUNT, command->help);
    if (strstr(command->help, "--dir"))
        put_notes(out, "FILES", files, FILE_COUNT, NULL);
    put_examples(out, command->help);
    put_see_also(out, command);
}
