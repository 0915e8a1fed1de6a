/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers: lists of them, the rules that each keeps, and secrets, which are kept as text that names
 * variables and filled in when they are sent.
 *
 * Nothing secret gets from here into the store or into a message: a header that says who one is
 * must come as a secret. Names are told, values never: they may be secrets in the wrong place.
 */
#include "client/call_inner.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int out_of_memory(char text[ONCE_MESSAGE_SIZE])
{
    return once__call_wrong(ONCE_ERR_MEMORY, text, "%s", once_err_text(ONCE_ERR_MEMORY));
}

/* ---- Lists ----------------------------------------------------------------------------------- */

const char *once__call_lines_next(const struct once__call_lines *lines, const char *line)
{
    const char *text = (const char *)lines->text.data;
    const char *next = line ? line + strlen(line) + 1 : text;

    return lines->text.size > 0 && next < text + lines->text.size ? next : NULL;
}

int once__call_lines_add(struct once__call_lines *lines, const char *line, size_t size)
{
    int err = once_buf_reserve(&lines->text, size + 1);

    if (err == ONCE_OK)
        err = once_buf_append(&lines->text, line, size);
    if (err == ONCE_OK)
        err = once_buf_append(&lines->text, "", 1);
    if (err == ONCE_OK)
        lines->count++;
    return err;
}

const char *once__call_header(const struct once__call_lines *headers, const char *name)
{
    size_t size = strlen(name);

    for (const char *line = NULL; (line = once__call_lines_next(headers, line)) != NULL;) {
        if (strncasecmp(line, name, size) == 0 && line[size] == ':')
            return line + size + 1 + strspn(line + size + 1, " \t");
    }
    return NULL;
}

/* ---- Headers --------------------------------------------------------------------------------- */

bool once__call_is_token(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];

        if (!(c < 0x80 && isalnum(c)) && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return size > 0;
}

static bool is_field_text(const char *text)
{
    for (; *text; text++) {
        if ((*text < 0x20 || *text > 0x7e) && *text != '\t')
            return false;
    }
    return true;
}

static bool is_one_of(const char *name, size_t size, const char *const *names)
{
    for (; *names; names++) {
        if (strlen(*names) == size && strncasecmp(name, *names, size) == 0)
            return true;
    }
    return false;
}

static int check_header_name(const char *name, size_t size, bool secret,
                             const struct once__call_request *request, char text[ONCE_MESSAGE_SIZE])
{
    static const char *const ours[] = {
        "Host", "Content-Length", "Transfer-Encoding", "Connection",       "Expect",
        "TE",   "Upgrade",        "Keep-Alive",        "Proxy-Connection", NULL};
    static const char *const personal[] = {"Authorization", "Proxy-Authorization", "Cookie", NULL};
    const char *const key_header[] = {request->key_header, NULL};

    if (!once__call_is_token(name, size) || size > 255)
        return once__call_wrong(ONCE_ERR_INVALID, text,
                                "a header is 'Name: value', and its name letters, digits and -");
    if (is_one_of(name, size, ours))
        return once__call_wrong(ONCE_ERR_INVALID, text,
                                "the header %.*s is made from the URL and the body", (int)size,
                                name);
    if (is_one_of(name, size, key_header))
        return once__call_wrong(ONCE_ERR_INVALID, text, "the header %.*s carries the key",
                                (int)size, name);
    if (!secret && is_one_of(name, size, personal))
        return once__call_wrong(ONCE_ERR_INVALID, text,
                                "the header %.*s says who you are, and the store would keep it; "
                                "give it as a secret header, '%.*s: $VARIABLE'",
                                (int)size, name, (int)size, name);
    return ONCE_OK;
}

/* Kept as "Name: value", whatever blanks there were. */
int once__call_header_add(struct once__call_request *request, const char *given, bool secret,
                          char text[ONCE_MESSAGE_SIZE])
{
    struct once__call_lines *lines = secret ? &request->secrets : &request->headers;
    const char *colon = given ? strchr(given, ':') : NULL;
    size_t name_size = colon ? (size_t)(colon - given) : 0;
    const char *value = colon ? colon + 1 + strspn(colon + 1, " \t") : "";
    size_t value_size = strlen(value);
    char *line = NULL;
    int size, err;

    err = check_header_name(colon ? given : "", name_size, secret, request, text);
    if (err != ONCE_OK)
        return err;
    if (!is_field_text(value))
        return once__call_wrong(ONCE_ERR_INVALID, text,
                                "the header %.*s has a character that is not printable ASCII",
                                (int)name_size, given);
    if (secret && !strchr(value, '$'))
        return once__call_wrong(ONCE_ERR_INVALID, text,
                                "the secret header %.*s names no variable; the store keeps its "
                                "text, so write '%.*s: $VARIABLE'",
                                (int)name_size, given, (int)name_size, given);
    while (value_size > 0 && (value[value_size - 1] == ' ' || value[value_size - 1] == '\t'))
        value_size--;
    if (value_size > ONCE_SEND_HEADERS_SIZE_MAX ||
        request->headers.count + request->secrets.count >= ONCE_SEND_HEADERS_MAX)
        return once__call_wrong(ONCE_ERR_INVALID, text, "more than %d headers, or %d bytes of them",
                                ONCE_SEND_HEADERS_MAX, ONCE_SEND_HEADERS_SIZE_MAX);
    size = asprintf(&line, "%.*s: %.*s", (int)name_size, given, (int)value_size, value);
    if (size < 0)
        return out_of_memory(text);
    err = once__call_lines_add(lines, line, (size_t)size);
    free(line);
    if (err == ONCE_ERR_FULL)
        return once__call_wrong(ONCE_ERR_INVALID, text, "more than %d bytes of headers",
                                ONCE_SEND_HEADERS_SIZE_MAX);
    return err == ONCE_OK ? ONCE_OK : out_of_memory(text);
}

