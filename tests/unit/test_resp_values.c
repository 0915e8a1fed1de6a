/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands that Redis has too, from their words to the exact bytes of their answers: values,
 * the connection, the server. tests/e2e/test_redis_parity.py holds the same against a Redis. In
 * expectations '|' stands for CR LF.
 */
#include "command_help.h"

#include "server/resp_commands.h"

static int open_desk(void **state)
{
    struct desk *desk = calloc(1, sizeof(*desk));

    desk_open(desk, 2);
    *state = desk;
    return 0;
}

static int close_desk(void **state)
{
    desk_close(*state);
    free(*state);
    return 0;
}

#define ONE_USER                                                                                   \
    "dir = /nowhere\n[user %s]\nrole = write\nnamespaces = redis\ntoken = "                        \
    "sha256$0000000000000000000000000000000000000000000000000000000000000000\n"

/* ---- Values ---------------------------------------------------------------------------------- */

static void set__conditions_and_get__as_redis(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "GET k", "$-1|");
    EXPECT(desk, "SET k one", "+OK|");
    EXPECT(desk, "GET k", "$3|one|");
    EXPECT(desk, "SET k two NX", "$-1|");
    EXPECT(desk, "SET k two XX", "+OK|");
    EXPECT(desk, "SET k three GET", "$3|two|");
    EXPECT(desk, "SET k four NX GET", "$5|three|");
    EXPECT(desk, "GET k", "$5|three|");
    EXPECT(desk, "SET n x XX", "$-1|");
    EXPECT(desk, "SET n x XX GET", "$-1|");
    EXPECT(desk, "SET n x NX GET", "$-1|");
    EXPECT(desk, "GET n", "$1|x|");
    EXPECT(desk, "SETNX n y", ":0|");
    EXPECT(desk, "SETNX m y", ":1|");
    EXPECT(desk, "SET e ''", "+OK|");
    EXPECT(desk, "GET e", "$0||");
    EXPECT(desk, "STRLEN k", ":5|");
    EXPECT(desk, "STRLEN none", ":0|");
    EXPECT(desk, "TYPE k", "+string|");
    EXPECT(desk, "TYPE none", "+none|");
    EXPECT(desk, "MGET k none n", "*3|$5|three|$-1|$1|x|");
    EXPECT(desk, "EXISTS k none k", ":2|");
    EXPECT(desk, "DEL k none k", ":1|");
    EXPECT(desk, "UNLINK n m", ":2|");
    EXPECT(desk, "GET k", "$-1|");
    desk->session.protocol = 3;
    EXPECT(desk, "GET k", "_|");
    EXPECT(desk, "MGET k e", "*2|_|$0||");
    EXPECT(desk, "SET e x NX", "_|");
}

static void set__bad_arguments__the_words_of_redis(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "SET k v NX XX", "-ERR syntax error|");
    EXPECT(desk, "SET k v XX NX", "-ERR syntax error|");
    EXPECT(desk, "SET k v EX", "-ERR syntax error|");
    EXPECT(desk, "SET k v EX 5 PX 5", "-ERR syntax error|");
    EXPECT(desk, "SET k v KEEPTTL EX 5", "-ERR syntax error|");
    EXPECT(desk, "SET k v EX 5 KEEPTTL", "-ERR syntax error|");
    EXPECT(desk, "SET k v NOPE", "-ERR syntax error|");
    EXPECT(desk, "SET k v EX abc", "-ERR value is not an integer or out of range|");
    EXPECT(desk, "SET k v EX 0", "-ERR invalid expire time in 'set' command|");
    EXPECT(desk, "SET k v PX -5", "-ERR invalid expire time in 'set' command|");
    EXPECT(desk, "SET k v EX 9223372036854775807", "-ERR invalid expire time in 'set' command|");
    EXPECT(desk, "SET k v EX 315576000",
           "-ERR invalid expire time in 'set' command: nothing is kept longer than ten years|");
    EXPECT(desk, "SETEX k 0 v", "-ERR invalid expire time in 'setex' command|");
    EXPECT(desk, "PSETEX k -1 v", "-ERR invalid expire time in 'psetex' command|");
    EXPECT(desk, "SETEX k x v", "-ERR value is not an integer or out of range|");
    EXPECT(desk, "SET '' v", "-ERR the key is empty (ERR_KEY_EMPTY)|");
    EXPECT(desk, "MGET a k\001",
           "-ERR the key has a character that is not allowed (ERR_KEY_CHARACTER)|");
    EXPECT(desk, "DEL a k\001",
           "-ERR the key has a character that is not allowed (ERR_KEY_CHARACTER)|");
    EXPECT(desk, "EXISTS k", ":0|");
}

