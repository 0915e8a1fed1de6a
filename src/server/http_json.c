/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading JSON bodies and queries against a table of fields. See http_json.h.
 *
 * What a body costs is bounded before it is parsed: its bytes by the host, its values here, since
 * a parsed value takes many times the two bytes that "0," takes.
 */
#include "server/http_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "object/view_text.h"

/* Words of all effects, and a few for the rest. */
enum { JSON_VALUES_MAX = ONCE_EFFECTS_MAX * ONCE_EFFECT_WORDS_MAX + 4096, NUMBER_SIZE = 24 };

struct once__http_memory {
    struct once__http_memory *next;
    uint8_t bytes[];
};

/* text becomes "field: text". */
static void defect_set(struct once__http_defect *defect, struct once_bytes field, const char *text)
{
    size_t size = field.size < sizeof defect->field ? field.size : sizeof defect->field - 1;
    size_t used = 0;

    /* Not in the middle of a character. */
    while (size > 0 && size < field.size && (field.data[size] & 0xc0) == 0x80)
        size--;
    if (size > 0) {
        for (size_t i = 0; i < size; i++) /* the name may be anything, and ends no text */
            defect->field[i] = field.data[i] < ' ' || field.data[i] == 0x7f ? '?'
                                                                            : (char)field.data[i];
        memcpy(defect->text, defect->field, size);
        memcpy(defect->text + size, ": ", 2);
        used = size + 2;
    }
    defect->field[size] = '\0';
    size = strnlen(text, sizeof defect->text - used - 1);
    memcpy(defect->text + used, text, size);
    defect->text[used + size] = '\0';
}

