/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of effects, read into deeds. The good and the bad are written as lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <once/apply.h>

#include "core/deed.h"

enum { WORDS_MAX = 16 };

/* A line, split. */
struct line {
    struct once_bytes words[WORDS_MAX];
    size_t count;
    uint8_t scratch[256];
};

static void line_split(struct line *line, const char *text)
{
    assert_true(strlen(text) <= sizeof(line->scratch));
    assert_int_equal(once_do_split(once_bytes_of(text), line->scratch, line->words, WORDS_MAX,
                                   &line->count, NULL),
                     ONCE_OK);
}

static void assert_bytes(struct once_bytes bytes, const char *text)
{
    assert_int_equal(bytes.size, strlen(text));
    if (bytes.size > 0)
        assert_memory_equal(bytes.data, text, bytes.size);
}

static struct once_bytes of(const char *text)
{
    return once_bytes_of(text);
}

#define ALL_OF_IT                                                                                  \
    {                                                                                              \
        INT64_MIN, INT64_MAX                                                                       \
    }
#define INT64_MIN_TEXT "-9223372036854775808"
#define INT64_MAX_TEXT "9223372036854775807"

struct good {
    const char *line;
    struct once__deed deed; /* without bytes */
    const char *name;
    const char *node;
    const char *value;
};

