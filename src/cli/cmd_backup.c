/* SPDX-License-Identifier: Apache-2.0
 *
 * `once backup`: copies a store, in use or not, into a new folder. The work is once_backup's.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <once/store.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/options.h"
#include "cli/progress.h"

static const char backup_help[] =
    "usage: once backup [--dir DIR] [--json] TARGET\n"
    "\n"
    "Copies the store into the new folder TARGET, also while another process is using it: nobody\n"
    "waits, nothing in the store changes. What was told before the command began is in the copy.\n"
    "The copy is made as TARGET.partial and gets its name when every byte is durable and the "
    "whole\n"
    "has been read back, so TARGET is a good copy or it is not there.\n"
    "\n"
    "To restore, stop whoever uses the store and copy the folder back in its place.\n"
    "\n" CLI_HELP_DIR "  --json     one JSON object for machines, errors too\n"
    "  --         what follows is no option, even if it begins with a dash\n"
    "\n"
    "exit status: 0 copied; 64 usage, or TARGET is there already; 66 no store; 69 a disk failed "
    "or\n"
    "is full; 70 the store is damaged; 71 out of memory, or an output that cannot be written.\n";

enum option { OPTION_JSON, OPTION_DIR };

static const struct cli_option backup_options[] = {
    {"--json", NULL, OPTION_JSON},
    {"--dir", "DIR", OPTION_DIR},
};

struct backup_args {
    bool json;
    const char *dir;
    const char *target;
};

static int read_args(int argc, char **argv, struct backup_args *ret_args)
{
    struct backup_args args = {0};
    struct cli_args reader = CLI_ARGS(&cli_backup, backup_options, argc, argv);
    const char *value;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        if (got == OPTION_JSON)
            args.json = true;
        else if (got == OPTION_DIR)
            args.dir = value;
        else if (args.target)
            return cli_usage(&cli_backup, "one target at a time; '%s' is a second one",
                             cli_echo(value).text);
        else
            args.target = value;
    }
    if (!args.target)
        return cli_usage(&cli_backup, "where to? Name a folder that is not there yet");
    *ret_args = args;
    return CLI_OK;
}

static int backup_run(int argc, char **argv)
{
    struct backup_args args = {0};
    struct cli_progress progress;
    struct once_message message = {{0}};
    char *folder = NULL;
    int err, status = read_args(argc, argv, &args);

    if (status == CLI_OK)
        status = cli_folder(&cli_backup, args.dir, &folder);
    if (status != CLI_OK)
        return status;
    cli_progress_start(&progress, "copying");
    err = once_backup(folder, args.target, cli_progress_bytes, &progress, &message);
    cli_progress_wipe(&progress);
    if (err != ONCE_OK) {
        status = cli_store_error(&cli_backup, err, &message);
    } else if (args.json) {
        fputs("{\"store\":", stdout);
        cli_json_string(stdout, once_bytes_of(folder));
        fputs(",\"target\":", stdout);
        cli_json_string(stdout, once_bytes_of(args.target));
        printf(",\"bytes\":%" PRIu64 "}\n", progress.done);
    } else {
        printf("%s: copied, %" PRIu64 " bytes read\n", cli_echo(args.target).text, progress.done);
    }
    free(folder);
    return status;
}

const struct cli_command cli_backup = {
    .name = "backup",
    .summary = "copy a store, also while it is in use",
    .help = backup_help,
    .run = backup_run,
    .options = backup_options,
    .option_count = sizeof(backup_options) / sizeof(backup_options[0]),
};
