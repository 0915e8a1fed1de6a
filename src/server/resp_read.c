/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads RESP commands from bytes that anyone may have sent.
 *
 *     array   "*" count CR LF, then count times "$" size CR LF bytes CR LF
 *     inline  words up to LF; "…" with \n \r \t \b \a \xHH and \" inside, '…' with \' inside
 *
 * Invariants: offset never passes input_size; everything before it was understood and is not looked
 * at again; every argument lies inside of the input. Which answer an input gets does not depend on
 * how it was cut into pieces: a bound or a wrong byte is noticed at the same place either way.
 */
#include "server/resp_read.h"

#include <string.h>
#include <strings.h>

#include <once/limits.h>

#include "base/assert.h"

enum {
    DIGITS_MAX = 10 /* more than any bound has, and never an overflow */
};

enum step { STEP_DONE, STEP_INCOMPLETE, STEP_WRONG };

/* A whole number without leading zeros and the line's end; *ret_next is what follows. */
static enum step read_number(const uint8_t *input, size_t input_size, size_t at,
                             int64_t *ret_number, size_t *ret_next)
{
    bool negative = false;
    int64_t number = 0;
    size_t first;

    if (at < input_size && input[at] == '-') {
        negative = true;
        at++;
    }
    for (first = at; at < input_size && input[at] >= '0' && input[at] <= '9'; at++) {
        if (at - first == DIGITS_MAX)
            return STEP_WRONG;
        if (at > first && input[first] == '0')
            return STEP_WRONG;
        number = number * 10 + (input[at] - '0');
    }
    if (at == input_size)
        return STEP_INCOMPLETE;
    if (at == first || input[at] != '\r')
        return STEP_WRONG;
    at++;
    if (at == input_size)
        return STEP_INCOMPLETE;
    if (input[at] != '\n')
        return STEP_WRONG;
    *ret_number = negative ? -number : number;
    *ret_next = at + 1;
    return STEP_DONE;
}

/* "$" size CR LF. */
static enum step read_size(struct once__resp_reader *reader, const uint8_t *input,
                           size_t input_size, const struct once__resp_bounds *bounds,
                           const char **ret_what)
{
    enum step step;
    int64_t number;
    size_t next;

    if (reader->offset == input_size)
        return STEP_INCOMPLETE;
    if (input[reader->offset] != '$') {
        *ret_what = "expected '$' before an argument";
        return STEP_WRONG;
    }
    step = read_number(input, input_size, reader->offset + 1, &number, &next);
    if (step == STEP_INCOMPLETE)
        return STEP_INCOMPLETE;
    if (step == STEP_WRONG || number < 0) {
        *ret_what = "invalid bulk length";
        return STEP_WRONG;
    }
    if ((uint64_t)number > bounds->arg_size_max) {
        *ret_what = "an argument is too large";
        return STEP_WRONG;
    }
    if (next > bounds->size_max || (size_t)number + 2 > bounds->size_max - next) {
        *ret_what = "the command is too large";
        return STEP_WRONG;
    }
    reader->offset = next;
    reader->size = (size_t)number;
    reader->has_size = true;
    return STEP_DONE;
}

/* The bytes of an argument and CR LF. */
static enum step read_argument(struct once__resp_reader *reader, const uint8_t *input,
                               size_t input_size, const char **ret_what)
{
    size_t there = input_size - reader->offset;
    size_t end = reader->offset + reader->size;

    if (there > reader->size && input[end] != '\r')
        goto wrong;
    if (there < reader->size + 2)
        return STEP_INCOMPLETE;
    if (input[end + 1] != '\n')
        goto wrong;
    reader->args[reader->count++] = (struct once__resp_arg){.offset = (uint32_t)reader->offset,
                                                            .size = (uint32_t)reader->size};
    reader->offset = end + 2;
    reader->has_size = false;
    return STEP_DONE;
wrong:
    *ret_what = "an argument is longer than it says";
    return STEP_WRONG;
}

static enum once__resp_result read_array(struct once__resp_reader *reader, const uint8_t *input,
                                         size_t input_size, const struct once__resp_bounds *bounds,
                                         const char **ret_what)
{
    enum step step = STEP_DONE;

    if (!reader->in_array) {
        int64_t number = 0;
        size_t next = 0;

        step = read_number(input, input_size, 1, &number, &next);
        if (step == STEP_INCOMPLETE)
            return ONCE__RESP_INCOMPLETE;
        if (step == STEP_WRONG) {
            *ret_what = "invalid multibulk length";
            return ONCE__RESP_WRONG;
        }
        if (number > 0 && (uint64_t)number > bounds->arg_count_max) {
            *ret_what = "too many arguments";
            return ONCE__RESP_WRONG;
        }
        reader->offset = next;
        if (number <= 0)
            return ONCE__RESP_NOTHING;
        reader->wanted = (uint32_t)number;
        reader->in_array = true;
    }
    while (reader->count < reader->wanted) {
        if (!reader->has_size)
            step = read_size(reader, input, input_size, bounds, ret_what);
        if (step == STEP_DONE)
            step = read_argument(reader, input, input_size, ret_what);
        if (step != STEP_DONE)
            return step == STEP_WRONG ? ONCE__RESP_WRONG : ONCE__RESP_INCOMPLETE;
    }
    return ONCE__RESP_COMMAND;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* What stands after a backslash inside of "…", which begins at line[*at]. */
static uint8_t unescape(const uint8_t *line, size_t size, size_t *at)
{
    uint8_t c = line[*at];

    if (c == 'x' && size - *at > 2 && hex_digit(line[*at + 1]) >= 0 &&
        hex_digit(line[*at + 2]) >= 0) {
        c = (uint8_t)(hex_digit(line[*at + 1]) * 16 + hex_digit(line[*at + 2]));
        *at += 3;
        return c;
    }
    *at += 1;
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return c;
    }
}

