/* SPDX-License-Identifier: Apache-2.0
 *
 * The command table, and what is the same for every command.
 */
#include "command_help.h"

#include "server/resp_commands.h"

#include <ctype.h>

static const char *find(const char *first, const char *second, const char **ret_what)
{
    struct once_bytes words[2] = {once_bytes_of(first), once_bytes_of(second)};
    const struct once__command *command = once__command_find(words, second ? 2 : 1, ret_what);

    return command ? once__command_full_name(command) : NULL;
}

static void table__every_command__is_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < once__command_count; i++) {
        const struct once__command *command = &once__commands[i];
        bool parent = i + 1 < once__command_count && once__commands[i + 1].parent &&
                      !command->parent;

        assert_true(command->name && command->usage && command->group);
        assert_true(command->summary && command->summary[0]);
        assert_true(command->answers && command->answers[0]);
        assert_true(command->arity != 0);
        assert_true(command->start || parent);
        assert_true(command->arity > 0 || -command->arity >= (command->parent ? 2 : 1));
        assert_false((command->flags & ONCE__COMMAND_READ) &&
                     (command->flags & ONCE__COMMAND_WRITE));
        if (command->key_first != 0)
            assert_true(command->key_step > 0 && abs(command->arity) > command->key_first);
        for (const char *c = command->name; *c; c++)
            assert_true((*c >= 'A' && *c <= 'Z') || *c == '.' || *c == '-');
        for (const char *c = command->summary; *c; c++)
            assert_true(*c >= ' ' && *c <= '~');
    }
}

static void table__names__are_sorted_and_unique(void **state)
{
    (void)state;
    for (size_t i = 1; i < once__command_count; i++) {
        const struct once__command *a = &once__commands[i - 1], *b = &once__commands[i];
        const char *a_first = a->parent ? a->parent : a->name;
        const char *b_first = b->parent ? b->parent : b->name;
        int order = strcmp(a_first, b_first);

        assert_true(order <= 0);
        if (order == 0) {
            assert_non_null(b->parent);
            if (a->parent)
                assert_true(strcmp(a->name, b->name) < 0);
        }
    }
}

static void find__every_name_in_any_case__is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < once__command_count; i++) {
        const struct once__command *command = &once__commands[i];
        struct once_bytes words[2];
        const char *what = NULL;
        char lower[64];
        size_t size = strlen(command->name);

        for (size_t j = 0; j <= size; j++)
            lower[j] = (char)(j % 2 ? command->name[j] : tolower(command->name[j]));
        words[0] = once_bytes_of(command->parent ? command->parent : lower);
        words[1] = once_bytes_of(lower);
        assert_ptr_equal(once__command_find(words, command->parent ? 2 : 1, &what), command);
    }
}

static void find__unknown__says_what(void **state)
{
    const char *what = NULL;
    struct once_bytes huge = {(const uint8_t *)"ONCE.BEGIN", 10};

    (void)state;
    assert_null(find("NOPE", NULL, &what));
    assert_string_equal(what, "command");
    assert_null(find("CLIENT", "NOPE", &what));
    assert_string_equal(what, "subcommand");
    assert_null(find("SETNAME", NULL, &what)); /* a subcommand is no command */
    assert_string_equal(what, "command");
    assert_null(find("", NULL, &what));
    assert_null(find("ONCE.BEGINONCE.BEGINONCE.BEGIN", NULL, &what));
    for (huge.size = 1; huge.size < 10; huge.size++) /* no beginning of a name is a name */
        assert_null(once__command_find(&huge, 1, &what));
    assert_null(once__command_find(NULL, 0, &what));
    assert_string_equal(find("client", "SetName", &what), "client|setname");
    assert_string_equal(find("GET", "client", &what), "get"); /* GET has no subcommands */
}

