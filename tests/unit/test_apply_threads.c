/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen threads apply the same thousand keys, a hundred times each in all, by blocking calls, by
 * groups and by submitted ones. Each key has its effects once; everybody is told the same bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <once/apply.h>

#include "base/bytes.h"

enum {
    THREADS = 16,
    KEYS = 1000,
    ATTEMPTS = 100, /* of each key */
    EFFECTS = 3,
    WORDS_MAX = 4,
    GROUP = 20, /* attempts that are made at one go */
    RESULT_SIZE = 64,
    PATH_SIZE = 512
};
_Static_assert(KEYS % GROUP == 0, "keys come in whole groups");

/* What is told of a key, first by whoever is first. */
struct first {
    pthread_mutex_t lock;
    size_t size;
    uint8_t result[RESULT_SIZE];
};

struct crowd {
    struct once_store *store;
    struct first firsts[KEYS];
    _Atomic unsigned applied;
    _Atomic unsigned replayed;
    _Atomic unsigned different; /* results */
    _Atomic unsigned wrong;     /* errors and other words */
};

/* One attempt: the words of its effects, and the call. */
struct attempt {
    struct crowd *crowd;
    unsigned number;
    char key[16];
    char digit[2];
    struct once_bytes words[EFFECTS][WORDS_MAX];
    struct once_do dos[EFFECTS];
    struct once_op op;
    struct member *member; /* submitted */
};

struct member {
    struct crowd *crowd;
    unsigned number;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t told;
    unsigned waiting;
    struct attempt attempts[GROUP];
};

static void make_attempt(struct member *member, unsigned number, struct attempt *attempt)
{
    *attempt = (struct attempt){.crowd = member->crowd, .number = number, .member = member};
    snprintf(attempt->key, sizeof(attempt->key), "key-%u", number);
    snprintf(attempt->digit, sizeof(attempt->digit), "%u", number % 10);
    attempt->words[0][0] = once_bytes_of("ADD");
    attempt->words[0][1] = once_bytes_of("total");
    attempt->words[0][2] = once_bytes_of("1");
    attempt->words[1][0] = once_bytes_of("EMIT");
    attempt->words[1][1] = once_bytes_of("charges");
    attempt->words[1][2] = once_bytes_of(attempt->key);
    attempt->words[2][0] = once_bytes_of("BUCKET");
    attempt->words[2][1] = once_bytes_of("digits");
    attempt->words[2][2] = once_bytes_of(attempt->digit);
    attempt->words[2][3] = once_bytes_of("1");
    attempt->dos[0] = (struct once_do){attempt->words[0], 3};
    attempt->dos[1] = (struct once_do){attempt->words[1], 3};
    attempt->dos[2] = (struct once_do){attempt->words[2], 4};
    attempt->op = (struct once_op){.call = ONCE_CALL_APPLY,
                                   .ns = once_bytes_of("crowd"),
                                   .key = once_bytes_of(attempt->key),
                                   .dos = attempt->dos,
                                   .do_count = EFFECTS};
}

/* Everybody must be told what the first one was told. */
static void judge(struct attempt *attempt, struct once_reply *reply)
{
    struct crowd *crowd = attempt->crowd;
    struct first *first = &crowd->firsts[attempt->number];

    if (reply->err != ONCE_OK || reply->code != ONCE_CODE_APPLIED || reply->result.size == 0 ||
        reply->result.size > RESULT_SIZE) {
        crowd->wrong++;
    } else {
        crowd->applied += reply->word == ONCE_APPLIED;
        crowd->replayed += reply->word == ONCE_REPLAY;
        crowd->wrong += reply->word != ONCE_APPLIED && reply->word != ONCE_REPLAY;
        pthread_mutex_lock(&first->lock);
        if (first->size == 0) {
            memcpy(first->result, reply->result.data, reply->result.size);
            first->size = reply->result.size;
        }
        crowd->different += !once__bytes_equal(reply->result,
                                               (struct once_bytes){first->result, first->size});
        pthread_mutex_unlock(&first->lock);
    }
    once_reply_release(reply);
}

