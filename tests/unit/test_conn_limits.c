/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is let in, how long they may stay, and how much they may ask for at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include "client/client.h"
#include "unit/serve_help.h"
#include "unit/tls_help.h"

#define LISTEN "listen = 127.0.0.1:0\n"
#define USERS                                                                                      \
    "[user ann]\nrole = write\nnamespaces = *\n"                                                   \
    "password = scrypt$15$8$1$iMlCpE+J/iEdPQf1QnFgQg==$"                                           \
    "pQkUpex1z4gL5AAyObarZhdjPhu4riW8hKemLwU3jQQ=\n"
#define PASSWORD "hunter22hunter22"

static struct serving serving;

static int end(void **state)
{
    (void)state;
    stop(&serving);
    return 0;
}

static uint64_t gauge(enum once__gauge which)
{
    return once__metrics_read(once__server_metrics(serving.server), which);
}

/* ---- How much -------------------------------------------------------------------------------- */

/* Far more than is sent while nobody reads: it waits, others do not, and nothing is lost. */
static void reader__that_does_not_read__holds_up_only_itself(void **state)
{
    enum { SIZE = 1 << 20, COUNT = 40 };
    char *value = malloc(SIZE), *back = malloc(SIZE);
    int fd, other;

    (void)state;
    serve(&serving, LISTEN);
    fd = dial(&serving);
    other = dial(&serving);
    assert_non_null(value);
    assert_non_null(back);
    memset(value, 'v', SIZE);
    say(fd, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n");
    say_bytes(fd, value, SIZE);
    say(fd, "\r\n");
    hear(fd, "+OK\r\n");
    for (int i = 0; i < COUNT; i++)
        say(fd, "GET k\r\n");
    say(fd, "ECHO end\r\n");
    for (int i = 0; i < 100; i++) {
        say(other, "GET none\r\nPING\r\n");
        hear(other, "$-1\r\n+PONG\r\n");
    }
    for (int i = 0; i < COUNT; i++) {
        hear(fd, "$1048576\r\n");
        hear_bytes(fd, back, SIZE);
        assert_memory_equal(value, back, SIZE);
        hear(fd, "\r\n");
    }
    hear(fd, "$3\r\nend\r\n");
    close(fd);
    close(other);
    free(value);
    free(back);
}

/* One command, and yet far more bytes than anyone should get at once. */
static void command__with_results_too_large_together__is_refused(void **state)
{
    enum { SIZE = 1 << 23, FEW = 2, MANY = 10 };
    char *value = malloc(SIZE), answer[1024];
    int fd;

    (void)state;
    serve(&serving, LISTEN);
    fd = dial(&serving);
    assert_non_null(value);
    memset(value, 'v', SIZE);
    say(fd, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8388608\r\n");
    say_bytes(fd, value, SIZE);
    say(fd, "\r\n");
    hear(fd, "+OK\r\n");
    for (int count = FEW; count <= MANY; count += MANY - FEW) {
        char head[32];

        snprintf(head, sizeof head, "*%d\r\n$4\r\nMGET\r\n", count + 1);
        say(fd, head);
        for (int i = 0; i < count; i++)
            say(fd, "$1\r\nk\r\n");
        if (count == MANY)
            break;
        snprintf(head, sizeof head, "*%d\r\n", count);
        hear(fd, head);
        for (int i = 0; i < count; i++) {
            hear(fd, "$8388608\r\n");
            hear_bytes(fd, value, SIZE);
            hear(fd, "\r\n");
        }
    }
    hear_answer(fd, answer, sizeof answer);
    assert_memory_equal(answer, "-TOOBIG", 7);
    say(fd, "PING\r\n");
    hear(fd, "+PONG\r\n");
    close(fd);
    free(value);
}

/* More commands than may be under way at once, all said before any answer is heard. */
static void pipeline__longer_than_the_bound__is_answered_whole(void **state)
{
    enum { COUNT = 20 * ONCE_PIPELINE_MAX };
    int fd;

    (void)state;
    serve(&serving, LISTEN);
    fd = dial(&serving);
    for (int i = 0; i < COUNT; i++)
        say(fd, "GET k\r\n");
    for (int i = 0; i < COUNT; i++)
        hear(fd, "$-1\r\n");
    close(fd);
}

/* What waits may wait for long: more than the bound is not even begun. */
static void pipeline__of_parked_commands__stops_at_the_bound(void **state)
{
    struct once__service *service;
    char answer[1024];
    int fd, other;

    (void)state;
    serve(&serving, LISTEN);
    service = once__server_service(serving.server);
    fd = dial(&serving);
    other = dial(&serving);
    say(other, "ONCE.BEGIN pay k OWNER a\r\n");
    hear_answer(other, answer, sizeof answer);
    for (int i = 0; i < ONCE_PIPELINE_MAX + 500; i++)
        say(fd, "ONCE.BEGIN pay k OWNER b WAIT 60000\r\n");
    while (once__service_parked(service) < ONCE_PIPELINE_MAX)
        usleep(500);
    for (int i = 0; i < 100; i++) {
        say(other, "GET k\r\n");
        hear(other, "$-1\r\n");
    }
    assert_int_equal(once__service_parked(service), ONCE_PIPELINE_MAX);
    /* It is not read from, and yet heard to leave, long before the lease of the other one is over.
     */
    close(fd);
    while (once__service_parked(service) > 0)
        usleep(500);
    say(other, "ONCE.BEGIN pay k OWNER c\r\n");
    hear_answer(other, answer, sizeof answer);
    assert_non_null(strstr(answer, "+BUSY"));
    close(other);
}

/* What stands behind a begin that waits is held until that is over. Were it to fill the bound of
 * all connections, nobody could begin anything. */
static void parked__with_large_commands_behind__hold_up_nobody(void **state)
{
    enum { COUNT = 40, SIZE = 15 << 20 };
    char *value = malloc(SIZE), answer[256];
    int holder, others[COUNT];

    (void)state;
    assert_non_null(value);
    memset(value, 'v', SIZE);
    serve(&serving, LISTEN);
    holder = dial(&serving);
    say(holder, "ONCE.BEGIN ns k LEASE 600000\r\n");
    hear_answer(holder, answer, sizeof answer);
    for (int i = 0; i < COUNT; i++) {
        others[i] = dial(&serving);
        say(others[i], "ONCE.BEGIN ns k WAIT 50000\r\n*2\r\n$4\r\nECHO\r\n$15728640\r\n");
        say_bytes(others[i], value, SIZE);
        say(others[i], "\r\n");
        say(holder, "PING\r\n");
        hear(holder, "+PONG\r\n");
    }
    /* The last of them were too many: they wait no longer, and are answered whole. */
    hear(others[COUNT - 1], "*2\r\n+BUSY\r\n:1000\r\n$15728640\r\n");
    hear_bytes(others[COUNT - 1], value, SIZE);
    for (int i = 0; i < COUNT; i++)
        close(others[i]);
    close(holder);
    free(value);
}

static void unknown__may_say_little(void **state)
{
    int fd;

    (void)state;
    serve(&serving, LISTEN USERS);
    fd = dial(&serving);
    say(fd, "PING\r\nGET k\r\n*33\r\n");
    hear(fd, "+PONG\r\n-NOAUTH Authentication required.\r\n"
             "-ERR Protocol error: too many arguments\r\n");
    hear_end(fd);
    fd = dial(&serving);
    say(fd, "*2\r\n$4\r\nECHO\r\n$5000\r\n");
    hear(fd, "-ERR Protocol error: an argument is too large\r\n");
    hear_end(fd);

    /* What is known in the middle of what was said counts from there on. */
    fd = dial(&serving);
    say(fd, "AUTH ann " PASSWORD "\r\n*2\r\n$4\r\nECHO\r\n$5000\r\n");
    hear(fd, "+OK\r\n");
    for (int i = 0; i < 5000; i++)
        say(fd, "x");
    say(fd, "\r\n");
    hear(fd, "$5000\r\nxxxxxxxxxx");
    close(fd);
}

static void login__wrong_then_right_in_one_piece__are_answered_in_order(void **state)
{
    char answer[256];
    int fd;

    (void)state;
    serve(&serving, LISTEN USERS);
    fd = dial(&serving);
    say(fd, "AUTH ann wrongwrong\r\nGET k\r\nAUTH ann " PASSWORD "\r\nSET k v\r\nGET k\r\n");
    hear_answer(fd, answer, sizeof answer);
    assert_memory_equal(answer, "-WRONGPASS", 10);
    hear_answer(fd, answer, sizeof answer);
    assert_memory_equal(answer, "-NOAUTH", 7);
    hear(fd, "+OK\r\n+OK\r\n$1\r\nv\r\n");
    close(fd);
}

/* ---- Who ------------------------------------------------------------------------------------- */

static void connections__over_the_bound__are_told_and_closed(void **state)
{
    int first, second, third;

    (void)state;
    serve(&serving, LISTEN "connections_max = 2\n");
    first = dial(&serving);
    second = dial(&serving);
    say(first, "PING\r\n");
    say(second, "PING\r\n");
    hear(first, "+PONG\r\n");
    hear(second, "+PONG\r\n");
    third = dial(&serving);
    hear(third, "-ERR max number of clients reached");
    close(third);
    assert_int_equal(gauge(ONCE__CONNECTIONS_REFUSED), 1);
    close(first);
    while (gauge(ONCE__CONNECTIONS_RESP) > 1)
        usleep(500);
    third = dial(&serving);
    say(third, "PING\r\n");
    hear(third, "+PONG\r\n");
    close(second);
    close(third);
}

static void idle__longer_than_allowed__is_closed(void **state)
{
    int fd;

    (void)state;
    serve(&serving, LISTEN "idle = 1s\n");
    fd = dial(&serving);
    say(fd, "PING\r\n");
    hear(fd, "+PONG\r\n");
    hear_end(fd);
    assert_int_equal(gauge(ONCE__CONNECTIONS_CUT), 1);
}

/* No descriptor is left: whoever comes is turned away, nothing spins, and later all is well. */
static void descriptors__none_left__is_survived(void **state)
{
    struct rlimit before, few;
    int fd, last, spare[8], there = 0;

    (void)state;
    serve(&serving, LISTEN);
    fd = dial(&serving);
    say(fd, "PING\r\n");
    hear(fd, "+PONG\r\n");
    last = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(last >= 0);
    be_patient(last);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)last + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (there < 8 && (spare[there] = dup(fd)) >= 0)
        there++;
    {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons(once__server_resp_port(serving.server, 0))};

        assert_int_equal(connect(last, (const struct sockaddr *)&address, sizeof address), 0);
    }
    hear_end(last);
    say(fd, "PING\r\n");
    hear(fd, "+PONG\r\n");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (there > 0)
        close(spare[--there]);
    last = dial(&serving);
    say(last, "PING\r\n");
    hear(last, "+PONG\r\n");
    close(last);
    close(fd);
}

