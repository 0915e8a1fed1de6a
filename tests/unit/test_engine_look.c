/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at the engine: lists and numbers.
 */
#include "engine_help.h"

enum { KEYS = 50 };

struct seen {
    struct life *life;
    const uint64_t *fences;
    unsigned count[KEYS];
    unsigned calls;
};

static unsigned number_of(const struct once_item *item)
{
    char text[LIFE_KEY_SIZE] = "";

    assert_true(item->key.size < sizeof(text));
    memcpy(text, item->key.data, item->key.size);
    return (unsigned)strtoul(text + strlen("key-"), NULL, 10);
}

static void see_and_renew(void *user, const struct once_item *item)
{
    struct seen *seen = user;

    seen->count[number_of(item)]++;
    if (seen->calls++ > 0)
        return;
    for (unsigned i = 0; i < KEYS; i++) {
        struct once_op op = {
            .call = ONCE_CALL_RENEW, .fence = seen->fences[i], .lease_ms = LIFE_HOUR_MS};

        assert_int_equal(life_word(seen->life, op, life_key(i).text, NULL), ONCE_DONE);
    }
}

static void list__everything_changes_while_a_page_is_shown__each_is_given_once(void **state)
{
    uint64_t fences[KEYS], cursor = 0;
    struct life life;
    struct seen seen = {.life = &life, .fences = fences};

    (void)state;
    life_begin(&life);
    for (unsigned i = 0; i < KEYS; i++)
        fences[i] = life_start(&life, life_key(i).text);
    do {
        assert_int_equal(
            once_list(life.store, NULL, cursor, KEYS, see_and_renew, &seen, &cursor), ONCE_OK);
    } while (cursor != 0);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(seen.count[i], 1);
    life_end(&life);
}

static void stats__submitted_read_of_a_cold_record__is_one_call(void **state)
{
    struct life life;
    unsigned number = 0, clock = 0;
    struct life_op get = {.clock = &clock, .op = {.call = ONCE_CALL_GET}};
    uint64_t calls;

    (void)state;
    life_begin(&life);
    (void)life_start(&life, "k");
    life_roll(&life, 0, &number);
    life_roll(&life, 0, &number);
    calls = life_stats(&life).calls;
    life_submit(&life, &get, "k");
    (void)once__engine_work(life.store);
    assert_int_equal(get.told, 1);
    assert_int_equal(get.op.reply.word, ONCE_DONE);
    once_reply_release(&get.op.reply);
    assert_int_equal(life_stats(&life).calls, calls + 1);
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list__everything_changes_while_a_page_is_shown__each_is_given_once),
        cmocka_unit_test(stats__submitted_read_of_a_cold_record__is_one_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
