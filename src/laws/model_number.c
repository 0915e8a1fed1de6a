/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of the effects on numbers: ADD, MAX, MIN, FLAG, GRANT, GUARD, SEQ, BUCKET.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "laws/model.h"

static bool number_equal(const union once__value *a, const union once__value *b)
{
    return a->counter == b->counter;
}

static void number_describe(struct once__text *text, const union once__value *value)
{
    once__text_add(text, "%" PRId64, value->counter);
}

/* --- ADD n --- */

static int add_state(uint64_t index, union once__value *ret_value)
{
    ret_value->counter = once__signed_at(index);
    return ONCE_OK;
}

static void add_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__ADD, .arg = {once__signed_at(index + 1)}};
}

static int add_apply(union once__value *value, const struct once__operation *operation)
{
    const struct once__range all = {INT64_MIN, INT64_MAX};

    return (int)once__effect_add(&value->counter, operation->arg[0], all);
}

static int add_folded(union once__value *value, const struct once__operation *first,
                      const struct once__operation *second)
{
    struct once__operation sum = {.id = ONCE__ADD, .arg = {first->arg[0] + second->arg[0]}};

    return add_apply(value, &sum);
}

static void add_describe_operation(struct once__text *text, const struct once__operation *operation)
{
    once__text_add(text, "ADD %" PRId64, operation->arg[0]);
}

const struct once__model once__model_add = {
    .states = {16, 1024},
    .operations = {8, 1024},
    .grouping = "the amounts are added first",
    .state = add_state,
    .operation = add_operation,
    .apply = add_apply,
    .apply_folded = add_folded,
    .equal = number_equal,
    .describe = number_describe,
    .describe_operation = add_describe_operation,
};

/* --- ADD n MIN 0, ADD n MAX 3, ADD n MIN 0 MAX 3 --- */

enum { FLOOR = 0, CEILING = 3, AMOUNTS = 8, HAS_MIN = 1, HAS_MAX = 2, BOUND_CHOICES = 3 };

static int bounded_state(uint64_t index, union once__value *ret_value)
{
    ret_value->counter = (int64_t)(index % (CEILING - FLOOR + 1));
    return ONCE_OK;
}

static void bounded_operation(uint64_t index, struct once__operation *ret_operation)
{
    uint64_t small = AMOUNTS * BOUND_CHOICES;
    uint64_t amount = index < small ? index % AMOUNTS : index;
    int64_t bounds = (int64_t)(index / AMOUNTS % BOUND_CHOICES) + HAS_MIN;

    *ret_operation = (struct once__operation){.id = ONCE__ADD_BOUNDED,
                                              .arg = {once__signed_at(amount + 1), bounds}};
}

static int bounded_apply(union once__value *value, const struct once__operation *operation)
{
    struct once__range range = {.min = operation->arg[1] & HAS_MIN ? FLOOR : INT64_MIN,
                                .max = operation->arg[1] & HAS_MAX ? CEILING : INT64_MAX};

    return (int)once__effect_add(&value->counter, operation->arg[0], range);
}

static int bounded_folded(union once__value *value, const struct once__operation *first,
                          const struct once__operation *second)
{
    struct once__operation sum = {
        .id = ONCE__ADD_BOUNDED,
        .arg = {first->arg[0] + second->arg[0], first->arg[1] | second->arg[1]}};

    return bounded_apply(value, &sum);
}

static void bounded_describe_operation(struct once__text *text,
                                       const struct once__operation *operation)
{
    once__text_add(text, "ADD %" PRId64, operation->arg[0]);
    if (operation->arg[1] & HAS_MIN)
        once__text_add(text, " MIN %d", FLOOR);
    if (operation->arg[1] & HAS_MAX)
        once__text_add(text, " MAX %d", CEILING);
}

const struct once__model once__model_add_bounded = {
    .states = {CEILING - FLOOR + 1, CEILING - FLOOR + 1},
    .operations = {AMOUNTS * BOUND_CHOICES, 1024},
    .grouping = "the amounts are added first, and the bounds of both hold",
    .state = bounded_state,
    .operation = bounded_operation,
    .apply = bounded_apply,
    .apply_folded = bounded_folded,
    .equal = number_equal,
    .describe = number_describe,
    .describe_operation = bounded_describe_operation,
};

/* --- MAX n, MIN n --- */

static int extreme_state(uint64_t index, union once__value *ret_value)
{
    ret_value->extreme = (struct once__extreme){
        .present = index > 0, .value = index > 0 ? once__signed_at(index - 1) : 0};
    return ONCE_OK;
}

