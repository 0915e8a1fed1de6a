/* SPDX-License-Identifier: Apache-2.0
 *
 * `once key fingerprint`: the fingerprint of a request given on the command line.
 */
#include "cli/cli.h"
#include "cli/cmd_key.h"
#include "cli/echo.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <once/fingerprint.h>

enum { PIECE_SIZE = 1 << 16 };

/* The characters of a header's name, RFC 9110. */
static const char name_characters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    "!#$%&'*+-.^_`|~";

/* "Name: value", the blanks around the value not counting. */
static int add_header(struct once_fingerprinter *fingerprinter, const char *text)
{
    size_t name_size = strspn(text, name_characters);
    struct once_bytes name = {(const uint8_t *)text, name_size};
    struct once_bytes value;
    int err;

    if (name_size == 0 || text[name_size] != ':')
        return cli_usage(&cli_key, "'%s' is not a header: --header 'NAME: VALUE'",
                         cli_echo(text).text);
    value = once_bytes_of(text + name_size + 1 + strspn(text + name_size + 1, " \t"));
    while (value.size > 0 &&
           (value.data[value.size - 1] == ' ' || value.data[value.size - 1] == '\t'))
        value.size--;
    err = once_fingerprinter_header(fingerprinter, name, value);
    if (err != ONCE_OK)
        return cli_error(&cli_key, err == ONCE_ERR_FULL ? CLI_USAGE : CLI_INTERNAL,
                         "the headers: %s", once_err_text(err));
    return CLI_OK;
}

/* Feeds a file; kept gets a copy of it, to point at what is wrong. */
static int add_body(struct once_fingerprinter *fingerprinter, FILE *file, const char *name,
                    struct once_buf *kept)
{
    static uint8_t piece[PIECE_SIZE];
    size_t size;

    while ((size = fread(piece, 1, sizeof(piece), file)) > 0) {
        int err = once_fingerprinter_body(fingerprinter, (struct once_bytes){piece, size});

        if (err == ONCE_OK && kept)
            err = once_buf_append(kept, piece, size);
        if (err == ONCE_ERR_FULL)
            return cli_error(&cli_key, CLI_USAGE,
                             "'%s' is too large for --json-body: at most %d bytes",
                             cli_echo(name).text, ONCE_JSON_SIZE_MAX);
        if (err != ONCE_OK)
            return cli_error(&cli_key, CLI_INTERNAL, "%s", once_err_text(err));
    }
    if (ferror(file))
        return cli_error(&cli_key, CLI_USAGE, "cannot read '%s': %s", cli_echo(name).text,
                         strerror(errno));
    return CLI_OK;
}

static int add_file(struct once_fingerprinter *fingerprinter, const char *name,
                    struct once_buf *kept)
{
    FILE *file;
    int status;

    if (strcmp(name, "-") == 0)
        return add_body(fingerprinter, stdin, "standard input", kept);
    file = fopen(name, "rb");
    if (!file)
        return cli_error(&cli_key, CLI_USAGE, "cannot open '%s': %s", cli_echo(name).text,
                         strerror(errno));
    status = add_body(fingerprinter, file, name, kept);
    fclose(file);
    return status;
}

static int finish(const struct key_args *args, struct once_fingerprinter *fingerprinter,
                  const struct once_buf *body)
{
    struct once_fingerprint fingerprint;
    struct once_defect defect;
    int err = once_fingerprinter_finish(fingerprinter, &fingerprint, &defect);

    if (err == ONCE_ERR_MEMORY || err == ONCE_ERR_CRYPTO)
        return cli_error(&cli_key, CLI_INTERNAL, "%s", once_err_text(err));
    if (err != ONCE_OK)
        return key_refuse(args, err, once_buf_bytes(body), &defect);
    fputs(args->json ? "{\"fingerprint\":\"" : "", stdout);
    for (size_t i = 0; i < sizeof(fingerprint.bytes); i++)
        printf("%02x", fingerprint.bytes[i]);
    if (args->json)
        printf("\",\"body_form\":\"%s\"}", args->json_body ? "json" : "raw");
    puts("");
    return CLI_OK;
}

static int check(const struct key_args *args)
{
    if (args->json_body && args->value_count == 0)
        return cli_usage(&cli_key, "--json-body needs a body: give a FILE, or - to read it");
    if (args->path && strchr(args->path, '?'))
        return cli_usage(&cli_key, "the path '%s' has a query in it: give that with --query",
                         cli_echo(args->path).text);
    return CLI_OK;
}

int key_fingerprint(const struct key_args *args)
{
    struct once_fingerprint_spec spec = {
        .method = once_bytes_of(args->method ? args->method : "POST"),
        .path = once_bytes_of(args->path ? args->path : "/"),
        .query = once_bytes_of(args->query),
        .body_form = args->json_body ? ONCE_BODY_JSON : ONCE_BODY_RAW};
    struct once_fingerprinter *fingerprinter = NULL;
    struct once_buf body;
    int status = check(args);
    int err;

    if (status != CLI_OK)
        return status;
    once_buf_init(&body, ONCE_JSON_SIZE_MAX);
    err = once_fingerprinter_new(&spec, &fingerprinter);
    if (err != ONCE_OK)
        return cli_error(&cli_key, CLI_INTERNAL, "%s", once_err_text(err));
    for (size_t i = 0; i < args->header_count && status == CLI_OK; i++)
        status = add_header(fingerprinter, args->headers[i]);
    if (status == CLI_OK && args->value_count > 0)
        status = add_file(fingerprinter, args->values[0], args->json_body ? &body : NULL);
    if (status == CLI_OK)
        status = finish(args, fingerprinter, &body);
    once_buf_release(&body);
    once_fingerprinter_free(fingerprinter);
    return status;
}
