/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the engine: a store on the test disk under a clock that only the test moves, opened,
 * closed, killed and cut off from power again and again. Without threads unless a test asks for
 * them, so the same calls give the same bytes.
 */
#ifndef ONCE_TESTS_ENGINE_HELP_H
#define ONCE_TESTS_ENGINE_HELP_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <once/store.h>

#include "disk/disk.h"
#include "engine/engine.h"
#include "engine/format.h"

enum { LIFE_SEGMENT_SIZE = ONCE_SEGMENT_SIZE_MIN, LIFE_KEY_SIZE = 32, LIFE_WORK_MAX = 100000 };

#define LIFE_DISK_SIZE (1ULL << 26)
#define LIFE_START_MS 1700000000000LL
#define LIFE_HOUR_MS 3600000LL

struct life {
    struct disk *disk;
    struct once_store *store;
    struct once_options options;
    bool with_threads;
    _Atomic once_ms wall_ms;
    _Atomic once_ms boot_ms;
    struct once__time_source time;
};

/* ---- Time ------------------------------------------------------------------------------------ */

static inline once_ms life_wall(void *self)
{
    return ((struct life *)self)->wall_ms;
}

static inline once_ms life_boot(void *self)
{
    return ((struct life *)self)->boot_ms;
}

/* Time goes on as it should: both clocks together. */
static inline void life_pass(struct life *life, once_ms ms)
{
    life->wall_ms += ms;
    life->boot_ms += ms;
}

/* ---- Life and death -------------------------------------------------------------------------- */

static inline int life_try_open(struct life *life, struct once_message *ret_message)
{
    struct once__engine_setup setup = {
        .vfs = disk_mount(life->disk),
        .time = &life->time,
        .options = life->options,
        .manual = !life->with_threads,
    };

    life->store = NULL;
    return once__engine_open(&setup, &life->store, ret_message);
}

static inline void life_open(struct life *life)
{
    struct once_message message = {""};
    int err = life_try_open(life, &message);

    if (err != ONCE_OK)
        fail_msg("open: %s: %s", once_err_name(err), message.text);
}

/* A life that was not begun: the options may still be set. */
static inline void life_prepare(struct life *life, uint64_t disk_size)
{
    *life = (struct life){.options = {.segment_size = LIFE_SEGMENT_SIZE}, .wall_ms = LIFE_START_MS};
    life->time = (struct once__time_source){life_wall, life_boot, life};
    life->disk = disk_new(1, disk_size);
}

static inline void life_begin(struct life *life)
{
    life_prepare(life, LIFE_DISK_SIZE);
    life_open(life);
}

static inline void life_close(struct life *life)
{
    assert_int_equal(once_close(life->store), ONCE_OK);
    life->store = NULL;
}

/* The process dies; the system does not. */
static inline void life_kill(struct life *life)
{
    disk_kill(life->disk);
    once__engine_crash(life->store);
    life->store = NULL;
}

/* Power fails. */
static inline void life_cut(struct life *life)
{
    disk_cut(life->disk);
    once__engine_crash(life->store);
    life->store = NULL;
}

enum life_end { LIFE_CLOSED, LIFE_KILLED, LIFE_CUT, LIFE_END_COUNT };

/* Ends in that way, and opens again; the machine's boot clock starts anew after a power cut. */
static inline void life_again(struct life *life, enum life_end end)
{
    if (end == LIFE_CLOSED)
        life_close(life);
    else if (end == LIFE_KILLED)
        life_kill(life);
    else
        life_cut(life);
    if (end == LIFE_CUT)
        life->boot_ms = 0;
    life_open(life);
}

static inline void life_end(struct life *life)
{
    if (life->store)
        (void)once_close(life->store);
    disk_free(life->disk);
}

/* All the work behind the scenes that there is. */
static inline void life_work(struct life *life)
{
    for (int i = 0; once__engine_work(life->store); i++)
        assert_true(i < LIFE_WORK_MAX);
}

/* Writes whatever is to be written, and tells it. */
static inline void life_write(struct life *life)
{
    struct once__write *write;

    while ((write = once__engine_take(life->store)))
        once__engine_written(life->store, write, once__engine_write(life->store, write));
}

static inline struct once_stats life_stats(struct life *life)
{
    struct once_stats stats;

    once_stats_get(life->store, &stats);
    return stats;
}

