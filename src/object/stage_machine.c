/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on a state machine: MACHINE declares it, MOVE moves it. A MOVE never makes a machine, and
 * what a rejected one is told names the moves that there are.
 */
#include "object/stage_inner.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

/* All states and what stands around them: more than the moves from one can take. */
enum { MOVES_TEXT_SIZE = ONCE_MACHINE_STATES_MAX * (ONCE_STATE_NAME_SIZE_MAX + 2) + 1 };

struct once_bytes once__stage_declared(const struct once__stage *stage,
                                       const struct once__slot *slot)
{
    if (!slot->now.machine.declared)
        return once__object_declared(slot->object);
    ONCE_ASSERT(slot->now.machine.offset + slot->now.machine.size <= stage->declared.size);
    return (struct once_bytes){.data = stage->declared.data + slot->now.machine.offset,
                               .size = slot->now.machine.size};
}

/* What was checked when it was declared. */
static int read_declared(const struct once__stage *stage, const struct once__slot *slot,
                         struct once__declaration *ret_declaration)
{
    struct once_defect defect;
    int err = once__declaration_read(once__stage_declared(stage, slot), ret_declaration, &defect);

    return err == ONCE_ERR_INVALID ? ONCE_ERR_DAMAGED : err;
}

/* The words of MACHINE with one blank between, behind everything in stage->declared. */
static int join_moves(struct once__stage *stage, struct once_bytes *ret_text)
{
    const struct once__deed *deed = stage->deed;
    struct once_buf *out = &stage->declared;
    size_t offset = out->size;
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < deed->member_count; i++) {
        if (i > 0)
            err = once_buf_append(out, " ", 1);
        if (err == ONCE_OK)
            err = once_buf_append(out, deed->members[i].data, deed->members[i].size);
    }
    if (err == ONCE_ERR_FULL || (err == ONCE_OK && out->size - offset > ONCE_DECLARATION_SIZE_MAX))
        return once__stage_fail(stage, ONCE_ERR_FULL,
                                "the moves of a machine take more bytes than they may");
    if (err == ONCE_OK)
        *ret_text = (struct once_bytes){.data = out->data + offset, .size = out->size - offset};
    return err;
}

static bool same_names(const struct once__declaration *a, const struct once__declaration *b)
{
    if (a->machine.state_count != b->machine.state_count)
        return false;
    for (uint32_t i = 0; i < a->machine.state_count; i++) {
        if (!once__bytes_equal(a->states[i], b->states[i]))
            return false;
    }
    return true;
}

static int declare_again(struct once__stage *stage, const struct once__slot *slot,
                         const struct once__declaration *declared)
{
    struct once__declaration present;
    enum once__effect_word word;
    int err = read_declared(stage, slot, &present);

    if (err != ONCE_OK)
        return err;
    word = once__effect_machine(&present.machine, &declared->machine);
    ONCE_ASSERT(word != ONCE__EFFECT_CHANGED);
    if (word == ONCE__EFFECT_UNCHANGED && same_names(&present, declared))
        return once__stage_number(stage, 0);
    return once__stage_reject(stage, ONCE__EFFECT_REDECLARED,
                              "%.*s is declared already, with other moves, and is in state %.*s: a "
                              "machine is declared once",
                              ONCE__STAGE_TEXT(slot->name),
                              ONCE__STAGE_TEXT(present.states[slot->now.machine.at]));
}

int once__stage_machine(struct once__stage *stage)
{
    struct once__declaration declared;
    struct once_defect defect;
    struct once__slot *slot;
    struct once_bytes text;
    int err = once__stage_slot(stage, ONCE_OBJECT_MACHINE, &slot);

    if (err == ONCE_OK)
        err = join_moves(stage, &text);
    if (err != ONCE_OK)
        return err;
    err = once__declaration_read(text, &declared, &defect);
    if (err != ONCE_OK)
        return once__stage_fail(stage, err, defect.what);
    if (once__slot_exists(slot))
        return declare_again(stage, slot, &declared);

    err = once__stage_change(stage, slot, text.size);
    if (err != ONCE_OK)
        return err;
    slot->now.machine.declared = true;
    slot->now.machine.offset = (size_t)(text.data - stage->declared.data);
    slot->now.machine.size = text.size;
    slot->now.machine.at = 0;
    return once__stage_number(stage, 1);
}

