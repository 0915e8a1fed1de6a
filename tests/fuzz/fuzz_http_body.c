/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the body of every route that takes JSON, as a query and as a path. What is accepted
 * keeps the bounds of its table; what is refused says something that can be printed and, where it
 * is about a field, begins with its name.
 */
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#include "server/http_inner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refused(const struct once__http_defect *defect)
{
    size_t field_size = strlen(defect->field);

    ONCE_ASSERT(defect->text[0] != '\0');
    ONCE_ASSERT(once__utf8_check(once_bytes_of(defect->field)));
    ONCE_ASSERT(strncmp(defect->text, defect->field, field_size) == 0);
    ONCE_ASSERT(field_size == 0 || strncmp(defect->text + field_size, ": ", 2) == 0);
}

static void check_value(const struct once__http_field *field, const struct once__http_value *value)
{
    bool text = field->kind == ONCE__FIELD_TEXT || field->kind == ONCE__FIELD_BYTES ||
                field->kind == ONCE__FIELD_BASE64;

    ONCE_ASSERT(value->given || !field->required);
    if (!value->given)
        return;
    if (field->kind == ONCE__FIELD_NUMBER)
        ONCE_ASSERT(value->number >= field->min && value->number <= field->max);
    if (text && field->max > 0)
        ONCE_ASSERT(value->bytes.size <= (size_t)field->max);
    if (field->kind == ONCE__FIELD_TEXT)
        ONCE_ASSERT(once__utf8_check(value->bytes));
}

/* Every byte of what was said can be read. */
static size_t sum(const struct once__http_said *said)
{
    size_t total = 0;

    for (size_t i = 0; i < said->do_count; i++) {
        ONCE_ASSERT(said->dos[i].count > 0);
        for (size_t j = 0; j < said->dos[i].count; j++) {
            struct once_bytes word = said->dos[i].words[j];

            for (size_t at = 0; at < word.size; at++)
                total += word.data[at];
        }
    }
    return total;
}

static void try_body(const struct once__http_fields *fields, struct once_bytes body)
{
    struct once__http_defect defect = {.field = ""};
    struct once__http_said said;
    int err = once__http_body_read(fields, body, &said, &defect);

    if (err == ONCE_OK) {
        for (size_t i = 0; i < fields->count; i++)
            check_value(&fields->fields[i], &said.values[i]);
        ONCE_ASSERT(sum(&said) < SIZE_MAX);
    } else {
        ONCE_ASSERT(err == ONCE_ERR_INVALID);
        check_refused(&defect);
    }
    once__http_said_release(&said);
}

static void try_query(const struct once__http_fields *fields, struct once_bytes text)
{
    const uint8_t *equals = text.size > 0 ? memchr(text.data, '=', text.size) : NULL;
    struct once_bytes name = text, value = {NULL, 0};
    struct once__http_defect defect = {.field = ""};
    struct once__http_said said = {.do_count = 0};
    int err;

    if (equals) {
        name.size = (size_t)(equals - text.data);
        value = (struct once_bytes){equals + 1, text.size - name.size - 1};
    }
    err = once__http_query_add(fields, name, value, &said, &defect);
    ONCE_ASSERT(err == ONCE_OK || err == ONCE_ERR_INVALID);
    if (err == ONCE_ERR_INVALID)
        ONCE_ASSERT(defect.text[0] != '\0');
    once__http_said_release(&said);
}

static void try_path(struct once_bytes text)
{
    char *path = calloc(1, text.size + 1);
    const struct once__http_route *route = NULL;
    struct once__http_params params = {.count = 0};
    char allow[64];

    ONCE_ASSERT(path);
    if (text.size > 0)
        memcpy(path, text.data, text.size);
    if (once__http_route_find("GET", path, &route, &params, allow) == ONCE__HTTP_MATCHED) {
        ONCE_ASSERT(route && params.count <= ONCE__HTTP_PARAMS_MAX);
        for (size_t i = 0; i < params.count; i++)
            ONCE_ASSERT(params.values[i].size <= text.size);
    }
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *block = malloc(size > 0 ? size : 1); /* exact, so that a read beyond it is seen */
    struct once_bytes bytes = {block, size};

    ONCE_ASSERT(block);
    if (size > 0)
        memcpy(block, data, size);
    for (size_t i = 0; i < once__http_route_count; i++) {
        if (once__http_routes[i].body)
            try_body(once__http_routes[i].body, bytes);
        if (once__http_routes[i].query)
            try_query(once__http_routes[i].query, bytes);
    }
    try_path(bytes);
    free(block);
    return 0;
}
