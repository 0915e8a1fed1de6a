/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a machine's declaration: "a>b b>c", moves with one blank between. States are numbered in
 * the order in which they are first named. Keeps nothing; what a move may do is core/effect.c's.
 */
#include "object/object.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/defect.h"
#include "core/deed.h"

/* What may follow a blank: the move up to the next one, or to the end. */
static struct once_bytes next_word(struct once_bytes text, size_t offset)
{
    const uint8_t *from = text.data + offset;
    const uint8_t *blank = memchr(from, ' ', text.size - offset);
    size_t size = blank ? (size_t)(blank - from) : text.size - offset;

    return (struct once_bytes){.data = from, .size = size};
}

uint32_t once__declaration_state(const struct once__declaration *declaration,
                                 struct once_bytes name)
{
    ONCE_ASSERT(declaration->machine.state_count <= ONCE_MACHINE_STATES_MAX);

    for (uint32_t i = 0; i < declaration->machine.state_count; i++)
        if (once__bytes_equal(declaration->states[i], name))
            return i;
    return UINT32_MAX;
}

/* The number of a state that may be new; UINT32_MAX if there is no number left. */
static uint32_t state_named(struct once__declaration *declaration, struct once_bytes name)
{
    uint32_t state = once__declaration_state(declaration, name);

    if (state != UINT32_MAX || declaration->machine.state_count == ONCE_MACHINE_STATES_MAX)
        return state;
    state = declaration->machine.state_count++;
    declaration->states[state] = name;
    return state;
}

int once__declaration_read(struct once_bytes declared, struct once__declaration *ret_declaration,
                           struct once_defect *ret_defect)
{
    struct once__declaration read = {.machine = {.state_count = 0}};
    size_t offset = 0;

    if (declared.size == 0 || !declared.data)
        return once__defect(ONCE_ERR_INVALID, 0, "a machine has at least one move", ret_defect);
    if (declared.size > ONCE_DECLARATION_SIZE_MAX)
        return once__defect(ONCE_ERR_INVALID, ONCE_DECLARATION_SIZE_MAX,
                            "the declaration is longer than the bound", ret_defect);
    for (;;) {
        struct once_bytes word = next_word(declared, offset), from, to;
        uint32_t i, j;

        if (!once__move_read(word, &from, &to))
            return once__defect(ONCE_ERR_INVALID, offset, "not a move: from>to", ret_defect);
        i = state_named(&read, from);
        j = i == UINT32_MAX ? i : state_named(&read, to);
        if (j == UINT32_MAX)
            return once__defect(ONCE_ERR_INVALID, offset, "more states than the bound", ret_defect);
        read.machine.to[i] |= UINT64_C(1) << j;
        offset += word.size;
        if (offset == declared.size)
            break;
        offset++; /* the blank; what follows it must be a move again */
    }
    ONCE_ASSERT(read.machine.state_count > 0);
    *ret_declaration = read;
    return ONCE_OK;
}
