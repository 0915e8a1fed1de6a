/* SPDX-License-Identifier: Apache-2.0
 *
 * `once key`: makes keys, and reads the arguments for explain (key_explain.c) and fingerprint
 * (key_fingerprint.c).
 */
#include "cli/cmd_key.h"

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <once/key.h>

enum { COUNT_MAX = 1000000 };

enum option {
    OPTION_JSON,
    OPTION_COUNT,
    OPTION_METHOD,
    OPTION_PATH,
    OPTION_QUERY,
    OPTION_HEADER,
    OPTION_AS_HEADER,
    OPTION_JSON_BODY
};

/* --json is everyone's. */
static const struct cli_option plain_options[] = {{"--json", NULL, OPTION_JSON}};

static const struct cli_option uuid_options[] = {
    {"--json", NULL, OPTION_JSON},
    {"-n", "N", OPTION_COUNT},
};

static const struct cli_option explain_options[] = {
    {"--json", NULL, OPTION_JSON},
    {"--header", NULL, OPTION_AS_HEADER},
};

static const struct cli_option fingerprint_options[] = {
    {"--json", NULL, OPTION_JSON},
    {"--method", "METHOD", OPTION_METHOD},
    {"--path", "PATH", OPTION_PATH},
    {"--query", "QUERY", OPTION_QUERY},
    {"--header", "'NAME: VALUE'", OPTION_HEADER},
    {"--json-body", NULL, OPTION_JSON_BODY},
};

/* What all of them have together, for whoever reads about them. */
static const struct cli_option all_options[] = {
    {"--json", NULL, OPTION_JSON},           {"-n", "N", OPTION_COUNT},
    {"--method", "METHOD", OPTION_METHOD},   {"--path", "PATH", OPTION_PATH},
    {"--query", "QUERY", OPTION_QUERY},      {"--header", "'NAME: VALUE'", OPTION_HEADER},
    {"--json-body", NULL, OPTION_JSON_BODY},
};

struct action_row {
    const char *name;
    const char *usage; /* what stands behind the name */
    const struct cli_option *options;
    size_t option_count;
    size_t value_count_min;
    size_t value_count_max;
    int (*run)(const struct key_args *args);
};

int key_refuse(const struct key_args *args, int err, struct once_bytes input,
               const struct once_defect *defect)
{
    (void)cli_message(&cli_key, CLI_USAGE, "%s (%s at offset %zu)", defect->what,
                      once_err_name(err), defect->offset);
    cli_point(stderr, input, defect->offset);
    if (args->json) {
        fputs("{\"valid\":false,\"error\":", stdout);
        cli_json_string(stdout, once_bytes_of(defect->what));
        printf(",\"code\":\"%s\",\"offset\":%zu,\"exit_status\":%d}\n", once_err_name(err),
               defect->offset, CLI_USAGE);
    }
    return CLI_USAGE;
}

static void print_key(const struct key_args *args, const struct once_key *key)
{
    if (!args->json) {
        puts(key->text);
        return;
    }
    fputs("{\"key\":", stdout);
    cli_json_string(stdout, once_bytes_of(key->text));
    puts("}");
}

static int make_uuids(const struct key_args *args, int (*make)(struct once_key *))
{
    uint64_t count = 1;

    if (args->count && !cli_number(args->count, 1, COUNT_MAX, &count))
        return cli_usage(&cli_key, "-n takes a number of keys from 1 to %d, not '%s'", COUNT_MAX,
                         cli_echo(args->count).text);
    for (; count > 0; count--) {
        struct once_key key;
        int err = make(&key);

        if (err != ONCE_OK)
            return cli_error(&cli_key, CLI_INTERNAL, "%s", once_err_text(err));
        print_key(args, &key);
    }
    return CLI_OK;
}

static int make_uuid7(const struct key_args *args)
{
    return make_uuids(args, once_key_uuid7);
}

static int make_uuid4(const struct key_args *args)
{
    return make_uuids(args, once_key_uuid4);
}

static int make_digest(const struct key_args *args)
{
    struct once_bytes *parts = calloc(args->value_count, sizeof(*parts));
    struct once_key key;
    int err = ONCE_ERR_MEMORY;

    for (size_t i = 0; parts && i < args->value_count; i++)
        parts[i] = once_bytes_of(args->values[i]);
    if (parts)
        err = once_key_digest(parts, args->value_count, &key);
    free(parts);
    if (err != ONCE_OK)
        return cli_error(&cli_key, CLI_INTERNAL, "%s", once_err_text(err));
    print_key(args, &key);
    return CLI_OK;
}

static int make_sequence(const struct key_args *args)
{
    struct once_bytes client = once_bytes_of(args->values[0]);
    struct once_defect defect;
    struct once_key key;
    uint64_t sequence;
    int err;

    if (!cli_number(args->values[1], 0, UINT64_MAX, &sequence))
        return cli_usage(&cli_key, "'%s' is not a sequence number: 0 to %" PRIu64,
                         cli_echo(args->values[1]).text, UINT64_MAX);
    err = once_key_check(client, &defect);
    if (err != ONCE_OK)
        return key_refuse(args, err, client, &defect);
    err = once_key_sequence(client, sequence, &key);
    if (err != ONCE_OK) {
        defect = (struct once_defect){
            .offset = client.size,
            .what = "the client's name, the colon and the sequence have at most 255 characters"};
        return key_refuse(args, err, client, &defect);
    }
    print_key(args, &key);
    return CLI_OK;
}

