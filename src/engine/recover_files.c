/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery, the files: which there are, what their headers say, and making a store where there is
 * none.
 */
#include "engine/recovery.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

static struct once__vfs *vfs_of(const struct once__recovery *recovery)
{
    return recovery->engine->vfs;
}

/* ---- Which files there are ------------------------------------------------------------------- */

static int note_name(void *user, const char *name)
{
    struct once__recovery *recovery = user;
    bool is_segment;
    uint32_t slot;

    if (!once__name_slot(name, &is_segment, &slot) || !is_segment)
        return ONCE_OK;
    if (recovery->slot_count == recovery->slot_capacity) {
        size_t capacity = recovery->slot_capacity > 0 ? 2 * recovery->slot_capacity : 64;
        uint32_t *slots = realloc(recovery->slots, capacity * sizeof(*slots));

        if (!slots)
            return ONCE_ERR_MEMORY;
        recovery->slots = slots;
        recovery->slot_capacity = capacity;
    }
    recovery->slots[recovery->slot_count++] = slot;
    return ONCE_OK;
}

static int read_header(struct once__recovery *recovery, uint32_t slot, bool *ret_short,
                       struct once__segment_header *ret_header, struct once_defect *ret_defect)
{
    struct once__engine *engine = recovery->engine;
    uint8_t block[ONCE__SEGMENT_HEADER_SIZE] = {0};
    struct once__file *file;
    char name[ONCE__NAME_SIZE];
    uint64_t file_size = 0;
    size_t size = 0;
    int err;

    once__segment_name(slot, name);
    err = engine->vfs->ops->open(engine->vfs, name, 0, &file);
    if (err != ONCE_OK)
        return err;
    err = once__file_size(file, &file_size);
    if (err == ONCE_OK)
        err = once__file_read(file, 0, block, sizeof(block), &size);
    once__file_close(file);
    if (err != ONCE_OK)
        return err;
    *ret_short = file_size < engine->segment_size;
    return once__segment_header_decode((struct once_bytes){block, sizeof(block)}, ret_header,
                                       ret_defect);
}

void once__recovery_spare(struct once__engine *engine, uint32_t slot, bool filled)
{
    *engine->segments[slot] = (struct once__segment){.state = ONCE__SEGMENT_SPARE,
                                                     .filled = filled};
    engine->file_count++;
    engine->spare_count++;
    engine->filled_count += filled ? 1 : 0;
}

static int look_at(struct once__recovery *recovery, uint32_t slot)
{
    struct once__engine *engine = recovery->engine;
    struct once__seen *seen = &recovery->seen[recovery->seen_count];
    struct once_defect defect = {0, NULL};
    char name[ONCE__NAME_SIZE];
    bool is_short = false;
    int err = once__segment_take_slot(engine, slot);

    if (err != ONCE_OK)
        return err;
    seen->slot = slot;
    once__segment_name(slot, name);
    err = read_header(recovery, slot, &is_short, &seen->header, &defect);
    if (err == ONCE_ERR_NO_STORE) {
        if (is_short) /* it was being made when the process ended */
            return engine->vfs->ops->remove(engine->vfs, name);
        once__recovery_spare(engine, slot, false);
        engine->segments[slot]->blank = true;
        return ONCE_OK;
    }
    if (err == ONCE_ERR_VERSION)
        return once__message(err, recovery->message, "%s: %s", name, defect.what);
    if (err == ONCE_ERR_DAMAGED)
        return once__recovery_damaged(recovery, seen, defect.offset, defect.what);
    if (err != ONCE_OK)
        return once__message(err, recovery->message, "%s cannot be read (system error %d)", name,
                             engine->vfs->system_errno);
    if (memcmp(seen->header.store_id, engine->file.id, sizeof(engine->file.id)) != 0 ||
        seen->header.segment_size != engine->segment_size)
        return once__recovery_damaged(recovery, seen, 0, "it belongs to another store");
    if (is_short)
        return once__recovery_damaged(recovery, seen, 0, "the file is shorter than a segment");
    recovery->seen_count++;
    return ONCE_OK;
}

static int by_sequence(const void *a, const void *b)
{
    uint64_t x = ((const struct once__seen *)a)->header.sequence;
    uint64_t y = ((const struct once__seen *)b)->header.sequence;

    return (x > y) - (x < y);
}

