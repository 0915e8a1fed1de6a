/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is known, what they may do, and what someone who guesses gets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/access.h"
#include "server/password.h"

static once_ms clock_ms;

static once_ms now(void *user)
{
    (void)user;
    return clock_ms;
}

/* A server's part of it: alice has a password, bob a token, root both. */
struct fixture {
    struct once__lane *lane;
    struct once__access *access;
    struct once__config *config;
    char alice[256];
    char token[128];
};

static void made(struct once_buf *buf, char *ret_text, size_t size)
{
    assert_true(buf->size < size);
    memcpy(ret_text, buf->data, buf->size);
    ret_text[buf->size] = '\0';
    once_buf_release(buf);
}

static struct once__config *parse(const char *text)
{
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;

    if (once__config_parse("test", once_bytes_of(text), &config, &error) != ONCE_OK)
        print_error("%s\n", error.text);
    assert_non_null(config);
    return config;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct once_buf password, token, line;
    char token_line[128], text[2048];

    assert_non_null(fixture);
    once_buf_init(&password, 256);
    once_buf_init(&token, 256);
    once_buf_init(&line, 256);
    assert_int_equal(once__password_make(once_bytes_of("correct horse"), &password), ONCE_OK);
    assert_int_equal(once__token_make(&token, &line), ONCE_OK);
    made(&password, fixture->alice, sizeof(fixture->alice));
    made(&token, fixture->token, sizeof(fixture->token));
    made(&line, token_line, sizeof(token_line));
    snprintf(text, sizeof(text),
             "[user alice]\npassword = %s\nnamespaces = pay, mail\nobjects = acct:, x\nrate = 10\n"
             "[user bob]\ntoken = %s\nrole = read\nnamespaces = *\n"
             "[user root]\npassword = %s\nrole = admin\n",
             fixture->alice, token_line, fixture->alice);
    fixture->config = parse(text);
    assert_int_equal(once__lane_new(1, 64, &fixture->lane), ONCE_OK);
    assert_int_equal(once__access_new(fixture->lane, &fixture->access), ONCE_OK);
    clock_ms = 1000000;
    once__access_set_clock(fixture->access, now, NULL);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    once__lane_free(fixture->lane);
    once__access_free(fixture->access);
    once__config_unref(fixture->config);
    free(fixture);
    return 0;
}

/* ---- A try that is waited for ---------------------------------------------------------------- */

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool done;
};

static void tell(struct once__login *login)
{
    struct waiting *waiting = login->user;

    pthread_mutex_lock(&waiting->lock);
    waiting->done = true;
    pthread_cond_signal(&waiting->told);
    pthread_mutex_unlock(&waiting->lock);
}

enum how { AT_ONCE, COMPARED };

static enum how try_from(const struct fixture *fixture, const char *from, const char *name,
                         const char *secret, struct once__login *login)
{
    struct waiting waiting = {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER};
    static const uint8_t nothing[sizeof(login->secret)];
    enum how how = AT_ONCE;

    *login = (struct once__login){.config = fixture->config,
                                  .bearer = name == NULL,
                                  .secret_size = strlen(secret),
                                  .done = tell,
                                  .user = &waiting};
    snprintf(login->name, sizeof(login->name), "%s", name ? name : "");
    snprintf(login->from, sizeof(login->from), "%s", from);
    memcpy(login->secret, secret, strlen(secret));
    if (!once__access_start(fixture->access, login)) {
        how = COMPARED;
        pthread_mutex_lock(&waiting.lock);
        while (!waiting.done)
            pthread_cond_wait(&waiting.told, &waiting.lock);
        pthread_mutex_unlock(&waiting.lock);
    }
    assert_memory_equal(login->secret, nothing, sizeof(nothing)); /* wiped */
    return how;
}

static enum how try(const struct fixture *fixture, const char *name, const char *secret,
                    struct once__login *login)
{
    return try_from(fixture, "10.0.0.1", name, secret, login);
}

/* ---- Passwords and tokens -------------------------------------------------------------------- */

static void password__right__is_compared_once_and_then_remembered(void **state)
{
    const struct fixture *fixture = *state;
    struct once__login login;

    assert_int_equal(try(fixture, "alice", "correct horse", &login), COMPARED);
    assert_true(login.granted);
    assert_true(login.identity.known);
    assert_string_equal(login.identity.name, "alice");
    assert_int_equal(login.identity.role, ONCE__ROLE_WRITE);
    assert_int_equal(try(fixture, "alice", "correct horse", &login), AT_ONCE);
    assert_true(login.granted);
    clock_ms += ONCE_PASSWORD_CACHE_MS;
    assert_int_equal(try(fixture, "alice", "correct horse", &login), COMPARED);
    assert_true(login.granted);
}