/* ---- The three ways -------------------------------------------------------------------------- */

static void apply_one_by_one(struct member *member)
{
    for (unsigned i = 0; i < GROUP; i++) {
        struct attempt *attempt = &member->attempts[i];
        struct once_reply reply;

        (void)once_apply(member->crowd->store, once_name_of("crowd", attempt->key), NULL,
                         attempt->dos, EFFECTS, &reply);
        judge(attempt, &reply);
    }
}

static void apply_group(struct member *member)
{
    struct once_op ops[GROUP];

    for (unsigned i = 0; i < GROUP; i++)
        ops[i] = member->attempts[i].op;
    (void)once_call(member->crowd->store, ops, GROUP); /* each op has its own error */
    for (unsigned i = 0; i < GROUP; i++)
        judge(&member->attempts[i], &ops[i].reply);
}

static void on_told(struct once_op *op)
{
    struct attempt *attempt = op->user;
    struct member *member = attempt->member;

    judge(attempt, &op->reply);
    pthread_mutex_lock(&member->lock);
    if (--member->waiting == 0)
        pthread_cond_signal(&member->told);
    pthread_mutex_unlock(&member->lock);
}

static void apply_submitted(struct member *member)
{
    member->waiting = GROUP;
    for (unsigned i = 0; i < GROUP; i++) {
        struct attempt *attempt = &member->attempts[i];

        attempt->op.told = on_told;
        attempt->op.user = attempt;
        if (once_submit(member->crowd->store, &attempt->op) != ONCE_OK) {
            attempt->op.reply = (struct once_reply){.err = ONCE_ERR_CLOSED};
            on_told(&attempt->op);
        }
    }
    pthread_mutex_lock(&member->lock);
    while (member->waiting > 0)
        pthread_cond_wait(&member->told, &member->lock);
    pthread_mutex_unlock(&member->lock);
}

/* All keys, every round in another order; all threads are at the same keys at the same time. */
static void *member_main(void *arg)
{
    static const unsigned strides[] = {1, 7, 3, 999, 13, 77, 501}; /* none divides KEYS */
    struct member *member = arg;
    unsigned rounds = ATTEMPTS / THREADS + (member->number < ATTEMPTS % THREADS);

    for (unsigned round = 0; round < rounds; round++) {
        unsigned stride = strides[round % (sizeof(strides) / sizeof(strides[0]))];

        for (unsigned done = 0; done < KEYS; done += GROUP) {
            for (unsigned i = 0; i < GROUP; i++)
                make_attempt(member, (done + i) * stride % KEYS, &member->attempts[i]);
            switch ((member->number + round + done / GROUP) % 3) {
            case 0:
                apply_one_by_one(member);
                break;
            case 1:
                apply_group(member);
                break;
            default:
                apply_submitted(member);
                break;
            }
        }
    }
    return NULL;
}

/* ---- Looking --------------------------------------------------------------------------------- */

struct outbox {
    unsigned seen[KEYS];
    uint64_t count;
    uint64_t last;
    bool in_order;
};

static void on_message(void *user, const struct once_object_item *item)
{
    struct outbox *outbox = user;
    char key[16];
    unsigned number = KEYS;

    snprintf(key, sizeof(key), "%.*s", (int)item->payload.size, (const char *)item->payload.data);
    if (sscanf(key, "key-%u", &number) == 1 && number < KEYS)
        outbox->seen[number]++;
    outbox->in_order = outbox->in_order && item->number == outbox->last + 1;
    outbox->last = item->number;
    outbox->count++;
}

static void on_bucket(void *user, const struct once_object_item *item)
{
    unsigned *good = user;

    *good += item->number == KEYS / 10;
}

