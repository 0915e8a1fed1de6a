/* SPDX-License-Identifier: Apache-2.0
 *
 * `once laws`: prints what src/laws finds out. It decides nothing but the exit status.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/options.h"
#include "laws/laws.h"
#include "laws/plugin.h"

enum { TIMEOUT_S_DEFAULT = 30, TIMEOUT_S_MAX = 86400, FORM_COLUMNS = 42, SEED_DEFAULT = 1 };

static const char laws_help[] =
    "usage: once laws [--json] [--seed N]                 the table\n"
    "       once laws [--json] [--seed N] NAME            one operation or type in detail\n"
    "       once laws [--json] [--seed N] [--timeout S] PLUGIN\n"
    "\n"
    "Is it idempotent, commutative, associative, and does it need a key? For every operation that\n"
    "Once offers, for every mergeable type, and for a merge function of your own. The answers are\n"
    "computed by running the real code; where a law fails, the smallest counterexample is shown.\n"
    "\n"
    "NAME is an operation (ADD, SET, ...) or a type (gset, awset, ...).\n"
    "PLUGIN is a shared object that exports the three functions of <once/laws_plugin.h>; anything\n"
    "with a slash or ending in .so is one. It runs in a process of its own.\n"
    "\n"
    "  --json       one JSON object for machines, errors too\n"
    "  --seed N     other random cases; the same N tries the same ones (default 1)\n"
    "  --timeout S  how long a plugin may take in all, in seconds (default 30)\n"
    "  --           what follows is no option, even if it begins with a dash\n"
    "\n"
    "exit status: 0 shown, or all three laws of the plugin held; 1 a law of the plugin fails, or\n"
    "it crashed, hung or broke its contract; 64 usage, an unknown name, a plugin that cannot be\n"
    "loaded; 71 the table is wrong (a defect in Once), no memory, no process, or an output that\n"
    "cannot be written.\n";

struct laws_args {
    bool json;
    struct once__effort effort;
    unsigned timeout_s;
    const char *subject; /* NULL: the table */
};

/* --- Text --- */

/* The forms hold the sign "…", which is three bytes and one column. */
static void print_padded(const char *text, int columns)
{
    for (const char *at = text; *at != '\0'; at++)
        columns -= ((unsigned char)*at & 0xc0) != 0x80;
    printf("%s%*s", text, columns > 0 ? columns : 0, "");
}

static const char *yes_no(bool yes)
{
    return yes ? "yes" : "no";
}

static void print_row(const struct once__law_report *report)
{
    print_padded(report->variant, FORM_COLUMNS);
    printf("%-12s%-13s%-13s%s\n", yes_no(report->findings[ONCE__LAW_IDEMPOTENT].holds),
           yes_no(report->findings[ONCE__LAW_COMMUTATIVE].holds),
           yes_no(report->findings[ONCE__LAW_ASSOCIATIVE].holds),
           yes_no(!report->findings[ONCE__LAW_LATE].holds));
}

static void print_head(const char *what)
{
    print_padded(what, FORM_COLUMNS);
    printf("%-12s%-13s%-13s%s\n", "idempotent", "commutative", "associative", "needs a key");
}

/* A row that is not idempotent shows with that why it needs a key. */
static bool is_worth_showing(const struct once__law_report *report, int law)
{
    return !report->findings[law].holds &&
           (law != ONCE__LAW_LATE || report->findings[ONCE__LAW_IDEMPOTENT].holds);
}

static void print_counterexamples(const struct once__law_report *reports, size_t count)
{
    puts("\nThe smallest counterexamples. (x, y) is x and y handed over as one.");
    for (size_t i = 0; i < count; i++) {
        bool first = true;

        for (int law = 0; law < ONCE__LAW_COUNT; law++) {
            if (!is_worth_showing(&reports[i], law))
                continue;
            if (first)
                printf("\n%s\n", reports[i].variant);
            first = false;
            printf("  %-16s %s\n",
                   law == ONCE__LAW_LATE ? "needs a key" : once__law_name((enum once__law)law),
                   reports[i].findings[law].example);
        }
    }
}

static uint64_t checks_of(const struct once__law_report *reports, size_t count)
{
    uint64_t checks = 0;

    for (size_t i = 0; i < count; i++) {
        for (int law = 0; law < ONCE__LAW_COUNT; law++)
            checks += reports[i].findings[law].checks;
    }
    return checks;
}