static const struct good goods[] = {
    {"ADD acct:42 -100",
     {.kind = ONCE__DEED_ADD, .effect = ONCE__ADD, .n = -100, .range = ALL_OF_IT},
     "acct:42",
     "",
     ""},
    {"add a 5 min 0",
     {.kind = ONCE__DEED_ADD, .effect = ONCE__ADD_BOUNDED, .n = 5, .range = {0, INT64_MAX}},
     "a",
     "",
     ""},
    {"Add a 5 Max -1 mIN -2",
     {.kind = ONCE__DEED_ADD, .effect = ONCE__ADD_BOUNDED, .n = 5, .range = {-2, -1}},
     "a",
     "",
     ""},
    {"ADD min 007 MIN 3 MAX 3",
     {.kind = ONCE__DEED_ADD, .effect = ONCE__ADD_BOUNDED, .n = 7, .range = {3, 3}},
     "min",
     "",
     ""},
    {"ADD a " INT64_MIN_TEXT " MIN " INT64_MIN_TEXT " MAX " INT64_MIN_TEXT,
     {.kind = ONCE__DEED_ADD,
      .effect = ONCE__ADD_BOUNDED,
      .n = INT64_MIN,
      .range = {INT64_MIN, INT64_MIN}},
     "a",
     "",
     ""},
    {"MAX m " INT64_MAX_TEXT,
     {.kind = ONCE__DEED_MAX, .effect = ONCE__MAX, .n = INT64_MAX},
     "m",
     "",
     ""},
    {"MIN m -0", {.kind = ONCE__DEED_MIN, .effect = ONCE__MIN}, "m", "", ""},
    {"FLAG 'two words'", {.kind = ONCE__DEED_FLAG, .effect = ONCE__FLAG}, "two words", "", ""},
    {"UNION s a '' a",
     {.kind = ONCE__DEED_UNION, .effect = ONCE__UNION, .member_count = 3},
     "s",
     "",
     ""},
    {"CLOCK v n1 " INT64_MAX_TEXT,
     {.kind = ONCE__DEED_CLOCK, .effect = ONCE__CLOCK, .number = INT64_MAX},
     "v",
     "n1",
     ""},
    {"LWW r -7 n1 ''", {.kind = ONCE__DEED_LWW, .effect = ONCE__LWW, .n = -7}, "r", "n1", ""},
    {"GADD g n1 0", {.kind = ONCE__DEED_GADD, .effect = ONCE__GADD}, "g", "n1", ""},
    {"PNADD p n1 " INT64_MIN_TEXT,
     {.kind = ONCE__DEED_PNADD, .effect = ONCE__PNADD, .n = INT64_MIN},
     "p",
     "n1",
     ""},
    {"INSERT s n1 a",
     {.kind = ONCE__DEED_INSERT, .effect = ONCE__INSERT, .member_count = 1},
     "s",
     "n1",
     ""},
    {"REMOVE s a b",
     {.kind = ONCE__DEED_REMOVE, .effect = ONCE__REMOVE, .member_count = 2},
     "s",
     "",
     ""},
    {"SET r {\"a\": 1}", {.kind = ONCE__DEED_SET, .effect = ONCE__SET}, "r", "", "{\"a\": 1}"},
    {"SET r '' if 0",
     {.kind = ONCE__DEED_SET, .effect = ONCE__SET_IF, .expected = {true, 0}},
     "r",
     "",
     ""},
    {"SET r IF IF 9007199254740991",
     {.kind = ONCE__DEED_SET, .effect = ONCE__SET_IF, .expected = {true, ONCE_VERSION_MAX}},
     "r",
     "",
     "IF"},
    {"DELETE r", {.kind = ONCE__DEED_DELETE, .effect = ONCE__DELETE}, "r", "", ""},
    {"DELETE r IF 4",
     {.kind = ONCE__DEED_DELETE, .effect = ONCE__DELETE_IF, .expected = {true, 4}},
     "r",
     "",
     ""},
    {"MACHINE m a>b b>a a>b c>c A_z-9.:>a",
     {.kind = ONCE__DEED_MACHINE, .effect = ONCE__MACHINE, .member_count = 5},
     "m",
     "",
     ""},
    {"MOVE m a A_z-9.:", {.kind = ONCE__DEED_MOVE, .effect = ONCE__MOVE}, "m", "a", "A_z-9.:"},
    {"APPEND l e-1 'x y'", {.kind = ONCE__DEED_APPEND, .effect = ONCE__APPEND}, "l", "e-1", "x y"},
    {"APPEND l e-1 '' at 12",
     {.kind = ONCE__DEED_APPEND, .effect = ONCE__APPEND_AT, .expected = {true, 12}},
     "l",
     "e-1",
     ""},
    {"GRANT f", {.kind = ONCE__DEED_GRANT, .effect = ONCE__GRANT}, "f", "", ""},
    {"GUARD f 9007199254740991",
     {.kind = ONCE__DEED_GUARD, .effect = ONCE__GUARD, .number = ONCE_FENCE_MAX},
     "f",
     "",
     ""},
    {"LEASE l me 604800000",
     {.kind = ONCE__DEED_LEASE, .effect = ONCE__LEASE, .ms = ONCE_LEASE_MS_MAX},
     "l",
     "me",
     ""},
    {"RENEW l 1 1",
     {.kind = ONCE__DEED_RENEW, .effect = ONCE__RENEW, .number = 1, .ms = 1},
     "l",
     "",
     ""},
    {"RELEASE l 2",
     {.kind = ONCE__DEED_RELEASE, .effect = ONCE__RELEASE, .number = 2},
     "l",
     "",
     ""},
    {"HOLD l 3", {.kind = ONCE__DEED_HOLD, .effect = ONCE__HOLD, .number = 3}, "l", "", ""},
    {"SEQ p 9007199254740991 9007199254740991",
     {.kind = ONCE__DEED_SEQ,
      .effect = ONCE__SEQ,
      .epoch = ONCE_VERSION_MAX,
      .number = ONCE_VERSION_MAX},
     "p",
     "",
     ""},
    {"SEQ p 0 1", {.kind = ONCE__DEED_SEQ, .effect = ONCE__SEQ, .number = 1}, "p", "", ""},
    {"BUCKET b 'today \x01' 2",
     {.kind = ONCE__DEED_BUCKET, .effect = ONCE__BUCKET, .number = 2},
     "b",
     "today \x01",
     ""},
    {"EMIT t GROUP", {.kind = ONCE__DEED_EMIT, .effect = ONCE__EMIT}, "t", "", "GROUP"},
    {"EMIT t x group g1", {.kind = ONCE__DEED_EMIT, .effect = ONCE__EMIT}, "t", "g1", "x"},
    {"SENT t 1 9007199254740991 1",
     {.kind = ONCE__DEED_SENT, .effect = ONCE__SENT, .member_count = 3},
     "t",
     "",
     ""},
};

