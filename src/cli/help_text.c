/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes help texts apart. They are ours, so that nothing here can fail: text of another shape gives
 * other pieces, and a test that looks at all commands says so.
 */
#include "cli/help_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char status_title[] = "exit status:";

enum {
    ITEM_INDENT_MAX = 4, /* a line that is indented by more goes on with the item above */
};

/* ---- Pieces ---------------------------------------------------------------------------------- */

struct cli_span cli_span_of(const char *text)
{
    return (struct cli_span){text, strlen(text)};
}

bool cli_span_is(struct cli_span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.text, text, span.size) == 0;
}

static void advance(struct cli_span *span, size_t size)
{
    span->text += size;
    span->size -= size;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n';
}

static struct cli_span trim(struct cli_span span)
{
    while (span.size > 0 && is_blank(span.text[0]))
        advance(&span, 1);
    while (span.size > 0 && is_blank(span.text[span.size - 1]))
        span.size--;
    return span;
}

static size_t indent_of(struct cli_span line)
{
    size_t indent = 0;

    while (indent < line.size && line.text[indent] == ' ')
        indent++;
    return indent;
}

/* The size of the first line, with its end. */
static size_t line_size(struct cli_span text)
{
    const char *end = memchr(text.text, '\n', text.size);

    return end ? (size_t)(end - text.text) + 1 : text.size;
}

static struct cli_span first_line(struct cli_span text)
{
    return (struct cli_span){text.text, line_size(text)};
}

static bool begins_with(struct cli_span span, const char *text)
{
    size_t size = strlen(text);

    return span.size >= size && strncasecmp(span.text, text, size) == 0;
}

/* Where two blanks stand in a line; its size if nowhere. */
static size_t gap_of(struct cli_span line)
{
    for (size_t i = 0; i + 1 < line.size; i++) {
        if (line.text[i] == ' ' && line.text[i + 1] == ' ')
            return i;
    }
    return line.size;
}