__attribute__((format(printf, 3, 4))) static int refuse(struct once__http_defect *defect,
                                                        const char *field, const char *format, ...)
{
    char text[ONCE__HTTP_DEFECT_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    defect_set(defect, once_bytes_of(field), text);
    return ONCE_ERR_INVALID;
}

static uint8_t *keep(struct once__http_said *said, size_t size)
{
    struct once__http_memory *memory = malloc(sizeof *memory + size);

    if (!memory)
        return NULL;
    memory->next = said->memory;
    said->memory = memory;
    return memory->bytes;
}

/* ---- Encodings ------------------------------------------------------------------------------- */

static int base64_digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

bool once__base64_decode(struct once_bytes text, uint8_t *out, size_t *ret_size)
{
    size_t size = 0;

    if (text.size % 4 != 0)
        return false;
    for (size_t i = 0; i < text.size; i += 4) {
        const uint8_t *c = text.data + i;
        bool last = i + 4 == text.size;
        unsigned pad = last && c[3] == '=' ? (c[2] == '=' ? 2 : 1) : 0;
        uint32_t group = 0;

        for (unsigned digit = 0; digit < 4; digit++) {
            int value = digit >= 4 - pad ? 0 : base64_digit(c[digit]);

            if (value < 0)
                return false;
            group = group << 6 | (uint32_t)value;
        }
        /* Bits that no byte has: the same bytes would have a second text. */
        if ((pad == 1 && (group & 0xff) != 0) || (pad == 2 && (group & 0xffff) != 0))
            return false;
        out[size++] = (uint8_t)(group >> 16);
        if (pad < 2)
            out[size++] = (uint8_t)(group >> 8);
        if (pad < 1)
            out[size++] = (uint8_t)group;
    }
    *ret_size = size;
    return true;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool once__percent_decode(struct once_bytes text, uint8_t *out, size_t *ret_size)
{
    size_t size = 0;

    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];

        if (c == '%') {
            int high = i + 2 < text.size ? hex_digit(text.data[i + 1]) : -1;
            int low = i + 2 < text.size ? hex_digit(text.data[i + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = (uint8_t)(high << 4 | low);
            i += 2;
        }
        out[size++] = c;
    }
    *ret_size = size;
    return true;
}

static bool number_read(struct once_bytes text, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (text.size == 0 || text.size > 20)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t digit = (uint8_t)(text.data[i] - '0');

        if (digit > 9 || __builtin_mul_overflow(number, 10U, &number) ||
            __builtin_add_overflow(number, digit, &number))
            return false;
    }
    *ret_number = number;
    return number <= max;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a number";
    case JSON_REAL:
        return "a number with a fraction or an exponent";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

static struct once_bytes string_bytes(const json_t *value)
{
    return (struct once_bytes){.data = (const uint8_t *)json_string_value(value),
                               .size = json_string_length(value)};
}

static int put_base64(struct once__http_said *said, struct once_bytes text, const char *name,
                      struct once_bytes *ret_bytes, struct once__http_defect *defect)
{
    uint8_t *out = keep(said, text.size / 4 * 3);
    size_t size;

    if (!out)
        return ONCE_ERR_MEMORY;
    if (!once__base64_decode(text, out, &size))
        return refuse(defect, name, "is not base64 (RFC 4648, with padding)");
    *ret_bytes = (struct once_bytes){.data = out, .size = size};
    return ONCE_OK;
}

static int check_size(const struct once__http_field *field, struct once_bytes bytes,
                      struct once__http_defect *defect)
{
    if (field->max > 0 && bytes.size > (uint64_t)field->max)
        return refuse(defect, field->name, "has %zu bytes, and at most %" PRId64 " are allowed",
                      bytes.size, field->max);
    return ONCE_OK;
}

static int read_word(const struct once__http_field *field, struct once_bytes text,
                     struct once__http_value *value, struct once__http_defect *defect)
{
    char all[ONCE__HTTP_DEFECT_SIZE] = "";
    size_t size = 0;

    for (size_t i = 0; field->words[i]; i++) {
        if (once__bytes_equal(text, once_bytes_of(field->words[i]))) {
            value->number = (int64_t)i;
            return ONCE_OK;
        }
        if (size < sizeof all)
            size += (size_t)snprintf(all + size, sizeof all - size, "%s\"%s\"", i == 0 ? "" : ", ",
                                     field->words[i]);
    }
    return refuse(defect, field->name, "is one of %s", all);
}

static int read_string(const struct once__http_field *field, struct once_bytes text,
                       struct once__http_said *said, struct once__http_value *value,
                       struct once__http_defect *defect)
{
    int err = ONCE_OK;

    if (field->kind == ONCE__FIELD_WORD)
        return read_word(field, text, value, defect);
    if (field->kind == ONCE__FIELD_CURSOR) {
        if (!number_read(text, UINT64_MAX, &value->cursor))
            return refuse(defect, field->name, "is the cursor of a page before, or 0");
        return ONCE_OK;
    }
    if (field->kind == ONCE__FIELD_BASE64)
        err = put_base64(said, text, field->name, &value->bytes, defect);
    else
        value->bytes = text;
    return err == ONCE_OK ? check_size(field, value->bytes, defect) : err;
}

static int read_number(const struct once__http_field *field, int64_t number,
                       struct once__http_value *value, struct once__http_defect *defect)
{
    if (number < field->min || number > field->max)
        return refuse(defect, field->name,
                      "is a whole number from %" PRId64 " to %" PRId64 ", not %" PRId64, field->min,
                      field->max, number);
    value->number = number;
    return ONCE_OK;
}

/* ---- Effects --------------------------------------------------------------------------------- */

/* A word of an effect: a string, a whole number, or {"base64":"…"}. */
static int read_deed_word(const json_t *word, struct once__http_said *said, const char *where,
                          struct once_bytes *ret_bytes, struct once__http_defect *defect)
{
    const json_t *base64 = json_object_get(word, "base64");

    if (json_is_string(word)) {
        *ret_bytes = string_bytes(word);
        return ONCE_OK;
    }
    if (json_is_integer(word)) {
        uint8_t *text = keep(said, NUMBER_SIZE);

        if (!text)
            return ONCE_ERR_MEMORY;
        *ret_bytes = (struct once_bytes){.data = text,
                                         .size = (size_t)snprintf((char *)text, NUMBER_SIZE,
                                                                  "%" JSON_INTEGER_FORMAT,
                                                                  json_integer_value(word))};
        return ONCE_OK;
    }
    if (json_is_string(base64) && json_object_size(word) == 1)
        return put_base64(said, string_bytes(base64), where, ret_bytes, defect);
    return refuse(defect, where, "is a string, a whole number or {\"base64\":\"…\"}, not %s",
                  type_name(word));
}

static int read_deed(const struct once__http_field *field, const json_t *deed, size_t number,
                     struct once__http_said *said, struct once__http_defect *defect)
{
    size_t count = json_array_size(deed);
    char where[48];
    int err;

    (void)snprintf(where, sizeof where, "%s[%zu]", field->name, number);
    if (!json_is_array(deed) || count == 0)
        return refuse(defect, where, "is an effect: an array of its words, not %s",
                      json_is_array(deed) ? "an empty one" : type_name(deed));
    if (count > ONCE_EFFECT_WORDS_MAX)
        return refuse(defect, where, "has %zu words, and at most %d are allowed", count,
                      ONCE_EFFECT_WORDS_MAX);
    said->dos[number] = (struct once_do){.words = said->words + said->word_count, .count = count};
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(where, sizeof where, "%s[%zu][%zu]", field->name, number, i);
        err = read_deed_word(json_array_get(deed, i), said, where,
                             &said->words[said->word_count + i], defect);
        if (err != ONCE_OK)
            return err;
    }
    said->word_count += count;
    return ONCE_OK;
}

static int read_deeds(const struct once__http_field *field, const json_t *deeds,
                      struct once__http_said *said, struct once__http_defect *defect)
{
    size_t count = json_array_size(deeds);
    size_t words = 0;

    if (!json_is_array(deeds))
        return refuse(defect, field->name, "is an array of effects, not %s", type_name(deeds));
    if (count == 0 || count > ONCE_EFFECTS_MAX)
        return refuse(defect, field->name, "has %zu effects, and 1 to %d are allowed", count,
                      ONCE_EFFECTS_MAX);
    for (size_t i = 0; i < count; i++)
        words += json_array_size(json_array_get(deeds, i));
    said->dos = calloc(count, sizeof *said->dos);
    said->words = calloc(words > 0 ? words : 1, sizeof *said->words);
    if (!said->dos || !said->words)
        return ONCE_ERR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        int err = read_deed(field, json_array_get(deeds, i), i, said, defect);

        if (err != ONCE_OK)
            return err;
    }
    ONCE_ASSERT(said->word_count == words);
    said->do_count = count;
    return ONCE_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Which field a name is of; *ret_base64: under its name with _base64 behind it. */
static size_t find_field(const struct once__http_fields *fields, struct once_bytes name,
                         bool *ret_base64)
{
    static const char behind[] = "_base64";
    size_t extra = sizeof behind - 1;

    *ret_base64 = false;
    for (size_t i = 0; fields && i < fields->count; i++) {
        const struct once__http_field *field = &fields->fields[i];
        struct once_bytes known = once_bytes_of(field->name);

        if (once__bytes_equal(known, name))
            return i;
        if (field->kind == ONCE__FIELD_BYTES && name.size == known.size + extra &&
            memcmp(name.data, known.data, known.size) == 0 &&
            memcmp(name.data + known.size, behind, extra) == 0) {
            *ret_base64 = true;
            return i;
        }
    }
    return SIZE_MAX;
}

static int refuse_unknown(struct once__http_defect *defect, struct once_bytes name,
                          const char *what)
{
    char text[64];

    (void)snprintf(text, sizeof text, "is not a %s that is known here", what);
    if (name.size == 0)
        (void)snprintf(text, sizeof text, "a %s without a name", what);
    if (!once__utf8_check(name)) { /* a detail is text */
        (void)snprintf(text, sizeof text, "a %s whose name is not UTF-8", what);
        name.size = 0;
    }
    defect_set(defect, name, text);
    return ONCE_ERR_INVALID;
}

static int read_member(const struct once__http_field *field, bool base64, const json_t *json,
                       struct once__http_said *said, struct once__http_value *value,
                       struct once__http_defect *defect)
{
    struct once__http_field as_base64 = *field;
    char name[64];

    if (value->given)
        return refuse(defect, field->name, "is there twice, as text and in base64");
    value->given = true;
    (void)snprintf(name, sizeof name, "%s%s", field->name, base64 ? "_base64" : "");
    switch (field->kind) {
    case ONCE__FIELD_NUMBER:
        if (!json_is_integer(json))
            return refuse(defect, name, "is a whole number, not %s", type_name(json));
        return read_number(field, json_integer_value(json), value, defect);
    case ONCE__FIELD_BOOL:
        if (!json_is_boolean(json))
            return refuse(defect, name, "is true or false, not %s", type_name(json));
        value->number = json_is_true(json);
        return ONCE_OK;
    case ONCE__FIELD_DEEDS:
        return read_deeds(field, json, said, defect);
    case ONCE__FIELD_TEXT:
    case ONCE__FIELD_BYTES:
    case ONCE__FIELD_BASE64:
    case ONCE__FIELD_CURSOR:
    case ONCE__FIELD_WORD:
        break;
    }
    if (!json_is_string(json))
        return refuse(defect, name, "is a string, not %s", type_name(json));
    if (base64) {
        as_base64.name = name;
        as_base64.kind = ONCE__FIELD_BASE64;
    }
    return read_string(&as_base64, string_bytes(json), said, value, defect);
}

/* A parsed value is much larger than its text: how many there are is counted before. */
static bool too_many_values(struct once_bytes body)
{
    bool quoted = false;
    size_t count = 0;

    for (size_t i = 0; i < body.size; i++) {
        uint8_t c = body.data[i];

        if (c == '"')
            quoted = !quoted;
        else if (quoted && c == '\\')
            i++;
        else if (!quoted && (c == ',' || c == '[' || c == '{'))
            count++;
    }
    return count > JSON_VALUES_MAX;
}

static int parse(struct once_bytes body, struct once__http_said *said,
                 struct once__http_defect *defect)
{
    json_error_t error;

    if (body.size == 0) {
        said->root = json_object();
        return said->root ? ONCE_OK : ONCE_ERR_MEMORY;
    }
    if (too_many_values(body))
        return refuse(defect, "", "the body holds more than %d values", JSON_VALUES_MAX);
    said->root = json_loadb((const char *)body.data, body.size,
                            JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!said->root && json_error_code(&error) == json_error_out_of_memory)
        return ONCE_ERR_MEMORY;
    if (!said->root)
        return refuse(defect, "", "the body is not JSON: line %d, column %d: %s", error.line,
                      error.column, error.text);
    if (!json_is_object(said->root))
        return refuse(defect, "", "the body is a JSON object, not %s", type_name(said->root));
    return ONCE_OK;
}

int once__http_body_read(const struct once__http_fields *fields, struct once_bytes body,
                         struct once__http_said *ret_said, struct once__http_defect *ret_defect)
{
    struct once__http_said *said = ret_said;
    const char *name;
    json_t *value;
    int err;

    ONCE_ASSERT(fields->count <= ONCE__HTTP_FIELDS_MAX);
    *said = (struct once__http_said){0};
    err = parse(body, said, ret_defect);
    if (err != ONCE_OK)
        return err;
    json_object_foreach(said->root, name, value)
    {
        bool base64;
        size_t i = find_field(fields, once_bytes_of(name), &base64);

        if (i == SIZE_MAX)
            return refuse_unknown(ret_defect, once_bytes_of(name), "field");
        err = read_member(&fields->fields[i], base64, value, said, &said->values[i], ret_defect);
        if (err != ONCE_OK)
            return err;
    }
    for (size_t i = 0; i < fields->count; i++) {
        if (fields->fields[i].required && !said->values[i].given)
            return refuse(ret_defect, fields->fields[i].name, "is missing");
    }
    return ONCE_OK;
}

int once__http_query_add(const struct once__http_fields *fields, struct once_bytes name,
                         struct once_bytes value, struct once__http_said *said,
                         struct once__http_defect *ret_defect)
{
    bool base64;
    size_t i = find_field(fields, name, &base64);
    const struct once__http_field *field;
    uint64_t number;
    uint8_t *copy;

    if (i == SIZE_MAX || base64)
        return refuse_unknown(ret_defect, name, "parameter");
    field = &fields->fields[i];
    if (said->values[i].given)
        return refuse(ret_defect, field->name, "is there twice");
    said->values[i].given = true;
    if (field->kind == ONCE__FIELD_NUMBER) {
        ONCE_ASSERT(field->min >= 0);
        if (!number_read(value, INT64_MAX, &number))
            return refuse(ret_defect, field->name, "is a whole number from %" PRId64 " to %" PRId64,
                          field->min, field->max);
        return read_number(field, (int64_t)number, &said->values[i], ret_defect);
    }
    copy = keep(said, value.size);
    if (!copy)
        return ONCE_ERR_MEMORY;
    if (value.size > 0)
        memcpy(copy, value.data, value.size);
    return read_string(field, (struct once_bytes){.data = copy, .size = value.size}, said,
                       &said->values[i], ret_defect);
}

void once__http_said_release(struct once__http_said *said)
{
    while (said->memory) {
        struct once__http_memory *next = said->memory->next;

        free(said->memory);
        said->memory = next;
    }
    free(said->dos);
    free(said->words);
    json_decref(said->root);
    *said = (struct once__http_said){0};
}