static void max_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__MAX, .arg = {once__signed_at(index)}};
}

static void min_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__MIN, .arg = {once__signed_at(index)}};
}

static int extreme_apply(union once__value *value, const struct once__operation *operation)
{
    if (operation->id == ONCE__MAX)
        return (int)once__effect_max(&value->extreme, operation->arg[0]);
    return (int)once__effect_min(&value->extreme, operation->arg[0]);
}

static int extreme_folded(union once__value *value, const struct once__operation *first,
                          const struct once__operation *second)
{
    bool first_is_larger = first->arg[0] > second->arg[0];

    return extreme_apply(value, first_is_larger == (first->id == ONCE__MAX) ? first : second);
}

static bool extreme_equal(const union once__value *a, const union once__value *b)
{
    return a->extreme.present == b->extreme.present &&
           (!a->extreme.present || a->extreme.value == b->extreme.value);
}

static void extreme_describe(struct once__text *text, const union once__value *value)
{
    if (value->extreme.present)
        once__text_add(text, "%" PRId64, value->extreme.value);
    else
        once__text_add(text, "nothing");
}

static void extreme_describe_operation(struct once__text *text,
                                       const struct once__operation *operation)
{
    once__text_add(text, "%s %" PRId64, once__effects[operation->id].name, operation->arg[0]);
}

const struct once__model once__model_max = {
    .states = {16, 1024},
    .operations = {12, 1024},
    .grouping = "the larger of the two",
    .state = extreme_state,
    .operation = max_operation,
    .apply = extreme_apply,
    .apply_folded = extreme_folded,
    .equal = extreme_equal,
    .describe = extreme_describe,
    .describe_operation = extreme_describe_operation,
};

const struct once__model once__model_min = {
    .states = {16, 1024},
    .operations = {12, 1024},
    .grouping = "the smaller of the two",
    .state = extreme_state,
    .operation = min_operation,
    .apply = extreme_apply,
    .apply_folded = extreme_folded,
    .equal = extreme_equal,
    .describe = extreme_describe,
    .describe_operation = extreme_describe_operation,
};

/* --- FLAG --- */

static int flag_state(uint64_t index, union once__value *ret_value)
{
    ret_value->flag = index > 0;
    return ONCE_OK;
}

static void flag_operation(uint64_t index, struct once__operation *ret_operation)
{
    ONCE_ASSERT(index == 0);
    *ret_operation = (struct once__operation){.id = ONCE__FLAG};
}

static int flag_apply(union once__value *value, const struct once__operation *operation)
{
    (void)operation;
    return (int)once__effect_flag(&value->flag);
}

static int flag_folded(union once__value *value, const struct once__operation *first,
                       const struct once__operation *second)
{
    (void)second;
    return flag_apply(value, first);
}

static bool flag_equal(const union once__value *a, const union once__value *b)
{
    return a->flag == b->flag;
}

static void flag_describe(struct once__text *text, const union once__value *value)
{
    once__text_add(text, value->flag ? "up" : "down");
}

/* FLAG and GRANT: nothing but the name of the object. */
static void bare_describe_operation(struct once__text *text,
                                    const struct once__operation *operation)
{
    once__text_add(text, "%s", once__effects[operation->id].name);
}

const struct once__model once__model_flag = {
    .states = {2, 2},
    .operations = {1, 1},
    .grouping = "one FLAG instead of two",
    .state = flag_state,
    .operation = flag_operation,
    .apply = flag_apply,
    .apply_folded = flag_folded,
    .equal = flag_equal,
    .describe = flag_describe,
    .describe_operation = bare_describe_operation,
};

/* --- GRANT, GUARD token --- */

static int token_state(uint64_t index, union once__value *ret_value)
{
    ret_value->token = index;
    return ONCE_OK;
}

static void grant_operation(uint64_t index, struct once__operation *ret_operation)
{
    ONCE_ASSERT(index == 0);
    *ret_operation = (struct once__operation){.id = ONCE__GRANT};
}

static void guard_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__GUARD, .arg = {(int64_t)index + 1}};
}

static int token_apply(union once__value *value, const struct once__operation *operation)
{
    if (operation->id == ONCE__GRANT)
        return (int)once__effect_grant(&value->token);
    return (int)once__effect_guard(&value->token, (uint64_t)operation->arg[0]);
}

static bool token_equal(const union once__value *a, const union once__value *b)
{
    return a->token == b->token;
}

