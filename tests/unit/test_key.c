/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <once/key.h>

static struct once_bytes key_bytes(const struct once_key *key)
{
    return (struct once_bytes){(const uint8_t *)key->text, key->size};
}

static void assert_well_formed(const struct once_key *key)
{
    assert_int_equal(strlen(key->text), key->size);
    assert_int_equal(once_key_check(key_bytes(key), NULL), ONCE_OK);
}

static once_ms wall_ms(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void key_uuid4__made__is_version_4_without_a_birth(void **state)
{
    struct once_key key, other;

    (void)state;
    assert_int_equal(once_key_uuid4(&key), ONCE_OK);
    assert_int_equal(once_key_uuid4(&other), ONCE_OK);
    assert_well_formed(&key);
    assert_int_equal(key.size, ONCE_UUID_TEXT_SIZE);
    assert_int_equal(key.text[14], '4');
    assert_non_null(strchr("89ab", key.text[19]));
    assert_int_equal(once_key_birth_ms(key_bytes(&key)), ONCE_BIRTH_NONE);
    assert_string_not_equal(key.text, other.text);
}

static void key_uuid7__made__is_born_now(void **state)
{
    struct once_key key;
    once_ms before_ms = wall_ms();

    (void)state;
    assert_int_equal(once_key_uuid7(&key), ONCE_OK);
    assert_well_formed(&key);
    assert_int_equal(key.size, ONCE_UUID_TEXT_SIZE);
    assert_int_equal(key.text[14], '7');
    assert_in_range(once_key_birth_ms(key_bytes(&key)), before_ms, wall_ms());
}

static void key_uuid7__many__sort_as_text_in_the_order_made(void **state)
{
    struct once_key last, key;

    (void)state;
    assert_int_equal(once_key_uuid7(&last), ONCE_OK);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(once_key_uuid7(&key), ONCE_OK);
        assert_true(strcmp(key.text, last.text) > 0);
        last = key;
    }
}

enum { FORKED_KEYS = 2000 };

static int compare_texts(const void *a, const void *b)
{
    return memcmp(a, b, ONCE_UUID_TEXT_SIZE);
}

/* FORKED_KEYS keys of each kind, one after the other. */
static void make_keys(char *ret_texts)
{
    struct once_key key;

    for (int i = 0; i < 2 * FORKED_KEYS; i++) {
        if ((i % 2 == 0 ? once_key_uuid7(&key) : once_key_uuid4(&key)) != ONCE_OK)
            _exit(1);
        memcpy(ret_texts + (ptrdiff_t)i * ONCE_UUID_TEXT_SIZE, key.text, ONCE_UUID_TEXT_SIZE);
    }
}

static void read_all(int fd, char *ret_bytes, size_t size)
{
    while (size > 0) {
        ssize_t got = read(fd, ret_bytes, size);

        assert_true(got > 0);
        ret_bytes += got;
        size -= (size_t)got;
    }
}

static void key_uuids__after_a_fork__never_meet(void **state)
{
    const size_t size = (size_t)2 * FORKED_KEYS * ONCE_UUID_TEXT_SIZE;
    char *texts = malloc(2 * size);
    struct once_key warm;
    int pipes[2], status;
    pid_t child;

    (void)state;
    assert_non_null(texts);
    assert_int_equal(once_key_uuid7(&warm), ONCE_OK);
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        bool wrote;

        make_keys(texts);
        wrote = write(pipes[1], texts, size) == (ssize_t)size;
        _exit(wrote ? 0 : 1);
    }
    assert_true(child > 0);
    close(pipes[1]);
    make_keys(texts);
    read_all(pipes[0], texts + size, size);
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    qsort(texts, (size_t)4 * FORKED_KEYS, ONCE_UUID_TEXT_SIZE, compare_texts);
    for (size_t i = 1; i < (size_t)4 * FORKED_KEYS; i++)
        assert_true(compare_texts(texts + (i - 1) * ONCE_UUID_TEXT_SIZE,
                                  texts + i * ONCE_UUID_TEXT_SIZE) < 0);
    free(texts);
}