static int look_at_all(struct once__recovery *recovery)
{
    int err = vfs_of(recovery)->ops->list(vfs_of(recovery), note_name, recovery);

    if (err != ONCE_OK)
        return err;
    recovery->seen = calloc(recovery->slot_count + 1, sizeof(*recovery->seen));
    if (!recovery->seen)
        return ONCE_ERR_MEMORY;
    for (size_t i = 0; err == ONCE_OK && i < recovery->slot_count; i++)
        err = look_at(recovery, recovery->slots[i]);
    if (err != ONCE_OK)
        return err;
    qsort(recovery->seen, recovery->seen_count, sizeof(*recovery->seen), by_sequence);
    for (size_t i = 1; i < recovery->seen_count; i++) {
        if (recovery->seen[i].header.sequence == recovery->seen[i - 1].header.sequence)
            return once__recovery_damaged(recovery, &recovery->seen[i], 0,
                                          "another file holds the same segment");
    }
    return ONCE_OK;
}

/* ---- A new store ----------------------------------------------------------------------------- */

static const char NEW_STORE_NAME[] = ONCE__STORE_NAME ".new";
static const char OLD_STORE_NAME[] = ONCE__STORE_NAME ".old"; /* of an earlier try */

/* A new store is made under another name first: a folder with that name and no store is one whose
 * making was interrupted, and nothing in it was ever used. */
static int make_store_file(struct once__engine *engine)
{
    struct once__vfs *vfs = engine->vfs;
    uint8_t bytes[ONCE__STORE_FILE_SIZE];
    struct once__file *file;
    int err = once__clock_start(&engine->clock, engine->clock.source, 0); /* is it sane? */

    if (err == ONCE_OK)
        err = once__random_bytes(engine->file.id, sizeof(engine->file.id));
    if (err == ONCE_OK)
        err = once__random_bytes(engine->file.secret, sizeof(engine->file.secret));
    if (err != ONCE_OK)
        return err;
    engine->file.segment_size = engine->options.segment_size;
    engine->file.created_ms = engine->clock.source->wall_ms(engine->clock.source->self);
    once__store_file_encode(&engine->file, bytes);
    err = vfs->ops->open(vfs, NEW_STORE_NAME, ONCE__OPEN_CREATE | ONCE__OPEN_WRITE, &file);
    if (err != ONCE_OK)
        return err;
    err = once__file_write(file, 0, bytes, sizeof(bytes));
    if (err == ONCE_OK)
        err = once__file_sync(file);
    once__file_close(file);
    return err == ONCE_OK ? vfs->ops->sync_folder(vfs) : err;
}

static int read_store_file(struct once__recovery *recovery, bool *ret_there)
{
    struct once__engine *engine = recovery->engine;
    uint8_t bytes[ONCE__STORE_FILE_SIZE] = {0};
    struct once_defect defect = {0, NULL};
    struct once__file *file;
    size_t size = 0;
    int err = engine->vfs->ops->open(engine->vfs, ONCE__STORE_NAME, 0, &file);

    *ret_there = err != ONCE_ERR_NO_STORE;
    if (err == ONCE_ERR_NO_STORE)
        return ONCE_OK;
    if (err == ONCE_OK) {
        err = once__file_read(file, 0, bytes, sizeof(bytes), &size);
        once__file_close(file);
    }
    if (err != ONCE_OK)
        return err;
    err = once__store_file_decode((struct once_bytes){bytes, size}, &engine->file, &defect);
    if (err != ONCE_OK)
        return once__message(err, recovery->message, "%s, offset %zu: %s", ONCE__STORE_NAME,
                             defect.offset, defect.what);
    return ONCE_OK;
}

/* The first segment of a store: its header is written here, all others by the log. */
static int make_first(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    struct once__segment_header header = {
        .segment_size = engine->segment_size,
        .sequence = 1,
        .first_batch = 1,
        .created_ms = engine->clock.source->wall_ms(engine->clock.source->self),
        .salt = once__segment_salt(engine->file.secret, 1),
        .life = engine->log.life,
    };
    void *block = aligned_alloc(ONCE_BLOCK_SIZE, ONCE__SEGMENT_HEADER_SIZE);
    struct once__file *file;
    char name[ONCE__NAME_SIZE];
    uint32_t slot;
    int err = block ? once__segment_new_slot(engine, &slot) : ONCE_ERR_MEMORY;

    if (err != ONCE_OK)
        goto out;
    err = once__segment_make_file(engine, slot, true, &file);
    if (err == ONCE_OK)
        err = once__segment_sync_file(engine, slot, file);
    if (err == ONCE_ERR_STOPPED)
        err = ONCE_ERR_IO;
    engine->segments[slot]->state = ONCE__SEGMENT_NONE;
    engine->file_count--;
    if (err != ONCE_OK)
        goto out;
    memcpy(header.store_id, engine->file.id, sizeof(header.store_id));
    once__segment_header_encode(&header, block);
    once__segment_name(slot, name);
    err = engine->vfs->ops->open(engine->vfs, name, ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE, &file);
    if (err != ONCE_OK)
        goto out;
    err = once__file_write(file, 0, block, ONCE__SEGMENT_HEADER_SIZE);
    once__file_close(file);
    if (err == ONCE_OK)
        err = engine->vfs->ops->sync_folder(engine->vfs);
    recovery->seen[0] = (struct once__seen){.slot = slot, .header = header};
    recovery->seen_count = 1;
out:
    free(block);
    return err;
}