static void password__wrong_or_of_another__is_compared_and_refused(void **state)
{
    const struct fixture *fixture = *state;
    struct once__login login;

    assert_int_equal(try(fixture, "alice", "correct horse", &login), COMPARED);
    assert_int_equal(try(fixture, "alice", "correct horsf", &login), COMPARED);
    assert_false(login.granted);
    assert_false(login.delayed);
    assert_false(login.identity.known);
    assert_int_equal(try(fixture, "alice", "", &login), COMPARED);
    assert_false(login.granted);
    /* A name that does not exist, or has no password, is as dear as one that does. */
    assert_int_equal(try(fixture, "nobody", "correct horse", &login), COMPARED);
    assert_false(login.granted);
    assert_int_equal(try(fixture, "bob", "correct horse", &login), COMPARED);
    assert_false(login.granted);
    /* The same password of another user was not remembered for them. */
    assert_int_equal(try(fixture, "root", "correct horse", &login), COMPARED);
    assert_true(login.granted);
}

static void token__as_bearer_or_as_password_of_its_user__is_known(void **state)
{
    const struct fixture *fixture = *state;
    struct once__login login;

    assert_int_equal(try(fixture, NULL, fixture->token, &login), AT_ONCE);
    assert_true(login.granted);
    assert_string_equal(login.identity.name, "bob");
    assert_int_equal(login.identity.role, ONCE__ROLE_READ);
    assert_int_equal(try(fixture, "bob", fixture->token, &login), AT_ONCE);
    assert_true(login.granted);
    (void)try(fixture, "alice", fixture->token, &login);
    assert_false(login.granted);
    assert_int_equal(try(fixture, NULL, "once_wrong", &login), AT_ONCE);
    assert_false(login.granted);
    assert_int_equal(try(fixture, NULL, "", &login), AT_ONCE);
    assert_false(login.granted);
}

static void wrong__too_often__waits_for_the_window_to_end(void **state)
{
    const struct fixture *fixture = *state;
    struct once__login login;

    for (int i = 0; i < ONCE_AUTH_FAILURES_MAX; i++) {
        assert_int_equal(try(fixture, NULL, "wrong", &login), AT_ONCE);
        assert_false(login.delayed);
        clock_ms += 10;
    }
    assert_int_equal(try(fixture, "alice", "correct horse", &login), AT_ONCE);
    assert_true(login.delayed); /* not even the right one is looked at */
    assert_false(login.granted);
    (void)try(fixture, NULL, "wrong", &login);
    assert_true(login.delayed);
    (void)try(fixture, NULL, fixture->token, &login); /* which nobody can have guessed */
    assert_true(login.granted);
    (void)try_from(fixture, "10.0.0.2", "alice", "correct horse", &login);
    assert_true(login.granted); /* others are not held up */
    (void)try(fixture, "alice", "correct horse", &login);
    assert_true(login.delayed); /* and what is remembered is no way around */
    clock_ms += ONCE_AUTH_WINDOW_MS;
    (void)try(fixture, "alice", "correct horse", &login);
    assert_true(login.granted);
}

static void wrong__from_one_network_of_ipv6__counts_together(void **state)
{
    const struct fixture *fixture = *state;
    struct once__login login;
    char from[64];

    for (int i = 0; i < ONCE_AUTH_FAILURES_MAX; i++) {
        snprintf(from, sizeof(from), "2001:db8:1:2::%x", i + 1);
        (void)try_from(fixture, from, NULL, "wrong", &login);
        assert_false(login.delayed);
    }
    (void)try_from(fixture, "2001:db8:1:2:ffff::9", "alice", "correct horse", &login);
    assert_true(login.delayed);
    (void)try_from(fixture, "2001:db8:1:3::9", "alice", "correct horse", &login);
    assert_true(login.granted);
}

static void wrong__from_thousands_of_addresses__stays_bounded(void **state)
{
    const struct fixture *fixture = *state;
    struct once__login login;
    char from[64];

    for (int i = 0; i < 5000; i++) {
        snprintf(from, sizeof(from), "10.1.%d.%d", i / 250, i % 250);
        (void)try_from(fixture, from, NULL, "wrong", &login);
        assert_false(login.granted);
        assert_false(login.delayed);
    }
}

static void full_lane(struct once__job *job)
{
    struct waiting *waiting = (void *)((char *)job + sizeof(*job));

    pthread_mutex_lock(&waiting->lock);
    while (!waiting->done)
        pthread_cond_wait(&waiting->told, &waiting->lock);
    pthread_mutex_unlock(&waiting->lock);
}

