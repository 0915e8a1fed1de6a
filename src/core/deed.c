/* SPDX-License-Identifier: Apache-2.0
 *
 * The DO forms, as data: one row of `forms` for each, made of `slots`, which say how a word is
 * read, where in the deed it goes, and what is told when it is not right.
 *
 * Kept here: a deed that was read is within every bound of limits.h that can be seen without its
 * object, and borrows only from its words. Nothing is allocated, nothing is remembered.
 *
 * Does not split text (deed_words.c) and does not look at objects (object/stage.h).
 */
#include "core/deed.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/defect.h"

#include <stddef.h>
#include <string.h>

#include <once/key.h>

/* ---- Words ----------------------------------------------------------------------------------- */

bool once__uint64_read(struct once_bytes text, uint64_t max, uint64_t *ret_n)
{
    uint64_t n = 0;

    if (text.size == 0)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        uint64_t digit = (uint64_t)text.data[i] - '0';

        if (digit > 9 || digit > max || n > (max - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *ret_n = n;
    return true;
}

bool once__int64_read(struct once_bytes text, int64_t *ret_n)
{
    uint64_t n;

    if (text.size == 0 || text.data[0] != '-') {
        if (!once__uint64_read(text, INT64_MAX, &n))
            return false;
        *ret_n = (int64_t)n;
        return true;
    }
    text = (struct once_bytes){text.data + 1, text.size - 1};
    if (!once__uint64_read(text, (uint64_t)INT64_MAX + 1, &n))
        return false;
    *ret_n = n > INT64_MAX ? INT64_MIN : -(int64_t)n;
    return true;
}

static bool is_state_name(struct once_bytes name)
{
    if (name.size == 0 || name.size > ONCE_STATE_NAME_SIZE_MAX)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        uint8_t c = name.data[i];
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        bool digit = c >= '0' && c <= '9';

        if (!letter && !digit && c != '_' && c != '-' && c != '.' && c != ':')
            return false;
    }
    return true;
}

bool once__move_read(struct once_bytes word, struct once_bytes *ret_from, struct once_bytes *ret_to)
{
    const uint8_t *arrow = word.size > 0 ? memchr(word.data, '>', word.size) : NULL;
    struct once_bytes from;
    struct once_bytes to;

    if (!arrow)
        return false;
    from = (struct once_bytes){word.data, (size_t)(arrow - word.data)};
    to = (struct once_bytes){arrow + 1, word.size - from.size - 1};
    if (!is_state_name(from) || !is_state_name(to))
        return false;
    *ret_from = from;
    *ret_to = to;
    return true;
}

/* A word of the language, of up to 7 letters: in capitals, with zeros up to
 * its full size. So two of them are compared as one number. */
struct keyword {
    char text[8];
};

/* No keyword: all zeros. */
static struct keyword keyword_of(struct once_bytes word)
{
    struct keyword keyword = {{0}};

    if (word.size >= sizeof(keyword.text))
        return keyword;
    for (size_t i = 0; i < word.size; i++) {
        uint8_t c = word.data[i];

        if (c >= 'a' && c <= 'z')
            c = (uint8_t)(c - 'a' + 'A');
        if (c < 'A' || c > 'Z')
            return (struct keyword){{0}};
        keyword.text[i] = (char)c;
    }
    return keyword;
}

static bool keyword_equal(const struct keyword *a, const struct keyword *b)
{
    return memcmp(a->text, b->text, sizeof(a->text)) == 0;
}

/* ---- Slots: the words of a form that stand alone --------------------------------------------- */

enum reading {
    READ_INT64,
    READ_UINT64, /* min to max */
    READ_BYTES,  /* of a size from min to max */
    READ_NAME,
    READ_STATE
};

struct slot {
    enum reading reading;
    size_t at; /* in struct once__deed */
    uint64_t min;
    uint64_t max;
    const char *what; /* told when the word is not that */
};

enum slot_id {
    SLOT_NONE,
    SLOT_OBJECT,
    SLOT_TOPIC,
    SLOT_N,
    SLOT_TIME,
    SLOT_COUNT,
    SLOT_TOKEN,
    SLOT_EPOCH,
    SLOT_SEQUENCE,
    SLOT_MS,
    SLOT_MIN,
    SLOT_MAX,
    SLOT_VERSION,
    SLOT_NODE,
    SLOT_OWNER,
    SLOT_EVENT_ID,
    SLOT_BUCKET,
    SLOT_GROUP,
    SLOT_FROM,
    SLOT_LWW_VALUE,
    SLOT_VALUE,
    SLOT_PAYLOAD,
    SLOT_TO
};

#define AT(field) offsetof(struct once__deed, field)
#define INT64_TEXT "is a whole number from -9223372036854775808 to 9223372036854775807"
#define VERSION_TEXT "is a whole number from 0 to 9007199254740991"
#define STATE_TEXT "a state's name is 1 to 32 characters of A-Z a-z 0-9 _ - . :"

_Static_assert(ONCE_VERSION_MAX == 9007199254740991 && ONCE_FENCE_MAX == 9007199254740991,
               "the texts name the bound");
_Static_assert(ONCE_OBJECT_NAME_SIZE_MAX == 255, "the texts name the bound");
_Static_assert(ONCE_OBJECT_NAME_SIZE_MAX == ONCE_KEY_SIZE_MAX, "names keep the rules of keys");
_Static_assert(ONCE_NODE_SIZE_MAX == 64 && ONCE_OWNER_SIZE_MAX == 64, "the texts name the bound");
_Static_assert(ONCE_BUCKET_SIZE_MAX == 64, "the text names the bound");
_Static_assert(ONCE_EVENT_ID_SIZE_MAX == 255, "the text names the bound");
_Static_assert(ONCE_GROUP_SIZE_MAX == 255, "the text names the bound");
_Static_assert(ONCE_STATE_NAME_SIZE_MAX == 32, "the text names the bound");
_Static_assert(ONCE_LEASE_MS_MAX == 604800000, "the text names the bound");
_Static_assert(ONCE_VALUE_SIZE_MAX == 262144, "the text names the bound");
_Static_assert(ONCE_PAYLOAD_SIZE_MAX == 262144, "the text names the bound");
_Static_assert(ONCE_MEMBER_SIZE_MAX == 65536, "the texts name the bound");
_Static_assert(ONCE_BUCKET_COUNT_MAX == INT64_MAX, "one bound for all that is counted");

static const struct slot slots[] = {
    [SLOT_OBJECT] = {READ_NAME, AT(name), 0, 0,
                     "an object's name is 1 to 255 characters of printable ASCII"},
    [SLOT_TOPIC] = {READ_NAME, AT(name), 0, 0,
                    "a topic's name is 1 to 255 characters of printable ASCII"},
    [SLOT_N] = {READ_INT64, AT(n), 0, 0, "n " INT64_TEXT},
    [SLOT_TIME] = {READ_INT64, AT(n), 0, 0, "time " INT64_TEXT},
    [SLOT_COUNT] = {READ_UINT64, AT(number), 0, INT64_MAX,
                    "n is a whole number from 0 to 9223372036854775807"},
    [SLOT_TOKEN] = {READ_UINT64, AT(number), 1, ONCE_FENCE_MAX,
                    "a token is a whole number from 1 to 9007199254740991"},
    [SLOT_EPOCH] = {READ_UINT64, AT(epoch), 0, ONCE_VERSION_MAX, "an epoch " VERSION_TEXT},
    [SLOT_SEQUENCE] = {READ_UINT64, AT(number), 0, ONCE_VERSION_MAX, "n " VERSION_TEXT},
    [SLOT_MS] = {READ_UINT64, AT(ms), 1, ONCE_LEASE_MS_MAX,
                 "ms is a whole number from 1 to 604800000, which is 7 days"},
    [SLOT_MIN] = {READ_INT64, AT(range.min), 0, 0, "MIN " INT64_TEXT},
    [SLOT_MAX] = {READ_INT64, AT(range.max), 0, 0, "MAX " INT64_TEXT},
    [SLOT_VERSION] = {READ_UINT64, AT(expected.version), 0, ONCE_VERSION_MAX,
                      "a version " VERSION_TEXT},
    [SLOT_NODE] = {READ_BYTES, AT(node), 1, ONCE_NODE_SIZE_MAX, "a node has 1 to 64 bytes"},
    [SLOT_OWNER] = {READ_BYTES, AT(node), 1, ONCE_OWNER_SIZE_MAX, "an owner has 1 to 64 bytes"},
    [SLOT_EVENT_ID] = {READ_BYTES, AT(node), 1, ONCE_EVENT_ID_SIZE_MAX,
                       "an event id has 1 to 255 bytes"},
    [SLOT_BUCKET] = {READ_BYTES, AT(node), 1, ONCE_BUCKET_SIZE_MAX, "a bucket has 1 to 64 bytes"},
    [SLOT_GROUP] = {READ_BYTES, AT(node), 1, ONCE_GROUP_SIZE_MAX, "a group has 1 to 255 bytes"},
    [SLOT_FROM] = {READ_STATE, AT(node), 0, 0, STATE_TEXT},
    [SLOT_LWW_VALUE] = {READ_BYTES, AT(value), 0, ONCE_MEMBER_SIZE_MAX,
                        "a value of LWW has at most 65536 bytes"},
    [SLOT_VALUE] = {READ_BYTES, AT(value), 0, ONCE_VALUE_SIZE_MAX,
                    "a value has at most 262144 bytes"},
    [SLOT_PAYLOAD] = {READ_BYTES, AT(value), 0, ONCE_PAYLOAD_SIZE_MAX,
                      "a payload has at most 262144 bytes"},
    [SLOT_TO] = {READ_STATE, AT(value), 0, 0, STATE_TEXT},
};

/* The deed's number of 8 bytes, whether it is signed or not: a value that both types have looks the
 * same in both. */
_Static_assert(sizeof(once_ms) == sizeof(uint64_t), "a lease's length goes through a uint64_t");

static bool slot_read(const struct slot *slot, struct once_bytes word, struct once__deed *deed)
{
    uint8_t *at = (uint8_t *)deed + slot->at;
    uint64_t number;
    int64_t n;

    ONCE_ASSERT(slot->what);
    ONCE_ASSERT(slot->at < sizeof(*deed));
    switch (slot->reading) {
    case READ_INT64:
        if (!once__int64_read(word, &n))
            return false;
        memcpy(at, &n, sizeof(n));
        return true;
    case READ_UINT64:
        if (!once__uint64_read(word, slot->max, &number) || number < slot->min)
            return false;
        memcpy(at, &number, sizeof(number));
        return true;
    case READ_BYTES:
        if (word.size < slot->min || word.size > slot->max)
            return false;
        break;
    case READ_NAME:
        if (once_key_check(word, NULL) != ONCE_OK)
            return false;
        break;
    case READ_STATE:
        if (!is_state_name(word))
            return false;
        break;
    }
    memcpy(at, &word, sizeof(word));
    return true;
}

/* ---- Lists: the words that a form ends with, one or more ------------------------------------- */

/* What is wrong with the first bad word, whose index is then *ret_bad; NULL: they are good. */
typedef const char *(*list_check)(const struct once_bytes *words, size_t count, size_t *ret_bad);

static const char *members_check(const struct once_bytes *words, size_t count, size_t *ret_bad)
{
    for (size_t i = 0; i < count; i++) {
        if (words[i].size > ONCE_MEMBER_SIZE_MAX) {
            *ret_bad = i;
            return "a member has at most 65536 bytes";
        }
    }
    return NULL;
}

static const char *numbers_check(const struct once_bytes *words, size_t count, size_t *ret_bad)
{
    uint64_t number;

    for (size_t i = 0; i < count; i++) {
        if (!once__uint64_read(words[i], ONCE_VERSION_MAX, &number) || number == 0) {
            *ret_bad = i;
            return "a message's number is a whole number from 1 to 9007199254740991";
        }
    }
    return NULL;
}

struct state_set {
    struct once_bytes names[ONCE_MACHINE_STATES_MAX];
    size_t count;
};

/* False if it is one too many. */
static bool state_add(struct state_set *set, struct once_bytes name)
{
    for (size_t i = 0; i < set->count; i++) {
        if (once__bytes_equal(set->names[i], name))
            return true;
    }
    if (set->count == ONCE_MACHINE_STATES_MAX)
        return false;
    set->names[set->count++] = name;
    return true;
}

_Static_assert(ONCE_MACHINE_STATES_MAX == 64, "the text names the bound");
_Static_assert(ONCE_DECLARATION_SIZE_MAX == 65536, "the text names the bound");

static const char *moves_check(const struct once_bytes *words, size_t count, size_t *ret_bad)
{
    struct state_set set = {.count = 0};
    size_t size = 0;

    for (size_t i = 0; i < count; i++) {
        struct once_bytes from;
        struct once_bytes to;

        *ret_bad = i;
        if (!once__move_read(words[i], &from, &to))
            return "a move is written from>to; " STATE_TEXT;
        if (!state_add(&set, from) || !state_add(&set, to))
            return "a machine has at most 64 states";
        size += words[i].size + (i > 0 ? 1 : 0);
        if (size > ONCE_DECLARATION_SIZE_MAX)
            return "the moves of a machine, with one blank between, have at most 65536 bytes";
    }
    return NULL;
}

/* ---- Forms ----------------------------------------------------------------------------------- */

enum { FIXED_MAX = 4, OPTIONS_MAX = 2 };

struct option {
    struct keyword word;
    enum slot_id slot; /* SLOT_NONE: there is no such option */
};

struct form {
    struct keyword word;
    const char *missing;  /* told when a word is missing */
    const char *too_many; /* told of a word that has no place */
    enum once__deed_kind kind;
    enum once__effect_id effect;
    enum once__effect_id effect_optioned; /* its row of laws when an option is given */
    enum slot_id fixed[FIXED_MAX];        /* up to the first SLOT_NONE */
    struct option options[OPTIONS_MAX];   /* up to the first SLOT_NONE */
    list_check list; /* NULL: there is none. A form with a list has no option */
};

#define OPTION(word, slot)                                                                         \
    {                                                                                              \
        {word}, slot                                                                               \
    }
#define FORM(id, rest)                                                                             \
    .word = {#id}, .kind = ONCE__DEED_##id, .effect = ONCE__##id,                                  \
    .missing = "a word is missing; write " #id " " rest,                                           \
    .too_many = "this word is one too many; write " #id " " rest

static const struct form forms[] = {
    {FORM(ADD, "name n [MIN m] [MAX m]"), .fixed = {SLOT_OBJECT, SLOT_N},
     .options = {OPTION("MIN", SLOT_MIN), OPTION("MAX", SLOT_MAX)},
     .effect_optioned = ONCE__ADD_BOUNDED},
    {FORM(MAX, "name n"), .fixed = {SLOT_OBJECT, SLOT_N}},
    {FORM(MIN, "name n"), .fixed = {SLOT_OBJECT, SLOT_N}},
    {FORM(FLAG, "name"), .fixed = {SLOT_OBJECT}},
    {FORM(UNION, "name member…"), .fixed = {SLOT_OBJECT}, .list = members_check},
    {FORM(CLOCK, "name node n"), .fixed = {SLOT_OBJECT, SLOT_NODE, SLOT_COUNT}},
    {FORM(LWW, "name time node value"),
     .fixed = {SLOT_OBJECT, SLOT_TIME, SLOT_NODE, SLOT_LWW_VALUE}},
    {FORM(GADD, "name node n"), .fixed = {SLOT_OBJECT, SLOT_NODE, SLOT_COUNT}},
    {FORM(PNADD, "name node n"), .fixed = {SLOT_OBJECT, SLOT_NODE, SLOT_N}},
    {FORM(INSERT, "name node member…"), .fixed = {SLOT_OBJECT, SLOT_NODE}, .list = members_check},
    {FORM(REMOVE, "name member…"), .fixed = {SLOT_OBJECT}, .list = members_check},
    {FORM(SET, "name value [IF version]"), .fixed = {SLOT_OBJECT, SLOT_VALUE},
     .options = {OPTION("IF", SLOT_VERSION)}, .effect_optioned = ONCE__SET_IF},
    {FORM(DELETE, "name [IF version]"), .fixed = {SLOT_OBJECT},
     .options = {OPTION("IF", SLOT_VERSION)}, .effect_optioned = ONCE__DELETE_IF},
    {FORM(MACHINE, "name from>to…"), .fixed = {SLOT_OBJECT}, .list = moves_check},
    {FORM(MOVE, "name from to"), .fixed = {SLOT_OBJECT, SLOT_FROM, SLOT_TO}},
    {FORM(APPEND, "name event_id payload [AT version]"),
     .fixed = {SLOT_OBJECT, SLOT_EVENT_ID, SLOT_PAYLOAD}, .options = {OPTION("AT", SLOT_VERSION)},
     .effect_optioned = ONCE__APPEND_AT},
    {FORM(GRANT, "name"), .fixed = {SLOT_OBJECT}},
    {FORM(GUARD, "name token"), .fixed = {SLOT_OBJECT, SLOT_TOKEN}},
    {FORM(LEASE, "name owner ms"), .fixed = {SLOT_OBJECT, SLOT_OWNER, SLOT_MS}},
    {FORM(RENEW, "name token ms"), .fixed = {SLOT_OBJECT, SLOT_TOKEN, SLOT_MS}},
    {FORM(RELEASE, "name token"), .fixed = {SLOT_OBJECT, SLOT_TOKEN}},
    {FORM(HOLD, "name token"), .fixed = {SLOT_OBJECT, SLOT_TOKEN}},
    {FORM(SEQ, "name epoch n"), .fixed = {SLOT_OBJECT, SLOT_EPOCH, SLOT_SEQUENCE}},
    {FORM(BUCKET, "name bucket n"), .fixed = {SLOT_OBJECT, SLOT_BUCKET, SLOT_COUNT}},
    {FORM(EMIT, "topic payload [GROUP g]"), .fixed = {SLOT_TOPIC, SLOT_PAYLOAD},
     .options = {OPTION("GROUP", SLOT_GROUP)}, .effect_optioned = ONCE__EMIT},
    {FORM(SENT, "topic number…"), .fixed = {SLOT_TOPIC}, .list = numbers_check},
};

_Static_assert(sizeof(forms) / sizeof(forms[0]) == ONCE__DEED_MERGE,
               "a form for every kind but MERGE, which is the last");

#define NAMES_TEXT                                                                                 \
    "the effects are ADD, MAX, MIN, FLAG, UNION, CLOCK, LWW, GADD, PNADD, INSERT, REMOVE, SET, "   \
    "DELETE, MACHINE, MOVE, APPEND, GRANT, GUARD, LEASE, RENEW, RELEASE, HOLD, SEQ, BUCKET, EMIT " \
    "and SENT"

static const struct form *form_find(struct once_bytes word)
{
    struct keyword keyword = keyword_of(word);

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (keyword_equal(&keyword, &forms[i].word))
            return &forms[i];
    }
    return NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int invalid(size_t index, const char *what, struct once_defect *ret_defect)
{
    return once__defect(ONCE_ERR_INVALID, index, what, ret_defect);
}

static const struct option *option_find(const struct form *form, struct once_bytes word)
{
    struct keyword keyword = keyword_of(word);

    for (size_t i = 0; i < OPTIONS_MAX && form->options[i].slot != SLOT_NONE; i++) {
        if (keyword_equal(&keyword, &form->options[i].word))
            return &form->options[i];
    }
    return NULL;
}

/* From words[index] on: pairs of an option's word and its value. */
static int options_read(const struct form *form, const struct once_bytes *words, size_t word_count,
                        size_t index, struct once__deed *deed, struct once_defect *ret_defect)
{
    bool given[OPTIONS_MAX] = {false};

    for (; index < word_count; index += 2) {
        const struct option *option = option_find(form, words[index]);
        const struct slot *slot;

        if (!option)
            return invalid(index, form->too_many, ret_defect);
        if (given[option - form->options])
            return invalid(index, "this option is given twice; give it once", ret_defect);
        if (index + 1 == word_count)
            return invalid(word_count, form->missing, ret_defect);
        slot = &slots[option->slot];
        if (!slot_read(slot, words[index + 1], deed))
            return invalid(index + 1, slot->what, ret_defect);
        given[option - form->options] = true;
        deed->effect = form->effect_optioned;
        deed->expected.given = option->slot == SLOT_VERSION;
    }
    if (deed->range.min > deed->range.max)
        return invalid(word_count - 1, "MIN is above MAX; it must be at or below it", ret_defect);
    return ONCE_OK;
}

static int form_read(const struct form *form, const struct once_bytes *words, size_t word_count,
                     struct once__deed *deed, struct once_defect *ret_defect)
{
    size_t index = 1;
    size_t bad = 0;
    const char *what;

    for (size_t i = 0; i < FIXED_MAX && form->fixed[i] != SLOT_NONE; i++, index++) {
        const struct slot *slot = &slots[form->fixed[i]];

        if (index == word_count)
            return invalid(index, form->missing, ret_defect);
        if (!slot_read(slot, words[index], deed))
            return invalid(index, slot->what, ret_defect);
    }
    if (!form->list)
        return options_read(form, words, word_count, index, deed, ret_defect);

    if (index == word_count)
        return invalid(index, form->missing, ret_defect);
    what = form->list(words + index, word_count - index, &bad);
    if (what)
        return invalid(index + bad, what, ret_defect);
    deed->members = words + index;
    deed->member_count = word_count - index;
    return ONCE_OK;
}

_Static_assert(ONCE_EFFECT_WORDS_MAX == 4096, "the text names the bound");
_Static_assert(ONCE_EFFECTS_SIZE_MAX == 1048576, "the text names the bound");

/* What must be true of any words, before one of them is read. */
static int words_check(const struct once_bytes *words, size_t word_count,
                       struct once_defect *ret_defect)
{
    size_t left = ONCE_EFFECTS_SIZE_MAX;

    if (!words || word_count == 0)
        return invalid(0, "an effect has at least one word; " NAMES_TEXT, ret_defect);
    if (word_count > ONCE_EFFECT_WORDS_MAX)
        return invalid(ONCE_EFFECT_WORDS_MAX, "an effect has at most 4096 words", ret_defect);
    for (size_t i = 0; i < word_count; i++) {
        if (!once__bytes_readable(words[i]))
            return invalid(i, "this word is a null pointer with a size", ret_defect);
        if (words[i].size > left)
            return invalid(i, "the words of effects have at most 1048576 bytes", ret_defect);
        left -= words[i].size;
    }
    return ONCE_OK;
}

int once__deed_read(const struct once_bytes *words, size_t word_count, struct once__deed *ret_deed,
                    struct once_defect *ret_defect)
{
    struct once__deed deed = {.kind = ONCE__DEED_COUNT};
    const struct form *form;
    int err;

    ONCE_ASSERT(ret_deed);
    err = words_check(words, word_count, ret_defect);
    if (err != ONCE_OK)
        return err;
    form = form_find(words[0]);
    if (!form)
        return invalid(0, "there is no such effect; " NAMES_TEXT, ret_defect);
    deed.kind = form->kind;
    deed.effect = form->effect;
    if (deed.kind == ONCE__DEED_ADD)
        deed.range = (struct once__range){INT64_MIN, INT64_MAX};

    err = form_read(form, words, word_count, &deed, ret_defect);
    if (err != ONCE_OK)
        return err;
    *ret_deed = deed;
    return ONCE_OK;
}
