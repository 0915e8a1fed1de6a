/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading options. Allocates nothing: it is on the way of every ONCE.BEGIN.
 */
#include "server/resp_option.h"

#include <inttypes.h>
#include <stdio.h>

/* "FP, OWNER, TTL" */
static void name_all(const struct once__option *options, size_t count, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? ", " : "", options[i].name);
}

/* "a number of milliseconds from 1 to 604800000", "REJECT or RETRY", "at most 64 bytes" */
static void describe(const struct once__option *option, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    switch (option->kind) {
    case ONCE__OPTION_NUMBER:
        (void)snprintf(text, size, "%s from %" PRId64 " to %" PRId64, option->what, option->min,
                       option->max);
        break;
    case ONCE__OPTION_BYTES:
        (void)snprintf(text, size, "%s of %" PRId64 " to %" PRId64 " bytes", option->what,
                       option->min, option->max);
        break;
    case ONCE__OPTION_WORD:
        for (size_t i = 0; option->words[i] && at < size; i++)
            at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? " or " : "",
                                   option->words[i]);
        break;
    }
}

static bool read_value(const struct once__option *option, struct once_bytes arg,
                       struct once__option_value *value)
{
    value->bytes = arg;
    switch (option->kind) {
    case ONCE__OPTION_NUMBER:
        return once__arg_decimal(arg, &value->number) && value->number >= option->min &&
               value->number <= option->max;
    case ONCE__OPTION_BYTES:
        return arg.size >= (size_t)option->min && arg.size <= (size_t)option->max;
    case ONCE__OPTION_WORD:
        for (size_t i = 0; option->words[i]; i++) {
            value->number = (int64_t)i;
            if (once__arg_is(arg, option->words[i]))
                return true;
        }
        return false;
    }
    return false;
}

static bool wrong_value(const struct once__request *request, struct once__out *out,
                        const struct once__option *option, struct once_bytes arg)
{
    char text[200];

    describe(option, text, sizeof(text));
    if (option->kind == ONCE__OPTION_BYTES)
        once__out_bad(request, out, "%s must be %s, not of %zu", option->name, text, arg.size);
    else
        once__out_bad(request, out, "%s must be %s, not '%s'", option->name, text,
                      once__arg_echo(arg).text);
    return false;
}

static bool unknown_option(const struct once__request *request, struct once__out *out,
                           struct once_bytes arg, const char *stop,
                           const struct once__option *options, size_t count)
{
    char text[200];

    name_all(options, count, text, sizeof(text));
    once__out_bad(request, out, "unknown option '%s'; it knows %s%s%s", once__arg_echo(arg).text,
                  text, stop ? ", " : "", stop ? stop : "");
    return false;
}

bool once__options_read(const struct once__request *request, struct once__out *out, size_t at,
                        const char *stop, const struct once__option *options, size_t option_count,
                        struct once__option_value *values, size_t *ret_at)
{
    const struct once_bytes *args = request->args;

    for (; at < request->arg_count; at += 2) {
        const struct once__option *option;
        size_t i = 0;

        if (stop && once__arg_is(args[at], stop))
            break;
        while (i < option_count && !once__arg_is(args[at], options[i].name))
            i++;
        if (i == option_count)
            return unknown_option(request, out, args[at], stop, options, option_count);
        option = &options[i];
        if (values[i].given) {
            once__out_bad(request, out, "%s was given twice", option->name);
            return false;
        }
        if (at + 1 == request->arg_count) {
            char text[200];

            describe(option, text, sizeof(text));
            once__out_bad(request, out, "%s needs a value: %s", option->name, text);
            return false;
        }
        if (!read_value(option, args[at + 1], &values[i]))
            return wrong_value(request, out, option, args[at + 1]);
        values[i].given = true;
    }
    *ret_at = at;
    return true;
}
