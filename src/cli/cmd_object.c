/* SPDX-License-Identifier: Apache-2.0
 *
 * `once object`: its arguments, and which action they mean. Changing objects is `once apply`'s;
 * here they are shown, and the mergeable ones exchanged with other stores.
 */
#include "cli/cmd_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <once/key.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/options.h"

static const char object_help[] =
    "usage: once object [--dir DIR | --server ADDR] [--json]    names and types of all objects\n"
    "       once object [show] NAME                             one object\n"
    "       once object NAME --after N --count N                events, messages or buckets\n"
    "       once object delta NAME [--since N] >FILE            what came to it since version N\n"
    "       once object merge NAME TYPE <FILE                   a state or a delta comes to it\n"
    "       once object changes [--since CURSOR] >FILE          what came to all of them\n"
    "       once object merge <FILE                             what `changes` gave comes to them\n"
    "       once object sync OTHER                              exchanges all, until both are "
    "equal:\n"
    "                                                           a folder, or a server's address "
    "with "
    "a\n"
    "                                                           scheme (tcp://, tls://) or its "
    "socket\n"
    "\n"
    "Shows Once's own objects, which `once apply` changes. Mergeable ones (max min flag gset vv "
    "lww\n"
    "gcounter pncounter awset mvreg map) can be exchanged between stores, in any order and any\n"
    "number of times; after a sync both stores have the same. An object that is named like an\n"
    "action (show, merge, ...) is shown with `once object show NAME`.\n"
    "\n"
    "  once object acct:42\n"
    "  once object charges --after 0 --count 10\n"
    "  once object delta visitors | once object merge visitors gset --dir /backup/once\n"
    "  once object sync /mnt/other/once\n"
    "  once object sync tls://replica.example:7411\n"
    "\n"
    "  --after N  read behind this number; of buckets: skip so many (default: 0)\n"
    "  --count N  read at most so many, up to 1000 (default: 100)\n"
    "  --since N  a version, or of `changes` a cursor; both are told with what was "
    "given\n" CLI_HELP_DIR CLI_HELP_SERVER
    "  --json     one JSON object for machines, errors too; bytes are in base64\n"
    "  --         what follows is no option, even if it begins with a dash\n"
    "\n"
    "exit status: 0 shown, merged or equal; 64 usage, bytes that are no state, an object of "
    "another\n"
    "type; 66 no store, no such object; 69 the store is in use, full, or its disk failed; 70 the\n"
    "store is damaged; 71 out of memory, or an output that cannot be written.\n";

enum { COUNT_DEFAULT = 100 };

enum option { OPTION_JSON, OPTION_DIR, OPTION_SERVER, OPTION_AFTER, OPTION_COUNT, OPTION_SINCE };

static const struct cli_option object_options[] = {
    {"--json", NULL, OPTION_JSON},       {"--dir", "DIR", OPTION_DIR},
    {"--server", "ADDR", OPTION_SERVER}, {"--after", "N", OPTION_AFTER},
    {"--count", "N", OPTION_COUNT},      {"--since", "N", OPTION_SINCE},
};

/* ---- Actions --------------------------------------------------------------------------------- */

struct action {
    const char *name;
    size_t values_min, values_max;
    const char *usage;
    int (*run)(const struct object_args *args, struct cli_reach *reach); /* NULL: sync */
    bool pages;    /* takes --after and --count */
    bool since;    /* takes --since */
    bool may_make; /* a store that is not there is made */
};

static const struct action actions[] = {
    {"show", 1, 1, "show NAME", object_show, .pages = true},
    {"merge", 0, 2, "merge NAME TYPE <FILE", object_merge, .may_make = true},
    {"delta", 1, 1, "delta NAME [--since N] >FILE", object_delta, .since = true},
    {"changes", 0, 0, "changes [--since CURSOR] >FILE", object_changes, .since = true},
    {"sync", 1, 1, "sync OTHER", .run = NULL},
};
static const struct action show_all = {"list", 0, 0, "", object_list, .pages = true};

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    }
    return NULL;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static int read_number(const char *option, const char *value, uint64_t min, uint64_t max,
                       uint64_t *ret_number)
{
    if (cli_number(value, min, max, ret_number))
        return CLI_OK;
    return cli_usage(&cli_object, "%s takes a number from %llu to %llu, not '%s'", option,
                     (unsigned long long)min, (unsigned long long)max, cli_echo(value).text);
}

