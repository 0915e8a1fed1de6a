/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of LEASE, RENEW, RELEASE and HOLD.
 *
 * A length of time counts from when the words arrive, and the step gets what comes of it: points of
 * time. The models search over these, so an operation means the same wherever it stands; times of
 * neighbours need not even be in order. That a copy which arrives late counts from then on is said
 * in docs/laws.md.
 */
#include <inttypes.h>

#include "laws/model.h"

enum { OWNERS = 2, TOKENS = 4, LENGTHS = 3, ENDS = 4, LEASE_OTHERS_SMALL = 24 };

/* LEASE: who, when, until when. RENEW: token, until when. RELEASE, HOLD: token. */
enum { ARG_OWNER = 0, ARG_NOW = 1, ARG_LEASE_UNTIL = 2, ARG_TOKEN = 0, ARG_UNTIL = 1 };

static const uint8_t owners[OWNERS] = {'a', 'b'};

/* Never given; then a's, b's and released, with each end and each token. */
static int lease_state(uint64_t index, union once__value *ret_value)
{
    struct once__lease lease = {0};

    if (index > 0) {
        uint64_t choice = (index - 1) % (OWNERS + 1);
        uint64_t rest = (index - 1) / (OWNERS + 1);

        lease.token = rest / ENDS + 1;
        if (choice < OWNERS) {
            lease.until_ms = (int64_t)(rest % ENDS) + 1;
            lease.owner = (struct once_bytes){&owners[choice], 1};
        }
    }
    ret_value->lease = lease;
    return ONCE_OK;
}

static void lease_operation(uint64_t index, struct once__operation *ret_operation)
{
    int64_t now = (int64_t)(index / OWNERS / LENGTHS);
    int64_t length = (int64_t)(index / OWNERS % LENGTHS) + 1;

    *ret_operation = (struct once__operation){
        .id = ONCE__LEASE, .arg = {(int64_t)(index % OWNERS), now, now + length}};
}

static void renew_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){
        .id = ONCE__RENEW, .arg = {(int64_t)(index % TOKENS) + 1, (int64_t)(index / TOKENS) + 1}};
}

static void release_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__RELEASE, .arg = {(int64_t)index + 1}};
}

static void hold_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__HOLD, .arg = {(int64_t)index + 1}};
}

/* All that a lease takes, by turns. */
static void lease_other(uint64_t index, struct once__operation *ret_operation)
{
    static void (*const operations[])(uint64_t, struct once__operation *) = {
        lease_operation, release_operation, renew_operation, hold_operation};
    const size_t count = sizeof(operations) / sizeof(operations[0]);

    operations[index % count](index / count, ret_operation);
}

static int lease_apply(union once__value *value, const struct once__operation *operation)
{
    const int64_t *arg = operation->arg;

    if (operation->id == ONCE__LEASE)
        return (int)once__effect_lease(&value->lease,
                                       (struct once__claim){.owner = {&owners[arg[ARG_OWNER]], 1},
                                                            .now_ms = arg[ARG_NOW],
                                                            .until_ms = arg[ARG_LEASE_UNTIL]});
    if (operation->id == ONCE__RENEW)
        return (int)once__effect_renew(
            &value->lease,
            (struct once__renewal){.token = (uint64_t)arg[ARG_TOKEN], .until_ms = arg[ARG_UNTIL]});
    if (operation->id == ONCE__RELEASE)
        return (int)once__effect_release(&value->lease, (uint64_t)arg[ARG_TOKEN]);
    return (int)once__effect_hold(&value->lease, (uint64_t)arg[ARG_TOKEN]);
}

static bool lease_equal(const union once__value *a, const union once__value *b)
{
    return a->lease.token == b->lease.token && a->lease.until_ms == b->lease.until_ms &&
           a->lease.owner.size == b->lease.owner.size &&
           (a->lease.owner.size == 0 || a->lease.owner.data[0] == b->lease.owner.data[0]);
}

static void lease_describe(struct once__text *text, const union once__value *value)
{
    const struct once__lease *lease = &value->lease;

    if (lease->owner.size > 0)
        once__text_add(text, "%c's until %" PRId64, lease->owner.data[0], lease->until_ms);
    else
        once__text_add(text, lease->token == 0 ? "never given" : "released");
    if (lease->token > 0)
        once__text_add(text, " (token %" PRIu64 ")", lease->token);
}

static void lease_describe_operation(struct once__text *text,
                                     const struct once__operation *operation)
{
    const int64_t *arg = operation->arg;

    once__text_add(text, "%s", once__effects[operation->id].name);
    if (operation->id == ONCE__LEASE)
        once__text_add(text, " %c at %" PRId64 " until %" PRId64, owners[arg[ARG_OWNER]],
                       arg[ARG_NOW], arg[ARG_LEASE_UNTIL]);
    else
        once__text_add(text, " %" PRId64, arg[ARG_TOKEN]);
    if (operation->id == ONCE__RENEW)
        once__text_add(text, " until %" PRId64, arg[ARG_UNTIL]);
}

const struct once__model once__model_lease = {
    .states = {1 + (OWNERS + 1) * ENDS * 2, 1 + (OWNERS + 1) * ENDS *TOKENS},
    .operations = {OWNERS * LENGTHS * 3, 120},
    .others = {LEASE_OTHERS_SMALL, 160},
    .grouping = once__grouping_batch,
    .state = lease_state,
    .operation = lease_operation,
    .other = lease_other,
    .apply = lease_apply,
    .equal = lease_equal,
    .describe = lease_describe,
    .describe_operation = lease_describe_operation,
};

const struct once__model once__model_renew = {
    .states = {1 + (OWNERS + 1) * ENDS * 2, 1 + (OWNERS + 1) * ENDS *TOKENS},
    .operations = {TOKENS * 3, 40},
    .others = {LEASE_OTHERS_SMALL, 160},
    .grouping = once__grouping_batch,
    .state = lease_state,
    .operation = renew_operation,
    .other = lease_other,
    .apply = lease_apply,
    .equal = lease_equal,
    .describe = lease_describe,
    .describe_operation = lease_describe_operation,
};

const struct once__model once__model_release = {
    .states = {1 + (OWNERS + 1) * ENDS * 2, 1 + (OWNERS + 1) * ENDS *TOKENS},
    .operations = {TOKENS, 2 * TOKENS},
    .others = {LEASE_OTHERS_SMALL, 160},
    .grouping = once__grouping_batch,
    .state = lease_state,
    .operation = release_operation,
    .other = lease_other,
    .apply = lease_apply,
    .equal = lease_equal,
    .describe = lease_describe,
    .describe_operation = lease_describe_operation,
};

const struct once__model once__model_hold = {
    .states = {1 + (OWNERS + 1) * ENDS * 2, 1 + (OWNERS + 1) * ENDS *TOKENS},
    .operations = {TOKENS, 2 * TOKENS},
    .others = {LEASE_OTHERS_SMALL, 160},
    .grouping = once__grouping_batch,
    .state = lease_state,
    .operation = hold_operation,
    .other = lease_other,
    .apply = lease_apply,
    .equal = lease_equal,
    .describe = lease_describe,
    .describe_operation = lease_describe_operation,
};
