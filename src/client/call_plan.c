/* SPDX-License-Identifier: Apache-2.0
 *
 * When a call is tried again, and when not: which answers are final, how long to wait, and the
 * budget of retries that many calls share. No I/O; time and random numbers come in as arguments.
 *
 * Full jitter: callers that failed together come back apart. A receiver that says when to come
 * back is not asked earlier, up to a bound that the caller sets.
 */
#include "client/call_inner.h"

#include <curl/curl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PERCENT = 100, TOKENS_MAX = 1000000 };

/* ---- Answers --------------------------------------------------------------------------------- */

static bool is_final_by_choice(int status, const struct once_http_options *options)
{
    for (size_t i = 0; i < options->final_count; i++) {
        if (options->final_statuses[i] == status)
            return true;
    }
    return false;
}

/* 1: it says true, 0: false, -1: nothing. Both names are in use; Once's own gateways send both. */
static int should_retry(const struct once__call_lines *headers)
{
    static const char *const names[] = {"Stripe-Should-Retry", "X-Should-Retry"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = once__call_header(headers, names[i]);

        if (value && strcasecmp(value, "false") == 0)
            return 0;
        if (value && strcasecmp(value, "true") == 0)
            return 1;
    }
    return -1;
}

static bool is_passing(int status)
{
    return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
}

