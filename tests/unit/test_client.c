/* SPDX-License-Identifier: Apache-2.0
 *
 * The client against a server that is played from a script, byte for byte, on a real socket.
 */
#include "seeded.h"

#include "client/client.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ADDRESS_SIZE = 128, GOT_SIZE = 1 << 16, FOLDER_SIZE = 64, PATH_SIZE = 128 };

/* One exchange of a script: a new connection if accept; reads so many bytes; then says something,
 * in pieces; then hangs up if close. */
struct line {
    bool accept;
    size_t read; /* wait for so many bytes */
    const char *say;
    size_t piece; /* bytes of each piece; 0: all at once */
    bool close;
};

struct server {
    int listener, fd;
    char address[ADDRESS_SIZE];
    const struct line *lines;
    size_t line_count;
    char got[GOT_SIZE]; /* everything that was read, connections apart by '|' */
    size_t got_size;
    pthread_t thread;
    const char *certificate, *key; /* files: speak TLS */
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    bool handshake_failed;
};

static char folder[FOLDER_SIZE];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/once-client-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"socket", "a.crt", "a.key", "b.crt", "b.key"};
    char path[PATH_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

/* ---- The server ------------------------------------------------------------------------------ */

static ssize_t hear(struct server *server, char *bytes, size_t size)
{
    if (server->session)
        return gnutls_record_recv(server->session, bytes, size);
    return recv(server->fd, bytes, size, 0);
}

static void say(struct server *server, const char *text, size_t piece)
{
    size_t size = strlen(text);

    for (size_t at = 0; at<size; at += piece> 0 ? piece : size) {
        size_t now = piece > 0 && piece < size - at ? piece : size - at;

        if (server->session)
            (void)gnutls_record_send(server->session, text + at, now);
        else
            (void)send(server->fd, text + at, now, MSG_NOSIGNAL);
    }
}

static void hang_up(struct server *server)
{
    if (server->session) {
        (void)gnutls_bye(server->session, GNUTLS_SHUT_WR);
        gnutls_deinit(server->session);
        server->session = NULL;
    }
    if (server->fd >= 0)
        (void)close(server->fd);
    server->fd = -1;
}

static bool welcome(struct server *server)
{
    int fd = accept(server->listener, NULL, NULL);

    hang_up(server); /* only now: until someone comes back the old connection stays silent */
    server->fd = fd;
    if (fd < 0)
        return false;
    if (!server->certificate)
        return true;
    if (gnutls_init(&server->session, GNUTLS_SERVER) < 0 ||
        gnutls_set_default_priority(server->session) < 0 ||
        gnutls_credentials_set(server->session, GNUTLS_CRD_CERTIFICATE, server->credentials) < 0)
        return false;
    gnutls_transport_set_int(server->session, server->fd);
    server->handshake_failed = gnutls_handshake(server->session) < 0;
    return !server->handshake_failed;
}

static void *serve(void *self)
{
    struct server *server = self;

    for (const struct line *line = server->lines; line < server->lines + server->line_count;
         line++) {
        size_t until;

        if (line->accept) {
            if (!welcome(server))
                break;
            if (server->got_size > 0)
                server->got[server->got_size++] = '|';
        }
        until = server->got_size + line->read;
        while (server->got_size < until) {
            ssize_t got = hear(server, server->got + server->got_size, until - server->got_size);

            if (got <= 0)
                return NULL;
            server->got_size += (size_t)got;
        }
        if (line->say)
            say(server, line->say, line->piece);
        if (line->close)
            hang_up(server);
    }
    return NULL;
}

static void start(struct server *server, bool local, const struct line *lines, size_t count)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t size = sizeof(in);

    server->fd = -1;
    server->lines = lines;
    server->line_count = count;
    server->listener = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server->listener >= 0);
    if (local) {
        snprintf(un.sun_path, sizeof(un.sun_path), "%s/socket", folder);
        assert_int_equal(bind(server->listener, (struct sockaddr *)&un, sizeof(un)), 0);
        snprintf(server->address, sizeof(server->address), "%s", un.sun_path);
    } else {
        assert_int_equal(bind(server->listener, (struct sockaddr *)&in, sizeof(in)), 0);
        assert_int_equal(getsockname(server->listener, (struct sockaddr *)&in, &size), 0);
        snprintf(server->address, sizeof(server->address), "%s127.0.0.1:%u",
                 server->certificate ? "tls://" : "", ntohs(in.sin_port));
    }
    if (server->certificate) {
        assert_int_equal(gnutls_certificate_allocate_credentials(&server->credentials), 0);
        assert_int_equal(gnutls_certificate_set_x509_key_file(server->credentials,
                                                              server->certificate, server->key,
                                                              GNUTLS_X509_FMT_PEM),
                         0);
    }
    assert_int_equal(listen(server->listener, 8), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

/* The script has been played, or somebody hung up. */
static void finish(struct server *server)
{
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    hang_up(server);
    (void)close(server->listener);
    if (server->credentials)
        gnutls_certificate_free_credentials(server->credentials);
}

#define START(server, local, lines) start(server, local, lines, sizeof(lines) / sizeof((lines)[0]))

static void got_is(const struct server *server, const char *text)
{
    assert_int_equal(server->got_size, strlen(text));
    assert_memory_equal(server->got, text, strlen(text));
}

/* ---- The client ------------------------------------------------------------------------------ */

static const char PING[] = "*1\r\n$4\r\nPING\r\n";
enum { PING_SIZE = sizeof(PING) - 1 };

static struct once__client *open_client(const struct server *server,
                                        const struct once__client_options *options)
{
    struct once__client *client = NULL;
    struct once_message message = {""};
    int err = once__client_open(server->address, options, &client, &message);

    if (err != ONCE_OK)
        fail_msg("%s: %s", once_err_name(err), message.text);
    return client;
}

static int ping(struct once__client *client, const struct once__answer_item **ret_answer,
                struct once_message *ret_message)
{
    const struct once_bytes words[] = {once_bytes_of("PING")};

    return once__client_call(client, words, 1, ret_answer, ret_message);
}

static void answers(struct once__client *client, const char *text)
{
    const struct once__answer_item *answer = NULL;
    struct once_message message = {""};
    int err = ping(client, &answer, &message);

    if (err != ONCE_OK)
        fail_msg("%s: %s", once_err_name(err), message.text);
    assert_int_equal(answer->bytes.size, strlen(text));
    assert_memory_equal(answer->bytes.data, text, strlen(text));
}

static void fails(struct once__client *client, int err, const char *text)
{
    const struct once__answer_item *answer = NULL;
    struct once_message message = {""};

    assert_int_equal(ping(client, &answer, &message), err);
    if (!strstr(message.text, text))
        fail_msg("'%s' does not say '%s'", message.text, text);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void call__words__are_sent_and_answered(void **state)
{
    static const char command[] = "*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$5\r\na\r\n\0b\r\n";
    const struct line script[] = {{.accept = true,
                                   .read = sizeof(command) - 1,
                                   .say = "*2\r\n$3\r\nabc\r\n:5\r\n",
                                   .piece = 1},
                                  {.read = PING_SIZE, .say = "-ERR no\r\n"}};
    const struct once_bytes words[] = {
        once_bytes_of("ECHO"), {NULL, 0}, {(const uint8_t *)"a\r\n\0b", 5}};
    const struct once__answer_item *answer = NULL;
    struct server server = {0};
    struct once__client *client;

    (void)state;
    START(&server, false, script);
    client = open_client(&server, NULL);
    assert_int_equal(once__client_call(client, words, 3, &answer, NULL), ONCE_OK);
    assert_int_equal(answer->count, 2);
    assert_int_equal(answer->items[1].number, 5);
    answers(client, "ERR no"); /* an error is an answer, and the connection stays */
    once__client_close(client);
    finish(&server);
    assert_int_equal(server.got_size, sizeof(command) - 1 + PING_SIZE);
    assert_memory_equal(server.got, command, sizeof(command) - 1);
}

static void call__unix_socket__works(void **state)
{
    const struct line script[] = {{.accept = true, .read = PING_SIZE, .say = "+PONG\r\n"}};
    struct server server = {0};
    struct once__client *client;

    (void)state;
    START(&server, true, script);
    client = open_client(&server, NULL);
    answers(client, "PONG");
    once__client_close(client);
    finish(&server);
    assert_int_equal(unlink(server.address), 0);
}

static void call__server_hung_up__fails_and_the_next_one_connects_again(void **state)
{
    const struct line script[] = {
        {.accept = true, .read = PING_SIZE, .say = "$10\r\nhal", .close = true},
        {.accept = true, .read = PING_SIZE, .say = "+PONG\r\n"}};
    struct server server = {0};
    struct once__client *client;

    (void)state;
    START(&server, false, script);
    client = open_client(&server, NULL);
    fails(client, ONCE_ERR_IO, "closed");
    answers(client, "PONG");
    once__client_close(client);
    finish(&server);
}

/* The answer that came too late must not be taken for the next one's. */
static void call__no_answer_in_time__fails_and_the_late_answer_is_lost(void **state)
{
    const struct line script[] = {{.accept = true, .read = PING_SIZE, .say = "+LA"},
                                  {.accept = true, .read = PING_SIZE, .say = "+PONG\r\n"}};
    const struct once__client_options options = {.timeout_ms = 50};
    struct server server = {0};
    struct once__client *client;

    (void)state;
    START(&server, false, script);
    client = open_client(&server, &options);
    fails(client, ONCE_ERR_IO, "in time");
    answers(client, "PONG");
    once__client_close(client);
    finish(&server);
}

static void call__more_than_one_answer__is_damage(void **state)
{
    const struct line script[] = {{.accept = true, .read = PING_SIZE, .say = "+PONG\r\n+MORE\r\n"},
                                  {.accept = true, .read = PING_SIZE, .say = "<html>"},
                                  {.accept = true, .read = PING_SIZE, .say = "+PONG\r\n"}};
    struct server server = {0};
    struct once__client *client;

    (void)state;
    START(&server, false, script);
    client = open_client(&server, NULL);
    fails(client, ONCE_ERR_DAMAGED, "more than it was asked");
    fails(client, ONCE_ERR_DAMAGED, "RESP2");
    answers(client, "PONG");
    once__client_close(client);
    finish(&server);
}

/* A server that has seen enough of a long command says so and reads no further. */
static void call__refused_before_it_was_sent__gives_the_answer(void **state)
{
    const struct line script[] = {{.accept = true, .read = 4096, .say = "-TOOBIG no\r\n"},
                                  {.accept = true, .read = PING_SIZE, .say = "+PONG\r\n"}};
    const size_t size = 1 << 24; /* more than sockets take */
    struct once_bytes word = {calloc(1, size), size};
    const struct once__answer_item *answer = NULL;
    struct server server = {0};
    struct once__client *client;

    (void)state;
    assert_non_null(word.data);
    START(&server, false, script);
    client = open_client(&server, NULL);
    assert_int_equal(once__client_call(client, &word, 1, &answer, NULL), ONCE_OK);
    assert_true(once__answer_is_error(answer, "TOOBIG"));
    answers(client, "PONG"); /* on another connection: this one is in the middle of a command */
    once__client_close(client);
    finish(&server);
    free((void *)(uintptr_t)word.data);
}

/* The same from a server that hangs up as soon as it has said so. */
static void call__refused_and_hung_up__gives_the_answer(void **state)
{
    const struct line script[] = {
        {.accept = true, .read = 4096, .say = "-TOOBIG no\r\n", .close = true}};
    const size_t size = 1 << 24;
    struct once_bytes word = {calloc(1, size), size};

    (void)state;
    assert_non_null(word.data);
    for (int i = 0; i < 30; i++) { /* which comes first, its words or its end, is chance */
        const struct once__answer_item *answer = NULL;
        struct server server = {0};
        struct once__client *client;

        START(&server, false, script);
        client = open_client(&server, NULL);
        assert_int_equal(once__client_call(client, &word, 1, &answer, NULL), ONCE_OK);
        assert_true(once__answer_is_error(answer, "TOOBIG"));
        once__client_close(client);
        finish(&server);
    }
    free((void *)(uintptr_t)word.data);
}

static void open__user_and_password__are_told_first_and_after_reconnecting(void **state)
{
    static const char auth[] = "*3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$9\r\nsome word\r\n";
    const struct line script[] = {{.accept = true, .read = sizeof(auth) - 1, .say = "+OK\r\n"},
                                  {.read = PING_SIZE, .close = true},
                                  {.accept = true, .read = sizeof(auth) - 1, .say = "+OK\r\n"},
                                  {.read = PING_SIZE, .say = "+PONG\r\n"}};
    const struct once__client_options options = {.user = "alice", .password = "some word"};
    struct server server = {0};
    struct once__client *client;
    char all[256];

    (void)state;
    START(&server, false, script);
    client = open_client(&server, &options);
    fails(client, ONCE_ERR_IO, "closed");
    answers(client, "PONG");
    once__client_close(client);
    finish(&server);
    snprintf(all, sizeof(all), "%s%s|%s%s", auth, PING, auth, PING);
    got_is(&server, all);
}

static void open__wrong_password__is_denied(void **state)
{
    static const char auth[] = "*2\r\n$4\r\nAUTH\r\n$5\r\nwrong\r\n";
    const struct line script[] = {
        {.accept = true, .read = sizeof(auth) - 1, .say = "-WRONGPASS no such user\r\n"}};
    const struct once__client_options options = {.password = "wrong"};
    struct once__client *client = NULL;
    struct once_message message = {""};
    struct server server = {0};

    (void)state;
    START(&server, false, script);
    assert_int_equal(once__client_open(server.address, &options, &client, &message),
                     ONCE_ERR_DENIED);
    assert_non_null(strstr(message.text, "WRONGPASS"));
    assert_null(strstr(message.text, "AUTH"));
    assert_null(client);
    finish(&server);
    got_is(&server, auth);
}

static void open__nobody_there__says_so(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* bound and not listening: nobody else gets it */
    struct once__client *client = NULL;
    struct once_message message = {""};
    char address[ADDRESS_SIZE];

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", ntohs(in.sin_port));
    assert_int_equal(once__client_open(address, NULL, &client, &message), ONCE_ERR_IO);
    assert_non_null(strstr(message.text, "nobody answers"));
    (void)close(fd);
    assert_int_equal(once__client_open("/nowhere/once.sock", NULL, &client, &message), ONCE_ERR_IO);
    assert_non_null(strstr(message.text, "/nowhere/once.sock"));
    assert_null(client);
}

static void open__address_that_is_none__is_invalid(void **state)
{
    static const char *const bad[] = {
        "",           "localhost",      "localhost:",    "localhost:0", "localhost:65536",
        ":7411",      "localhost:74x1", "::1:7411",      "[::1:7411",   "[]:7411",
        "tls://host", "http://host:80", "tls:///a/path", "[::1]7411",   "localhost:123456"};
    struct once__client *client = NULL;
    struct once_message message;
    char path[ADDRESS_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        message.text[0] = '\0';
        if (once__client_open(bad[i], NULL, &client, &message) != ONCE_ERR_INVALID)
            fail_msg("'%s' is no address", bad[i]);
        assert_true(message.text[0] != '\0');
    }
    memset(path, 'x', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(once__client_open(path, NULL, &client, NULL), ONCE_ERR_INVALID);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static void save(const char *name, const gnutls_datum_t *text, char *ret_path)
{
    FILE *file;

    snprintf(ret_path, PATH_SIZE, "%s/%s", folder, name);
    file = fopen(ret_path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text->data, 1, text->size, file), text->size);
    assert_int_equal(fclose(file), 0);
    gnutls_free(text->data);
}

struct identity {
    char certificate[PATH_SIZE], key[PATH_SIZE];
};

/* A certificate that signs itself, for this address. */
static struct identity make_identity(const char *name, const uint8_t address[4])
{
    struct identity identity;
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    gnutls_datum_t text = {0};
    char file[16];
    time_t now = time(NULL);

    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    assert_int_equal(gnutls_x509_crt_init(&certificate), 0);
    assert_int_equal(gnutls_x509_crt_set_version(certificate, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(certificate, "\1", 1), 0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(certificate, now - 3600), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(certificate, now + 3600), 0);
    assert_int_equal(gnutls_x509_crt_set_key(certificate, key), 0);
    assert_int_equal(gnutls_x509_crt_set_basic_constraints(certificate, 1, -1), 0);
    assert_int_equal(gnutls_x509_crt_set_dn(certificate, "CN=test", NULL), 0);
    assert_int_equal(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS,
                                                          address, 4, GNUTLS_FSAN_SET),
                     0);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text), 0);
    snprintf(file, sizeof(file), "%s.crt", name);
    save(file, &text, identity.certificate);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text), 0);
    snprintf(file, sizeof(file), "%s.key", name);
    save(file, &text, identity.key);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
    return identity;
}

