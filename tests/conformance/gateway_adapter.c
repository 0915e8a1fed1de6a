/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite through the gateway: a real nginx with the module, in front of a service
 * that is this program, and behind it a real server whose clock the suite moves.
 *
 *     conformance_gateway --settings
 *     conformance_gateway --port P --socket PATH [--threads N] [--disk] [scenario]
 *
 * The first form prints what nginx must be configured with, a line "ttl lease doubt" each (0: the
 * default): one virtual host t<ttl>.l<lease>.<doubt> for each, which takes the namespace from
 * X-Namespace and passes to X-Upstream. tests/e2e/test_gateway_conformance.py does that, and starts
 * the second.
 *
 * A begin is a POST. If it arrives at the service it is an EXECUTE and is held there, until the
 * suite says how it ends: complete is an answer, fail is 503, renew 0 is a connection that is
 * closed. What a gateway never says (checkpoint, renew, resolve, forget, get; an owner who asks
 * again; the end of a request that has ended) goes to the server over RESP. How many calls went
 * which way is printed at the end. Codes of results are statuses here: a code from -10 to 10 is
 * sent as 250 + code.
 */
#include "conformance/gateway_held.h"
#include "conformance/resp_calls.h"
#include "conformance/scenario.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { KEPT_SIZE = 1024, CODE_MAX = 10, CODE_ZERO = 250, LEASE_MS_MIN = 1000 };

struct gateway {
    struct served *served;
    struct held_list held;
};

static uint16_t gateway_port;

#define WAYS(X)                                                                                    \
    X(GATEWAY_BEGIN, "through the gateway: begin")                                                 \
    X(GATEWAY_COMPLETE, "through the gateway: complete")                                           \
    X(GATEWAY_FAIL, "through the gateway: fail")                                                   \
    X(GATEWAY_DOUBT, "through the gateway: doubt")                                                 \
    X(DIRECT_OWNER, "direct: begin of an owner who asks again")                                    \
    X(DIRECT_UNSAID, "direct: begin that no request can be")                                       \
    X(DIRECT_COMPLETE, "direct: complete of a request that has ended")                             \
    X(DIRECT_FAIL, "direct: fail of a request that has ended, or with a reason")                   \
    X(DIRECT_RENEW, "direct: renew")                                                               \
    X(DIRECT_CHECKPOINT, "direct: checkpoint")                                                     \
    X(DIRECT_RESOLVE, "direct: resolve")                                                           \
    X(DIRECT_FORGET, "direct: forget")                                                             \
    X(DIRECT_GET, "direct: get")
enum way {
#define WAY_ID(id, text) id,
    WAYS(WAY_ID)
#undef WAY_ID
        WAY_COUNT
};
static atomic_uint ways[WAY_COUNT];

/* ---- Codes and results ----------------------------------------------------------------------- */

static int32_t status_of(int32_t code)
{
    return code >= -CODE_MAX && code <= CODE_MAX ? CODE_ZERO + code : code;
}

static int32_t code_of(int32_t status)
{
    return status >= CODE_ZERO - CODE_MAX && status <= CODE_ZERO + CODE_MAX ? status - CODE_ZERO
                                                                            : status;
}

/* A result as the gateway keeps it when the service sends no headers: see gate_kept.c. */
static struct once_bytes kept(const struct conformance_call *call, uint8_t *space)
{
    int size = snprintf((char *)space, KEPT_SIZE, "once http 1 %" PRId32 " %zu\n\n",
                        status_of(call->code), call->result.size);

    ONCE_ASSERT(size > 0 && (size_t)size + call->result.size <= KEPT_SIZE);
    if (call->result.size > 0)
        memcpy(space + size, call->result.data, call->result.size);
    return (struct once_bytes){space, (size_t)size + call->result.size};
}

static void read_kept(struct conformance_answer *answer)
{
    static const char head[] = "once http 1 ";
    const char *body = strncmp(answer->result, head, sizeof(head) - 1) == 0
                           ? strstr(answer->result, "\n\n")
                           : NULL;

    answer->code = code_of(answer->code);
    if (!body)
        return; /* of someone who resolved it */
    answer->result_size -= (size_t)(body + 2 - answer->result);
    memmove(answer->result, body + 2, CONFORMANCE_BYTES_MAX - (size_t)(body + 2 - answer->result));
}

