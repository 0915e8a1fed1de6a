/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite on the embedded engine, in every way in which it can be used:
 *
 *     conformance_engine [--callback] [--threads N] [--disk] [scenario]
 *
 * Blocking or callback form, one thread or many on one store, in a folder of the system or on the
 * test disk. A restart is a close and a crash in turn; on the test disk the crash is a power cut.
 * Nothing but the clock is simulated, and that one starts its boot time anew with every restart.
 */
#include "conformance/conformance.h"

#include "base/assert.h"
#include "disk/disk.h"
#include "engine/engine.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FOLDER_SIZE = 256, PATH_SIZE = FOLDER_SIZE + 256 };

static const uint64_t DISK_SIZE = 1ULL << 26;

static bool with_callbacks;
static bool with_disk;

struct engine_store {
    struct once_store *store;
    _Atomic once_ms now_ms;
    once_ms booted_ms;
    char folder[FOLDER_SIZE];
    struct disk *disk; /* instead of the folder */
    unsigned restarts;
    struct once__time_source time;
};

static once_ms wall_ms(void *self)
{
    struct engine_store *engine = self;

    return engine->now_ms;
}

static once_ms boot_ms(void *self)
{
    struct engine_store *engine = self;

    return engine->now_ms - engine->booted_ms;
}

/* ---- Life and death ------------------------------------------------------------------------- */

static bool start(struct engine_store *engine)
{
    struct once__engine_setup setup = {
        .time = &engine->time,
        .options = {.segment_size = ONCE_SEGMENT_SIZE_MIN},
    };
    struct once_message message;
    int system_errno = 0, err;

    engine->booted_ms = engine->now_ms;
    if (engine->disk) {
        setup.vfs = disk_mount(engine->disk);
    } else {
        err = once__vfs_open(engine->folder, true, &setup.vfs, &system_errno);
        if (err != ONCE_OK) {
            printf("# %s: %s, errno %d\n", engine->folder, once_err_text(err), system_errno);
            return false;
        }
    }
    err = once__engine_open(&setup, &engine->store, &message);
    if (err != ONCE_OK)
        printf("# %s: %s\n", once_err_name(err), message.text);
    return err == ONCE_OK;
}

static void remove_folder(const char *folder)
{
    DIR *entries = opendir(folder);

    if (!entries)
        return;
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        char path[PATH_SIZE];

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        unlink(path); /* "." and ".." stay: they are folders */
    }
    closedir(entries);
    rmdir(folder);
}

static void release(struct engine_store *engine)
{
    if (engine->disk)
        disk_free(engine->disk);
    else
        remove_folder(engine->folder);
    free(engine);
}

static void *store_open(once_ms start_ms)
{
    const char *temporary = getenv("TMPDIR");
    struct engine_store *engine = calloc(1, sizeof(*engine));

    ONCE_ASSERT(engine != NULL);
    engine->now_ms = start_ms;
    engine->time = (struct once__time_source){wall_ms, boot_ms, engine};
    if (with_disk) {
        engine->disk = disk_new(1, DISK_SIZE);
    } else {
        snprintf(engine->folder, sizeof(engine->folder), "%s/once-conformance-XXXXXX",
                 temporary ? temporary : "/tmp");
        ONCE_ASSERT(mkdtemp(engine->folder) != NULL);
    }
    if (start(engine))
        return engine;
    release(engine);
    return NULL;
}

static void store_close(void *self)
{
    struct engine_store *engine = self;

    ONCE_ASSERT(once_close(engine->store) == ONCE_OK);
    release(engine);
}

static void *store_restart(void *self)
{
    struct engine_store *engine = self;

    if (engine->restarts++ % 2 == 0) {
        if (engine->disk)
            disk_cut(engine->disk);
        once__engine_crash(engine->store);
    } else {
        ONCE_ASSERT(once_close(engine->store) == ONCE_OK);
    }
    if (start(engine))
        return engine;
    release(engine);
    return NULL;
}

static void store_advance(void *self, once_ms by_ms)
{
    struct engine_store *engine = self;

    engine->now_ms += by_ms;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* A caller that waits for its callback. */
struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned told;
};

static void told(struct once_op *op)
{
    struct waiting *waiting = op->user;

    pthread_mutex_lock(&waiting->lock);
    waiting->told++;
    pthread_cond_signal(&waiting->changed);
    pthread_mutex_unlock(&waiting->lock);
}

static void submit_and_wait(struct once_store *store, struct once_op *op)
{
    struct waiting waiting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

    op->told = told;
    op->user = &waiting;
    ONCE_ASSERT(once_submit(store, op) == ONCE_OK);
    pthread_mutex_lock(&waiting.lock);
    while (waiting.told == 0)
        pthread_cond_wait(&waiting.changed, &waiting.lock);
    pthread_mutex_unlock(&waiting.lock);
    ONCE_ASSERT(waiting.told == 1);
}

static void copy_text(char *to, struct once_bytes bytes)
{
    size_t size = bytes.size < CONFORMANCE_BYTES_MAX ? bytes.size : CONFORMANCE_BYTES_MAX - 1;

    if (size > 0)
        memcpy(to, bytes.data, size);
    to[size] = '\0';
}

/* Everything that the reply holds is told, also what does not belong to its word: the suite looks
 * for that. */