static void deed__every_form__is_read_whole(void **state)
{
    bool seen[ONCE__DEED_COUNT] = {false};

    (void)state;
    for (size_t i = 0; i < sizeof(goods) / sizeof(goods[0]); i++) {
        const struct good *good = &goods[i];
        struct line line;
        struct once__deed deed;

        line_split(&line, good->line);
        assert_int_equal(once__deed_read(line.words, line.count, &deed, NULL), ONCE_OK);
        assert_int_equal(deed.kind, good->deed.kind);
        assert_int_equal(deed.effect, good->deed.effect);
        assert_int_equal(deed.n, good->deed.n);
        assert_int_equal(deed.number, good->deed.number);
        assert_int_equal(deed.epoch, good->deed.epoch);
        assert_int_equal(deed.ms, good->deed.ms);
        assert_int_equal(deed.range.min, good->deed.range.min);
        assert_int_equal(deed.range.max, good->deed.range.max);
        assert_int_equal(deed.expected.given, good->deed.expected.given);
        assert_int_equal(deed.expected.version, good->deed.expected.version);
        assert_bytes(deed.name, good->name);
        assert_bytes(deed.node, good->node);
        assert_bytes(deed.value, good->value);
        assert_int_equal(deed.member_count, good->deed.member_count);
        assert_ptr_equal(deed.members, deed.member_count > 0
                                           ? line.words + line.count - deed.member_count
                                           : NULL);
        seen[deed.kind] = true;
    }
    for (size_t i = 0; i < ONCE__DEED_MERGE; i++)
        assert_true(seen[i]);
}

#define MISSING "is missing"
#define TOO_MANY "one too many"