static void check_objects(struct once_store *store)
{
    static const char total[] = "{\"name\":\"total\",\"type\":\"counter\",\"value\":1000}";
    static struct outbox outbox;
    struct once_object object;
    uint64_t cursor = 0;
    unsigned good_buckets = 0;
    bool more = true;

    assert_int_equal(once_object_get(store, once_bytes_of("total"), &object), ONCE_OK);
    assert_int_equal(object.json.size, sizeof(total) - 1);
    assert_memory_equal(object.json.data, total, sizeof(total) - 1);
    once_object_release(&object);

    outbox = (struct outbox){.in_order = true};
    while (more)
        assert_int_equal(once_object_read(store, once_bytes_of("charges"), cursor, 137, on_message,
                                          &outbox, &cursor, &more),
                         ONCE_OK);
    assert_int_equal(outbox.count, KEYS);
    assert_true(outbox.in_order);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(outbox.seen[i], 1);

    assert_int_equal(once_object_read(store, once_bytes_of("digits"), 0, 100, on_bucket,
                                      &good_buckets, &cursor, &more),
                     ONCE_OK);
    assert_int_equal(good_buckets, 10);
}

/* ---- The test -------------------------------------------------------------------------------- */

static void remove_folder(const char *folder)
{
    DIR *entries = opendir(folder);

    assert_non_null(entries);
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        char path[PATH_SIZE + 256];

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        unlink(path); /* "." and ".." stay: they are folders */
    }
    closedir(entries);
    rmdir(folder);
}

static void run_crowd(struct crowd *crowd, unsigned first, unsigned count)
{
    struct member *members = calloc(THREADS, sizeof(*members));

    assert_non_null(members);
    for (unsigned i = first; i < first + count; i++) {
        members[i].crowd = crowd;
        members[i].number = i;
        pthread_mutex_init(&members[i].lock, NULL);
        pthread_cond_init(&members[i].told, NULL);
        assert_int_equal(pthread_create(&members[i].thread, NULL, member_main, &members[i]), 0);
    }
    for (unsigned i = first; i < first + count; i++) {
        pthread_join(members[i].thread, NULL);
        pthread_cond_destroy(&members[i].told);
        pthread_mutex_destroy(&members[i].lock);
    }
    free(members);
}

static void apply__16_threads_and_1000_keys_100_times__has_each_effect_once(void **state)
{
    const char *temporary = getenv("TMPDIR");
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    struct once_message message;
    char folder[PATH_SIZE];

    (void)state;
    assert_non_null(crowd);
    snprintf(folder, sizeof(folder), "%s/once-apply-XXXXXX", temporary ? temporary : "/tmp");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(once_open(folder, NULL, &crowd->store, &message), ONCE_OK);
    for (unsigned i = 0; i < KEYS; i++)
        pthread_mutex_init(&crowd->firsts[i].lock, NULL);
    run_crowd(crowd, 0, THREADS);
    assert_int_equal(crowd->wrong, 0);
    assert_int_equal(crowd->different, 0);
    assert_int_equal(crowd->applied, KEYS);
    assert_int_equal(crowd->replayed, KEYS * (ATTEMPTS - 1));
    check_objects(crowd->store);
    assert_int_equal(once_close(crowd->store), ONCE_OK);

    /* And after a restart: the same objects, the same answers. */
    assert_int_equal(once_open(folder, NULL, &crowd->store, &message), ONCE_OK);
    check_objects(crowd->store);
    run_crowd(crowd, 5, 2);
    assert_int_equal(crowd->wrong, 0);
    assert_int_equal(crowd->different, 0);
    assert_int_equal(crowd->applied, KEYS);
    check_objects(crowd->store);
    assert_int_equal(once_close(crowd->store), ONCE_OK);
    remove_folder(folder);
    for (unsigned i = 0; i < KEYS; i++)
        pthread_mutex_destroy(&crowd->firsts[i].lock);
    free(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(apply__16_threads_and_1000_keys_100_times__has_each_effect_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
