/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as JSON. The canonical form is its own canonical form; what is accepted with exact
 * numbers has the same form with rounded ones; what is refused points inside the text and leaves
 * the output alone.
 */
#include "base/assert.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <once/fingerprint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_SIZE_MAX = 1 << 24 };

static int canonical(struct once_bytes json, enum once_json_numbers numbers, struct once_buf *out)
{
    struct once_defect defect = {.offset = SIZE_MAX, .what = NULL};
    int err;

    once_buf_init(out, OUT_SIZE_MAX);
    err = once_json_canonical(json, numbers, out, &defect);
    if (err == ONCE_OK) {
        ONCE_ASSERT(out->size > 0 && !defect.what);
        return err;
    }
    ONCE_ASSERT(err == ONCE_ERR_JSON || err == ONCE_ERR_JSON_NUMBER ||
                err == ONCE_ERR_JSON_DUPLICATE || err == ONCE_ERR_FULL);
    ONCE_ASSERT(defect.offset <= json.size && defect.what);
    ONCE_ASSERT(out->size == 0);
    return err;
}

static bool same(const struct once_buf *a, const struct once_buf *b)
{
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

static void check_fixed_point(const struct once_buf *form, enum once_json_numbers numbers)
{
    struct once_buf again;

    ONCE_ASSERT(canonical(once_buf_bytes(form), numbers, &again) == ONCE_OK);
    ONCE_ASSERT(same(form, &again));
    once_buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *block = malloc(size > 0 ? size : 1); /* exact, so that a read beyond it is seen */
    struct once_bytes json = {block, size};
    struct once_buf exact, rounded;
    int exact_err, rounded_err;

    ONCE_ASSERT(block);
    if (size > 0)
        memcpy(block, data, size);
    exact_err = canonical(json, ONCE_JSON_EXACT, &exact);
    rounded_err = canonical(json, ONCE_JSON_RFC8785, &rounded);
    if (exact_err == ONCE_OK) {
        ONCE_ASSERT(rounded_err == ONCE_OK);
        ONCE_ASSERT(same(&exact, &rounded));
    } else if (exact_err != ONCE_ERR_JSON_NUMBER) {
        ONCE_ASSERT(rounded_err == exact_err);
    }
    if (rounded_err == ONCE_OK) {
        /* What was rounded once is exact from then on. */
        check_fixed_point(&rounded, ONCE_JSON_EXACT);
        check_fixed_point(&rounded, ONCE_JSON_RFC8785);
    }
    once_buf_release(&exact);
    once_buf_release(&rounded);
    free(block);
    return 0;
}