static int check_args(const struct object_args *args, const struct action *action,
                      size_t value_count)
{
    if (value_count < action->values_min || (action->run == object_merge && value_count == 1))
        return cli_usage(&cli_object, "%s needs more: once object %s", action->name, action->usage);
    if (args->page && !action->pages)
        return cli_usage(&cli_object, "--after and --count are for reading an object, not for %s",
                         action->name);
    if (args->since && !action->since)
        return cli_usage(&cli_object, "--since is for delta and changes, not for %s%s",
                         action->name, action->pages ? "; --after reads on" : "");
    return CLI_OK;
}

/* What is not an option: an action with what belongs to it, or a name, or nothing. */
struct values {
    const struct action *action;
    size_t count; /* behind the action */
};

static int take_value(const char *value, struct object_args *args, struct values *values)
{
    if (!values->action) {
        values->action = find_action(value);
        if (values->action)
            return CLI_OK;
        values->action = &actions[0];
    }
    if (values->count >= values->action->values_max)
        return cli_usage(&cli_object, "'%s' is one too many: once object %s", cli_echo(value).text,
                         values->action->usage);
    args->values[values->count++] = value;
    return CLI_OK;
}

static int read_args(int argc, char **argv, struct object_args *args,
                     const struct action **ret_action)
{
    struct cli_args reader = CLI_ARGS(&cli_object, object_options, argc, argv);
    struct values values = {0};
    const char *value;
    int got, status = CLI_OK;

    args->count = COUNT_DEFAULT;
    while (status == CLI_OK && (got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        args->json = args->json || got == OPTION_JSON;
        args->page = args->page || got == OPTION_AFTER || got == OPTION_COUNT;
        if (got == OPTION_DIR)
            args->where.dir = value;
        else if (got == OPTION_SERVER)
            args->where.server = value;
        else if (got == OPTION_SINCE)
            args->since = value;
        else if (got == OPTION_AFTER)
            status = read_number("--after", value, 0, UINT64_MAX, &args->after);
        else if (got == OPTION_COUNT)
            status = read_number("--count", value, 1, ONCE_LIST_COUNT_MAX, &args->count);
        else if (got == CLI_ARG_VALUE)
            status = take_value(value, args, &values);
    }
    *ret_action = values.action ? values.action : &show_all;
    return status == CLI_OK ? check_args(args, *ret_action, values.count) : status;
}

static int check_name(const struct object_args *args, const struct action *action)
{
    struct once_defect defect;

    if (!action->run || !args->values[0])
        return CLI_OK;
    if (once_key_check(once_bytes_of(args->values[0]), &defect) != ONCE_OK)
        return cli_usage(&cli_object, "the name '%s', character %zu: %s",
                         cli_echo(args->values[0]).text, defect.offset + 1, defect.what);
    return CLI_OK;
}

/* ---- Shared ---------------------------------------------------------------------------------- */

int object_error(const struct object_args *args, int err, const char *what)
{
    const char *text = what ? what : once_err_text(err);

    if (!args->values[0])
        return cli_error(&cli_object, cli_store_status(err), "%s", text);
    return cli_error(&cli_object, cli_store_status(err), "'%s': %s", cli_echo(args->values[0]).text,
                     text);
}

int object_call_error(const struct object_args *args, const struct cli_reach *reach, int err)
{
    return object_error(args, err, cli_reach_text(reach, err));
}

int object_get(const struct object_args *args, struct cli_reach *reach,
               struct once_object *ret_object)
{
    struct once_object object = {0};
    int err = cli_reach_get(reach, once_bytes_of(args->values[0]), &object);

    if (err != ONCE_OK)
        return object_call_error(args, reach, err);
    if (object.type == ONCE_OBJECT_NONE) {
        once_object_release(&object);
        return object_error(args, ONCE_ERR_NO_OBJECT,
                            "there is no such object; `once object` lists them, `once apply` "
                            "makes one by its first use");
    }
    *ret_object = object;
    return CLI_OK;
}

static int object_run(int argc, char **argv)
{
    struct object_args args = {0};
    const struct action *action = NULL;
    struct cli_reach reach = {0};
    int status = read_args(argc, argv, &args, &action);

    if (status == CLI_OK)
        status = check_name(&args, action);
    if (status == CLI_OK && !action->run)
        return object_sync(&args);
    if (status == CLI_OK)
        status = cli_reach_open(&cli_object, &args.where, action->may_make, &reach);
    if (status == CLI_OK)
        status = action->run(&args, &reach);
    return cli_reach_close(&cli_object, &reach, status);
}

const struct cli_command cli_object = {
    .name = "object",
    .summary = "show objects; exchange them with another store",
    .help = object_help,
    .run = object_run,
    .options = object_options,
    .option_count = sizeof(object_options) / sizeof(object_options[0]),
    .words = "show merge delta changes sync",
};
