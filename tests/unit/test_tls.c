/* SPDX-License-Identifier: Apache-2.0
 *
 * A GnuTLS client against our sessions, in memory: what one pushes the other is fed, in pieces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/tls.h"
#include "unit/tls_help.h"

static int make_all(void **state)
{
    (void)state;
    if (!mkdtemp(tls_folder))
        return -1;
    make_certificate("one");
    make_certificate("two");
    save("rubbish", "rubbish\n", 8);
    return 0;
}

static int remove_all(void **state)
{
    static const char *const names[] = {"one.key", "one.crt", "two.key", "two.crt", "rubbish"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path(names[i]));
    return rmdir(tls_folder);
}

/* ---- The client ------------------------------------------------------------------------------ */

struct client {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    struct once__tls_session *server;
    struct once_buf to_server;
};

static ssize_t client_push(gnutls_transport_ptr_t pointer, const void *bytes, size_t size)
{
    struct client *client = pointer;

    assert_int_equal(once_buf_append(&client->to_server, bytes, size), ONCE_OK);
    return (ssize_t)size;
}

static ssize_t client_pull(gnutls_transport_ptr_t pointer, void *to, size_t size)
{
    struct client *client = pointer;
    struct once_buf *from = once__tls_session_outgoing(client->server);

    if (from->size == 0) {
        gnutls_transport_set_errno(client->session, EAGAIN);
        return -1;
    }
    if (size > from->size)
        size = from->size;
    memcpy(to, from->data, size);
    from->size -= size;
    memmove(from->data, from->data + size, from->size);
    return (ssize_t)size;
}

static void connect_client(struct client *client, struct once__tls *tls, const char *priority)
{
    *client = (struct client){0};
    once_buf_init(&client->to_server, 1 << 24);
    assert_int_equal(once__tls_session_new(tls, &client->server), ONCE_OK);
    assert_int_equal(gnutls_init(&client->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK), 0);
    assert_int_equal(gnutls_priority_set_direct(client->session, priority, NULL), 0);
    assert_int_equal(gnutls_certificate_allocate_credentials(&client->credentials), 0);
    assert_int_equal(
        gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials), 0);
    gnutls_transport_set_ptr(client->session, client);
    gnutls_transport_set_push_function(client->session, client_push);
    gnutls_transport_set_pull_function(client->session, client_pull);
}

static void disconnect_client(struct client *client)
{
    gnutls_deinit(client->session);
    gnutls_certificate_free_credentials(client->credentials);
    once__tls_session_free(client->server);
    once_buf_release(&client->to_server);
}

/* Feeds the server what the client pushed, piece bytes at a time; what it reads goes to read. */
static long move(struct client *client, size_t piece, struct once_buf *read, const char **ret_what)
{
    long got = 0;

    for (size_t at = 0; at < client->to_server.size && got >= 0; at += piece) {
        size_t rest = client->to_server.size - at;
        uint8_t plain[1000];

        assert_int_equal(once__tls_session_feed(client->server, client->to_server.data + at,
                                                rest < piece ? rest : piece),
                         ONCE_OK);
        while ((got = once__tls_session_read(client->server, plain, sizeof plain, ret_what)) > 0)
            assert_int_equal(once_buf_append(read, plain, (size_t)got), ONCE_OK);
    }
    once_buf_clear(&client->to_server);
    return got;
}

/* True: both are ready. */
static bool shake(struct client *client, size_t piece, const char **ret_what)
{
    struct once_buf nothing;

    once_buf_init(&nothing, 1);
    for (int i = 0; i < 100; i++) {
        int rc = gnutls_handshake(client->session);
        long got = move(client, piece, &nothing, ret_what);

        if (rc == 0 && once__tls_session_ready(client->server))
            return true;
        if (got < 0 || (rc < 0 && gnutls_error_is_fatal(rc)))
            return false;
    }
    return false;
}

static void assert_peer(const struct client *client, const char *name)
{
    const gnutls_datum_t *list;
    unsigned int count = 0;
    gnutls_x509_crt_t crt;
    char found[64];
    size_t size = sizeof found;

    list = gnutls_certificate_get_peers(client->session, &count);
    assert_int_equal(count, 1);
    assert_int_equal(gnutls_x509_crt_init(&crt), 0);
    assert_int_equal(gnutls_x509_crt_import(crt, &list[0], GNUTLS_X509_FMT_DER), 0);
    assert_int_equal(
        gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, found, &size), 0);
    assert_string_equal(found, name);
    gnutls_x509_crt_deinit(crt);
}

