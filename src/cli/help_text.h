/* SPDX-License-Identifier: Apache-2.0
 *
 * The help text of a command, taken apart: man pages and completions are made of its pieces.
 *
 *     usage: once get [--json] [NS] KEY          how it is called; further calls and what a call
 *            once get --all                      goes on with are indented
 *
 *     Text, in paragraphs.
 *
 *       once get charges order-7                 examples: indented, the first is a call of once
 *
 *       --json     what it does                  options: two blanks or more before the text,
 *       --ttl TIME, --for TIME                   or the text on lines of its own,
 *                  how long                      indented by more than four
 *
 *     effects: text before a list
 *       ADD name n     what it does              other lists, in the same way
 *
 *     exit status: 0 done; 64 usage; 66 there is none.
 *
 * Blocks stand between empty lines. tests/e2e/test_manual.py refuses a help text of another shape.
 */
#ifndef ONCE_CLI_HELP_TEXT_H
#define ONCE_CLI_HELP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A piece of text that ends by its size. */
struct cli_span {
    const char *text;
    size_t size;
};
struct cli_span cli_span_of(const char *text);
bool cli_span_is(struct cli_span span, const char *text);

enum cli_block_kind {
    CLI_BLOCK_USAGE,
    CLI_BLOCK_TEXT,
    CLI_BLOCK_EXAMPLES,
    CLI_BLOCK_OPTIONS,
    CLI_BLOCK_ITEMS,
    CLI_BLOCK_STATUS
};

/* All of these point into the help text. */
struct cli_block {
    enum cli_block_kind kind;
    struct cli_span intro; /* the lines of it that are not indented */
    struct cli_span items; /* and those behind them */
};

/* The next block; *text starts as the whole help text. False: there is none. */
bool cli_block_next(struct cli_span *text, struct cli_block *ret_block);

struct cli_item {
    struct cli_span tag;  /* "--ttl TIME, --for TIME" */
    struct cli_span text; /* may be several lines, and may be empty */
    size_t indent;
};

/* The next item of a list; *items starts as the items of the block. */
bool cli_item_next(struct cli_span *items, struct cli_item *ret_item);

/* The next call of the usage block, "once get [--json] [NS] KEY", with what is said about it. */
bool cli_usage_next(struct cli_span *usage, struct cli_item *ret_item);

/* The next status of the block "exit status:": its number and the text for it. *status starts as
 * the intro of the block. */
bool cli_status_next(struct cli_span *status, struct cli_item *ret_item);

/* The next word of a text; blanks and ends of lines stand between words. */
bool cli_word_next(struct cli_span *text, struct cli_span *ret_word);

/* The next option of a tag: "--ttl" and what its value is called, empty where it has none. */
struct cli_tag {
    struct cli_span name, value;
};
bool cli_tag_next(struct cli_span *tag, struct cli_tag *ret_tag);

/* What an option does in a few words, from its item in the help text; "" where there is none. */
struct cli_brief {
    char text[64];
};
struct cli_brief cli_option_brief(const char *help, const char *option);

#endif