static void configure__user_removed__is_closed_and_others_stay(void **state)
{
    int ann, owner;

    (void)state;
    serve(&serving, LISTEN USERS "[user bob]\nrole = admin\ntoken = sha256$"
                                 "0000000000000000000000000000000000000000000000000000000000000000"
                                 "\n");
    ann = dial(&serving);
    say(ann, "AUTH ann " PASSWORD "\r\n");
    hear(ann, "+OK\r\n");
    owner = dial_unix(&serving);
    say(owner, "SET k v\r\n");
    hear(owner, "+OK\r\n");
    serving.next = config_of(&serving, LISTEN
                             "[user bob]\nrole = admin\ntoken = sha256$"
                             "0000000000000000000000000000000000000000000000000000000000000000\n");
    once__server_reload(serving.server);
    hear_end(ann);
    assert_int_equal(gauge(ONCE__CONNECTIONS_CUT), 0); /* no deadline was waited for */
    say(owner, "GET k\r\n");
    hear(owner, "$1\r\nv\r\n");
    close(owner);
}

/* ---- The unix socket ------------------------------------------------------------------------- */

static void unix_socket__left_by_the_dead__is_replaced(void **state)
{
    struct once__conns_setup setup = {0};
    struct once_message message = {{0}};
    struct once__config *config;
    struct once__conns *conns = NULL, *second = NULL;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)] = {0};
    struct stat about;
    uv_loop_t loop;
    int fd;
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)state;
    serve(&serving, LISTEN "# the folder and the parts of a server that conns need\n");
    config = config_of(&serving, LISTEN);
    snprintf(path, sizeof path, "%s/other.sock", serving.folder);
    memcpy(address.sun_path, path, sizeof path);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    assert_int_equal(uv_loop_init(&loop), 0);
    setup.loop = &loop;
    setup.server = serving.server;
    setup.service = once__server_service(serving.server);
    setup.metrics = once__server_metrics(serving.server);
    assert_int_equal(once__conns_new(&setup, config, &conns), ONCE_OK);
    assert_int_equal(once__conns_listen_unix(conns, path, &message), ONCE_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);

    /* Someone listens there now. */
    assert_int_equal(once__conns_new(&setup, config, &second), ONCE_OK);
    assert_int_equal(once__conns_listen_unix(second, path, &message), ONCE_ERR_IO);
    assert_non_null(strstr(message.text, "another process listens there"));
    once__conns_free(second);
    assert_int_equal(stat(path, &about), 0);
    once__conns_free(conns);
    assert_int_equal(stat(path, &about), -1);

    /* What is no socket is not touched. */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(once__conns_new(&setup, config, &conns), ONCE_OK);
    assert_int_equal(once__conns_listen_unix(conns, path, &message), ONCE_ERR_IO);
    once__conns_free(conns);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    once__config_unref(config);
}

