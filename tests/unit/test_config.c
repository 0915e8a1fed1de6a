/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration: what is read, what is refused with which words, and what is shown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/config_inner.h"

#define TOKEN "token = sha256$00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
#define PASSWORD                                                                                   \
    "password = scrypt$15$8$1$AAECAwQFBgcICQoLDA0ODw==$"                                           \
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
#define ALICE "[user alice]\n" TOKEN "namespaces = *\n"

static struct once__config *parse(const char *text)
{
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;
    int err = once__config_parse("once.conf", once_bytes_of(text), &config, &error);

    if (err != ONCE_OK)
        print_error("refused: %s\n", error.text);
    assert_int_equal(err, ONCE_OK);
    return config;
}

static char *shown(const struct once__config *config, bool secrets)
{
    struct once_buf out;
    char *text;

    once_buf_init(&out, 1U << 20);
    assert_int_equal(once__config_write(config, secrets, &out), ONCE_OK);
    text = strndup((const char *)out.data, out.size);
    assert_non_null(text);
    once_buf_release(&out);
    return text;
}

static const struct once__policy *policy(const struct once__config *config, const char *ns)
{
    return once__config_policy(config, once_bytes_of(ns));
}

/* ---- What is read ---------------------------------------------------------------------------- */

static void parse__nothing__gives_defaults(void **state)
{
    struct once__config *config = parse("");

    (void)state;
    assert_int_equal(config->resp_count, 1);
    assert_string_equal(config->resp[0].host, "127.0.0.1");
    assert_int_equal(config->resp[0].port, 7411);
    assert_true(config->resp[0].loopback);
    assert_int_equal(config->http[0].port, 7412);
    assert_int_equal(config->store.durability, ONCE_LOSES_NOTHING);
    assert_int_equal(config->connections_max, ONCE_CONNECTIONS_DEFAULT);
    assert_int_equal(config->drain_ms_max, 30000);
    assert_int_equal(config->log_level, ONCE__LOG_INFO);
    assert_int_equal(config->otherwise.retention_ms, 86400000);
    assert_int_equal(config->otherwise.lease_ms, 30000);
    assert_int_equal(config->otherwise.result_size_max, ONCE_RESULT_SIZE_MAX);
    assert_int_equal(config->user_count, 0);
    assert_ptr_equal(policy(config, "anything"), &config->otherwise);
    once__config_unref(config);
}

static void parse__whole_server__is_taken(void **state)
{
    struct once__config *config = parse("# a comment\r\n"
                                        "dir = /var/lib/once   # where\n"
                                        "  listen=127.0.0.1:1, [::1]:2\n"
                                        "listen = localhost:0\n"
                                        "http = off\n"
                                        "socket = \"/run/a b#c.sock\"\n"
                                        "durability = interval\n"
                                        "interval = 250ms\n"
                                        "disk_max = 100G\n"
                                        "keys_max = 1000\n"
                                        "objects_max = 64k\n"
                                        "log = json\n"
                                        "log_level = debug\n"
                                        "log_file = /var/log/once.log\n"
                                        "connections_max = 7\n"
                                        "idle = 5m\n"
                                        "drain = 0\n");

    (void)state;
    assert_string_equal(config->folder, "/var/lib/once");
    assert_int_equal(config->resp_count, 3);
    assert_string_equal(config->resp[1].host, "::1");
    assert_true(config->resp[1].loopback);
    assert_string_equal(config->resp[2].host, "127.0.0.1");
    assert_int_equal(config->http_count, 0);
    assert_string_equal(config->socket, "/run/a b#c.sock");
    assert_int_equal(config->store.durability, ONCE_LOSES_INTERVAL);
    assert_int_equal(config->store.interval_ms, 250);
    assert_int_equal(config->store.disk_size_max, 100ULL << 30);
    assert_int_equal(config->store.keys_max, 1000);
    assert_int_equal(config->store.objects_size_max, 65536);
    assert_true(config->log_json);
    assert_int_equal(config->log_level, ONCE__LOG_DEBUG);
    assert_string_equal(config->log_file, "/var/log/once.log");
    assert_int_equal(config->connections_max, 7);
    assert_int_equal(config->idle_ms_max, 300000);
    assert_int_equal(config->drain_ms_max, 0);
    once__config_unref(config);
}

