/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the store on PostgreSQL for tests/e2e/test_pg_store.py, which does things to the database
 * meanwhile. Reads commands, one a line, and writes one line for each answer:
 *
 *     begin ID KEY | complete ID KEY FENCE RESULT | fail ID KEY FENCE | get ID KEY | forget ID KEY
 *         submitted at once, answered when told:  ID WORD FENCE CODE RESULT MS   (or ID ERROR - …)
 *     list STATE        every key of this state, then "."
 *     stats             asked_again unsettled links_up links_lost unreachable calls batches
 *     load THREADS KEYS MS   many threads on the same keys, new ones as long as there is time; then
 *         keys, executed once, twice, never, wrong answers, begins given up
 *     rate CLIENTS MS   so many clients, each begins and completes new keys; calls a second,
 *         and calls of one round trip
 *     close             how long it took, in ms
 *
 * A key of the load is begun by every thread, anonymously: whoever gets EXECUTE is the effect,
 * makes three checkpoints at once, each behind the one before, and completes. So a lost EXECUTE
 * shows as a key that is never done, and a wrong order as a stale checkpoint.
 */
#include "store/postgres/pg.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct once_store *store;
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;
static const char *ns = "drive";

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void say(void *user, enum once__pg_level level, const char *event, const char *text)
{
    (void)user;
    fprintf(stderr, "%d %s: %s\n", (int)level, event, text);
}

/* ---- One call, submitted --------------------------------------------------------------------- */

struct asked {
    struct once_op op;
    char id[32];
    char key[256];
    char result[256];
    int64_t begun_ms;
};

static void told(struct once_op *op)
{
    struct asked *asked = op->user;
    const struct once_reply *reply = &op->reply;

    pthread_mutex_lock(&out_lock);
    if (reply->err != ONCE_OK)
        printf("%s %s - - - %" PRId64 "\n", asked->id, once_err_name(reply->err),
               now_ms() - asked->begun_ms);
    else
        printf("%s %s %" PRIu64 " %d %.*s %" PRId64 "\n", asked->id, once_word_name(reply->word),
               reply->fence, (int)reply->code, reply->result.size > 0 ? (int)reply->result.size : 1,
               reply->result.size > 0 ? (const char *)reply->result.data : "-",
               now_ms() - asked->begun_ms);
    fflush(stdout);
    pthread_mutex_unlock(&out_lock);
    once_reply_release(&op->reply);
    free(asked);
}

static bool submit(const char *line)
{
    static const struct {
        const char *name;
        enum once_call_kind call;
    } calls[] = {{"begin", ONCE_CALL_BEGIN},
                 {"complete", ONCE_CALL_COMPLETE},
                 {"fail", ONCE_CALL_FAIL},
                 {"get", ONCE_CALL_GET},
                 {"forget", ONCE_CALL_FORGET}};
    struct asked *asked = calloc(1, sizeof(*asked));
    char word[16];
    uint64_t fence = 0;

    if (!asked || sscanf(line, "%15s %31s %255s %" SCNu64 " %255s", word, asked->id, asked->key,
                         &fence, asked->result) < 3) {
        free(asked);
        return false;
    }
    asked->op.call = (enum once_call_kind)99;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (strcmp(word, calls[i].name) == 0)
            asked->op.call = calls[i].call;
    }
    asked->op.ns = once_bytes_of(ns);
    asked->op.key = once_bytes_of(asked->key);
    asked->op.fence = fence;
    asked->op.result = once_bytes_of(asked->result);
    asked->op.told = told;
    asked->op.user = asked;
    asked->begun_ms = now_ms();
    if (once_submit(store, &asked->op) == ONCE_OK)
        return true;
    free(asked);
    return false;
}

/* ---- The load -------------------------------------------------------------------------------- */

struct load {
    size_t thread_count;
    size_t key_count; /* of a round */
    int64_t until_ms;
    atomic_size_t round;
    atomic_size_t wrong;
    atomic_size_t given_up;
    size_t rounds_max;
    atomic_uint *effects; /* of every key of every round */
};

