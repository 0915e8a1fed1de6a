/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of the effects on registers, logs and outboxes: SET, DELETE, APPEND, EMIT, SENT.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "laws/model.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyz";

/* --- SET value, SET value IF version, DELETE, DELETE IF version --- */

enum { VALUES = 3 }; /* values that are written: a, b, c */

/* Arguments of a register's operation. A version that is not expected is -1. */
enum { ARG_VALUE = 0, ARG_VERSION = 1 };

/* Never set; then a, b, and the tombstone that a DELETE leaves, at each version. */
static int register_state(uint64_t index, union once__value *ret_value)
{
    struct once__register reg = {0};

    if (index > 0) {
        uint64_t choice = (index - 1) % 3;

        reg.version = (index - 1) / 3 + 1;
        reg.present = choice < 2;
        if (reg.present)
            reg.value = (struct once_bytes){(const uint8_t *)&letters[choice], 1};
        else
            reg.version++;
    }
    ret_value->reg = reg;
    return ONCE_OK;
}

static void set_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__SET, .arg = {(int64_t)index, -1}};
}

static void set_if_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){
        .id = ONCE__SET_IF, .arg = {(int64_t)(index % VALUES), (int64_t)(index / VALUES)}};
}

static void delete_operation(uint64_t index, struct once__operation *ret_operation)
{
    ONCE_ASSERT(index == 0);
    *ret_operation = (struct once__operation){.id = ONCE__DELETE, .arg = {0, -1}};
}

static void delete_if_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__DELETE_IF, .arg = {0, (int64_t)index}};
}

/* What may happen to a register: SET a, DELETE, SET b, and then the same with each version. */
static void register_other(uint64_t index, struct once__operation *ret_operation)
{
    bool deletes = index % 3 == 1;
    int64_t version = (int64_t)(index / 3) - 1;
    enum once__effect_id set = version < 0 ? ONCE__SET : ONCE__SET_IF;
    enum once__effect_id delete = version < 0 ? ONCE__DELETE : ONCE__DELETE_IF;

    *ret_operation = (struct once__operation){.id = deletes ? delete : set,
                                              .arg = {index % 3 == 2 ? 1 : 0, version}};
}

static struct once__expected expected_of(const struct once__operation *operation)
{
    int64_t version = operation->arg[ARG_VERSION];

    return (struct once__expected){.given = version >= 0,
                                   .version = version >= 0 ? (uint64_t)version : 0};
}

static int register_apply(union once__value *value, const struct once__operation *operation)
{
    struct once_bytes written = {(const uint8_t *)&letters[operation->arg[ARG_VALUE]], 1};

    if (operation->id == ONCE__DELETE || operation->id == ONCE__DELETE_IF)
        return (int)once__effect_delete(&value->reg, expected_of(operation));
    return (int)once__effect_set(&value->reg, written, expected_of(operation));
}

static bool register_equal(const union once__value *a, const union once__value *b)
{
    return a->reg.version == b->reg.version && a->reg.present == b->reg.present &&
           a->reg.value.size == b->reg.value.size &&
           (a->reg.value.size == 0 || a->reg.value.data[0] == b->reg.value.data[0]);
}

static void register_describe(struct once__text *text, const union once__value *value)
{
    if (value->reg.present)
        once__text_add_bytes(text, value->reg.value);
    else
        once__text_add(text, value->reg.version == 0 ? "never set" : "deleted");
    once__text_add(text, " (version %" PRIu64 ")", value->reg.version);
}

static void register_describe_operation(struct once__text *text,
                                        const struct once__operation *operation)
{
    once__text_add(text, "%s", once__effects[operation->id].name);
    if (operation->id == ONCE__SET || operation->id == ONCE__SET_IF)
        once__text_add(text, " %c", letters[operation->arg[ARG_VALUE]]);
    if (operation->arg[ARG_VERSION] >= 0)
        once__text_add(text, " IF %" PRId64, operation->arg[ARG_VERSION]);
}

const struct once__model once__model_set = {
    .states = {10, 1000},
    .operations = {VALUES, VALUES},
    .others = {15, 1000},
    .grouping = once__grouping_batch,
    .state = register_state,
    .operation = set_operation,
    .other = register_other,
    .apply = register_apply,
    .equal = register_equal,
    .describe = register_describe,
    .describe_operation = register_describe_operation,
};

