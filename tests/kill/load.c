/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that is killed: opens the store, compares it with what earlier rounds wrote down,
 * says "ready", and runs begin and complete from many threads until it dies.
 *
 *     kill_load FOLDER ROUND SINCE DURABILITY THREADS
 *
 * Journals of the rounds SINCE to ROUND - 1 are compared. THREADS 0: compare, close, end with 0.
 * Finding anything wrong ends it with status 1 and a line that says what.
 */
#include "kill/journal.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    BATCH_COUNT = 32,  /* operations in one call of the threads that batch */
    CHECK_COUNT = 256, /* operations in one call of the comparison */
    THREADS_MAX = 64,
    SHORT_LEASE_MS = 1,    /* over before anybody can look */
    CLOCK_SLACK_MS = 100,  /* boot time and store time drift apart by no more */
    SEGMENT_SIZE = 1 << 18 /* small: segments are sealed and retired all the time */
};

struct load {
    struct once_store *store;
    int journal;
    uint32_t round;
    _Atomic uint32_t shared_number;
};

/* A call with the text that it borrows. */
struct work {
    struct operation operation;
    char key[KEY_SIZE];
    char result[RESULT_SIZE];
};

static const char *name_of(const struct operation *operation)
{
    static __thread char text[KEY_SIZE];

    key_text(operation, text);
    return text;
}

static void note(struct load *load, enum entry_kind kind, const struct operation *operation,
                 uint64_t fence, once_ms boot_ms)
{
    struct entry entry = {kind, *operation, fence, boot_ms};

    journal_write(load->journal, &entry, 1);
}

static struct once_op op_of(enum once_call_kind call, struct work *work)
{
    struct once_op op = {.call = call, .ns = once_bytes_of("kill")};

    key_text(&work->operation, work->key);
    op.key = once_bytes_of(work->key);
    return op;
}

static struct once_op begin_of(struct work *work)
{
    struct once_op op = op_of(ONCE_CALL_BEGIN, work);

    op.lease_ms = work->operation.number % 16 % 5 == 3 ? 0 : SHORT_LEASE_MS; /* 3, 8, 13 */
    op.ttl_ms = expires_soon(&work->operation) ? SHORT_TTL_MS : 0;
    return op;
}

/* The end of an operation: complete, or resolve. */
static struct once_op end_of(enum once_call_kind call, struct work *work, uint64_t effect_fence)
{
    struct once_op op = op_of(call, work);

    op.done = true;
    op.code = result_code(&work->operation);
    op.result.size = result_text(&work->operation, effect_fence, work->result);
    op.result.data = (const uint8_t *)work->result;
    return op;
}

/* One call that has to be answered. */
static void ask(struct load *load, struct once_op *op)
{
    if (once_call(load->store, op, 1) != ONCE_OK)
        die("%.*s: %s", (int)op->key.size, (const char *)op->key.data,
            once_err_name(op->reply.err));
}

static bool is_right_answer(const struct operation *operation, const struct once_reply *reply,
                            uint64_t fence)
{
    char text[RESULT_SIZE];
    size_t size = result_text(operation, fence, text);

    return reply->code == result_code(operation) && reply->result.size == size &&
           memcmp(reply->result.data, text, size) == 0;
}

/* ---- The load ------------------------------------------------------------------------------- */

/* It was told EXECUTE: the effect runs, and its answer is kept. */
static void run(struct load *load, struct work *work, uint64_t fence)
{
    once_ms boot_ms = boot_now_ms();
    struct once_op op = end_of(ONCE_CALL_COMPLETE, work, fence);

    note(load, ENTRY_BEGUN, &work->operation, fence, boot_ms);
    note(load, ENTRY_EFFECT, &work->operation, fence, boot_ms);
    op.fence = fence;
    ask(load, &op);
    if (op.reply.word != ONCE_DONE)
        die("complete of %s under %" PRIu64 " is %s", work->key, fence,
            once_word_name(op.reply.word));
    note(load, ENTRY_ENDED, &work->operation, fence, boot_ms);
    once_reply_release(&op.reply);
}

