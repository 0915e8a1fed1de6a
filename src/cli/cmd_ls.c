/* SPDX-License-Identifier: Apache-2.0
 *
 * `once ls`: operations, page by page: the first rows are there at once, however many follow. What
 * a reader does not take yet is kept in memory, so that the folder is free as soon as all was
 * looked at.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <once/key.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/options.h"
#include "cli/owner.h"
#include "cli/progress.h"
#include "cli/reach.h"
#include "cli/spool.h"
#include "cli/text_table.h"

static const char ls_help[] =
    "usage: once ls [--state STATE] [--limit N] [--json | --jsonl] [--dir DIR | --server ADDR] "
    "[NS]\n"
    "\n"
    "Lists operations, of one namespace or of all, in no particular order. On a terminal long "
    "keys\n"
    "are shortened to fit; into a pipe or a file every key is whole.\n"
    "\n"
    "  once ls --state doubt\n"
    "  once ls pay --limit 20\n"
    "  once ls --jsonl | jq -r .key\n"
    "\n"
    "  --state STATE  only those that are started, completed, failed, or in doubt. Doubts and\n"
    "             those under way are found at once; the others need a look at every key\n"
    "  --limit N  so many at most\n"
    "  --namespace NS, -n NS\n"
    "             the same as NS\n" CLI_HELP_DIR CLI_HELP_SERVER
    "  --json     one JSON object for machines, errors too\n"
    "  --jsonl    one JSON object for each operation, each on its line\n"
    "\n"
    "exit status: 0 listed, also when there is none; 64 usage; 66 no store; 69 the store is in "
    "use,\n"
    "or its disk failed; 70 the store is damaged; 71 out of memory, or an output that cannot be\n"
    "written; 77 not allowed.\n";

enum option {
    OPTION_JSON,
    OPTION_JSONL,
    OPTION_DIR,
    OPTION_SERVER,
    OPTION_NAMESPACE,
    OPTION_STATE,
    OPTION_LIMIT
};

static const struct cli_option ls_options[] = {
    {"--json", NULL, OPTION_JSON},
    {"--jsonl", NULL, OPTION_JSONL},
    {"--dir", "DIR", OPTION_DIR},
    {"--server", "ADDR", OPTION_SERVER},
    {"--namespace", "NS", OPTION_NAMESPACE},
    {"-n", "NS", OPTION_NAMESPACE},
    {"--state", "started|completed|failed|doubt", OPTION_STATE},
    {"--limit", "N", OPTION_LIMIT},
};

enum {
    PAGE_FIRST = 50, /* rows of the first page: soon there */
    DETAIL_SIZE = 192,
};

struct ls_args {
    bool json, jsonl;
    struct cli_where where;
    const char *ns;
    struct once_filter filter;
    uint64_t limit;
};

/* ---- Arguments ------------------------------------------------------------------------------- */

static int read_state(const char *text, struct once_filter *filter)
{
    for (int state = ONCE_STATE_STARTED; state <= ONCE_STATE_DOUBT; state++) {
        if (strcmp(text, once_state_name((enum once_state)state)) == 0) {
            filter->by_state = true;
            filter->state = (enum once_state)state;
            return CLI_OK;
        }
    }
    return cli_usage(&cli_ls, "--state is one of started, completed, failed, doubt, not '%s'",
                     cli_echo(text).text);
}

static int read_namespace(struct ls_args *args, const char *text)
{
    struct once_defect defect;

    if (args->ns)
        return cli_usage(&cli_ls, "one namespace at a time, or none for all; '%s' is a second one",
                         cli_echo(text).text);
    if (once_namespace_check(once_bytes_of(text), &defect) != ONCE_OK)
        return cli_usage(&cli_ls, "the namespace '%s', character %zu: %s", cli_echo(text).text,
                         defect.offset + 1, defect.what);
    args->ns = text;
    args->filter.ns = once_bytes_of(text);
    return CLI_OK;
}