static void expire__and_ttl__as_redis(void **state)
{
    struct desk *desk = *state;
    struct life *life = &desk->house.life;

    EXPECT(desk, "TTL k", ":-2|");
    EXPECT(desk, "PTTL k", ":-2|");
    EXPECT(desk, "EXPIRE k 5", ":0|");
    EXPECT(desk, "SET k v", "+OK|");
    EXPECT(desk, "TTL k", ":-1|");
    EXPECT(desk, "PTTL k", ":-1|");
    EXPECT(desk, "EXPIRE k 5", ":1|");
    EXPECT(desk, "TTL k", ":5|");
    EXPECT(desk, "PEXPIRE k 1500", ":1|");
    EXPECT(desk, "TTL k", ":2|"); /* rounded */
    EXPECT(desk, "PEXPIRE k 1499", ":1|");
    EXPECT(desk, "TTL k", ":1|");
    EXPECT(desk, "PTTL k", ":1499|");
    life_pass(life, 1000);
    EXPECT(desk, "PTTL k", ":499|");
    EXPECT(desk, "SET k w KEEPTTL", "+OK|");
    EXPECT(desk, "PTTL k", ":499|");
    EXPECT(desk, "SET k x", "+OK|");
    EXPECT(desk, "TTL k", ":-1|");
    EXPECT(desk, "SET k x KEEPTTL", "+OK|");
    EXPECT(desk, "TTL k", ":-1|");
    EXPECT(desk, "SET k y PX 300", "+OK|");
    EXPECT(desk, "SETEX s 10 v", "+OK|");
    EXPECT(desk, "PSETEX p 1500 v", "+OK|");
    EXPECT(desk, "TTL s", ":10|");
    EXPECT(desk, "PTTL p", ":1500|");
    life_pass(life, 301);
    EXPECT(desk, "GET k", "$-1|");
    EXPECT(desk, "TTL k", ":-2|");
    EXPECT(desk, "GET s", "$1|v|");
    EXPECT(desk, "EXPIRE s 0", ":1|");
    EXPECT(desk, "GET s", "$-1|");
    EXPECT(desk, "PEXPIRE p -1", ":1|");
    EXPECT(desk, "PEXPIRE p -1", ":0|");
    EXPECT(desk, "EXPIRE p x", "-ERR value is not an integer or out of range|");
    EXPECT(desk, "EXPIRE p 5 NX", "-ERR Unsupported option NX|");
    EXPECT(desk, "EXPIRE p 9223372036854775807", "-ERR invalid expire time in 'expire' command|");
    EXPECT(desk, "EXPIRE p 315576000",
           "-ERR invalid expire time in 'expire' command: nothing is kept longer than ten years|");
}

static void expire__at_a_point_in_time__as_redis(void **state)
{
    struct desk *desk = *state;
    once_ms now_ms = once__wall_ms();
    char line[64];
    long long left;

    /* The store's clock is the wall's here: the point is given in wall time. */
    desk->house.life.wall_ms = now_ms;
    life_pass(&desk->house.life, now_ms - LIFE_START_MS);
    snprintf(line, sizeof(line), "SET k v PXAT %lld", (long long)now_ms + 100000);
    EXPECT(desk, line, "+OK|");
    assert_int_equal(sscanf((const char *)ask(desk, "PTTL k").data, ":%lld", &left), 1);
    assert_true(left > 0 && left <= 100000);
    snprintf(line, sizeof(line), "EXPIREAT k %lld", (long long)now_ms / 1000 + 1000);
    EXPECT(desk, line, ":1|");
    assert_int_equal(sscanf((const char *)ask(desk, "TTL k").data, ":%lld", &left), 1);
    assert_true(left > 900 && left <= 1000);
    EXPECT(desk, "PEXPIREAT none 1", ":0|");
    EXPECT(desk, "PEXPIREAT k 1", ":1|");
    EXPECT(desk, "GET k", "$-1|");
    EXPECT(desk, "SET k v", "+OK|");
    EXPECT(desk, "SET k w EXAT 1 NX", "$-1|");
    EXPECT(desk, "SET none w EXAT 1 XX", "$-1|");
    EXPECT(desk, "SET none w EXAT 1 NX", "+OK|");
    EXPECT(desk, "GET k", "$1|v|");
    EXPECT(desk, "SET k w EXAT 1 GET", "$1|v|");
    EXPECT(desk, "GET k", "$-1|");
    EXPECT(desk, "SET k w EXAT 1", "+OK|");
    EXPECT(desk, "SET k w EXAT 0", "-ERR invalid expire time in 'set' command|");
}

