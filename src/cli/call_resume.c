/* SPDX-License-Identifier: Apache-2.0
 *
 * `once call --resume --all`: every call of a namespace that is in doubt, and every one that is
 * started and whose owner is known to be gone. The list is read first and the folder let go.
 *
 * They share one budget of retries: a receiver that is down is not asked many times for each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/call.h"
#include "cli/folder.h"

enum { PAGE = 1000, BUDGET_TOKENS = 20, BUDGET_PERCENT = 50, KEYS_SIZE_MAX = 1 << 26 };

/* Keys, each with its NUL: keys are printable. */
struct keys {
    struct once_buf text;
    size_t count;
    int err;
};

static void take_key(void *user, const struct once_item *item)
{
    struct keys *keys = user;

    if (keys->err != ONCE_OK || (item->state == ONCE_STATE_STARTED && !cli_owner_gone(item->owner)))
        return;
    keys->err = once_buf_append(&keys->text, item->key.data, item->key.size);
    if (keys->err == ONCE_OK)
        keys->err = once_buf_append(&keys->text, "", 1);
    if (keys->err == ONCE_OK)
        keys->count++;
}

static int list(struct cli_reach *reach, struct once_bytes ns, enum once_state state,
                struct keys *keys)
{
    struct once_filter filter = {.ns = ns, .by_state = true, .state = state};
    uint64_t cursor = 0;
    int err;

    do {
        err = cli_reach_ops(reach, &filter, cursor, PAGE, take_key, keys, &cursor);
        if (err == ONCE_OK)
            err = keys->err;
    } while (err == ONCE_OK && cursor != 0);
    return err;
}

static int resume_each(struct call_args *args, struct call_journal *journal,
                       const struct keys *keys)
{
    const char *key = (const char *)keys->text.data;
    int worst = CLI_OK;

    for (size_t i = 0; i < keys->count && !call_stopped(NULL); i++, key += strlen(key) + 1) {
        struct once_http_answer answer;
        int err = call_once(args, journal, once_bytes_of(key), true, &answer);
        int status = call_tell(args, once_bytes_of(key), err, journal, &answer, true);

        once_http_answer_release(&answer);
        (void)fflush(stdout); /* told before the next one begins */
        if (status > worst)
            worst = status;
    }
    return worst;
}

/* Lets the folder go when it is done. */
static int list_all(struct call_journal *journal, struct once_bytes ns, struct keys *keys)
{
    struct cli_reach *reach;
    int err = call_journal_reach(journal, &reach);

    if (err != ONCE_OK)
        return cli_error(&cli_call, cli_store_status(err), "%s", journal->message.text);
    err = list(reach, ns, ONCE_STATE_DOUBT, keys);
    if (err == ONCE_OK)
        err = list(reach, ns, ONCE_STATE_STARTED, keys);
    if (err != ONCE_OK)
        return cli_error(&cli_call, cli_store_status(err), "%s", cli_reach_text(reach, err));
    cli_reach_rest(reach);
    return CLI_OK;
}

int call_resume_all(struct call_args *args, struct call_journal *journal)
{
    struct once_bytes ns = args->ns ? once_bytes_of(args->ns) : once_bytes_of("call");
    struct once_http_budget *budget = NULL;
    struct keys keys = {.err = ONCE_OK};
    int status = CLI_OK;

    once_buf_init(&keys.text, KEYS_SIZE_MAX);
    if (once_http_budget_new(BUDGET_TOKENS, BUDGET_PERCENT, &budget) != ONCE_OK)
        status = cli_error(&cli_call, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    if (status == CLI_OK)
        status = list_all(journal, ns, &keys);
    if (status == CLI_OK && keys.count == 0 && !args->quiet)
        (void)cli_message(&cli_call, CLI_OK, "no call is in doubt");
    args->options.budget = budget;
    if (status == CLI_OK)
        status = resume_each(args, journal, &keys);
    args->options.budget = NULL;
    once_http_budget_free(budget);
    once_buf_release(&keys.text);
    return status;
}
