/* SPDX-License-Identifier: Apache-2.0
 *
 * Random calls. Bytes are slices of one block of noise, so that nothing has to be allocated or
 * freed, and two results are hardly ever the same.
 */
#include "power/workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NOISE_SIZE = 1 << 17 };

static uint8_t noise_bytes[NOISE_SIZE];

static void make_noise(void)
{
    struct chance chance = {.state = 20};

    for (size_t i = 0; i < sizeof(noise_bytes); i += sizeof(uint64_t)) {
        uint64_t word = chance_next(&chance);

        memcpy(noise_bytes + i, &word, sizeof(word));
    }
}

struct once_bytes workload_noise(struct chance *chance, size_t size)
{
    struct once_bytes bytes = {.size = size};

    if (size > 0)
        bytes.data = noise_bytes + chance_below(chance, NOISE_SIZE - size);
    return bytes;
}

static void name_uuid7(char text[WORKLOAD_NAME_SIZE], once_ms birth_ms, unsigned serial)
{
    snprintf(text, WORKLOAD_NAME_SIZE, "%08" PRIx32 "-%04x-7%03x-8%03x-0123456789ab",
             (uint32_t)((uint64_t)birth_ms >> 16), (unsigned)(birth_ms & 0xffff), serial & 0xfff,
             serial & 0xfff);
}

void workload_init(struct workload *workload, struct chance *chance, struct model *model,
                   int key_count, once_ms wall_ms)
{
    static const char *const spaces[] = {"a", "orders"};

    if (noise_bytes[0] == 0 && noise_bytes[1] == 0 && noise_bytes[2] == 0)
        make_noise();
    for (int i = 0; i < key_count; i++) {
        char *text = workload->texts[i];

        model->births[i] = ONCE_BIRTH_NONE;
        /* Each text is in both namespaces: the name is the pair. */
        snprintf(text, WORKLOAD_NAME_SIZE, "key-%d", i / 2);
        if (i % 4 == 3) {
            once_ms birth_ms = wall_ms + chance_between(chance, -3000, 20000);

            if (chance_percent(chance, 10))
                birth_ms = wall_ms + ONCE_KEY_SKEW_MS_MAX + chance_between(chance, 1, 60000);
            name_uuid7(text, birth_ms, (unsigned)i);
            model->births[i] = birth_ms;
        }
        model->names[i] = once_name_of(spaces[i % 2], text);
    }
    model->key_count = key_count;
}

static struct once_bytes owner(struct chance *chance)
{
    static const char *const owners[] = {"", "one", "two", "a-longer-name-of-an-owner"};
    static const unsigned weights[] = {2, 5, 2, 1};

    return once_bytes_of(owners[chance_pick(chance, weights, 4)]);
}

static struct once_bytes point(struct chance *chance, bool may_be_empty)
{
    static const char *const points[] = {"", "reserved", "charged", "shipped"};

    return once_bytes_of(
        points[may_be_empty ? chance_below(chance, 4) : 1 + chance_below(chance, 3)]);
}

static struct once_bytes payload(const struct workload *workload, struct chance *chance)
{
    if (!chance_percent(chance, workload->large_percent))
        return workload_noise(chance, chance_below(chance, 200));
    if (chance_percent(chance, 70))
        return workload_noise(chance, chance_below(chance, WORKLOAD_LARGE_SIZE));
    return workload_noise(chance, chance_below(chance, workload->segment_size + 2000));
}

static once_ms retention(struct chance *chance)
{
    static const once_ms choices[] = {50, 1000, 3000, 10000, 60000, 0, ONCE_RETENTION_MS_MAX};
    static const unsigned weights[] = {2, 6, 6, 4, 3, 2, 1};

    return choices[chance_pick(chance, weights, 7)];
}

static once_ms lease(struct chance *chance)
{
    static const once_ms choices[] = {5, 100, 800, 5000, 0, ONCE_LEASE_MS_MAX};
    static const unsigned weights[] = {3, 4, 4, 3, 2, 1};

    return choices[chance_pick(chance, weights, 6)];
}

static void begin(struct chance *chance, int key, struct once_op *op)
{
    static const uint8_t prints[2][ONCE_FINGERPRINT_SIZE] = {{1, 2, 3}, {4, 5, 6}};

    op->call = ONCE_CALL_BEGIN;
    op->owner = owner(chance);
    op->ttl_ms = retention(chance);
    op->lease_ms = lease(chance);
    op->on_doubt = chance_percent(chance, 30) ? ONCE_ON_DOUBT_RETRY : ONCE_ON_DOUBT_REJECT;
    /* A key has mostly the same request. */
    if (key % 3 != 0)
        op->fingerprint = (struct once_bytes){prints[chance_percent(chance, 5)],
                                              ONCE_FINGERPRINT_SIZE};
}

