/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of a request before its body is read: is it for this server, does no page of
 * another origin send it, is there such a route, may the body be taken, and who is it from.
 *
 * Browsers send requests that their users know nothing of. Three things keep those out: without
 * users only names of this machine are answered (a foreign name that resolves to 127.0.0.1 is not),
 * a request that changes something must not come from another origin, and bodies are JSON, which a
 * page of another origin may not send without being allowed to; it never is.
 */
#include "server/http_inner.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"

/* Names of this machine, whatever is configured. */
static const char *const own_names[] = {"localhost", "127.0.0.1", "[::1]"};

const char *once__http_header(const struct once__http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

/* "example:80" without its port. What only looks like one is a part of the name. */
static struct once_bytes host_name(const char *host)
{
    const char *colon = strrchr(host, ':');
    struct once_bytes name = once_bytes_of(host);

    if (colon && colon[1 + strspn(colon + 1, "0123456789")] == '\0')
        name.size = (size_t)(colon - host);
    return name;
}

static bool same_name(struct once_bytes a, const char *b)
{
    return a.size == strlen(b) && strncasecmp((const char *)a.data, b, a.size) == 0;
}

static bool host_allowed(const struct once__config *config, const char *host)
{
    struct once_bytes name;

    /* Browsers always send one. */
    if (config->user_count > 0 || !host)
        return true;
    name = host_name(host);
    for (size_t i = 0; i < sizeof own_names / sizeof own_names[0]; i++) {
        if (same_name(name, own_names[i]))
            return true;
    }
    for (size_t i = 0; i < config->http_count; i++) {
        const char *own = config->http[i].host;
        char braced[sizeof config->http[i].host + 2];

        (void)snprintf(braced, sizeof braced, "[%s]", own);
        if (same_name(name, own) || (strchr(own, ':') && same_name(name, braced)))
            return true;
    }
    return false;
}

/* Did a page of this very host send it, or no page at all? */
static bool origin_allowed(const char *origin, const char *host)
{
    const char *authority;

    if (!origin)
        return true;
    authority = strstr(origin, "://");
    return authority && host && strcasecmp(authority + 3, host) == 0;
}

/* ---- Where it ends --------------------------------------------------------------------------- */

struct framing {
    size_t hosts, lengths, encodings;
    bool other_encoding;
};

static enum MHD_Result count_header(void *user, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct framing *framing = user;

    (void)kind;
    if (strcasecmp(name, "Host") == 0)
        framing->hosts++;
    else if (strcasecmp(name, "Content-Length") == 0)
        framing->lengths++;
    else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        framing->encodings++;
        framing->other_encoding = !value || strcasecmp(value, "chunked") != 0;
    }
    return MHD_YES;
}

/* Two answers to where a body ends, or to whom it is for, and a proxy in front of us may take the
 * other one: what it let pass as a body would be a request here (RFC 9112, 3.2 and 6.3). */
static bool framing_refused(struct once__http_request *request)
{
    struct framing framing = {0};
    const char *detail = NULL;

    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, count_header, &framing);
    if (framing.hosts > 1)
        detail = "Host is there more than once.";
    else if (framing.lengths + framing.encodings > 1)
        detail = "Content-Length or Transfer-Encoding is there more than once, or both are.";
    else if (framing.other_encoding)
        detail = "The only Transfer-Encoding that is taken is chunked.";
    if (!detail)
        return false;
    once__http_problem(request, ONCE__PROBLEM_BAD_REQUEST, detail);
    request->answer.close = true;
    return true;
}