static void print_table(const struct once__law_report *reports, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || reports[i].is_type != reports[i - 1].is_type) {
            fputs(i == 0 ? "" : "\n", stdout);
            print_head(reports[i].is_type ? "merge of type" : "operation");
        }
        print_row(&reports[i]);
    }
    print_counterexamples(reports, count);
    printf("\nComputed from %" PRIu64 " cases (seed %" PRIu64
           "). 'once laws NAME' shows one in detail.\n",
           checks_of(reports, count), seed);
}

static void print_detail(const struct once__law_report *report, struct once__effort effort)
{
    printf("%s\n", report->variant);
    for (int law = 0; law < ONCE__LAW_COUNT; law++) {
        const struct once__law_finding *finding = &report->findings[law];

        printf("  %-16s %-4s ",
               law == ONCE__LAW_LATE ? "needs a key" : once__law_name((enum once__law)law),
               yes_no(finding->holds != (law == ONCE__LAW_LATE)));
        if (finding->holds)
            printf("no counterexample in %" PRIu64 " cases\n", finding->checks);
        else
            printf("%s\n", finding->example);
    }
    printf("  %-16s %s\n  %-16s every combination of %" PRIu64 " states", "two as one",
           report->grouping, "checked", report->states);
    if (report->operations > 0)
        printf(" and %" PRIu64 " operation%s", report->operations,
               report->operations == 1 ? "" : "s");
    printf(", then %" PRIu64 " random cases a law (seed %" PRIu64 ")\n", effort.random_count,
           effort.seed);
}

/* --- JSON --- */

static void print_json_text(const char *text)
{
    cli_json_string(stdout, once_bytes_of(text));
}

/* A string: a reader that keeps numbers as doubles would change it, and replay other cases. */
static void print_json_seed(uint64_t seed)
{
    printf("\"seed\":\"%" PRIu64 "\"", seed);
}

static void print_json_findings(const struct once__law_finding *findings, int count)
{
    static const char *const names[ONCE__LAW_COUNT] = {"idempotent", "commutative", "associative",
                                                       "late_duplicate"};
    const char *before = "";

    printf("\"checks\":{");
    for (int law = 0; law < count; law++)
        printf("%s\"%s\":%" PRIu64, law == 0 ? "" : ",", names[law], findings[law].checks);
    printf("},\"counterexamples\":{");
    for (int law = 0; law < count; law++) {
        if (findings[law].holds)
            continue;
        printf("%s\"%s\":", before, names[law]);
        print_json_text(findings[law].example);
        before = ",";
    }
    printf("}");
}

static void print_json_laws(const struct once__law_finding *findings)
{
    for (int law = 0; law < ONCE__PLUGIN_LAW_COUNT; law++)
        printf("\"%s\":%s,", once__law_name((enum once__law)law),
               findings[law].holds ? "true" : "false");
}

static void print_json_table(const struct once__law_report *reports, size_t count, uint64_t seed)
{
    putchar('{');
    print_json_seed(seed);
    printf(",\"operations\":[");
    for (size_t i = 0; i < count; i++) {
        printf("%s{\"kind\":\"%s\",\"name\":", i == 0 ? "" : ",",
               reports[i].is_type ? "type" : "effect");
        print_json_text(reports[i].name);
        printf(",\"form\":");
        print_json_text(reports[i].form);
        printf(",\"variant\":");
        print_json_text(reports[i].variant);
        printf(",");
        print_json_laws(reports[i].findings);
        printf("\"needs_key\":%s,\"two_as_one\":",
               reports[i].findings[ONCE__LAW_LATE].holds ? "false" : "true");
        print_json_text(reports[i].grouping);
        printf(",");
        print_json_findings(reports[i].findings, ONCE__LAW_COUNT);
        printf("}");
    }
    printf("]}\n");
}

/* --- The built-in rows --- */

/* Which rows a name means: as it is written, or, if there is none, in any case (MAX and max
 * differ). */
static size_t rows_named(const char *name, bool exactly, bool *ret_chosen)
{
    size_t count = 0;

    for (size_t i = 0; i < once__law_row_count(); i++) {
        const char *row = once__law_row_name(i);

        ret_chosen[i] = name == NULL ||
                        (exactly ? strcmp(row, name) == 0 : strcasecmp(row, name) == 0);
        count += ret_chosen[i];
    }
    return count;
}

