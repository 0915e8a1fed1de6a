/* SPDX-License-Identifier: Apache-2.0
 *
 * How far one word is from another: letters left out, put in, changed, or two neighbours swapped.
 * One slip is forgiven in a short word, two in a longer one. Of words that are equally near the
 * first one that was tried wins.
 */
#include "base/nearest.h"

#include <string.h>

enum { WORD_SIZE_MAX = 32 }; /* longer ones are no slip of a finger */

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Three rows of the table of distances between all beginnings of both words are enough: a swap
 * looks two rows back. */
static size_t distance_of(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t rows[3][WORD_SIZE_MAX + 1];

    for (size_t j = 0; j <= b_size; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            row[j] = min_of(min_of(above[j] + 1, row[j - 1] + 1),
                            above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = min_of(row[j], above2[j - 2] + 1);
        }
    }
    return rows[a_size % 3][b_size];
}

/* Dashes in front say nothing about which word it is. */
static size_t letters(const char *word, size_t size)
{
    size_t dashes = 0;

    while (dashes < size && word[dashes] == '-')
        dashes++;
    return size - dashes;
}

void once__nearest_try(struct once__nearest *nearest, const char *word)
{
    size_t size = strlen(word), count = letters(nearest->typed, nearest->size), distance;
    size_t allowed = count <= 4 ? 1 : 2;

    if (size > WORD_SIZE_MAX || nearest->size > WORD_SIZE_MAX || count < 2)
        return;
    /* The beginning of a word, long enough to be meant, is one slip away from it. */
    if (count >= 3 && nearest->size < size && memcmp(word, nearest->typed, nearest->size) == 0)
        distance = 1;
    else
        distance = distance_of(nearest->typed, nearest->size, word, size);
    if (distance > allowed || (nearest->best != NULL && distance >= nearest->distance))
        return;
    nearest->best = word;
    nearest->distance = distance;
}
