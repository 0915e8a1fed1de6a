/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's log: what a line looks like, and that nothing in a field can forge one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/log.h"

struct fixture {
    char folder[64];
    char file[96];
    char moved[96];
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/once-log-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    snprintf(fixture->file, sizeof(fixture->file), "%s/log", fixture->folder);
    snprintf(fixture->moved, sizeof(fixture->moved), "%s/moved", fixture->folder);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    (void)unlink(fixture->file);
    (void)unlink(fixture->moved);
    (void)rmdir(fixture->folder);
    free(fixture);
    return 0;
}

static struct once__log *open_log(struct fixture *fixture, bool json, enum once__log_level level)
{
    struct once__config config = {.log_json = json, .log_level = level, .log_file = fixture->file};
    struct once__log *log = NULL;
    int error;

    assert_int_equal(once__log_new(&config, &log, &error), ONCE_OK);
    return log;
}

static char *content(const char *file)
{
    FILE *in = fopen(file, "r");
    char *text = calloc(1, 1U << 20);

    assert_non_null(in);
    assert_non_null(text);
    (void)!fread(text, 1, (1U << 20) - 1, in);
    fclose(in);
    return text;
}

static size_t lines_of(const char *text)
{
    size_t lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static const struct once__field nasty[] = {
    {"text", .text = "a \"quote\" \\ and\nanother line \x1b[31m"},
    {"bytes", .bytes = {(const uint8_t *)"\0\xff", 2}},
    {"nothing", .bytes = {(const uint8_t *)"", 0}},
    {"number", .number = -5},
    {.name = NULL}};

static void text__any_bytes__stay_on_one_line(void **state)
{
    struct fixture *fixture = *state;
    struct once__log *log = open_log(fixture, false, ONCE__LOG_INFO);
    struct stat about;
    char *text;

    once__log_event(log, ONCE__LOG_WARN, "thing", nasty);
    text = content(fixture->file);
    assert_int_equal(lines_of(text), 1);
    assert_int_equal(text[4], '-'); /* 2026-11-15T17:00:00.123Z */
    assert_int_equal(text[10], 'T');
    assert_int_equal(text[19], '.');
    assert_int_equal(text[23], 'Z');
    assert_string_equal(text + 24, " warn thing text=\"a \\\"quote\\\" \\\\ and\\x0aanother line "
                                   "\\x1b[31m\" bytes=\"\\x00\\xff\" nothing=\"\" number=-5\n");
    assert_int_equal(stat(fixture->file, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    free(text);
    once__log_free(log);
}

static void json__any_bytes__are_json(void **state)
{
    struct fixture *fixture = *state;
    struct once__log *log = open_log(fixture, true, ONCE__LOG_INFO);
    json_t *line;
    char *text;

    once__log_event(log, ONCE__LOG_ERROR, "thing", nasty);
    once__log_event(log, ONCE__LOG_INFO, "bare", NULL);
    text = content(fixture->file);
    assert_int_equal(lines_of(text), 2);
    *strchr(text, '\n') = '\0';
    line = json_loads(text, 0, NULL);
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, "level")), "error");
    assert_string_equal(json_string_value(json_object_get(line, "event")), "thing");
    assert_string_equal(json_string_value(json_object_get(line, "text")),
                        "a \"quote\" \\ and\\x0aanother line \\x1b[31m");
    assert_string_equal(json_string_value(json_object_get(line, "bytes")), "\\x00\\xff");
    assert_int_equal(json_integer_value(json_object_get(line, "number")), -5);
    json_decref(line);
    line = json_loads(text + strlen(text) + 1, 0, NULL);
    assert_non_null(line);
    json_decref(line);
    free(text);
    once__log_free(log);
}

