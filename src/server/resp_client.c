/* SPDX-License-Identifier: Apache-2.0
 *
 * CLIENT: names of connections, and a line about each.
 */
#include "server/resp_commands.h"

#include "server/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool once__client_name_ok(struct once_bytes name)
{
    if (name.size > ONCE_CLIENT_NAME_SIZE_MAX)
        return false;
    for (size_t i = 0; i < name.size; i++)
        if (name.data[i] < '!' || name.data[i] > '~')
            return false;
    return true;
}

static enum once__next set_text(struct once__out *out, struct once_bytes text, const char *what,
                                char *ret_text)
{
    if (!once__client_name_ok(text)) {
        if (text.size > ONCE_CLIENT_NAME_SIZE_MAX)
            once__out_error(out, "ERR", "%s cannot be longer than %d bytes", what,
                            ONCE_CLIENT_NAME_SIZE_MAX);
        else
            once__out_error(out, "ERR", "%s cannot contain spaces, newlines or special characters.",
                            what);
        return ONCE__ANSWERED;
    }
    if (text.size > 0)
        memcpy(ret_text, text.data, text.size);
    ret_text[text.size] = '\0';
    once__out_simple(out, "OK");
    return ONCE__ANSWERED;
}

enum once__next once__resp_client_setname(struct once__request *request, struct once__out *out)
{
    return set_text(out, request->args[2], "Client names", request->session->name);
}

enum once__next once__resp_client_setinfo(struct once__request *request, struct once__out *out)
{
    struct once__session *session = request->session;

    if (once__arg_is(request->args[2], "LIB-NAME"))
        return set_text(out, request->args[3], "lib-name", session->library);
    if (once__arg_is(request->args[2], "LIB-VER"))
        return set_text(out, request->args[3], "lib-ver", session->library_version);
    once__out_error(out, "ERR", "Unrecognized option '%s'", once__arg_echo(request->args[2]).text);
    return ONCE__ANSWERED;
}

enum once__next once__resp_client_getname(struct once__request *request, struct once__out *out)
{
    if (request->session->name[0] == '\0')
        once__out_null(out);
    else
        once__out_text(out, request->session->name);
    return ONCE__ANSWERED;
}

enum once__next once__resp_client_id(struct once__request *request, struct once__out *out)
{
    once__out_integer(out, (int64_t)request->session->id);
    return ONCE__ANSWERED;
}

enum once__next once__resp_client_no(struct once__request *request, struct once__out *out)
{
    if (once__arg_is(request->args[2], "ON") || once__arg_is(request->args[2], "OFF"))
        once__out_simple(out, "OK");
    else
        once__out_error(out, "ERR", "syntax error");
    return ONCE__ANSWERED;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

enum { LINE_SIZE_MAX = 768 };

/* Lines of connections, as many as were asked for. */
struct lines {
    struct once_buf text;
    bool failed;
    uint64_t now_ns;
    const struct once_bytes *ids; /* only those; none is all */
    size_t id_count;
};

static uint64_t monotonic_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static uint64_t seconds_since(uint64_t now_ns, uint64_t then_ns)
{
    return now_ns > then_ns ? (now_ns - then_ns) / 1000000000ULL : 0;
}

static bool wanted(const struct lines *lines, uint64_t id)
{
    for (size_t i = 0; i < lines->id_count; i++) {
        int64_t number = 0;

        if (once__arg_decimal(lines->ids[i], &number) && number >= 0 && (uint64_t)number == id)
            return true;
    }
    return lines->id_count == 0;
}

static void add_line(void *user, const struct once__session *session)
{
    struct lines *lines = user;
    char line[LINE_SIZE_MAX];
    int size;

    if (!wanted(lines, session->id))
        return;
    size = snprintf(line, sizeof(line),
                    "id=%" PRIu64 " addr=%s name=%s age=%" PRIu64 " idle=%" PRIu64
                    " flags=N db=0 cmd=%s user=%s resp=%d lib-name=%s lib-ver=%s\n",
                    session->id, session->from, session->name,
                    seconds_since(lines->now_ns, session->since_ns),
                    seconds_since(lines->now_ns, session->last_ns),
                    session->last_command ? session->last_command : "NULL",
                    !session->identity.known            ? "(unknown)"
                    : session->identity.name[0] != '\0' ? session->identity.name
                                                        : "default",
                    session->protocol, session->library, session->library_version);
    if (size < 0 || (size_t)size >= sizeof(line) ||
        once_buf_append(&lines->text, line, (size_t)size) != ONCE_OK)
        lines->failed = true;
}

static void write_lines(struct once__out *out, struct lines *lines)
{
    if (lines->failed)
        once__out_err(out, ONCE_ERR_FULL, "there are more connections than one answer can name");
    else
        once__out_verbatim(out, once_buf_bytes(&lines->text));
    once_buf_release(&lines->text);
}

static void lines_init(struct lines *lines)
{
    *lines = (struct lines){.now_ns = monotonic_ns()};
    once_buf_init(&lines->text, (size_t)ONCE_CONNECTIONS_MAX * LINE_SIZE_MAX);
}

enum once__next once__resp_client_info(struct once__request *request, struct once__out *out)
{
    struct lines lines;

    lines_init(&lines);
    add_line(&lines, request->session);
    write_lines(out, &lines);
    return ONCE__ANSWERED;
}

/* All of ours are "normal" clients; the other types of Redis are nobody. False: answered. */
static bool read_type(struct once__out *out, struct once_bytes type, bool *ret_nobody)
{
    static const char *const others[] = {"MASTER", "REPLICA", "SLAVE", "PUBSUB"};

    *ret_nobody = !once__arg_is(type, "NORMAL");
    for (size_t i = 0; *ret_nobody && i < sizeof(others) / sizeof(others[0]); i++)
        if (once__arg_is(type, others[i]))
            return true;
    if (*ret_nobody)
        once__out_error(out, "ERR", "Unknown client type '%s'", once__arg_echo(type).text);
    return !*ret_nobody;
}

static bool read_ids(struct once__out *out, const struct once_bytes *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t number;

        if (!once__arg_decimal(ids[i], &number) || number < 1) {
            once__out_error(out, "ERR", "Invalid client ID");
            return false;
        }
    }
    return true;
}

enum once__next once__resp_client_list(struct once__request *request, struct once__out *out)
{
    const struct once_bytes *args = request->args;
    struct lines lines;
    bool nobody = false;

    lines_init(&lines);
    if (request->arg_count == 4 && once__arg_is(args[2], "TYPE")) {
        if (!read_type(out, args[3], &nobody))
            return ONCE__ANSWERED;
    } else if (request->arg_count > 3 && once__arg_is(args[2], "ID")) {
        lines.ids = &args[3];
        lines.id_count = request->arg_count - 3;
        if (!read_ids(out, lines.ids, lines.id_count))
            return ONCE__ANSWERED;
    } else if (request->arg_count != 2) {
        once__out_error(out, "ERR", "syntax error");
        return ONCE__ANSWERED;
    }
    if (!nobody)
        once__conns_each(once__server_conns(request->session->server), add_line, &lines);
    write_lines(out, &lines);
    return ONCE__ANSWERED;
}
