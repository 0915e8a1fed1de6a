/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON strings in their RFC 8785 form: every character as itself in UTF-8, except the quote, the
 * backslash and the controls, which have one escape each. Two strings are equal exactly when these
 * forms are.
 *
 * Strict: only well-formed UTF-8, only the escapes of RFC 8259, surrogates only in pairs.
 * Noncharacters such as U+FFFF pass: they have one canonical form like any other character.
 */
#include "core/json_string.h"

#include "base/assert.h"
#include "base/defect.h"

#include <stdbool.h>
#include <string.h>

enum {
    ESCAPE_UNICODE_SIZE = 6, /* \u0000 */
    HIGH_FIRST = 0xd800,     /* high surrogates, then low ones */
    LOW_FIRST = 0xdc00,
    LOW_LAST = 0xdfff
};

static bool is_continuation(struct once_bytes json, size_t offset)
{
    return offset < json.size && (json.data[offset] & 0xc0) == 0x80;
}

/* The well-formed UTF-8 character at offset: its size, or 0 when there is none. */
static size_t utf8_read(struct once_bytes json, size_t offset, uint32_t *ret_character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t lead = json.data[offset];
    uint32_t character;
    size_t size;

    if (lead < 0x80) {
        *ret_character = lead;
        return 1;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        size = 2;
        character = lead & 0x1fU;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        size = 3;
        character = lead & 0x0fU;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        size = 4;
        character = lead & 0x07U;
    } else {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if (!is_continuation(json, offset + i))
            return 0;
        character = character << 6 | (json.data[offset + i] & 0x3fU);
    }
    if (character < least[size] || character > 0x10ffff ||
        (character >= HIGH_FIRST && character <= LOW_LAST))
        return 0;
    *ret_character = character;
    return size;
}

static size_t utf8_write(uint32_t character, uint8_t ret_text[4])
{
    if (character < 0x80) {
        ret_text[0] = (uint8_t)character;
        return 1;
    }
    if (character < 0x800) {
        ret_text[0] = (uint8_t)(0xc0 | character >> 6);
        ret_text[1] = (uint8_t)(0x80 | (character & 0x3f));
        return 2;
    }
    if (character < 0x10000) {
        ret_text[0] = (uint8_t)(0xe0 | character >> 12);
        ret_text[1] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
        ret_text[2] = (uint8_t)(0x80 | (character & 0x3f));
        return 3;
    }
    ret_text[0] = (uint8_t)(0xf0 | character >> 18);
    ret_text[1] = (uint8_t)(0x80 | (character >> 12 & 0x3f));
    ret_text[2] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
    ret_text[3] = (uint8_t)(0x80 | (character & 0x3f));
    return 4;
}

/* The letter of a two-character escape, or 0. */
static char short_escape(uint32_t character)
{
    switch (character) {
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    case '"':
        return '"';
    case '\\':
        return '\\';
    default:
        return 0;
    }
}

/* Appends a character that came as an escape. */
static int append_character(struct once_buf *out, uint32_t character)
{
    static const char digits[] = "0123456789abcdef";
    char letter = short_escape(character);
    uint8_t text[ESCAPE_UNICODE_SIZE] = {'\\'};

    if (letter != 0) {
        text[1] = (uint8_t)letter;
        return once_buf_append(out, text, 2);
    }
    if (character < 0x20) {
        memcpy(text + 1, "u00", 3);
        text[4] = (uint8_t)digits[character >> 4];
        text[5] = (uint8_t)digits[character & 0x0f];
        return once_buf_append(out, text, sizeof(text));
    }
    return once_buf_append(out, text, utf8_write(character, text));
}

/* The four hex digits at offset, or -1. */
static int32_t read_hex(struct once_bytes json, size_t offset)
{
    int32_t value = 0;

    if (json.size < 4 || offset > json.size - 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        uint8_t digit = json.data[offset + i];

        if (digit >= '0' && digit <= '9')
            value = value << 4 | (digit - '0');
        else if (digit >= 'a' && digit <= 'f')
            value = value << 4 | (digit - 'a' + 10);
        else if (digit >= 'A' && digit <= 'F')
            value = value << 4 | (digit - 'A' + 10);
        else
            return -1;
    }
    return value;
}

/* \uXXXX, or two of them that are a surrogate pair; *offset is at the backslash. */
static int read_unicode_escape(struct once_bytes json, size_t *offset, uint32_t *ret_character,
                               struct once_defect *ret_defect)
{
    size_t low_offset = *offset + ESCAPE_UNICODE_SIZE;
    int32_t unit = read_hex(json, *offset + 2);
    int32_t low = -1;

    if (unit < 0)
        return once__defect(ONCE_ERR_JSON, *offset, "four hex digits must follow \\u", ret_defect);
    if (unit < HIGH_FIRST || unit > LOW_LAST) {
        *offset += ESCAPE_UNICODE_SIZE;
        *ret_character = (uint32_t)unit;
        return ONCE_OK;
    }
    if (unit < LOW_FIRST && low_offset + 1 < json.size && json.data[low_offset] == '\\' &&
        json.data[low_offset + 1] == 'u')
        low = read_hex(json, low_offset + 2);
    if (low < LOW_FIRST || low > LOW_LAST)
        return once__defect(ONCE_ERR_JSON, *offset, "half of a surrogate pair stands alone",
                            ret_defect);
    *offset = low_offset + ESCAPE_UNICODE_SIZE;
    *ret_character = 0x10000U + ((uint32_t)(unit - HIGH_FIRST) << 10 | (uint32_t)(low - LOW_FIRST));
    return ONCE_OK;
}