bool cli_word_next(struct cli_span *text, struct cli_span *ret_word)
{
    size_t size = 0;

    while (text->size > 0 && is_blank(text->text[0]))
        advance(text, 1);
    if (text->size == 0)
        return false;
    while (size < text->size && !is_blank(text->text[size]))
        size++;
    *ret_word = (struct cli_span){text->text, size};
    advance(text, size);
    return true;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static enum cli_block_kind kind_of(const struct cli_block *block)
{
    struct cli_span items = block->items;

    if (begins_with(block->intro, "usage:"))
        return CLI_BLOCK_USAGE;
    if (begins_with(block->intro, status_title))
        return CLI_BLOCK_STATUS;
    if (items.size == 0)
        return CLI_BLOCK_TEXT;
    advance(&items, indent_of(items));
    if (items.text[0] == '-')
        return CLI_BLOCK_OPTIONS;
    return begins_with(items, "once ") || begins_with(items, "$ ") ? CLI_BLOCK_EXAMPLES
                                                                   : CLI_BLOCK_ITEMS;
}

bool cli_block_next(struct cli_span *text, struct cli_block *ret_block)
{
    struct cli_block block = {.kind = CLI_BLOCK_TEXT};
    const char *start;

    while (text->size > 0 && text->text[0] == '\n')
        advance(text, 1);
    if (text->size == 0)
        return false;
    start = text->text;
    while (text->size > 0 && text->text[0] != '\n' && text->text[0] != ' ')
        advance(text, line_size(*text));
    block.intro = (struct cli_span){start, (size_t)(text->text - start)};
    start = text->text;
    while (text->size > 0 && text->text[0] != '\n')
        advance(text, line_size(*text));
    block.items = (struct cli_span){start, (size_t)(text->text - start)};
    block.kind = kind_of(&block);
    *ret_block = block;
    return true;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

bool cli_item_next(struct cli_span *items, struct cli_item *ret_item)
{
    struct cli_span line = first_line(*items);
    struct cli_item item = {.indent = indent_of(line)};
    const char *end;
    size_t gap;

    if (items->size == 0)
        return false;
    advance(items, line.size);
    advance(&line, item.indent);
    gap = gap_of(line);
    while (items->size > 0 && indent_of(*items) > ITEM_INDENT_MAX)
        advance(items, line_size(*items));
    end = items->text;
    item.tag = trim((struct cli_span){line.text, gap});
    item.text = trim((struct cli_span){line.text + gap, (size_t)(end - line.text) - gap});
    *ret_item = item;
    return true;
}

/* A call goes on in the next line where that is no call of its own; what is said about a call goes
 * on where there is some. */
bool cli_usage_next(struct cli_span *usage, struct cli_item *ret_item)
{
    struct cli_item item = {.indent = 0};
    struct cli_span line;
    size_t gap;

    *usage = trim(*usage);
    if (begins_with(*usage, "usage:")) {
        advance(usage, strlen("usage:"));
        *usage = trim(*usage);
    }
    if (usage->size == 0)
        return false;
    line = first_line(*usage);
    gap = gap_of(line);
    item.tag = (struct cli_span){line.text, gap};
    item.text = (struct cli_span){line.text + gap, line.size - gap};
    advance(usage, line.size);
    while (usage->size > 0 && !begins_with(trim(first_line(*usage)), "once ")) {
        line = first_line(*usage);
        if (trim(item.text).size > 0)
            item.text.size = (size_t)(line.text + line.size - item.text.text);
        else
            item.tag.size = (size_t)(line.text + line.size - item.tag.text);
        advance(usage, line.size);
    }
    item.tag = trim(item.tag);
    item.text = trim(item.text);
    *ret_item = item;
    return true;
}

/* Digits, and a blank behind them. */
static size_t number_size(struct cli_span text)
{
    size_t size = 0;

    while (size < text.size && isdigit((unsigned char)text.text[size]))
        size++;
    return size > 0 && size < text.size && is_blank(text.text[size]) ? size : 0;
}

bool cli_status_next(struct cli_span *status, struct cli_item *ret_item)
{
    struct cli_item item = {.indent = 0};
    size_t size = 0;

    if (begins_with(*status, status_title))
        advance(status, strlen(status_title));
    *status = trim(*status);
    if (status->size == 0)
        return false;
    item.tag = (struct cli_span){status->text, number_size(*status)};
    advance(status, item.tag.size);
    for (; size < status->size; size++) {
        struct cli_span rest = {status->text + size + 1, status->size - size - 1};

        if (status->text[size] == ';' && number_size(trim(rest)) > 0)
            break;
    }
    item.text = trim((struct cli_span){status->text, size});
    advance(status, size < status->size ? size + 1 : size);
    if (status->size == 0 && item.text.size > 0 && item.text.text[item.text.size - 1] == '.')
        item.text.size--;
    *ret_item = item;
    return true;
}

/* ---- Options --------------------------------------------------------------------------------- */

/* "--ttl TIME, --for TIME" or "--ttl TIME | --for TIME": an option ends where the next begins. */
bool cli_tag_next(struct cli_span *tag, struct cli_tag *ret_tag)
{
    struct cli_span option = trim(*tag);
    struct cli_tag found;
    size_t size = 1;

    if (option.size == 0)
        return false;
    while (size < option.size && (option.text[size] != '-' || option.text[size - 1] != ' '))
        size++;
    *tag = (struct cli_span){option.text + size, option.size - size};
    option = trim((struct cli_span){option.text, size});
    if (option.text[option.size - 1] == ',' || option.text[option.size - 1] == '|')
        option.size--;
    (void)cli_word_next(&option, &found.name);
    found.value = trim(option);
    *ret_tag = found;
    return true;
}

/* Whole words as long as they fit, up to the end of the first clause. */
static struct cli_brief brief_of(struct cli_span text)
{
    struct cli_brief brief = {""};
    struct cli_span word;
    size_t size = 0;

    while (cli_word_next(&text, &word)) {
        char last = word.text[word.size - 1];
        bool ends = last == ';' || last == ':' || last == '.';

        word.size -= ends ? 1 : 0;
        if (word.text[0] == '(' || size + word.size + 2 > sizeof(brief.text))
            break;
        size += (size_t)snprintf(brief.text + size, sizeof(brief.text) - size, "%s%.*s",
                                 size > 0 ? " " : "", (int)word.size, word.text);
        if (ends)
            break;
    }
    while (size > 0 && brief.text[size - 1] == ',')
        brief.text[--size] = '\0';
    return brief;
}

struct cli_brief cli_option_brief(const char *help, const char *option)
{
    struct cli_span text = cli_span_of(help);
    struct cli_block block;
    struct cli_item item;
    struct cli_tag tag;

    while (cli_block_next(&text, &block)) {
        if (block.kind != CLI_BLOCK_OPTIONS && block.kind != CLI_BLOCK_ITEMS)
            continue;
        while (cli_item_next(&block.items, &item)) {
            struct cli_span rest = item.tag;

            while (item.tag.size > 0 && item.tag.text[0] == '-' && cli_tag_next(&rest, &tag)) {
                if (cli_span_is(tag.name, option))
                    return brief_of(item.text);
            }
        }
    }
    return (struct cli_brief){""};
}