static void find__a_million_times__takes_less_than_a_microsecond_each(void **state)
{
    struct once_bytes word = once_bytes_of("once.begin");
    struct timespec began, ended;
    const char *what;
    enum { TIMES = 1000000 };
    double ns;

    (void)state;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
    for (int i = 0; i < TIMES; i++)
        assert_non_null(once__command_find(&word, 1, &what));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
    ns = ((double)(ended.tv_sec - began.tv_sec) * 1e9 + (double)(ended.tv_nsec - began.tv_nsec)) /
         TIMES;
    print_message("# find: %.1f ns\n", ns);
    assert_true(ns < 1000); /* with sanitizers; 15 ns without */
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void start__unknown_or_wrong_count__redis_texts(void **state)
{
    struct desk desk;

    (void)state;
    desk_open(&desk, 2);
    EXPECT(&desk, "nope a b", "-ERR unknown command 'nope', with args beginning with: 'a' 'b' |");
    EXPECT(&desk, "no'pe", "-ERR unknown command 'no\\'pe', with args beginning with: |");
    EXPECT(&desk, "client nope", "-ERR unknown subcommand 'nope'. Try CLIENT HELP.|");
    EXPECT(&desk, "client", "-ERR wrong number of arguments for 'client' command|");
    EXPECT(&desk, "CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command|");
    EXPECT(&desk, "GET", "-ERR wrong number of arguments for 'get' command|");
    EXPECT(&desk, "GET a b", "-ERR wrong number of arguments for 'get' command|");
    EXPECT(&desk, "once.begin a", "-ERR wrong number of arguments for 'once.begin' command|");
    EXPECT(&desk, "PING", "+PONG|");
    assert_string_equal(desk.session.last_command, "ping");
    desk_close(&desk);
}

static void start__a_long_unknown_command__is_cut(void **state)
{
    struct desk desk;
    char line[4000];

    (void)state;
    desk_open(&desk, 2);
    memset(line, 'x', sizeof(line));
    for (size_t i = 600; i < sizeof(line); i += 700)
        line[i] = ' ';
    line[sizeof(line) - 1] = '\0';
    assert_true(ask(&desk, line).size < 600);
    desk_close(&desk);
}

static void start__nobody_known__only_what_needs_no_one(void **state)
{
    struct desk desk;

    (void)state;
    desk_open(&desk, 2);
    desk.session.identity.known = false;
    EXPECT(&desk, "GET a", "-NOAUTH Authentication required.|");
    EXPECT(&desk, "ONCE.BEGIN a b", "-NOAUTH Authentication required.|");
    EXPECT(&desk, "CONFIG GET *", "-NOAUTH Authentication required.|");
    EXPECT(&desk, "COMMAND", "-NOAUTH Authentication required.|");
    EXPECT(&desk, "CLIENT LIST", "-NOAUTH Authentication required.|");
    EXPECT(&desk, "PING", "+PONG|");
    EXPECT_START(&desk, "HELLO 3", "-NOAUTH HELLO must be called");
    EXPECT(&desk, "QUIT", "+OK|");
    assert_true(desk.session.closing);
    desk_close(&desk);
}

static void start__roles__are_held_against_flags(void **state)
{
    struct desk desk;

    (void)state;
    desk_open(&desk, 2);
    desk.session.identity.role = ONCE__ROLE_READ;
    EXPECT(&desk, "SET a b",
           "-NOPERM this user has no permissions to run the 'set' command (ERR_DENIED)|");
    EXPECT(&desk, "ONCE.BEGIN n k",
           "-NOPERM this user has no permissions to run the 'once.begin' command (ERR_DENIED)|");
    EXPECT(&desk, "CLIENT LIST",
           "-NOPERM this user has no permissions to run the 'client|list' command (ERR_DENIED)|");
    EXPECT(&desk, "PING", "+PONG|");
    desk.session.identity.role = ONCE__ROLE_WRITE;
    EXPECT(&desk, "ONCE.RESOLVE n k NOTDONE",
           "-NOPERM this user has no permissions to run the 'once.resolve' command (ERR_DENIED)|");
    desk_close(&desk);
}

static void start__store_not_open__loading(void **state)
{
    struct desk desk;
    struct once__service *service, *empty;
    struct once__service_setup setup = {.metrics = NULL};

    (void)state;
    desk_open(&desk, 2);
    service = desk.server.service;
    setup.metrics = desk.house.metrics;
    assert_int_equal(once__service_new(&setup, &empty), ONCE_OK);
    desk.server.service = empty;
    desk.server.status.phase = ONCE__LOADING;
    EXPECT(&desk, "GET a", "-LOADING the store is still being opened (ERR_LOADING)|");
    desk.server.status.loaded = 5;
    desk.server.status.to_load = 20;
    EXPECT(&desk, "ONCE.BEGIN n k",
           "-LOADING the store is being opened: 25 % of it is read (ERR_LOADING)|");
    EXPECT(&desk, "PING", "+PONG|");
    assert_non_null(strstr(shown(ask(&desk, "INFO")), "loading:1|loading_total_bytes:20|"));
    EXPECT(&desk, "DBSIZE",
           "-LOADING the store is being opened: 25 % of it is read (ERR_LOADING)|");
    desk.server.status.phase = ONCE__FAILED;
    EXPECT_START(&desk, "GET a", "-STOPPED the store has stopped: a write failed");
    desk.server.service = service;
    once__service_free(empty);
    desk_close(&desk);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static void decimal__only_one_way_to_write_a_number(void **state)
{
    static const struct {
        const char *text;
        bool good;
        int64_t number;
    } cases[] = {
        {"0", true, 0},
        {"1", true, 1},
        {"-1", true, -1},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"-0", false, 0},
        {"01", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1a", false, 0},
        {"0x1", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t number = 42;

        assert_int_equal(once__arg_decimal(once_bytes_of(cases[i].text), &number), cases[i].good);
        assert_true(number == (cases[i].good ? cases[i].number : 42));
    }
}

static void echo__anything__is_printable_and_bounded(void **state)
{
    uint8_t bytes[256];
    struct once__echo echo;

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    for (size_t size = 0; size <= sizeof(bytes); size++) {
        echo = once__arg_echo((struct once_bytes){bytes, size});
        assert_true(strlen(echo.text) < sizeof(echo.text));
        for (const char *c = echo.text; *c; c++)
            assert_true(*c >= ' ' && *c <= '~');
    }
    assert_non_null(strstr(echo.text, "..."));
    assert_string_equal(once__arg_echo(once_bytes_of("a'b\\c\n")).text, "a\\'b\\\\c\\x0a");
    memset(bytes, 'a', sizeof(bytes));
    echo = once__arg_echo((struct once_bytes){bytes, sizeof(bytes)});
    assert_true(strlen(echo.text) > 100);
}

static void glob__patterns__as_redis(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool match;
    } cases[] = {
        {"*", "", true},        {"*", "abc", true},
        {"a*", "abc", true},    {"*c", "abc", true},
        {"a*c", "abbbc", true}, {"a*c", "abbb", false},
        {"a?c", "abc", true},   {"a?c", "ac", false},
        {"[ab]c", "bc", true},  {"[^ab]c", "bc", false},
        {"[^ab]c", "cc", true}, {"[a-c]x", "bx", true},
        {"[c-a]x", "bx", true}, {"[a-c]x", "dx", false},
        {"SAVE", "save", true}, {"\\*", "*", true},
        {"\\*", "a", false},    {"[\\]]", "]", true},
        {"[", "a", false},      {"[a", "a", true},
        {"", "", true},         {"", "a", false},
        {"a", "", false},       {"**a**b*", "xaxbx", true},
        {"a\\", "a\\", true},   {"*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool match = once__glob(once_bytes_of(cases[i].pattern), once_bytes_of(cases[i].text));

        if (match != cases[i].match)
            fail_msg("%s %s", cases[i].pattern, cases[i].text);
    }
}

static void call_error__every_error__has_its_word_and_name(void **state)
{
    static const struct {
        struct once_reply reply;
        const char *text;
    } cases[] = {
        {{.err = ONCE_ERR_DENIED, .what = "no"}, "-NOPERM no (ERR_DENIED)|"},
        {{.err = ONCE_ERR_RATE, .retry_ms = 5, .what = "slow"}, "-RATE 5 slow (ERR_RATE)|"},
        {{.err = ONCE_ERR_KEYS},
         "-FULL the store holds as many keys as its bound allows (ERR_KEYS)|"},
        {{.err = ONCE_ERR_SPACE},
         "-FULL the disk, or the store's bound on it, is full (ERR_SPACE)|"},
        {{.err = ONCE_ERR_TOO_LARGE, .what = "big"}, "-TOOBIG big (ERR_TOO_LARGE)|"},
        {{.err = ONCE_ERR_STOPPED, .what = "x"}, "-STOPPED x (ERR_STOPPED)|"},
        {{.err = ONCE_ERR_IO, .what = "x"}, "-STOPPED x (ERR_IO)|"},
        {{.err = ONCE_ERR_KEY_EMPTY}, "-ERR the key is empty (ERR_KEY_EMPTY)|"},
        {{.err = ONCE_ERR_OBJECT_TYPE, .effect = 3, .what = "x"},
         "-ERR effect 3: x (ERR_OBJECT_TYPE)|"},
    };
    struct once__out out;

    (void)state;
    once__out_init(&out, 1 << 20);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        once_buf_clear(&out.buf);
        once__out_call_error(&out, &cases[i].reply);
        assert_string_equal(shown(once_buf_bytes(&out.buf)), cases[i].text);
    }
    once__out_release(&out);
}

static void request__memory__is_zeroed_and_freed(void **state)
{
    struct once__request request = {.session = NULL};

    (void)state;
    for (size_t size = 0; size < 5000; size += 77) {
        uint8_t *bytes = once__request_alloc(&request, size);

        assert_non_null(bytes);
        assert_int_equal((uintptr_t)bytes % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(bytes[i], 0);
        memset(bytes, 0xff, size);
    }
    assert_null(once__request_alloc(&request, SIZE_MAX));
    once__request_release(&request);
    assert_null(request.memory);
    once__request_release(&request);
}

/* ---- The reference page ---------------------------------------------------------------------- */

static void reference__the_page_in_docs__is_this(void **state)
{
    const char *slash = strrchr(__FILE__, '/');
    char path[4096], *text;
    struct once_buf out;
    FILE *file;
    size_t size;

    (void)state;
    assert_non_null(slash);
    once_buf_init(&out, 1 << 20);
    assert_int_equal(once__command_reference(&out), ONCE_OK);
    snprintf(path, sizeof(path), "%.*s/../../docs/reference/commands.md", (int)(slash - __FILE__),
             __FILE__);
    file = fopen(path, "rb");
    if (!file)
        fail_msg("%s is missing", path);
    text = malloc(1 << 20);
    size = fread(text, 1, 1 << 20, file);
    fclose(file);
    if (size != out.size || memcmp(text, out.data, size) != 0)
        fail_msg("%s is old: run `once serve --help-commands > docs/reference/commands.md`", path);
    free(text);
    once_buf_release(&out);
}

static void reference__small_buffer__is_full(void **state)
{
    struct once_buf out;

    (void)state;
    once_buf_init(&out, 3000);
    assert_int_equal(once__command_reference(&out), ONCE_ERR_FULL);
    once_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table__every_command__is_complete),
        cmocka_unit_test(table__names__are_sorted_and_unique),
        cmocka_unit_test(find__every_name_in_any_case__is_found),
        cmocka_unit_test(find__unknown__says_what),
        cmocka_unit_test(find__a_million_times__takes_less_than_a_microsecond_each),
        cmocka_unit_test(start__unknown_or_wrong_count__redis_texts),
        cmocka_unit_test(start__a_long_unknown_command__is_cut),
        cmocka_unit_test(start__nobody_known__only_what_needs_no_one),
        cmocka_unit_test(start__roles__are_held_against_flags),
        cmocka_unit_test(start__store_not_open__loading),
        cmocka_unit_test(decimal__only_one_way_to_write_a_number),
        cmocka_unit_test(echo__anything__is_printable_and_bounded),
        cmocka_unit_test(glob__patterns__as_redis),
        cmocka_unit_test(call_error__every_error__has_its_word_and_name),
        cmocka_unit_test(request__memory__is_zeroed_and_freed),
        cmocka_unit_test(reference__the_page_in_docs__is_this),
        cmocka_unit_test(reference__small_buffer__is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
