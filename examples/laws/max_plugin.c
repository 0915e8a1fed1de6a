/* SPDX-License-Identifier: Apache-2.0
 *
 * A lawful merge: of two numbers the larger. Duplicates, reordering and regrouping make no
 * difference.
 *
 *     once laws ./max_plugin.so
 */
#include <once/laws_plugin.h>

#include <stdio.h>
#include <string.h>

static int64_t number_of(const void *state)
{
    int64_t number;

    memcpy(&number, state, sizeof(number));
    return number;
}

/* 0, 1, 2, … */
size_t once_laws_generate(uint64_t index, void *state, size_t capacity)
{
    int64_t number = (int64_t)index;

    if (capacity < sizeof(number))
        return ONCE_LAWS_END;
    memcpy(state, &number, sizeof(number));
    return sizeof(number);
}

size_t once_laws_merge(const void *a, size_t a_size, const void *b, size_t b_size, void *out,
                       size_t capacity)
{
    int64_t number = number_of(a) > number_of(b) ? number_of(a) : number_of(b);

    (void)a_size;
    (void)b_size;
    (void)capacity;
    memcpy(out, &number, sizeof(number));
    return sizeof(number);
}

size_t once_laws_describe(const void *state, size_t size, char *text, size_t capacity)
{
    (void)size;
    return (size_t)snprintf(text, capacity, "%lld", (long long)number_of(state));
}
