/* SPDX-License-Identifier: Apache-2.0
 *
 * `once check`: shows what engine/check.h finds in a store, and asks before it repairs.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "engine/check.h"
#include "object/object.h"

static const char check_help[] =
    "usage: once check [--dir DIR] [--repair [--yes]] [--json]\n"
    "\n"
    "Reads the whole store and verifies it: the store file, every segment, batch and record with\n"
    "its check, the chain through all of them, the order of time and fences, the sidecars against\n"
    "the log, the snapshot of objects and the numbers of their changes, the sizes of files. "
    "Nobody\n"
    "else may use the store meanwhile; to check one that is in use, check a copy (once backup).\n"
    "Without --repair nothing is changed.\n"
    "\n" CLI_HELP_DIR
    "  --repair   say what would be given up, ask, and mend what can be mended; the damaged files\n"
    "             are kept as FILE.damaged\n"
    "  --yes      do not ask\n"
    "  --json     one JSON object for machines, errors too\n"
    "\n"
    "exit status: 0 clean, or repaired and clean now; 64 usage; 66 no store; 69 in use by another\n"
    "process, or a disk failed; 70 damaged; 71 out of memory, or an output that cannot be "
    "written.\n";

enum option { OPTION_JSON, OPTION_DIR, OPTION_REPAIR, OPTION_YES };

static const struct cli_option check_options[] = {
    {"--json", NULL, OPTION_JSON},
    {"--dir", "DIR", OPTION_DIR},
    {"--repair", NULL, OPTION_REPAIR},
    {"--yes", NULL, OPTION_YES},
};

struct check_args {
    bool json, repair, yes;
    const char *dir;
};

static const char *kind_name(enum once__finding_kind kind)
{
    static const char *const names[] = {
        [ONCE__FINDING_STORE] = "store file",  [ONCE__FINDING_SIZE] = "size",
        [ONCE__FINDING_HEADER] = "header",     [ONCE__FINDING_MISSING] = "missing segment",
        [ONCE__FINDING_BATCH] = "batches",     [ONCE__FINDING_CHAIN] = "chain",
        [ONCE__FINDING_ORDER] = "order",       [ONCE__FINDING_LINK] = "link",
        [ONCE__FINDING_SIDECAR] = "sidecar",   [ONCE__FINDING_TORN] = "torn tail",
        [ONCE__FINDING_STRAY] = "stray file",  [ONCE__FINDING_LEFTOVER] = "leftover",
        [ONCE__FINDING_GIVEN_UP] = "given up", [ONCE__FINDING_SNAPSHOT] = "snapshot",
        [ONCE__FINDING_CHANGES] = "changes",
    };

    return names[kind];
}

/* {in JSON, for a person} */
struct remedy_text {
    const char *name;
    const char *text;
};

static struct remedy_text remedy_text(enum once__remedy remedy)
{
    static const struct remedy_text texts[] = {
        [ONCE__REMEDY_NOTHING] = {"nothing", "nothing needs to be done"},
        [ONCE__REMEDY_NONE] = {"none", "repair cannot mend this: restore a backup"},
        [ONCE__REMEDY_NEW_STORE] = {"new_store_file",
                                    "repair writes a new store file; nothing is lost"},
        [ONCE__REMEDY_SPARE] = {"spare",
                                "repair makes it a spare file; the log as far as it can be "
                                "followed does not need it"},
        [ONCE__REMEDY_EXTEND] =
            {"extend", "repair extends the file; what lay behind its end is gone already"},
        [ONCE__REMEDY_NEW_HEADER] = {"new_header",
                                     "repair writes the header again; nothing is lost by that"},
        [ONCE__REMEDY_DELETE] = {"delete_sidecar",
                                 "repair deletes it and the engine makes it again; nothing is "
                                 "lost"},
        [ONCE__REMEDY_GIVE_UP] = {"give_up", "repair gives these batches up"},
        [ONCE__REMEDY_NEW_SEGMENT] = {"new_segment", "repair gives this segment up"},
        [ONCE__REMEDY_NEW_SNAPSHOT] = {"new_snapshot",
                                       "repair writes the snapshot again, with what can be read of "
                                       "it; the changes of the log make the objects from that"},
    };