static const struct {
    const char *line;
    size_t index;
    const char *what;
} bads[] = {
    {"", 0, "at least one word"},
    {"ADDS a 1", 0, "there is no such effect; the effects are ADD"},
    {"AD a 1", 0, "there is no such effect"},
    {"'' a 1", 0, "there is no such effect"},
    {"MERGE a 1", 0, "there is no such effect"},
    {"ADD", 1, "write ADD name n [MIN m] [MAX m]"},
    {"ADD a", 2, MISSING},
    {"ADD '' 1", 1, "an object's name is 1 to 255"},
    {"ADD 'a\x7f' 1", 1, "printable ASCII"},
    {"ADD \xc3\xa4 1", 1, "printable ASCII"},
    {"ADD 'a\tb' 1", 1, "printable ASCII"},
    {"ADD a ''", 2, "n is a whole number from " INT64_MIN_TEXT " to " INT64_MAX_TEXT},
    {"ADD a -", 2, "n is"},
    {"ADD a --1", 2, "n is"},
    {"ADD a +1", 2, "n is"},
    {"ADD a 1.0", 2, "n is"},
    {"ADD a 1e3", 2, "n is"},
    {"ADD a 0x1", 2, "n is"},
    {"ADD a ' 1'", 2, "n is"},
    {"ADD a '1 '", 2, "n is"},
    {"ADD a 9223372036854775808", 2, "n is"},
    {"ADD a -9223372036854775809", 2, "n is"},
    {"ADD a 18446744073709551617", 2, "n is"},
    {"ADD a 99999999999999999999999", 2, "n is"},
    {"ADD a 1 2", 3, TOO_MANY},
    {"ADD a 1 IF 2", 3, TOO_MANY},
    {"ADD a 1 MIN", 4, MISSING},
    {"ADD a 1 MIN x", 4, "MIN is a whole number"},
    {"ADD a 1 MAX x", 4, "MAX is a whole number"},
    {"ADD a 1 MIN 0 MIN 0", 5, "twice"},
    {"ADD a 1 MIN 0 MAX 9 min 0", 7, "twice"},
    {"ADD a 1 MIN 0 MAX 9 x", 7, TOO_MANY},
    {"ADD a 1 MIN 1 MAX 0", 6, "MIN is above MAX"},
    {"ADD a 1 MAX 0 MIN 1", 6, "MIN is above MAX"},
    {"MAX a", 2, "write MAX name n"},
    {"MAX a 1 2", 3, TOO_MANY},
    {"MIN a x", 2, "n is a whole number"},
    {"FLAG", 1, "write FLAG name"},
    {"FLAG a 1", 2, TOO_MANY},
    {"UNION s", 2, "write UNION name member…"},
    {"CLOCK v n", 3, MISSING},
    {"CLOCK v '' 1", 2, "a node has 1 to 64 bytes"},
    {"CLOCK v n -1", 3, "n is a whole number from 0 to " INT64_MAX_TEXT},
    {"CLOCK v n 9223372036854775808", 3, "n is"},
    {"LWW r 1 n", 4, MISSING},
    {"LWW r x n v", 2, "time is a whole number"},
    {"LWW r 1 '' v", 3, "a node has"},
    {"LWW r 1 n v v", 5, TOO_MANY},
    {"GADD g n -1", 3, "n is a whole number from 0"},
    {"PNADD p n", 3, MISSING},
    {"PNADD p '' 1", 2, "a node has"},
    {"PNADD p n x", 3, "n is"},
    {"INSERT s n", 3, "write INSERT name node member…"},
    {"INSERT s '' a", 2, "a node has"},
    {"REMOVE s", 2, MISSING},
    {"SET r", 2, MISSING},
    {"SET r v IF", 4, MISSING},
    {"SET r v IF -1", 4, "a version is a whole number from 0 to 9007199254740991"},
    {"SET r v IF 9007199254740992", 4, "a version is"},
    {"SET r v AT 1", 3, TOO_MANY},
    {"SET r v IF 1 IF 1", 5, "twice"},
    {"DELETE r v", 2, "write DELETE name [IF version]"},
    {"DELETE r IF x", 3, "a version is"},
    {"MACHINE m", 2, MISSING},
    {"MACHINE m a", 2, "from>to"},
    {"MACHINE m a>b b>", 3, "from>to"},
    {"MACHINE m >b", 2, "from>to"},
    {"MACHINE m >", 2, "from>to"},
    {"MACHINE m ''", 2, "from>to"},
    {"MACHINE m a>b>c", 2, "from>to"},
    {"MACHINE m 'a >b'", 2, "from>to"},
    {"MACHINE m a>b/", 2, "from>to"},
    {"MOVE m a", 3, MISSING},
    {"MOVE m '' b", 2, "a state's name is 1 to 32"},
    {"MOVE m a 'b c'", 3, "a state's name is"},
    {"MOVE m a b c", 4, TOO_MANY},
    {"APPEND l e", 3, MISSING},
    {"APPEND l '' p", 2, "an event id has 1 to 255"},
    {"APPEND l e p IF 1", 4, TOO_MANY},
    {"APPEND l e p AT x", 5, "a version is"},
    {"GRANT", 1, MISSING},
    {"GRANT f 1", 2, TOO_MANY},
    {"GUARD f", 2, MISSING},
    {"GUARD f 0", 2, "a token is a whole number from 1 to 9007199254740991"},
    {"GUARD f 9007199254740992", 2, "a token is"},
    {"LEASE l o", 3, MISSING},
    {"LEASE l '' 1", 2, "an owner has 1 to 64"},
    {"LEASE l o 0", 3, "ms is a whole number from 1 to 604800000"},
    {"LEASE l o 604800001", 3, "ms is"},
    {"RENEW l 1", 3, MISSING},
    {"RENEW l 0 1", 2, "a token is"},
    {"RENEW l 1 0", 3, "ms is"},
    {"RELEASE l 0", 2, "a token is"},
    {"RELEASE l", 2, MISSING},
    {"HOLD l x", 2, "a token is"},
    {"HOLD l", 2, MISSING},
    {"SEQ p 0", 3, MISSING},
    {"SEQ p -1 0", 2, "an epoch is a whole number from 0"},
    {"SEQ p 9007199254740992 0", 2, "an epoch is"},
    {"SEQ p 0 9007199254740992", 3, "n is a whole number from 0 to 9007199254740991"},
    {"BUCKET b x", 3, MISSING},
    {"BUCKET b '' 1", 2, "a bucket has 1 to 64"},
    {"BUCKET b x -1", 3, "n is"},
    {"EMIT t", 2, MISSING},
    {"EMIT '' p", 1, "a topic's name is"},
    {"EMIT t p GROUP", 4, MISSING},
    {"EMIT t p GROUP ''", 4, "a group has 1 to 255"},
    {"EMIT t p GROUP g GROUP g", 5, "twice"},
    {"SENT t", 2, MISSING},
    {"SENT t 1 0", 3, "a message's number is a whole number from 1"},
    {"SENT t x", 2, "a message's number is"},
    {"SENT t 9007199254740992", 2, "a message's number is"},
};