/* The variable's name behind a dollar: $NAME or ${NAME}. Gives what to go on with. */
static const char *variable_name(const char *at, const char **ret_name, size_t *ret_size)
{
    bool braces = *at == '{';
    const char *name = at + (braces ? 1 : 0);
    size_t size = 0;

    while ((name[size] >= 'A' && name[size] <= 'Z') || (name[size] >= 'a' && name[size] <= 'z') ||
           name[size] == '_' || (size > 0 && name[size] >= '0' && name[size] <= '9'))
        size++;
    if (size == 0 || size > 255 || (braces && name[size] != '}'))
        return NULL;
    *ret_name = name;
    *ret_size = size;
    return name + size + (braces ? 1 : 0);
}

static int fill_variable(const char *name, size_t size, struct once_buf *out,
                         char text[ONCE_MESSAGE_SIZE])
{
    char copy[256];
    const char *value;

    memcpy(copy, name, size);
    copy[size] = '\0';
    value = getenv(copy);
    if (!value || !value[0])
        return once__call_wrong(ONCE_ERR_INVALID, text,
                                "a secret header takes $%s from the environment, which has none",
                                copy);
    if (!is_field_text(value))
        return once__call_wrong(ONCE_ERR_INVALID, text,
                                "$%s has a character that a header may not have, such as an end "
                                "of line",
                                copy);
    return once_buf_append(out, value, strlen(value));
}

int once__call_secret_fill(const char *secret, struct once_buf *out, char text[ONCE_MESSAGE_SIZE])
{
    size_t name_size = strcspn(secret, ":"); /* a $ in a header's name is none of ours */
    int err = once_buf_append(out, secret, name_size);

    for (const char *at = secret + name_size; *at && err == ONCE_OK;) {
        size_t size = strcspn(at, "$");
        const char *name;

        err = once_buf_append(out, at, size);
        at += size;
        if (err != ONCE_OK || *at == '\0')
            break;
        if (at[1] == '$') {
            err = once_buf_append(out, "$", 1);
            at += 2;
            continue;
        }
        at = variable_name(at + 1, &name, &size);
        if (!at)
            return once__call_wrong(ONCE_ERR_INVALID, text,
                                    "a secret header has a $ with no variable's name behind it; a "
                                    "dollar is $$");
        err = fill_variable(name, size, out, text);
        if (err == ONCE_ERR_INVALID)
            return err;
    }
    if (err == ONCE_ERR_FULL)
        return once__call_wrong(ONCE_ERR_INVALID, text, "a secret header is over %d bytes long",
                                ONCE_SEND_HEADERS_SIZE_MAX);
    return err == ONCE_OK ? ONCE_OK : out_of_memory(text);
}

int once__call_secrets_check(const struct once__call_request *request, char text[ONCE_MESSAGE_SIZE])
{
    struct once_buf filled;
    int err = ONCE_OK;

    once_buf_init(&filled, ONCE_SEND_HEADERS_SIZE_MAX);
    for (const char *line = NULL;
         err == ONCE_OK && (line = once__call_lines_next(&request->secrets, line)) != NULL;)
        err = once__call_secret_fill(line, &filled, text);
    if (filled.data)
        explicit_bzero(filled.data, filled.size);
    once_buf_release(&filled);
    return err;
}

int once__call_key_value(struct once_bytes key, bool bare, struct once_buf *out)
{
    int err = bare ? ONCE_OK : once_buf_append(out, "\"", 1);

    for (size_t i = 0; i < key.size && err == ONCE_OK; i++) {
        bool special = key.data[i] == '"' || key.data[i] == '\\';

        if (bare && (special || key.data[i] == ' ' || key.data[i] == ',' || key.data[i] == ';'))
            return ONCE_ERR_KEY_CHARACTER;
        if (special)
            err = once_buf_append(out, "\\", 1);
        if (err == ONCE_OK)
            err = once_buf_append(out, &key.data[i], 1);
    }
    if (err == ONCE_OK && !bare)
        err = once_buf_append(out, "\"", 1);
    return err;
}