static struct once__tls *tls_of(const char *cert, const char *key)
{
    struct once_message message = {{0}};
    struct once__tls *tls = NULL;

    assert_int_equal(once__tls_new(path(cert), path(key), &tls, &message), ONCE_OK);
    return tls;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void session__each_version_in_pieces__talks_both_ways(void **state)
{
    static const struct {
        const char *priority;
        size_t piece;
    } cases[] = {
        {"NORMAL:-VERS-ALL:+VERS-TLS1.3", 4096},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.3", 1},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2", 4096},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2", 1},
        {"NORMAL", 100},
    };
    struct once__tls *tls = tls_of("one.crt", "one.key");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct client client;
        struct once_buf read;
        const char *what = NULL;
        uint8_t back[64];

        once_buf_init(&read, 1 << 20);
        connect_client(&client, tls, cases[i].priority);
        assert_false(once__tls_session_ready(client.server));
        assert_true(shake(&client, cases[i].piece, &what));
        assert_peer(&client, "one");
        assert_int_equal(gnutls_record_send(client.session, "PING\r\n", 6), 6);
        assert_int_equal(move(&client, cases[i].piece, &read, &what), 0);
        assert_int_equal(read.size, 6);
        assert_memory_equal(read.data, "PING\r\n", 6);
        assert_int_equal(once__tls_session_write(client.server, (const uint8_t *)"+PONG\r\n", 7),
                         ONCE_OK);
        assert_int_equal(gnutls_record_recv(client.session, back, sizeof back), 7);
        assert_memory_equal(back, "+PONG\r\n", 7);

        assert_int_equal(gnutls_bye(client.session, GNUTLS_SHUT_WR), 0);
        assert_true(move(&client, cases[i].piece, &read, &what) < 0);
        assert_null(what);
        /* The other direction is still open. */
        assert_int_equal(once__tls_session_write(client.server, (const uint8_t *)"x", 1), ONCE_OK);
        assert_int_equal(gnutls_record_recv(client.session, back, sizeof back), 1);
        once__tls_session_bye(client.server);
        assert_int_equal(gnutls_record_recv(client.session, back, sizeof back), 0);
        disconnect_client(&client);
        once_buf_release(&read);
    }
    once__tls_free(tls);
}

static void session__a_megabyte__comes_whole(void **state)
{
    enum { SIZE = 1 << 20 };
    struct once__tls *tls = tls_of("one.crt", "one.key");
    uint8_t *large = malloc(SIZE), *back = malloc(SIZE);
    size_t got = 0;
    struct client client;
    const char *what = NULL;

    (void)state;
    assert_non_null(large);
    assert_non_null(back);
    for (size_t i = 0; i < SIZE; i++)
        large[i] = (uint8_t)(i * 31 >> 3);
    connect_client(&client, tls, "NORMAL");
    assert_true(shake(&client, 4096, &what));
    assert_int_equal(once__tls_session_write(client.server, large, SIZE), ONCE_OK);
    while (got < SIZE) {
        ssize_t rc = gnutls_record_recv(client.session, back + got, SIZE - got);

        assert_true(rc > 0 || rc == GNUTLS_E_AGAIN);
        got += rc > 0 ? (size_t)rc : 0;
    }
    assert_memory_equal(large, back, SIZE);
    disconnect_client(&client);
    once__tls_free(tls);
    free(large);
    free(back);
}

static void session__old_version_or_rubbish__is_refused_with_a_reason(void **state)
{
    struct once__tls *tls = tls_of("one.crt", "one.key");
    struct client client;
    const char *what = NULL;
    uint8_t plain[16];

    (void)state;
    connect_client(&client, tls, "NORMAL:-VERS-ALL:+VERS-TLS1.1:+VERS-TLS1.0");
    assert_false(shake(&client, 4096, &what));
    assert_non_null(what);
    assert_true(once__tls_session_outgoing(client.server)->size > 0); /* an alert */
    disconnect_client(&client);

    what = NULL;
    connect_client(&client, tls, "NORMAL");
    assert_int_equal(
        once__tls_session_feed(client.server, (const uint8_t *)"*1\r\n$4\r\nPING\r\n", 14),
        ONCE_OK);
    assert_true(once__tls_session_read(client.server, plain, sizeof plain, &what) < 0);
    assert_non_null(what);
    assert_true(once__tls_session_read(client.server, plain, sizeof plain, &what) < 0);
    disconnect_client(&client);
    once__tls_free(tls);
}

