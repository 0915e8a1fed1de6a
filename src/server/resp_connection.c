/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands about the connection itself: who is calling, and in which version of the protocol. The
 * texts are Redis's where clients look at them.
 */
#include "server/resp_commands.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

#define WRONG_NAME "Client names cannot contain spaces, newlines or special characters."

enum once__next once__resp_ping(struct once__request *request, struct once__out *out)
{
    if (request->arg_count > 2)
        once__out_wrong_count(request, out);
    else if (request->arg_count == 2)
        once__out_bulk(out, request->args[1]);
    else
        once__out_simple(out, "PONG");
    return ONCE__ANSWERED;
}

enum once__next once__resp_echo(struct once__request *request, struct once__out *out)
{
    once__out_bulk(out, request->args[1]);
    return ONCE__ANSWERED;
}

enum once__next once__resp_select(struct once__request *request, struct once__out *out)
{
    int64_t number;

    if (!once__arg_decimal(request->args[1], &number) || number > INT32_MAX || number < INT32_MIN)
        once__out_error(out, "ERR", "value is not an integer or out of range");
    else if (number != 0)
        once__out_error(out, "ERR", "DB index is out of range");
    else
        once__out_simple(out, "OK");
    return ONCE__ANSWERED;
}

enum once__next once__resp_quit(struct once__request *request, struct once__out *out)
{
    request->session->closing = true;
    once__out_simple(out, "OK");
    return ONCE__ANSWERED;
}

/* Whoever has said who they are is unknown again; the owner of a unix socket and everyone where
 * there are no users never said so (their name is empty), and stay. */
enum once__next once__resp_reset(struct once__request *request, struct once__out *out)
{
    struct once__session *session = request->session;

    if (session->identity.name[0] != '\0')
        session->identity = once__identity_anonymous(session->config);
    session->name[0] = '\0';
    session->protocol = 2;
    out->protocol = 2;
    once__out_simple(out, "RESET");
    return ONCE__ANSWERED;
}

/* ---- Who is calling -------------------------------------------------------------------------- */

/* What a HELLO asks for, until its AUTH is decided. */
struct hello {
    int protocol;
    bool named;
    struct once_bytes name;
};

static void drop_login(struct once__request *request)
{
    if (!request->login)
        return;
    explicit_bzero(request->login->secret, sizeof(request->login->secret));
    once__config_unref(request->login->config);
    request->login = NULL;
}

static void wrong_password(struct once__out *out)
{
    once__out_error(out, "WRONGPASS", "invalid username-password pair or user is disabled.");
}

/* Hands the try to whoever compares passwords; the host adds where it came from. ANSWERED: it was
 * refused at once. */
static enum once__next log_in(struct once__request *request, struct once__out *out,
                              struct once_bytes name, struct once_bytes secret, bool bearer)
{
    struct once__login *login;

    if (name.size > ONCE_USER_SIZE_MAX || secret.size > ONCE_PASSWORD_SIZE_MAX) {
        wrong_password(out);
        return ONCE__ANSWERED;
    }
    login = once__request_alloc(request, sizeof(*login));
    if (!login) {
        once__out_err(out, ONCE_ERR_MEMORY, NULL);
        return ONCE__ANSWERED;
    }
    login->config = once__config_ref(request->session->config);
    login->bearer = bearer;
    if (name.size > 0)
        memcpy(login->name, name.data, name.size);
    if (secret.size > 0)
        memcpy(login->secret, secret.data, secret.size);
    login->secret_size = secret.size;
    request->login = login;
    request->release = drop_login;
    return ONCE__LOGIN;
}

/* False: refused, and that was answered. */
static bool logged_in(struct once__request *request, struct once__out *out)
{
    const struct once__login *login = request->login;

    ONCE_ASSERT(login != NULL);
    if (login->delayed) {
        once__out_error(out, "RATE",
                        "%lld too many wrong passwords came from this address; come back later",
                        ONCE_AUTH_WINDOW_MS);
        return false;
    }
    if (!login->granted) {
        wrong_password(out);
        return false;
    }
    request->session->identity = login->identity;
    return true;
}

/* As Redis without a password: its user "default" may use any. */
static bool is_default(struct once_bytes name)
{
    return name.size == 7 && memcmp(name.data, "default", 7) == 0;
}

static enum once__next auth_without_users(struct once__request *request, struct once__out *out)
{
    if (request->arg_count == 2)
        once__out_error(out, "ERR",
                        "AUTH <password> called without any password configured for the default "
                        "user. Are you sure your configuration is correct?");
    else if (is_default(request->args[1]))
        once__out_simple(out, "OK");
    else
        wrong_password(out);
    return ONCE__ANSWERED;
}