static void password__when_too_many_wait__is_delayed(void **state)
{
    struct fixture *fixture = *state;
    struct {
        struct once__job job;
        struct waiting waiting;
    } block = {{.run = full_lane},
               {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER}};
    struct once__lane *lane;
    struct once__access *access;
    struct once__login login = {.config = fixture->config, .name = "alice", .done = tell};
    struct once__login more[2] = {login, login};
    struct waiting told[2] = {
        {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER},
        {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER}};
    bool at_once[2];

    assert_int_equal(once__lane_new(1, 1, &lane), ONCE_OK);
    assert_int_equal(once__access_new(lane, &access), ONCE_OK);
    assert_int_equal(once__lane_add(lane, &block.job), ONCE_OK);
    /* Whether the first is running or waiting: of two more, at least one finds no room. */
    for (int i = 0; i < 2; i++) {
        more[i].user = &told[i];
        at_once[i] = once__access_start(access, &more[i]);
    }
    assert_true((at_once[0] && more[0].delayed && !more[0].granted) ||
                (at_once[1] && more[1].delayed && !more[1].granted));
    pthread_mutex_lock(&block.waiting.lock);
    block.waiting.done = true;
    pthread_cond_signal(&block.waiting.told);
    pthread_mutex_unlock(&block.waiting.lock);
    once__lane_free(lane);
    once__access_free(access);
}

static void end__passwords_that_wait__are_compared_no_more(void **state)
{
    const struct fixture *fixture = *state;
    struct once__login login;

    once__access_end(fixture->access);
    (void)try(fixture, "alice", "correct horse", &login);
    assert_false(login.granted);
    assert_true(login.delayed);
    (void)try(fixture, NULL, fixture->token, &login); /* costs nothing */
    assert_true(login.granted);
}

/* ---- Identities ------------------------------------------------------------------------------ */

static void renew__after_a_reload__follows_role_and_secret(void **state)
{
    struct fixture *fixture = *state;
    struct once__login login;
    struct once__identity identity;
    struct once__config *same, *other, *gone;
    char text[2048], others[256];
    struct once_buf password;

    (void)try(fixture, "alice", "correct horse", &login);
    once_buf_init(&password, 256);
    assert_int_equal(once__password_make(once_bytes_of("battery staple"), &password), ONCE_OK);
    made(&password, others, sizeof(others));
    snprintf(text, sizeof(text), "[user alice]\npassword = %s\nrole = admin\n", fixture->alice);
    same = parse(text);
    snprintf(text, sizeof(text), "[user alice]\npassword = %s\nrole = admin\n", others);
    other = parse(text);
    snprintf(text, sizeof(text), "[user carol]\npassword = %s\nrole = admin\n", others);
    gone = parse(text);

    identity = login.identity;
    assert_true(once__identity_renew(&identity, fixture->config));
    assert_true(once__identity_renew(&identity, same));
    assert_int_equal(identity.role, ONCE__ROLE_ADMIN);
    assert_false(once__identity_renew(&identity, other));
    assert_false(identity.known);
    identity = login.identity;
    assert_false(once__identity_renew(&identity, gone));
    once__config_unref(same);
    once__config_unref(other);
    once__config_unref(gone);
}

static void renew__nobody_and_the_owner(void **state)
{
    struct fixture *fixture = *state;
    struct once__config *open = parse(""), *again = parse("drain = 1s\n");
    struct once__identity anonymous = once__identity_anonymous(open);
    struct once__identity owner = once__identity_owner(open);
    struct once__identity stranger = once__identity_anonymous(fixture->config);

    assert_true(anonymous.known);
    assert_int_equal(anonymous.role, ONCE__ROLE_ADMIN);
    assert_false(stranger.known);
    assert_true(once__identity_renew(&anonymous, again));
    assert_false(once__identity_renew(&anonymous, fixture->config)); /* there are users now */
    assert_false(anonymous.known);
    assert_true(once__identity_renew(&owner, fixture->config));
    assert_true(owner.known);
    assert_int_equal(owner.role, ONCE__ROLE_ADMIN);
    assert_true(once__identity_renew(&stranger, again));
    assert_true(stranger.known);
    once__config_unref(open);
    once__config_unref(again);
}

/* ---- What they may do ------------------------------------------------------------------------ */

