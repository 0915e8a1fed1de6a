/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of MACHINE and MOVE. The machine is part of the state that is searched: all machines of up
 * to three states, then random ones of six.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "laws/model.h"
#include "laws/search.h"

enum { SMALL_STATES = 3, SMALL_MOVES = 6, SMALL_MACHINES = 1 << SMALL_MOVES, LARGE_STATES = 6 };

/* The moves between three states, those between the first two first. */
static const struct once__move small_moves[SMALL_MOVES] = {{0, 1}, {1, 0}, {0, 2},
                                                           {2, 0}, {1, 2}, {2, 1}};

static void add_move(struct once__machine *machine, struct once__move move)
{
    uint32_t last = move.from > move.to ? move.from : move.to;

    machine->to[move.from] |= (uint64_t)1 << move.to;
    if (machine->state_count <= last)
        machine->state_count = last + 1;
}

/* Bit i of moves is small_moves[i]. */
static struct once__machine small_machine(uint64_t moves)
{
    struct once__machine machine = {0};

    for (size_t i = 0; i < SMALL_MOVES; i++) {
        if ((moves >> i) & 1)
            add_move(&machine, small_moves[i]);
    }
    return machine;
}

/* About every second move that there could be; forward: only from a lower state to a higher one. */
static struct once__machine large_machine(uint64_t index, bool forward)
{
    struct once__machine machine = {.state_count = LARGE_STATES};
    uint64_t bits = once__scatter(index);

    for (uint32_t from = 0; from < LARGE_STATES; from++) {
        for (uint32_t to = 0; to < LARGE_STATES; to++, bits >>= 1) {
            if ((bits & 1) && from != to && (!forward || from < to))
                add_move(&machine, (struct once__move){from, to});
        }
    }
    return machine;
}

static void describe_machine(struct once__text *text, const struct once__machine *machine)
{
    const char *before = "";

    for (uint32_t from = 0; from < machine->state_count; from++) {
        for (uint32_t to = 0; to < machine->state_count; to++) {
            if (((machine->to[from] >> to) & 1) == 0)
                continue;
            once__text_add(text, "%s%c>%c", before, 'a' + (int)from, 'a' + (int)to);
            before = " ";
        }
    }
}

/* --- MACHINE from>to… --- */

static int machine_state(uint64_t index, union once__value *ret_value)
{
    ret_value->machine = (struct once__model_machine){.machine = small_machine(index)};
    return ONCE_OK;
}

static void machine_operation(uint64_t index, struct once__operation *ret_operation)
{
    *ret_operation = (struct once__operation){.id = ONCE__MACHINE, .arg = {(int64_t)index + 1}};
}

static int machine_apply(union once__value *value, const struct once__operation *operation)
{
    struct once__machine declared = small_machine((uint64_t)operation->arg[0]);

    return (int)once__effect_machine(&value->machine.machine, &declared);
}

static bool machine_equal(const union once__value *a, const union once__value *b)
{
    return a->machine.machine.state_count == b->machine.machine.state_count &&
           memcmp(a->machine.machine.to, b->machine.machine.to, sizeof(a->machine.machine.to)) == 0;
}

static void machine_describe(struct once__text *text, const union once__value *value)
{
    if (value->machine.machine.state_count == 0)
        once__text_add(text, "not declared");
    else
        describe_machine(text, &value->machine.machine);
}

static void machine_describe_operation(struct once__text *text,
                                       const struct once__operation *operation)
{
    struct once__machine declared = small_machine((uint64_t)operation->arg[0]);

    once__text_add(text, "MACHINE ");
    describe_machine(text, &declared);
}

const struct once__model once__model_machine = {
    .states = {8, SMALL_MACHINES},
    .operations = {8, SMALL_MACHINES - 1},
    .grouping = once__grouping_batch,
    .state = machine_state,
    .operation = machine_operation,
    .apply = machine_apply,
    .equal = machine_equal,
    .describe = machine_describe,
    .describe_operation = machine_describe_operation,
};