static void value__of_a_user_who_may_only_read__is_read(void **state)
{
    struct desk *desk = *state;
    char text[512];

    EXPECT(desk, "SET k v", "+OK|");
    snprintf(text, sizeof(text), ONE_USER, "alice");
    desk_configure(desk, text);
    desk->session.identity.role = ONCE__ROLE_WRITE;
    snprintf(desk->session.identity.name, sizeof(desk->session.identity.name), "alice");
    EXPECT_START(desk, "ONCE.BEGIN pay k", "-NOPERM this user may not use that namespace");
    EXPECT(desk, "DEL none", ":0|"); /* needs no administrator */
    desk->session.identity.role = ONCE__ROLE_READ;
    EXPECT(desk, "GET k", "$1|v|");
    EXPECT_START(desk, "DEL k", "-NOPERM ");
}

static void mget__many_keys__one_request(void **state)
{
    struct desk *desk = *state;
    enum { COUNT = 2000 };
    struct once_bytes *words = calloc(COUNT, sizeof(*words));
    struct once_bytes answer;

    EXPECT(desk, "SET k v", "+OK|");
    words[0] = once_bytes_of("MGET");
    for (size_t i = 1; i < COUNT; i++)
        words[i] = once_bytes_of(i % 2 ? "k" : "none");
    answer = desk_ask(desk, words, COUNT);
    assert_memory_equal(answer.data, "*1999\r\n$1\r\nv\r\n$-1\r\n$1\r\nv\r\n", 26);
    assert_int_equal(answer.size, 7 + 1000 * 7 + 999 * 5);
    words[0] = once_bytes_of("EXISTS");
    assert_string_equal(shown(desk_ask(desk, words, COUNT)), ":1000|");
    words[0] = once_bytes_of("DEL");
    assert_string_equal(shown(desk_ask(desk, words, COUNT)), ":1|");
    free(words);
}

static void mget__more_than_an_answer_may_hold__is_full(void **state)
{
    struct desk *desk = *state;
    enum { COUNT = 8191, SIZE = 20000 }; /* 160 MB in all */
    struct once_bytes *words = calloc(COUNT, sizeof(*words));
    char *value = calloc(1, SIZE);
    struct once_bytes set[] = {once_bytes_of("SET"), once_bytes_of("k"), {NULL, SIZE}};

    set[2].data = (const uint8_t *)value;
    assert_string_equal(shown(desk_ask(desk, set, 3)), "+OK|");
    words[0] = once_bytes_of("MGET");
    for (size_t i = 1; i < COUNT; i++)
        words[i] = once_bytes_of("k");
    assert_int_equal(desk_ask(desk, words, 101).size, 6 + 100 * (8 + SIZE + 2));
    assert_string_equal(shown(desk_ask(desk, words, COUNT)),
                        "-TOOBIG the answer would be too large: ask for fewer at once "
                        "(ERR_TOO_LARGE)|");
    free(value);
    free(words);
}

/* ---- Connection ------------------------------------------------------------------------------ */

static void connection__simple_ones__as_redis(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "PING", "+PONG|");
    EXPECT(desk, "PING hi", "$2|hi|");
    EXPECT(desk, "PING a b", "-ERR wrong number of arguments for 'ping' command|");
    EXPECT(desk, "ECHO hi", "$2|hi|");
    EXPECT(desk, "SELECT 0", "+OK|");
    EXPECT(desk, "SELECT 1", "-ERR DB index is out of range|");
    EXPECT(desk, "SELECT x", "-ERR value is not an integer or out of range|");
    EXPECT(desk, "CLIENT ID", ":7|");
    EXPECT(desk, "CLIENT GETNAME", "$-1|");
    EXPECT(desk, "CLIENT SETNAME bob", "+OK|");
    EXPECT(desk, "CLIENT GETNAME", "$3|bob|");
    EXPECT(desk, "CLIENT SETNAME ~b_b",
           "-ERR Client names cannot contain spaces, newlines or special characters.|");
    EXPECT(desk, "CLIENT SETNAME ''", "+OK|");
    EXPECT(desk, "CLIENT GETNAME", "$-1|");
    EXPECT(desk, "CLIENT SETINFO lib-name redis-py", "+OK|");
    EXPECT(desk, "CLIENT SETINFO LIB-VER 5.0", "+OK|");
    EXPECT(desk, "CLIENT SETINFO LIB-X 5.0", "-ERR Unrecognized option 'LIB-X'|");
    EXPECT(desk, "CLIENT NO-EVICT on", "+OK|");
    EXPECT(desk, "CLIENT NO-TOUCH OFF", "+OK|");
    EXPECT(desk, "CLIENT NO-TOUCH maybe", "-ERR syntax error|");
    EXPECT_START(desk, "CLIENT HELP", "*");
    assert_false(desk->session.closing);
    EXPECT(desk, "QUIT", "+OK|");
    assert_true(desk->session.closing);
}