const struct once__model once__model_set_if = {
    .states = {10, 40},
    .operations = {12, 40},
    .others = {15, 40},
    .grouping = once__grouping_batch,
    .state = register_state,
    .operation = set_if_operation,
    .other = register_other,
    .apply = register_apply,
    .equal = register_equal,
    .describe = register_describe,
    .describe_operation = register_describe_operation,
};

const struct once__model once__model_delete = {
    .states = {10, 1000},
    .operations = {1, 1},
    .others = {15, 1000},
    .grouping = once__grouping_batch,
    .state = register_state,
    .operation = delete_operation,
    .other = register_other,
    .apply = register_apply,
    .equal = register_equal,
    .describe = register_describe,
    .describe_operation = register_describe_operation,
};

const struct once__model once__model_delete_if = {
    .states = {10, 40},
    .operations = {6, 20},
    .others = {15, 40},
    .grouping = once__grouping_batch,
    .state = register_state,
    .operation = delete_if_operation,
    .other = register_other,
    .apply = register_apply,
    .equal = register_equal,
    .describe = register_describe,
    .describe_operation = register_describe_operation,
};

/* --- APPEND event, APPEND event AT version --- */

enum { EVENTS = 2, LOG_STATES_LARGE = 1000 }; /* events a and b; logs of up to 9 of them */

/* Logs in order of length: 1 + the digits of a bijective number in base EVENTS. */
static int log_state(uint64_t index, union once__value *ret_value)
{
    struct once__model_log log = {0};

    for (; index > 0; index = (index - 1) / EVENTS) {
        ONCE_ASSERT(log.count < ONCE__MODEL_EVENTS);
        log.events[log.count++] = (uint8_t)letters[(index - 1) % EVENTS];
    }
    ret_value->log = log;
    return ONCE_OK;
}

static void append_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__APPEND, .arg = {(int64_t)index, -1}};
}

static void append_at_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){
        .id = ONCE__APPEND_AT, .arg = {(int64_t)(index % EVENTS), (int64_t)(index / EVENTS)}};
}

/* What may happen to a log: a blind APPEND, and then one at each version. */
static void log_other(uint64_t index, struct once__operation *ret_operation)
{
    if (index < EVENTS)
        append_operation(index, ret_operation);
    else
        append_at_operation(index - EVENTS, ret_operation);
}

/* The step counts; the model keeps what was appended where the step said so. */
static int log_apply(union once__value *value, const struct once__operation *operation)
{
    struct once__model_log *log = &value->log;
    struct once__expected at = expected_of(operation);
    uint8_t event = (uint8_t)letters[operation->arg[ARG_VALUE]];
    bool there = at.given && at.version < log->count && log->events[at.version] == event;
    enum once__effect_word word = once__effect_append(
        &log->count, (struct once__append){.at = at, .there = there});

    if (word == ONCE__EFFECT_CHANGED) {
        ONCE_ASSERT(log->count <= ONCE__MODEL_EVENTS);
        log->events[log->count - 1] = event;
    }
    return (int)word;
}

static bool log_equal(const union once__value *a, const union once__value *b)
{
    return a->log.count == b->log.count && memcmp(a->log.events, b->log.events, a->log.count) == 0;
}

static void log_describe(struct once__text *text, const union once__value *value)
{
    once__text_add(text, "[");
    for (uint64_t i = 0; i < value->log.count; i++)
        once__text_add(text, "%s%c", i == 0 ? "" : " ", value->log.events[i]);
    once__text_add(text, "]");
}

static void log_describe_operation(struct once__text *text, const struct once__operation *operation)
{
    once__text_add(text, "%s %c", once__effects[operation->id].name,
                   letters[operation->arg[ARG_VALUE]]);
    if (operation->arg[ARG_VERSION] >= 0)
        once__text_add(text, " AT %" PRId64, operation->arg[ARG_VERSION]);
}

const struct once__model once__model_append = {
    .states = {15, LOG_STATES_LARGE},
    .operations = {EVENTS, EVENTS},
    .others = {12, 12},
    .grouping = once__grouping_batch,
    .state = log_state,
    .operation = append_operation,
    .other = log_other,
    .apply = log_apply,
    .equal = log_equal,
    .describe = log_describe,
    .describe_operation = log_describe_operation,
};

const struct once__model once__model_append_at = {
    .states = {15, LOG_STATES_LARGE},
    .operations = {10, 24},
    .others = {12, 24},
    .grouping = once__grouping_batch,
    .state = log_state,
    .operation = append_at_operation,
    .other = log_other,
    .apply = log_apply,
    .equal = log_equal,
    .describe = log_describe,
    .describe_operation = log_describe_operation,
};