static void namespace__what_it_does_not_say__is_taken_from_star(void **state)
{
    struct once__config *config = parse("[namespace payments]\nretention = 7d\ndoubt_fixed = yes\n"
                                        "[namespace *]\nlease = 5s\nretention = 1h\ndoubt = retry\n"
                                        "[namespace mail]\nretention_max = 10m\n");

    (void)state;
    assert_int_equal(policy(config, "payments")->retention_ms, 7 * 86400000LL);
    assert_int_equal(policy(config, "payments")->lease_ms, 5000);
    assert_int_equal(policy(config, "payments")->on_doubt, ONCE_ON_DOUBT_RETRY);
    assert_true(policy(config, "payments")->doubt_fixed);
    assert_false(policy(config, "other")->doubt_fixed);
    assert_int_equal(policy(config, "other")->retention_ms, 3600000);
    assert_int_equal(policy(config, "mail")->retention_ms, 600000); /* it cannot be more */
    once__config_unref(config);
}

static void namespace__declared_only__others_do_not_exist(void **state)
{
    struct once__config *config = parse("namespaces = declared\n"
                                        "[namespace pay]\nscope = user\n"
                                        "[namespace mail]\n" ALICE);

    (void)state;
    assert_non_null(policy(config, "mail"));
    assert_null(policy(config, "mai"));
    assert_null(policy(config, "mails"));
    assert_null(policy(config, ""));
    assert_ptr_equal(policy(config, "pay@alice"), policy(config, "pay"));
    assert_null(policy(config, "mail@alice")); /* its keys are shared */
    once__config_unref(config);
}