    return texts[remedy];
}

static bool loses(const struct once__finding *finding)
{
    return finding->remedy == ONCE__REMEDY_GIVE_UP || finding->remedy == ONCE__REMEDY_NEW_SEGMENT ||
           finding->remedy == ONCE__REMEDY_NEW_SNAPSHOT;
}

static uint64_t lost_count(const struct once__loss *loss)
{
    return loss->readable - loss->replaced + loss->unreadable;
}

/* ---- Text ------------------------------------------------------------------------------------ */

struct showing {
    const struct check_args *args;
    const struct once__check *check;
    bool first; /* in a JSON array */
    uint64_t lost;
    uint64_t changes, objects; /* that are lost too */
    bool more, more_objects;
    int err;
};

static void add_loss(struct showing *showing, const struct once__finding *finding)
{
    const struct once__loss *loss = &finding->loss;

    showing->lost += lost_count(loss);
    showing->changes += loss->changes;
    showing->objects += loss->objects;
    if (finding->remedy == ONCE__REMEDY_NEW_SNAPSHOT)
        showing->more_objects = showing->more_objects || loss->more;
    else
        showing->more = showing->more || loss->more;
}

static bool loses_any(const struct showing *showing)
{
    return showing->lost > 0 || showing->changes > 0 || showing->objects > 0 || showing->more ||
           showing->more_objects;
}

/* Calls each for the object of every edit. */
static void each_object(struct once_bytes edits,
                        void (*each)(void *user, struct once_bytes name, bool first), void *user)
{
    size_t offset = 0;
    bool first = true;

    while (offset < edits.size) {
        struct once_defect defect;
        struct once__edit edit;

        if (once__edit_decode(edits, &offset, &edit, &defect) != ONCE_OK)
            return;
        each(user, edit.name, first);
        first = false;
    }
}

static void print_name(struct once_bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] >= 0x20 && name.data[i] <= 0x7e)
            putchar(name.data[i]);
        else
            printf("\\x%02x", name.data[i]);
    }
}

static void print_object(void *user, struct once_bytes name, bool first)
{
    (void)user;
    fputs(first ? " " : ", ", stdout);
    print_name(name);
}

static void print_lost(void *user, const struct once__lost *lost)
{
    (void)user;
    if (lost->operation) {
        fputs("      ", stdout);
        print_name(lost->record->ns);
        putchar(' ');
        print_name(lost->record->key);
        printf("  %s%s\n", once_state_name(lost->record->record.state),
               lost->goes_back ? ", goes back to its record before" : "");
    }
    if (lost->change) {
        printf("      change %" PRIu64 " of objects:", lost->record->change);
        each_object(lost->record->edits, print_object, NULL);
        putchar('\n');
    }
}

static void print_lost_objects(const struct once__loss *loss)
{
    if (loss->objects > 0)
        printf("    lost: at least %" PRIu64 " %s; others may be incomplete\n", loss->objects,
               loss->objects == 1 ? "object" : "objects");
    else if (loss->more)
        puts("    lost: nobody can count how many objects; others may be incomplete");
    else if (loss->changes > 0)
        printf("    lost: %" PRIu64 " %s of objects\n", loss->changes,
               loss->changes == 1 ? "change" : "changes");
    else
        puts("    lost: nothing that is known");
}

static void print_loss(const struct once__loss *loss)
{
    printf("    lost: %" PRIu64 " %s, %s%" PRIu64 " %s", loss->batches,
           loss->batches == 1 ? "batch" : "batches", loss->more ? "at least " : "",
           lost_count(loss), lost_count(loss) == 1 && !loss->more ? "operation" : "operations");
    if (loss->replaced > 0)
        printf(" (%" PRIu64 " more records are replaced by later ones)", loss->replaced);
    if (loss->unreadable > 0)
        printf(" (%" PRIu64 " of them cannot be named)", loss->unreadable);
    if (loss->changes > 0)
        printf(", %" PRIu64 " %s of objects", loss->changes,
               loss->changes == 1 ? "change" : "changes");
    puts(loss->readable > loss->replaced || loss->changes > 0 ? ":" : "");
}

