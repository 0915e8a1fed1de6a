/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the line of an effect. The words that it splits into lie in the line and in the
 * scratch; quoted, they are split into the same words again; the deed that they make is within
 * every bound. The same bytes as results and as a rejection: what is read is written to the same
 * bytes.
 */
#include "base/assert.h"
#include "base/bytes.h"
#include "core/deed.h"
#include "core/deed_result.h"

#include <stdlib.h>
#include <string.h>

#include <once/apply.h>
#include <once/key.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct once_bytes words[ONCE_EFFECT_WORDS_MAX + 1];
static struct once_bytes words_again[ONCE_EFFECT_WORDS_MAX + 1];

static bool lies_in(struct once_bytes word, const uint8_t *block, size_t size)
{
    return word.data >= block && word.data + word.size <= block + size;
}

/* Quotes every word, and splits that. */
static void check_again(size_t count)
{
    struct once_bytes line;
    struct once_buf out;
    uint8_t *scratch;
    size_t again;

    once_buf_init(&out, SIZE_MAX / 2);
    for (size_t i = 0; i < count; i++) {
        ONCE_ASSERT(once_buf_append(&out, " \"", 2) == ONCE_OK);
        for (size_t j = 0; j < words[i].size; j++) {
            uint8_t escaped[2] = {'\\', words[i].data[j]};

            ONCE_ASSERT(once_buf_append(&out, escaped, 2) == ONCE_OK);
        }
        ONCE_ASSERT(once_buf_append(&out, "\"", 1) == ONCE_OK);
    }
    line = once_buf_bytes(&out);
    scratch = malloc(line.size > 0 ? line.size : 1);
    ONCE_ASSERT(scratch);
    ONCE_ASSERT(once_do_split(line, scratch, words_again, count, &again, NULL) == ONCE_OK);
    ONCE_ASSERT(again == count);
    for (size_t i = 0; i < count; i++)
        ONCE_ASSERT(once__bytes_equal(words[i], words_again[i]));
    free(scratch);
    once_buf_release(&out);
}

static void check_list(const struct once__deed *deed, size_t count)
{
    struct once_bytes from;
    struct once_bytes to;
    uint64_t number;

    ONCE_ASSERT(deed->member_count < count);
    ONCE_ASSERT(deed->member_count == 0 || deed->members + deed->member_count == words + count);
    for (size_t i = 0; i < deed->member_count; i++) {
        struct once_bytes member = deed->members[i];

        ONCE_ASSERT(member.size <= ONCE_MEMBER_SIZE_MAX);
        if (deed->kind == ONCE__DEED_MACHINE)
            ONCE_ASSERT(once__move_read(member, &from, &to) &&
                        from.size + to.size + 1 == member.size);
        if (deed->kind == ONCE__DEED_SENT)
            ONCE_ASSERT(once__uint64_read(member, ONCE_VERSION_MAX, &number) && number >= 1);
    }
}

static void check_deed(const struct once__deed *deed, size_t count)
{
    bool leased = deed->kind == ONCE__DEED_LEASE || deed->kind == ONCE__DEED_RENEW;
    bool token = deed->kind == ONCE__DEED_GUARD || deed->kind == ONCE__DEED_RENEW ||
                 deed->kind == ONCE__DEED_RELEASE || deed->kind == ONCE__DEED_HOLD;
    bool listed = deed->kind == ONCE__DEED_UNION || deed->kind == ONCE__DEED_INSERT ||
                  deed->kind == ONCE__DEED_REMOVE || deed->kind == ONCE__DEED_MACHINE ||
                  deed->kind == ONCE__DEED_SENT;

    ONCE_ASSERT(deed->kind < ONCE__DEED_MERGE && deed->effect < ONCE__EFFECT_COUNT);
    ONCE_ASSERT(once__effects[deed->effect].name);
    ONCE_ASSERT(words[0].size == strlen(once__effects[deed->effect].name));
    ONCE_ASSERT(once_key_check(deed->name, NULL) == ONCE_OK);
    ONCE_ASSERT(deed->range.min <= deed->range.max);
    ONCE_ASSERT(deed->epoch <= ONCE_VERSION_MAX && deed->number <= INT64_MAX);
    ONCE_ASSERT(deed->expected.version <= ONCE_VERSION_MAX);
    ONCE_ASSERT(leased ? deed->ms >= 1 && deed->ms <= ONCE_LEASE_MS_MAX : deed->ms == 0);
    ONCE_ASSERT(!token || (deed->number >= 1 && deed->number <= ONCE_FENCE_MAX));
    ONCE_ASSERT(deed->node.size <= ONCE_EVENT_ID_SIZE_MAX);
    ONCE_ASSERT(deed->value.size <= ONCE_VALUE_SIZE_MAX);
    ONCE_ASSERT(listed == (deed->member_count > 0) && listed == (deed->members != NULL));
    check_list(deed, count);
}