static void rights__namespaces_and_objects(void **state)
{
    const struct fixture *fixture = *state;
    const struct once__config *config = fixture->config;
    struct once__login alice, bob, root;
    struct once__identity nobody = once__identity_anonymous(config);

    (void)try(fixture, "alice", "correct horse", &alice);
    (void)try(fixture, NULL, fixture->token, &bob);
    (void)try(fixture, "root", "correct horse", &root);
    assert_true(once__access_namespace(config, &alice.identity, once_bytes_of("pay")));
    assert_false(once__access_namespace(config, &alice.identity, once_bytes_of("pa")));
    assert_false(once__access_namespace(config, &alice.identity, once_bytes_of("payments")));
    assert_false(once__access_namespace(config, &alice.identity, once_bytes_of("")));
    assert_true(once__access_object(config, &alice.identity, once_bytes_of("acct:1")));
    assert_true(once__access_object(config, &alice.identity, once_bytes_of("acct:")));
    assert_false(once__access_object(config, &alice.identity, once_bytes_of("acct")));
    assert_false(once__access_object(config, &alice.identity, once_bytes_of("")));
    assert_true(once__access_namespace(config, &bob.identity, once_bytes_of("any")));
    assert_false(once__access_object(config, &bob.identity, once_bytes_of("acct:1")));
    assert_true(once__access_namespace(config, &root.identity, once_bytes_of("any")));
    assert_true(once__access_object(config, &root.identity, once_bytes_of("any")));
    assert_false(once__access_namespace(config, &nobody, once_bytes_of("pay")));
    assert_false(once__access_object(config, &nobody, once_bytes_of("acct:1")));
}

static void rate__a_second_in_advance__then_evenly(void **state)
{
    const struct fixture *fixture = *state;
    struct once__identity alice = {.known = true, .role = ONCE__ROLE_WRITE, .name = "alice"};
    struct once__identity bob = {.known = true, .name = "bob"};
    uint64_t now_ns = 5000000000ULL;
    once_ms wait_ms = 0;
    int passed = 0;

    for (int i = 0; i < 10; i++)
        assert_true(once__access_rate(fixture->access, fixture->config, &alice, now_ns, &wait_ms));
    assert_false(once__access_rate(fixture->access, fixture->config, &alice, now_ns, &wait_ms));
    assert_in_range(wait_ms, 100, 101);
    now_ns += (uint64_t)wait_ms * 1000000;
    assert_true(once__access_rate(fixture->access, fixture->config, &alice, now_ns, &wait_ms));
    for (int i = 0; i < 10000; i++) { /* ten seconds, a call every millisecond */
        now_ns += 1000000;
        passed += once__access_rate(fixture->access, fixture->config, &alice, now_ns, &wait_ms);
    }
    assert_in_range(passed, 99, 101);
    for (int i = 0; i < 1000; i++) /* no limit */
        assert_true(once__access_rate(fixture->access, fixture->config, &bob, now_ns, &wait_ms));
}

/* ---- Their text ------------------------------------------------------------------------------ */

static void text__of_hashes__is_read_back_and_nothing_else(void **state)
{
    const struct fixture *fixture = *state;
    struct once__password password;
    struct once__token token;
    char text[256];

    assert_true(once__password_read(once_bytes_of(fixture->alice), &password));
    assert_int_equal(password.log_n, 15);
    for (size_t i = 0; i < strlen(fixture->alice); i++) { /* a byte less, or another one */
        snprintf(text, sizeof(text), "%s", fixture->alice);
        assert_false(once__password_read((struct once_bytes){(uint8_t *)text, i}, &password));
        text[i] = '!';
        assert_false(once__password_read(once_bytes_of(text), &password));
    }
    assert_false(once__token_read(once_bytes_of(fixture->alice), &token));
    assert_false(once__token_read(once_bytes_of(""), &token));
    assert_false(once__password_read(once_bytes_of(""), &password));
}

static void password_make__size__is_bounded(void **state)
{
    char text[ONCE_PASSWORD_SIZE_MAX + 2];
    struct once_buf out;

    (void)state;
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    once_buf_init(&out, 256);
    assert_int_equal(once__password_make(once_bytes_of("1234567"), &out), ONCE_ERR_INVALID);
    assert_int_equal(once__password_make(once_bytes_of(text), &out), ONCE_ERR_INVALID);
    assert_int_equal(out.size, 0);
    once_buf_release(&out);
}

int main(void)
{
#define FIXED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        FIXED(password__right__is_compared_once_and_then_remembered),
        FIXED(password__wrong_or_of_another__is_compared_and_refused),
        FIXED(token__as_bearer_or_as_password_of_its_user__is_known),
        FIXED(wrong__too_often__waits_for_the_window_to_end),
        FIXED(wrong__from_one_network_of_ipv6__counts_together),
        FIXED(wrong__from_thousands_of_addresses__stays_bounded),
        FIXED(password__when_too_many_wait__is_delayed),
        FIXED(end__passwords_that_wait__are_compared_no_more),
        FIXED(renew__after_a_reload__follows_role_and_secret),
        FIXED(renew__nobody_and_the_owner),
        FIXED(rights__namespaces_and_objects),
        FIXED(rate__a_second_in_advance__then_evenly),
        FIXED(text__of_hashes__is_read_back_and_nothing_else),
        cmocka_unit_test(password_make__size__is_bounded),
    };

    return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