static void run_new(struct load *load, uint32_t thread, uint32_t number)
{
    struct work work = {.operation = {load->round, thread, number}};
    struct once_op op = begin_of(&work);

    ask(load, &op);
    if (op.reply.word == ONCE_EXECUTE)
        run(load, &work, op.reply.fence);
    else if (thread != SHARED_THREAD)
        die("begin of the new %s is %s", work.key, once_word_name(op.reply.word));
    once_reply_release(&op.reply);
}

static void run_new_batch(struct load *load, uint32_t thread, uint32_t number)
{
    struct work works[BATCH_COUNT];
    struct once_op ops[BATCH_COUNT];
    struct entry entries[2 * BATCH_COUNT];
    once_ms boot_ms;

    for (uint32_t i = 0; i < BATCH_COUNT; i++) {
        works[i].operation = (struct operation){load->round, thread, number + i};
        ops[i] = begin_of(&works[i]);
    }
    if (once_call(load->store, ops, BATCH_COUNT) != ONCE_OK)
        die("begin of %s and more is refused", works[0].key);
    boot_ms = boot_now_ms();
    for (size_t i = 0; i < BATCH_COUNT; i++) {
        uint64_t fence = ops[i].reply.fence;

        if (ops[i].reply.word != ONCE_EXECUTE)
            die("begin of the new %s is %s", works[i].key, once_word_name(ops[i].reply.word));
        entries[i] = (struct entry){ENTRY_BEGUN, works[i].operation, fence, boot_ms};
        entries[BATCH_COUNT + i] = (struct entry){ENTRY_EFFECT, works[i].operation, fence, boot_ms};
        once_reply_release(&ops[i].reply);
        ops[i] = end_of(ONCE_CALL_COMPLETE, &works[i], fence);
        ops[i].fence = fence;
    }
    journal_write(load->journal, entries, 2 * BATCH_COUNT);
    if (once_call(load->store, ops, BATCH_COUNT) != ONCE_OK)
        die("complete of %s and more is refused", works[0].key);
    for (size_t i = 0; i < BATCH_COUNT; i++) {
        if (ops[i].reply.word != ONCE_DONE)
            die("complete of %s is %s", works[i].key, once_word_name(ops[i].reply.word));
        entries[i].kind = ENTRY_ENDED;
        once_reply_release(&ops[i].reply);
    }
    journal_write(load->journal, entries, BATCH_COUNT);
}

struct loader {
    struct load *load;
    uint32_t thread;
};

/* The first two threads batch; of the others each fourth operation is one that all of them want. */
static void *run_load(void *self)
{
    const struct loader *loader = self;

    for (uint32_t number = 0;;) {
        if (loader->thread < 2) {
            run_new_batch(loader->load, loader->thread, number);
            number += BATCH_COUNT;
            continue;
        }
        run_new(loader->load, loader->thread, number++);
        if (number % 4 == 0)
            run_new(loader->load, SHARED_THREAD, loader->load->shared_number++ / 4);
    }
    return NULL;
}

/* ---- The comparison ------------------------------------------------------------------------- */

/* All that the journals say about one operation. */
struct known {
    struct work work;
    uint64_t begun_fence;  /* the largest; 0: none was told */
    uint64_t effect_fence; /* 0: it did not run */
    bool ended;
    bool freed;
    once_ms boot_ms; /* of the effect: its answer is kept no shorter than from here on */
};