/* "a, b": where the machine may go from a state. */
static void write_moves(const struct once__declaration *declaration, uint32_t from,
                        char text[MOVES_TEXT_SIZE])
{
    size_t size = 0;

    text[0] = '\0';
    for (uint32_t to = 0; to < declaration->machine.state_count; to++) {
        struct once_bytes name = declaration->states[to];

        if (to == from || ((declaration->machine.to[from] >> to) & 1) == 0)
            continue;
        ONCE_ASSERT(size + 2 + name.size < MOVES_TEXT_SIZE);
        size += (size_t)snprintf(text + size, MOVES_TEXT_SIZE - size, "%s%.*s",
                                 size > 0 ? ", " : "", ONCE__STAGE_TEXT(name));
    }
}

static int reject_move(struct once__stage *stage, enum once__effect_word word, uint32_t at,
                       const struct once__declaration *declaration)
{
    const struct once__deed *deed = stage->deed;
    struct once_bytes here = declaration->states[at], wrong = deed->node;
    char moves[MOVES_TEXT_SIZE];
    const char *before = "from there it may move to ";

    write_moves(declaration, at, moves);
    if (moves[0] == '\0')
        before = "from there no move leads on";
    if (word == ONCE__EFFECT_NO_STATE) {
        if (once__declaration_state(declaration, wrong) != UINT32_MAX)
            wrong = deed->value;
        return once__stage_reject(stage, word, "%.*s has no state %.*s; it is in %.*s, and %s%s",
                                  ONCE__STAGE_TEXT(deed->name), ONCE__STAGE_TEXT(wrong),
                                  ONCE__STAGE_TEXT(here), before, moves);
    }
    if (word == ONCE__EFFECT_NO_MOVE)
        return once__stage_reject(
            stage, word, "%.*s has no move %.*s>%.*s; it is in %.*s, and %s%s",
            ONCE__STAGE_TEXT(deed->name), ONCE__STAGE_TEXT(deed->node),
            ONCE__STAGE_TEXT(deed->value), ONCE__STAGE_TEXT(here), before, moves);
    return once__stage_reject(stage, word, "%.*s is in %.*s, not in %.*s; %s%s",
                              ONCE__STAGE_TEXT(deed->name), ONCE__STAGE_TEXT(here),
                              ONCE__STAGE_TEXT(deed->node), before, moves);
}

int once__stage_move(struct once__stage *stage)
{
    const struct once__deed *deed = stage->deed;
    struct once__declaration declaration;
    enum once__effect_word word;
    struct once__slot *slot;
    struct once__move move;
    int err = once__stage_slot_keyless(stage, ONCE_OBJECT_MACHINE, &slot);

    if (err != ONCE_OK)
        return err;
    if (!once__slot_exists(slot))
        return once__stage_reject(stage, ONCE__EFFECT_NO_STATE,
                                  "%.*s is no machine yet: declare it first with MACHINE",
                                  ONCE__STAGE_TEXT(deed->name));
    err = read_declared(stage, slot, &declaration);
    if (err == ONCE_OK && !stage->input->has_key)
        err = once__stage_key_check(
            stage, once__machine_has_cycle(&declaration.machine) ? ONCE__MOVE : ONCE__MOVE_FORWARD);
    if (err != ONCE_OK)
        return err;

    move.from = once__declaration_state(&declaration, deed->node);
    move.to = once__declaration_state(&declaration, deed->value);
    word = once__effect_move(&slot->now.machine.at, move, &declaration.machine);
    if (once__effect_rejected(word))
        return reject_move(stage, word, slot->now.machine.at, &declaration);
    if (word == ONCE__EFFECT_CHANGED)
        err = once__stage_change(stage, slot, 0);
    ONCE_ASSERT(slot->now.machine.at < declaration.machine.state_count);
    return err == ONCE_OK ? once__stage_word(stage, declaration.states[slot->now.machine.at]) : err;
}
