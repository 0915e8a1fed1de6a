/* SPDX-License-Identifier: Apache-2.0
 *
 * Any words as a command, by anyone, before and after the store is open. Every command is answered
 * with exactly one well-formed answer, at once or after whatever the store might say: the service
 * and the server are stand-ins here, and the input chooses the reply too. Nobody who is not known
 * reaches the store, and nobody who may only read writes.
 *
 *     byte 0   bit 0: RESP3; bits 1-2: role, 3 is nobody known; bit 3: the store is open;
 *              bit 4: the password is right; bit 5: the service refuses
 *     byte 1   the word of the reply       byte 2   its error       byte 3   its state and code
 *     then     the words, separated by newlines; the last one is also the result of the reply
 */
#include "base/assert.h"
#include "server/command.h"
#include "server/resp_commands.h"
#include "server/server.h"
#include "server/stats.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_SIZE = 4, WORDS_MAX = 256 };

struct once__server {
    bool open, refuses;
    unsigned submitted;
    const struct once__session *session;
};

static struct once__config config;
static struct once__metrics *metrics;

/* ---- The stand-ins --------------------------------------------------------------------------- */

struct once__service *once__server_service(const struct once__server *server)
{
    return (struct once__service *)(uintptr_t)server;
}

struct once__metrics *once__server_metrics(const struct once__server *server)
{
    (void)server;
    return metrics;
}

struct once__status once__server_status(const struct once__server *server)
{
    return (struct once__status){.phase = server->open ? ONCE__READY : ONCE__LOADING,
                                 .loaded = 1,
                                 .to_load = server->refuses ? 3 : 0};
}

struct once__conns *once__server_conns(const struct once__server *server)
{
    return (struct once__conns *)(uintptr_t)server;
}

uint16_t once__server_resp_port(const struct once__server *server, size_t index)
{
    (void)server;
    (void)index;
    return 1;
}

void once__conns_each(struct once__conns *conns,
                      void (*each)(void *user, const struct once__session *session), void *user)
{
    each(user, ((const struct once__server *)(const void *)conns)->session);
}

static struct once__server *server_of(const struct once__service *service)
{
    return (struct once__server *)(uintptr_t)service;
}

struct once_store *once__service_store(const struct once__service *service)
{
    /* Nobody uses it: jobs are not run. */
    return server_of(service)->open ? (struct once_store *)(uintptr_t)service : NULL;
}

once_ms once__service_wall_ms(const struct once__service *service)
{
    (void)service;
    return once__wall_ms();
}

static bool writes(const struct once_op *op)
{
    return op->call != ONCE_CALL_GET;
}

int once__service_check(struct once__service *service, const struct once__config *unused,
                        const struct once__identity *identity, struct once__call *call)
{
    struct once__server *server = server_of(service);

    (void)unused;
    ONCE_ASSERT(server->open && identity->known);
    ONCE_ASSERT(!writes(&call->op) || identity->role >= ONCE__ROLE_WRITE);
    ONCE_ASSERT(call->op.lease_ms >= 0 && call->op.lease_ms <= ONCE_LEASE_MS_MAX);
    ONCE_ASSERT(call->op.ttl_ms >= 0 && call->op.ttl_ms <= ONCE_RETENTION_MS_MAX);
    ONCE_ASSERT(call->op.until_ms >= 0 && call->wait_ms >= 0 && call->wait_ms <= ONCE_WAIT_MS_MAX);
    ONCE_ASSERT(call->op.fence <= ONCE_FENCE_MAX && call->op.do_count <= ONCE_EFFECTS_MAX);
    ONCE_ASSERT(call->op.call != ONCE_CALL_APPLY || call->op.do_count >= 1);
    server->submitted++;
    if (!server->refuses)
        return ONCE_OK;
    call->op.reply.err = ONCE_ERR_DENIED;
    call->op.reply.what = "no";
    return ONCE_ERR_DENIED;
}