static void answer(struct once_reply *reply, struct conformance_answer *ret)
{
    *ret = (struct conformance_answer){
        .err = reply->err,
        .word = reply->word,
        .fence = reply->fence,
        .attempt = reply->attempt,
        .retry_ms = reply->retry_ms,
        .code = reply->code,
        .result_size = reply->result.size,
        .state = reply->state,
    };
    copy_text(ret->result, reply->result);
    copy_text(ret->point, reply->point);
    copy_text(ret->data, reply->data);
    once_reply_release(reply);
}

/* The blocking forms are called by their own names: they are what a program calls. */
static void block(struct once_store *store, const struct once_op *op, struct once_reply *ret_reply)
{
    struct once_name name = {op->ns, op->key};
    struct once_begin_options options = {.fingerprint = op->fingerprint,
                                         .owner = op->owner,
                                         .ttl_ms = op->ttl_ms,
                                         .lease_ms = op->lease_ms,
                                         .on_doubt = op->on_doubt};
    int err = ONCE_OK;

    switch (op->call) {
    case ONCE_CALL_BEGIN:
        err = once_begin(store, name, &options, ret_reply);
        break;
    case ONCE_CALL_COMPLETE:
        err = once_complete(store, name, op->fence, op->code, op->result, ret_reply);
        break;
    case ONCE_CALL_FAIL:
        err = once_fail(store, name, op->fence, op->result, ret_reply);
        break;
    case ONCE_CALL_CHECKPOINT:
        err = once_checkpoint(store, name, op->fence, op->point, op->data,
                              op->follows ? &op->after : NULL, ret_reply);
        break;
    case ONCE_CALL_RENEW:
        err = once_renew(store, name, op->fence, op->lease_ms, ret_reply);
        break;
    case ONCE_CALL_RESOLVE:
        err = op->done ? once_resolve_done(store, name, op->fence, op->code, op->result, ret_reply)
                       : once_resolve_not_done(store, name, op->fence, ret_reply);
        break;
    case ONCE_CALL_FORGET:
        err = once_forget(store, name, op->fence, ret_reply);
        break;
    case ONCE_CALL_GET:
        err = once_get(store, name, ret_reply);
        break;
    case ONCE_CALL_APPLY:
    case ONCE_CALL_MERGE:
    case ONCE_CALL_SET:
    case ONCE_CALL_EXPIRE:
        ONCE_ASSERT(false); /* no scenario has them */
        break;
    }
    ONCE_ASSERT(err == ret_reply->err);
}

static void perform(struct engine_store *engine, enum once_call_kind kind,
                    const struct conformance_call *call, struct conformance_answer *ret)
{
    struct once_op op = {
        .call = kind,
        .ns = once_bytes_of(call->ns),
        .key = once_bytes_of(call->key),
        .fingerprint = once_bytes_of(call->fingerprint),
        .owner = once_bytes_of(call->owner),
        .ttl_ms = call->ttl_ms,
        .lease_ms = call->lease_ms,
        .on_doubt = call->on_doubt,
        .fence = call->fence,
        .done = call->done,
        .code = call->code,
        .result = call->result,
        .point = once_bytes_of(call->point),
        .data = once_bytes_of(call->data),
        .follows = call->after != NULL,
        .after = once_bytes_of(call->after),
    };

    memset(&op.reply, 0xa5, sizeof(op.reply)); /* the reply is written whole */
    if (with_callbacks)
        submit_and_wait(engine->store, &op);
    else
        block(engine->store, &op, &op.reply);
    answer(&op.reply, ret);
}

static void store_begin(void *self, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    perform(self, ONCE_CALL_BEGIN, call, ret);
}

static void store_complete(void *self, const struct conformance_call *call,
                           struct conformance_answer *ret)
{
    perform(self, ONCE_CALL_COMPLETE, call, ret);
}

static void store_fail(void *self, const struct conformance_call *call,
                       struct conformance_answer *ret)
{
    perform(self, ONCE_CALL_FAIL, call, ret);
}

static void store_checkpoint(void *self, const struct conformance_call *call,
                             struct conformance_answer *ret)
{
    perform(self, ONCE_CALL_CHECKPOINT, call, ret);
}

static void store_renew(void *self, const struct conformance_call *call,
                        struct conformance_answer *ret)
{
    perform(self, ONCE_CALL_RENEW, call, ret);
}

static void store_resolve(void *self, const struct conformance_call *call,
                          struct conformance_answer *ret)
{
    perform(self, ONCE_CALL_RESOLVE, call, ret);
}

static void store_forget(void *self, const struct conformance_call *call,
                         struct conformance_answer *ret)
{
    perform(self, ONCE_CALL_FORGET, call, ret);
}

static void store_get(void *self, const struct conformance_call *call,
                      struct conformance_answer *ret)
{
    perform(self, ONCE_CALL_GET, call, ret);
}

static struct conformance_adapter engine_adapter = {
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

int main(int argc, char **argv)
{
    static char name[64];
    const char *filter = NULL;

    engine_adapter.threads = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--callback") == 0)
            with_callbacks = true;
        else if (strcmp(argv[i], "--disk") == 0)
            with_disk = true;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            engine_adapter.threads = (unsigned)strtoul(argv[++i], NULL, 10);
        else
            filter = argv[i];
    }
    snprintf(name, sizeof(name), "engine, %s, %u threads%s",
             with_callbacks ? "callback" : "blocking", engine_adapter.threads,
             with_disk ? ", test disk" : "");
    engine_adapter.name = name;
    return conformance_run(&engine_adapter, filter) > 0 ? 1 : 0;
}
