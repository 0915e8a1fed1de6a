/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of text into the words of an effect: once_do_split.
 *
 * A word is either JSON, from its first bracket to the one that closes it, and then lies in the
 * text; or a run of bare characters and quoted stretches, and then is put together in the scratch.
 * Blanks are the space, the tab and the ends of lines. Outside of "…" a backslash is a character
 * like any other, so that a path or a pattern keeps its own. Something right behind the bracket
 * that closes a word is refused rather than guessed at.
 *
 * Kept here: at every moment no more of the scratch is in use than of the text has been read, so
 * text.size bytes of it are enough. What the JSON says is not looked at.
 */
#include "base/assert.h"
#include "base/bytes.h"
#include "base/defect.h"

#include <once/apply.h>

struct split {
    struct once_bytes text;
    size_t at;
    uint8_t *scratch;
    size_t used; /* of the scratch: the words so far */
    struct once_defect *ret_defect;
};

static int invalid(const struct split *split, size_t offset, const char *what)
{
    return once__defect(ONCE_ERR_INVALID, offset, what, split->ret_defect);
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void keep(struct split *split, uint8_t c)
{
    ONCE_ASSERT(split->used < split->at);
    split->scratch[split->used++] = c;
}

/* From the opening quote to behind the closing one. */
static int quoted_read(struct split *split)
{
    size_t open = split->at++;
    uint8_t quote = split->text.data[open];

    while (split->at < split->text.size) {
        uint8_t c = split->text.data[split->at++];

        if (c == quote)
            return ONCE_OK;
        if (c == '\\' && quote == '"') {
            if (split->at == split->text.size)
                break;
            c = split->text.data[split->at++];
        }
        keep(split, c);
    }
    return invalid(split, open, "the quote that opens here is not closed; write it again behind");
}

static int plain_read(struct split *split, struct once_bytes *ret_word)
{
    size_t from = split->used;

    while (split->at < split->text.size && !is_blank(split->text.data[split->at])) {
        uint8_t c = split->text.data[split->at];

        if (c == '"' || c == '\'') {
            int err = quoted_read(split);

            if (err != ONCE_OK)
                return err;
            continue;
        }
        split->at++;
        keep(split, c);
    }
    *ret_word = (struct once_bytes){split->scratch + from, split->used - from};
    return ONCE_OK;
}

/* From the opening quote of a JSON string to behind the closing one. */
static int json_string_skip(struct split *split)
{
    size_t open = split->at++;

    while (split->at < split->text.size) {
        uint8_t c = split->text.data[split->at++];

        if (c == '"')
            return ONCE_OK;
        if (c == '\\' && split->at < split->text.size)
            split->at++;
    }
    return invalid(split, open,
                   "the JSON string that opens here is not closed; a quote is missing");
}

/* The brackets that are open stand on a stack in the scratch, behind the words: each of them is a
 * byte of the text that has been read. */
static int json_read(struct split *split, struct once_bytes *ret_word)
{
    size_t from = split->at;
    uint8_t *stack = split->scratch + split->used;
    size_t depth = 0;

    do {
        uint8_t c = split->text.data[split->at];

        if (c == '"') {
            int err = json_string_skip(split);

            if (err != ONCE_OK)
                return err;
            continue;
        }
        split->at++;
        if (c == '{' || c == '[') {
            ONCE_ASSERT(split->used + depth < split->at);
            stack[depth++] = c == '{' ? '}' : ']';
        } else if (c == '}' || c == ']') {
            if (stack[depth - 1] != c)
                return invalid(split, split->at - 1,
                               "this bracket does not close the one that is open; { goes with } "
                               "and [ with ]");
            depth--;
        }
    } while (depth > 0 && split->at < split->text.size);

    if (depth > 0)
        return invalid(split, from,
                       "the bracket that opens here is not closed; a word that begins with a "
                       "bracket is JSON, or stands in quotes");
    if (split->at < split->text.size && !is_blank(split->text.data[split->at]))
        return invalid(
            split, split->at,
            "a blank must follow the bracket that closes a word; to go on, put the whole "
            "word in quotes");
    *ret_word = (struct once_bytes){split->text.data + from, split->at - from};
    return ONCE_OK;
}

int once_do_split(struct once_bytes text, uint8_t *scratch, struct once_bytes *words,
                  size_t words_max, size_t *ret_count, struct once_defect *ret_defect)
{
    struct split split = {.text = text, .scratch = scratch, .ret_defect = ret_defect};
    size_t count = 0;

    if (!once__bytes_readable(text))
        return invalid(&split, 0, "the text is a null pointer with a size");
    if ((!scratch && text.size > 0) || (!words && words_max > 0) || !ret_count)
        return invalid(&split, 0, "there is no room for the words: a null pointer");
    for (;;) {
        uint8_t first;
        int err;

        while (split.at < text.size && is_blank(text.data[split.at]))
            split.at++;
        if (split.at == text.size)
            break;
        if (count == words_max)
            return once__defect(ONCE_ERR_FULL, split.at, "these are more words than there may be",
                                ret_defect);
        first = text.data[split.at];
        err = first == '{' || first == '[' ? json_read(&split, &words[count])
                                           : plain_read(&split, &words[count]);
        if (err != ONCE_OK)
            return err;
        count++;
    }
    *ret_count = count;
    return ONCE_OK;
}
