/* SPDX-License-Identifier: Apache-2.0
 *
 * Two stores on one database, many threads, and answers that get lost: what each apply and each set
 * is told must be what happened, exactly once.
 *
 *     ONCE_PG_URL=… [ONCE_PG_URL_2=…] pg_race [threads [requests of each]]
 *
 * Every request is an apply under a key of its own (a counter, a fence's token, a message, an
 * event, a mergeable counter, all in one), sent two or three times, through either store. In the
 * end the counts are the number of requests, and tokens and numbers are 1, 2, 3 … without a gap.
 * Between them each thread sets one value that all share: what was there before is told to exactly
 * one.
 *
 * The second URL may lead through a proxy that cuts connections while they commit. What nobody
 * knows (ONCE_ERR_IO) is asked again where a key makes that safe; of sets it is counted apart.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <once/apply.h>
#include <once/store.h>

#include "store/postgres/pg.h"

enum { THREADS_MAX = 64, REQUESTS_MAX = 5000, EFFECTS = 5, TRIES_MAX = 1000, TEXT_SIZE = 48 };

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "pg_race: " __VA_ARGS__);                                        \
            (void)fprintf(stderr, " [%s]\n", #condition);                                          \
            _exit(1); /* the store's threads go on, and libraries must not end below them */       \
        }                                                                                          \
    } while (0)

static struct once_store *stores[2];
static unsigned thread_count = 8, request_count = 50;

/* What each request was told, by thread and request. */
struct told {
    int64_t counter, token, message, version;
    bool set_known;             /* the set was answered, */
    char set_before[TEXT_SIZE]; /* with this */
};
static struct told tolds[THREADS_MAX][REQUESTS_MAX];

/* ---- Asking ---------------------------------------------------------------------------------- */

static const char *const effects[EFFECTS][4] = {{"ADD", "counter", "1"},
                                                {"GRANT", "fence"},
                                                {"EMIT", "outbox", "a message"},
                                                {"APPEND", "log", "event", "payload"},
                                                {"PNADD", "sum", "node", "1"}};

static void read_results(struct once_bytes result, struct told *ret_told)
{
    int64_t *to[EFFECTS - 1] = {&ret_told->counter, &ret_told->token, &ret_told->message,
                                &ret_told->version};
    struct once_result one;
    size_t offset = 0;

    for (size_t i = 0; i < EFFECTS - 1; i++) {
        CHECK(once_results_next(result, &offset, &one) == 1 && one.is_number, "not a result: %.*s",
              (int)result.size, (const char *)result.data);
        *to[i] = one.number;
    }
}

/* Until it is known. */
static void apply(struct once_store *store, const char *key, struct told *ret_told)
{
    struct once_bytes words[EFFECTS][4];
    struct once_do dos[EFFECTS];

    for (size_t i = 0; i < EFFECTS; i++) {
        dos[i] = (struct once_do){words[i], 0};
        for (size_t j = 0; j < 4 && effects[i][j]; j++)
            words[i][dos[i].count++] = once_bytes_of(effects[i][j]);
    }
    for (unsigned tries = 0;; tries++) {
        struct once_reply reply;
        int err = once_apply(store, once_name_of("race", key), NULL, dos, EFFECTS, &reply);

        if (err == ONCE_OK) {
            CHECK(reply.word == ONCE_APPLIED || reply.word == ONCE_REPLAY, "%s",
                  once_word_name(reply.word));
            CHECK(reply.code == ONCE_CODE_APPLIED, "rejected: %.*s", (int)reply.result.size,
                  (const char *)reply.result.data);
            read_results(reply.result, ret_told);
            once_reply_release(&reply);
            return;
        }
        CHECK(err == ONCE_ERR_IO && tries < TRIES_MAX, "%s: %s", once_err_name(err),
              reply.what ? reply.what : "");
        once_reply_release(&reply);
    }
}

static void set(struct once_store *store, unsigned thread, unsigned number, struct told *ret_told)
{
    char value[TEXT_SIZE];
    struct once_op op = {
        .call = ONCE_CALL_SET, .ns = once_bytes_of("redis"), .key = once_bytes_of("shared")};
    int err;

    (void)snprintf(value, sizeof(value), "%u/%u", thread, number);
    op.result = once_bytes_of(value);
    err = once_call(store, &op, 1);
    CHECK(err == ONCE_OK || err == ONCE_ERR_IO, "set: %s", once_err_name(err));
    ret_told->set_known = err == ONCE_OK;
    if (err == ONCE_OK)
        (void)snprintf(ret_told->set_before, sizeof(ret_told->set_before), "%.*s",
                       (int)op.reply.result.size, (const char *)op.reply.result.data);
    once_reply_release(&op.reply);
}

static void *work(void *user)
{
    unsigned thread = (unsigned)(uintptr_t)user;

    for (unsigned i = 0; i < request_count; i++) {
        struct told *told = &tolds[thread][i], again;
        char key[TEXT_SIZE];

        (void)snprintf(key, sizeof(key), "%u/%u", thread, i);
        apply(stores[(thread + i) % 2], key, told);
        for (unsigned j = 0; j < 1 + i % 2; j++) {
            apply(stores[(thread + i + j + 1) % 2], key, &again);
            CHECK(again.counter == told->counter && again.token == told->token &&
                      again.message == told->message && again.version == told->version,
                  "%s was told two answers", key);
        }
        set(stores[(thread + i / 2) % 2], thread, i, told);
    }
    return NULL;
}