static int read_args(int argc, char **argv, struct ls_args *args)
{
    struct cli_args reader = CLI_ARGS(&cli_ls, ls_options, argc, argv);
    const char *value;
    int got, status = CLI_OK;

    args->limit = UINT64_MAX;
    while (status == CLI_OK && (got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        args->json = args->json || got == OPTION_JSON;
        args->jsonl = args->jsonl || got == OPTION_JSONL;
        if (got == OPTION_DIR)
            args->where.dir = value;
        else if (got == OPTION_SERVER)
            args->where.server = value;
        else if (got == OPTION_STATE)
            status = read_state(value, &args->filter);
        else if (got == OPTION_NAMESPACE || got == CLI_ARG_VALUE)
            status = read_namespace(args, value);
        else if (got == OPTION_LIMIT && !cli_number(value, 1, UINT64_MAX, &args->limit))
            status = cli_usage(&cli_ls, "--limit takes a number from 1 on, not '%s'",
                               cli_echo(value).text);
    }
    if (status == CLI_OK && args->json && args->jsonl)
        status = cli_usage(&cli_ls, "--json and --jsonl: give one");
    return status;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static const struct cli_column columns[] = {
    {"STATE", false, false},  {"NAMESPACE", false, true}, {"KEY", false, true},
    {"ATTEMPT", true, false}, {"BEGUN", false, false},    {"AGO", true, false},
    {"DETAIL", false, true},
};

struct listing {
    const struct ls_args *args;
    struct cli_table table;
    FILE *page; /* what this page comes to */
    uint64_t count;
    once_ms now_ms;
    bool failed; /* no memory */
};

/* What matters most in each state. */
static void write_detail(const struct listing *listing, const struct once_item *item,
                         char text[DETAIL_SIZE])
{
    char time[CLI_TIME_SIZE];
    struct cli_echo point = cli_echo_bytes(item->point);
    const char *at = item->point.size > 0 ? ", at " : "";

    switch (item->state) {
    case ONCE_STATE_COMPLETED:
        snprintf(text, DETAIL_SIZE, "code %" PRId32, item->code);
        break;
    case ONCE_STATE_STARTED:
        if (cli_owner_gone(item->owner))
            snprintf(text, DETAIL_SIZE, "its process is gone%s%s", at, point.text);
        else
            snprintf(text, DETAIL_SIZE, "lease ends %s%s%s",
                     cli_ago(item->lease_end_ms, listing->now_ms, time), at, point.text);
        break;
    case ONCE_STATE_DOUBT:
        snprintf(text, DETAIL_SIZE, "fence %" PRIu64 "%s%s", item->fence, at, point.text);
        break;
    case ONCE_STATE_FAILED:
        snprintf(text, DETAIL_SIZE, "may be tried again");
        break;
    case ONCE_STATE_ABSENT:
        text[0] = '\0';
        break;
    }
}

static void add_row(struct listing *listing, const struct once_item *item)
{
    char begun[CLI_TIME_SIZE], age[CLI_TIME_SIZE], detail[DETAIL_SIZE];
    char attempt[24];
    once_ms since_ms = listing->now_ms - item->created_ms;

    write_detail(listing, item, detail);
    snprintf(attempt, sizeof(attempt), "%" PRIu32, item->attempt);
    {
        const struct once_bytes cells[] = {
            once_bytes_of(once_state_name(item->state)),
            item->ns,
            item->key,
            once_bytes_of(attempt),
            once_bytes_of(item->created_ms > 0 ? cli_time(item->created_ms, begun) : ""),
            once_bytes_of(cli_length(since_ms > 0 ? since_ms : 0, age)),
            once_bytes_of(detail),
        };

        listing->failed |= !cli_table_add(&listing->table, cells, cli_state_colour(item->state));
    }
}

static void json_text(FILE *out, const char *name, struct once_bytes bytes)
{
    if (bytes.size == 0)
        return;
    fputc(',', out);
    cli_json_bytes(out, name, bytes);
}

static void add_json(struct listing *listing, const struct once_item *item)
{
    FILE *out = listing->page;

    if (listing->args->json)
        fputs(listing->count == 0 ? "\n" : ",\n", out);
    fputs("{\"namespace\":", out);
    cli_json_string(out, item->ns);
    fputs(",\"key\":", out);
    cli_json_string(out, item->key);
    fprintf(out, ",\"state\":\"%s\",\"fence\":%" PRIu64 ",\"attempt\":%" PRIu32,
            once_state_name(item->state), item->fence, item->attempt);
    if (item->state == ONCE_STATE_COMPLETED)
        fprintf(out, ",\"code\":%" PRId32, item->code);
    json_text(out, "owner", item->owner);
    json_text(out, "point", item->point);
    fprintf(out, ",\"created_ms\":%" PRId64 ",\"lease_end_ms\":%" PRId64 ",\"expires_ms\":%" PRId64,
            item->created_ms, item->lease_end_ms, item->expires_ms);
    fputs(listing->args->jsonl ? "}\n" : "}", out);
}

static void add_item(void *user, const struct once_item *item)
{
    struct listing *listing = user;

    if (listing->args->json || listing->args->jsonl)
        add_json(listing, item);
    else
        add_row(listing, item);
    listing->count++;
}

/* ---- Pages ----------------------------------------------------------------------------------- */

/* Looks at one page and hands it to the spool. */
static int list_page(struct listing *listing, struct cli_reach *reach, struct cli_spool *spool,
                     uint64_t *cursor)
{
    uint64_t left = listing->args->limit - listing->count;
    size_t count = listing->count == 0 ? PAGE_FIRST : CLI_ROWS_MAX;
    char *text = NULL;
    size_t size = 0;
    int err = ONCE_ERR_MEMORY;

    _Static_assert((int)CLI_ROWS_MAX <= ONCE_LIST_COUNT_MAX, "a page fits into a list and a table");
    listing->page = open_memstream(&text, &size);
    if (!listing->page)
        return ONCE_ERR_MEMORY;
    err = cli_reach_ops(reach, &listing->args->filter, *cursor, left < count ? (size_t)left : count,
                        add_item, listing, cursor);
    cli_table_flush(&listing->table, listing->page);
    if (fclose(listing->page) != 0 || listing->failed)
        err = ONCE_ERR_MEMORY;
    if (size > 0)
        (void)cli_spool_write(spool, text, size);
    free(text);
    return err;
}

static int list_all(struct listing *listing, struct cli_reach *reach, struct cli_spool *spool)
{
    struct cli_progress progress;
    uint64_t cursor = 0;
    int err;

    cli_progress_start(&progress, "looking at every key");
    do {
        uint64_t before = listing->count;

        err = list_page(listing, reach, spool, &cursor);
        if (listing->count == before || listing->table.style.width == 0)
            cli_progress_found(&progress, listing->count);
        else
            cli_progress_wipe(&progress);
    } while (err == ONCE_OK && cursor != 0 && listing->count < listing->args->limit &&
             spool->error == 0);
    cli_progress_wipe(&progress);
    return err;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* What stands around the operations; an error is told inside of the one JSON object. */
static void write_head(const struct ls_args *args, struct cli_spool *spool)
{
    static const char head[] = "{\"operations\":[";

    if (args->json)
        (void)cli_spool_write(spool, head, sizeof(head) - 1);
}

static void write_tail(const struct ls_args *args, struct cli_spool *spool, const char *what,
                       int status)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = args->json ? open_memstream(&text, &size) : NULL;

    if (!out)
        return;
    fputs("\n]", out);
    if (what) {
        fputs(",\"error\":", out);
        cli_json_string(out, once_bytes_of(what));
        fprintf(out, ",\"exit_status\":%d", status);
    }
    fputs("}\n", out);
    if (fclose(out) == 0)
        (void)cli_spool_write(spool, text, size);
    free(text);
}

static int tell_error(struct cli_reach *reach, int err, char *what, size_t size)
{
    int status = cli_store_status(err);

    snprintf(what, size, "%s", cli_reach_text(reach, err));
    for (char *c = what; *c; c++)
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c;
    return cli_message(&cli_ls, status, "%s", what);
}

static int list(const struct ls_args *args, struct cli_reach *reach)
{
    struct listing *listing = calloc(1, sizeof(*listing)); /* its table is large */
    struct cli_spool spool;
    char what[ONCE_MESSAGE_SIZE] = "";
    int err, status = CLI_OK;

    if (!listing)
        return cli_error(&cli_ls, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    listing->args = args;
    listing->table.columns = columns;
    listing->table.column_count = sizeof(columns) / sizeof(columns[0]);
    listing->table.style = cli_style_of(stdout);
    listing->now_ms = cli_now_ms();
    cli_spool_init(&spool, STDOUT_FILENO);
    write_head(args, &spool);
    err = list_all(listing, reach, &spool);
    if (err != ONCE_OK)
        status = tell_error(reach, err, what, sizeof(what));
    cli_reach_rest(reach);
    write_tail(args, &spool, err != ONCE_OK ? what : NULL, status);
    (void)cli_spool_finish(&spool);
    if (spool.error != 0 && spool.error != EPIPE)
        status = cli_message(&cli_ls, CLI_INTERNAL, "cannot write the output: %s",
                             strerror(spool.error));
    if (status == CLI_OK && spool.error == 0 && listing->count == 0 && !args->json && !args->jsonl)
        (void)cli_message(&cli_ls, CLI_OK, "there are none");
    cli_spool_release(&spool);
    cli_table_release(&listing->table);
    free(listing);
    return status;
}

static int ls_run(int argc, char **argv)
{
    struct ls_args args = {0};
    struct cli_reach reach = {0};
    int status = read_args(argc, argv, &args);

    (void)signal(SIGPIPE, SIG_IGN); /* who reads no more (| head) has had enough: no error */
    if (status == CLI_OK)
        status = cli_reach_open(&cli_ls, &args.where, false, &reach);
    if (status == CLI_OK)
        status = list(&args, &reach);
    return cli_reach_close(&cli_ls, &reach, status);
}

const struct cli_command cli_ls = {
    .name = "ls",
    .summary = "operations: once ls --state doubt",
    .help = ls_help,
    .run = ls_run,
    .options = ls_options,
    .option_count = sizeof(ls_options) / sizeof(ls_options[0]),
};