static bool changes(const char *method)
{
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

/* Is it application/json or application/…+json? No type at all is taken for it. */
static bool type_is_json(const char *type)
{
    size_t size;

    if (!type)
        return true;
    size = strcspn(type, "; \t");
    if (size == 16 && strncasecmp(type, "application/json", 16) == 0)
        return true;
    return size > 17 && strncasecmp(type, "application/", 12) == 0 &&
           strncasecmp(type + size - 5, "+json", 5) == 0;
}

static bool body_refused(struct once__http_request *request)
{
    const struct once__http_route *route = request->route;
    const char *length = once__http_header(request, "Content-Length");
    char detail[128];

    if (route->body && !type_is_json(once__http_header(request, "Content-Type"))) {
        once__http_problem(request, ONCE__PROBLEM_MEDIA_TYPE,
                           "The body is JSON: send Content-Type: application/json.");
        return true;
    }
    /* The library has refused what is no number. */
    if (length && strtoull(length, NULL, 10) > route->body_size_max) {
        if (route->body_size_max == 0) {
            once__http_problem(request, ONCE__PROBLEM_TOO_LARGE, "This path takes no body.");
            return true;
        }
        (void)snprintf(detail, sizeof detail, "The body has %.20s bytes; at most %zu are taken.",
                       length, route->body_size_max);
        once__http_problem(request, ONCE__PROBLEM_TOO_LARGE, detail);
        return true;
    }
    return false;
}

static bool route_refused(struct once__http_request *request, enum once__http_match match)
{
    switch (match) {
    case ONCE__HTTP_MATCHED:
        return false;
    case ONCE__HTTP_NO_PATH:
        once__http_problem(request, ONCE__PROBLEM_NO_ROUTE,
                           "There is nothing at this path; /openapi.json lists what there is.");
        return true;
    case ONCE__HTTP_NO_METHOD:
        once__http_problem(request, ONCE__PROBLEM_METHOD,
                           "This path takes only the methods that Allow lists.");
        request->answer.allow = request->allow;
        return true;
    case ONCE__HTTP_BAD_PATH:
        once__http_problem(request, ONCE__PROBLEM_BAD_REQUEST,
                           "A part of the path is too long, or has a % without two hexadecimal "
                           "digits behind it.");
        return true;
    }
    return true;
}

static enum MHD_Result add_query(void *user, enum MHD_ValueKind kind, const char *key,
                                 size_t key_size, const char *value, size_t value_size)
{
    struct once__http_request *request = user;
    struct once_bytes name = {.data = (const uint8_t *)key, .size = key_size};
    struct once_bytes text = {.data = (const uint8_t *)value, .size = value ? value_size : 0};
    struct once__http_defect defect = {.field = ""};
    uint8_t *decoded = malloc(key_size + text.size + 1);
    int err = ONCE_ERR_MEMORY;

    (void)kind;
    if (!decoded) {
        once__http_problem(request, ONCE__PROBLEM_OVERLOAD, once_err_text(err));
        return MHD_NO;
    }
    if (!once__percent_decode(name, decoded, &name.size) ||
        !once__percent_decode(text, decoded + key_size, &text.size)) {
        once__http_problem(request, ONCE__PROBLEM_BAD_REQUEST,
                           "The query has a % without two hexadecimal digits behind it.");
        free(decoded);
        return MHD_NO;
    }
    name.data = decoded;
    text.data = decoded + key_size;
    err = once__http_query_add(request->route->query, name, text, &request->query, &defect);
    free(decoded);
    if (err == ONCE_ERR_INVALID)
        once__http_problem_field(request, &defect);
    else if (err != ONCE_OK)
        once__http_problem(request, ONCE__PROBLEM_OVERLOAD, once_err_text(err));
    return err == ONCE_OK ? MHD_YES : MHD_NO;
}

bool once__http_guard(struct once__http_request *request)
{
    const char *host = once__http_header(request, "Host");
    enum once__http_match match = once__http_route_find(
        request->method, request->path, &request->route, &request->params, request->allow);

    if (framing_refused(request))
        return false;
    if (!host_allowed(request->config, host)) {
        once__http_problem(request, ONCE__PROBLEM_HOST,
                           "Without users this server answers only for localhost and the hosts "
                           "that it listens on.");
        return false;
    }
    if (changes(request->method) && !origin_allowed(once__http_header(request, "Origin"), host)) {
        once__http_problem(request, ONCE__PROBLEM_CROSS_ORIGIN,
                           "Origin names another host than Host does: pages of other origins "
                           "change nothing here.");
        return false;
    }
    if (route_refused(request, match) || body_refused(request))
        return false;
    if (atomic_load(&request->http->draining) && !(request->route->flags & ONCE__HTTP_ALWAYS)) {
        once__http_problem(request, ONCE__PROBLEM_DRAINING,
                           "The server is stopping: connect again, to where it is then.");
        return false;
    }
    (void)MHD_get_connection_values_n(request->connection, MHD_GET_ARGUMENT_KIND, add_query,
                                      request);
    return request->answer.status == 0;
}

/* ---- Who ------------------------------------------------------------------------------------- */

static void refuse_login(struct once__http_request *request, const char *detail)
{
    once__http_problem(request, ONCE__PROBLEM_UNAUTHENTICATED, detail);
    request->answer.authenticate = true;
    /* A browser that is told of Basic asks by itself, over the page's own form. */
    request->answer.own_form = once__http_header(request, "Once-Page") != NULL;
}

/* "dXNlcjpwYXNz" into name and secret. */
static bool read_basic(struct once_bytes text, struct once__login *login)
{
    uint8_t plain[ONCE_USER_SIZE_MAX + ONCE_PASSWORD_SIZE_MAX + 8];
    const uint8_t *colon;
    size_t size = 0;
    bool known = false;

    if (text.size / 4 * 3 > sizeof plain || !once__base64_decode(text, plain, &size))
        return false;
    colon = memchr(plain, ':', size);
    if (colon) {
        size_t name_size = (size_t)(colon - plain);
        size_t secret_size = size - name_size - 1;

        known = name_size <= ONCE_USER_SIZE_MAX && secret_size <= ONCE_PASSWORD_SIZE_MAX &&
                !memchr(plain, '\0', name_size); /* "root\0x" is not root */
        if (known) {
            memcpy(login->name, plain, name_size);
            memcpy(login->secret, colon + 1, secret_size);
            login->secret_size = secret_size;
        }
    }
    explicit_bzero(plain, sizeof plain);
    return known;
}

static bool read_authorization(const char *header, struct once__login *login)
{
    struct once_bytes text = once_bytes_of(header);
    size_t scheme = strcspn(header, " ");

    text.data += scheme;
    text.size -= scheme;
    while (text.size > 0 && text.data[0] == ' ') {
        text.data++;
        text.size--;
    }
    if (scheme == 5 && strncasecmp(header, "Basic", 5) == 0)
        return read_basic(text, login);
    if (scheme != 6 || strncasecmp(header, "Bearer", 6) != 0)
        return false;
    if (text.size == 0 || text.size > sizeof login->secret)
        return false;
    login->bearer = true;
    memcpy(login->secret, text.data, text.size);
    login->secret_size = text.size;
    return true;
}

bool once__http_login(struct once__http_request *request, void (*done)(struct once__login *login))
{
    struct once__login *login = &request->login;
    const char *header = once__http_header(request, "Authorization");

    request->identity = once__identity_anonymous(request->config);
    if (request->identity.known || (request->route->flags & ONCE__HTTP_OPEN))
        return true;
    if (!header) {
        refuse_login(request, "Say who you are: Authorization, Basic with a user and a password, "
                              "or Bearer with a token.");
        return true;
    }
    if (!read_authorization(header, login)) {
        refuse_login(request, "Authorization is neither Basic with a user and a password nor "
                              "Bearer with a token, or one of them is too long.");
        return true;
    }
    login->config = request->config;
    memcpy(login->from, request->from, sizeof login->from);
    login->done = done;
    login->user = request;
    if (!once__access_start(request->http->setup.access, login))
        return false;
    once__http_login_finish(request);
    return true;
}

void once__http_login_finish(struct once__http_request *request)
{
    const struct once__login *login = &request->login;

    explicit_bzero(request->login.secret, sizeof request->login.secret);
    if (login->granted) {
        request->identity = login->identity;
        return;
    }
    if (login->delayed) {
        once__metrics_add(request->http->setup.metrics, ONCE__AUTH_DELAYED, 1);
        once__http_problem(request, ONCE__PROBLEM_AUTH_DELAYED,
                           "Too many wrong passwords came from this address: come back later.");
        request->answer.retry_ms = ONCE_AUTH_WINDOW_MS;
        return;
    }
    once__metrics_add(request->http->setup.metrics, ONCE__AUTH_FAILED, 1);
    once__log_event(request->http->setup.log, ONCE__LOG_WARN, "auth_failed",
                    (struct once__field[]){{.name = "user", .text = login->name},
                                           {.name = "from", .text = request->from},
                                           {.name = "protocol", .text = "http"},
                                           {.name = NULL}});
    refuse_login(request, "The user does not exist, or the password or token is wrong.");
}