/* ---- Begin ----------------------------------------------------------------------------------- */

/* The gateway makes owners itself; its times are its configuration, which nginx checks when it
 * starts; and a header has one line. */
static bool can_be_asked(const struct conformance_call *call)
{
    return !strpbrk(call->key, "\r\n") &&
           (!call->owner || strlen(call->owner) <= ONCE_OWNER_SIZE_MAX) &&
           (call->lease_ms == 0 ||
            (call->lease_ms >= LEASE_MS_MIN && call->lease_ms <= ONCE_LEASE_MS_MAX)) &&
           (call->ttl_ms == 0 || (call->ttl_ms >= 1 && call->ttl_ms <= ONCE_RETENTION_MS_MAX));
}

/* What gate_link does when the reply to a begin was lost: the same begin, of the same owner. */
static void begin_again(struct gateway *gateway, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    const struct once_fingerprint_spec spec = {.method = once_bytes_of("POST"),
                                               .path = once_bytes_of(GATEWAY_PATH)};
    struct conformance_call again = *call;
    struct once_fingerprinter *printer;
    struct once_fingerprint fingerprint;
    char owner[CONFORMANCE_BYTES_MAX];

    ONCE_ASSERT(once_fingerprinter_new(&spec, &printer) == ONCE_OK);
    ONCE_ASSERT(once_fingerprinter_body(printer, once_bytes_of(call->fingerprint)) == ONCE_OK);
    ONCE_ASSERT(once_fingerprinter_finish(printer, &fingerprint, NULL) == ONCE_OK);
    once_fingerprinter_free(printer);
    resp_owner(gateway->served, call, owner);
    again.owner = owner;
    resp_begin_as(gateway->served, &again,
                  (struct once_bytes){fingerprint.bytes, sizeof(fingerprint.bytes)}, ret);
}

/* What neither the service nor the client is told. */
static void add_record(struct gateway *gateway, const struct conformance_call *call,
                       struct conformance_answer *ret)
{
    struct conformance_answer record;

    resp_get(gateway->served, call, &record);
    if (ret->word == ONCE_DOUBT) {
        ret->fence = record.fence;
        ret->attempt = record.attempt;
    }
    ONCE_ASSERT(record.err == ONCE_OK && record.fence == ret->fence &&
                record.attempt == ret->attempt);
    memcpy(ret->point, record.point, sizeof(ret->point));
    memcpy(ret->data, record.data, sizeof(ret->data));
}

static void unexpected(const struct gateway_answer *answer, struct conformance_answer *ret)
{
    printf("# the gateway says %d: %s\n", answer->status, answer->body);
    ret->err = ONCE_ERR_UNSUPPORTED;
}

/* A key that the gateway refuses: by the text of its parser, or because the server did. */
static int key_err(const struct conformance_call *call, const struct gateway_answer *answer)
{
    struct once_defect defect = {.what = NULL};
    char header[2 * CONFORMANCE_BYTES_MAX];
    struct once_key key;
    int err;

    snprintf(header, sizeof(header), "\"%s\"", call->key);
    err = once_key_parse_header(once_bytes_of(header), &key, &defect);
    if (err == ONCE_OK)
        return strstr(answer->body, "in the future") ? ONCE_ERR_KEY_FUTURE : ONCE_ERR_UNSUPPORTED;
    return strstr(answer->body, defect.what) ? err : ONCE_ERR_UNSUPPORTED;
}

static void read_answer(struct gateway *gateway, const struct conformance_call *call,
                        const struct gateway_answer *answer, struct conformance_answer *ret)
{
    if (answer->replayed) {
        ret->word = ONCE_REPLAY;
        ret->code = code_of(answer->status);
        ret->result_size = answer->body_size;
        served_copy(ret->result,
                    (struct once_bytes){(const uint8_t *)answer->body, answer->body_size});
    } else if (answer->verdict[0] != '\0') {
        ONCE_ASSERT(served_word(once_bytes_of(answer->verdict), &ret->word));
        if (ret->word == ONCE_BUSY)
            ret->retry_ms = answer->retry_ms;
        if (ret->word == ONCE_DOUBT)
            add_record(gateway, call, ret);
    } else if (answer->status == 400 && strcmp(answer->problem, "key-malformed") == 0) {
        ret->err = key_err(call, answer);
    } else if (answer->status == 500) { /* a namespace that is none: the error log says so */
        ret->err = ONCE_ERR_INVALID;
    } else {
        unexpected(answer, ret);
    }
}