static void print_finding(void *user, const struct once__finding *finding)
{
    struct showing *showing = user;

    printf("  %s: %s, %s", once__finding_is_damage(finding) ? "damaged" : "note",
           cli_echo(finding->file).text, kind_name(finding->kind));
    if (finding->sequence > 0)
        printf(", segment %" PRIu64, finding->sequence);
    printf(", offset %" PRIu64, finding->offset);
    if (finding->size > 0)
        printf(", %" PRIu64 " bytes", finding->size);
    printf("\n    %s\n", finding->what);
    if (!once__finding_is_damage(finding))
        return;
    printf("    %s\n", remedy_text(finding->remedy).text);
    if (!loses(finding))
        return;
    if (finding->remedy == ONCE__REMEDY_NEW_SNAPSHOT)
        print_lost_objects(&finding->loss);
    else
        print_loss(&finding->loss);
    add_loss(showing, finding);
    if (showing->err == ONCE_OK)
        showing->err = once__check_lost(showing->check, finding, print_lost, NULL);
}

static void print_summary(const char *folder, const struct once__check_summary *summary)
{
    printf(
        "%s: segments %" PRIu64 " to %" PRIu64 " (%" PRIu64 " files, %" PRIu64 " spare), %" PRIu64
        " batches, %" PRIu64 " records, %" PRIu64 " sidecars, %" PRIu64 " bytes\n",
        cli_echo(folder).text, summary->oldest, summary->newest, summary->segments, summary->spares,
        summary->batches, summary->records, summary->sidecars, summary->disk_size);
    if (summary->last_change > 0 || summary->snapshot_size > 0)
        printf("%s: %" PRIu64 " objects, changes up to %" PRIu64 " (%" PRIu64
               " in the log), a snapshot of %" PRIu64 " bytes\n",
               cli_echo(folder).text, summary->objects, summary->last_change, summary->changes,
               summary->snapshot_size);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_json_lost(void *user, const struct once__lost *lost)
{
    bool *first = user;

    if (!lost->operation)
        return;
    fputs(*first ? "{\"namespace\":" : ",{\"namespace\":", stdout);
    *first = false;
    cli_json_string(stdout, lost->record->ns);
    fputs(",\"key\":", stdout);
    cli_json_string(stdout, lost->record->key);
    printf(",\"state\":\"%s\",\"fence\":%" PRIu64 ",\"goes_back\":%s}",
           once_state_name(lost->record->record.state), lost->record->record.fence,
           lost->goes_back ? "true" : "false");
}

static void print_json_object(void *user, struct once_bytes name, bool first)
{
    (void)user;
    if (!first)
        putchar(',');
    cli_json_string(stdout, name);
}

static void print_json_change(void *user, const struct once__lost *lost)
{
    bool *first = user;

    if (!lost->change)
        return;
    printf("%s{\"change\":%" PRIu64 ",\"objects\":[", *first ? "" : ",", lost->record->change);
    *first = false;
    each_object(lost->record->edits, print_json_object, NULL);
    fputs("]}", stdout);
}

static void print_json_finding(void *user, const struct once__finding *finding)
{
    struct showing *showing = user;
    const struct once__loss *loss = &finding->loss;
    bool first = true;

    fputs(showing->first ? "{\"file\":" : ",{\"file\":", stdout);
    showing->first = false;
    cli_json_string(stdout, once_bytes_of(finding->file));
    printf(",\"kind\":\"%s\",\"damage\":%s,\"segment\":%" PRIu64 ",\"offset\":%" PRIu64
           ",\"size\":%" PRIu64 ",\"what\":",
           kind_name(finding->kind), once__finding_is_damage(finding) ? "true" : "false",
           finding->sequence, finding->offset, finding->size);
    cli_json_string(stdout, once_bytes_of(finding->what));
    printf(",\"remedy\":\"%s\"", remedy_text(finding->remedy).name);
    if (loses(finding)) {
        printf(",\"lost\":{\"batches\":%" PRIu64 ",\"operations\":%" PRIu64 ",\"at_least\":%s"
               ",\"replaced\":%" PRIu64 ",\"unnamed\":%" PRIu64 ",\"changes\":%" PRIu64
               ",\"objects\":%" PRIu64 ",\"named\":[",
               loss->batches, lost_count(loss), loss->more ? "true" : "false", loss->replaced,
               loss->unreadable, loss->changes, loss->objects);
        if (showing->err == ONCE_OK)
            showing->err = once__check_lost(showing->check, finding, print_json_lost, &first);
        fputs("],\"changed\":[", stdout);
        first = true;
        if (showing->err == ONCE_OK)
            showing->err = once__check_lost(showing->check, finding, print_json_change, &first);
        fputs("]}", stdout);
        add_loss(showing, finding);
    }
    putchar('}');
}

static void print_json_head(const char *folder, const struct once__check_summary *summary)
{
    fputs("{\"store\":", stdout);
    cli_json_string(stdout, once_bytes_of(folder));
    printf(",\"oldest\":%" PRIu64 ",\"newest\":%" PRIu64 ",\"segments\":%" PRIu64
           ",\"spares\":%" PRIu64 ",\"batches\":%" PRIu64 ",\"records\":%" PRIu64
           ",\"sidecars\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"last_fence\":%" PRIu64
           ",\"now_ms\":%" PRId64 ",\"objects\":%" PRIu64 ",\"changes\":%" PRIu64
           ",\"last_change\":%" PRIu64 ",\"snapshot_bytes\":%" PRIu64 ",\"damages\":%" PRIu64
           ",\"findings\":[",
           summary->oldest, summary->newest, summary->segments, summary->spares, summary->batches,
           summary->records, summary->sidecars, summary->disk_size, summary->last_fence,
           summary->now_ms, summary->objects, summary->changes, summary->last_change,
           summary->snapshot_size, summary->damages);
}

/* ---- Repairing ------------------------------------------------------------------------------- */

static void print_step(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "  %s\n", text);
}