static int refuse_name(const char *name)
{
    (void)cli_error(&cli_laws, CLI_USAGE, "there is no operation or type '%s'",
                    cli_echo(name).text);
    fputs("There are:", stderr);
    for (size_t i = 0; i < once__law_row_count(); i++) {
        if (i == 0 || strcmp(once__law_row_name(i), once__law_row_name(i - 1)) != 0)
            fprintf(stderr, " %s", once__law_row_name(i));
    }
    fputs("\nA plugin's path has a slash or ends in .so.\n", stderr);
    return CLI_USAGE;
}

static int refuse_table(const struct once__law_report *report, enum once__law law)
{
    bool declared = once__law_declared(&report->declared, law);

    return cli_error(&cli_laws, CLI_INTERNAL,
                     "this is a defect in Once: for '%s' the table declares %s: %s, and the check "
                     "says %s%s%s",
                     report->variant, once__law_name(law), yes_no(declared), yes_no(!declared),
                     declared ? ": " : "", report->findings[law].example);
}

/* Checks the chosen rows into reports, one after the other. */
static int check_rows(const struct laws_args *args, const bool *chosen,
                      struct once__law_report *reports)
{
    size_t count = 0;

    for (size_t i = 0; i < once__law_row_count(); i++) {
        enum once__law wrong;
        int err;

        if (!chosen[i])
            continue;
        err = once__law_check(i, args->effort, &reports[count]);
        if (err != ONCE_OK)
            return cli_error(&cli_laws, CLI_INTERNAL, "cannot check '%s': %s",
                             once__law_row_name(i), once_err_text(err));
        wrong = once__law_disagreement(&reports[count]);
        if (wrong != ONCE__LAW_COUNT)
            return refuse_table(&reports[count], wrong);
        count++;
    }
    return CLI_OK;
}

static int show_rows(const struct laws_args *args)
{
    bool *chosen = calloc(once__law_row_count(), sizeof(*chosen));
    struct once__law_report *reports = calloc(once__law_row_count(), sizeof(*reports));
    size_t count = 0;
    int status = CLI_INTERNAL;

    if (chosen == NULL || reports == NULL) {
        cli_error(&cli_laws, CLI_INTERNAL, "out of memory");
        goto out;
    }
    count = rows_named(args->subject, true, chosen);
    if (count == 0)
        count = rows_named(args->subject, false, chosen);
    status = count > 0 ? check_rows(args, chosen, reports) : refuse_name(args->subject);
    if (status != CLI_OK)
        goto out;
    if (args->json) {
        print_json_table(reports, count, args->effort.seed);
    } else if (args->subject == NULL) {
        print_table(reports, count, args->effort.seed);
    } else {
        for (size_t i = 0; i < count; i++) {
            fputs(i == 0 ? "" : "\n", stdout);
            print_detail(&reports[i], args->effort);
        }
    }
out:
    free(chosen);
    free(reports);
    return status;
}

/* --- A plugin --- */

static int failures_of(const struct once__plugin_report *report)
{
    int failures = 0;

    for (int law = 0; law < ONCE__PLUGIN_LAW_COUNT; law++)
        failures += !report->findings[law].holds;
    return failures;
}

static int status_of(const struct once__plugin_report *report)
{
    if (report->status == ONCE__PLUGIN_NOT_LOADED)
        return CLI_USAGE;
    return report->status == ONCE__PLUGIN_CHECKED && failures_of(report) == 0 ? CLI_OK : CLI_FAILED;
}

static void print_plugin(const char *path, const struct once__plugin_report *report,
                         const struct laws_args *args)
{
    uint64_t checks = 0;

    printf("%s\n", cli_echo(path).text);
    for (int law = 0; law < ONCE__PLUGIN_LAW_COUNT; law++) {
        const struct once__law_finding *finding = &report->findings[law];

        checks += finding->checks;
        printf("  %s: ", once__law_name((enum once__law)law));
        if (finding->holds)
            printf("holds  no counterexample in %" PRIu64 " checks\n", finding->checks);
        else
            printf("FAILS  %s\n    %s\n", finding->example, once__law_meaning((enum once__law)law));
    }
    if (failures_of(report) > 0)
        return;
    printf("No counterexample in %" PRIu64 " checks: all combinations of %" PRIu64
           " states, then random ones (seed %" PRIu64 ").\nThis is a test, not a proof.\n",
           checks, report->small, args->effort.seed);
}

