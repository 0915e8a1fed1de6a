/* SPDX-License-Identifier: Apache-2.0
 *
 * What may stand in the configuration that we write for nginx. Each value has a list of bytes that
 * it may hold; none of these lists has a quote, a backslash, a semicolon or a brace, and $ only
 * where nginx shall look for a variable. So a value ends where we end it.
 */
#include <stdlib.h>
#include <string.h>

#include <once/key.h>

#include "cli/gateway.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define HEX DIGITS "abcdefABCDEF"

static const char HOST_BYTES[] = LETTERS DIGITS ".-_";
static const char URL_BYTES[] = LETTERS DIGITS "/._~%+,=:@&!()*-";
static const char SCOPE_BYTES[] = LETTERS DIGITS " _.:/@=,+-$";
static const char NAME_BYTES[] = LETTERS DIGITS "_";
static const char TOKEN_BYTES[] = LETTERS DIGITS "!#%&*+-.^_~";

bool gateway_is_one_of(const char *words, const char *text)
{
    size_t size = strlen(text);

    while (size > 0 && words) {
        size_t word = strcspn(words, "|");

        if (word == size && memcmp(words, text, size) == 0)
            return true;
        words = words[word] == '|' ? words + word + 1 : NULL;
    }
    return false;
}

bool gateway_size(const char *text, uint64_t max, uint64_t *ret_size)
{
    static const char units[] = "kmg";
    size_t size = strspn(text, DIGITS);
    char digits[24];
    uint64_t number, unit = 1;

    if (size == 0 || size >= sizeof(digits))
        return false;
    memcpy(digits, text, size);
    digits[size] = '\0';
    if (text[size] != '\0') {
        const char *found = strchr(units, text[size]);

        if (!found || text[size + 1] != '\0')
            return false;
        unit = UINT64_C(1) << (10 * (found - units + 1));
    }
    if (!cli_number(digits, 1, max / unit, &number))
        return false;
    *ret_size = number * unit;
    return true;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

/* The size of the host at the beginning, with its brackets; 0: there is none. */
static size_t host_size(const char *text)
{
    size_t size;

    if (text[0] != '[')
        return strspn(text, HOST_BYTES);
    size = strspn(text + 1, HEX ":.");
    return size >= 2 && text[size + 1] == ']' ? size + 2 : 0;
}

const char *gateway_address_check(const char *text)
{
    size_t size = host_size(text);
    uint64_t port;

    if (size == 0 || size > 255)
        return "it begins with a name or an address, such as 127.0.0.1 or [::1]";
    if (text[size] != ':' || !cli_number(text + size + 1, 1, 65535, &port))
        return "it ends with a port from 1 to 65535, such as 127.0.0.1:8080";
    return NULL;
}

bool gateway_is_loopback(const char *address)
{
    size_t size = host_size(address);

    /* 127.example.org is a name. */
    return (strncmp(address, "127.", 4) == 0 && strspn(address, DIGITS ".") == size) ||
           (size == 5 && memcmp(address, "[::1]", size) == 0) ||
           (size == 9 && memcmp(address, "localhost", size) == 0);
}

/* ---- The service ----------------------------------------------------------------------------- */

static void copy(char *to, size_t room, const char *text, size_t size)
{
    snprintf(to, room, "%.*s", (int)size, text);
}

/* Behind the host: its port if it has one, and the path. */
static const char *read_rest(const char *text, size_t host, struct gateway_url *url)
{
    const char *rest = text + host;
    uint64_t port = url->tls ? 443 : 80;
    char digits[8];

    if (rest[0] == ':') {
        size_t size = strspn(rest + 1, DIGITS);

        copy(digits, sizeof(digits), rest + 1, size);
        if (size > 5 || !cli_number(digits, 1, 65535, &port))
            return "its port is a number from 1 to 65535";
        rest += size + 1;
    }
    if (rest[0] != '\0' && rest[0] != '/')
        return "behind the host comes a port, or a path";
    if (strspn(rest, URL_BYTES) != strlen(rest))
        return "its path has a byte that none of ours has; no query, please";
    if (strlen(rest) + 2 > sizeof(url->path))
        return "its path is too long";
    copy(url->authority, sizeof(url->authority), text, (size_t)(rest - text));
    if (strcmp(rest, "/") != 0 && rest[0] != '\0')
        snprintf(url->path, sizeof(url->path), "%s%s", rest,
                 rest[strlen(rest) - 1] == '/' ? "" : "/");
    snprintf(url->address, sizeof(url->address), "%.*s:%llu", (int)host, text,
             (unsigned long long)port);
    return NULL;
}

const char *gateway_url_read(const char *text, struct gateway_url *ret_url)
{
    struct gateway_url url = {.tls = strncmp(text, "https://", 8) == 0};
    const char *wrong;
    size_t host;

    if (strncmp(text, "unix:/", 6) == 0) {
        wrong = gateway_path_check(text);
        if (wrong || strlen(text + 5) > 107)
            return wrong ? wrong : "the path of a socket has at most 107 bytes";
        url.socket = true;
        copy(url.address, sizeof(url.address), text, strlen(text));
        copy(url.authority, sizeof(url.authority), "localhost", 9);
        *ret_url = url;
        return NULL;
    }
    if (!url.tls && strncmp(text, "http://", 7) != 0)
        return "it begins with http://, https:// or unix:/";
    text += url.tls ? 8 : 7;
    host = host_size(text);
    if (host == 0 || host > 255)
        return "behind :// comes a name or an address; no user, no password";
    wrong = read_rest(text, host, &url);
    if (wrong)
        return wrong;
    /* A certificate's name is without brackets. */
    if (text[0] == '[')
        copy(url.host, sizeof(url.host), text + 1, host - 2);
    else
        copy(url.host, sizeof(url.host), text, host);
    *ret_url = url;
    return NULL;
}

/* ---- Other values ---------------------------------------------------------------------------- */

const char *gateway_path_check(const char *text)
{
    if (text[0] == '\0')
        return "it is empty";
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f || strchr("\"'\\$;{}", *c))
            return "nginx.conf takes no path with quotes, $, ;, braces, a backslash or control "
                   "characters";
    }
    return NULL;
}

