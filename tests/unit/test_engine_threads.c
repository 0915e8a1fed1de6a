/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads on one store in a folder of the system: blocking and submitted calls on few keys.
 * INV-1 as a caller sees it: at most one of them is told to execute.
 */
#include "engine_help.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 16, KEYS = 24, ROUNDS = 6, PATH_SIZE = 512 };

static const char *make_folder(char *ret_path)
{
    const char *temporary = getenv("TMPDIR");

    snprintf(ret_path, PATH_SIZE, "%s/once-threads-XXXXXX", temporary ? temporary : "/tmp");
    assert_non_null(mkdtemp(ret_path));
    return ret_path;
}

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

struct crowd {
    struct once_store *store;
    unsigned round;
    _Atomic unsigned executed[KEYS];
    _Atomic unsigned replayed[KEYS];
    _Atomic unsigned wrong;
};

struct member {
    struct crowd *crowd;
    unsigned number;
    pthread_t thread;
    /* for a submitted call */
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool is_told;
};

static void wake(struct once_op *op)
{
    struct member *member = op->user;

    pthread_mutex_lock(&member->lock);
    member->is_told = true;
    pthread_cond_signal(&member->told);
    pthread_mutex_unlock(&member->lock);
}

/* Blocking, or submitted and waited for. */
static int call(struct member *member, struct once_op *op, bool submitted)
{
    int err;

    if (!submitted)
        return once_call(member->crowd->store, op, 1);
    member->is_told = false;
    op->told = wake;
    op->user = member;
    err = once_submit(member->crowd->store, op);
    if (err != ONCE_OK)
        return err;
    pthread_mutex_lock(&member->lock);
    while (!member->is_told)
        pthread_cond_wait(&member->told, &member->lock);
    pthread_mutex_unlock(&member->lock);
    return op->reply.err;
}

static void one_key(struct member *member, unsigned number)
{
    struct crowd *crowd = member->crowd;
    bool submitted = (member->number + number) % 2 == 0;
    char key[LIFE_KEY_SIZE], result[LIFE_KEY_SIZE];
    struct once_op op = {.call = ONCE_CALL_BEGIN, .ns = once_bytes_of("crowd")};
    uint64_t fence;

    snprintf(key, sizeof(key), "round-%u-%u", crowd->round, number);
    snprintf(result, sizeof(result), "by %u", member->number);
    op.key = once_bytes_of(key);
    for (;;) {
        enum once_word word;

        if (call(member, &op, submitted) != ONCE_OK) {
            crowd->wrong++;
            return;
        }
        word = op.reply.word;
        fence = op.reply.fence;
        once_reply_release(&op.reply);
        if (word == ONCE_REPLAY) {
            crowd->replayed[number]++;
            return;
        }
        if (word == ONCE_EXECUTE)
            break;
        if (word != ONCE_BUSY)
            crowd->wrong++;
        sched_yield();
    }
    crowd->executed[number]++;
    op.call = ONCE_CALL_COMPLETE;
    op.fence = fence;
    op.result = once_bytes_of(result);
    if (call(member, &op, !submitted) != ONCE_OK || op.reply.word != ONCE_DONE)
        crowd->wrong++;
    once_reply_release(&op.reply);
}

static void *member_main(void *arg)
{
    struct member *member = arg;

    for (unsigned i = 0; i < KEYS; i++)
        one_key(member, (i * 7 + member->number) % KEYS);
    return NULL;
}

static void run_crowd(struct crowd *crowd)
{
    static struct member members[THREADS];

    for (unsigned i = 0; i < KEYS; i++)
        crowd->executed[i] = crowd->replayed[i] = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        members[i] = (struct member){.crowd = crowd, .number = i};
        pthread_mutex_init(&members[i].lock, NULL);
        pthread_cond_init(&members[i].told, NULL);
        assert_int_equal(pthread_create(&members[i].thread, NULL, member_main, &members[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(members[i].thread, NULL);
        pthread_mutex_destroy(&members[i].lock);
        pthread_cond_destroy(&members[i].told);
    }
    assert_int_equal(crowd->wrong, 0);
    for (unsigned i = 0; i < KEYS; i++) {
        assert_int_equal(crowd->executed[i], 1);
        assert_int_equal(crowd->replayed[i], THREADS - 1);
    }
}

static void crowd_in(enum once_durability durability)
{
    char folder[PATH_SIZE];
    struct once_options options = {.durability = durability, .segment_size = LIFE_SEGMENT_SIZE};
    struct crowd crowd = {.wrong = 0};

    make_folder(folder);
    for (crowd.round = 0; crowd.round < ROUNDS; crowd.round++) {
        if (crowd.round % 2 == 0)
            assert_int_equal(once_open(folder, &options, &crowd.store, NULL), ONCE_OK);
        run_crowd(&crowd);
        if (crowd.round % 2 == 1)
            assert_int_equal(once_close(crowd.store), ONCE_OK);
    }
    assert_int_equal(once_open(folder, &options, &crowd.store, NULL), ONCE_OK);
    for (crowd.round = 0; crowd.round < ROUNDS; crowd.round++) {
        for (unsigned i = 0; i < KEYS; i++) {
            char key[LIFE_KEY_SIZE];
            struct once_reply reply;

            snprintf(key, sizeof(key), "round-%u-%u", crowd.round, i);
            assert_int_equal(once_get(crowd.store, once_name_of("crowd", key), &reply), ONCE_OK);
            assert_int_equal(reply.word, ONCE_DONE);
            assert_int_equal(reply.state, ONCE_STATE_COMPLETED);
            once_reply_release(&reply);
        }
    }
    assert_int_equal(once_close(crowd.store), ONCE_OK);
    remove_folder(folder);
}

static void inv1_many_threads__few_keys__each_is_executed_once(void **state)
{
    (void)state;
    crowd_in(ONCE_LOSES_NOTHING);
}

static void inv1_many_threads__interval__each_is_executed_once(void **state)
{
    (void)state;
    crowd_in(ONCE_LOSES_INTERVAL);
}

static void inv1_many_threads__no_durability__each_is_executed_once(void **state)
{
    (void)state;
    crowd_in(ONCE_LOSES_UNSYNCED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inv1_many_threads__few_keys__each_is_executed_once),
        cmocka_unit_test(inv1_many_threads__interval__each_is_executed_once),
        cmocka_unit_test(inv1_many_threads__no_durability__each_is_executed_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