static void deed__bad_words__say_which_and_what_is_expected(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
        struct line line;
        struct once__deed deed = {.n = 77};
        struct once_defect defect = {SIZE_MAX, "nothing"};

        line_split(&line, bads[i].line);
        assert_int_equal(once__deed_read(line.words, line.count, &deed, &defect), ONCE_ERR_INVALID);
        if (defect.offset != bads[i].index || !strstr(defect.what, bads[i].what))
            fail_msg("%s: word %zu: %s", bads[i].line, defect.offset, defect.what);
        assert_int_equal(deed.n, 77);
        assert_int_equal(once__deed_read(line.words, line.count, &deed, NULL), ONCE_ERR_INVALID);
    }
}

/* Names of effects and options are whole words. */
static void deed__a_word_with_a_zero_behind_it__is_another_word(void **state)
{
    struct once_bytes words[] = {of("ADD"), of("a"), of("1"), of("MIN"), of("0")};
    struct once_bytes effect = {(const uint8_t *)"ADD", 4}, option = {(const uint8_t *)"MIN", 4};
    struct once_defect defect = {0};
    struct once__deed deed;

    (void)state;
    assert_int_equal(once__deed_read(words, 5, &deed, &defect), ONCE_OK);
    words[3] = option;
    assert_int_equal(once__deed_read(words, 5, &deed, &defect), ONCE_ERR_INVALID);
    assert_int_equal(defect.offset, 3);
    words[0] = effect;
    assert_int_equal(once__deed_read(words, 5, &deed, &defect), ONCE_ERR_INVALID);
    assert_int_equal(defect.offset, 0);
}

/* The forms that are told are those of the table of effects, and the list of names is whole. */
static void deed__a_word_alone__is_told_the_form_of_the_table(void **state)
{
    struct once_bytes nothing = of("nothing");
    struct once_defect unknown = {0};
    struct once__deed deed;

    (void)state;
    assert_int_equal(once__deed_read(&nothing, 1, &deed, &unknown), ONCE_ERR_INVALID);
    for (size_t i = 0; i < ONCE__EFFECT_COUNT; i++) {
        struct once_bytes word = of(once__effects[i].name);
        struct once_defect defect = {0};

        assert_int_equal(once__deed_read(&word, 1, &deed, &defect), ONCE_ERR_INVALID);
        assert_int_equal(defect.offset, 1);
        if (!strstr(defect.what, once__effects[i].form))
            fail_msg("%s: %s", once__effects[i].form, defect.what);
        assert_non_null(strstr(unknown.what, once__effects[i].name));
    }
}

/* A word of size bytes at an index: the largest is taken, and one more is not. */
static void check_bound(const char *text, size_t index, size_t max)
{
    struct line line;
    uint8_t *block = malloc(max + 1);
    struct once_defect defect = {0};
    struct once__deed deed;

    assert_non_null(block);
    line_split(&line, text);
    memset(block, 'x', max + 1);
    line.words[index] = (struct once_bytes){block, max};
    assert_int_equal(once__deed_read(line.words, line.count, &deed, &defect), ONCE_OK);
    line.words[index].size = max + 1;
    assert_int_equal(once__deed_read(line.words, line.count, &deed, &defect), ONCE_ERR_INVALID);
    assert_int_equal(defect.offset, index);
    free(block);
}