static void user__every_setting__is_taken(void **state)
{
    struct once__config *config = parse(
        "[user bob]\nrole = read\n" PASSWORD "namespaces = a, b  c\n"
        "objects = acct:, \"two words\", \"q\\\"b\\\\\"\nrate = 50\n" ALICE);
    const struct once__user *bob = once__config_user(config, once_bytes_of("bob"));

    (void)state;
    assert_non_null(bob);
    assert_int_equal(bob->role, ONCE__ROLE_READ);
    assert_true(bob->password.set);
    assert_int_equal(bob->password.log_n, 15);
    assert_int_equal(bob->password.salt[15], 15);
    assert_int_equal(bob->password.hash[31], 31);
    assert_int_equal(bob->namespace_count, 3);
    assert_string_equal(bob->namespaces[2], "c");
    assert_int_equal(bob->object_count, 3);
    assert_string_equal(bob->objects[1], "two words");
    assert_string_equal(bob->objects[2], "q\"b\\");
    assert_int_equal(bob->rate_max, 50);
    assert_non_null(once__config_user(config, once_bytes_of("alice")));
    assert_null(once__config_user(config, once_bytes_of("ali")));
    assert_null(once__config_user(config, once_bytes_of("")));
    once__config_unref(config);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static const struct {
    const char *text;
    const char *message;
} refused[] = {
    {"retension = 1h", "once.conf:1: there is no setting 'retension' here; once serve "
                       "--help-settings lists them"},
    {"\n\nlisten_ = 127.0.0.1:1", "once.conf:3: there is no setting 'listen_' here; did you mean "
                                  "'listen'?"},
    {"[namespace a]\nretension = 1h",
     "once.conf:2: there is no setting 'retension' here; did you mean 'retention'?"},
    {"lease = 1h", "once.conf:1: 'lease' is about a namespace: it stands below [namespace NAME]"},
    {"role = read", "once.conf:1: 'role' is about a user: it stands below [user NAME]"},
    {"[namespace a]\ndir = /x",
     "once.conf:2: 'dir' is about the whole server: it stands before the first section"},
    {"dir = /a\ndir = /b", "once.conf:2: 'dir' is said twice; it was said in line 1 already"},
    {"hello", "once.conf:1: write name = value, or [section]"},
    {"= 5", "once.conf:1: write name = value, or [section]"},
    {"dir =", "once.conf:1: dir is empty"},
    {"dir = # nothing", "once.conf:1: dir is empty"},
    {"dir = \"/a", "once.conf:1: dir: what begins with a quote ends with one"},
    {"dir = \"\"", "once.conf:1: dir is empty"},
    {"dir = /a\x01", "once.conf:1: the line holds a control character (0x01)"},
    {"drain = 10", "once.conf:1: drain = 10: write digits and a unit, such as 250ms, 30s, 5m, 24h "
                   "or 7d"},
    {"drain = -1s", "once.conf:1: drain = -1s: write digits and a unit, such as 250ms, 30s, 5m, "
                    "24h or 7d"},
    {"drain = 2h", "once.conf:1: drain = 2h: it may be from 0 to 1h"},
    {"drain = 99999999999999999999999h",
     "once.conf:1: drain = 99999999999999999999999h: it may be from 0 to 1h"},
    {"interval = 0s", "once.conf:1: interval = 0s: it may be from 1ms to 1m"},
    {"disk_max = 1x", "once.conf:1: disk_max = 1x: write bytes, or digits and a unit, such as 64k, "
                      "16m, 1g or 1t"},
    {"connections_max = 0", "once.conf:1: connections_max = 0: it may be from 1 to 1000000"},
    {"connections_max = 5k", "once.conf:1: connections_max = 5k: write digits"},
    {"durability = sometimes",
     "once.conf:1: durability = sometimes: it may be always|interval|none"},
    {"plaintext = true", "once.conf:1: plaintext = true: it may be yes|no"},
    {"listen = 7411", "once.conf:1: listen = 7411: write HOST:PORT, such as 127.0.0.1:7411"},
    {"listen = 127.0.0.1:", "once.conf:1: listen = 127.0.0.1:: write HOST:PORT, such as "
                            "127.0.0.1:7411"},
    {"listen = 127.0.0.1:65536",
     "once.conf:1: listen = 127.0.0.1:65536: a port is a number from 0 to 65535"},
    {"listen = example.com:1",
     "once.conf:1: listen = example.com:1: the host is no address; write one such as 127.0.0.1 or "
     "[::1], or 0.0.0.0 for every one of this machine"},
    {"listen = ::1:1", "once.conf:1: listen = ::1:1: the host is no address; write one such as "
                       "127.0.0.1 or [::1], or 0.0.0.0 for every one of this machine"},
    {"http = :80", "once.conf:1: http = :80: the host is no address; write one such as 127.0.0.1 "
                   "or [::1], or 0.0.0.0 for every one of this machine"},
    {"listen = 127.0.0.1:1\nlisten = 127.0.0.1:1",
     "once.conf:2: listen = 127.0.0.1:1 stands twice"},
    {"http = off\nhttp = 127.0.0.1:1", "once.conf:2: http = off stands alone"},
    {"http = 127.0.0.1:1\nhttp = off", "once.conf:2: http = off stands alone"},
    {"listen = off\nhttp = off\nsocket = off",
     "once.conf:3: listen, http and socket are all off: nobody could connect"},
    {"listen = 0.0.0.0:7411",
     "once.conf:1: listen = 0.0.0.0:7411: a server that others can reach needs users: add a [user "
     "NAME] section, or listen on 127.0.0.1"},
    {"http = 10.0.0.1:80\n" ALICE,
     "once.conf:1: http = 10.0.0.1:80: passwords would cross the network in the clear: write "
     "tls://10.0.0.1:80, or plaintext = yes where the network is safe"},
    {"listen = tls://127.0.0.1:1", "once.conf:1: listen: tls:// needs a certificate: tls_cert = "
                                   "FILE and tls_key = FILE"},
    {"tls_cert = /c", "once.conf:1: tls_cert and tls_key belong together; tls_key is missing"},
    {"tls_key = /c", "once.conf:1: tls_cert and tls_key belong together; tls_cert is missing"},
    {"tls_cert = /c\ntls_key = /k", "once.conf:1: no listener uses the certificate: write listen = "
                                    "tls://HOST:PORT or http = tls://HOST:PORT"},
    {"[server]", "once.conf:1: a section is [namespace NAME], [namespace *] or [user NAME]"},
    {"[namespace a", "once.conf:1: the ] at the end is missing"},
    {"[namespace a]\n[namespace a]", "once.conf:2: [namespace a] stands twice; it began in line 1"},
    {"[namespace *]\n\n[namespace *]",
     "once.conf:3: [namespace *] stands twice; it began in line 1"},
    {"[namespace a@b]", "once.conf:1: 'a@b' cannot be the name of a namespace: an @ stands between "
                        "a namespace and a user"},
    {"[namespace a b]", "once.conf:1: 'a b' cannot be the name of a namespace: "},
    {"[namespace a]\nretention = 2h\nretention_max = 1h",
     "once.conf:2: retention = 2h is more than retention_max = 1h"},
    {"[namespace a]\nlease = 8d", "once.conf:2: lease = 8d: it may be from 1ms to 7d"},
    {"[namespace a]\nresult_max = 17m", "once.conf:2: result_max = 17m: it may be from 1 to 16m"},
    {"[namespace a]\non_5xx = store", "once.conf:2: on_5xx means nothing without codes = http"},
    {"[namespace a]\nscope = user",
     "once.conf:2: scope = user needs users: add a [user NAME] section"},
    {"[namespace redis]\nlease = 1s",
     "once.conf:2: 'lease' means nothing for namespace 'redis', where values live: only result_max "
     "and scope do"},
    {"namespaces = declared",
     "once.conf:1: no namespace is declared: add a [namespace NAME] section"},
    {"namespaces = declared\n[namespace a]\n[user u]\n" TOKEN "namespaces = b",
     "once.conf:5: namespace 'b' is not declared: add [namespace b]"},
    {"[user alice]\n" TOKEN "[user alice]",
     "once.conf:3: [user alice] stands twice; it began in line 1"},
    {"[user a b]", "once.conf:1: 'a b' cannot be the name of a user: it consists of letters, "
                   "digits, dots, dashes and underscores"},
    {"[user 123456789012345678901234567890123]",
     "once.conf:1: '123456789012345678901234567890123' cannot be the name of a user: it has 1 to "
     "32 characters"},
    {"[user alice]\nnamespaces = *",
     "once.conf:1: user 'alice' has neither a password nor a token; once serve --hash-password and "
     "--make-token make the line"},
    {"[user alice]\n" TOKEN, "once.conf:1: user 'alice' may use nothing: name namespaces = …, "
                             "objects = …, or * for every one"},
    {"[user alice]\npassword = hunter2secret",
     "once.conf:2: this is no password's hash; make one: once serve --hash-password"},
    {"[user alice]\npassword = scrypt$30$8$1$AAECAwQFBgcICQoLDA0ODw==$"
     "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
     "once.conf:2: this is no password's hash; make one: once serve --hash-password"},
    {"[user alice]\ntoken = sha256$00",
     "once.conf:2: this is no token's hash; make one: once serve --make-token"},
    {"[user alice]\n" TOKEN "role = admin\nnamespaces = a",
     "once.conf:4: an administrator may use every namespace and every object: leave this out, or "
     "choose role = write"},
    {"[user alice]\n" TOKEN "namespaces = a, *", "once.conf:3: namespaces: '*': * stands alone"},
    {"[user alice]\n" TOKEN "namespaces = a a", "once.conf:3: namespaces: 'a': it stands twice"},
    {"[user alice]\n" TOKEN "namespaces = a@b",
     "once.conf:3: namespaces: 'a@b': an @ stands between a namespace and a user"},
    {"[user alice]\n" TOKEN "objects = \"a",
     "once.conf:3: objects: what begins with a quote ends with one"},
    {"[user alice]\n" TOKEN "rate = 1000001", "once.conf:3: rate = 1000001: it may be from 0 to "
                                              "1000000"},
    {"[namespace a2345678901234567890123456789012345678901234567890123456789]\nscope = "
     "user\n" ALICE,
     "once.conf:3: 'a2345678901234567890123456789012345678901234567890123456789@alice', where the "
     "keys of the user are kept, is longer than 64 characters; shorten one of the names"},
};

static void parse__wrong__says_where_and_what(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct once__config_error error = {{0}};
        struct once__config *config = NULL;
        int err = once__config_parse("once.conf", once_bytes_of(refused[i].text), &config, &error);

        if (err != ONCE_ERR_INVALID ||
            strncmp(error.text, refused[i].message, strlen(refused[i].message)) != 0)
            print_error("%zu: %s\n  gave %d %s\n  not  %s\n", i, refused[i].text, err, error.text,
                        refused[i].message);
        assert_int_equal(err, ONCE_ERR_INVALID);
        assert_null(config);
        assert_memory_equal(error.text, refused[i].message, strlen(refused[i].message));
        assert_null(strstr(error.text, "hunter2"));
    }
}

