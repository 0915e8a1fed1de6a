/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the Idempotency-Key header. Pure: no allocation, no copy until the whole value is right.
 *
 *     value   = OWS ( string / bare ) OWS              OWS: spaces and tabs
 *     string  = '"' *( 0x20..0x7e without '"' and '\' / '\"' / '\\' ) '"'        RFC 9651, 3.3.3
 *     bare    = 1*( 0x21..0x7e without '"' '\' ',' ';' )
 *
 * Both forms of one key give the same key. The bare form leaves out the characters that a
 * structured-field reader elsewhere on the way would read differently. Two things are refused on
 * purpose:
 *   - parameters ("abc";v=1): ignoring them would make two different values one key;
 *   - a comma after the key: that is how intermediaries join a header that was sent twice, and to
 *     choose one of two keys would be to guess.
 * The leftmost defect is the one that is told.
 */
#include "core/key_rules.h"

#include "base/assert.h"
#include "base/defect.h"

#include <stdbool.h>

/* Where the reader stands, and the key as far as it was read. */
struct reader {
    struct once_bytes header;
    size_t offset;
    struct once_key key;
    struct once_defect *ret_defect;
};

static int refuse(struct reader *reader, int err, size_t offset, const char *what)
{
    ONCE_ASSERT(offset <= reader->header.size);
    return once__defect(err, offset, what, reader->ret_defect);
}

static bool at_end(const struct reader *reader)
{
    return reader->offset == reader->header.size;
}

static uint8_t current(const struct reader *reader)
{
    ONCE_ASSERT(reader->offset < reader->header.size);
    return reader->header.data[reader->offset];
}

static void skip_blanks(struct reader *reader)
{
    while (!at_end(reader) && (current(reader) == ' ' || current(reader) == '\t'))
        reader->offset++;
}

/* Takes one decoded character that began at offset. */
static int take(struct reader *reader, uint8_t character, size_t offset)
{
    if (reader->key.size == ONCE_KEY_SIZE_MAX)
        return refuse(reader, ONCE_ERR_KEY_TOO_LONG, offset, "a key has at most 255 characters");
    reader->key.text[reader->key.size++] = (char)character;
    return ONCE_OK;
}

/* After a backslash. */
static int read_escape(struct reader *reader)
{
    size_t backslash = reader->offset++;
    uint8_t character;

    if (at_end(reader))
        return refuse(reader, ONCE_ERR_KEY_UNTERMINATED, reader->offset,
                      "the closing quote is missing");
    character = current(reader);
    if (character != '"' && character != '\\')
        return refuse(reader, ONCE_ERR_KEY_ESCAPE, backslash,
                      "a backslash may only stand before a quote or a backslash");
    reader->offset++;
    return take(reader, character, backslash);
}

static int read_string(struct reader *reader)
{
    reader->offset++;
    while (!at_end(reader) && current(reader) != '"') {
        const char *what = once__key_character_defect(current(reader));
        int err;

        if (what)
            return refuse(reader, ONCE_ERR_KEY_CHARACTER, reader->offset, what);
        if (current(reader) == '\\') {
            err = read_escape(reader);
        } else {
            err = take(reader, current(reader), reader->offset);
            reader->offset++;
        }
        if (err != ONCE_OK)
            return err;
    }
    if (at_end(reader))
        return refuse(reader, ONCE_ERR_KEY_UNTERMINATED, reader->offset,
                      "the closing quote is missing");
    if (reader->key.size == 0)
        return refuse(reader, ONCE_ERR_KEY_EMPTY, reader->offset, "there is nothing in the quotes");
    reader->offset++;
    return ONCE_OK;
}

/* Stops before a blank, a comma or a semicolon: read_end says what is wrong with what follows. */
static int read_bare(struct reader *reader)
{
    for (; !at_end(reader); reader->offset++) {
        uint8_t character = current(reader);
        const char *what;
        int err;

        if (character == ' ' || character == '\t' || character == ',' || character == ';')
            break;
        what = once__key_character_defect(character);
        if (character == '"' || character == '\\')
            what = "a key with a quote or a backslash in it must be sent in quotes";
        if (what)
            return refuse(reader, ONCE_ERR_KEY_CHARACTER, reader->offset, what);
        err = take(reader, character, reader->offset);
        if (err != ONCE_OK)
            return err;
    }
    if (reader->key.size == 0)
        return refuse(reader, ONCE_ERR_KEY_EMPTY, reader->offset,
                      at_end(reader) ? "the header is empty" : "there is no key before this");
    return ONCE_OK;
}

static int read_end(struct reader *reader, bool quoted)
{
    size_t key_end = reader->offset;

    skip_blanks(reader);
    if (at_end(reader))
        return ONCE_OK;
    switch (current(reader)) {
    case ',':
        return refuse(reader, ONCE_ERR_KEY_TRAILING, reader->offset,
                      "a second key follows: send the header once, with one key");
    case ';':
        return refuse(reader, ONCE_ERR_KEY_TRAILING, reader->offset,
                      "parameters after the key are not accepted");
    default:
        break;
    }
    if (quoted)
        return refuse(reader, ONCE_ERR_KEY_TRAILING, reader->offset,
                      "something follows the closing quote");
    return refuse(reader, ONCE_ERR_KEY_CHARACTER, key_end,
                  "a key with white space in it must be sent in quotes");
}

int once_key_parse_header(struct once_bytes header, struct once_key *ret_key,
                          struct once_defect *ret_defect)
{
    struct reader reader = {.header = header, .ret_defect = ret_defect};
    bool quoted;
    int err;

    if (!ret_key || (!header.data && header.size > 0))
        return once__defect(ONCE_ERR_INVALID, 0, "a null pointer", ret_defect);
    skip_blanks(&reader);
    quoted = !at_end(&reader) && current(&reader) == '"';
    err = quoted ? read_string(&reader) : read_bare(&reader);
    if (err == ONCE_OK)
        err = read_end(&reader, quoted);
    if (err == ONCE_OK)
        *ret_key = reader.key;
    return err;
}
