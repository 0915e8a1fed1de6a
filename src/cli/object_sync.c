/* SPDX-License-Identifier: Apache-2.0
 *
 * `once object sync OTHER`: two stores tell each other what they have, until there is no news. A
 * store in a folder is held meanwhile, so nobody else changes it and the end comes; a server goes
 * on serving, so there the rounds are counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/cmd_object.h"
#include "cli/echo.h"
#include "cli/folder.h"

/* What came while it went on comes with the next sync. */
enum { SERVER_ROUNDS_MAX = 16 };

struct side {
    const char *name; /* its folder or address, as it was given */
    struct cli_reach reach;
    struct once_changes_cursor cursor; /* what the other was given of it */
    uint64_t news;                     /* objects of it that were news for the other */
};

struct exchange {
    struct side here, there;
    struct once_buf message;
    uint64_t conflicts; /* messages with an object that is of another type over there */
    uint64_t refused;   /* messages with an object that would pass a bound */
};

/* Everything new from one to the other. */
static int give(struct exchange *exchange, struct side *from, struct side *to, uint64_t *ret_news)
{
    uint64_t news = 0;
    bool more;
    int err;

    do {
        const struct cli_reach *failed = &from->reach;
        size_t count = 0;

        once_buf_clear(&exchange->message);
        err = cli_reach_changes(&from->reach, &from->cursor, OBJECT_MESSAGE_SIZE,
                                &exchange->message, &more);
        if (err == ONCE_OK && exchange->message.size > 0) {
            failed = &to->reach;
            err = cli_reach_changes_merge(&to->reach, once_buf_bytes(&exchange->message), &count);
        }
        if (err == ONCE_ERR_OBJECT_TYPE) {
            exchange->conflicts++;
            err = ONCE_OK;
        }
        if (err == ONCE_ERR_FULL || err == ONCE_ERR_TOO_LARGE) {
            exchange->refused++;
            err = ONCE_OK;
        }
        if (err != ONCE_OK)
            return cli_error(&cli_object, cli_store_status(err), "from '%s' to '%s': %s",
                             cli_echo(from->name).text, cli_echo(to->name).text,
                             cli_reach_text(failed, err));
        news += count;
    } while (more);
    from->news += news;
    *ret_news = news;
    return CLI_OK;
}

static int give_all(struct exchange *exchange)
{
    bool served = exchange->here.reach.client || exchange->there.reach.client;
    uint64_t out, in;
    int status, rounds = 0;

    do {
        status = give(exchange, &exchange->here, &exchange->there, &out);
        if (status == CLI_OK)
            status = give(exchange, &exchange->there, &exchange->here, &in);
    } while (status == CLI_OK && (out > 0 || in > 0) && (!served || ++rounds < SERVER_ROUNDS_MAX));
    return status;
}

/* A walk over one side, beside the other. */
struct comparison {
    struct side *here, *there;
};

static bool is_same_state(struct side *side, struct once_bytes name, struct once_bytes state)
{
    struct once_object object = {0};
    bool same = cli_reach_get(&side->reach, name, &object) == ONCE_OK &&
                object.state.size == state.size &&
                (state.size == 0 || memcmp(object.state.data, state.data, state.size) == 0);

    once_object_release(&object);
    return same;
}

/* Names an object whose types differ, or that could not be merged. */
static void compare(void *user, struct once_bytes name, enum once_object_type type)
{
    const struct comparison *sides = user;
    struct once_object object = {0};

    if (cli_reach_get(&sides->there->reach, name, &object) != ONCE_OK)
        return;
    if (object.type != ONCE_OBJECT_NONE && object.type != type &&
        (once_object_mergeable(object.type) || once_object_mergeable(type)))
        (void)cli_message(&cli_object, CLI_USAGE,
                          "'%s' is a %s in '%s' and a %s in '%s'; both stayed as they are",
                          cli_echo_bytes(name).text, once_object_type_name(type),
                          cli_echo(sides->here->name).text, once_object_type_name(object.type),
                          cli_echo(sides->there->name).text);
    else if (once_object_mergeable(type) && !is_same_state(sides->here, name, object.state))
        (void)cli_message(&cli_object, CLI_UNAVAILABLE,
                          "'%s' of '%s' would pass a bound in '%s' and did not come there",
                          cli_echo_bytes(name).text, cli_echo(sides->here->name).text,
                          cli_echo(sides->there->name).text);
    once_object_release(&object);
}

static void compare_all(struct side *here, struct side *there)
{
    struct comparison sides = {.here = here, .there = there};
    uint64_t cursor = 0;
    int err;

    do {
        err = cli_reach_list(&here->reach, cursor, ONCE_LIST_COUNT_MAX, compare, &sides, &cursor);
    } while (err == ONCE_OK && cursor != 0);
}

static int tell(const struct object_args *args, struct exchange *exchange)
{
    if (exchange->conflicts > 0 || exchange->refused > 0)
        compare_all(&exchange->here, &exchange->there);
    if (exchange->refused > 0) {
        compare_all(&exchange->there, &exchange->here);
        return cli_error(&cli_object, CLI_UNAVAILABLE,
                         "some objects could not be merged; the others are equal now");
    }
    if (exchange->conflicts > 0)
        return cli_error(&cli_object, CLI_USAGE,
                         "some objects have another type over there; the others are equal now");
    if (args->json)
        printf("{\"sent\":%" PRIu64 ",\"received\":%" PRIu64 "}\n", exchange->here.news,
               exchange->there.news);
    else
        printf("equal now: sent news of %" PRIu64 ", received news of %" PRIu64 "\n",
               exchange->here.news, exchange->there.news);
    return CLI_OK;
}

static bool is_same_folder(const char *a, const char *b)
{
    char *real_a = realpath(a, NULL), *real_b = realpath(b, NULL);
    bool same = real_a && real_b && strcmp(real_a, real_b) == 0;

    free(real_a);
    free(real_b);
    return same;
}

/* Every other name is a folder's, also one that is not there yet. */
static bool is_server(const char *name)
{
    struct stat about;

    return strstr(name, "://") || (stat(name, &about) == 0 && S_ISSOCK(about.st_mode));
}

int object_sync(const struct object_args *args)
{
    const char *other = args->values[0];
    const struct cli_where there = is_server(other) ? (struct cli_where){.server = other}
                                                    : (struct cli_where){.dir = other};
    struct exchange exchange = {.there = {.name = other}};
    struct side *here = &exchange.here;
    int status;

    if (!other[0])
        return cli_usage(&cli_object, "the other folder's name is empty");
    once_buf_init(&exchange.message, OBJECT_MESSAGE_SIZE_MAX);
    status = cli_reach_open(&cli_object, &args->where, false, &here->reach);
    here->name = here->reach.name;
    if (status == CLI_OK && is_same_folder(here->name, other))
        status = cli_usage(&cli_object, "'%s' and '%s' are the same folder",
                           cli_echo(here->name).text, cli_echo(other).text);
    if (status == CLI_OK)
        status = cli_reach_open(&cli_object, &there, true, &exchange.there.reach);
    if (status == CLI_OK)
        status = give_all(&exchange);
    if (status == CLI_OK)
        status = tell(args, &exchange);
    status = cli_reach_close(&cli_object, &exchange.there.reach, status);
    status = cli_reach_close(&cli_object, &here->reach, status);
    once_buf_release(&exchange.message);
    return status;
}