static struct once_key digest_of(const char *first, const char *second)
{
    struct once_bytes parts[] = {once_bytes_of(first), once_bytes_of(second)};
    struct once_key key;

    assert_int_equal(once_key_digest(parts, second ? 2 : 1, &key), ONCE_OK);
    assert_well_formed(&key);
    return key;
}

/* The expected digests come from another implementation: Python's hashlib over struct.pack(">Q").
 * */
static void key_digest__known_parts__gives_the_known_key(void **state)
{
    (void)state;
    assert_string_equal(digest_of("ab", "c").text,
                        "601d5476e2ccfe2c87a2bba7a322659734a05749d5b5aa781f513e4912db0d5f");
    assert_string_equal(digest_of("a", "bc").text,
                        "3fafa1cf2f19a7c1129beb20cf0983f73a489a221fc0dd2f16d1be292d089205");
    assert_string_equal(digest_of("a", NULL).text,
                        "3b196fd4907bedf51c3090e9835f2f7cb61e7ee1b2299ea3b8fed9b4183a822a");
    assert_string_equal(digest_of("a", "").text,
                        "6aa98e17c109dd8e2ae23a478ceb48e193c730289ba48d741388a3cc8b38ef4f");
    assert_string_equal(digest_of("", NULL).text,
                        "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc");
}

static void key_digest__same_bytes_cut_elsewhere__is_another_key(void **state)
{
    (void)state;
    assert_string_not_equal(digest_of("ab", "c").text, digest_of("a", "bc").text);
    assert_string_not_equal(digest_of("a", "").text, digest_of("a", NULL).text);
    assert_string_not_equal(digest_of("", "a").text, digest_of("a", "").text);
    assert_string_not_equal(digest_of("a", "b").text, digest_of("b", "a").text);
}

static void key_digest__bad_arguments__are_invalid(void **state)
{
    struct once_bytes part = once_bytes_of("a");
    struct once_bytes null_part = {NULL, 1};
    struct once_key key = {.size = 42};

    (void)state;
    assert_int_equal(once_key_digest(&part, 0, &key), ONCE_ERR_INVALID);
    assert_int_equal(once_key_digest(NULL, 1, &key), ONCE_ERR_INVALID);
    assert_int_equal(once_key_digest(&null_part, 1, &key), ONCE_ERR_INVALID);
    assert_int_equal(once_key_digest(&part, 1, NULL), ONCE_ERR_INVALID);
    assert_int_equal(once_key_uuid4(NULL), ONCE_ERR_INVALID);
    assert_int_equal(once_key_uuid7(NULL), ONCE_ERR_INVALID);
    assert_int_equal(key.size, 42);
}

static void key_sequence__extreme_numbers__are_decimal(void **state)
{
    struct once_key key;

    (void)state;
    assert_int_equal(once_key_sequence(once_bytes_of("till-7"), 0, &key), ONCE_OK);
    assert_string_equal(key.text, "till-7:0");
    assert_int_equal(once_key_sequence(once_bytes_of("till-7"), UINT64_MAX, &key), ONCE_OK);
    assert_string_equal(key.text, "till-7:18446744073709551615");
    assert_well_formed(&key);
}

/* Reads a key back by the rule that makes it injective: the sequence is what follows the last
 * colon. */
static void assert_reads_back(const char *client, uint64_t sequence)
{
    struct once_key key;
    const char *colon;

    assert_int_equal(once_key_sequence(once_bytes_of(client), sequence, &key), ONCE_OK);
    colon = strrchr(key.text, ':');
    assert_non_null(colon);
    assert_int_equal(strtoull(colon + 1, NULL, 10), sequence);
    assert_int_equal((size_t)(colon - key.text), strlen(client));
    assert_memory_equal(key.text, client, strlen(client));
}