static int make_business(const struct key_args *args)
{
    struct once_bytes id = once_bytes_of(args->values[0]);
    struct once_defect defect;
    struct once_key key;
    int err = once_key_business(id, &key, &defect);

    if (err != ONCE_OK)
        return key_refuse(args, err, id, &defect);
    print_key(args, &key);
    return CLI_OK;
}

#define OPTIONS(array) (array), sizeof(array) / sizeof((array)[0])

static const struct action_row actions[] = {
    {"uuid7", "[-n N]", OPTIONS(uuid_options), 0, 0, make_uuid7},
    {"uuid4", "[-n N]", OPTIONS(uuid_options), 0, 0, make_uuid4},
    {"digest", "PART...", OPTIONS(plain_options), 1, SIZE_MAX, make_digest},
    {"sequence", "CLIENT N", OPTIONS(plain_options), 2, 2, make_sequence},
    {"business", "ID", OPTIONS(plain_options), 1, 1, make_business},
    {"explain", "[--header] KEY", OPTIONS(explain_options), 1, 1, key_explain},
    {"fingerprint",
     "[--method METHOD] [--path PATH] [--query QUERY] [--header 'NAME: VALUE']... [--json-body] "
     "[FILE|-]",
     OPTIONS(fingerprint_options), 0, 1, key_fingerprint},
};

static void set_option(struct key_args *args, enum option option, const char *value)
{
    switch (option) {
    case OPTION_JSON:
        args->json = true;
        break;
    case OPTION_COUNT:
        args->count = value;
        break;
    case OPTION_METHOD:
        args->method = value;
        break;
    case OPTION_PATH:
        args->path = value;
        break;
    case OPTION_QUERY:
        args->query = value;
        break;
    case OPTION_HEADER:
        args->headers[args->header_count++] = value;
        break;
    case OPTION_AS_HEADER:
        args->as_header = true;
        break;
    case OPTION_JSON_BODY:
        args->json_body = true;
        break;
    }
}

static int read_args(const struct action_row *action, int argc, char **argv, struct key_args *args)
{
    struct cli_args reader = {.command = &cli_key,
                              .options = action->options,
                              .option_count = action->option_count,
                              .argc = argc,
                              .argv = argv,
                              .next = 2};
    const char *value;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        if (got == CLI_ARG_VALUE)
            args->values[args->value_count++] = value;
        else
            set_option(args, (enum option)got, value);
    }
    if (args->value_count > action->value_count_max)
        return cli_usage(&cli_key, "'%s' is one argument too many: once key %s %s",
                         cli_echo(args->values[action->value_count_max]).text, action->name,
                         action->usage);
    if (args->value_count < action->value_count_min)
        return cli_usage(&cli_key, "an argument is missing: once key %s %s", action->name,
                         action->usage);
    return CLI_OK;
}

static int run_action(const struct action_row *action, int argc, char **argv)
{
    const char **texts = calloc((size_t)argc * 2, sizeof(*texts));
    struct key_args args = {.json = false};
    int status;

    if (!texts)
        return cli_error(&cli_key, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    args.values = texts;
    args.headers = texts + argc;
    status = read_args(action, argc, argv, &args);
    if (status == CLI_OK)
        status = action->run(&args);
    free(texts);
    return status;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        fputs(cli_key.help, stderr);
        return CLI_USAGE;
    }
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(argv[1], actions[i].name) == 0)
            return run_action(&actions[i], argc, argv);
    }
    return cli_usage(&cli_key, "there is no action '%s'", cli_echo(argv[1]).text);
}

const struct cli_command cli_key = {
    .name = "key",
    .summary = "make keys, explain them, fingerprint requests",
    .help =
        "usage: once key ACTION [ARGUMENTS] [--json]\n"
        "\n"
        "Makes the key under which an operation happens once. Make it before the first attempt, "
        "keep\n"
        "it, and send it unchanged with every retry.\n"
        "\n"
        "  uuid7               a UUID version 7: carries its birth time, so that a retry that "
        "comes\n"
        "                      too late is refused instead of run again. Choose this if you can.\n"
        "  uuid4               a random UUID\n"
        "    -n N              so many of either (default: 1)\n"
        "  digest PART...      SHA-256 of the parts: the same parts, the same key\n"
        "  sequence CLIENT N   CLIENT:N, for a client that numbers its requests\n"
        "  business ID         an id that you have already, checked\n"
        "\n"
        "  explain KEY         what kind of key it is, when it was born, until when it is "
        "accepted;\n"
        "                      for a bad key what is wrong with it, and where\n"
        "    --header          KEY is the value of an Idempotency-Key header, quoted or bare\n"
        "\n"
        "  fingerprint [FILE]  the fingerprint of a request with the body in FILE (- for the "
        "standard\n"
        "                      input): what makes two requests under one key the same request\n"
        "    --method METHOD   default POST\n"
        "    --path PATH       default /\n"
        "    --query QUERY     what follows the question mark; default nothing\n"
        "    --header 'NAME: VALUE'   a header that counts; may be given several times\n"
        "    --json-body       white space and the order of members in the body do not count\n"
        "                      (RFC 8785)\n"
        "\n"
        "  --json              output for machines: one JSON object per line, errors too\n"
        "  --                  what follows is no option, even if it begins with a dash\n"
        "\n"
        "exit status: 0 done; 64 a bad argument or a bad key; 71 no random bytes, no memory, a "
        "bad\n"
        "clock, or an output that cannot be written\n",
    .run = run,
    .options = all_options,
    .option_count = sizeof(all_options) / sizeof(all_options[0]),
    .words = "uuid7 uuid4 digest sequence business explain fingerprint",
};