/* *offset is at the backslash. */
static int read_escape(struct once_bytes json, size_t *offset, uint32_t *ret_character,
                       struct once_defect *ret_defect)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    uint8_t letter;
    const char *found;

    if (*offset + 1 >= json.size)
        return once__defect(ONCE_ERR_JSON, json.size, "the string's closing quote is missing",
                            ret_defect);
    letter = json.data[*offset + 1];
    if (letter == 'u')
        return read_unicode_escape(json, offset, ret_character, ret_defect);
    found = memchr(letters, letter, sizeof(letters) - 1);
    if (!found)
        return once__defect(ONCE_ERR_JSON, *offset, "JSON has no such escape", ret_defect);
    *ret_character = (uint8_t)meanings[found - letters];
    *offset += 2;
    return ONCE_OK;
}

/* Where the run of characters that stay as they are ends: at a quote, a backslash, a control
 * character, a byte that is not UTF-8, or the end. */
static size_t plain_end(struct once_bytes json, size_t offset)
{
    while (offset < json.size) {
        uint8_t byte = json.data[offset];
        uint32_t character;
        size_t size;

        if (byte == '"' || byte == '\\' || byte < 0x20)
            break;
        size = utf8_read(json, offset, &character);
        if (size == 0)
            break;
        offset += size;
    }
    return offset;
}

int once__json_string(struct once_bytes json, size_t *offset, struct once_buf *out,
                      struct once_defect *ret_defect)
{
    size_t start = *offset;
    int err;

    ONCE_ASSERT(start < json.size && json.data[start] == '"');
    for (size_t next = start + 1;;) {
        size_t end = plain_end(json, next);
        uint32_t character;

        /* The opening quote goes out with the first run, the closing one with the last. */
        bool closed = end < json.size && json.data[end] == '"';

        err = once_buf_append(out, json.data + start, end + closed - start);
        if (err != ONCE_OK)
            return once__defect(err, end, once_err_text(err), ret_defect);
        if (closed) {
            *offset = end + 1;
            return ONCE_OK;
        }
        if (end == json.size)
            return once__defect(ONCE_ERR_JSON, end, "the string's closing quote is missing",
                                ret_defect);
        if (json.data[end] < 0x20)
            return once__defect(ONCE_ERR_JSON, end,
                                "a control character in a string must be escaped", ret_defect);
        if (json.data[end] != '\\')
            return once__defect(ONCE_ERR_JSON, end, "the bytes are not UTF-8", ret_defect);
        err = read_escape(json, &end, &character, ret_defect);
        if (err != ONCE_OK)
            return err;
        err = append_character(out, character);
        if (err != ONCE_OK)
            return once__defect(err, end, once_err_text(err), ret_defect);
        start = next = end;
    }
}

/* The character at *offset of a canonical form, as a number that sorts as its UTF-16 code units do:
 * those beyond U+FFFF begin with a surrogate, which is less than U+E000. */
static uint32_t next_rank(struct once_bytes name, size_t *offset)
{
    struct once_defect defect;
    uint32_t character = 0;
    size_t size;

    if (name.data[*offset] == '\\') {
        int err = read_escape(name, offset, &character, &defect);

        ONCE_ASSERT(err == ONCE_OK);
    } else {
        size = utf8_read(name, *offset, &character);
        ONCE_ASSERT(size > 0);
        *offset += size;
    }
    if (character >= 0x10000)
        return HIGH_FIRST + (character - 0x10000);
    return character < HIGH_FIRST ? character : character + 0x100000;
}

/* How many bytes at offset can be skipped eight at a time: equal, ASCII, no escape among them.
 * Names that share a long prefix are then compared at the speed of memory. */
static size_t common_plain(struct once_bytes a, struct once_bytes b, size_t offset)
{
    size_t size = a.size < b.size ? a.size : b.size;
    size_t start = offset;

    for (; size - offset >= 8; offset += 8) {
        uint64_t a_word, b_word;

        memcpy(&a_word, a.data + offset, 8);
        memcpy(&b_word, b.data + offset, 8);
        if (a_word != b_word || (a_word & 0x8080808080808080ULL) != 0 ||
            memchr(a.data + offset, '\\', 8) != NULL)
            break;
    }
    return offset - start;
}

int once__json_name_compare(struct once_bytes a, struct once_bytes b)
{
    size_t a_offset = 0, b_offset = 0;

    for (;;) {
        uint32_t a_rank, b_rank;

        /* As long as nothing differs, both offsets are the same. */
        ONCE_ASSERT(a_offset == b_offset);
        a_offset = b_offset += common_plain(a, b, a_offset);
        if (a_offset == a.size || b_offset == b.size)
            return (a_offset < a.size) - (b_offset < b.size);
        a_rank = next_rank(a, &a_offset);
        b_rank = next_rank(b, &b_offset);
        if (a_rank != b_rank)
            return a_rank < b_rank ? -1 : 1;
    }
}
