/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading records of sealed segments, without the engine's lock: a bounded set of open files, found
 * by slot. Whoever reads checks afterwards, under the lock, that the slot was not recycled
 * meanwhile.
 */
#include "engine/inner.h"

#include <stdlib.h>

#define NO_SLOT UINT32_MAX
enum { PIECE_SIZE = 1024 };

static int find_reader(struct once__engine *engine, uint32_t slot)
{
    for (int i = 0; i < ONCE_OPEN_FILES_MAX; i++) {
        if (engine->readers[i] && engine->reader_slots[i] == slot)
            return i;
    }
    return -1;
}

/* A place for one more, -1 when all are being read. */
static int free_reader(struct once__engine *engine)
{
    for (int tries = 0; tries < ONCE_OPEN_FILES_MAX; tries++) {
        int i = (int)(engine->reader_next++ % ONCE_OPEN_FILES_MAX);

        if (engine->reader_users[i] > 0)
            continue;
        once__file_close(engine->readers[i]);
        engine->readers[i] = NULL;
        return i;
    }
    return -1;
}

static int open_reader(struct once__engine *engine, uint32_t slot, struct once__file **ret_file)
{
    char name[ONCE__NAME_SIZE];

    once__segment_name(slot, name);
    return engine->vfs->ops->open(engine->vfs, name, 0, ret_file);
}

int once__segment_read(struct once__engine *engine, uint32_t slot, uint32_t offset, void *data,
                       size_t size, size_t *ret_size)
{
    struct once__file *file = NULL;
    int at, err = ONCE_OK;

    pthread_mutex_lock(&engine->readers_lock);
    at = find_reader(engine, slot);
    if (at < 0) {
        err = open_reader(engine, slot, &file);
        at = err == ONCE_OK ? free_reader(engine) : -1;
        if (at >= 0) {
            engine->readers[at] = file;
            engine->reader_slots[at] = slot;
        }
    }
    if (at >= 0) {
        file = engine->readers[at];
        engine->reader_users[at]++;
    }
    pthread_mutex_unlock(&engine->readers_lock);
    if (err != ONCE_OK)
        return err;

    err = once__file_read(file, offset, data, size, ret_size);

    pthread_mutex_lock(&engine->readers_lock);
    if (at < 0) {
        once__file_close(file);
    } else {
        engine->reader_users[at]--;
        if (engine->reader_users[at] == 0 && engine->reader_slots[at] == NO_SLOT) {
            once__file_close(file);
            engine->readers[at] = NULL;
        }
    }
    pthread_mutex_unlock(&engine->readers_lock);
    return err;
}

void once__segment_forget_reader(struct once__engine *engine, uint32_t slot)
{
    int at;

    pthread_mutex_lock(&engine->readers_lock);
    at = find_reader(engine, slot);
    if (at >= 0) {
        engine->reader_slots[at] = NO_SLOT; /* whoever reads it now closes it */
        if (engine->reader_users[at] == 0) {
            once__file_close(engine->readers[at]);
            engine->readers[at] = NULL;
        }
    }
    pthread_mutex_unlock(&engine->readers_lock);
}

void once__segment_close_readers(struct once__engine *engine)
{
    for (int i = 0; i < ONCE_OPEN_FILES_MAX; i++) {
        ONCE_ASSERT(engine->reader_users[i] == 0);
        once__file_close(engine->readers[i]);
        engine->readers[i] = NULL;
    }
}

int once__segment_read_record(struct once__engine *engine, uint64_t place,
                              struct once__log_record *ret_rec, uint32_t *ret_size,
                              void **ret_memory)
{
    uint32_t slot = once__place_slot(place), offset = once__place_offset(place);
    struct once_defect defect;
    size_t size = PIECE_SIZE, have;
    uint8_t *memory = NULL;
    int err;

    for (;;) {
        uint8_t *more = realloc(memory, size);
        uint32_t whole;

        err = more ? ONCE_OK : ONCE_ERR_MEMORY;
        if (err != ONCE_OK)
            break;
        memory = more;
        err = once__segment_read(engine, slot, offset, memory, size, &have);
        if (err != ONCE_OK)
            break;
        whole = have >= ONCE__RECORD_PEEK_SIZE ? once__record_peek(memory) : 0;
        if (whole == 0 || whole > engine->segment_size - offset) {
            err = ONCE_ERR_DAMAGED;
            break;
        }
        if (whole <= have) {
            err = once__record_decode((struct once_bytes){memory, have}, ret_rec, ret_size, NULL,
                                      &defect);
            break;
        }
        if (have < size || size >= whole) { /* the file is shorter than the record */
            err = ONCE_ERR_DAMAGED;
            break;
        }
        size = whole;
    }
    if (err != ONCE_OK) {
        free(memory);
        return err;
    }
    *ret_memory = memory;
    return ONCE_OK;
}
