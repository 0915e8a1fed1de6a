/* SPDX-License-Identifier: Apache-2.0
 *
 * State machines (S7): only declared moves run, and arriving where one already is does nothing. A
 * declaration is text, "cart>paid paid>shipped"; it serves any number of entities, and each begins
 * in the state that it names first. What a move may do is decided by core/effect.c.
 */
#include "lite.h"

#include <stdio.h>

#include <once/limits.h>

#include "base/bytes.h"
#include "core/effect.h"
#include "object/object.h"

enum { TEXT_SIZE = 256, SHOWN_MAX = 64 };

/* A declared machine; it borrows from the statement that found it, or from an argument. */
struct machine {
    struct once_bytes name;
    struct once_bytes declared;
    struct once__declaration declaration;
};

/* name and moves, as arguments. */
static bool declared_args(struct once__lite_call *call, struct machine *ret_machine)
{
    struct once_defect defect = {0, NULL};
    struct once__lite_bytes moves;
    char text[TEXT_SIZE];
    int err;

    if (!once__lite_key_arg(call, 0, "the machine", &ret_machine->name) ||
        !once__lite_bytes_arg(call, 1, "the moves", ONCE_DECLARATION_SIZE_MAX, &moves))
        return false;
    ret_machine->declared = moves.bytes;
    err = once__declaration_read(moves.bytes, &ret_machine->declaration, &defect);
    if (err == ONCE_OK)
        return true;
    (void)snprintf(text, sizeof text, "the moves, at byte %zu: %s", defect.offset, defect.what);
    once__lite_error(call, err, text);
    return false;
}

/* False: there is none, or the error is set. *ret_row holds its bytes until _rest. */
static bool find_machine(struct once__lite_call *call, struct machine *machine,
                         sqlite3_stmt **ret_row, bool *ret_ok)
{
    struct once__lite_value name = once__lite_text(machine->name);
    struct once_defect defect = {0, NULL};

    *ret_ok = once__lite_ask(call, ONCE__LITE_MACHINE_LOOK, &name, 1, ret_row);
    if (!*ret_ok || !*ret_row)
        return false;
    machine->declared = once__lite_column(*ret_row, 0);
    if (once__declaration_read(machine->declared, &machine->declaration, &defect) == ONCE_OK)
        return true;
    once__lite_error(call, ONCE_ERR_DAMAGED, "the machine's declaration cannot be read");
    *ret_ok = false;
    once__lite_rest(*ret_row);
    *ret_row = NULL;
    return false;
}

static struct once__lite_value *machine_row(const struct machine *machine,
                                            struct once__lite_value *values)
{
    values[0] = once__lite_text(machine->name);
    values[1] = once__lite_text(machine->declared);
    return values;
}

/* 1: declared now. 0: it was declared like this. */
void once__lite_do_machine(struct once__lite_call *call)
{
    struct machine machine, before;
    struct once__lite_value values[2];
    sqlite3_stmt *row;
    bool ok, same;

    if (!declared_args(call, &machine) || !once__lite_start(call))
        return;
    before.name = machine.name;
    if (find_machine(call, &before, &row, &ok)) {
        same = once__bytes_equal(before.declared, machine.declared);
        once__lite_rest(row);
        if (!same) {
            once__lite_abandon(call);
            once__lite_refuse(call, ONCE_REJECTED,
                              "REDECLARED: the machine is declared already, and differently; "
                              "once_machine_change() declares it anew");
            return;
        }
        once__lite_end(call, true, 0);
        return;
    }
    ok = ok &&
         once__lite_tell(call, ONCE__LITE_MACHINE_ADD, machine_row(&machine, values), 2, NULL);
    once__lite_end(call, ok, 1);
}

/* No entity may be in a state that the new declaration does not name. */
static bool no_strays(struct once__lite_call *call, const struct machine *machine)
{
    struct once__lite_value name = once__lite_text(machine->name);
    char text[TEXT_SIZE];
    sqlite3_stmt *row;
    bool stray = false;

    if (!once__lite_ask(call, ONCE__LITE_MACHINE_STRAYS, &name, 1, &row))
        return false;
    for (int status = row ? SQLITE_ROW : SQLITE_DONE; status == SQLITE_ROW && !stray;
         status = stray ? status : sqlite3_step(row)) {
        struct once_bytes state = once__lite_column(row, 0);

        stray = once__declaration_state(&machine->declaration, state) == UINT32_MAX;
        if (stray)
            (void)snprintf(text, sizeof text,
                           "NO_STATE: %.*s is in %.*s, which the new declaration does not name",
                           SHOWN_MAX, sqlite3_column_text(row, 1), SHOWN_MAX,
                           sqlite3_column_text(row, 0));
    }
    once__lite_rest(row);
    if (stray)
        once__lite_refuse(call, ONCE_REJECTED, text);
    return !stray;
}