static int remove_leftovers(struct once__recovery *recovery)
{
    struct once__vfs *vfs = vfs_of(recovery);
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < recovery->slot_count; i++) {
        char name[ONCE__NAME_SIZE];

        once__segment_name(recovery->slots[i], name);
        err = vfs->ops->remove(vfs, name);
        if (err == ONCE_ERR_NO_STORE)
            err = ONCE_OK;
    }
    return err == ONCE_OK ? vfs->ops->sync_folder(vfs) : err;
}

static bool is_there(struct once__vfs *vfs, const char *name)
{
    struct once__file *file = NULL;
    int err = vfs->ops->open(vfs, name, 0, &file);

    once__file_close(file);
    return err == ONCE_OK;
}

/* Does a file in the folder of an unfinished making hold anything? The making ends before the first
 * batch of segment 1: everything else is a store that has lost its store file. */
static int is_in_use(struct once__recovery *recovery, uint32_t slot, bool *ret_in_use)
{
    struct once__vfs *vfs = vfs_of(recovery);
    uint8_t block[ONCE__SEGMENT_HEADER_SIZE] = {0};
    struct once__segment_header header;
    struct once__scan scan = {0};
    struct once__file *file = NULL;
    struct once_defect defect;
    char name[ONCE__NAME_SIZE];
    size_t size = 0;
    int err;

    once__segment_name(slot, name);
    err = vfs->ops->open(vfs, name, 0, &file);
    if (err == ONCE_OK)
        err = once__file_read(file, 0, block, sizeof(block), &size);
    if (err == ONCE_OK) {
        err = once__segment_header_decode((struct once_bytes){block, sizeof(block)}, &header,
                                          &defect);
        *ret_in_use = err != ONCE_ERR_NO_STORE;
        if (err == ONCE_OK && header.sequence == 1) {
            err = once__scan_segment(
                &(struct once__scan_input){
                    .file = file, .store_id = header.store_id, .segment_size = header.segment_size},
                NULL, &scan);
            *ret_in_use = scan.batch_count > 0 || scan.ended == ONCE__SCAN_DAMAGED;
        } else {
            err = ONCE_OK;
        }
    }
    once__file_close(file);
    return err;
}

static int make_store(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    struct once__vfs *vfs = engine->vfs;
    bool tried = is_there(vfs, NEW_STORE_NAME);
    bool unfinished = tried || is_there(vfs, OLD_STORE_NAME);
    bool in_use = false;
    int err = vfs->ops->list(vfs, note_name, recovery);

    for (size_t i = 0; err == ONCE_OK && unfinished && !in_use && i < recovery->slot_count; i++)
        err = is_in_use(recovery, recovery->slots[i], &in_use);
    if (err == ONCE_OK && recovery->slot_count > 0 && (!unfinished || in_use))
        return once__message(ONCE_ERR_DAMAGED, recovery->message,
                             "the file '%s' is missing, but there are segments; bring it back from "
                             "a backup, or let `once check --repair` make it again",
                             ONCE__STORE_NAME);
    if (err == ONCE_OK && engine->options.must_exist && !unfinished)
        return once__message(ONCE_ERR_NO_STORE, recovery->message,
                             "there is no store in this folder");
    if (err == ONCE_OK)
        err = remove_leftovers(recovery);
    if (err == ONCE_OK && tried) /* its name may not be durable, and a sync would prove nothing */
        err = vfs->ops->rename(vfs, NEW_STORE_NAME, OLD_STORE_NAME);
    if (err == ONCE_OK)
        err = make_store_file(engine);
    if (err != ONCE_OK)
        return err;
    engine->segment_size = engine->file.segment_size;
    recovery->made = true;
    recovery->seen = calloc(1, sizeof(*recovery->seen));
    err = recovery->seen ? make_first(recovery) : ONCE_ERR_MEMORY;
    if (err == ONCE_OK)
        err = vfs->ops->rename(vfs, NEW_STORE_NAME, ONCE__STORE_NAME);
    if (err == ONCE_OK)
        err = vfs->ops->sync_folder(vfs);
    if (err == ONCE_OK && unfinished)
        (void)vfs->ops->remove(vfs, OLD_STORE_NAME); /* means nothing beside a store */
    return err;
}