static void client_list__lines__of_connections(void **state)
{
    struct desk *desk = *state;
    const char *text;

    desk->server.other = &desk->session;
    EXPECT(desk, "CLIENT SETNAME bob", "+OK|");
    EXPECT(desk, "CLIENT SETINFO LIB-NAME py", "+OK|");
    text = shown(ask(desk, "CLIENT LIST"));
    assert_non_null(strstr(text, "|id=7 addr=127.0.0.1:5000 name=bob age="));
    assert_non_null(strstr(text, " flags=N db=0 cmd=client|list user=default resp=2 lib-name=py "
                                 "lib-ver=|"));
    EXPECT(desk, "CLIENT LIST TYPE replica", "$0||");
    EXPECT(desk, "CLIENT LIST ID 8 9", "$0||");
    EXPECT_START(desk, "CLIENT LIST ID 8 7", "$");
    assert_non_null(strstr(shown(once_buf_bytes(&desk->out.buf)), "id=7 "));
    EXPECT_START(desk, "CLIENT LIST TYPE normal", "$");
    EXPECT(desk, "CLIENT LIST TYPE nope", "-ERR Unknown client type 'nope'|");
    EXPECT(desk, "CLIENT LIST ID x", "-ERR Invalid client ID|");
    EXPECT(desk, "CLIENT LIST NOPE", "-ERR syntax error|");
    desk->session.protocol = 3;
    EXPECT_START(desk, "CLIENT INFO", "=");
}

static void hello__versions_and_errors__as_redis(void **state)
{
    struct desk *desk = *state;

    EXPECT_START(desk, "HELLO",
                 "*16|$6|server|$5|redis|$7|version|$5|7.0.0|$5|proto|:2|$2|id|:7|"
                 "$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|$4|once|$");
    EXPECT_START(desk, "HELLO 3 SETNAME bob",
                 "%8|$6|server|$5|redis|$7|version|$5|7.0.0|$5|"
                 "proto|:3|");
    assert_int_equal(desk->session.protocol, 3);
    assert_string_equal(desk->session.name, "bob");
    EXPECT_START(desk, "HELLO", "%8|");
    EXPECT(desk, "HELLO 4", "-NOPROTO unsupported protocol version|");
    EXPECT(desk, "HELLO x", "-ERR Protocol version is not an integer or out of range|");
    EXPECT(desk, "HELLO 2 NOPE", "-ERR Syntax error in HELLO option 'NOPE'|");
    EXPECT(desk, "HELLO 2 AUTH a", "-ERR Syntax error in HELLO option 'AUTH'|");
    EXPECT_START(desk, "HELLO 2 SETNAME ~a_b", "-ERR Client names cannot contain");
    assert_int_equal(desk->session.protocol, 3);
    EXPECT_START(desk, "HELLO 2 AUTH default x", "*16|");
    EXPECT_START(desk, "HELLO 2 AUTH bob x", "-WRONGPASS ");
    EXPECT(desk, "RESET", "+RESET|");
    assert_string_equal(desk->session.name, "");
    assert_true(desk->session.identity.known);
}

static void auth__without_users__as_redis_without_a_password(void **state)
{
    struct desk *desk = *state;

    EXPECT_START(desk, "AUTH x", "-ERR AUTH <password> called without any password configured");
    EXPECT(desk, "AUTH default x", "+OK|");
    EXPECT(desk, "AUTH bob x", "-WRONGPASS invalid username-password pair or user is disabled.|");
    EXPECT(desk, "AUTH a b c", "-ERR syntax error|");
}