static void ask_gateway(struct gateway *gateway, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    struct gateway_request request = {.port = gateway_port,
                                      .ns = call->ns,
                                      .key = call->key,
                                      .body = call->fingerprint ? call->fingerprint : ""};
    struct gateway_pair pair;
    struct gateway_answer answer;

    snprintf(request.host, sizeof(request.host), "t%" PRId64 ".l%" PRId64 ".%s", call->ttl_ms,
             call->lease_ms, call->on_doubt == ONCE_ON_DOUBT_RETRY ? "retry" : "reject");
    *ret = (struct conformance_answer){.err = ONCE_OK};
    if (!gateway_ask(&request, &pair, &ret->fence, &ret->attempt)) {
        gateway_read(&pair, &answer);
        read_answer(gateway, call, &answer, ret);
        gateway_close(&pair);
        return;
    }
    ret->word = ONCE_EXECUTE;
    add_record(gateway, call, ret);
    held_add(&gateway->held, call, ret->fence, pair);
}

static void store_begin(void *self, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    struct gateway *gateway = self;

    if (held_by_caller(&gateway->held, call)) {
        ways[DIRECT_OWNER]++;
        begin_again(gateway, call, ret);
    } else if (!can_be_asked(call)) {
        ways[DIRECT_UNSAID]++;
        resp_begin(gateway->served, call, ret);
    } else {
        ways[GATEWAY_BEGIN]++;
        ask_gateway(gateway, call, ret);
    }
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* The service answers, status 0 is that it closes; the client's answer tells what became of it. */
static void end(struct held *held, int status, struct once_bytes body,
                struct conformance_answer *ret)
{
    struct gateway_answer answer;

    *ret = (struct conformance_answer){.err = ONCE_OK};
    gateway_say(&held->pair, status, body);
    gateway_read(&held->pair, &answer);
    if (strcmp(answer.verdict, "STALE") == 0)
        ret->word = ONCE_STALE;
    else if (status == 0
                 ? answer.status == 502 && strcmp(answer.verdict, "DOUBT") == 0
                 : answer.status == status && !answer.replayed && answer.body_size == body.size &&
                       (body.size == 0 || memcmp(answer.body, body.data, body.size) == 0))
        ret->word = ONCE_DONE;
    else
        unexpected(&answer, ret);
    gateway_close(&held->pair);
    free(held);
}

static void store_complete(void *self, const struct conformance_call *call,
                           struct conformance_answer *ret)
{
    struct gateway *gateway = self;
    struct held *held = held_take(&gateway->held, call);
    struct conformance_call direct = *call;
    uint8_t space[KEPT_SIZE];

    if (held) {
        ways[GATEWAY_COMPLETE]++;
        end(held, status_of(call->code), call->result, ret);
        return;
    }
    ways[DIRECT_COMPLETE]++;
    direct.result = kept(call, space);
    direct.code = status_of(call->code);
    resp_complete(gateway->served, &direct, ret);
}

static void store_fail(void *self, const struct conformance_call *call,
                       struct conformance_answer *ret)
{
    struct gateway *gateway = self;
    /* The gateway has reasons of its own. */
    struct held *held = call->result.size == 0 ? held_take(&gateway->held, call) : NULL;

    if (held) {
        ways[GATEWAY_FAIL]++;
        end(held, 503, once_bytes_of("not now"), ret);
        return;
    }
    ways[DIRECT_FAIL]++;
    resp_fail(gateway->served, call, ret);
    if (ret->err == ONCE_OK && ret->word == ONCE_DONE)
        held_mark_over(&gateway->held, call);
}

static void store_renew(void *self, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    struct gateway *gateway = self;
    struct held *held = call->lease_ms == 0 ? held_take(&gateway->held, call) : NULL;

    if (held) {
        ways[GATEWAY_DOUBT]++;
        end(held, 0, once_bytes_of(""), ret);
        return;
    }
    ways[DIRECT_RENEW]++;
    resp_renew(gateway->served, call, ret);
}

/* ---- Direct ---------------------------------------------------------------------------------- */

static void store_checkpoint(void *self, const struct conformance_call *call,
                             struct conformance_answer *ret)
{
    struct gateway *gateway = self;

    ways[DIRECT_CHECKPOINT]++;
    resp_checkpoint(gateway->served, call, ret);
}

static void store_resolve(void *self, const struct conformance_call *call,
                          struct conformance_answer *ret)
{
    struct gateway *gateway = self;
    struct conformance_call direct = *call;

    ways[DIRECT_RESOLVE]++;
    direct.code = status_of(call->code);
    resp_resolve(gateway->served, &direct, ret);
}

static void store_forget(void *self, const struct conformance_call *call,
                         struct conformance_answer *ret)
{
    struct gateway *gateway = self;

    ways[DIRECT_FORGET]++;
    resp_forget(gateway->served, call, ret);
    if (ret->err == ONCE_OK && ret->word == ONCE_DONE)
        held_mark_over(&gateway->held, call);
}

static void store_get(void *self, const struct conformance_call *call,
                      struct conformance_answer *ret)
{
    struct gateway *gateway = self;

    ways[DIRECT_GET]++;
    resp_get(gateway->served, call, ret);
    if (ret->err == ONCE_OK && ret->state == ONCE_STATE_COMPLETED)
        read_kept(ret);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void *store_open(once_ms start_ms)
{
    struct gateway *gateway = calloc(1, sizeof(*gateway));

    ONCE_ASSERT(gateway != NULL);
    held_init(&gateway->held);
    gateway->served = served_open(start_ms, served_on_disk, &resp_link);
    if (gateway->served)
        return gateway;
    free(gateway);
    return NULL;
}

/* Requests end before their server does, so that none tells the next one of it. */
static void store_close(void *self)
{
    struct gateway *gateway = self;

    held_release(&gateway->held);
    served_close(gateway->served);
    free(gateway);
}

static void *store_restart(void *self)
{
    struct gateway *gateway = self;

    gateway->served = served_restart(gateway->served);
    return gateway->served ? gateway : NULL;
}

static void store_advance(void *self, once_ms by_ms)
{
    struct gateway *gateway = self;

    served_advance(gateway->served, by_ms);
}

/* ---- Main ------------------------------------------------------------------------------------ */

static int print_settings(void)
{
    for (const struct scenario *scenario = scenarios; scenario->name; scenario++) {
        for (const struct step *step = scenario->steps; step->kind != STEP_END; step++) {
            struct conformance_call call = {
                .key = "", .ttl_ms = step->ttl_ms, .lease_ms = step->lease_ms};

            if (step->kind == STEP_BEGIN && can_be_asked(&call))
                printf("%" PRId64 " %" PRId64 " %s\n", step->ttl_ms, step->lease_ms,
                       step->retry_doubt ? "retry" : "reject");
        }
    }
    return 0;
}

static void print_ways(void)
{
    static const char *const texts[] = {
#define WAY_TEXT(id, text) text,
        WAYS(WAY_TEXT)
#undef WAY_TEXT
    };

    for (int way = 0; way < WAY_COUNT; way++)
        printf("# %s: %u\n", texts[way], ways[way]);
}

int main(int argc, char **argv)
{
    struct conformance_adapter adapter = {
        .open = store_open,
        .close = store_close,
        .advance = store_advance,
        .restart = store_restart,
        .begin = store_begin,
        .complete = store_complete,
        .fail = store_fail,
        .checkpoint = store_checkpoint,
        .renew = store_renew,
        .resolve = store_resolve,
        .forget = store_forget,
        .get = store_get,
    };
    int failed;

    if (argc == 2 && strcmp(argv[1], "--settings") == 0)
        return print_settings();
    if (argc < 5 || strcmp(argv[1], "--port") != 0 || strcmp(argv[3], "--socket") != 0) {
        fprintf(stderr, "usage: conformance_gateway --settings | --port P --socket PATH "
                        "[--threads N] [--disk] [scenario]\n");
        return 64;
    }
    gateway_port = (uint16_t)strtoul(argv[2], NULL, 10);
    served_socket = argv[4];
    failed = served_main(argc - 4, argv + 4, &adapter, "gateway");
    print_ways();
    return failed;
}