static void field__too_long__is_cut(void **state)
{
    struct fixture *fixture = *state;
    struct once__log *log = open_log(fixture, false, ONCE__LOG_INFO);
    char value[ONCE_LOG_FIELD_SIZE_MAX + 2], *text;

    memset(value, 'x', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    once__log_event(log, ONCE__LOG_INFO, "long",
                    (struct once__field[]){{"value", .text = value}, {.name = NULL}});
    text = content(fixture->file);
    assert_non_null(strstr(text, "xxx...\"\n"));
    assert_int_equal(strspn(strchr(text, '"') + 1, "x"), ONCE_LOG_FIELD_SIZE_MAX);
    free(text);
    once__log_free(log);
}

static void level__less_important__is_not_written_but_audit_is(void **state)
{
    struct fixture *fixture = *state;
    struct once__log *log = open_log(fixture, false, ONCE__LOG_ERROR);
    char *text;

    once__log_event(log, ONCE__LOG_WARN, "quiet", NULL);
    once__log_event(log, ONCE__LOG_ERROR, "loud", NULL);
    once__log_audit(log, "alice", "10.0.0.1:5", "resolve",
                    (struct once__field[]){{"key", .text = "k"}, {.name = NULL}});
    once__log_event(NULL, ONCE__LOG_ERROR, "nowhere", NULL);
    once__log_audit(NULL, "a", "b", "c", NULL);
    text = content(fixture->file);
    assert_int_equal(lines_of(text), 2);
    assert_null(strstr(text, "quiet"));
    assert_non_null(strstr(text, " error loud\n"));
    assert_non_null(strstr(text, " info audit who=\"alice\" from=\"10.0.0.1:5\" what=\"resolve\" "
                                 "key=\"k\"\n"));
    free(text);
    once__log_free(log);
}

static void event__too_often__is_left_out_and_counted(void **state)
{
    struct fixture *fixture = *state;
    struct once__log *log = open_log(fixture, false, ONCE__LOG_INFO);
    size_t many = 0, audits = 0, left_out = 0;
    char *text, *line, *rest = NULL;

    for (int i = 0; i < 500; i++) {
        once__log_event(log, ONCE__LOG_INFO, "many", NULL);
        once__log_audit(log, "", "", "audited", NULL);
    }
    once__log_event(log, ONCE__LOG_INFO, "other", NULL);
    once__log_free(log);
    text = content(fixture->file);
    assert_non_null(strstr(text, " info other\n"));
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *lines = strstr(line, "left_out of=\"many\" lines=");

        many += strstr(line, " info many") != NULL;
        audits += strstr(line, "audited") != NULL;
        if (lines)
            left_out += strtoul(lines + strlen("left_out of=\"many\" lines="), NULL, 10);
    }
    assert_int_equal(audits, 500);
    assert_true(many < 500);
    assert_int_equal(many + left_out, 500); /* none is lost without a word */
    free(text);
}

static void reopen__after_the_file_was_moved__goes_on_in_a_new_one(void **state)
{
    struct fixture *fixture = *state;
    struct once__log *log = open_log(fixture, false, ONCE__LOG_INFO);
    struct once__config config = {
        .log_json = true, .log_level = ONCE__LOG_DEBUG, .log_file = fixture->file};
    char *text;

    once__log_event(log, ONCE__LOG_INFO, "first", NULL);
    assert_int_equal(rename(fixture->file, fixture->moved), 0);
    assert_int_equal(once__log_reopen(log, &config), ONCE_OK);
    once__log_event(log, ONCE__LOG_DEBUG, "second", NULL);
    text = content(fixture->moved);
    assert_non_null(strstr(text, "first"));
    assert_null(strstr(text, "second"));
    free(text);
    text = content(fixture->file);
    assert_non_null(strstr(text, "\"event\":\"second\""));
    free(text);
    config.log_file = fixture->folder; /* cannot be opened: the old one stays */
    assert_int_equal(once__log_reopen(log, &config), ONCE_ERR_IO);
    once__log_event(log, ONCE__LOG_INFO, "third", NULL);
    text = content(fixture->file);
    assert_non_null(strstr(text, "third"));
    free(text);
    once__log_free(log);
}

