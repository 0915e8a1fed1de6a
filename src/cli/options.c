/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads arguments. A dash alone is a value (the standard input), and so is a dash before a digit: a
 * number that somebody got wrong is better told so than called an option.
 */
#include "cli/options.h"

#include <string.h>

#include "base/nearest.h"
#include "cli/echo.h"

static bool is_option(const char *arg)
{
    return arg[0] == '-' && arg[1] != '\0' && !(arg[1] >= '0' && arg[1] <= '9');
}

static const struct cli_option *find(const struct cli_args *args, const char *name, size_t size)
{
    for (size_t i = 0; i < args->option_count; i++) {
        const struct cli_option *option = &args->options[i];

        if (strlen(option->name) == size && memcmp(option->name, name, size) == 0)
            return option;
    }
    return NULL;
}

static int tell_unknown(const struct cli_args *args, const char *arg, size_t size)
{
    struct once__nearest nearest = {.typed = arg, .size = size};

    for (size_t i = 0; i < args->option_count; i++)
        once__nearest_try(&nearest, args->options[i].name);
    if (nearest.best != NULL)
        (void)cli_usage(args->command, "there is no option '%s' here; did you mean %s?",
                        cli_echo(arg).text, nearest.best);
    else
        (void)cli_usage(args->command, "there is no option '%s' here%s", cli_echo(arg).text,
                        arg[1] == '-' ? "" : "; a value that begins with a dash goes behind --");
    return CLI_ARG_WRONG;
}

static int read_option(struct cli_args *args, const char *arg, const char **ret_value)
{
    const char *equals = strchr(arg, '=');
    const char *value = equals != NULL ? equals + 1 : NULL;
    size_t size = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
    const struct cli_option *option = find(args, arg, size);

    if (option == NULL)
        return tell_unknown(args, arg, size);
    if (option->value == NULL && value != NULL) {
        (void)cli_usage(args->command, "%s takes no value: '%s'", option->name, cli_echo(arg).text);
        return CLI_ARG_WRONG;
    }
    if (option->value != NULL && value == NULL) {
        if (args->next >= args->argc) {
            (void)cli_usage(args->command, "%s needs a value: %s %s", option->name, option->name,
                            option->value);
            return CLI_ARG_WRONG;
        }
        value = args->argv[args->next++];
    }
    *ret_value = value;
    return option->id;
}

int cli_args_next(struct cli_args *args, const char **ret_value)
{
    const char *arg;

    if (!args->options_end && args->next < args->argc &&
        strcmp(args->argv[args->next], "--") == 0) {
        args->options_end = true;
        args->next++;
    }
    if (args->next >= args->argc)
        return CLI_ARG_END;
    arg = args->argv[args->next++];
    if (!args->options_end && is_option(arg))
        return read_option(args, arg, ret_value);
    *ret_value = arg;
    return CLI_ARG_VALUE;
}

bool cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        if (__builtin_mul_overflow(number, 10U, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number))
            return false;
    }
    if (number < min || number > max)
        return false;
    *ret_number = number;
    return true;
}

bool cli_duration(const char *text, once_ms max_ms, once_ms *ret_ms)
{
    static const struct {
        const char *name;
        once_ms ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    char digits[24];
    size_t size = strspn(text, "0123456789");
    uint64_t number;

    if (size >= sizeof(digits))
        return false;
    memcpy(digits, text, size);
    digits[size] = '\0';
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text + size, units[i].name) != 0)
            continue;
        if (!cli_number(digits, 1, (uint64_t)(max_ms / units[i].ms), &number))
            return false;
        *ret_ms = (once_ms)number * units[i].ms;
        return true;
    }
    return false;
}

bool cli_has_flag(int argc, char **argv, const char *flag)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], flag) == 0)
            return true;
    }
    return false;
}