static void parse__too_many__is_refused(void **state)
{
    static const char users[] = "[user u%d]\n" TOKEN "objects = *\n";
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;
    size_t size = 0, room = (ONCE_USERS_MAX + 1) * (sizeof(users) + 8);
    char *text = malloc(room);

    (void)state;
    assert_non_null(text);
    for (int i = 0; i <= ONCE_USERS_MAX; i++)
        size += (size_t)snprintf(text + size, room - size, "[user u%d]\n" TOKEN "objects = *\n", i);
    assert_int_equal(once__config_parse("f", once_bytes_of(text), &config, &error),
                     ONCE_ERR_INVALID);
    assert_string_equal(error.text, "f:3001: more than 1000 users");
    free(text);
}

/* ---- What is shown --------------------------------------------------------------------------- */

static const char *const whole =
    "dir = \"/a b\"\nlisten = tls://0.0.0.0:7411\nlisten = [::1]:0\nhttp = tls://[::]:443\n"
    "socket = off\ntls_cert = /c\ntls_key = \"/k#\"\nlog = json\nidle = 90s\n"
    "[namespace *]\nretention = 1h\n[namespace b]\ncodes = http\non_5xx = doubt\n"
    "[namespace a]\nresult_max = 3k\nscope = user\n[namespace redis]\nresult_max = 1m\n"
    "[user bob]\n" PASSWORD "namespaces = a, b\nobjects = \"x y\", off, z\nrate = 9\n"
    "[user root]\nrole = admin\n" TOKEN;