static void token_describe(struct once__text *text, const union once__value *value)
{
    once__text_add(text, "token %" PRIu64, value->token);
}

static void guard_describe_operation(struct once__text *text,
                                     const struct once__operation *operation)
{
    once__text_add(text, "GUARD %" PRId64, operation->arg[0]);
}

const struct once__model once__model_grant = {
    .states = {32, 1 << 20},
    .operations = {1, 1},
    .grouping = once__grouping_batch,
    .state = token_state,
    .operation = grant_operation,
    .apply = token_apply,
    .equal = token_equal,
    .describe = token_describe,
    .describe_operation = bare_describe_operation,
};

const struct once__model once__model_guard = {
    .states = {8, 64},
    .operations = {8, 64},
    .grouping = once__grouping_batch,
    .state = token_state,
    .operation = guard_operation,
    .apply = token_apply,
    .equal = token_equal,
    .describe = token_describe,
    .describe_operation = guard_describe_operation,
};

/* --- SEQ epoch n --- */

enum { SEQ_NUMBERS = 4 }; /* numbers tried in each epoch */

static int seq_state(uint64_t index, union once__value *ret_value)
{
    ret_value->sequence = (struct once__sequence){.epoch = index / SEQ_NUMBERS,
                                                  .next = index % SEQ_NUMBERS};
    return ONCE_OK;
}

static void seq_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){
        .id = ONCE__SEQ, .arg = {(int64_t)(index / SEQ_NUMBERS), (int64_t)(index % SEQ_NUMBERS)}};
}

static int seq_apply(union once__value *value, const struct once__operation *operation)
{
    struct once__position position = {.epoch = (uint64_t)operation->arg[0],
                                      .n = (uint64_t)operation->arg[1]};

    return (int)once__effect_seq(&value->sequence, position);
}

static bool seq_equal(const union once__value *a, const union once__value *b)
{
    return a->sequence.epoch == b->sequence.epoch && a->sequence.next == b->sequence.next;
}

static void seq_describe(struct once__text *text, const union once__value *value)
{
    once__text_add(text, "next is %" PRIu64 " of epoch %" PRIu64, value->sequence.next,
                   value->sequence.epoch);
}

static void pair_describe_operation(struct once__text *text,
                                    const struct once__operation *operation)
{
    once__text_add(text, "%s %" PRId64 " %" PRId64, once__effects[operation->id].name,
                   operation->arg[0], operation->arg[1]);
}

const struct once__model once__model_seq = {
    .states = {12, 64},
    .operations = {12, 64},
    .grouping = once__grouping_batch,
    .state = seq_state,
    .operation = seq_operation,
    .apply = seq_apply,
    .equal = seq_equal,
    .describe = seq_describe,
    .describe_operation = pair_describe_operation,
};

/* --- BUCKET bucket n --- */

static int bucket_state(uint64_t index, union once__value *ret_value)
{
    for (size_t i = 0; i < ONCE__MODEL_BUCKETS; i++, index /= 4)
        ret_value->buckets[i] = index % 4;
    return ONCE_OK;
}

static void bucket_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__BUCKET,
                                              .arg = {(int64_t)(index % ONCE__MODEL_BUCKETS),
                                                      (int64_t)(index / ONCE__MODEL_BUCKETS) + 1}};
}

static int bucket_apply(union once__value *value, const struct once__operation *operation)
{
    return (int)once__effect_bucket(&value->buckets[operation->arg[0]],
                                    (uint64_t)operation->arg[1]);
}

static bool bucket_equal(const union once__value *a, const union once__value *b)
{
    return memcmp(a->buckets, b->buckets, sizeof(a->buckets)) == 0;
}

static void bucket_describe(struct once__text *text, const union once__value *value)
{
    const char *before = "";

    for (size_t i = 0; i < ONCE__MODEL_BUCKETS; i++) {
        if (value->buckets[i] == 0)
            continue;
        once__text_add(text, "%s%" PRIu64 " in bucket %zu", before, value->buckets[i], i);
        before = " and ";
    }
    if (before[0] == '\0')
        once__text_add(text, "all empty");
}

const struct once__model once__model_bucket = {
    .states = {16, 16},
    .operations = {8, 4096},
    .grouping = once__grouping_batch,
    .state = bucket_state,
    .operation = bucket_operation,
    .apply = bucket_apply,
    .equal = bucket_equal,
    .describe = bucket_describe,
    .describe_operation = pair_describe_operation,
};