static void key_sequence__colons_and_digits_in_the_client__stays_one_key_per_pair(void **state)
{
    static const char *const clients[] = {"a", "a:1", "a:1:2", ":", "::", "1", "1:", ":1", "12"};
    static const uint64_t sequences[] = {0, 1, 2, 12, 21, 112};
    enum { CLIENTS = sizeof(clients) / sizeof(clients[0]) };
    enum { SEQUENCES = sizeof(sequences) / sizeof(sequences[0]) };
    struct once_key keys[CLIENTS * SEQUENCES];

    (void)state;
    for (size_t i = 0; i < CLIENTS * SEQUENCES; i++) {
        const char *client = clients[i / SEQUENCES];
        uint64_t sequence = sequences[i % SEQUENCES];

        assert_reads_back(client, sequence);
        assert_int_equal(once_key_sequence(once_bytes_of(client), sequence, &keys[i]), ONCE_OK);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(keys[i].text, keys[j].text);
    }
}

static void key_sequence__client_that_leaves_no_room__is_too_long(void **state)
{
    uint8_t client[ONCE_KEY_SIZE_MAX];
    struct once_key key = {.size = 42};

    (void)state;
    memset(client, 'c', sizeof(client));
    assert_int_equal(once_key_sequence((struct once_bytes){client, ONCE_KEY_SIZE_MAX - 1}, 7, &key),
                     ONCE_ERR_KEY_TOO_LONG);
    assert_int_equal(
        once_key_sequence((struct once_bytes){client, ONCE_KEY_SIZE_MAX - 2}, 10, &key),
        ONCE_ERR_KEY_TOO_LONG);
    assert_int_equal(key.size, 42);
    assert_int_equal(once_key_sequence((struct once_bytes){client, ONCE_KEY_SIZE_MAX - 2}, 7, &key),
                     ONCE_OK);
    assert_int_equal(key.size, ONCE_KEY_SIZE_MAX);
    assert_well_formed(&key);
}

static void key_sequence__bad_client__has_the_error_of_the_key_rules(void **state)
{
    struct once_key key;

    (void)state;
    assert_int_equal(once_key_sequence(once_bytes_of(""), 1, &key), ONCE_ERR_KEY_EMPTY);
    assert_int_equal(once_key_sequence(once_bytes_of("a\tb"), 1, &key), ONCE_ERR_KEY_CHARACTER);
    assert_int_equal(once_key_sequence(once_bytes_of("a"), 1, NULL), ONCE_ERR_INVALID);
}

static void key_business__good_id__is_copied(void **state)
{
    struct once_defect defect = {.offset = 42};
    struct once_key key;

    (void)state;
    assert_int_equal(once_key_business(once_bytes_of("order 8841 \"x\""), &key, &defect), ONCE_OK);
    assert_string_equal(key.text, "order 8841 \"x\"");
    assert_int_equal(key.size, 14);
    assert_int_equal(defect.offset, 42);
}

static void key_business__bad_id__says_where_and_leaves_the_key(void **state)
{
    struct once_defect defect = {0};
    struct once_key key = {.size = 42};

    (void)state;
    assert_int_equal(once_key_business(once_bytes_of("ord\xc3\xa9"), &key, &defect),
                     ONCE_ERR_KEY_CHARACTER);
    assert_int_equal(defect.offset, 3);
    assert_non_null(defect.what);
    assert_int_equal(key.size, 42);
}

static void key_check__each_byte__is_allowed_when_printable_ascii(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t key[] = {'a', (uint8_t)byte};
        struct once_defect defect = {.offset = 42};
        bool printable = byte >= 0x20 && byte <= 0x7e;

        assert_int_equal(once_key_check((struct once_bytes){key, 2}, &defect),
                         printable ? ONCE_OK : ONCE_ERR_KEY_CHARACTER);
        assert_int_equal(defect.offset, printable ? 42 : 1);
    }
}

static void key_check__sizes_at_the_bounds__are_empty_fine_or_too_long(void **state)
{
    uint8_t key[ONCE_KEY_SIZE_MAX + 10];
    struct once_defect defect = {.offset = 42};

    (void)state;
    memset(key, 'k', sizeof(key));
    assert_int_equal(once_key_check((struct once_bytes){NULL, 0}, &defect), ONCE_ERR_KEY_EMPTY);
    assert_int_equal(defect.offset, 0);
    assert_int_equal(once_key_check((struct once_bytes){NULL, 1}, &defect), ONCE_ERR_INVALID);
    assert_int_equal(once_key_check((struct once_bytes){key, 1}, NULL), ONCE_OK);
    assert_int_equal(once_key_check((struct once_bytes){key, ONCE_KEY_SIZE_MAX}, NULL), ONCE_OK);
    assert_int_equal(once_key_check((struct once_bytes){key, ONCE_KEY_SIZE_MAX + 1}, &defect),
                     ONCE_ERR_KEY_TOO_LONG);
    assert_int_equal(defect.offset, ONCE_KEY_SIZE_MAX);
}