static void show__what_was_read__is_read_as_the_same(void **state)
{
    struct once__config *config = parse(whole);
    char *text = shown(config, true), *again;
    struct once__config *second = parse(text);

    (void)state;
    again = shown(second, true);
    assert_string_equal(text, again);
    assert_non_null(strstr(text, "dir = \"/a b\"\n"));
    assert_non_null(strstr(text, "listen = tls://0.0.0.0:7411\nlisten = [::1]:0\n"));
    assert_non_null(strstr(text, "idle = 90s\n"));
    assert_non_null(strstr(text, "objects = \"x y\", \"off\", z\n"));
    assert_true(second->generation > config->generation);
    free(text);
    free(again);
    once__config_unref(config);
    once__config_unref(second);
}

static void show__secrets__are_left_out(void **state)
{
    struct once__config *config = parse(whole);
    char *text = shown(config, false);

    (void)state;
    assert_non_null(strstr(text, "password = (set)\n"));
    assert_non_null(strstr(text, "token = (set)\n"));
    assert_null(strstr(text, "scrypt$"));
    assert_null(strstr(text, "sha256$"));
    free(text);
    once__config_unref(config);
}

/* ---- A shared store -------------------------------------------------------------------------- */

static const char *const shared =
    "store = \"postgres://once:s3cret@a,b/shop?sslmode=verify-full&password=hidden\"\n"
    "accept_loss = yes\nlog = json\n";

static void store__shared__has_no_folder_and_no_socket(void **state)
{
    struct once__config *config = parse(shared);
    char *text = shown(config, true), *again;
    struct once__config *second = parse(text);

    (void)state;
    assert_null(config->folder);
    assert_null(config->socket);
    assert_true(config->accept_loss);
    assert_string_equal(config->store_url,
                        "postgres://once:s3cret@a,b/shop?sslmode=verify-full&password=hidden");
    again = shown(second, true);
    assert_string_equal(text, again);
    assert_null(strstr(text, "disk_max"));
    free(text);
    free(again);
    text = shown(config, false);
    assert_non_null(strstr(text, "store = "));
    assert_non_null(strstr(text, "/shop"));
    assert_null(strstr(text, "s3cret"));
    assert_null(strstr(text, "hidden"));
    free(text);
    once__config_unref(config);
    once__config_unref(second);
}

static void store__wrong__says_why_and_no_secret(void **state)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"dir = /d\nstore = postgres://u:s3cret@h/d\n",
         "f:2: a store is a folder (dir, f:1) or a shared one (store), not both"},
        {"store = mysql://u:s3cret@h/d\n",
         "f:1: store is no URL of a shared store: write postgres://USER@HOST:PORT/DATABASE"},
        {"dir = postgres://u:s3cret@h/d\n",
         "f:1: dir is a path, and this is the URL of a shared store: write it as store = URL "
         "(--store URL)"},
        {"store = postgres://u:s3cret@h/d?sslmod=require\n",
         "f:1: store cannot be read as a URL: it is postgres://USER:PASSWORD@HOST:PORT/"
         "DATABASE?OPTION=VALUE; OPTION is one of libpq's, such as sslmode, and a special "
         "character in a part is written as %xx"},
        {"store = postgres://h/d\ndurability = none\n",
         "f:2: durability means nothing for a shared store: leave it out; the database's own "
         "settings say what is durable"},
        {"store = postgres://h/d\nkeys_max = 7\n",
         "f:2: keys_max means nothing for a shared store: leave it out; the database has no such "
         "bound"},
        {"dir = /d\naccept_loss = yes\n", "f:2: accept_loss means nothing without store = URL"},
        {"store = \"postgres://u:s3cret\n", "f:1: store: what begins with a quote ends with one"},
    };
    struct once__config *config = parse("store = postgres://h/d\ndurability = always\n");

    (void)state;
    once__config_unref(config);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct once__config_error error = {{0}};

        assert_int_equal(once__config_parse("f", once_bytes_of(wrong[i].text), &config, &error),
                         ONCE_ERR_INVALID);
        assert_string_equal(error.text, wrong[i].message);
    }
}