static void check_line(const uint8_t *block, size_t size)
{
    uint8_t *scratch = malloc(size > 0 ? size : 1);
    struct once_defect defect = {SIZE_MAX, NULL};
    struct once__deed deed;
    size_t count = SIZE_MAX;
    int err;

    ONCE_ASSERT(scratch);
    err = once_do_split((struct once_bytes){block, size}, scratch, words, ONCE_EFFECT_WORDS_MAX + 1,
                        &count, &defect);
    if (err != ONCE_OK) {
        ONCE_ASSERT(err == ONCE_ERR_INVALID || err == ONCE_ERR_FULL);
        ONCE_ASSERT(defect.offset < size && defect.what && count == SIZE_MAX);
        free(scratch);
        return;
    }
    ONCE_ASSERT(!defect.what && count <= ONCE_EFFECT_WORDS_MAX + 1);
    for (size_t i = 0; i < count; i++)
        ONCE_ASSERT(lies_in(words[i], block, size) || lies_in(words[i], scratch, size));
    check_again(count);

    err = once__deed_read(words, count, &deed, &defect);
    ONCE_ASSERT(err == ONCE_OK || err == ONCE_ERR_INVALID);
    if (err == ONCE_OK)
        check_deed(&deed, count);
    else
        ONCE_ASSERT(defect.offset <= count && defect.what);
    free(scratch);
}

static void check_results(struct once_bytes text)
{
    struct once_rejection rejection;
    struct once_result result;
    struct once_buf out;
    size_t offset = 0;
    int more;

    once_buf_init(&out, SIZE_MAX / 2);
    ONCE_ASSERT(once__results_begin(&out) == ONCE_OK);
    while ((more = once_results_next(text, &offset, &result)) == 1)
        ONCE_ASSERT((result.is_number ? once__results_number(&out, result.number)
                                      : once__results_word(&out, result.word)) == ONCE_OK);
    ONCE_ASSERT(once__results_end(&out) == ONCE_OK);
    ONCE_ASSERT(more == 0 || more == ONCE_ERR_DAMAGED);
    ONCE_ASSERT(more != 0 || once__bytes_equal(once_buf_bytes(&out), text));

    if (once_rejection_read(text, &rejection) == ONCE_OK) {
        char *word = strndup((const char *)rejection.word.data, rejection.word.size);
        char *reason = strndup((const char *)rejection.reason.data, rejection.reason.size);

        ONCE_ASSERT(word && reason);
        once_buf_clear(&out);
        ONCE_ASSERT(once__rejection_write(&out, rejection.effect, word, reason) == ONCE_OK);
        ONCE_ASSERT(once__bytes_equal(once_buf_bytes(&out), text));
        free(word);
        free(reason);
    }
    once_buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *block = malloc(size > 0 ? size : 1); /* exact, so that a read beyond it is seen */

    ONCE_ASSERT(block);
    if (size > 0)
        memcpy(block, data, size);
    check_line(block, size);
    check_results((struct once_bytes){block, size});
    free(block);
    return 0;
}
