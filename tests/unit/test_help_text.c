/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/nearest.h"
#include "cli/help_text.c" /* commands are no library */

static const char help[] =
    "usage: once get [--json] [NS]\n"
    "            KEY\n"
    "       once get --all          every one,\n"
    "                               and more\n"
    "\n"
    "Text of\n"
    "two lines.\n"
    "\n"
    "  once get a\n"
    "  once get b\n"
    "\n"
    "kinds: what there is\n"
    "  ADD name n   a counter\n"
    "  SUB\n"
    "    -n N       so many; of either\n"
    "\n"
    "  --ttl TIME, --for TIME\n"
    "             how long (default: 24h)\n"
    "  --state a|b  only these, which is a text that is far too long to be told in a few words\n"
    "  --header 'NAME: VALUE'   a header\n"
    "\n"
    "Exit status: that of it; 64 usage, or 7 things; 66 none;\n"
    "71 broken.\n";

static void assert_span(struct cli_span span, const char *text)
{
    assert_int_equal(span.size, strlen(text));
    assert_memory_equal(span.text, text, span.size);
}

static struct cli_block block_at(size_t index)
{
    struct cli_span text = cli_span_of(help);
    struct cli_block block;

    for (size_t i = 0; cli_block_next(&text, &block); i++) {
        if (i == index)
            return block;
    }
    fail();
    return block;
}

static void blocks__of_every_kind__are_told_apart(void **state)
{
    static const enum cli_block_kind kinds[] = {CLI_BLOCK_USAGE,    CLI_BLOCK_TEXT,
                                                CLI_BLOCK_EXAMPLES, CLI_BLOCK_ITEMS,
                                                CLI_BLOCK_OPTIONS,  CLI_BLOCK_STATUS};
    struct cli_span text = cli_span_of(help);
    struct cli_block block;
    size_t count = 0;

    (void)state;
    while (cli_block_next(&text, &block)) {
        assert_true(count < sizeof(kinds) / sizeof(kinds[0]));
        assert_int_equal(block.kind, kinds[count++]);
    }
    assert_int_equal(count, sizeof(kinds) / sizeof(kinds[0]));
    assert_span(block_at(3).intro, "kinds: what there is\n");
    text = cli_span_of("");
    assert_false(cli_block_next(&text, &block));
}

static void usage__several_calls__each_with_what_is_said(void **state)
{
    struct cli_block block = block_at(0);
    struct cli_span usage = {block.intro.text, block.intro.size + block.items.size}, word;
    struct cli_item item;

    (void)state;
    assert_true(cli_usage_next(&usage, &item));
    assert_true(cli_word_next(&item.tag, &word));
    assert_span(word, "once");
    assert_span(trim(item.tag), "get [--json] [NS]\n            KEY");
    assert_int_equal(item.text.size, 0);
    assert_true(cli_usage_next(&usage, &item));
    assert_span(item.tag, "once get --all");
    assert_span(item.text, "every one,\n                               and more");
    assert_false(cli_usage_next(&usage, &item));
}

static void items__nested_and_without_text__are_read(void **state)
{
    struct cli_span items = block_at(3).items;
    struct cli_item item;

    (void)state;
    assert_true(cli_item_next(&items, &item));
    assert_span(item.tag, "ADD name n");
    assert_span(item.text, "a counter");
    assert_int_equal(item.indent, 2);
    assert_true(cli_item_next(&items, &item));
    assert_span(item.tag, "SUB");
    assert_int_equal(item.text.size, 0);
    assert_true(cli_item_next(&items, &item));
    assert_span(item.tag, "-n N");
    assert_int_equal(item.indent, 4);
    assert_false(cli_item_next(&items, &item));
}

static void tags__names_and_values__are_told_apart(void **state)
{
    struct cli_span items = block_at(4).items;
    struct cli_item item;
    struct cli_tag tag;

    (void)state;
    assert_true(cli_item_next(&items, &item));
    assert_span(item.text, "how long (default: 24h)");
    assert_true(cli_tag_next(&item.tag, &tag));
    assert_span(tag.name, "--ttl");
    assert_span(tag.value, "TIME");
    assert_true(cli_tag_next(&item.tag, &tag));
    assert_span(tag.name, "--for");
    assert_false(cli_tag_next(&item.tag, &tag));
    assert_true(cli_item_next(&items, &item));
    assert_true(cli_tag_next(&item.tag, &tag));
    assert_span(tag.value, "a|b");
    assert_true(cli_item_next(&items, &item));
    assert_true(cli_tag_next(&item.tag, &tag));
    assert_span(tag.name, "--header");
    assert_span(tag.value, "'NAME: VALUE'");
}

static void statuses__numbers_in_the_text__divide_nothing(void **state)
{
    static const char *const expected[][2] = {
        {"", "that of it"}, {"64", "usage, or 7 things"}, {"66", "none"}, {"71", "broken"}};
    struct cli_span status = block_at(5).intro;
    struct cli_item item;
    size_t count = 0;

    (void)state;
    while (cli_status_next(&status, &item)) {
        assert_true(count < sizeof(expected) / sizeof(expected[0]));
        assert_span(item.tag, expected[count][0]);
        assert_span(item.text, expected[count][1]);
        count++;
    }
    assert_int_equal(count, sizeof(expected) / sizeof(expected[0]));
}

static void brief__of_an_option__is_its_first_clause(void **state)
{
    (void)state;
    assert_string_equal(cli_option_brief(help, "--ttl").text, "how long");
    assert_string_equal(cli_option_brief(help, "--for").text, "how long");
    assert_string_equal(cli_option_brief(help, "-n").text, "so many");
    assert_string_equal(cli_option_brief(help, "--state").text,
                        "only these, which is a text that is far too long to be told in");
    assert_string_equal(cli_option_brief(help, "--tt").text, "");
    assert_string_equal(cli_option_brief("", "--ttl").text, "");
}

static const char *nearest_of(const char *typed)
{
    static const char *const words[] = {"serve", "resolve", "run", "ls", "--dir", "--durability"};
    struct once__nearest nearest = {.typed = typed, .size = strlen(typed)};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        once__nearest_try(&nearest, words[i]);
    return nearest.best ? nearest.best : "";
}

static void nearest__slips_of_a_finger__are_forgiven(void **state)
{
    static const char *const rows[][2] = {
        {"sevre", "serve"},
        {"srve", "serve"},
        {"serv", "serve"},
        {"servee", "serve"},
        {"nur", ""},
        {"rnu", "run"},
        {"rn", "run"},
        {"sl", "ls"},
        {"x", ""},
        {"-", ""},
        {"", ""},
        {"res", "resolve"},
        {"reslove", "resolve"},
        {"--dri", "--dir"},
        {"--durabiltiy", "--durability"},
        {"--durab", "--durability"},
        {"--d", ""},
        {"frobnicate", ""},
        {"an argument that is longer than any word of ours", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(nearest_of(rows[i][0]), rows[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks__of_every_kind__are_told_apart),
        cmocka_unit_test(usage__several_calls__each_with_what_is_said),
        cmocka_unit_test(items__nested_and_without_text__are_read),
        cmocka_unit_test(tags__names_and_values__are_told_apart),
        cmocka_unit_test(statuses__numbers_in_the_text__divide_nothing),
        cmocka_unit_test(brief__of_an_option__is_its_first_clause),
        cmocka_unit_test(nearest__slips_of_a_finger__are_forgiven),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