static void listen__port_in_use__is_said(void **state)
{
    struct once__server_setup setup = {0};
    struct once__server *second = NULL;
    struct once_message message = {{0}};
    char settings[128];

    (void)state;
    serve(&serving, LISTEN);
    snprintf(settings, sizeof settings, "listen = 127.0.0.1:%u\n",
             (unsigned)once__server_resp_port(serving.server, 0));
    setup.config = config_of(&serving, settings);
    assert_int_equal(once__server_new(&setup, &second, &message), ONCE_ERR_IO);
    assert_non_null(strstr(message.text, "address already in use"));
    once__config_unref(setup.config);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static void tls__commands_of_every_size__are_answered(void **state)
{
    static const size_t sizes[] = {1, 16000, 16384, 100000, 2000000};
    struct once__client_options options = {0};
    struct once__client *client = NULL;
    struct once_message message = {{0}};
    const struct once__answer_item *answer = NULL;
    char settings[512], address[64], ca[128];

    (void)state;
    snprintf(ca, sizeof ca, "%s", path("one.crt"));
    snprintf(settings, sizeof settings, "listen = tls://127.0.0.1:0\ntls_cert = %s\ntls_key = %s\n",
             ca, path("one.key"));
    serve(&serving, settings);
    snprintf(address, sizeof address, "tls://127.0.0.1:%u",
             (unsigned)once__server_resp_port(serving.server, 0));
    options.tls_ca = ca;
    if (once__client_open(address, &options, &client, &message) != ONCE_OK)
        fail_msg("%s", message.text);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *value = malloc(sizes[i]);
        struct once_bytes words[3] = {once_bytes_of("SET"), once_bytes_of("k"), {value, sizes[i]}};

        assert_non_null(value);
        for (size_t j = 0; j < sizes[i]; j++)
            value[j] = (uint8_t)(j / 7 + i);
        assert_int_equal(once__client_call(client, words, 3, &answer, &message), ONCE_OK);
        assert_int_equal(answer->kind, ONCE__ANSWER_WORD);
        words[0] = once_bytes_of("GET");
        assert_int_equal(once__client_call(client, words, 2, &answer, &message), ONCE_OK);
        assert_int_equal(answer->bytes.size, sizes[i]);
        assert_memory_equal(answer->bytes.data, value, sizes[i]);
        free(value);
    }
    once__client_close(client);
}