/* ---- Checking -------------------------------------------------------------------------------- */

static void check_objects(uint64_t count)
{
    static const char *const names[] = {"counter", "fence", "outbox", "log", "sum"};
    static const char *const texts[] = {"\"value\":%" PRIu64, "\"granted\":%" PRIu64,
                                        "\"total\":%" PRIu64, "\"version\":%" PRIu64,
                                        "\"value\":%" PRIu64};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct once_object object;
        char wanted[TEXT_SIZE];

        _Pragma("GCC diagnostic push")
            _Pragma("GCC diagnostic ignored \"-Wformat-nonliteral\"")(void)
                snprintf(wanted, sizeof(wanted), texts[i], count);
        _Pragma("GCC diagnostic pop")
            CHECK(once_object_get(stores[0], once_bytes_of(names[i]), &object) == ONCE_OK, "%s",
                  names[i]);
        CHECK(memmem(object.json.data, object.json.size, wanted, strlen(wanted)),
              "%s is not in %.*s", wanted, (int)object.json.size, (const char *)object.json.data);
        once_object_release(&object);
    }
}

/* Each of 1 … count exactly once. */
static void check_numbers(const char *what, size_t offset, uint64_t count)
{
    bool *seen = calloc(count + 1, sizeof(*seen));

    CHECK(seen, "no memory");
    for (unsigned i = 0; i < thread_count; i++) {
        for (unsigned j = 0; j < request_count; j++) {
            int64_t number;

            memcpy(&number, (const char *)&tolds[i][j] + offset, sizeof(number));
            CHECK(number >= 1 && (uint64_t)number <= count && !seen[number],
                  "%s %" PRId64 " was given twice, or is too large", what, number);
            seen[number] = true;
        }
    }
    free(seen);
}

/* Every value that was told as the one before was told once; so was the last, to us. A set that
 * nobody knows of may have happened or not. */
static void check_sets(uint64_t count)
{
    struct once_op op = {
        .call = ONCE_CALL_GET, .ns = once_bytes_of("redis"), .key = once_bytes_of("shared")};
    unsigned char *seen = calloc(THREADS_MAX * REQUESTS_MAX, 1);
    uint64_t known = 0, told = 0;
    unsigned thread, number;
    char last[TEXT_SIZE];

    CHECK(seen && once_call(stores[0], &op, 1) == ONCE_OK, "get");
    (void)snprintf(last, sizeof(last), "%.*s", (int)op.reply.result.size,
                   (const char *)op.reply.result.data);
    once_reply_release(&op.reply);
    for (uint64_t i = 0; i <= count; i++) {
        const struct told *set_told = &tolds[i / request_count][i % request_count];
        const char *before = i == count ? last : set_told->set_before;

        if (i < count && !set_told->set_known)
            continue;
        known += i < count ? 1 : 0;
        if (before[0] == '\0')
            continue; /* the first */
        CHECK(sscanf(before, "%u/%u", &thread, &number) == 2, "%s", before);
        CHECK(thread < thread_count && number < request_count, "%s", before);
        CHECK(seen[thread * REQUESTS_MAX + number]++ == 0, "%s was replaced twice", before);
        told++;
    }
    for (unsigned i = 0; i < thread_count && known == count; i++) {
        for (unsigned j = 0; j < request_count; j++)
            CHECK(seen[i * REQUESTS_MAX + j] == 1, "%u/%u was set, and nobody replaced it", i, j);
    }
    (void)printf("%" PRIu64 " sets of %" PRIu64 " known, %" PRIu64 " values before\n", known, count,
                 told);
    free(seen);
}

int main(int argc, char **argv)
{
    const char *urls[2] = {getenv("ONCE_PG_URL"), getenv("ONCE_PG_URL_2")};
    pthread_t threads[THREADS_MAX];
    uint64_t count;

    if (argc > 1)
        thread_count = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        request_count = (unsigned)strtoul(argv[2], NULL, 10);
    CHECK(urls[0], "ONCE_PG_URL is not set");
    CHECK(thread_count >= 1 && thread_count <= THREADS_MAX, "1 to 64 threads");
    CHECK(request_count >= 1 && request_count <= REQUESTS_MAX, "1 to 5000 requests");
    for (unsigned i = 0; i < 2; i++) {
        struct once__pg_setup setup = {.url = urls[i] ? urls[i] : urls[0]};
        struct once_message message = {""};
        int err = once__pg_open(&setup, &stores[i], &message);

        CHECK(err == ONCE_OK, "%s: %s", once_err_name(err), message.text);
    }
    for (unsigned i = 0; i < thread_count; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) == 0, "no thread");
    for (unsigned i = 0; i < thread_count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0, "no thread");
    count = (uint64_t)thread_count * request_count;
    check_objects(count);
    check_numbers("value", offsetof(struct told, counter), count);
    check_numbers("token", offsetof(struct told, token), count);
    check_numbers("message", offsetof(struct told, message), count);
    check_numbers("event", offsetof(struct told, version), count);
    check_sets(count);
    for (unsigned i = 0; i < 2; i++)
        CHECK(once_close(stores[i]) == ONCE_OK, "not closed");
    (void)printf("%" PRIu64 " requests, each once\n", count);
    return 0;
}