static void *write_lines(void *user)
{
    for (int i = 0; i < 500; i++)
        once__log_audit(user, "who", "from", "what", nasty);
    return NULL;
}

static void threads__many__never_mix_lines(void **state)
{
    struct fixture *fixture = *state;
    struct once__log *log = open_log(fixture, true, ONCE__LOG_INFO);
    pthread_t threads[4];
    char *text, *line, *rest = NULL;
    size_t lines = 0;

    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, log), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    text = content(fixture->file);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *parsed = json_loads(line, 0, NULL);

        assert_non_null(parsed);
        json_decref(parsed);
        lines++;
    }
    assert_int_equal(lines, 2000);
    free(text);
    once__log_free(log);
}

static void new__file_that_cannot_be__says_why(void **state)
{
    struct once__config config = {.log_file = (char[]){"/nowhere/log"}};
    struct once__log *log = NULL;
    int error = 0;

    (void)state;
    assert_int_equal(once__log_new(&config, &log, &error), ONCE_ERR_IO);
    assert_string_equal(strerror(error), "No such file or directory");
}

/* Everything that the pipe holds, as text. */
static char *drained(int reader)
{
    char *text = calloc(1, 1U << 20);
    size_t size = 0;
    ssize_t got;

    assert_non_null(text);
    while ((got = read(reader, text + size, (1U << 20) - 1 - size)) > 0)
        size += (size_t)got;
    return text;
}

static void audit__nobody_reads_the_pipe__is_counted_and_holds_nobody_up(void **state)
{
    struct fixture *fixture = *state;
    struct once__log *log;
    char *text, *end;
    size_t lines, lost;
    int reader;

    assert_int_equal(mkfifo(fixture->file, 0600), 0);
    reader = open(fixture->file, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    log = open_log(fixture, false, ONCE__LOG_INFO);
    (void)fcntl(reader, F_SETPIPE_SZ, 1 << 14);
    for (int i = 0; i < 1000; i++)
        once__log_audit(log, "root", "here", "forget", nasty);
    text = drained(reader);
    lines = lines_of(text);
    assert_in_range(lines, 1, 999);
    free(text);

    once__log_audit(log, "root", "here", "seen", NULL);
    text = drained(reader);
    assert_int_equal(lines_of(text), 2);
    assert_non_null(strstr(text, " warn left_out of=\"log\" lines="));
    lost = strtoul(strstr(text, "lines=") + 6, &end, 10);
    assert_int_equal(lines + lost, 1000);
    assert_non_null(strstr(end, " what=\"seen\""));
    free(text);
    once__log_free(log);
    (void)close(reader);
}

/* Standard error cannot be told not to block: others write to it too. */
static void event__standard_error_is_full__holds_nobody_up(void **state)
{
    struct once__config config = {.log_level = ONCE__LOG_INFO};
    struct once__log *log = NULL;
    int ends[2], error, saved = dup(STDERR_FILENO);

    (void)state;
    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    (void)fcntl(ends[1], F_SETPIPE_SZ, 4096);
    assert_int_equal(once__log_new(&config, &log, &error), ONCE_OK);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    (void)alarm(60); /* instead of waiting for ever */
    for (int i = 0; i < 200; i++)
        once__log_audit(log, "root", "here", "forget", nasty);
    (void)alarm(0);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)close(saved);
    once__log_free(log);
}

int main(void)
{
#define FIXED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        FIXED(text__any_bytes__stay_on_one_line),
        FIXED(json__any_bytes__are_json),
        FIXED(field__too_long__is_cut),
        FIXED(level__less_important__is_not_written_but_audit_is),
        FIXED(event__too_often__is_left_out_and_counted),
        FIXED(reopen__after_the_file_was_moved__goes_on_in_a_new_one),
        FIXED(threads__many__never_mix_lines),
        FIXED(audit__nobody_reads_the_pipe__is_counted_and_holds_nobody_up),
        cmocka_unit_test(event__standard_error_is_full__holds_nobody_up),
        cmocka_unit_test(new__file_that_cannot_be__says_why),
    };

    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