static int check_bound(struct once__recovery *recovery, uint32_t segment_size)
{
    uint64_t size_max = recovery->engine->options.disk_size_max;

    if (size_max > 0 && size_max / 4 < segment_size)
        return once__message(ONCE_ERR_INVALID, recovery->message,
                             "the store needs space for at least 4 segments of %u bytes",
                             segment_size);
    return ONCE_OK;
}

int once__recovery_open(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    bool there;
    int err = read_store_file(recovery, &there);

    if (err == ONCE_OK)
        err = check_bound(recovery,
                          there ? engine->file.segment_size : engine->options.segment_size);
    if (err != ONCE_OK)
        return err;
    if (!there)
        return make_store(recovery);
    engine->segment_size = engine->file.segment_size;
    err = look_at_all(recovery);
    if (err == ONCE_OK && recovery->seen_count == 0)
        return once__message(ONCE_ERR_DAMAGED, recovery->message,
                             "the store has no segments; bring them back from a backup");
    /* A process that was killed may have left names that are not durable yet. */
    return err == ONCE_OK ? engine->vfs->ops->sync_folder(engine->vfs) : err;
}

/* Its making may have failed at the last step, the sync of its name, and to sync it now would prove
 * nothing (INV-8). Nothing is in it. */
int once__recovery_make_again(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    struct once__vfs *vfs = engine->vfs;
    int err = vfs->ops->rename(vfs, ONCE__STORE_NAME, NEW_STORE_NAME); /* unfinished, again */

    if (err == ONCE_OK) {
        err = vfs->ops->sync_folder(vfs);
        if (err != ONCE_OK) /* whoever comes next shall not believe a name that is not durable */
            (void)vfs->ops->rename(vfs, NEW_STORE_NAME, ONCE__STORE_NAME);
    }
    if (err == ONCE_OK)
        err = remove_leftovers(recovery);
    if (err != ONCE_OK)
        return err;
    for (uint32_t slot = 0; slot < engine->segment_count; slot++)
        *engine->segments[slot] = (struct once__segment){.state = ONCE__SEGMENT_NONE};
    engine->file_count = engine->spare_count = engine->filled_count = 0;
    recovery->slot_count = 0;
    engine->options.segment_size = engine->segment_size;
    free(recovery->seen);
    recovery->seen = NULL;
    return make_store(recovery);
}

/* A blank spare: its name and size may not be durable, if the last life ended in a failed sync. */
static int renew_spare(struct once__recovery *recovery, uint32_t old)
{
    struct once__engine *engine = recovery->engine;
    char name[ONCE__NAME_SIZE];
    int err = once__space_grow(engine);

    if (err != ONCE_OK)
        return err;
    once__segment_forget_reader(engine, old);
    once__segment_name(old, name);
    err = engine->vfs->ops->remove(engine->vfs, name);
    if (err != ONCE_OK)
        return err;
    *engine->segments[old] = (struct once__segment){.state = ONCE__SEGMENT_NONE};
    engine->spare_count--;
    engine->file_count--;
    return engine->vfs->ops->sync_folder(engine->vfs);
}

int once__recovery_renew_spares(struct once__recovery *recovery)
{
    struct once__engine *engine = recovery->engine;
    uint32_t count = engine->segment_count;
    int err = ONCE_OK;

    if (recovery->last.flags & ONCE__BATCH_CLOSED)
        return ONCE_OK;
    for (uint32_t slot = 0; err == ONCE_OK && slot < count; slot++) {
        const struct once__segment *segment = engine->segments[slot];

        if (segment->state == ONCE__SEGMENT_SPARE && segment->blank)
            err = renew_spare(recovery, slot);
    }
    if (err == ONCE_ERR_STOPPED)
        return ONCE_ERR_IO;
    return err == ONCE_ERR_SPACE ? ONCE_OK : err; /* a full disk: better these than none */
}