int once__service_check_look(struct once__service *service, const struct once__config *unused,
                             const struct once__identity *identity, struct once_bytes ns,
                             char *ret_ns, const char **ret_what)
{
    (void)unused;
    ONCE_ASSERT(server_of(service)->open && identity->known);
    *ret_what = "no";
    if (server_of(service)->refuses || ns.size > ONCE_NAMESPACE_SIZE_MAX)
        return ONCE_ERR_DENIED;
    if (ns.size > 0)
        memcpy(ret_ns, ns.data, ns.size);
    ret_ns[ns.size] = '\0';
    return ONCE_OK;
}

int once__service_check_object(struct once__service *service, const struct once__config *unused,
                               const struct once__identity *identity, struct once_bytes name,
                               bool changes, const char **ret_what)
{
    (void)unused;
    (void)name;
    ONCE_ASSERT(server_of(service)->open && identity->known);
    ONCE_ASSERT(!changes || identity->role >= ONCE__ROLE_WRITE);
    *ret_what = "no";
    return server_of(service)->refuses ? ONCE_ERR_RATE : ONCE_OK;
}

int once__service_check_scan(struct once__service *service, const struct once__config *unused,
                             const struct once__identity *identity, const char **ret_what)
{
    (void)unused;
    ONCE_ASSERT(server_of(service)->open && identity->known);
    *ret_what = "no";
    return server_of(service)->refuses ? ONCE_ERR_DENIED : ONCE_OK;
}

/* Only jobs ask for these, and jobs are not run. */

bool once__service_sees(const struct once__config *unused, const struct once__identity *identity,
                        struct once_bytes kept, struct once_bytes *ret_asked)
{
    (void)unused;
    (void)identity;
    *ret_asked = kept;
    abort();
}

struct once__stats *once__server_stats(const struct once__server *server)
{
    (void)server;
    return NULL;
}

int once__stats_write(struct once__stats *stats, const struct once__server *server,
                      const struct once__config *unused, const struct once__identity *identity,
                      struct once_buf *out)
{
    (void)stats;
    (void)server;
    (void)unused;
    (void)identity;
    (void)out;
    abort();
}

struct once__open_counts once__stats_open(struct once__stats *stats, struct once_store *store)
{
    (void)stats;
    (void)store;
    abort();
}

uint64_t once__resident_size(void)
{
    return 1;
}

/* ---- Is it RESP? ----------------------------------------------------------------------------- */

static size_t line_end(struct once_bytes bytes, size_t at)
{
    ONCE_ASSERT(at + 1 < bytes.size);
    while (bytes.data[at] != '\r') {
        ONCE_ASSERT(bytes.data[at] >= ' ');
        at++;
        ONCE_ASSERT(at + 1 < bytes.size);
    }
    ONCE_ASSERT(bytes.data[at + 1] == '\n');
    return at;
}

/* One value at *at; *at is then behind it. Recursion is bounded by what the commands nest. */
static void check_value(struct once_bytes bytes, size_t *at, int protocol, int depth)
{
    uint8_t kind = bytes.data[*at];
    size_t end = line_end(bytes, *at + 1);
    long count = strtol((const char *)bytes.data + *at + 1, NULL, 10);

    ONCE_ASSERT(depth < 8);
    ONCE_ASSERT(memchr(protocol == 3 ? "+-:$*%~=_#" : "+-:$*", kind, protocol == 3 ? 10 : 5));
    *at = end + 2;
    if (kind == '$' || kind == '=') {
        if (count < 0) {
            ONCE_ASSERT(count == -1 && protocol == 2 && kind == '$');
            return;
        }
        ONCE_ASSERT(*at + (size_t)count + 2 <= bytes.size);
        *at += (size_t)count;
        ONCE_ASSERT(memcmp(bytes.data + *at, "\r\n", 2) == 0);
        *at += 2;
    } else if (kind == '*' || kind == '%' || kind == '~') {
        ONCE_ASSERT(count >= 0 && depth < 8);
        for (long i = 0; i < (kind == '%' ? 2 * count : count); i++) {
            ONCE_ASSERT(*at < bytes.size);
            check_value(bytes, at, protocol, depth + 1);
        }
    }
}

static void check_answer(const struct once__out *out)
{
    struct once_bytes bytes = once_buf_bytes(&out->buf);
    size_t at = 0;

    ONCE_ASSERT(!out->failed && bytes.size > 0);
    check_value(bytes, &at, out->protocol, 0);
    ONCE_ASSERT(at == bytes.size);
}