/* --- MOVE from to --- */

static int move_state(uint64_t index, union once__value *ret_value)
{
    struct once__model_machine machine = {0};

    if (index < SMALL_MACHINES * SMALL_STATES) {
        machine.machine = small_machine(index / SMALL_STATES);
        machine.machine.state_count = SMALL_STATES;
        machine.at = (uint32_t)(index % SMALL_STATES);
    } else {
        machine.machine = large_machine(index, false);
        machine.at = (uint32_t)(index % LARGE_STATES);
    }
    ret_value->machine = machine;
    return ONCE_OK;
}

/* Machines of three states in which moves only lead forward: with names exchanged, all without a
 * cycle. */
enum { FORWARD_MACHINES = 8 };

static int forward_state(uint64_t index, union once__value *ret_value)
{
    struct once__model_machine machine = {0};

    if (index < FORWARD_MACHINES * SMALL_STATES) {
        uint64_t choice = index / SMALL_STATES;

        /* a>b, a>c and b>c are moves 0, 2 and 4. */
        machine.machine = small_machine((choice & 1) | (choice & 2) << 1 | (choice & 4) << 2);
        machine.machine.state_count = SMALL_STATES;
        machine.at = (uint32_t)(index % SMALL_STATES);
    } else {
        machine.machine = large_machine(index, true);
        machine.at = (uint32_t)(index % LARGE_STATES);
    }
    ONCE_ASSERT(!once__machine_has_cycle(&machine.machine));
    ret_value->machine = machine;
    return ONCE_OK;
}

static void move_operation(uint64_t index, struct once__operation *ret_operation)
{
    struct once__move move = {.from = (uint32_t)(index / LARGE_STATES % LARGE_STATES),
                              .to = (uint32_t)(index % LARGE_STATES)};

    if (index < SMALL_MOVES)
        move = small_moves[index];
    *ret_operation = (struct once__operation){.id = ONCE__MOVE, .arg = {move.from, move.to}};
}

static int move_apply(union once__value *value, const struct once__operation *operation)
{
    struct once__move move = {.from = (uint32_t)operation->arg[0],
                              .to = (uint32_t)operation->arg[1]};

    return (int)once__effect_move(&value->machine.at, move, &value->machine.machine);
}

static bool move_equal(const union once__value *a, const union once__value *b)
{
    return a->machine.at == b->machine.at;
}

static void move_describe(struct once__text *text, const union once__value *value)
{
    once__text_add(text, "%c", 'a' + (int)value->machine.at);
}

static void move_describe_start(struct once__text *text, const union once__value *value)
{
    move_describe(text, value);
    once__text_add(text, " with ");
    describe_machine(text, &value->machine.machine);
}

static void move_describe_operation(struct once__text *text,
                                    const struct once__operation *operation)
{
    once__text_add(text, "MOVE %c %c", 'a' + (int)operation->arg[0], 'a' + (int)operation->arg[1]);
}

const struct once__model once__model_move = {
    .states = {SMALL_MACHINES * SMALL_STATES, 4096},
    .operations = {SMALL_MOVES, LARGE_STATES *LARGE_STATES},
    .grouping = once__grouping_batch,
    .state = move_state,
    .operation = move_operation,
    .apply = move_apply,
    .equal = move_equal,
    .describe = move_describe,
    .describe_start = move_describe_start,
    .describe_operation = move_describe_operation,
};

const struct once__model once__model_move_forward = {
    .states = {FORWARD_MACHINES * SMALL_STATES, 4096},
    .operations = {SMALL_MOVES, LARGE_STATES *LARGE_STATES},
    .grouping = once__grouping_batch,
    .state = forward_state,
    .operation = move_operation,
    .apply = move_apply,
    .equal = move_equal,
    .describe = move_describe,
    .describe_start = move_describe_start,
    .describe_operation = move_describe_operation,
};