/* Unquotes one word in place. *at is its beginning, and then what follows it. False: a quote is not
 * closed, or something other than a blank follows it. */
static bool read_word(uint8_t *line, size_t size, size_t *at, size_t *ret_size)
{
    size_t from = *at, to = *at, first = *at;
    uint8_t quote = 0;

    while (from < size && (quote != 0 || !is_blank(line[from]))) {
        uint8_t c = line[from];

        if (quote == '"' && c == '\\' && from + 1 < size) {
            from++;
            line[to++] = unescape(line, size, &from);
            continue;
        }
        from++;
        if (quote == '\'' && c == '\\' && from < size && line[from] == '\'') {
            line[to++] = '\'';
            from++;
        } else if (quote != 0 && c == quote) {
            if (from < size && !is_blank(line[from]))
                return false;
            quote = 0;
        } else if (quote == 0 && (c == '"' || c == '\'')) {
            quote = c;
        } else {
            line[to++] = c;
        }
    }
    if (quote != 0)
        return false;
    *at = from;
    *ret_size = to - first;
    return true;
}

/* A browser can be made to send a form to any port; none of its lines may become a command. */
static bool is_http(const uint8_t *word, size_t size)
{
    return (size == 4 && strncasecmp((const char *)word, "POST", 4) == 0) ||
           (size == 5 && strncasecmp((const char *)word, "Host:", 5) == 0);
}

static enum once__resp_result read_inline(struct once__resp_reader *reader, uint8_t *input,
                                          size_t input_size, const struct once__resp_bounds *bounds,
                                          const char **ret_what)
{
    size_t max = bounds->size_max < ONCE_INLINE_SIZE_MAX ? bounds->size_max : ONCE_INLINE_SIZE_MAX;
    size_t limit = input_size < max ? input_size : max, line_size, at = 0;
    const uint8_t *end = limit > reader->offset
                             ? memchr(input + reader->offset, '\n', limit - reader->offset)
                             : NULL;

    if (!end) {
        reader->offset = limit;
        if (limit < max)
            return ONCE__RESP_INCOMPLETE;
        *ret_what = "too big inline request";
        return ONCE__RESP_WRONG;
    }
    line_size = (size_t)(end - input);
    reader->offset = line_size + 1;
    for (;;) {
        size_t size = 0, first;

        while (at < line_size && is_blank(input[at]))
            at++;
        if (at == line_size)
            break;
        first = at;
        if (reader->count == bounds->arg_count_max) {
            *ret_what = "too many arguments";
            return ONCE__RESP_WRONG;
        }
        if (!read_word(input, line_size, &at, &size)) {
            *ret_what = "unbalanced quotes in request";
            return ONCE__RESP_WRONG;
        }
        if (reader->count == 0 && is_http(input + first, size)) {
            *ret_what = "this is not a place for HTTP";
            return ONCE__RESP_WRONG;
        }
        if (size > bounds->arg_size_max) {
            *ret_what = "an argument is too large";
            return ONCE__RESP_WRONG;
        }
        reader->args[reader->count++] = (struct once__resp_arg){.offset = (uint32_t)first,
                                                                .size = (uint32_t)size};
    }
    return reader->count > 0 ? ONCE__RESP_COMMAND : ONCE__RESP_NOTHING;
}

enum once__resp_result once__resp_read(struct once__resp_reader *reader, uint8_t *input,
                                       size_t input_size, const struct once__resp_bounds *bounds,
                                       const char **ret_what)
{
    ONCE_ASSERT(reader->offset <= input_size);
    ONCE_ASSERT(bounds->size_max <= UINT32_MAX);
    ONCE_ASSERT(bounds->arg_count_max <= UINT32_MAX);

    if (input_size == 0)
        return ONCE__RESP_INCOMPLETE;
    if (input[0] == '*')
        return read_array(reader, input, input_size, bounds, ret_what);
    return read_inline(reader, input, input_size, bounds, ret_what);
}

size_t once__resp_missing(const struct once__resp_reader *reader, size_t input_size)
{
    size_t end = reader->offset + reader->size + 2;

    return reader->has_size && end > input_size ? end - input_size : 0;
}