static void tls__plain_words__are_cut(void **state)
{
    char settings[512], ca[128];
    uint8_t alert[7];
    int fd;

    (void)state;
    snprintf(ca, sizeof ca, "%s", path("one.crt"));
    snprintf(settings, sizeof settings, "listen = tls://127.0.0.1:0\ntls_cert = %s\ntls_key = %s\n",
             ca, path("one.key"));
    serve(&serving, settings);
    fd = dial(&serving);
    say(fd, "PING\r\nPING\r\nPING\r\nPING\r\n");
    hear_bytes(fd, alert, sizeof alert);
    assert_int_equal(alert[0], 21);
    hear_end(fd);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(tls_folder))
        return -1;
    make_certificate("one");
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path("one.crt"));
    unlink(path("one.key"));
    return rmdir(tls_folder);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        TEST(reader__that_does_not_read__holds_up_only_itself),
        TEST(command__with_results_too_large_together__is_refused),
        TEST(pipeline__longer_than_the_bound__is_answered_whole),
        TEST(pipeline__of_parked_commands__stops_at_the_bound),
        TEST(parked__with_large_commands_behind__hold_up_nobody),
        TEST(unknown__may_say_little),
        TEST(login__wrong_then_right_in_one_piece__are_answered_in_order),
        TEST(connections__over_the_bound__are_told_and_closed),
        TEST(idle__longer_than_allowed__is_closed),
        TEST(descriptors__none_left__is_survived),
        TEST(configure__user_removed__is_closed_and_others_stay),
        TEST(unix_socket__left_by_the_dead__is_replaced),
        TEST(listen__port_in_use__is_said),
        TEST(tls__commands_of_every_size__are_answered),
        TEST(tls__plain_words__are_cut),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
