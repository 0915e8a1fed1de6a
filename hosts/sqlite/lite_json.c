/* SPDX-License-Identifier: Apache-2.0
 *
 * Mergeable states between JSON, which SQL people write, and the encoding of src/lattice, which
 * merges.
 *
 * JSON is made canonical first (RFC 8785, by the core), so that what is read here has no spaces, no
 * name twice, and one form for each value. What is not in the shape of its type is refused.
 */
#include "lite_merge.h"

#include <string.h>

#include <once/fingerprint.h>
#include <once/lattice.h>
#include <once/limits.h>

#include "base/defect.h"
#include "core/json_canon.h"
#include "object/view_text.h"

#define CANONICAL_SIZE_MAX ((size_t)ONCE_JSON_SIZE_MAX * ONCE__JSON_CANON_GROWTH_MAX)

/* A canonical text being read; strings are kept in `strings`, which never moves. */
struct reader {
    struct once_buf text;
    struct once_buf strings;
    size_t at;
};

static int reader_init(struct reader *reader, struct once_bytes json,
                       struct once_defect *ret_defect)
{
    int err;

    reader->at = 0;
    once_buf_init(&reader->text, CANONICAL_SIZE_MAX);
    once_buf_init(&reader->strings, CANONICAL_SIZE_MAX);
    ret_defect->what = NULL;
    if (json.size > ONCE_MERGEABLE_SIZE_MAX)
        return once__defect(ONCE_ERR_FULL, 0, "the state is larger than 1 MiB", ret_defect);
    err = once_json_canonical(json, ONCE_JSON_EXACT, &reader->text, ret_defect);
    return err != ONCE_OK ? err : once_buf_reserve(&reader->strings, reader->text.size);
}

static void reader_release(struct reader *reader)
{
    once_buf_release(&reader->text);
    once_buf_release(&reader->strings);
}

static bool eat(struct reader *reader, char c)
{
    if (reader->at >= reader->text.size || reader->text.data[reader->at] != (uint8_t)c)
        return false;
    reader->at++;
    return true;
}

static bool at_end(const struct reader *reader)
{
    return reader->at == reader->text.size;
}