static void auth__with_users__goes_to_who_compares(void **state)
{
    struct desk *desk = *state;
    char text[512];

    snprintf(text, sizeof(text), ONE_USER, "alice");
    desk_configure(desk, text);
    desk->session.identity = once__identity_anonymous(desk->session.config);
    assert_false(desk->session.identity.known);
    EXPECT(desk, "AUTH alice wrong",
           "-WRONGPASS invalid username-password pair or user is disabled.|");
    assert_false(desk->session.identity.known);
    assert_false(desk->asked.bearer);
    assert_string_equal(desk->asked.name, "alice");
    assert_memory_equal(desk->asked.secret, "wrong", 5);
    assert_int_equal(desk->asked.secret_size, 5);
    desk->delayed = true;
    EXPECT_START(desk, "AUTH alice wrong", "-RATE 10000 too many wrong passwords");
    desk->delayed = false;
    desk->granted = true;
    EXPECT(desk, "AUTH sometoken", "+OK|"); /* no user "default": it is a token */
    assert_true(desk->asked.bearer);
    assert_string_equal(desk->asked.name, "");
    EXPECT(desk, "AUTH alice right", "+OK|");
    assert_true(desk->session.identity.known);
    assert_string_equal(desk->session.identity.name, "alice");
    EXPECT(desk, "RESET", "+RESET|");
    assert_false(desk->session.identity.known);
    EXPECT_START(desk, "HELLO 3 AUTH alice right SETNAME me", "%8|");
    assert_int_equal(desk->session.protocol, 3);
    assert_string_equal(desk->session.name, "me");
    desk->granted = false;
    EXPECT_START(desk, "HELLO 2 AUTH alice wrong SETNAME you", "-WRONGPASS ");
    assert_int_equal(desk->session.protocol, 3); /* nothing of it happened */
    assert_string_equal(desk->session.name, "me");
    snprintf(text, sizeof(text), ONE_USER, "default");
    desk_configure(desk, text);
    desk->granted = true;
    EXPECT(desk, "AUTH pw", "+OK|");
    assert_false(desk->asked.bearer);
    assert_string_equal(desk->asked.name, "default");
}

static void auth__too_long__is_wrong_at_once(void **state)
{
    struct desk *desk = *state;
    char text[512], line[400];

    snprintf(text, sizeof(text), ONE_USER, "alice");
    desk_configure(desk, text);
    desk->granted = true;
    memset(line, 'x', sizeof(line));
    memcpy(line, "AUTH alice ", 11);
    line[sizeof(line) - 1] = '\0';
    EXPECT_START(desk, line, "-WRONGPASS ");
    memcpy(line + 60, " y", 3);
    EXPECT_START(desk, line + 0, "-ERR syntax error"); /* three words behind AUTH */
    memcpy(line, "AUTH xxxxxx", 11);
    EXPECT_START(desk, line, "-WRONGPASS ");
}

/* ---- Server ---------------------------------------------------------------------------------- */

static void command__count_list_info_docs__from_the_table(void **state)
{
    struct desk *desk = *state;
    char count[32];
    size_t commands = 0;

    for (size_t i = 0; i < once__command_count; i++)
        commands += once__commands[i].parent ? 0 : 1;
    snprintf(count, sizeof(count), ":%zu|", commands);
    EXPECT(desk, "COMMAND COUNT", count);
    count[0] = '*';
    EXPECT_START(desk, "COMMAND", count);
    EXPECT_START(desk, "COMMAND INFO", count);
    EXPECT_START(desk, "COMMAND LIST", count);
    EXPECT(desk, "COMMAND INFO get nope",
           "*2|*10|$3|get|:2|*2|+readonly|+fast|:1|:1|:1|*0|*0|*0|*0|$-1|");
    EXPECT(desk, "COMMAND INFO client|id",
           "*1|*10|$9|client|id|:2|*2|+fast|+loading|:0|:0|:0|*0|*0|*0|*0|");
    EXPECT(desk, "COMMAND LIST FILTERBY PATTERN *setx", "*0|");
    EXPECT(desk, "COMMAND LIST FILTERBY PATTERN set*", "*3|$3|set|$5|setex|$5|setnx|");
    EXPECT(desk, "COMMAND LIST FILTERBY ACLCAT x", "-ERR syntax error|");
    EXPECT_START(desk, "COMMAND DOCS get nope", "*2|$3|get|*10|$7|summary|$8|A value.|$5|since|");
    EXPECT(desk, "COMMAND DOCS nope", "*0|");
    EXPECT(desk, "COMMAND GETKEYS mget a b", "*2|$1|a|$1|b|");
    EXPECT(desk, "COMMAND GETKEYS once.begin ns key TTL 5", "*1|$3|key|");
    EXPECT(desk, "COMMAND GETKEYS get a b",
           "-ERR Invalid number of arguments specified for command|");
    EXPECT(desk, "COMMAND GETKEYS ping x", "-ERR The command has no key arguments|");
    EXPECT(desk, "COMMAND GETKEYS nope x", "-ERR Invalid command specified|");
    EXPECT_START(desk, "COMMAND HELP", "*");
    desk->session.protocol = 3;
    EXPECT_START(desk, "COMMAND DOCS get", "%1|$3|get|%5|");
    EXPECT_START(desk, "COMMAND INFO get", "*1|*10|$3|get|:2|~2|+readonly|+fast|");
}