static void *check_memory(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* True: OK. An error is asked again until it is known. */
static bool finish_key(struct load *load, struct once_name name, uint64_t fence, const char *result)
{
    static const char *const points[] = {"", "a", "b", "c"};
    struct once_op ops[3];
    struct once_reply reply;
    bool fine = true;
    int err;

    for (size_t i = 0; i < 3; i++)
        ops[i] = (struct once_op){.call = ONCE_CALL_CHECKPOINT,
                                  .ns = name.ns,
                                  .key = name.key,
                                  .fence = fence,
                                  .point = once_bytes_of(points[i + 1]),
                                  .follows = true,
                                  .after = once_bytes_of(points[i])};
    (void)once_call(store, ops, 3);
    for (size_t i = 0; i < 3; i++) {
        if (ops[i].reply.err == ONCE_OK && ops[i].reply.word != ONCE_DONE)
            fine = false;
        once_reply_release(&ops[i].reply);
    }
    do {
        err = once_complete(store, name, fence, 7, once_bytes_of(result), &reply);
        fine = fine && (err != ONCE_OK || reply.word == ONCE_DONE);
        once_reply_release(&reply);
    } while (err == ONCE_ERR_IO && now_ms() < load->until_ms + 30000);
    if (!fine)
        atomic_fetch_add(&load->wrong, 1);
    return fine && err == ONCE_OK;
}

/* Until it is done. */
static void do_key(struct load *load, size_t number)
{
    char key[32], result[32];
    struct once_name name;

    snprintf(key, sizeof(key), "load-%zu", number);
    snprintf(result, sizeof(result), "r%zu", number);
    name = once_name_of(ns, key);
    while (now_ms() < load->until_ms + 30000) {
        struct once_begin_options options = {.lease_ms = 60000};
        struct once_reply reply;
        int err = once_begin(store, name, &options, &reply);
        enum once_word word = reply.word;
        bool same = reply.result.size == strlen(result) && reply.code == 7 &&
                    memcmp(reply.result.data, result, reply.result.size) == 0;
        uint64_t fence = reply.fence;

        once_reply_release(&reply);
        if (err != ONCE_OK) {
            atomic_fetch_add(&load->given_up, 1);
            continue;
        }
        if (word == ONCE_EXECUTE) {
            atomic_fetch_add(&load->effects[number], 1);
            if (!finish_key(load, name, fence, result))
                fprintf(stderr, "%s: its end was refused\n", key);
        } else if (word == ONCE_REPLAY) {
            if (!same)
                atomic_fetch_add(&load->wrong, 1);
            return;
        } else if (word != ONCE_BUSY) {
            fprintf(stderr, "%s: %s\n", key, once_word_name(word));
            atomic_fetch_add(&load->wrong, 1);
            return;
        } else {
            struct timespec pause = {.tv_nsec = 2000000};

            nanosleep(&pause, NULL);
        }
    }
}

static void *load_run(void *user)
{
    struct load *load = user;

    for (size_t round = 0; round < load->rounds_max; round++) {
        if (round > 0 && now_ms() >= load->until_ms)
            break;
        for (size_t i = 0; i < load->key_count; i++)
            do_key(load, round * load->key_count + i);
        if (round + 1 > atomic_load(&load->round))
            atomic_store(&load->round, round + 1);
    }
    return NULL;
}

static void run_load(size_t threads, size_t keys, int64_t ms)
{
    struct load load = {
        .thread_count = threads, .key_count = keys, .until_ms = now_ms() + ms, .rounds_max = 2000};
    pthread_t *ids = check_memory(calloc(threads, sizeof(*ids)));
    size_t once = 0, twice = 0, never = 0, all;

    load.effects = check_memory(calloc(load.rounds_max * keys, sizeof(*load.effects)));
    for (size_t i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, load_run, &load) != 0)
            abort();
    }
    for (size_t i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    all = atomic_load(&load.round) * keys;
    for (size_t i = 0; i < all; i++) {
        unsigned effects = atomic_load(&load.effects[i]);

        once += effects == 1;
        twice += effects > 1;
        never += effects == 0;
    }
    printf("%zu %zu %zu %zu %zu %zu\n", all, once, twice, never, atomic_load(&load.wrong),
           atomic_load(&load.given_up));
    fflush(stdout);
    free(load.effects);
    free(ids);
}

/* ---- The rate -------------------------------------------------------------------------------- */

static atomic_size_t rate_left, rate_calls, rate_keys;
static int64_t rate_until_ms;