/* Only a person at a terminal, or --yes, may give operations up. */
static bool may_repair(const struct check_args *args, const struct showing *showing)
{
    char answer[16] = "";

    if (args->yes)
        return true;
    fflush(stdout);
    fprintf(stderr, "Repair, and give up %s%" PRIu64 " operations",
            showing->more ? "at least " : "", showing->lost);
    if (showing->changes > 0)
        fprintf(stderr, ", %" PRIu64 " changes of objects", showing->changes);
    if (showing->objects > 0 || showing->more_objects)
        fprintf(stderr, ", at least %" PRIu64 " objects", showing->objects);
    fputs("? [y/N] ", stderr);
    if (!fgets(answer, sizeof(answer), stdin))
        return false;
    return answer[0] == 'y' || answer[0] == 'Y';
}

/* A large store takes a while. */
static int check_watched(struct once__vfs *vfs, const char *what, struct once__check **ret_check,
                         struct once_message *ret_message)
{
    struct cli_progress progress;
    int err;

    cli_progress_start(&progress, what);
    err = once__check_new_watched(vfs, cli_progress_bytes, &progress, ret_check, ret_message);
    cli_progress_wipe(&progress);
    return err;
}

/* Mends, and looks whether all is well then. */
static int repair(const char *folder, struct once__vfs *vfs, struct once__check *check)
{
    struct once_message message = {{0}};
    struct once__check *again = NULL;
    int status, err = once__check_repair(check, print_step, NULL, &message);

    if (err == ONCE_OK)
        err = check_watched(vfs, "checking again", &again, &message);
    if (err != ONCE_OK) {
        (void)cli_message(&cli_check, 0, "%s", message.text);
        return cli_store_status(err);
    }
    status = once__check_summary(again)->damages == 0 ? CLI_OK : CLI_DAMAGED;
    if (status != CLI_OK)
        (void)cli_message(&cli_check, status,
                          "'%s' is still damaged (%" PRIu64 " findings): check it again",
                          cli_echo(folder).text, once__check_summary(again)->damages);
    else
        fprintf(stderr, "%s: repaired, and clean now\n", cli_echo(folder).text);
    once__check_free(again);
    return status;
}