static void session__fed_without_end__is_full(void **state)
{
    struct once__tls *tls = tls_of("one.crt", "one.key");
    static uint8_t bytes[4096];
    struct client client;
    size_t fed = 0;

    (void)state;
    connect_client(&client, tls, "NORMAL");
    while (once__tls_session_feed(client.server, bytes, sizeof bytes) == ONCE_OK)
        fed += sizeof bytes;
    assert_int_equal(fed, ONCE_TLS_PENDING_MAX);
    disconnect_client(&client);
    once__tls_free(tls);
}

static void reload__while_a_session_shakes__changes_only_later_ones(void **state)
{
    struct once__tls *tls = tls_of("one.crt", "one.key");
    struct once_message message = {{0}};
    struct client early, late;
    const char *what = NULL;

    (void)state;
    connect_client(&early, tls, "NORMAL:-VERS-ALL:+VERS-TLS1.2");
    (void)gnutls_handshake(early.session);
    assert_int_equal(move(&early, 4096, &early.to_server, &what), 0); /* it has its certificate */
    assert_int_equal(once__tls_reload(tls, path("two.crt"), path("two.key"), &message), ONCE_OK);
    assert_true(shake(&early, 4096, &what));
    assert_peer(&early, "one");
    connect_client(&late, tls, "NORMAL");
    assert_true(shake(&late, 4096, &what));
    assert_peer(&late, "two");
    disconnect_client(&early);
    disconnect_client(&late);

    /* A reload that fails leaves everything as it was. */
    assert_int_equal(once__tls_reload(tls, path("one.crt"), path("two.key"), &message),
                     ONCE_ERR_INVALID);
    connect_client(&late, tls, "NORMAL");
    assert_true(shake(&late, 4096, &what));
    assert_peer(&late, "two");
    disconnect_client(&late);
    once__tls_free(tls);
}

static void new__bad_files__are_named(void **state)
{
    static const struct {
        const char *cert, *key, *named;
    } cases[] = {
        {"none.crt", "one.key", "none.crt"}, {"one.crt", "none.key", "none.key"},
        {"rubbish", "one.key", "rubbish"},   {"one.crt", "rubbish", "rubbish"},
        {"one.crt", "two.key", "two.key"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct once_message message = {{0}};
        struct once__tls *tls = NULL;

        assert_int_equal(once__tls_new(path(cases[i].cert), path(cases[i].key), &tls, &message),
                         ONCE_ERR_INVALID);
        assert_null(tls);
        assert_non_null(strstr(message.text, cases[i].named));
    }
}

static void retrieve__two_of_them__each_gives_its_own(void **state)
{
    struct once__tls *one = tls_of("one.crt", "one.key");
    struct once__tls *two = tls_of("two.crt", "two.key");
    struct client client;
    const char *what = NULL;

    (void)state;
    connect_client(&client, one, "NORMAL");
    assert_true(shake(&client, 4096, &what));
    assert_peer(&client, "one");
    disconnect_client(&client);
    connect_client(&client, two, "NORMAL");
    assert_true(shake(&client, 4096, &what));
    assert_peer(&client, "two");
    disconnect_client(&client);
    once__tls_free(two);
    once__tls_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session__each_version_in_pieces__talks_both_ways),
        cmocka_unit_test(session__a_megabyte__comes_whole),
        cmocka_unit_test(session__old_version_or_rubbish__is_refused_with_a_reason),
        cmocka_unit_test(session__fed_without_end__is_full),
        cmocka_unit_test(reload__while_a_session_shakes__changes_only_later_ones),
        cmocka_unit_test(new__bad_files__are_named),
        cmocka_unit_test(retrieve__two_of_them__each_gives_its_own),
    };

    return cmocka_run_group_tests(tests, make_all, remove_all);
}