static void deed__sizes__are_bounded(void **state)
{
    (void)state;
    check_bound("FLAG x", 1, ONCE_OBJECT_NAME_SIZE_MAX);
    check_bound("EMIT x p", 1, ONCE_OBJECT_NAME_SIZE_MAX);
    check_bound("CLOCK v x 1", 2, ONCE_NODE_SIZE_MAX);
    check_bound("LWW v 1 x 1", 3, ONCE_NODE_SIZE_MAX);
    check_bound("GADD v x 1", 2, ONCE_NODE_SIZE_MAX);
    check_bound("PNADD v x 1", 2, ONCE_NODE_SIZE_MAX);
    check_bound("INSERT v x 1", 2, ONCE_NODE_SIZE_MAX);
    check_bound("LEASE l x 1", 2, ONCE_OWNER_SIZE_MAX);
    check_bound("APPEND l x p", 2, ONCE_EVENT_ID_SIZE_MAX);
    check_bound("BUCKET b x 1", 2, ONCE_BUCKET_SIZE_MAX);
    check_bound("EMIT t p GROUP x", 4, ONCE_GROUP_SIZE_MAX);
    check_bound("MOVE m x b", 2, ONCE_STATE_NAME_SIZE_MAX);
    check_bound("MOVE m a x", 3, ONCE_STATE_NAME_SIZE_MAX);
    check_bound("LWW v 1 n x", 4, ONCE_MEMBER_SIZE_MAX);
    check_bound("UNION s a x b", 3, ONCE_MEMBER_SIZE_MAX);
    check_bound("INSERT s n x", 3, ONCE_MEMBER_SIZE_MAX);
    check_bound("REMOVE s x", 2, ONCE_MEMBER_SIZE_MAX);
    check_bound("SET r x", 2, ONCE_VALUE_SIZE_MAX);
    check_bound("APPEND l e x", 3, ONCE_PAYLOAD_SIZE_MAX);
    check_bound("EMIT t x", 2, ONCE_PAYLOAD_SIZE_MAX);
}

static void deed__count_and_size_of_words__are_bounded(void **state)
{
    static struct once_bytes words[ONCE_EFFECT_WORDS_MAX + 1];
    static uint8_t member[ONCE_MEMBER_SIZE_MAX];
    struct once_defect defect = {0};
    struct once__deed deed;

    (void)state;
    words[0] = of("UNION");
    words[1] = of("s");
    for (size_t i = 2; i <= ONCE_EFFECT_WORDS_MAX; i++)
        words[i] = of("m");
    assert_int_equal(once__deed_read(words, ONCE_EFFECT_WORDS_MAX, &deed, &defect), ONCE_OK);
    assert_int_equal(deed.member_count, ONCE_EFFECT_WORDS_MAX - 2);
    assert_int_equal(once__deed_read(words, ONCE_EFFECT_WORDS_MAX + 1, &deed, &defect),
                     ONCE_ERR_INVALID);
    assert_int_equal(defect.offset, ONCE_EFFECT_WORDS_MAX);

    for (size_t i = 2; i < 18; i++)
        words[i] = (struct once_bytes){member, ONCE_MEMBER_SIZE_MAX};
    words[17].size -= 6; /* "UNION" and "s" */
    assert_int_equal(once__deed_read(words, 18, &deed, &defect), ONCE_OK);
    words[17].size++;
    assert_int_equal(once__deed_read(words, 18, &deed, &defect), ONCE_ERR_INVALID);
    assert_int_equal(defect.offset, 17);

    words[3] = (struct once_bytes){NULL, 1};
    assert_int_equal(once__deed_read(words, 5, &deed, &defect), ONCE_ERR_INVALID);
    assert_int_equal(defect.offset, 3);
    words[3] = (struct once_bytes){NULL, 0};
    assert_int_equal(once__deed_read(words, 5, &deed, &defect), ONCE_OK);
    assert_int_equal(once__deed_read(NULL, 1, &deed, &defect), ONCE_ERR_INVALID);
}

/* Moves sNN>sMM of three-character names: 7 bytes each. */
static struct once_bytes move_of(char text[8], unsigned from, unsigned to)
{
    snprintf(text, 8, "s%02u>s%02u", from % 100, to % 100);
    return of(text);
}

