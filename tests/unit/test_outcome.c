/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/seeded.h"

#include "core/outcome.h"

static void outcome__by_default__is_the_table_of_the_docs(void **state)
{
    (void)state;
    for (int status = -5; status < 700; status++) {
        enum once_outcome expected = ONCE_OUTCOME_DOUBT;

        if (status >= 200 && status < 500)
            expected = ONCE_OUTCOME_STORE;
        if (status == 408 || status == 425 || status == 429 || status == 503)
            expected = ONCE_OUTCOME_RELEASE;
        assert_int_equal(once__outcome_of_status(status, ONCE_ON_5XX_DEFAULT), expected);
    }
}

static void outcome__5xx_policy__decides_5xx_and_nothing_else(void **state)
{
    static const struct {
        enum once_on_5xx policy;
        enum once_outcome expected;
    } rows[] = {
        {ONCE_ON_5XX_RELEASE, ONCE_OUTCOME_RELEASE},
        {ONCE_ON_5XX_STORE, ONCE_OUTCOME_STORE},
        {ONCE_ON_5XX_DOUBT, ONCE_OUTCOME_DOUBT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int status = -5; status < 700; status++) {
            enum once_outcome expected = status >= 500 && status <= 599
                                             ? rows[i].expected
                                             : once__outcome_of_status(status, ONCE_ON_5XX_DEFAULT);

            assert_int_equal(once__outcome_of_status(status, rows[i].policy), expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outcome__by_default__is_the_table_of_the_docs),
        cmocka_unit_test(outcome__5xx_policy__decides_5xx_and_nothing_else),
    };

    return cmocka_run_group_tests_name("outcome", tests, NULL, NULL);
}