void once__lite_do_machine_change(struct once__lite_call *call)
{
    struct machine machine;
    struct once__lite_value values[2];
    int64_t changed;

    if (!declared_args(call, &machine) || !once__lite_start(call))
        return;
    if (!no_strays(call, &machine) ||
        !once__lite_tell(call, ONCE__LITE_MACHINE_CHANGE, machine_row(&machine, values), 2,
                         &changed)) {
        once__lite_abandon(call);
    } else if (changed == 0) {
        once__lite_abandon(call);
        once__lite_refuse(call, ONCE_NOTFOUND, "there is no such machine");
    } else {
        once__lite_end(call, true, 1);
    }
}

/* ---- Entities -------------------------------------------------------------------------------- */

/* Where the entity is, as a number of the declaration; the first state if it never moved. */
static bool find_entity(struct once__lite_call *call, const struct machine *machine,
                        struct once_bytes entity, uint32_t *ret_at)
{
    const struct once__lite_value values[] = {once__lite_text(machine->name),
                                              once__lite_text(entity)};
    sqlite3_stmt *row;

    if (!once__lite_ask(call, ONCE__LITE_ENTITY_LOOK, values, 2, &row))
        return false;
    *ret_at = row ? once__declaration_state(&machine->declaration, once__lite_column(row, 0)) : 0;
    once__lite_rest(row);
    if (*ret_at != UINT32_MAX)
        return true;
    once__lite_error(call, ONCE_ERR_DAMAGED, "the entity is in a state that nobody declared");
    return false;
}

static void no_machine(struct once__lite_call *call)
{
    once__lite_refuse(call, ONCE_NOTFOUND, "there is no such machine; once_machine() declares it");
}

void once__lite_do_state(struct once__lite_call *call)
{
    struct machine machine;
    struct once_bytes entity;
    sqlite3_stmt *row = NULL;
    uint32_t at;
    bool ok = true;

    if (!once__lite_key_arg(call, 0, "the machine", &machine.name) ||
        !once__lite_key_arg(call, 1, "the entity", &entity))
        return;
    call->lite->reading = true;
    call->lite->own = false;
    if (once__lite_installed(call->lite) && find_machine(call, &machine, &row, &ok)) {
        if (find_entity(call, &machine, entity, &at))
            sqlite3_result_text(call->context, (const char *)machine.declaration.states[at].data,
                                (int)machine.declaration.states[at].size, SQLITE_TRANSIENT);
    } else if (ok) {
        no_machine(call);
    }
    once__lite_rest(row);
    once__lite_abandon(call);
}

static const char *name_of(enum once__effect_word word)
{
    if (word == ONCE__EFFECT_NO_STATE)
        return "NO_STATE";
    return word == ONCE__EFFECT_NO_MOVE ? "NO_MOVE" : "ELSEWHERE";
}

static void reject_move(struct once__lite_call *call, enum once__effect_word why,
                        const struct machine *machine, uint32_t at)
{
    struct once_bytes state = machine->declaration.states[at];
    char text[TEXT_SIZE];

    (void)snprintf(text, sizeof text, "%s: %s; it is in %.*s", name_of(why),
                   once__effect_word_text(why), (int)state.size, (const char *)state.data);
    once__lite_refuse(call, ONCE_REJECTED, text);
}

/* Between enter and leave. */
static bool move(struct once__lite_call *call, struct machine *machine, struct once_bytes entity,
                 const struct once_bytes ends[2], bool *ret_moved)
{
    struct once__move move;
    enum once__effect_word word;
    uint32_t at, before;

    move.from = once__declaration_state(&machine->declaration, ends[0]);
    move.to = once__declaration_state(&machine->declaration, ends[1]);
    if (!find_entity(call, machine, entity, &at))
        return false;
    before = at;
    word = once__effect_move(&at, move, &machine->declaration.machine);
    *ret_moved = word == ONCE__EFFECT_CHANGED;
    if (word == ONCE__EFFECT_UNCHANGED)
        return true;
    if (word != ONCE__EFFECT_CHANGED) {
        reject_move(call, word, machine, before);
        return false;
    }
    return once__lite_tell(
        call, ONCE__LITE_ENTITY_SET,
        (struct once__lite_value[]){once__lite_text(machine->name), once__lite_text(entity),
                                    once__lite_text(machine->declaration.states[at]),
                                    once__lite_number(call->lite->now_ms)},
        4, NULL);
}

/* 1: it moved. 0: it was there already. Else it is REJECTED: not declared, or out of turn. */
void once__lite_do_move(struct once__lite_call *call)
{
    struct machine machine;
    struct once_bytes entity, ends[2];
    sqlite3_stmt *row = NULL;
    bool ok, moved = false;

    if (!once__lite_key_arg(call, 0, "the machine", &machine.name) ||
        !once__lite_key_arg(call, 1, "the entity", &entity) ||
        !once__lite_key_arg(call, 2, "the state before", &ends[0]) ||
        !once__lite_key_arg(call, 3, "the state after", &ends[1]) || !once__lite_start(call))
        return;
    if (find_machine(call, &machine, &row, &ok)) {
        ok = move(call, &machine, entity, ends, &moved);
    } else if (ok) {
        no_machine(call);
        ok = false;
    }
    once__lite_rest(row);
    once__lite_end(call, ok, moved ? 1 : 0);
}