static uint8_t hex_value(uint8_t digit)
{
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

/* The character behind a backslash at reader->at; canonical JSON has \u only below 0x20. */
static uint8_t escaped(struct reader *reader)
{
    static const char letters[] = "bfnrt", values[] = "\b\f\n\r\t";
    const uint8_t *text = reader->text.data + reader->at;
    const char *letter = strchr(letters, text[0]);

    reader->at++;
    if (letter)
        return (uint8_t)values[letter - letters];
    if (text[0] != 'u')
        return text[0];
    reader->at += 4;
    return (uint8_t)(hex_value(text[3]) << 4 | hex_value(text[4]));
}

/* The text was checked: a string has its end. There is room for all of them. */
static bool read_string(struct reader *reader, struct once_bytes *ret_string)
{
    uint8_t *from = reader->strings.data + reader->strings.size, *to = from;

    if (!eat(reader, '"'))
        return false;
    while (!eat(reader, '"')) {
        if (eat(reader, '\\'))
            *to++ = escaped(reader);
        else
            *to++ = reader->text.data[reader->at++];
    }
    *ret_string = (struct once_bytes){from, (size_t)(to - from)};
    reader->strings.size += (size_t)(to - from);
    return true;
}

/* A whole number that every reader of JSON keeps. */
static bool read_number(struct reader *reader, int64_t *ret_number)
{
    bool minus = eat(reader, '-');
    uint64_t number = 0;
    size_t from = reader->at;

    while (!at_end(reader) && reader->text.data[reader->at] >= '0' &&
           reader->text.data[reader->at] <= '9' && number <= ONCE_VERSION_MAX)
        number = number * 10 + (uint64_t)(reader->text.data[reader->at++] - '0');
    if (reader->at == from || number > ONCE_VERSION_MAX ||
        (!at_end(reader) && strchr(".eE0123456789", reader->text.data[reader->at])))
        return false;
    *ret_number = minus ? -(int64_t)number : (int64_t)number;
    return true;
}

/* Any value, as its text. */
static struct once_bytes read_value(struct reader *reader)
{
    const uint8_t *text = reader->text.data;
    size_t from = reader->at, depth = 0;
    bool quoted = false;

    for (; !at_end(reader); reader->at++) {
        uint8_t c = text[reader->at];

        if (quoted) {
            if (c == '\\')
                reader->at++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
            break;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return (struct once_bytes){text + from, reader->at - from};
}

/* ---- Unions ---------------------------------------------------------------------------------- */

int once__lite_read_union(struct once_bytes json, struct once_buf *out,
                          struct once_defect *ret_defect)
{
    struct once_buf members;
    struct reader reader;
    int err = reader_init(&reader, json, ret_defect);
    bool shaped = false;

    once_buf_init(&members, ONCE_LITE_ANSWER_SIZE_MAX);
    if (err == ONCE_OK && eat(&reader, '[')) {
        struct once_bytes member;

        shaped = eat(&reader, ']');
        while (err == ONCE_OK && !shaped && read_string(&reader, &member)) {
            err = once_buf_append(&members, &member, sizeof member);
            shaped = eat(&reader, ']');
            if (!shaped && !eat(&reader, ','))
                break;
        }
    }
    if (err == ONCE_OK && !shaped)
        err = once__defect(ONCE_ERR_INVALID, 0, "the state is not an array of strings", ret_defect);
    if (err == ONCE_OK)
        err = once_gset_add_all((const struct once_bytes *)(const void *)members.data,
                                members.size / sizeof(struct once_bytes), out);
    once_buf_release(&members);
    reader_release(&reader);
    return err;
}

int once__lite_write_union(struct once_bytes state, struct once_buf *out)
{
    struct once__view view = {.out = out, .err = ONCE_OK};
    struct once_lattice_entry entry;
    struct once_lattice_iter iter;
    int err = once_lattice_iter_init(&iter, state);
    const char *before = "[";

    while (err >= 0 && (err = once_lattice_iter_next(&iter, &entry)) > 0) {
        once__view_text(&view, before);
        once__view_string(&view, entry.key);
        before = ",";
    }
    once__view_text(&view, before[0] == '[' ? "[]" : "]");
    return err < 0 ? err : view.err;
}

/* ---- Numbers of nodes ------------------------------------------------------------------------ */

struct count {
    struct once_bytes node;
    int64_t number;
};

static int count_state(const struct count *count, bool counter, struct once_buf *out)
{
    struct once_buf bottom;
    int err;

    if (!counter)
        return once_vv_set(count->node, (uint64_t)count->number, out);
    once_buf_init(&bottom, ONCE_MERGEABLE_SIZE_MAX);
    err = once_lattice_bottom(ONCE_LATTICE_GCOUNTER, &bottom);
    if (err == ONCE_OK)
        err = once_gcounter_add(once_buf_bytes(&bottom), count->node, (uint64_t)count->number, out);
    once_buf_release(&bottom);
    return err;
}

/* In halves: one after the other would copy the whole state for each node. */
static int merge_counts(const struct count *counts, size_t count, bool counter,
                        struct once_buf *out)
{
    struct once_buf left, right;
    int err;

    if (count == 0)
        return once_lattice_bottom(counter ? ONCE_LATTICE_GCOUNTER : ONCE_LATTICE_VV, out);
    if (count == 1)
        return count_state(counts, counter, out);
    once_buf_init(&left, ONCE_LITE_ANSWER_SIZE_MAX);
    once_buf_init(&right, ONCE_LITE_ANSWER_SIZE_MAX);
    err = merge_counts(counts, count / 2, counter, &left);
    if (err == ONCE_OK)
        err = merge_counts(counts + count / 2, count - count / 2, counter, &right);
    if (err == ONCE_OK)
        err = once_lattice_merge(once_buf_bytes(&left), once_buf_bytes(&right), out);
    once_buf_release(&left);
    once_buf_release(&right);
    return err;
}

/* Each node and its number. False: it is of another shape. */
static bool read_nodes(struct reader *reader, struct once_buf *counts, int *ret_err)
{
    struct count count;

    if (!eat(reader, '{'))
        return false;
    if (eat(reader, '}'))
        return true;
    while (read_string(reader, &count.node) && eat(reader, ':') &&
           read_number(reader, &count.number) && count.number >= 0) {
        *ret_err = once_buf_append(counts, &count, sizeof count);
        if (*ret_err != ONCE_OK || eat(reader, '}'))
            return true;
        if (!eat(reader, ','))
            return false;
    }
    return false;
}

int once__lite_read_counts(struct once_bytes json, bool counter, struct once_buf *out,
                           struct once_defect *ret_defect)
{
    struct once_buf counts;
    struct reader reader;
    int err = reader_init(&reader, json, ret_defect);

    once_buf_init(&counts, ONCE_LITE_ANSWER_SIZE_MAX);
    if (err == ONCE_OK && !read_nodes(&reader, &counts, &err))
        err = once__defect(ONCE_ERR_INVALID, 0,
                           "the state is not an object of nodes and whole numbers from 0 to "
                           "9007199254740991",
                           ret_defect);
    if (err == ONCE_OK) {
        ret_defect->what = "a node's name has 1 to 64 bytes";
        err = merge_counts((const struct count *)(const void *)counts.data,
                           counts.size / sizeof(struct count), counter, out);
    }
    once_buf_release(&counts);
    reader_release(&reader);
    return err;
}

int once__lite_write_counts(struct once_bytes state, struct once_buf *out)
{
    struct once__view view = {.out = out, .err = ONCE_OK};
    struct once_lattice_entry entry;
    struct once_lattice_iter iter;
    int err = once_lattice_iter_init(&iter, state);
    const char *before = "{";

    while (err >= 0 && (err = once_lattice_iter_next(&iter, &entry)) > 0) {
        if (entry.number > ONCE_VERSION_MAX)
            return ONCE_ERR_OVERFLOW; /* it could not be read again */
        once__view_text(&view, before);
        once__view_string(&view, entry.key);
        once__view_text(&view, ":");
        once__view_number(&view, entry.number);
        before = ",";
    }
    once__view_text(&view, before[0] == '{' ? "{}" : "}");
    return err < 0 ? err : view.err;
}

/* ---- Registers ------------------------------------------------------------------------------- */

static bool eat_name(struct reader *reader, const char *name)
{
    size_t size = strlen(name);

    if (reader->text.size - reader->at < size ||
        memcmp(reader->text.data + reader->at, name, size) != 0)
        return false;
    reader->at += size;
    return true;
}

/* Canonical JSON has its members in order: node, time, value. */
int once__lite_read_lww(struct once_bytes json, struct once_buf *out,
                        struct once_defect *ret_defect)
{
    struct once_lww write = {.time = 0};
    struct reader reader;
    int err = reader_init(&reader, json, ret_defect);

    if (err == ONCE_OK) {
        bool shaped = eat_name(&reader, "{\"node\":") && read_string(&reader, &write.node) &&
                      eat_name(&reader, ",\"time\":") && read_number(&reader, &write.time) &&
                      eat_name(&reader, ",\"value\":");

        if (shaped)
            write.value = read_value(&reader);
        if (!shaped || !eat(&reader, '}') || !at_end(&reader))
            err = once__defect(ONCE_ERR_INVALID, 0,
                               "the state is not {\"time\":n,\"node\":\"name\",\"value\":…}",
                               ret_defect);
    }
    if (err == ONCE_OK) {
        ret_defect->what = "a node's name has 1 to 64 bytes, a value at most 65536";
        err = once_lww_write(&write, out);
    }
    reader_release(&reader);
    return err;
}

int once__lite_write_lww(struct once_bytes state, struct once_buf *out)
{
    struct once__view view = {.out = out, .err = ONCE_OK};
    struct once_lww write;
    bool written;
    int err = once_lww_value(state, &written, &write);

    if (err != ONCE_OK || !written)
        return err;
    once__view_text(&view, "{\"time\":");
    once__view_signed(&view, write.time);
    once__view_field(&view, "node");
    once__view_string(&view, write.node);
    once__view_field(&view, "value");
    if (view.err == ONCE_OK)
        view.err = once_buf_append(out, write.value.data, write.value.size);
    once__view_text(&view, "}");
    return view.err;
}