/* A flag goes over the file and the environment; those two contradict each other. */
static void store__said_in_two_places__the_flag_counts(void **state)
{
    static char dir[] = "ONCE_DIR=/d", store[] = "ONCE_STORE=postgres://u:p@h/d";
    char *only_dir[] = {dir, NULL}, *only_store[] = {store, NULL}, *both[] = {dir, store, NULL};
    const struct once__setting store_flag = {"store", "postgres://u:p@g/e", "--store"};
    const struct once__setting dir_flag = {"dir", "/e", "--dir"};
    struct once__config_sources sources = {
        .environment = only_dir, .flags = &store_flag, .flag_count = 1};
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;

    (void)state;
    assert_int_equal(once__config_read(&sources, &config, &error), ONCE_OK);
    assert_null(config->folder);
    assert_string_equal(config->store_url, "postgres://u:p@g/e");
    assert_int_equal(config->warning_count, 1); /* a password that everyone sees */
    assert_non_null(strstr(config->warnings[0], "PGPASSFILE"));
    once__config_unref(config);
    sources.environment = only_store;
    sources.flags = &dir_flag;
    assert_int_equal(once__config_read(&sources, &config, &error), ONCE_OK);
    assert_null(config->store_url);
    assert_string_equal(config->folder, "/e");
    assert_int_equal(config->warning_count, 0);
    once__config_unref(config);
    sources.environment = both;
    sources.flag_count = 0;
    assert_int_equal(once__config_read(&sources, &config, &error), ONCE_ERR_INVALID);
    assert_string_equal(error.text, "ONCE_STORE: a store is a folder (dir, ONCE_DIR) or a shared "
                                    "one (store), not both");
}

static void table__every_fallback__is_the_default(void **state)
{
    struct once__config *config = parse("dir = /d\n[user u]\n" TOKEN "objects = *\n");
    char *text = shown(config, true);

    (void)state;
    for (size_t i = 0; i < once__setting_count; i++) {
        const struct once__setting_help *setting = &once__settings[i];
        char line[128];

        if ((setting->kind > ONCE__KIND_SWITCH && setting->kind != ONCE__KIND_LISTEN) ||
            setting->of == ONCE__OF_SHARED)
            continue;
        snprintf(line, sizeof(line), "\n%s = %s\n", setting->name, setting->fallback);
        if (!strstr(text, line))
            print_error("the table says%s", line);
        assert_non_null(strstr(text, line));
    }
    free(text);
    once__config_unref(config);
}