static void deed__machine__has_at_most_64_states(void **state)
{
    struct once_bytes words[2 + 66] = {of("MACHINE"), of("m")};
    char texts[66][8];
    struct once_defect defect = {0};
    struct once__deed deed;

    (void)state;
    for (unsigned i = 0; i < 66; i++)
        words[2 + i] = move_of(texts[i], i % 64, (i + 1) % 64);
    assert_int_equal(once__deed_read(words, 2 + 66, &deed, &defect), ONCE_OK);
    words[2 + 64] = move_of(texts[64], 3, 64);
    assert_int_equal(once__deed_read(words, 2 + 66, &deed, &defect), ONCE_ERR_INVALID);
    assert_int_equal(defect.offset, 2 + 64);
    assert_non_null(strstr(defect.what, "at most 64 states"));
    words[2 + 64] = move_of(texts[64], 64, 3);
    assert_int_equal(once__deed_read(words, 2 + 66, &deed, &defect), ONCE_ERR_INVALID);
}

static void deed__machine__declares_at_most_64_kib(void **state)
{
    enum { NAME = ONCE_STATE_NAME_SIZE_MAX, MOVE = 2 * NAME + 1 };
    enum { MOVES = ONCE_DECLARATION_SIZE_MAX / (MOVE + 1) };
    static struct once_bytes words[2 + MOVES + 1];
    uint8_t move[MOVE];
    struct once_defect defect = {0};
    struct once__deed deed;
    size_t last = ONCE_DECLARATION_SIZE_MAX - MOVES * (MOVE + 1);

    (void)state;
    memset(move, 'x', sizeof(move));
    move[NAME] = '>';
    words[0] = of("MACHINE");
    words[1] = of("m");
    for (size_t i = 0; i < MOVES; i++)
        words[2 + i] = (struct once_bytes){move, MOVE};
    /* Each with the blank behind it; what is left takes one more move exactly. */
    assert_true(last > NAME + 1 && last < MOVE);
    words[2 + MOVES] = (struct once_bytes){move + MOVE - last, last};
    assert_int_equal(once__deed_read(words, 2 + MOVES + 1, &deed, &defect), ONCE_OK);
    words[2 + MOVES] = (struct once_bytes){move + MOVE - last - 1, last + 1};
    assert_int_equal(once__deed_read(words, 2 + MOVES + 1, &deed, &defect), ONCE_ERR_INVALID);
    assert_int_equal(defect.offset, 2 + MOVES);
    assert_non_null(strstr(defect.what, "65536"));
}

static void numbers__at_the_edges__are_exact(void **state)
{
    int64_t n = 77;
    uint64_t u = 77;

    (void)state;
    assert_true(once__int64_read(of(INT64_MIN_TEXT), &n) && n == INT64_MIN);
    assert_true(once__int64_read(of("-00"
                                    "9223372036854775807"),
                                 &n) &&
                n == -INT64_MAX);
    assert_true(once__int64_read(of(INT64_MAX_TEXT), &n) && n == INT64_MAX);
    assert_false(once__int64_read(of("-9223372036854775809"), &n));
    assert_false(once__int64_read(of("-"), &n));
    assert_false(once__int64_read(of(""), &n));
    assert_true(n == INT64_MAX);
    assert_true(once__uint64_read(of("18446744073709551615"), UINT64_MAX, &u) && u == UINT64_MAX);
    assert_false(once__uint64_read(of("18446744073709551616"), UINT64_MAX, &u));
    assert_true(once__uint64_read(of("0000000000000000000000007"), 7, &u) && u == 7);
    assert_false(once__uint64_read(of("8"), 7, &u));
    assert_true(once__uint64_read(of("0"), 0, &u) && u == 0);
    assert_false(once__uint64_read(of("1"), 0, &u));
    assert_false(once__uint64_read(of("-0"), 9, &u));
    assert_false(once__uint64_read(of("1/"), 99, &u));
    assert_false(once__uint64_read(of("1:"), 99, &u));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deed__every_form__is_read_whole),
        cmocka_unit_test(deed__bad_words__say_which_and_what_is_expected),
        cmocka_unit_test(deed__a_word_with_a_zero_behind_it__is_another_word),
        cmocka_unit_test(deed__a_word_alone__is_told_the_form_of_the_table),
        cmocka_unit_test(deed__sizes__are_bounded),
        cmocka_unit_test(deed__count_and_size_of_words__are_bounded),
        cmocka_unit_test(deed__machine__has_at_most_64_states),
        cmocka_unit_test(deed__machine__declares_at_most_64_kib),
        cmocka_unit_test(numbers__at_the_edges__are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