static int decide(const struct check_args *args, const char *folder, struct once__vfs *vfs,
                  struct once__check *check, const struct showing *showing)
{
    const struct once__check_summary *summary = once__check_summary(check);

    if (summary->damages == 0)
        return CLI_OK;
    if (!args->repair || summary->repairs == 0)
        return CLI_DAMAGED;
    if (!may_repair(args, showing)) {
        fputs("Nothing was changed.\n", stderr);
        return CLI_DAMAGED;
    }
    return repair(folder, vfs, check);
}

static int show(const struct check_args *args, const char *folder, struct once__vfs *vfs,
                struct once__check *check)
{
    const struct once__check_summary *summary = once__check_summary(check);
    struct showing showing = {.args = args, .check = check, .first = true};
    int status;

    if (args->json)
        print_json_head(folder, summary);
    else
        print_summary(folder, summary);
    once__check_findings(check, args->json ? print_json_finding : print_finding, &showing);
    if (!args->json && summary->damages == 0)
        printf("%s: clean\n", cli_echo(folder).text);
    if (!args->json && summary->damages > 0 && !args->repair)
        printf("%s: damaged; once check --repair mends %" PRIu64 " of %" PRIu64 " findings%s\n",
               cli_echo(folder).text, summary->repairs, summary->damages,
               loses_any(&showing) ? " and gives up what is lost" : "");
    status = showing.err == ONCE_OK ? decide(args, folder, vfs, check, &showing)
                                    : cli_store_status(showing.err);
    if (args->json)
        printf("],\"repaired\":%s,\"exit_status\":%d}\n",
               summary->damages > 0 && status == CLI_OK ? "true" : "false", status);
    return status;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static int read_args(int argc, char **argv, struct check_args *ret_args)
{
    struct check_args args = {0};
    struct cli_args reader = CLI_ARGS(&cli_check, check_options, argc, argv);
    const char *value;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        if (got == CLI_ARG_VALUE)
            return cli_usage(&cli_check, "'%s' is no option; the folder goes behind --dir",
                             cli_echo(value).text);
        args.json = args.json || got == OPTION_JSON;
        args.repair = args.repair || got == OPTION_REPAIR;
        args.yes = args.yes || got == OPTION_YES;
        if (got == OPTION_DIR)
            args.dir = value;
    }
    if (args.yes && !args.repair)
        return cli_usage(&cli_check, "--yes answers what --repair asks");
    if (args.repair && !args.yes && !isatty(STDIN_FILENO))
        return cli_usage(&cli_check,
                         "--repair asks before it gives anything up, and there is no terminal: "
                         "look at what `once check` says, then add --yes");
    *ret_args = args;
    return CLI_OK;
}

static int check_run(int argc, char **argv)
{
    struct check_args args = {0};
    struct once_message message = {{0}};
    struct once__check *check = NULL;
    struct once__vfs *vfs = NULL;
    char *folder = NULL;
    int err, status = read_args(argc, argv, &args);

    if (status == CLI_OK)
        status = cli_folder(&cli_check, args.dir, &folder);
    if (status == CLI_OK)
        status = cli_folder_take(&cli_check, folder, &vfs);
    if (status == CLI_OK) {
        err = check_watched(vfs, "checking", &check, &message);
        status = err == ONCE_OK ? show(&args, folder, vfs, check)
                                : cli_store_error(&cli_check, err, &message);
    }
    once__check_free(check);
    if (vfs)
        vfs->ops->free(vfs);
    free(folder);
    return status;
}

const struct cli_command cli_check = {
    .name = "check",
    .summary = "verify a store; repair a damaged one",
    .help = check_help,
    .run = check_run,
    .options = check_options,
    .option_count = sizeof(check_options) / sizeof(check_options[0]),
};