static uint64_t fence_for(struct chance *chance, const struct model *model, int key)
{
    uint64_t fence = model->now[key].fence;

    if (chance_percent(chance, 88))
        return fence;
    switch (chance_below(chance, 3)) {
    case 0:
        return 0;
    case 1:
        return fence > 1 ? fence - 1 : 1;
    default:
        return model->last_fence + 1;
    }
}

static void fill(struct workload *workload, struct chance *chance, const struct model *model,
                 int key, struct once_op *op)
{
    op->fence = fence_for(chance, model, key);
    op->code = (int32_t)chance_between(chance, -2, 600);
    switch (op->call) {
    case ONCE_CALL_BEGIN:
        begin(chance, key, op);
        break;
    case ONCE_CALL_COMPLETE:
    case ONCE_CALL_RESOLVE:
        op->done = chance_percent(chance, 60);
        op->result = payload(workload, chance);
        /* The same answer again must be the same OK. */
        if (model->now[key].state == ONCE_STATE_COMPLETED && chance_percent(chance, 50)) {
            op->code = model->now[key].code;
            op->result = model->now[key].result;
        }
        break;
    case ONCE_CALL_FAIL:
        op->result = workload_noise(chance, chance_below(chance, 100));
        break;
    case ONCE_CALL_CHECKPOINT:
        op->point = point(chance, false);
        op->data = payload(workload, chance);
        op->follows = chance_percent(chance, 50);
        op->after = chance_percent(chance, 60) ? model->now[key].point : point(chance, true);
        break;
    case ONCE_CALL_RENEW:
        op->lease_ms = chance_percent(chance, 25) ? 0 : lease(chance);
        break;
    case ONCE_CALL_FORGET:
        if (chance_percent(chance, 50))
            op->fence = 0;
        break;
    case ONCE_CALL_SET:
        op->result = payload(workload, chance);
        op->when = (enum once_when)chance_below(chance, 3);
        op->keep_ttl = chance_percent(chance, 20);
        op->ttl_ms = retention(chance);
        break;
    case ONCE_CALL_EXPIRE:
        op->ttl_ms = retention(chance);
        if (op->ttl_ms == 0)
            op->until_ms = model->time_top_ms + (once_ms)chance_below(chance, 5000);
        break;
    case ONCE_CALL_GET:
    case ONCE_CALL_APPLY: /* an extension's */
    case ONCE_CALL_MERGE:
        break;
    }
}

/* How likely each call is, in each state. */
enum { CALL_COUNT = 10 };
static const enum once_call_kind calls[CALL_COUNT] = {
    ONCE_CALL_BEGIN,   ONCE_CALL_COMPLETE, ONCE_CALL_FAIL, ONCE_CALL_CHECKPOINT, ONCE_CALL_RENEW,
    ONCE_CALL_RESOLVE, ONCE_CALL_FORGET,   ONCE_CALL_GET,  ONCE_CALL_SET,        ONCE_CALL_EXPIRE};
static const unsigned call_weights[][CALL_COUNT] = {
    [ONCE_STATE_ABSENT] = {30, 1, 1, 1, 1, 1, 1, 2, 6, 1},
    [ONCE_STATE_STARTED] = {6, 14, 4, 4, 4, 1, 1, 2, 1, 1},
    [ONCE_STATE_COMPLETED] = {10, 3, 1, 1, 1, 1, 4, 3, 3, 3},
    [ONCE_STATE_FAILED] = {14, 1, 2, 1, 1, 1, 3, 2, 2, 1},
    [ONCE_STATE_DOUBT] = {8, 4, 2, 2, 2, 6, 2, 3, 1, 1},
};

void workload_call(struct workload *workload, struct chance *chance, const struct model *model,
                   int key, once_ms now_ms, struct once_op *ret_op)
{
    enum once_state state = once__state_at(&model->now[key], now_ms);

    *ret_op = (struct once_op){.ns = model->names[key].ns, .key = model->names[key].key};
    if (chance_percent(chance, workload->sense_percent))
        ret_op->call = calls[chance_pick(chance, call_weights[state], CALL_COUNT)];
    else
        ret_op->call = calls[chance_below(chance, CALL_COUNT)];
    fill(workload, chance, model, key, ret_op);
}

int workload_next(struct workload *workload, struct chance *chance, const struct model *model,
                  once_ms now_ms, struct once_op *ret_op)
{
    struct extension *extension = model->extension;
    int key;

    if (extension && extension->next(extension->self, chance, now_ms, &key, ret_op))
        return key;
    key = (int)chance_below(chance, (uint64_t)model->key_count);
    workload_call(workload, chance, model, key, now_ms, ret_op);
    return key;
}

once_ms workload_pause(struct chance *chance)
{
    static const once_ms most[] = {0, 20, 1000, 10000, 200000, 100000000};
    static const unsigned weights[] = {20, 30, 30, 14, 5, 1};

    return (once_ms)chance_below(chance, (uint64_t)most[chance_pick(chance, weights, 6)] + 1);
}