enum once__next once__resp_auth(struct once__request *request, struct once__out *out)
{
    const struct once__config *config = request->session->config;
    const struct once_bytes *args = request->args;
    struct once_bytes none = {NULL, 0}, name = once_bytes_of("default");

    if (request->arg_count > 3) {
        once__out_error(out, "ERR", "syntax error");
        return ONCE__ANSWERED;
    }
    if (config->user_count == 0)
        return auth_without_users(request, out);
    if (request->arg_count == 3)
        return log_in(request, out, args[1], args[2], false);
    if (once__config_user(config, name))
        return log_in(request, out, name, args[1], false);
    return log_in(request, out, none, args[1], true);
}

void once__resp_auth_finish(struct once__request *request, struct once__out *out)
{
    if (logged_in(request, out))
        once__out_simple(out, "OK");
}

/* ---- HELLO ----------------------------------------------------------------------------------- */

static void write_hello(struct once__request *request, struct once__out *out,
                        const struct hello *hello)
{
    struct once__session *session = request->session;

    if (hello->protocol != 0)
        session->protocol = hello->protocol;
    out->protocol = session->protocol;
    if (hello->named) {
        memcpy(session->name, hello->name.data, hello->name.size);
        session->name[hello->name.size] = '\0';
    }
    once__out_map(out, 8);
    once__out_text(out, "server");
    once__out_text(out, "redis");
    once__out_text(out, "version");
    once__out_text(out, ONCE__REDIS_VERSION);
    once__out_text(out, "proto");
    once__out_integer(out, session->protocol);
    once__out_text(out, "id");
    once__out_integer(out, (int64_t)session->id);
    once__out_text(out, "mode");
    once__out_text(out, "standalone");
    once__out_text(out, "role");
    once__out_text(out, "master");
    once__out_text(out, "modules");
    once__out_array(out, 0);
    once__out_text(out, "once");
    once__out_text(out, ONCE_VERSION);
}

/* Reads [AUTH user password] [SETNAME name]. False: answered. */
static bool read_hello(const struct once__request *request, struct once__out *out,
                       struct hello *hello, const struct once_bytes **ret_auth)
{
    const struct once_bytes *args = request->args;
    size_t left;

    for (size_t i = 2; i < request->arg_count; i++) {
        left = request->arg_count - i - 1;
        if (once__arg_is(args[i], "AUTH") && left >= 2) {
            *ret_auth = &args[i + 1];
            i += 2;
        } else if (once__arg_is(args[i], "SETNAME") && left >= 1) {
            hello->named = true;
            hello->name = args[++i];
            if (!once__client_name_ok(hello->name)) {
                once__out_error(out, "ERR", WRONG_NAME);
                return false;
            }
        } else {
            once__out_error(out, "ERR", "Syntax error in HELLO option '%s'",
                            once__arg_echo(args[i]).text);
            return false;
        }
    }
    return true;
}

enum once__next once__resp_hello(struct once__request *request, struct once__out *out)
{
    const struct once__session *session = request->session;
    const struct once_bytes *auth = NULL;
    struct hello hello = {.protocol = 0}, *kept;
    int64_t protocol = 0;

    if (request->arg_count >= 2) {
        if (!once__arg_decimal(request->args[1], &protocol)) {
            once__out_error(out, "ERR", "Protocol version is not an integer or out of range");
            return ONCE__ANSWERED;
        }
        if (protocol < 2 || protocol > 3) {
            once__out_error(out, "NOPROTO", "unsupported protocol version");
            return ONCE__ANSWERED;
        }
    }
    hello.protocol = (int)protocol;
    if (!read_hello(request, out, &hello, &auth))
        return ONCE__ANSWERED;
    if (auth && session->config->user_count > 0) {
        kept = once__request_alloc(request, sizeof(*kept));
        if (!kept) {
            once__out_err(out, ONCE_ERR_MEMORY, NULL);
            return ONCE__ANSWERED;
        }
        *kept = hello;
        request->state = kept;
        return log_in(request, out, auth[0], auth[1], false);
    }
    if (auth && !is_default(auth[0]))
        wrong_password(out);
    else if (!session->identity.known)
        once__out_error(out, "NOAUTH",
                        "HELLO must be called with the client already authenticated, otherwise "
                        "the HELLO <proto> AUTH <user> <pass> option can be used to authenticate "
                        "the client and select the RESP protocol version at the same time");
    else
        write_hello(request, out, &hello);
    return ONCE__ANSWERED;
}

void once__resp_hello_finish(struct once__request *request, struct once__out *out)
{
    if (logged_in(request, out))
        write_hello(request, out, request->state);
}