/* ---- All sources ----------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void read__flags_over_variables_over_file(void **state)
{
    char path[] = "/tmp/once-config-XXXXXX", text[] = "listen = 127.0.0.1:1\nlisten = 127.0.0.1:2\n"
                                                      "http = 127.0.0.1:3\ndrain = 1s\nidle = 1s\n";
    char *environment[] = {(char[]){"ONCE_LISTEN=127.0.0.1:4,127.0.0.1:5"},
                           (char[]){"ONCE_DRAIN=2s"},
                           (char[]){"ONCE_LOG_LEVEL="},
                           (char[]){"ONCE_UNKNOWN=1"},
                           (char[]){"HOME=/h"},
                           NULL};
    static const struct once__setting flags[] = {{"drain", "3s", "--drain"},
                                                 {"http", "127.0.0.1:6", "--http"},
                                                 {"http", "127.0.0.1:7", "--http"}};
    struct once__config_sources sources = {
        .file = path, .environment = environment, .flags = flags, .flag_count = 3};
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_file(path, text);
    assert_int_equal(once__config_read(&sources, &config, &error), ONCE_OK);
    assert_int_equal(config->resp_count, 2);
    assert_int_equal(config->resp[0].port, 4);
    assert_int_equal(config->resp[1].port, 5);
    assert_int_equal(config->http_count, 2);
    assert_int_equal(config->http[1].port, 7);
    assert_int_equal(config->drain_ms_max, 3000);
    assert_int_equal(config->idle_ms_max, 1000);
    assert_string_equal(config->folder, "/h/.local/share/once");
    assert_string_equal(config->socket, "/h/.local/share/once/once.sock");
    assert_string_equal(config->file, path);
    once__config_unref(config);
    unlink(path);
}

static void read__variable_that_is_no_setting__is_warned_about(void **state)
{
    static const struct {
        const char *variable;
        size_t warnings;
    } rows[] = {{"ONCE_LISTN=127.0.0.1:1", 1},
                {"ONCE_log=json", 1},
                {"ONCE_RETENTION=1h", 1},
                {"ONCE_LOG=json", 0},
                {"ONCE_LOG_=json", 1},
                {"ONCE_USER=ada", 0},
                {"ONCE_KEY=k", 0},
                {"LISTN=1", 0},
                {"ONCE_", 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char variable[64];
        char *environment[] = {variable, (char[]){"HOME=/h"}, NULL};
        struct once__config_error error = {{0}};
        struct once__config *config = NULL;

        snprintf(variable, sizeof(variable), "%s", rows[i].variable);
        assert_int_equal(
            once__config_read(&(struct once__config_sources){.environment = environment}, &config,
                              &error),
            ONCE_OK);
        assert_int_equal(config->warning_count, rows[i].warnings);
        once__config_unref(config);
    }
}

static void read__wrong_variable_or_flag__is_named(void **state)
{
    char *environment[] = {(char[]){"ONCE_DRAIN=x"}, (char[]){"HOME=/h"}, NULL};
    static const struct once__setting twice[] = {{"dir", "a", "--dir"}, {"dir", "b", "--dir"}};
    static const struct once__setting open[] = {{"listen", "0.0.0.0:1", "--listen"},
                                                {"dir", "b", "--dir"}};
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;

    (void)state;
    assert_int_equal(once__config_read(&(struct once__config_sources){.environment = environment},
                                       &config, &error),
                     ONCE_ERR_INVALID);
    assert_string_equal(error.text, "ONCE_DRAIN: drain = x: write digits and a unit, such as "
                                    "250ms, 30s, 5m, 24h or 7d");
    assert_int_equal(
        once__config_read(&(struct once__config_sources){.flags = twice, .flag_count = 2}, &config,
                          &error),
        ONCE_ERR_INVALID);
    assert_string_equal(error.text, "--dir: it is said twice");
    assert_int_equal(
        once__config_read(&(struct once__config_sources){.flags = open, .flag_count = 2}, &config,
                          &error),
        ONCE_ERR_INVALID);
    assert_string_equal(error.text, "--listen: listen = 0.0.0.0:1: a server that others can reach "
                                    "needs users: add a [user NAME] section, or listen on "
                                    "127.0.0.1");
    assert_int_equal(
        once__config_read(&(struct once__config_sources){.file = NULL}, &config, &error),
        ONCE_ERR_NO_STORE);
    assert_int_equal(
        once__config_read(&(struct once__config_sources){.file = "/nowhere/x"}, &config, &error),
        ONCE_ERR_IO);
    assert_string_equal(error.text, "the configuration file '/nowhere/x' cannot be read: No such "
                                    "file or directory");
}

static void read__file_that_everyone_can_read__is_warned_about(void **state)
{
    static const struct once__setting dir[] = {{"dir", "/d", "--dir"}};
    static const mode_t modes[] = {0600, 0640, 0644};
    char path[] = "/tmp/once-config-XXXXXX";
    struct once__config_sources sources = {.file = path, .flags = dir, .flag_count = 1};
    int fd = mkstemp(path);

    (void)state;
    close(fd);
    for (size_t i = 0; i < 3; i++) {
        for (int secrets = 0; secrets < 2; secrets++) {
            struct once__config_error error;
            struct once__config *config = NULL;

            write_file(path, secrets ? ALICE : "");
            assert_int_equal(chmod(path, modes[i]), 0);
            assert_int_equal(once__config_read(&sources, &config, &error), ONCE_OK);
            assert_int_equal(config->warning_count, secrets && modes[i] == 0644 ? 1 : 0);
            once__config_unref(config);
        }
    }
    unlink(path);
}

static void read__folder_with_a_long_name__has_no_socket(void **state)
{
    char folder[150];
    const struct once__setting dir[] = {{"dir", folder, "--dir"}};
    struct once__config_error error;
    struct once__config *config = NULL;

    (void)state;
    memset(folder, 'a', sizeof(folder));
    folder[0] = '/';
    folder[sizeof(folder) - 1] = '\0';
    assert_int_equal(
        once__config_read(&(struct once__config_sources){.flags = dir, .flag_count = 1}, &config,
                          &error),
        ONCE_OK);
    assert_null(config->socket);
    assert_int_equal(config->warning_count, 1);
    once__config_unref(config);
}

/* ---- Reloads --------------------------------------------------------------------------------- */