/* ---- One command ----------------------------------------------------------------------------- */

/* What the store might say. */
static void reply_to(struct once__call *call, const uint8_t *head, struct once_bytes result)
{
    struct once_reply *reply = &call->op.reply;

    *reply = (struct once_reply){.word = (enum once_word)(head[1] % (ONCE_REJECTED + 1)),
                                 .fence = head[3],
                                 .attempt = 1,
                                 .code = head[3] % 3,
                                 .state = (enum once_state)(head[3] % (ONCE_STATE_DOUBT + 1)),
                                 .result = result,
                                 .point = result};
    if (head[2] % 4 == 3)
        *reply = (struct once_reply){.err = -(head[2] / 4 % 37), .effect = head[3] % 2};
    call->outcome = (enum once_outcome)(head[1] / 16 % 3);
}

static void finish(struct once__request *request, enum once__next next, const uint8_t *head,
                   struct once__out *out)
{
    ONCE_ASSERT(out->buf.size == 0);
    ONCE_ASSERT(request->command->finish);
    if (next == ONCE__CALLS) {
        ONCE_ASSERT(request->call_count >= 1);
        for (size_t i = 0; i < request->call_count; i++)
            reply_to(&request->calls[i], head, request->args[request->arg_count - 1]);
    } else if (next == ONCE__JOB) {
        ONCE_ASSERT(request->job.run && request->session->identity.known);
    } else {
        ONCE_ASSERT(next == ONCE__LOGIN && request->login && request->login->config == &config);
        request->login->granted = head[0] & 16;
        request->login->identity = (struct once__identity){.known = true};
    }
    request->command->finish(request, out);
}

static void run(const uint8_t *head, const struct once_bytes *words, size_t count)
{
    bool known = (head[0] >> 1 & 3) < 3;
    struct once__server server = {.open = head[0] & 8, .refuses = head[0] & 32};
    struct once__session session = {
        .server = &server,
        .config = &config,
        .identity = {.known = known,
                     .role = known ? (enum once__role)(head[0] >> 1 & 3) : ONCE__ROLE_ADMIN},
        .protocol = head[0] & 1 ? 3 : 2,
    };
    struct once__request *request = malloc(sizeof(*request));
    struct once__out out;
    enum once__next next;

    ONCE_ASSERT(request);
    memset(request, 0xa5, sizeof(*request)); /* what was there before does not matter */
    request->session = &session;
    request->args = words;
    request->arg_count = count;
    server.session = &session;
    once__out_init(&out, 1 << 26);
    out.protocol = session.protocol;
    next = once__command_start(request, &out);
    ONCE_ASSERT(server.submitted == 0 || (known && server.open));
    if (next != ONCE__ANSWERED)
        finish(request, next, head, &out);
    if (next != ONCE__JOB || request->call_count == 0) /* jobs that call the store need one */
        check_answer(&out);
    once__request_release(request);
    once__out_release(&out);
    free(request);
}

static void prepare(void)
{
    static struct once__user user = {.name = "bob", .role = ONCE__ROLE_WRITE};

    if (metrics)
        return;
    ONCE_ASSERT(once__metrics_new(&metrics) == ONCE_OK);
    config.references = 1;
    config.users = &user;
    config.user_count = 1;
    config.connections_max = 10;
    snprintf(config.otherwise.name, sizeof(config.otherwise.name), "*");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct once_bytes words[WORDS_MAX];
    size_t count = 0;
    uint8_t *block;

    prepare();
    if (size < HEAD_SIZE)
        return 0;
    block = malloc(size); /* exact, so that a read beyond it is seen */
    ONCE_ASSERT(block);
    memcpy(block, data, size);
    for (size_t at = HEAD_SIZE; count < WORDS_MAX; count++) {
        const uint8_t *end = memchr(block + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (block + at)) : size - at;

        words[count] = (struct once_bytes){block + at, length};
        at += length + 1;
        if (!end) {
            count++;
            break;
        }
    }
    run(data, words, count);
    ONCE_ASSERT(config.references == 1); /* every reference was given back */
    free(block);
    return 0;
}