static void help__of_once__lines(void **state)
{
    struct desk *desk = *state;

    EXPECT_START(desk, "ONCE.HELP", "*21|$");
    EXPECT_START(desk, "ONCE.HELP once.get", "*4|$15|ONCE.GET ns key|$");
    EXPECT_START(desk, "ONCE.HELP client setname", "*3|$19|CLIENT SETNAME name|$");
    EXPECT(desk, "ONCE.HELP nope", "-ERR ONCE.HELP: there is no command 'nope' (ERR_INVALID)|");
}

static void config_get__patterns__as_redis(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "CONFIG GET save", "*2|$4|save|$0||");
    EXPECT(desk, "CONFIG GET appendonly", "*2|$10|appendonly|$3|yes|");
    EXPECT(desk, "CONFIG GET APPENDF* databases",
           "*4|$11|appendfsync|$6|always|$9|databases|$1|1|");
    EXPECT(desk, "CONFIG GET nope", "*0|");
    EXPECT(desk, "CONFIG GET dir", "*2|$3|dir|$8|/nowhere|");
    EXPECT(desk, "CONFIG GET maxclients", "*2|$10|maxclients|$5|20000|");
    EXPECT_START(desk, "CONFIG GET *", "*32|");
    EXPECT(desk, "CONFIG SET save x", "-ERR unknown subcommand 'SET'. Try CONFIG HELP.|");
    desk->session.protocol = 3;
    EXPECT(desk, "CONFIG GET save appendonly", "%2|$10|appendonly|$3|yes|$4|save|$0||");
}

static void info__sections__those_asked_for(void **state)
{
    struct desk *desk = *state;
    const char *text;

    EXPECT(desk, "SET k v", "+OK|");
    text = shown(ask(desk, "INFO"));
    assert_non_null(strstr(text, "|# Server|redis_version:7.0.0|once_version:"));
    assert_non_null(strstr(text, "||# Persistence|loading:0|"));
    assert_non_null(strstr(text, "||# Keyspace|db0:keys=1,"));
    assert_non_null(strstr(text, "||# Once|phase:ready|shared:0|keys:1|"));
    text = shown(ask(desk, "INFO replication CLIENTS"));
    assert_non_null(strstr(text, "|# Clients|connected_clients:0|"));
    assert_non_null(strstr(text, "||# Replication|role:master|connected_slaves:0||"));
    assert_null(strstr(text, "# Server"));
    assert_non_null(strstr(shown(ask(desk, "INFO everything")), "# CPU"));
    EXPECT(desk, "INFO nope", "$0||");
    EXPECT(desk, "DBSIZE", ":1|");
    EXPECT_START(desk, "TIME", "*2|$10|");
    desk->session.protocol = 3;
    EXPECT_START(desk, "INFO server", "=");
}

int main(void)
{
#define DESK(test) cmocka_unit_test_setup_teardown(test, open_desk, close_desk)
    const struct CMUnitTest tests[] = {
        DESK(set__conditions_and_get__as_redis),
        DESK(set__bad_arguments__the_words_of_redis),
        DESK(expire__and_ttl__as_redis),
        DESK(expire__at_a_point_in_time__as_redis),
        DESK(value__of_a_user_who_may_only_read__is_read),
        DESK(mget__many_keys__one_request),
        DESK(mget__more_than_an_answer_may_hold__is_full),
        DESK(connection__simple_ones__as_redis),
        DESK(client_list__lines__of_connections),
        DESK(hello__versions_and_errors__as_redis),
        DESK(auth__without_users__as_redis_without_a_password),
        DESK(auth__with_users__goes_to_who_compares),
        DESK(auth__too_long__is_wrong_at_once),
        DESK(command__count_list_info_docs__from_the_table),
        DESK(help__of_once__lines),
        DESK(config_get__patterns__as_redis),
        DESK(info__sections__those_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