/* --- EMIT message, SENT number… --- */

enum { GONE = 0, MESSAGES = EVENTS + 1, OUTBOX_STATES_LARGE = 1000, SENT_NUMBERS = 8 };

/* As log_state, of messages a, b and those that went. */
static int outbox_state(uint64_t index, union once__value *ret_value)
{
    struct once__model_log log = {0};

    for (; index > 0; index = (index - 1) / MESSAGES) {
        uint64_t choice = (index - 1) % MESSAGES;

        ONCE_ASSERT(log.count < ONCE__MODEL_EVENTS);
        log.events[log.count++] = choice < EVENTS ? (uint8_t)letters[choice] : GONE;
    }
    ret_value->log = log;
    return ONCE_OK;
}

static void emit_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__EMIT, .arg = {(int64_t)index}};
}

/* Bit i of the argument is number i + 1. */
static void sent_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__SENT, .arg = {(int64_t)index + 1}};
}

static void outbox_other(uint64_t index, struct once__operation *ret_operation)
{
    if (index < EVENTS)
        emit_operation(index, ret_operation);
    else
        sent_operation(index - EVENTS, ret_operation);
}

/* A step for each number; one that is refused refuses all. */
static int sent_apply(struct once__model_log *log, int64_t numbers)
{
    const struct once__model_log before = *log;
    enum once__effect_word all = ONCE__EFFECT_UNCHANGED;

    for (uint64_t i = 0; i < SENT_NUMBERS; i++) {
        bool there = i < log->count && log->events[i] != GONE;
        enum once__effect_word word;

        if (((numbers >> i) & 1) == 0)
            continue;
        word = once__effect_sent(&there, (struct once__receipt){i + 1, log->count});
        if (once__effect_rejected(word)) {
            *log = before;
            return (int)word;
        }
        if (word == ONCE__EFFECT_CHANGED) {
            all = word;
            log->events[i] = GONE;
        }
    }
    return (int)all;
}

static int outbox_apply(union once__value *value, const struct once__operation *operation)
{
    struct once__model_log *log = &value->log;
    enum once__effect_word word;

    if (operation->id == ONCE__SENT)
        return sent_apply(log, operation->arg[0]);
    word = once__effect_emit(&log->count);
    if (word == ONCE__EFFECT_CHANGED) {
        ONCE_ASSERT(log->count <= ONCE__MODEL_EVENTS);
        log->events[log->count - 1] = (uint8_t)letters[operation->arg[0]];
    }
    return (int)word;
}

static void outbox_describe(struct once__text *text, const union once__value *value)
{
    const struct once__model_log *log = &value->log;

    once__text_add(text, "[");
    for (uint64_t i = 0; i < log->count; i++)
        once__text_add(text, "%s%c", i == 0 ? "" : " ",
                       log->events[i] == GONE ? '-' : log->events[i]);
    once__text_add(text, "]");
}

static void outbox_describe_operation(struct once__text *text,
                                      const struct once__operation *operation)
{
    once__text_add(text, "%s", once__effects[operation->id].name);
    if (operation->id == ONCE__EMIT)
        once__text_add(text, " %c", letters[operation->arg[0]]);
    for (int i = 0; operation->id == ONCE__SENT && i < SENT_NUMBERS; i++) {
        if ((operation->arg[0] >> i) & 1)
            once__text_add(text, " %d", i + 1);
    }
}

const struct once__model once__model_emit = {
    .states = {15, OUTBOX_STATES_LARGE},
    .operations = {EVENTS, EVENTS},
    .others = {EVENTS + 7, EVENTS + 255},
    .grouping = once__grouping_batch,
    .state = outbox_state,
    .operation = emit_operation,
    .other = outbox_other,
    .apply = outbox_apply,
    .equal = log_equal,
    .describe = outbox_describe,
    .describe_operation = outbox_describe_operation,
};

const struct once__model once__model_sent = {
    .states = {15, OUTBOX_STATES_LARGE},
    .operations = {15, 255},
    .others = {EVENTS + 7, EVENTS + 255},
    .grouping = once__grouping_batch,
    .state = outbox_state,
    .operation = sent_operation,
    .other = outbox_other,
    .apply = outbox_apply,
    .equal = log_equal,
    .describe = outbox_describe,
    .describe_operation = outbox_describe_operation,
};