static void learn(struct known *known, const struct entry *entry)
{
    known->work.operation = entry->operation;
    switch ((enum entry_kind)entry->kind) {
    case ENTRY_BEGUN:
        known->begun_fence = entry->fence;
        break;
    case ENTRY_EFFECT:
        if (known->effect_fence != 0)
            die("the effect of %s ran twice, under %" PRIu64 " and %" PRIu64,
                name_of(&entry->operation), known->effect_fence, entry->fence);
        known->effect_fence = entry->fence;
        known->boot_ms = entry->boot_ms;
        break;
    case ENTRY_ENDED: /* in a later journal than the effect: then it stands for both */
        known->effect_fence = entry->fence;
        known->boot_ms = entry->boot_ms;
        known->ended = true;
        break;
    case ENTRY_FREED:
        known->freed = true;
        break;
    }
}

static void check_doubt(struct load *load, struct known *known, uint64_t fence)
{
    struct once_op op;

    if (known->ended)
        die("%s was completed and is in doubt", known->work.key);
    if (known->freed ? fence < known->begun_fence : fence != known->begun_fence)
        die("%s is in doubt under %" PRIu64 ", begun under %" PRIu64, known->work.key, fence,
            known->begun_fence);
    if (known->effect_fence != 0) {
        op = end_of(ONCE_CALL_RESOLVE, &known->work, known->effect_fence);
    } else {
        op = op_of(ONCE_CALL_RESOLVE, &known->work);
        note(load, ENTRY_FREED, &known->work.operation, fence, boot_now_ms());
    }
    op.fence = fence;
    ask(load, &op);
    if (op.reply.word != ONCE_DONE)
        die("resolve of %s is %s", known->work.key, once_word_name(op.reply.word));
    once_reply_release(&op.reply);
    if (known->effect_fence != 0) {
        note(load, ENTRY_ENDED, &known->work.operation, known->effect_fence, known->boot_ms);
        return;
    }
    op = begin_of(&known->work);
    ask(load, &op);
    if (op.reply.word != ONCE_EXECUTE || op.reply.fence <= fence)
        die("%s was freed under %" PRIu64 " and begin is %s, %" PRIu64, known->work.key, fence,
            once_word_name(op.reply.word), op.reply.fence);
    run(load, &known->work, op.reply.fence);
    once_reply_release(&op.reply);
}

/* The answer of begin with the policy REJECT. */
static void check_begin(struct load *load, struct known *known, const struct once_reply *reply)
{
    const char *key = known->work.key;

    switch (reply->word) {
    case ONCE_REPLAY:
        if (known->effect_fence == 0)
            die("%s replays, and its effect never ran", key);
        if (!is_right_answer(&known->work.operation, reply, known->effect_fence))
            die("%s replays another answer", key);
        break;
    case ONCE_DOUBT:
        check_doubt(load, known, reply->fence);
        break;
    case ONCE_BUSY:
        if (known->ended)
            die("%s was completed and is busy", key);
        break;
    case ONCE_EXECUTE:
        if (known->effect_fence != 0)
            die("%s would run again: its effect ran under %" PRIu64 " and begin says EXECUTE", key,
                known->effect_fence);
        if (!known->freed)
            die("%s was begun under %" PRIu64 " and that is lost", key, known->begun_fence);
        run(load, &known->work, reply->fence);
        break;
    case ONCE_MISMATCH:
    case ONCE_TOO_OLD:
    case ONCE_DONE:
    case ONCE_STALE:
    case ONCE_NOTFOUND:
    case ONCE_APPLIED:
    case ONCE_REJECTED:
        die("begin of %s is %s", key, once_word_name(reply->word));
    }
}

