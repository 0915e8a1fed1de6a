/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of stores on PostgreSQL: which they are, and how they are shown without their secrets. What
 * a URL means is libpq's business. Owns no state.
 */
#include "store/postgres/pg.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const schemes[] = {"postgres://", "postgresql://"};

/* The size of the scheme; 0: it is none of ours. */
static size_t scheme_size(const char *url)
{
    for (size_t i = 0; url && i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t size = strlen(schemes[i]);

        if (strncmp(url, schemes[i], size) == 0)
            return size;
    }
    return 0;
}

bool once__pg_url(const char *url)
{
    return scheme_size(url) > 0;
}

/* Would libpq, when it fails to connect, repeat a part of a password that was not encoded? One with
 * a slash in it becomes the port, or the database. */
static bool is_torn(const PQconninfoOption *option)
{
    const char *value = option->val ? option->val : "";

    if (strcmp(option->keyword, "port") == 0)
        return strspn(value, "0123456789,") != strlen(value);
    return (strcmp(option->keyword, "dbname") == 0 || strcmp(option->keyword, "host") == 0) &&
           strchr(value, '@') != NULL;
}

/* What libpq says of a URL that it cannot read repeats parts of it too, so it is not told. */
bool once__pg_url_readable(const char *url)
{
    PQconninfoOption *options;
    bool bad;

    if (!once__pg_url(url) || strlen(url) > ONCE_STORE_URL_SIZE_MAX)
        return false;
    options = PQconninfoParse(url, NULL);
    bad = !options;
    for (const PQconninfoOption *option = options; option && option->keyword; option++)
        bad = bad || is_torn(option);
    PQconninfoFree(options);
    return !bad;
}

/* Text that is cut where it does not fit. */
struct shown {
    char *text;
    size_t size; /* room, with the NUL */
    size_t used;
};

static void show(struct shown *shown, const char *text, size_t size)
{
    if (size > shown->size - 1 - shown->used)
        size = shown->size - 1 - shown->used;
    memcpy(shown->text + shown->used, text, size);
    shown->used += size;
    shown->text[shown->used] = '\0';
}

/* Options whose values are secrets. libpq decodes %xx in names too, so a name with a % is not shown
 * with its value either. */
static bool is_secret(const char *name, size_t size)
{
    static const char *const secrets[] = {"password", "sslpassword"};

    if (memchr(name, '%', size))
        return true;
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        if (size == strlen(secrets[i]) && strncasecmp(name, secrets[i], size) == 0)
            return true;
    }
    return false;
}

static void show_options(struct shown *shown, const char *at)
{
    while (*at != '\0') {
        size_t size = strcspn(at + 1, "&") + 1; /* with the ? or & before it */
        const char *equals = memchr(at, '=', size);

        if (equals && is_secret(at + 1, (size_t)(equals - at) - 1)) {
            show(shown, at, (size_t)(equals - at) + 1);
            show(shown, "***", 3);
        } else {
            show(shown, at, size);
        }
        at += size;
    }
}

void once__pg_url_shown(const char *url, char *ret_text, size_t size)
{
    struct shown shown = {.text = ret_text, .size = size};
    size_t scheme = scheme_size(url);
    size_t end, user;
    const char *at;

    if (size == 0)
        return;
    ret_text[0] = '\0';
    if (scheme == 0) { /* it may be anything: nothing of it is shown */
        show(&shown, "(not a URL)", 11);
        return;
    }
    show(&shown, url, scheme);
    at = url + scheme;
    /* Whoever forgot to encode a / or a ? in a password still has an @ behind it. */
    end = strcspn(at, "/?");
    for (user = strlen(at); user > 0 && at[user - 1] != '@'; user--)
        ;
    if (user > 0 && (user <= end || memchr(at, ':', end))) {
        size_t name = strcspn(at, ":@");

        show(&shown, at, name);
        if (at[name] == ':')
            show(&shown, ":***", 4);
        show(&shown, "@", 1);
        at += user;
    }
    end = strcspn(at, "?");
    show(&shown, at, end);
    show_options(&shown, at + end);
}
