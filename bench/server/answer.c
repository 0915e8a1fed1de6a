/* SPDX-License-Identifier: Apache-2.0
 *
 * See answer.h. Nothing is kept between calls: an answer that came in part is read again from its
 * beginning, which is right for answers of less than a hundred bytes.
 */
#include "answer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_MAX = 64 };

/* A line without its end. */
struct line {
    const char *text;
    size_t size;
};

struct reader {
    const char *at;
    const char *end;
    enum bench_answer wrong; /* when reading failed: PART or JUNK */
};

static bool read_line(struct reader *reader, struct line *ret_line)
{
    const char *end = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));

    if (!end) {
        reader->wrong = BENCH_ANSWER_PART;
        return false;
    }
    if (end - reader->at < 2 || end[-1] != '\r') {
        reader->wrong = BENCH_ANSWER_JUNK;
        return false;
    }
    *ret_line = (struct line){reader->at, (size_t)(end - reader->at) - 1};
    reader->at = end + 1;
    return true;
}

/* The number after the type of a line; it ends at '\r', which every line has. */
static bool number_of(struct reader *reader, struct line line, long min, long max, long *ret_number)
{
    char *end;
    long number = strtol(line.text + 1, &end, 10);

    if (line.size < 2 || end != line.text + line.size || number < min || number > max) {
        reader->wrong = BENCH_ANSWER_JUNK;
        return false;
    }
    *ret_number = number;
    return true;
}

/* An element of a verdict: a word, a number, or bytes that may be none. */
static bool skip_element(struct reader *reader)
{
    struct line line;
    long size;

    if (!read_line(reader, &line))
        return false;
    if (*line.text == '+' || *line.text == ':' || *line.text == '_')
        return true;
    if (*line.text != '$') {
        reader->wrong = BENCH_ANSWER_JUNK;
        return false;
    }
    if (!number_of(reader, line, -1, 1 << 20, &size))
        return false;
    if (size < 0)
        return true;
    if (reader->end - reader->at < size + 2) {
        reader->wrong = BENCH_ANSWER_PART;
        return false;
    }
    reader->at += size + 2;
    return true;
}

static bool is_word(struct line line, const char *word)
{
    return line.size == strlen(word) && memcmp(line.text, word, line.size) == 0;
}

/* An array whose first element says what became of it. */
static enum bench_answer read_verdict(struct reader *reader, struct line head)
{
    struct line word;
    long count;

    if (!number_of(reader, head, 1, ELEMENTS_MAX, &count) || !read_line(reader, &word))
        return reader->wrong;
    if (*word.text != '+')
        return BENCH_ANSWER_JUNK;
    for (long i = 1; i < count; i++) {
        if (!skip_element(reader))
            return reader->wrong;
    }
    if (is_word(word, "+TOO_OLD") || is_word(word, "+MISMATCH"))
        return BENCH_ANSWER_JUNK; /* no key of a benchmark is */
    return is_word(word, "+EXECUTE") ? BENCH_ANSWER_NEW : BENCH_ANSWER_KNOWN;
}

enum bench_answer bench_answer_read(const char *data, size_t size, size_t *ret_size)
{
    struct reader reader = {data, data + size, BENCH_ANSWER_JUNK};
    enum bench_answer answer = BENCH_ANSWER_JUNK;
    struct line line;

    if (!read_line(&reader, &line))
        return reader.wrong;
    if (*line.text == '*')
        answer = read_verdict(&reader, line);
    else if (is_word(line, "+OK"))
        answer = BENCH_ANSWER_NEW;
    else if (is_word(line, "$-1") || is_word(line, "_"))
        answer = BENCH_ANSWER_KNOWN;
    else if (*line.text == '-')
        answer = BENCH_ANSWER_ERROR;
    if (answer != BENCH_ANSWER_PART && answer != BENCH_ANSWER_JUNK)
        *ret_size = (size_t)(reader.at - data);
    return answer;
}