/* Of keys that expire soon: begin could be the first of a new life, so they are only looked at. */
static void check_get(struct load *load, struct known *known, const struct once_reply *reply)
{
    bool expired = boot_now_ms() > known->boot_ms + SHORT_TTL_MS - CLOCK_SLACK_MS;

    switch (reply->state) {
    case ONCE_STATE_COMPLETED:
        if (known->effect_fence == 0)
            die("%s is completed, and its effect never ran", known->work.key);
        if (!is_right_answer(&known->work.operation, reply, known->effect_fence))
            die("%s holds another answer", known->work.key);
        break;
    case ONCE_STATE_DOUBT:
        check_doubt(load, known, reply->fence);
        break;
    case ONCE_STATE_STARTED:
        if (known->ended)
            die("%s was completed and is started", known->work.key);
        break;
    case ONCE_STATE_ABSENT:
        if (known->effect_fence == 0 ? !known->freed : !expired)
            die("%s is lost, begun under %" PRIu64 "%s", known->work.key, known->begun_fence,
                known->ended               ? " and completed"
                : known->effect_fence != 0 ? ", its effect ran"
                                           : "");
        break;
    case ONCE_STATE_FAILED:
        if (!known->freed || known->effect_fence != 0)
            die("%s is failed, and nobody said so", known->work.key);
        break;
    }
}

static void check_batch(struct load *load, struct known *knowns, size_t count)
{
    struct once_op ops[CHECK_COUNT];

    for (size_t i = 0; i < count; i++) {
        ops[i] = expires_soon(&knowns[i].work.operation) ? op_of(ONCE_CALL_GET, &knowns[i].work)
                                                         : begin_of(&knowns[i].work);
    }
    if (once_call(load->store, ops, count) != ONCE_OK)
        die("%s and more cannot be looked at", knowns[0].work.key);
    for (size_t i = 0; i < count; i++) {
        if (ops[i].call == ONCE_CALL_GET)
            check_get(load, &knowns[i], &ops[i].reply);
        else
            check_begin(load, &knowns[i], &ops[i].reply);
        once_reply_release(&ops[i].reply);
    }
}

static void compare(struct load *load, const char *folder, uint32_t since)
{
    size_t count, known_count = 0;
    struct entry *entries = journal_read(folder, since, load->round, &count);
    struct known *knowns = calloc(CHECK_COUNT, sizeof(*knowns));

    if (!knowns)
        die("out of memory");
    journal_sort(entries, count);
    for (size_t i = 0; i < count; i++) {
        bool is_new = i == 0 || !same_operation(&entries[i - 1], &entries[i]);

        if (is_new && known_count == CHECK_COUNT) {
            check_batch(load, knowns, known_count);
            known_count = 0;
        }
        if (is_new)
            knowns[known_count++] = (struct known){.ended = false};
        learn(&knowns[known_count - 1], &entries[i]);
    }
    if (known_count > 0)
        check_batch(load, knowns, known_count);
    free(knowns);
    free(entries);
}

/* ---- The program ---------------------------------------------------------------------------- */

static void start_load(struct load *load, uint32_t threads)
{
    static struct loader loaders[THREADS_MAX];
    pthread_t thread;

    for (uint32_t i = 0; i < threads; i++) {
        loaders[i] = (struct loader){load, i};
        if (pthread_create(&thread, NULL, run_load, &loaders[i]) != 0)
            die("no thread");
    }
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    struct once_options options = {.segment_size = SEGMENT_SIZE};
    struct once_message message;
    static struct load load;
    char store_folder[512];
    uint32_t threads;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 6)
        die("usage: kill_load FOLDER ROUND SINCE DURABILITY THREADS");
    load.round = (uint32_t)strtoul(argv[2], NULL, 10);
    options.durability = (enum once_durability)strtoul(argv[4], NULL, 10);
    threads = (uint32_t)strtoul(argv[5], NULL, 10);
    if (threads > THREADS_MAX)
        die("at most %d threads", THREADS_MAX);
    snprintf(store_folder, sizeof(store_folder), "%s/store", argv[1]);
    if (once_open(store_folder, &options, &load.store, &message) != ONCE_OK)
        die("%s", message.text);
    load.journal = journal_append_to(argv[1], load.round);
    compare(&load, argv[1], (uint32_t)strtoul(argv[3], NULL, 10));
    if (write(STDOUT_FILENO, "r", 1) != 1)
        die("nobody listens");
    if (threads > 0)
        start_load(&load, threads);
    if (once_close(load.store) != ONCE_OK)
        die("the store does not close");
    return 0;
}
