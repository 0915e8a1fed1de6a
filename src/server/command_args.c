/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading arguments, and saying what is wrong with them. Keeps nothing.
 *
 * What a caller sent is shown in messages only through once__arg_echo: bounded, and printable.
 */
#include "server/command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool once__arg_is(struct once_bytes arg, const char *word)
{
    for (size_t i = 0; i < arg.size; i++) {
        uint8_t c = arg.data[i];

        if (c >= 'a' && c <= 'z')
            c = (uint8_t)(c - 'a' + 'A');
        if (c != (uint8_t)word[i] || c == 0)
            return false;
    }
    return word[arg.size] == '\0';
}

bool once__arg_decimal(struct once_bytes arg, int64_t *ret_number)
{
    bool minus = arg.size > 1 && arg.data[0] == '-';
    size_t i = minus ? 1 : 0;
    uint64_t number = 0;

    if (arg.size == 0 || arg.size - i > 19)
        return false;
    if (arg.data[i] == '0' && (arg.size - i > 1 || minus))
        return false;
    for (; i < arg.size; i++) {
        if (arg.data[i] < '0' || arg.data[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(arg.data[i] - '0'); /* 19 digits fit */
    }
    if (number > (uint64_t)INT64_MAX + (minus ? 1 : 0))
        return false;
    *ret_number = minus ? -(int64_t)(number - 1) - 1 : (int64_t)number;
    return true;
}

bool once__arg_number(const struct once__request *request, struct once__out *out,
                      struct once_bytes arg, const char *what, int64_t min, int64_t max,
                      int64_t *ret_number)
{
    int64_t number;

    if (once__arg_decimal(arg, &number) && number >= min && number <= max) {
        *ret_number = number;
        return true;
    }
    once__out_bad(request, out, "%s from %" PRId64 " to %" PRId64 ", not '%s'", what, min, max,
                  once__arg_echo(arg).text);
    return false;
}

struct once__echo once__arg_echo(struct once_bytes arg)
{
    struct once__echo echo;
    const size_t end = sizeof(echo.text) - 4; /* room for "..." */
    size_t size = 0;

    for (size_t i = 0; i < arg.size; i++) {
        uint8_t c = arg.data[i];
        bool plain = c >= 0x20 && c < 0x7f;

        if (size + (plain ? 2 : 4) > end) {
            memcpy(echo.text + size, "...", 3);
            size += 3;
            break;
        }
        if (c == '\\' || c == '\'')
            echo.text[size++] = '\\';
        if (plain)
            echo.text[size++] = (char)c;
        else
            size += (size_t)snprintf(echo.text + size, 5, "\\x%02x", c);
    }
    echo.text[size] = '\0';
    return echo;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

void once__out_bad(const struct once__request *request, struct once__out *out, const char *format,
                   ...)
{
    const struct once__command *command = request->command;
    char text[480];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    once__out_error(out, "ERR", "%s%s%s: %.420s (%s)", command->parent ? command->parent : "",
                    command->parent ? " " : "", command->name, text,
                    once_err_name(ONCE_ERR_INVALID));
}

void once__out_wrong_count(const struct once__request *request, struct once__out *out)
{
    once__out_error(out, "ERR", "wrong number of arguments for '%s' command",
                    once__command_full_name(request->command));
}

/* The first word of an error, which clients look at. */
static const char *code_of(int err)
{
    switch (err) {
    case ONCE_ERR_DENIED:
        return "NOPERM";
    case ONCE_ERR_LOADING:
        return "LOADING";
    case ONCE_ERR_FULL:
    case ONCE_ERR_SPACE:
    case ONCE_ERR_KEYS:
    case ONCE_ERR_MEMORY:
        return "FULL";
    case ONCE_ERR_TOO_LARGE:
        return "TOOBIG";
    case ONCE_ERR_STOPPED:
    case ONCE_ERR_IO:
    case ONCE_ERR_CLOSED:
        return "STOPPED";
    default:
        return "ERR";
    }
}

void once__out_call_error(struct once__out *out, const struct once_reply *reply)
{
    const char *text = reply->what ? reply->what : once_err_text(reply->err);
    const char *name = once_err_name(reply->err);

    if (reply->err == ONCE_ERR_RATE)
        once__out_error(out, "RATE", "%" PRId64 " %s (%s)", reply->retry_ms, text, name);
    else if (reply->effect > 0)
        once__out_error(out, code_of(reply->err), "effect %" PRIu32 ": %s (%s)", reply->effect,
                        text, name);
    else
        once__out_error(out, code_of(reply->err), "%s (%s)", text, name);
}

void once__out_err(struct once__out *out, int err, const char *what)
{
    once__out_call_error(out, &(struct once_reply){.err = err, .what = what});
}

void once__out_raw(struct once__out *out, struct once_bytes bytes)
{
    if (once_buf_append(&out->buf, bytes.data, bytes.size) != ONCE_OK)
        out->failed = true;
}
