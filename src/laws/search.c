/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for a counterexample: search.h says in which order. It allocates nothing and knows
 * nothing about what the numbers stand for.
 */
#include "laws/search.h"

#include <string.h>

#include "base/assert.h"

enum { SHRINK_FIRST = 16 }; /* the smallest numbers are all tried before larger steps down */

struct search {
    const struct once__domain *domain;
    once__law_question *question;
    void *context;
    struct once__found found;
};

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t once__scatter(uint64_t number)
{
    number += 0x9e3779b97f4a7c15U;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9U;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebU;
    return number ^ (number >> 31);
}

static int ask(struct search *search, const uint64_t *index)
{
    int answer = search->question(search->context, index);

    search->found.checks++;
    if (answer == 0) {
        search->found.holds = false;
        memcpy(search->found.index, index, sizeof(search->found.index));
    }
    return answer;
}

/* The next combination of all numbers but the last one, like a counter whose last wheel turns
 * fastest. False when all have been. */
static bool turn(const struct once__domain *domain, uint64_t *index)
{
    for (size_t i = domain->dimensions - 1; i-- > 0;) {
        if (++index[i] < domain->small[i])
            return true;
        index[i] = 0;
    }
    return false;
}

/* Asks about every small combination whose numbers add up to sum: the last number is what is
 * missing. */
static int ask_sum(struct search *search, uint64_t sum)
{
    uint64_t index[ONCE__DIMENSIONS_MAX] = {0};
    size_t last = search->domain->dimensions - 1;

    do {
        uint64_t others = 0;
        int answer = 1;

        for (size_t i = 0; i < last; i++)
            others += index[i];
        if (others <= sum && sum - others < search->domain->small[last]) {
            index[last] = sum - others;
            answer = ask(search, index);
        }
        if (answer != 1)
            return answer;
    } while (turn(search->domain, index));
    return 1;
}

static int ask_small(struct search *search)
{
    uint64_t sum_max = 0;

    for (size_t i = 0; i < search->domain->dimensions; i++)
        sum_max += search->domain->small[i] - 1;
    for (uint64_t sum = 0; sum <= sum_max; sum++) {
        int answer = ask_sum(search, sum);

        if (answer != 1)
            return answer;
    }
    return 1;
}

static int ask_random(struct search *search, struct once__effort effort)
{
    uint64_t state = once__scatter(effort.seed);

    for (uint64_t i = 0; i < effort.random_count; i++) {
        uint64_t index[ONCE__DIMENSIONS_MAX] = {0};
        int answer;

        for (size_t j = 0; j < search->domain->dimensions; j++) {
            state = once__scatter(state);
            index[j] = state % search->domain->large[j];
        }
        answer = ask(search, index);
        if (answer != 1)
            return answer;
    }
    return 1;
}

/* Tries one smaller number for one thing. 0: it fails too, and is the counterexample from now
 * on. */
static int ask_smaller(struct search *search, size_t dimension, uint64_t number)
{
    uint64_t index[ONCE__DIMENSIONS_MAX];

    memcpy(index, search->found.index, sizeof(index));
    ONCE_ASSERT(number < index[dimension]);
    index[dimension] = number;
    return ask(search, index);
}

/* One step down for one thing: the smallest numbers first, then half of the way, a quarter, …
 * one. */
static int shrink_one(struct search *search, size_t dimension)
{
    uint64_t from = search->found.index[dimension];

    for (uint64_t i = 0; i < from && i < SHRINK_FIRST; i++) {
        int answer = ask_smaller(search, dimension, i);

        if (answer != 1)
            return answer;
    }
    for (uint64_t step = from / 2; step > 0; step /= 2) {
        int answer = ask_smaller(search, dimension, from - step);

        if (answer != 1)
            return answer;
    }
    return 1;
}

/* Until no thing can be made smaller. Ends, because every step takes a number down. */
static int shrink(struct search *search)
{
    size_t stuck = 0;

    for (size_t i = 0; stuck < search->domain->dimensions;
         i = (i + 1) % search->domain->dimensions) {
        int answer = shrink_one(search, i);

        if (answer < 0)
            return answer;
        stuck = answer == 0 ? 0 : stuck + 1;
    }
    return 0;
}

int once__search(const struct once__domain *domain, once__law_question *question, void *context,
                 struct once__effort effort, struct once__found *ret_found)
{
    struct search search = {
        .domain = domain, .question = question, .context = context, .found = {.holds = true}};
    int answer;

    ONCE_ASSERT(domain->dimensions > 0);
    ONCE_ASSERT(domain->dimensions <= ONCE__DIMENSIONS_MAX);
    answer = ask_small(&search);
    if (answer == 1) {
        answer = ask_random(&search, effort);
        if (answer == 0)
            answer = shrink(&search);
    }
    if (answer < 0)
        return answer;
    *ret_found = search.found;
    return ONCE_OK;
}