static void tls__trusted_certificate__works(void **state)
{
    struct identity identity = make_identity("a", (const uint8_t[]){127, 0, 0, 1});
    const struct line script[] = {
        {.accept = true, .read = PING_SIZE, .say = "*2\r\n:1\r\n$2\r\nab\r\n", .piece = 3},
        {.read = PING_SIZE, .close = true},
        {.accept = true, .read = PING_SIZE, .say = "+PONG\r\n"}};
    const struct once__client_options options = {.tls_ca = identity.certificate};
    const struct once__answer_item *answer = NULL;
    struct server server = {.certificate = identity.certificate, .key = identity.key};
    struct once__client *client;

    (void)state;
    START(&server, false, script);
    client = open_client(&server, &options);
    assert_int_equal(ping(client, &answer, NULL), ONCE_OK);
    assert_int_equal(answer->items[0].number, 1);
    fails(client, ONCE_ERR_IO, "closed");
    answers(client, "PONG");
    once__client_close(client);
    finish(&server);
}

/* Nothing is told to a server whose certificate is not good, least of all a password. */
static void refuses(struct server *server, const char *tls_ca, const char *text)
{
    const struct line script[] = {{.accept = true, .read = 1}};
    const struct once__client_options options = {.password = "secret", .tls_ca = tls_ca};
    struct once__client *client = NULL;
    struct once_message message = {""};

    START(server, false, script);
    assert_int_equal(once__client_open(server->address, &options, &client, &message), ONCE_ERR_IO);
    if (!strstr(message.text, text))
        fail_msg("'%s' does not say '%s'", message.text, text);
    finish(server);
    assert_int_equal(server->got_size, 0);
}

