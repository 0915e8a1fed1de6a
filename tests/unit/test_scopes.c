/* SPDX-License-Identifier: Apache-2.0
 *
 * Namespaces that a search looks in: from the configuration, from the counters, and from a walk
 * over a store whose namespaces nobody has named.
 */
#include "service_help.h"

#include "server/scopes.h"

static bool has(const struct once__scope_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->names[i], name) == 0)
            return true;
    }
    return false;
}

static void add__any_order__sorted_and_each_once(void **state)
{
    static const char *const given[] = {"pay", "mail", "pay", "zoo", "a", "mail", ""};
    static const char *const expected[] = {"a", "mail", "pay", "zoo"};
    struct once__scope_names names = {0};
    char long_name[ONCE_NAMESPACE_SIZE_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
        assert_true(once__scope_names_add(&names, once_bytes_of(given[i])));
    memset(long_name, 'x', sizeof(long_name));
    assert_true(once__scope_names_add(
        &names, (struct once_bytes){(const uint8_t *)long_name, sizeof(long_name) - 1}));
    assert_int_equal(names.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(names.names[i], expected[i]);
    once__scope_names_release(&names);
}

static void add__too_many__full_and_bounded(void **state)
{
    struct once__scope_names names = {0};

    (void)state;
    for (int i = 0; i <= ONCE_SCOPES_MAX; i++) {
        char name[32];

        assert_false(names.full);
        snprintf(name, sizeof(name), "ns-%d", i);
        assert_true(once__scope_names_add(&names, once_bytes_of(name)));
    }
    assert_true(names.full);
    assert_int_equal(names.count, ONCE_SCOPES_MAX);
    once__scope_names_release(&names);
}

/* Begins operations that no counter knows: straight in the store. */
static void fill(struct house *house, int count)
{
    for (int i = 0; i < count; i++) {
        char ns[32], key[32];
        struct once_reply reply;

        snprintf(ns, sizeof(ns), "old-%d", i % 7);
        snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(once_begin(house->life.store, once_name_of(ns, key), NULL, &reply),
                         ONCE_OK);
        once_reply_release(&reply);
    }
}

static void look__walks_the_store_and_asks_configuration_and_counters(void **state)
{
    struct once__scopes *scopes = NULL;
    struct once__scope_names names;
    struct once__config *config = house_config(
        "dir = /nowhere\n[namespace declared]\n[namespace own]\nscope = user\n"
        "[user alice]\ntoken = sha256$"
        "0000000000000000000000000000000000000000000000000000000000000000\nnamespaces = *\n");
    struct house house;
    bool whole = false;

    (void)state;
    house_open(&house, false);
    fill(&house, 500);
    (void)once__metrics_namespace(house.metrics, once_bytes_of("counted"));
    assert_int_equal(once__scopes_new(&scopes), ONCE_OK);
    for (int i = 0; i < 1000 && !whole; i++) {
        assert_int_equal(
            once__scopes_look(scopes, house.life.store, config, house.metrics, &names, &whole),
            ONCE_OK);
        if (!whole)
            once__scope_names_release(&names);
    }
    assert_true(whole);
    assert_true(has(&names, "old-0") && has(&names, "old-6"));
    assert_true(has(&names, "declared") && has(&names, "counted"));
    assert_true(has(&names, "own") && has(&names, "own@alice"));
    assert_false(has(&names, "declared@alice") || has(&names, "every other") || has(&names, ""));
    assert_int_equal(names.count, 7 + 4);
    once__scope_names_release(&names);
    once__scopes_free(scopes);
    once__scopes_free(NULL);
    once__config_unref(config);
    house_close(&house);
}

static bool look_all(struct house *house, struct once__scopes *scopes, const char *name)
{
    struct once__scope_names names;
    bool whole = false, found = false;

    for (int i = 0; i < 1000 && !whole; i++) {
        assert_int_equal(once__scopes_look(scopes, house->life.store, house->config, house->metrics,
                                           &names, &whole),
                         ONCE_OK);
        found = has(&names, name);
        once__scope_names_release(&names);
    }
    assert_true(whole);
    return found;
}

/* Scopes are counted under their namespace: the counters do not know them, and a walk that is over
 * cannot either. */
static void look__scope_begun_after_the_walk__is_found(void **state)
{
    struct once__call begin = {.op = {.call = ONCE_CALL_BEGIN, .ns = once_bytes_of("pay~acme")}};
    struct once__scopes *scopes = NULL;
    struct house house;
    struct guest guest;

    (void)state;
    house_open(&house, false);
    fill(&house, 50);
    assert_int_equal(once__scopes_new(&scopes), ONCE_OK);
    assert_false(look_all(&house, scopes, "pay~acme"));
    guest_submit(&house, &guest, begin, "k");
    HOUSE_AWAIT(&house, guest.told == 1);
    assert_int_equal(guest.word, ONCE_EXECUTE);
    assert_true(look_all(&house, scopes, "pay~acme"));
    guest_release(&guest);
    once__scopes_free(scopes);
    house_close(&house);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add__any_order__sorted_and_each_once),
        cmocka_unit_test(add__too_many__full_and_bounded),
        cmocka_unit_test(look__walks_the_store_and_asks_configuration_and_counters),
        cmocka_unit_test(look__scope_begun_after_the_walk__is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