static void print_json_plugin(const char *path, const struct once__plugin_report *report,
                              const struct laws_args *args)
{
    printf("{\"plugin\":");
    print_json_text(path);
    putchar(',');
    print_json_seed(args->effort.seed);
    putchar(',');
    if (report->status == ONCE__PLUGIN_CHECKED) {
        printf("\"holds\":%s,", failures_of(report) == 0 ? "true" : "false");
        print_json_laws(report->findings);
        print_json_findings(report->findings, ONCE__PLUGIN_LAW_COUNT);
    } else {
        printf("\"error\":");
        print_json_text(report->message);
        printf(",\"exit_status\":%d", status_of(report));
    }
    printf("}\n");
}

static int show_plugin(const struct laws_args *args)
{
    const struct once__plugin_options options = {.effort = args->effort,
                                                 .timeout_ms = args->timeout_s * 1000};
    struct once__plugin_report report;
    int err;

    if (access(args->subject, F_OK) != 0)
        return cli_error(&cli_laws, CLI_USAGE, "cannot open the plugin '%s': %s",
                         cli_echo(args->subject).text, strerror(errno));
    err = once__plugin_check(args->subject, &options, &report);
    if (err != ONCE_OK)
        return cli_error(&cli_laws, CLI_INTERNAL, "cannot run the plugin: %s", once_err_text(err));
    if (args->json)
        print_json_plugin(args->subject, &report, args);
    else if (report.status == ONCE__PLUGIN_CHECKED)
        print_plugin(args->subject, &report, args);
    if (report.status != ONCE__PLUGIN_CHECKED)
        (void)cli_message(&cli_laws, status_of(&report), "%s: %s", cli_echo(args->subject).text,
                          report.message);
    return status_of(&report);
}

/* --- Arguments --- */

enum option { OPTION_JSON, OPTION_SEED, OPTION_TIMEOUT };

static const struct cli_option laws_options[] = {
    {"--json", NULL, OPTION_JSON},
    {"--seed", "N", OPTION_SEED},
    {"--timeout", "S", OPTION_TIMEOUT},
};

static int set_option(struct laws_args *args, enum option option, const char *value)
{
    const char *name = laws_options[option].name;
    uint64_t min = option == OPTION_SEED ? 0 : 1;
    uint64_t max = option == OPTION_SEED ? UINT64_MAX : TIMEOUT_S_MAX;
    uint64_t number;

    if (option == OPTION_JSON) {
        args->json = true;
        return CLI_OK;
    }
    if (!cli_number(value, min, max, &number))
        return cli_usage(&cli_laws, "%s takes a number from %" PRIu64 " to %" PRIu64 ", not '%s'",
                         name, min, max, cli_echo(value).text);
    if (option == OPTION_SEED)
        args->effort.seed = number;
    else
        args->timeout_s = (unsigned)number;
    return CLI_OK;
}

static int set_subject(struct laws_args *args, const char *subject)
{
    if (args->subject != NULL)
        return cli_usage(&cli_laws, "one name or plugin at a time; '%s' is a second one",
                         cli_echo(subject).text);
    args->subject = subject;
    return CLI_OK;
}

static int read_args(int argc, char **argv, struct laws_args *ret_args)
{
    struct laws_args args = {
        .effort = {.seed = SEED_DEFAULT, .random_count = ONCE__LAWS_RANDOM_COUNT},
        .timeout_s = TIMEOUT_S_DEFAULT};
    struct cli_args reader = {.command = &cli_laws,
                              .options = laws_options,
                              .option_count = sizeof(laws_options) / sizeof(laws_options[0]),
                              .argc = argc,
                              .argv = argv,
                              .next = 1};
    const char *value;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        int status = CLI_USAGE;

        if (got == CLI_ARG_VALUE)
            status = set_subject(&args, value);
        else if (got != CLI_ARG_WRONG)
            status = set_option(&args, (enum option)got, value);
        if (status != CLI_OK)
            return status;
    }
    *ret_args = args;
    return CLI_OK;
}

static bool is_plugin(const char *subject)
{
    size_t size = strlen(subject);

    return strchr(subject, '/') != NULL || (size >= 3 && strcmp(subject + size - 3, ".so") == 0);
}

static int laws_run(int argc, char **argv)
{
    struct laws_args args = {0};
    int status = read_args(argc, argv, &args);

    if (status != CLI_OK)
        return status;
    return args.subject != NULL && is_plugin(args.subject) ? show_plugin(&args) : show_rows(&args);
}

const struct cli_command cli_laws = {
    .name = "laws",
    .summary = "which operations may be repeated, reordered, regrouped; check your own merge",
    .help = laws_help,
    .run = laws_run,
    .options = laws_options,
    .option_count = sizeof(laws_options) / sizeof(laws_options[0]),
};