static int keep(const char *running, const char *next, struct once_buf *names,
                struct once__config **ret_next, struct once__config_error *error)
{
    struct once__config *old = parse(running);
    int err;

    *ret_next = parse(next);
    err = once__config_keep_fixed(*ret_next, old, names, error);
    once__config_unref(old);
    return err;
}

static void keep_fixed__what_cannot_change__stays_and_is_named(void **state)
{
    struct once__config_error error = {{0}};
    struct once__config *config;
    struct once_buf names;

    (void)state;
    once_buf_init(&names, 256);
    assert_int_equal(keep("dir = /a\nlisten = 127.0.0.1:1\nlisten = 127.0.0.1:2\ndrain = 1s\n",
                          "dir = /b\nlisten = 127.0.0.1:3\ndrain = 2s\n", &names, &config, &error),
                     ONCE_OK);
    assert_memory_equal(names.data, "dir listen socket", names.size);
    assert_string_equal(config->folder, "/a");
    assert_string_equal(config->socket, "/a/once.sock");
    assert_int_equal(config->resp_count, 2);
    assert_int_equal(config->resp[0].port, 1);
    assert_int_equal(config->drain_ms_max, 2000);
    once_buf_release(&names);
    once__config_unref(config);
}

static void keep_fixed__another_store__stays_and_is_named(void **state)
{
    struct once__config_error error = {{0}};
    struct once__config *config;
    struct once_buf names;

    (void)state;
    once_buf_init(&names, 256);
    assert_int_equal(keep(shared, "dir = /b\ndisk_max = 1g\ndrain = 2s\n", &names, &config, &error),
                     ONCE_OK);
    assert_memory_equal(names.data, "dir store accept_loss socket disk_max", names.size);
    assert_null(config->folder);
    assert_null(config->socket);
    assert_non_null(strstr(config->store_url, "s3cret"));
    assert_true(config->accept_loss);
    assert_int_equal(config->drain_ms_max, 2000);
    once_buf_release(&names);
    once__config_unref(config);
}

static void keep_fixed__last_user_taken_away__is_refused(void **state)
{
    struct once__config_error error = {{0}};
    struct once__config *config;
    struct once_buf names;

    (void)state;
    once_buf_init(&names, 256);
    assert_int_equal(keep("plaintext = yes\nlisten = 0.0.0.0:1\n" ALICE, "drain = 1s\n", &names,
                          &config, &error),
                     ONCE_ERR_INVALID);
    assert_string_equal(error.text, "configuration: listen = 0.0.0.0:1: a server that others can "
                                    "reach needs users: add a [user NAME] section, or listen on "
                                    "127.0.0.1");
    once_buf_release(&names);
    once__config_unref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__nothing__gives_defaults),
        cmocka_unit_test(parse__whole_server__is_taken),
        cmocka_unit_test(namespace__what_it_does_not_say__is_taken_from_star),
        cmocka_unit_test(namespace__declared_only__others_do_not_exist),
        cmocka_unit_test(user__every_setting__is_taken),
        cmocka_unit_test(parse__wrong__says_where_and_what),
        cmocka_unit_test(parse__too_many__is_refused),
        cmocka_unit_test(show__what_was_read__is_read_as_the_same),
        cmocka_unit_test(show__secrets__are_left_out),
        cmocka_unit_test(store__shared__has_no_folder_and_no_socket),
        cmocka_unit_test(store__wrong__says_why_and_no_secret),
        cmocka_unit_test(store__said_in_two_places__the_flag_counts),
        cmocka_unit_test(keep_fixed__another_store__stays_and_is_named),
        cmocka_unit_test(table__every_fallback__is_the_default),
        cmocka_unit_test(read__flags_over_variables_over_file),
        cmocka_unit_test(read__variable_that_is_no_setting__is_warned_about),
        cmocka_unit_test(read__wrong_variable_or_flag__is_named),
        cmocka_unit_test(read__file_that_everyone_can_read__is_warned_about),
        cmocka_unit_test(read__folder_with_a_long_name__has_no_socket),
        cmocka_unit_test(keep_fixed__what_cannot_change__stays_and_is_named),
        cmocka_unit_test(keep_fixed__last_user_taken_away__is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