const char *gateway_scope_check(const char *text)
{
    const char *dollar = text;

    if (text[0] == '\0' || strlen(text) > 200)
        return "it is text with variables of nginx, such as $http_authorization";
    if (strspn(text, SCOPE_BYTES) != strlen(text))
        return "it holds letters, digits, blanks, any of _.:/@=,+- and variables such as "
               "$http_authorization";
    while ((dollar = strchr(dollar, '$')) != NULL) {
        if (strspn(++dollar, NAME_BYTES) == 0)
            return "behind $ comes the name of a variable, such as $http_authorization";
    }
    return NULL;
}

/* Calls check for every word between commas; NULL, or what it says. */
static const char *each_word(const char *text,
                             const char *(*check)(const char *word, size_t size, size_t index))
{
    for (size_t i = 0;; i++) {
        size_t size = strcspn(text, ",");
        const char *wrong = check(text, size, i);

        if (wrong)
            return wrong;
        if (text[size] == '\0')
            return NULL;
        text += size + 1;
    }
}

static const char *check_fingerprint(const char *word, size_t size, size_t index)
{
    if (index == 0)
        return (size == 3 && memcmp(word, "raw", 3) == 0) ||
                       (size == 4 && memcmp(word, "json", 4) == 0)
                   ? NULL
                   : "it begins with raw or json: how the body counts";
    return size > 0 && size <= 100 && strspn(word, TOKEN_BYTES) >= size
               ? NULL
               : "behind raw or json come names of headers, with a comma before each";
}

const char *gateway_fingerprint_check(const char *text)
{
    return each_word(text, check_fingerprint);
}

static const char *check_method(const char *word, size_t size, size_t index)
{
    char text[8];

    (void)index;
    if (size < sizeof(text)) {
        copy(text, sizeof(text), word, size);
        if (gateway_is_one_of("GET|PUT|POST|PATCH|DELETE", text))
            return NULL;
    }
    return "it is a list such as POST,PATCH of GET, PUT, POST, PATCH, DELETE";
}

const char *gateway_methods_check(const char *text)
{
    return each_word(text, check_method);
}