/* One client: its begin, or its complete, was told. */
static void rate_told(struct once_op *op)
{
    char *key = op->user;
    bool begun = op->call == ONCE_CALL_BEGIN && op->reply.word == ONCE_EXECUTE;
    uint64_t fence = op->reply.fence;

    atomic_fetch_add(&rate_calls, 1);
    once_reply_release(&op->reply);
    op->call = begun ? ONCE_CALL_COMPLETE : ONCE_CALL_BEGIN;
    op->fence = fence;
    if (!begun)
        snprintf(key, 32, "rate-%zu", atomic_fetch_add(&rate_keys, 1));
    op->key = once_bytes_of(key);
    if (now_ms() < rate_until_ms && once_submit(store, op) == ONCE_OK)
        return;
    free(key);
    free(op);
    atomic_fetch_sub(&rate_left, 1);
}

static void run_rate(size_t clients, int64_t ms)
{
    struct timespec pause = {.tv_nsec = 10000000};
    struct once_stats before, after;

    once_stats_get(store, &before);
    atomic_store(&rate_left, clients);
    atomic_store(&rate_calls, 0);
    rate_until_ms = now_ms() + ms;
    for (size_t i = 0; i < clients; i++) {
        struct once_op *op = check_memory(calloc(1, sizeof(*op)));

        op->user = check_memory(calloc(1, 32));
        op->ns = once_bytes_of(ns);
        op->told = rate_told;
        op->call = ONCE_CALL_GET;
        op->key = once_bytes_of("rate");
        if (once_submit(store, op) != ONCE_OK)
            abort();
    }
    while (atomic_load(&rate_left) > 0)
        nanosleep(&pause, NULL);
    once_stats_get(store, &after);
    printf("rate %zu %.1f\n", atomic_load(&rate_calls) * 1000 / (size_t)ms,
           (double)(after.calls - before.calls) / (double)(after.batches - before.batches));
    fflush(stdout);
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void print_item(void *user, const struct once_item *item)
{
    (void)user;
    printf("%.*s %s %" PRIu64 "\n", (int)item->key.size, (const char *)item->key.data,
           once_state_name(item->state), item->fence);
}

static void list(int state)
{
    struct once_filter filter = {.by_state = state > 0, .state = (enum once_state)state};
    uint64_t cursor = 0;
    int err;

    do {
        err = once_list(store, &filter, cursor, 100, print_item, NULL, &cursor);
    } while (err == ONCE_OK && cursor != 0);
    printf(". %s\n", once_err_name(err));
    fflush(stdout);
}

static void print_stats(void)
{
    struct once_stats stats;

    once_stats_get(store, &stats);
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %" PRIu64 " %" PRIu64 "\n",
           stats.asked_again, stats.unsettled, stats.links_up, stats.links_lost,
           stats.unreachable ? 1 : 0, stats.calls, stats.batches);
    fflush(stdout);
}

int main(int count, char **words)
{
    struct once__pg_setup setup = {.say = say};
    struct once_message message;
    char line[1024];
    int64_t begun_ms;
    int err;

    for (int i = 2; i < count; i++) {
        if (strcmp(words[i], "--accept-loss") == 0)
            setup.accept_loss = true;
        else
            setup.lanes = (unsigned)strtoul(words[i], NULL, 10);
    }
    setup.url = count > 1 ? words[1] : NULL;
    err = once__pg_open(&setup, &store, &message);
    if (err != ONCE_OK) {
        printf("%s %s\n", once_err_name(err), message.text);
        return 1;
    }
    printf("open\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        size_t threads, keys;
        int64_t ms;
        int state;

        if (strncmp(line, "close", 5) == 0)
            break;
        if (sscanf(line, "load %zu %zu %" SCNd64, &threads, &keys, &ms) == 3)
            run_load(threads, keys, ms);
        else if (sscanf(line, "list %d", &state) == 1)
            list(state);
        else if (sscanf(line, "rate %zu %" SCNd64, &keys, &ms) == 2)
            run_rate(keys, ms);
        else if (strncmp(line, "stats", 5) == 0)
            print_stats();
        else if (!submit(line))
            printf("? %s", line);
    }
    begun_ms = now_ms();
    err = once_close(store);
    printf("closed %s %" PRId64 "\n", once_err_name(err), now_ms() - begun_ms);
    return 0;
}