enum once__call_fate once__call_fate(const struct once__call_reply *reply,
                                     const struct once_http_options *options)
{
    int should;

    if (!reply->whole)
        return reply->again ? ONCE__CALL_AGAIN : ONCE__CALL_DOUBT;
    if (is_final_by_choice(reply->status, options))
        return ONCE__CALL_FINAL;
    should = should_retry(&reply->headers);
    if (is_passing(reply->status))
        return should == 0 ? ONCE__CALL_DOUBT : ONCE__CALL_AGAIN;
    return should == 1 && reply->status >= 400 ? ONCE__CALL_AGAIN : ONCE__CALL_FINAL;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

once_ms once__call_backoff_ms(once_ms base_ms, once_ms max_ms, unsigned number, uint64_t random)
{
    once_ms most_ms = base_ms;

    for (unsigned i = 0; i < number && most_ms < max_ms; i++)
        most_ms *= 2; /* both are at most 7 d: no overflow */
    if (most_ms > max_ms)
        most_ms = max_ms;
    return (once_ms)(random % ((uint64_t)most_ms + 1));
}

once_ms once__call_retry_after_ms(const char *value, int64_t now_s)
{
    size_t digits = strspn(value, "0123456789");
    time_t date;

    if (digits > 0 && value[digits] == '\0') {
        /* More digits than any sane number has: as long as we ever wait. */
        if (digits > 9)
            return ONCE_SEND_TIME_MS_MAX;
        return strtoll(value, NULL, 10) * 1000;
    }
    if (digits > 0 || value[0] == '\0')
        return -1;
    date = curl_getdate(value, NULL);
    if (date < 0)
        return -1;
    if (date <= now_s)
        return 0;
    return date - now_s > ONCE_SEND_TIME_MS_MAX / 1000 ? ONCE_SEND_TIME_MS_MAX
                                                       : (date - now_s) * 1000;
}

/* ---- Options --------------------------------------------------------------------------------- */

static bool fill_time(once_ms *time_ms, once_ms default_ms)
{
    if (*time_ms == 0)
        *time_ms = default_ms;
    return *time_ms > 0 && *time_ms <= ONCE_SEND_TIME_MS_MAX;
}

int once__call_options_fill(const struct once_http_options *given,
                            struct once_http_options *ret_options, char text[ONCE_MESSAGE_SIZE])
{
    struct once_http_options options = given ? *given : (struct once_http_options){0};

    if (options.ns.size == 0)
        options.ns = once_bytes_of("call");
    if (options.lease_ms == 0)
        options.lease_ms = ONCE_LEASE_MS_DEFAULT;
    if (options.attempts_max == 0)
        options.attempts_max = ONCE_SEND_ATTEMPTS_DEFAULT;
    if (options.kept_size_max == 0)
        options.kept_size_max = ONCE_SEND_KEPT_SIZE_DEFAULT;
    if (options.answer_size_max == 0)
        options.answer_size_max = ONCE_SEND_ANSWER_SIZE_MAX;
    if (!fill_time(&options.deadline_ms, ONCE_SEND_DEADLINE_MS_DEFAULT) ||
        !fill_time(&options.timeout_ms, ONCE_SEND_TIMEOUT_MS_DEFAULT) ||
        !fill_time(&options.connect_ms, ONCE_SEND_CONNECT_MS_DEFAULT) ||
        !fill_time(&options.backoff_ms, ONCE_SEND_BACKOFF_MS_DEFAULT) ||
        !fill_time(&options.backoff_ms_max, ONCE_SEND_BACKOFF_MS_MAX_DEFAULT) ||
        !fill_time(&options.retry_after_ms_max, ONCE_SEND_RETRY_AFTER_MS_DEFAULT))
        return once__call_wrong(ONCE_ERR_INVALID, text, "a time is negative or over 7 days");
    if (options.lease_ms < 0 || options.lease_ms > ONCE_LEASE_MS_MAX || options.wait_ms < 0 ||
        options.wait_ms > ONCE_SEND_TIME_MS_MAX)
        return once__call_wrong(ONCE_ERR_INVALID, text, "the lease or the wait is out of range");
    if (options.attempts_max > ONCE_SEND_ATTEMPTS_MAX)
        return once__call_wrong(ONCE_ERR_INVALID, text, "more than %d attempts",
                                ONCE_SEND_ATTEMPTS_MAX);
    if (options.kept_size_max > ONCE_SEND_KEPT_SIZE_MAX ||
        options.answer_size_max > ONCE_SEND_ANSWER_SIZE_MAX)
        return once__call_wrong(ONCE_ERR_INVALID, text, "more of an answer than can be kept");
    if (options.final_count > ONCE_SEND_FINAL_MAX)
        return once__call_wrong(ONCE_ERR_INVALID, text, "more than %d final statuses",
                                ONCE_SEND_FINAL_MAX);
    *ret_options = options;
    return ONCE_OK;
}

/* ---- Budgets --------------------------------------------------------------------------------- */

/* In hundredths of a token, so that it is all in one atomic number. */
struct once_http_budget {
    uint64_t most;
    uint64_t gain; /* of each call */
    _Atomic uint64_t left;
};

int once_http_budget_new(unsigned tokens_max, unsigned percent,
                         struct once_http_budget **ret_budget)
{
    struct once_http_budget *budget;

    if (tokens_max == 0 || tokens_max > TOKENS_MAX || percent > PERCENT || !ret_budget)
        return ONCE_ERR_INVALID;
    budget = calloc(1, sizeof(*budget));
    if (!budget)
        return ONCE_ERR_MEMORY;
    budget->most = (uint64_t)tokens_max * PERCENT;
    budget->gain = percent;
    atomic_init(&budget->left, budget->most);
    *ret_budget = budget;
    return ONCE_OK;
}

void once_http_budget_free(struct once_http_budget *budget)
{
    free(budget);
}

void once__call_budget_begin(struct once_http_budget *budget)
{
    uint64_t left, next;

    if (!budget)
        return;
    left = atomic_load(&budget->left);
    do {
        next = left + budget->gain < budget->most ? left + budget->gain : budget->most;
    } while (!atomic_compare_exchange_weak(&budget->left, &left, next));
}

bool once__call_budget_take(struct once_http_budget *budget)
{
    uint64_t left;

    if (!budget)
        return true;
    left = atomic_load(&budget->left);
    do {
        if (left < PERCENT)
            return false;
    } while (!atomic_compare_exchange_weak(&budget->left, &left, left - PERCENT));
    return true;
}
