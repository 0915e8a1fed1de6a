/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of the dashboard as they are in the binary: found by name, whole, told apart by their
 * ETag, and without anything that would fetch from elsewhere or make markup of data.
 */
#include "seeded.h"

#include <stdlib.h>
#include <string.h>

#include "server/web.h"

static const struct once__web_file *find(const char *name)
{
    return once__web_find(once_bytes_of(name));
}

/* The file's text, with an end. */
static char *text_of(const struct once__web_file *file)
{
    char *text = malloc(file->bytes.size + 1);

    assert_non_null(text);
    memcpy(text, file->bytes.data, file->bytes.size);
    text[file->bytes.size] = '\0';
    return text;
}

static void find__a_name__is_that_file_only(void **state)
{
    const struct once__web_file *page = find("index.html");

    (void)state;
    assert_non_null(page);
    assert_string_equal(page->type, "text/html; charset=utf-8");
    assert_memory_equal(page->bytes.data, "<!doctype html>", 15);
    assert_string_equal(find("app.js")->type, "text/javascript; charset=utf-8");
    assert_string_equal(find("style.css")->type, "text/css; charset=utf-8");
    assert_string_equal(find("icon.svg")->type, "image/svg+xml");
    assert_null(find(""));
    assert_null(find("app.j"));
    assert_null(find("app.jsx"));
    assert_null(find("../web.h"));
    assert_null(once__web_find((struct once_bytes){(const uint8_t *)"app.js\0", 7}));
}

static void etag__of_each_file__is_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < once__web_file_count; i++) {
        const char *etag = once__web_files[i].etag;

        assert_int_equal(strlen(etag), 26);
        assert_int_equal(etag[0], '"');
        assert_int_equal(etag[25], '"');
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(etag, once__web_files[j].etag);
    }
}

static void matches__if_none_match__as_the_rfc_says(void **state)
{
    static const char etag[] = "\"abc\"";
    static const struct {
        const char *header;
        bool matches;
    } cases[] = {
        {NULL, false},
        {"", false},
        {"*", true},
        {"\"abc\"", true},
        {"W/\"abc\"", true},
        {"\"x\", \"abc\"", true},
        {"\"x\",W/\"abc\" ,\"y\"", true},
        {"\"abcd\"", false},
        {"\"ab\"", false},
        {"abc", false},
        {"\"abc\"x", false},
        {" , ,", false},
        {"\"x\", \"y\"", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (once__web_matches(cases[i].header, etag) != cases[i].matches)
            fail_msg("%s", cases[i].header ? cases[i].header : "no header");
    }
}

/* Keys and results are data: nothing in the page turns a string into markup or code, nothing keeps
 * a password, and nothing comes from another host. */
static void files__what_they_use__is_safe_and_ours(void **state)
{
    static const char *const never[] = {
        "innerHTML",    "outerHTML",    "insertAdjacentHTML", "document.write",  "eval(",
        "new Function", "localStorage", "sessionStorage",     "document.cookie", "style=\"",
        " onclick=",    "javascript:",  "https://",           "setHTML",
    };

    (void)state;
    for (size_t i = 0; i < once__web_file_count; i++) {
        char *text = text_of(&once__web_files[i]);

        for (size_t j = 0; j < sizeof never / sizeof never[0]; j++) {
            if (strstr(text, never[j]))
                fail_msg("%s has %s", once__web_files[i].name, never[j]);
        }
        for (char *at = text; (at = strstr(at, "http://")); at++) {
            if (strncmp(at, "http://www.w3.org/2000/svg", 26) != 0) /* a name, nothing is fetched */
                fail_msg("%s names another host", once__web_files[i].name);
        }
        free(text);
    }
}

/* Every file that another one names is there: "./dom.js" of an import, "web/app.js" of the page. */
static void files__named_by_others__are_there(void **state)
{
    static const char *const before[] = {"'./", "\"web/"};
    size_t seen = 0;

    (void)state;
    for (size_t i = 0; i < once__web_file_count; i++) {
        char *text = text_of(&once__web_files[i]);

        for (size_t j = 0; j < 2; j++) {
            for (char *at = text; (at = strstr(at, before[j])); seen++) {
                const char *name = at + strlen(before[j]);
                size_t size = strcspn(name, "'\"");

                if (!once__web_find((struct once_bytes){(const uint8_t *)name, size}))
                    fail_msg("%s names %.*s", once__web_files[i].name, (int)size, name);
                at += size;
            }
        }
        free(text);
    }
    assert_true(seen >= once__web_file_count - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find__a_name__is_that_file_only),
        cmocka_unit_test(etag__of_each_file__is_its_own),
        cmocka_unit_test(matches__if_none_match__as_the_rfc_says),
        cmocka_unit_test(files__what_they_use__is_safe_and_ours),
        cmocka_unit_test(files__named_by_others__are_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