static void key_check__two_defects__tells_the_leftmost(void **state)
{
    uint8_t key[ONCE_KEY_SIZE_MAX + 10];
    struct once_defect defect;

    (void)state;
    memset(key, 'k', sizeof(key));
    key[ONCE_KEY_SIZE_MAX + 2] = '\n';
    assert_int_equal(once_key_check((struct once_bytes){key, sizeof(key)}, &defect),
                     ONCE_ERR_KEY_TOO_LONG);
    key[7] = 0x7f;
    assert_int_equal(once_key_check((struct once_bytes){key, sizeof(key)}, &defect),
                     ONCE_ERR_KEY_CHARACTER);
    assert_int_equal(defect.offset, 7);
}

static void key_birth__exactly_a_uuid7__is_its_time_else_none(void **state)
{
    static const struct {
        const char *key;
        once_ms birth_ms;
    } cases[] = {
        {"017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 1645557742000},
        {"017F22E2-79B0-7CC3-98C4-DC0C0C07398F", 1645557742000},
        {"017f22e2-79b0-7cc3-B8C4-dc0c0c07398f", 1645557742000},
        {"017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", ONCE_BIRTH_NONE},
        {"017f22e2-79b0-4cc3-98c4-dc0c0c07398f", ONCE_BIRTH_NONE},
        {"017f22e2-79b0-7cc3-98c4-dc0c0c07398", ONCE_BIRTH_NONE},
        {" 17f22e2-79b0-7cc3-98c4-dc0c0c07398f", ONCE_BIRTH_NONE},
        {"017f22e279b07cc398c4dc0c0c07398f", ONCE_BIRTH_NONE},
        {"x017f22e2-79b0-7cc3-98c4-dc0c0c07398f", ONCE_BIRTH_NONE},
        {"order-8841", ONCE_BIRTH_NONE},
        {"", ONCE_BIRTH_NONE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(once_key_birth_ms(once_bytes_of(cases[i].key)), cases[i].birth_ms);
    assert_int_equal(once_key_birth_ms((struct once_bytes){NULL, ONCE_UUID_TEXT_SIZE}),
                     ONCE_BIRTH_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_uuid4__made__is_version_4_without_a_birth),
        cmocka_unit_test(key_uuid7__made__is_born_now),
        cmocka_unit_test(key_uuid7__many__sort_as_text_in_the_order_made),
        cmocka_unit_test(key_uuids__after_a_fork__never_meet),
        cmocka_unit_test(key_digest__known_parts__gives_the_known_key),
        cmocka_unit_test(key_digest__same_bytes_cut_elsewhere__is_another_key),
        cmocka_unit_test(key_digest__bad_arguments__are_invalid),
        cmocka_unit_test(key_sequence__extreme_numbers__are_decimal),
        cmocka_unit_test(key_sequence__colons_and_digits_in_the_client__stays_one_key_per_pair),
        cmocka_unit_test(key_sequence__client_that_leaves_no_room__is_too_long),
        cmocka_unit_test(key_sequence__bad_client__has_the_error_of_the_key_rules),
        cmocka_unit_test(key_business__good_id__is_copied),
        cmocka_unit_test(key_business__bad_id__says_where_and_leaves_the_key),
        cmocka_unit_test(key_check__each_byte__is_allowed_when_printable_ascii),
        cmocka_unit_test(key_check__sizes_at_the_bounds__are_empty_fine_or_too_long),
        cmocka_unit_test(key_check__two_defects__tells_the_leftmost),
        cmocka_unit_test(key_birth__exactly_a_uuid7__is_its_time_else_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
