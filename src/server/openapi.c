/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenAPI 3.1 document, made from the table of routes and the tables of fields, so that it says
 * what the server does. What answers look like is in openapi_schemas.c.
 */
#include "server/http_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* jansson fails only without memory. A failed step gives NULL, which every later one passes on:
 * json_object_set_new refuses it, and it is noticed here. */
struct document {
    bool failed;
};

static json_t *made(struct document *document, json_t *value)
{
    if (!value)
        document->failed = true;
    return value;
}

static json_t *object(struct document *document)
{
    return made(document, json_object());
}

static void set(struct document *document, json_t *in, const char *name, json_t *value)
{
    if (!value || json_object_set_new(in, name, value) != 0)
        document->failed = true;
}

static void set_text(struct document *document, json_t *in, const char *name, const char *text)
{
    set(document, in, name, json_string(text));
}

static void set_number(struct document *document, json_t *in, const char *name, int64_t number)
{
    set(document, in, name, json_integer(number));
}

static void append(struct document *document, json_t *in, json_t *value)
{
    if (!value || json_array_append_new(in, value) != 0)
        document->failed = true;
}

static json_t *schema_ref(struct document *document, const char *name)
{
    return made(document, json_pack("{s:s+}", "$ref", "#/components/schemas/", name));
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static json_t *deeds_schema(struct document *document)
{
    json_t *word = json_pack("{s:[{s:s},{s:s},{s:s,s:[s],s:{s:{s:s,s:s}},s:b}]}", "anyOf", "type",
                             "string", "type", "integer", "type", "object", "required", "base64",
                             "properties", "base64", "type", "string", "contentEncoding", "base64",
                             "additionalProperties", 0);

    return made(document,
                json_pack("{s:s,s:i,s:i,s:{s:s,s:i,s:i,s:o}}", "type", "array", "minItems", 1,
                          "maxItems", ONCE_EFFECTS_MAX, "items", "type", "array", "minItems", 1,
                          "maxItems", ONCE_EFFECT_WORDS_MAX, "items", word));
}

static json_t *field_schema(struct document *document, const struct once__http_field *field)
{
    json_t *schema = field->kind == ONCE__FIELD_DEEDS ? deeds_schema(document) : object(document);

    set_text(document, schema, "description", field->text);
    switch (field->kind) {
    case ONCE__FIELD_NUMBER:
        set_text(document, schema, "type", "integer");
        set_number(document, schema, "minimum", field->min);
        set_number(document, schema, "maximum", field->max);
        break;
    case ONCE__FIELD_BOOL:
        set_text(document, schema, "type", "boolean");
        break;
    case ONCE__FIELD_WORD:
        set_text(document, schema, "type", "string");
        set(document, schema, "enum", json_array());
        for (size_t i = 0; field->words[i]; i++)
            append(document, json_object_get(schema, "enum"), json_string(field->words[i]));
        break;
    case ONCE__FIELD_CURSOR:
        set_text(document, schema, "type", "string");
        set_text(document, schema, "pattern", "^[0-9]{1,20}$");
        break;
    case ONCE__FIELD_BASE64:
        set_text(document, schema, "type", "string");
        set_text(document, schema, "contentEncoding", "base64");
        break;
    case ONCE__FIELD_TEXT:
    case ONCE__FIELD_BYTES:
        set_text(document, schema, "type", "string");
        if (field->max > 0)
            set_number(document, schema, "maxLength", field->max);
        break;
    case ONCE__FIELD_DEEDS:
        break;
    }
    return schema;
}

static json_t *fields_schema(struct document *document, const struct once__http_fields *fields)
{
    json_t *schema = object(document);
    json_t *properties = object(document);
    json_t *required = made(document, json_array());

    for (size_t i = 0; i < fields->count; i++) {
        const struct once__http_field *field = &fields->fields[i];
        char name[64];

        set(document, properties, field->name, field_schema(document, field));
        if (field->required)
            append(document, required, json_string(field->name));
        if (field->kind != ONCE__FIELD_BYTES)
            continue;
        (void)snprintf(name, sizeof name, "%s_base64", field->name);
        set(document, properties, name,
            json_pack("{s:s,s:s,s:s++}", "type", "string", "contentEncoding", "base64",
                      "description", "Instead of ", field->name, ", for bytes that are no text."));
    }
    set_text(document, schema, "type", "object");
    set(document, schema, "properties", properties);
    set(document, schema, "required", required);
    set(document, schema, "additionalProperties", json_false());
    return schema;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static void add_parameter(struct document *document, json_t *parameters, const char *in,
                          const char *name, const char *text, json_t *schema)
{
    append(document, parameters,
           json_pack("{s:s,s:s,s:b,s:s,s:o}", "in", in, "name", name, "required",
                     strcmp(in, "path") == 0, "description", text, "schema", schema));
}

static json_t *string_schema(struct document *document, int size_max)
{
    return made(document, json_pack("{s:s,s:i,s:i}", "type", "string", "minLength", 1, "maxLength",
                                    size_max));
}

static void add_path_parameters(struct document *document, json_t *parameters, const char *path)
{
    if (strstr(path, "{ns}"))
        add_parameter(document, parameters, "path", "ns",
                      "The namespace: printable ASCII without blanks.",
                      string_schema(document, ONCE_NAMESPACE_SIZE_MAX));
    if (strstr(path, "{key}"))
        add_parameter(document, parameters, "path", "key", "The key: printable ASCII.",
                      string_schema(document, ONCE_KEY_SIZE_MAX));
    if (strstr(path, "{file}"))
        add_parameter(document, parameters, "path", "file", "The name of a file of the page.",
                      string_schema(document, ONCE_KEY_SIZE_MAX));
    if (strstr(path, "{name}"))
        add_parameter(document, parameters, "path", "name", "The object's name: printable ASCII.",
                      string_schema(document, ONCE_OBJECT_NAME_SIZE_MAX));
}

static void add_header_parameters(struct document *document, json_t *parameters, unsigned flags)
{
    if (flags & ONCE__HTTP_MATCHES)
        add_parameter(document, parameters, "header", "If-None-Match",
                      "The ETag that the caller has: 304 while it is still that.",
                      string_schema(document, ONCE_KEY_SIZE_MAX));
    if (!(flags & ONCE__HTTP_WRITES))
        return;
    add_parameter(document, parameters, "header", "If-Match",
                  "The ETag of the version that the write is for; 412 when it is another.",
                  json_pack("{s:s,s:s}", "type", "string", "pattern", "^\"[0-9]+\"$"));
    add_parameter(document, parameters, "header", "If-None-Match", "Only as the first value.",
                  json_pack("{s:s}", "const", "*"));
    add_parameter(document, parameters, "header", "Idempotency-Key",
                  "The key of the write, bare or in quotes.",
                  string_schema(document, 2 * ONCE_KEY_SIZE_MAX + 2));
    add_parameter(document, parameters, "header", "Once-Namespace",
                  "The namespace of the key; \"http\" without it.",
                  string_schema(document, ONCE_NAMESPACE_SIZE_MAX));
}

static json_t *parameters_of(struct document *document, const struct once__http_route *route)
{
    json_t *parameters = made(document, json_array());

    add_path_parameters(document, parameters, route->path);
    for (size_t i = 0; route->query && i < route->query->count; i++) {
        const struct once__http_field *field = &route->query->fields[i];

        add_parameter(document, parameters, "query", field->name, field->text,
                      field_schema(document, field));
    }
    add_header_parameters(document, parameters, route->flags);
    return parameters;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static json_t *header_of(struct document *document, const char *text, const char *type)
{
    return made(document, json_pack("{s:s,s:{s:s}}", "description", text, "schema", "type", type));
}

static void add_answer(struct document *document, json_t *answers,
                       const struct once__http_route *route, unsigned status)
{
    bool problem = status >= 400 && !(status == 503 && (route->flags & ONCE__HTTP_SAYS_503));
    bool versioned = route->flags & (ONCE__HTTP_MATCHES | ONCE__HTTP_WRITES);
    const char *type = problem ? "application/problem+json" : route->type;
    const char *schema = problem ? "Problem" : route->schema;
    json_t *answer = made(document,
                          json_pack("{s:s}", "description", once__http_status_text(status)));
    json_t *headers = object(document);
    char name[16];

    (void)snprintf(name, sizeof name, "%u", status);
    if (status != 304) {
        json_t *media = object(document);
        json_t *content = object(document);

        set(document, media, "schema",
            schema ? schema_ref(document, schema)
                   : made(document, json_pack("{s:s}", "type", "string")));
        set(document, content, type, media);
        set(document, answer, "content", content);
    }
    if (versioned && (status == 200 || status == 304))
        set(document, headers, "ETag", header_of(document, "The version, in quotes.", "string"));
    if (status == 409 || status == 429 || status == 503)
        set(document, headers, "Retry-After",
            header_of(document, "Seconds; of 409 only when it is BUSY.", "integer"));
    if (status == 401)
        set(document, headers, "WWW-Authenticate",
            header_of(document, "Basic, and Bearer.", "string"));
    set(document, answer, "headers", headers);
    set(document, answers, name, answer);
}

/* Those that every route of its kind may give, and its own. */
static json_t *answers_of(struct document *document, const struct once__http_route *route)
{
    json_t *answers = object(document);
    bool open = route->flags & ONCE__HTTP_OPEN;
    const char *at = route->problems ? route->problems : "";

    add_answer(document, answers, route, 200);
    if (route->flags & ONCE__HTTP_MATCHES)
        add_answer(document, answers, route, 304);
    for (char *end; *at != '\0'; at = end) {
        unsigned long status = strtoul(at, &end, 10);

        ONCE_ASSERT(end > at);
        add_answer(document, answers, route, (unsigned)status);
    }
    add_answer(document, answers, route, 400);
    add_answer(document, answers, route, 403);
    add_answer(document, answers, route, 413);
    add_answer(document, answers, route, 421);
    add_answer(document, answers, route, 500);
    add_answer(document, answers, route, 503);
    if (route->body)
        add_answer(document, answers, route, 415);
    if (!open) {
        add_answer(document, answers, route, 401);
        add_answer(document, answers, route, 429);
    }
    return answers;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static json_t *operation_of(struct document *document, const struct once__http_route *route)
{
    json_t *operation = made(document, json_pack("{s:s,s:s,s:[s]}", "operationId", route->id,
                                                 "summary", route->summary, "tags", route->tag));

    set(document, operation, "parameters", parameters_of(document, route));
    if (route->body)
        set(document, operation, "requestBody",
            json_pack("{s:b,s:{s:{s:o}}}", "required", 1, "content", "application/json", "schema",
                      schema_ref(document, route->body->name)));
    else if (route->flags & ONCE__HTTP_RAW)
        set(document, operation, "requestBody",
            json_pack("{s:b,s:{s:{s:{}}}}", "required", 1, "content", "*/*", "schema"));
    set(document, operation, "responses", answers_of(document, route));
    if (route->flags & ONCE__HTTP_OPEN)
        set(document, operation, "security", json_array());
    return operation;
}

static json_t *paths_of(struct document *document)
{
    json_t *paths = object(document);

    for (size_t i = 0; i < once__http_route_count; i++) {
        const struct once__http_route *route = &once__http_routes[i];
        char method[8] = "";

        for (size_t at = 0; route->method[at] != '\0' && at + 1 < sizeof method; at++)
            method[at] = (char)(route->method[at] | 0x20);
        if (!json_object_get(paths, route->path))
            set(document, paths, route->path, object(document));
        set(document, json_object_get(paths, route->path), method, operation_of(document, route));
    }
    return paths;
}

static json_t *components_of(struct document *document)
{
    json_t *schemas = object(document);

    for (size_t i = 0; i < once__http_schema_count; i++) {
        json_error_t error;
        json_t *schema = json_loads(once__http_schemas[i].json, 0, &error);

        ONCE_ASSERT(schema || json_error_code(&error) == json_error_out_of_memory);
        set(document, schemas, once__http_schemas[i].name, schema);
    }
    for (size_t i = 0; i < once__http_route_count; i++) {
        const struct once__http_fields *body = once__http_routes[i].body;

        if (body && !json_object_get(schemas, body->name))
            set(document, schemas, body->name, fields_schema(document, body));
    }
    return made(document, json_pack("{s:o,s:{s:{s:s,s:s},s:{s:s,s:s}}}", "schemas", schemas,
                                    "securitySchemes", "basic", "type", "http", "scheme", "basic",
                                    "bearer", "type", "http", "scheme", "bearer"));
}

static int write_piece(const char *data, size_t size, void *out)
{
    return once_buf_append(out, data, size) == ONCE_OK ? 0 : -1;
}

int once__http_openapi(struct once_buf *out)
{
    struct document document = {.failed = false};
    json_t *root = made(
        &document,
        json_pack("{s:s,s:{s:s,s:s,s:s,s:{s:s,s:s}},s:[{s:[]},{s:[]},{}]}", "openapi", "3.1.0",
                  "info", "title", "Once", "version", ONCE_VERSION, "description",
                  "Exactly-once effects over at-least-once networks. Every call may be repeated: "
                  "its effect happens once, and a retry gets the first answer. HEAD works wherever "
                  "GET does. Without users in the configuration nobody needs to say who they are.",
                  "license", "name", "Apache-2.0", "identifier", "Apache-2.0", "security", "basic",
                  "bearer"));
    int err = ONCE_ERR_MEMORY;

    set(&document, root, "paths", paths_of(&document));
    set(&document, root, "components", components_of(&document));
    if (!document.failed && json_dump_callback(root, write_piece, out, JSON_COMPACT) == 0)
        err = ONCE_OK;
    json_decref(root);
    return err;
}