static void tls__unknown_signer_or_another_host__is_refused(void **state)
{
    struct identity here = make_identity("a", (const uint8_t[]){127, 0, 0, 1});
    struct identity elsewhere = make_identity("b", (const uint8_t[]){192, 0, 2, 1});
    struct server unknown = {.certificate = here.certificate, .key = here.key};
    struct server other = {.certificate = elsewhere.certificate, .key = elsewhere.key};
    struct server fine = {.certificate = here.certificate, .key = here.key};

    (void)state;
    refuses(&unknown, elsewhere.certificate, "not good");
    refuses(&other, elsewhere.certificate, "not good");
    refuses(&fine, "/nowhere.pem", "/nowhere.pem");
}

static void tls__server_without_tls__is_refused(void **state)
{
    struct identity identity = make_identity("a", (const uint8_t[]){127, 0, 0, 1});
    const struct line script[] = {{.accept = true, .read = 1, .say = "-ERR no\r\n", .close = true}};
    const struct once__client_options options = {.tls_ca = identity.certificate};
    struct once__client *client = NULL;
    struct server server = {0};
    char address[ADDRESS_SIZE + 8];

    (void)state;
    START(&server, false, script);
    snprintf(address, sizeof(address), "tls://%s", server.address);
    assert_int_equal(once__client_open(address, &options, &client, NULL), ONCE_ERR_IO);
    finish(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call__words__are_sent_and_answered),
        cmocka_unit_test(call__unix_socket__works),
        cmocka_unit_test(call__server_hung_up__fails_and_the_next_one_connects_again),
        cmocka_unit_test(call__no_answer_in_time__fails_and_the_late_answer_is_lost),
        cmocka_unit_test(call__more_than_one_answer__is_damage),
        cmocka_unit_test(call__refused_before_it_was_sent__gives_the_answer),
        cmocka_unit_test(call__refused_and_hung_up__gives_the_answer),
        cmocka_unit_test(open__user_and_password__are_told_first_and_after_reconnecting),
        cmocka_unit_test(open__wrong_password__is_denied),
        cmocka_unit_test(open__nobody_there__says_so),
        cmocka_unit_test(open__address_that_is_none__is_invalid),
        cmocka_unit_test(tls__trusted_certificate__works),
        cmocka_unit_test(tls__unknown_signer_or_another_host__is_refused),
        cmocka_unit_test(tls__server_without_tls__is_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