/* ---- Operations: blocking, all expected to be decided ---------------------------------------- */

struct life_key {
    char text[LIFE_KEY_SIZE];
};

static inline struct life_key life_key(unsigned number)
{
    struct life_key key;

    snprintf(key.text, sizeof(key.text), "key-%u", number);
    return key;
}

static inline int life_call(struct life *life, struct once_op *op, const char *key)
{
    if (op->ns.size == 0)
        op->ns = once_bytes_of("test");
    op->key = once_bytes_of(key);
    return once_call(life->store, op, 1);
}

/* The word of a call that must be decided; the fence is written where one is given. */
static inline enum once_word life_word(struct life *life, struct once_op op, const char *key,
                                       uint64_t *ret_fence)
{
    enum once_word word;
    int err = life_call(life, &op, key);

    if (err != ONCE_OK)
        fail_msg("%s: %s: %s", key, once_err_name(err), op.reply.what ? op.reply.what : "");
    word = op.reply.word;
    if (ret_fence)
        *ret_fence = op.reply.fence;
    once_reply_release(&op.reply);
    return word;
}

static inline enum once_word life_begin_op(struct life *life, const char *key, uint64_t *ret_fence)
{
    return life_word(life, (struct once_op){.call = ONCE_CALL_BEGIN}, key, ret_fence);
}

/* Begins a new operation and gives its fence. */
static inline uint64_t life_start(struct life *life, const char *key)
{
    uint64_t fence = 0;

    assert_int_equal(life_begin_op(life, key, &fence), ONCE_EXECUTE);
    return fence;
}

static inline enum once_word life_complete(struct life *life, const char *key, uint64_t fence,
                                           const char *result)
{
    return life_word(life,
                     (struct once_op){.call = ONCE_CALL_COMPLETE,
                                      .fence = fence,
                                      .code = 200,
                                      .result = once_bytes_of(result)},
                     key, NULL);
}

/* Begins and completes, to be kept for ttl_ms (0: a day). */
static inline void life_do(struct life *life, const char *key, once_ms ttl_ms)
{
    struct once_op op = {.call = ONCE_CALL_BEGIN, .ttl_ms = ttl_ms};
    uint64_t fence = 0;

    assert_int_equal(life_word(life, op, key, &fence), ONCE_EXECUTE);
    assert_int_equal(life_complete(life, key, fence, "done"), ONCE_DONE);
}

static inline enum once_word life_get(struct life *life, const char *key)
{
    return life_word(life, (struct once_op){.call = ONCE_CALL_GET}, key, NULL);
}

/* ABSENT when there is none. */
static inline enum once_state life_state(struct life *life, const char *key)
{
    struct once_op op = {.call = ONCE_CALL_GET};
    enum once_state state;

    assert_int_equal(life_call(life, &op, key), ONCE_OK);
    state = op.reply.word == ONCE_DONE ? op.reply.state : ONCE_STATE_ABSENT;
    once_reply_release(&op.reply);
    return state;
}

/* Writes other operations, each kept for ttl_ms, until the log is in another segment. number is
 * the next of them. */
static inline void life_roll(struct life *life, once_ms ttl_ms, unsigned *number)
{
    uint64_t segments = life_stats(life).segments;

    while (life_stats(life).segments == segments) {
        char key[LIFE_KEY_SIZE];

        snprintf(key, sizeof(key), "filler-%u", (*number)++);
        life_do(life, key, ttl_ms);
    }
}

/* ---- Submitted ------------------------------------------------------------------------------- */

/* An operation that counts how often, and when among the others, it was told. */
struct life_op {
    struct once_op op; /* first */
    struct life_key key;
    unsigned *clock; /* shared: one more for each that is told */
    unsigned told_at;
    unsigned told;
};

static inline void life_told(struct once_op *op)
{
    struct life_op *self = (struct life_op *)(void *)op;

    self->told++;
    self->told_at = ++*self->clock;
}

static inline void life_submit(struct life *life, struct life_op *op, const char *key)
{
    snprintf(op->key.text, sizeof(op->key.text), "%s", key);
    op->op.ns = once_bytes_of("test");
    op->op.key = once_bytes_of(op->key.text);
    op->op.told = life_told;
    op->told = 0;
    assert_int_equal(once_submit(life->store, &op->op), ONCE_OK);
    assert_int_equal(op->told, 0);
}

#endif
