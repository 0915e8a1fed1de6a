/* SPDX-License-Identifier: Apache-2.0
 *
 * The test disk keeps the promises of vfs.h, and no more than these: everything that may happen at
 * a power cut does happen for some seed.
 */
#include "unit/seeded.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <once/limits.h>

#include "disk/disk.h"

enum {
    BLOCK = ONCE_BLOCK_SIZE,
    SECTOR = 512,
    SECTORS = BLOCK / SECTOR,
    SEEDS = 400,
    MAKE = ONCE__OPEN_CREATE | ONCE__OPEN_WRITE
};

static _Alignas(ONCE_BLOCK_SIZE) uint8_t blocks[8][BLOCK]; /* blocks[i] is full of i */
static _Alignas(ONCE_BLOCK_SIZE) uint8_t back[8 * BLOCK];

static int fill_blocks(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        memset(blocks[i], i, BLOCK);
    return 0;
}

static struct once__file *open_file(struct once__vfs *vfs, const char *name, unsigned flags)
{
    struct once__file *file = NULL;

    assert_int_equal(vfs->ops->open(vfs, name, flags, &file), ONCE_OK);
    return file;
}

/* A disk with a durable file "f" of one block of 1s. */
static struct disk *disk_with_file(uint64_t seed)
{
    struct disk *disk = disk_new(seed, 1 << 20);
    struct once__vfs *vfs = disk_mount(disk);
    struct once__file *file = open_file(vfs, "f", MAKE | ONCE__OPEN_DURABLE);

    assert_int_equal(once__file_write(file, 0, blocks[1], BLOCK), ONCE_OK);
    assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_OK);
    once__file_close(file);
    vfs->ops->free(vfs);
    return disk;
}

static void end(struct disk *disk, struct once__vfs *vfs, struct once__file *file)
{
    once__file_close(file);
    vfs->ops->free(vfs);
    disk_free(disk);
}

/* One bit for each sector of f's first block: 1 where it is new. Fails on anything torn finer. */
static unsigned new_sectors(struct disk *disk, int old, int new)
{
    unsigned bits = 0;

    assert_true(disk_peek(disk, "f", 0, back, BLOCK));
    for (int i = 0; i < SECTORS; i++) {
        const uint8_t *sector = back + i * SECTOR;

        assert_true(sector[0] == old || sector[0] == new);
        assert_int_equal(memcmp(sector, blocks[sector[0]], SECTOR), 0);
        bits |= (unsigned)(sector[0] == new) << i;
    }
    return bits;
}

static bool is_prefix(unsigned bits)
{
    return (bits & (bits + 1)) == 0;
}

/* What was seen over all seeds. */
struct sights {
    unsigned none, all, prefix, suffix, mixed;
};

static void look(struct sights *sights, unsigned bits)
{
    const unsigned all = (1U << SECTORS) - 1;

    if (bits == 0)
        sights->none++;
    else if (bits == all)
        sights->all++;
    else if (is_prefix(bits))
        sights->prefix++;
    else if (is_prefix(~bits & all))
        sights->suffix++;
    else
        sights->mixed++;
}

static void assert_all_seen(const struct sights *sights)
{
    assert_true(sights->none > SEEDS / 20);
    assert_true(sights->all > SEEDS / 20);
    assert_true(sights->prefix > SEEDS / 40);
    assert_true(sights->suffix > SEEDS / 40);
    assert_true(sights->mixed > SEEDS / 40);
}

static void cut__unsynced_write__leaves_every_mixture_of_sectors(void **state)
{
    struct sights sights = {0};

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk *disk = disk_with_file(seed);
        struct once__vfs *vfs = disk_mount(disk);
        struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE | ONCE__OPEN_DIRECT);

        assert_int_equal(once__file_write(file, 0, blocks[2], BLOCK), ONCE_OK);
        assert_int_equal(new_sectors(disk, 1, 2), (1U << SECTORS) - 1);
        disk_cut(disk);
        assert_true(disk_is_cut(disk));
        look(&sights, new_sectors(disk, 1, 2));
        assert_int_equal(disk_file_size(disk, "f"), BLOCK);
        end(disk, vfs, file);
    }
    assert_all_seen(&sights);
}

static void cut__during_a_durable_write__tears_it(void **state)
{
    struct sights sights = {0};

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk *disk = disk_with_file(seed);
        struct once__vfs *vfs = disk_mount(disk);
        struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE);
        struct disk_faults faults = {.cut_at = disk_operations(disk) + 2};
        size_t got;
        uint64_t size;

        disk_set_faults(disk, &faults);
        assert_int_equal(once__file_write(file, 0, blocks[2], BLOCK), ONCE_OK);
        assert_false(disk_is_cut(disk));
        assert_int_equal(once__file_write(file, 0, blocks[3], BLOCK), ONCE_ERR_IO);
        assert_true(disk_is_cut(disk));
        assert_int_equal(once__file_read(file, 0, back, BLOCK, &got), ONCE_ERR_IO);
        assert_int_equal(once__file_size(file, &size), ONCE_ERR_IO);
        assert_int_equal(once__file_sync(file), ONCE_ERR_IO);
        assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_ERR_IO);
        once__file_close(file);
        vfs->ops->free(vfs);
        look(&sights, new_sectors(disk, 2, 3));
        vfs = disk_mount(disk);
        assert_false(disk_is_cut(disk));
        end(disk, vfs, NULL);
    }
    assert_all_seen(&sights);
}

static void cut__durable_or_synced__keeps_it(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk *disk = disk_with_file(seed);
        struct once__vfs *vfs = disk_mount(disk);
        struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE);
        struct once__file *plain = open_file(vfs, "p", MAKE);
        char text[8];

        assert_int_equal(once__file_write(plain, 0, "lost on", 7), ONCE_OK);
        assert_int_equal(once__file_write(plain, 5, "me", 2), ONCE_OK);
        assert_int_equal(once__file_sync(plain), ONCE_OK);
        assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_OK);
        assert_int_equal(once__file_write(file, BLOCK, blocks[2], BLOCK), ONCE_OK);
        disk_cut(disk);
        assert_int_equal(disk_file_size(disk, "f"), 2 * BLOCK);
        assert_true(disk_peek(disk, "f", BLOCK, back, BLOCK));
        assert_memory_equal(back, blocks[2], BLOCK);
        assert_int_equal(disk_file_size(disk, "p"), 7);
        assert_true(disk_peek(disk, "p", 0, text, 7));
        assert_memory_equal(text, "lost me", 7);
        once__file_close(file);
        end(disk, vfs, plain);
    }
}

static void cut__order_of_two_files__is_kept_or_turned(void **state)
{
    unsigned seen[4] = {0};

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk *disk = disk_with_file(seed);
        struct once__vfs *vfs = disk_mount(disk);
        struct once__file *first = open_file(vfs, "f", ONCE__OPEN_WRITE);
        struct once__file *second = open_file(vfs, "g", MAKE);
        uint8_t byte = 0;

        assert_int_equal(once__file_write(second, 0, "0", 1), ONCE_OK);
        assert_int_equal(once__file_sync(second), ONCE_OK);
        assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_OK);
        assert_int_equal(once__file_write(first, 0, blocks[2], SECTOR), ONCE_OK);
        assert_int_equal(once__file_write(second, 0, "1", 1), ONCE_OK);
        disk_cut(disk);
        assert_true(disk_peek(disk, "g", 0, &byte, 1));
        seen[(new_sectors(disk, 1, 2) == 1) + 2 * (byte == '1')]++;
        once__file_close(first);
        end(disk, vfs, second);
    }
    for (int i = 0; i < 4; i++)
        assert_true(seen[i] > SEEDS / 20);
}

/* What a cut took does not come back when the file grows over its place. */
static void grow_again(struct disk *disk, uint64_t old_size)
{
    struct once__vfs *vfs = disk_mount(disk);
    struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE);

    assert_int_equal(once__file_allocate(file, 2 * BLOCK), ONCE_OK);
    assert_int_equal(once__file_sync(file), ONCE_OK);
    assert_int_equal(once__file_write(file, BLOCK, blocks[3], BLOCK), ONCE_OK);
    disk_cut(disk);
    assert_true(disk_peek(disk, "f", 0, back, 2 * BLOCK));
    for (uint64_t at = old_size; at < 2 * BLOCK; at += SECTOR)
        assert_true(back[at] == 0 || back[at] == 3);
    once__file_close(file);
    vfs->ops->free(vfs);
}

static void cut__growing_file__ends_anywhere_and_has_zeros(void **state)
{
    unsigned old = 0, new = 0, between = 0, zeros = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk *disk = disk_with_file(seed);
        struct once__vfs *vfs = disk_mount(disk);
        struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE);
        uint64_t size;

        assert_int_equal(once__file_write(file, BLOCK, blocks[2], BLOCK), ONCE_OK);
        disk_cut(disk);
        size = disk_file_size(disk, "f");
        assert_in_range(size, BLOCK, 2 * BLOCK);
        old += size == BLOCK;
        new += size == 2 * BLOCK;
        between += size > BLOCK && size < 2 * BLOCK;
        assert_true(disk_peek(disk, "f", 0, back, (size_t)size));
        for (uint64_t at = BLOCK; at < size; at += SECTOR) {
            assert_true(back[at] == 0 || back[at] == 2);
            assert_memory_equal(back + at, blocks[back[at]], SECTOR);
            zeros += back[at] == 0;
        }
        assert_int_equal(disk_used(disk), size);
        once__file_close(file);
        vfs->ops->free(vfs);
        grow_again(disk, size);
        disk_free(disk);
    }
    assert_true(old > 0 && new > 0 && between > 0 && zeros > 0);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void cut__unsynced_names__come_and_go_whole(void **state)
{
    unsigned made = 0, replaced = 0, removed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk *disk = disk_with_file(seed);
        struct once__vfs *vfs = disk_mount(disk);
        struct once__file *other = open_file(vfs, "new", MAKE | ONCE__OPEN_DURABLE);
        struct once__file *gone = open_file(vfs, "gone", MAKE);
        unsigned bits;

        assert_int_equal(once__file_write(other, 0, blocks[2], BLOCK), ONCE_OK);
        assert_int_equal(once__file_write(gone, 0, "x", 1), ONCE_OK);
        assert_int_equal(once__file_sync(gone), ONCE_OK);
        assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_OK);
        once__file_close(open_file(vfs, "made", MAKE));
        assert_int_equal(vfs->ops->rename(vfs, "new", "f"), ONCE_OK);
        assert_int_equal(vfs->ops->remove(vfs, "gone"), ONCE_OK);
        assert_int_equal(disk_file_size(disk, "gone"), 0);
        assert_int_equal(new_sectors(disk, 1, 2), (1U << SECTORS) - 1);
        disk_cut(disk);
        bits = new_sectors(disk, 1, 2);
        assert_true(bits == 0 || bits == (1U << SECTORS) - 1);
        /* The rename is one thing: new is there exactly when f is still the old one. */
        assert_int_equal(disk_file_size(disk, "new"), bits ? 0 : BLOCK);
        replaced += bits != 0;
        removed += disk_file_size(disk, "gone") == 0;
        made += disk_peek(disk, "made", 0, back, 0);
        once__file_close(other);
        end(disk, vfs, gone);
    }
    assert_in_range(made, SEEDS / 10, SEEDS * 9 / 10);
    assert_in_range(replaced, SEEDS / 10, SEEDS * 9 / 10);
    assert_in_range(removed, SEEDS / 10, SEEDS * 9 / 10);
}

static int count_names(void *user, const char *name)
{
    (void)name;
    ++*(unsigned *)user;
    return ONCE_OK;
}

/* What is called back may use the disk. */
static int remove_it(void *user, const char *name)
{
    struct once__vfs *vfs = user;

    return vfs->ops->remove(vfs, name);
}

static void list__each_name__is_there_once(void **state)
{
    struct disk *disk = disk_with_file(1);
    struct once__vfs *vfs = disk_mount(disk);
    struct once__file *file = NULL;
    unsigned count = 0;

    (void)state;
    once__file_close(open_file(vfs, "g", MAKE));
    assert_int_equal(vfs->ops->list(vfs, count_names, &count), ONCE_OK);
    assert_int_equal(count, 2);
    assert_int_equal(vfs->ops->open(vfs, "h", ONCE__OPEN_WRITE, &file), ONCE_ERR_NO_STORE);
    assert_int_equal(vfs->ops->rename(vfs, "h", "g"), ONCE_ERR_NO_STORE);
    assert_int_equal(vfs->ops->list(vfs, remove_it, vfs), ONCE_OK);
    assert_int_equal(vfs->ops->remove(vfs, "g"), ONCE_ERR_NO_STORE);
    count = 0;
    assert_int_equal(vfs->ops->list(vfs, count_names, &count), ONCE_OK);
    assert_int_equal(count, 0);
    end(disk, vfs, NULL);
}

/* ---- Failing writes and syncs ---------------------------------------------------------------- */

static void fail_sync__synced_again__is_still_not_durable(void **state)
{
    unsigned lost = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk *disk = disk_with_file(seed);
        struct once__vfs *vfs = disk_mount(disk);
        struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE);
        struct disk_faults faults = {.fail_sync_at = disk_operations(disk) + 1};

        disk_set_faults(disk, &faults);
        assert_int_equal(once__file_write(file, 0, blocks[2], BLOCK), ONCE_OK);
        assert_int_equal(once__file_sync(file), ONCE_ERR_IO);
        assert_int_equal(new_sectors(disk, 1, 2), (1U << SECTORS) - 1);
        assert_int_equal(once__file_sync(file), ONCE_OK);
        /* Only the sector that is written again becomes durable. */
        assert_int_equal(once__file_write(file, 3 * SECTOR + 7, blocks[2], 1), ONCE_OK);
        assert_int_equal(once__file_sync(file), ONCE_OK);
        disk_cut(disk);
        assert_true(new_sectors(disk, 1, 2) & 1 << 3);
        lost += new_sectors(disk, 1, 2) != (1U << SECTORS) - 1;
        end(disk, vfs, file);
    }
    assert_true(lost > SEEDS / 3);
}

static void fail_sync__of_the_folder__leaves_names_undurable(void **state)
{
    unsigned lost = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk *disk = disk_with_file(seed);
        struct once__vfs *vfs = disk_mount(disk);
        struct disk_faults faults = {.fail_sync_at = disk_operations(disk) + 1};

        disk_set_faults(disk, &faults);
        once__file_close(open_file(vfs, "a", MAKE));
        once__file_close(open_file(vfs, "b", MAKE));
        assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_ERR_IO);
        once__file_close(open_file(vfs, "c", MAKE));
        assert_int_equal(vfs->ops->remove(vfs, "b"), ONCE_OK);
        assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_OK);
        disk_cut(disk);
        lost += !disk_peek(disk, "a", 0, back, 0);
        assert_false(disk_peek(disk, "b", 0, back, 0));
        assert_true(disk_peek(disk, "c", 0, back, 0));
        end(disk, vfs, NULL);
    }
    assert_in_range(lost, SEEDS / 10, SEEDS * 9 / 10);
}

static void fail_write__any_part__is_there_now_and_gone_later(void **state)
{
    unsigned shown = 0, gone = 0, whole = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk *disk = disk_with_file(seed);
        struct once__vfs *vfs = disk_mount(disk);
        struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE);
        struct disk_faults faults = {.fail_write_at = disk_operations(disk) + 1};
        unsigned bits;

        disk_set_faults(disk, &faults);
        assert_int_equal(once__file_sync(file), ONCE_OK); /* no write: the next one then */
        assert_int_equal(once__file_write(file, 0, blocks[2], BLOCK), ONCE_ERR_IO);
        bits = new_sectors(disk, 1, 2);
        shown += bits != 0;
        whole += bits == (1U << SECTORS) - 1;
        assert_int_equal(once__file_sync(file), ONCE_OK);
        assert_int_equal(once__file_write(file, BLOCK, blocks[3], BLOCK), ONCE_OK);
        disk_cut(disk);
        gone += bits & ~new_sectors(disk, 1, 2) ? 1 : 0;
        assert_int_equal(new_sectors(disk, 1, 2) & ~bits, 0);
        assert_int_equal(disk_file_size(disk, "f"), 2 * BLOCK);
        end(disk, vfs, file);
    }
    assert_true(shown > SEEDS / 3 && shown < SEEDS);
    assert_true(whole > SEEDS / 10);
    assert_true(gone > SEEDS / 10);
}

static void fail_for_ever__every_later_one__fails_too(void **state)
{
    struct disk *disk = disk_with_file(7);
    struct once__vfs *vfs = disk_mount(disk);
    struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE);
    struct disk_faults faults = {.fail_write_at = disk_operations(disk) + 2,
                                 .fail_sync_at = disk_operations(disk) + 4,
                                 .fail_for_ever = true};

    (void)state;
    disk_set_faults(disk, &faults);
    assert_int_equal(once__file_write(file, 0, blocks[2], BLOCK), ONCE_OK);
    assert_int_equal(once__file_write(file, 0, blocks[2], BLOCK), ONCE_ERR_IO);
    assert_int_equal(once__file_sync(file), ONCE_OK);
    assert_int_equal(once__file_write(file, 0, blocks[2], BLOCK), ONCE_ERR_IO);
    assert_int_equal(once__file_sync(file), ONCE_ERR_IO);
    assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_ERR_IO);
    end(disk, vfs, file);
}

/* ---- Room ------------------------------------------------------------------------------------ */

static void full__new_space__is_refused_and_old_space_is_not(void **state)
{
    struct disk *disk = disk_new(3, 3 * BLOCK);
    struct once__vfs *vfs = disk_mount(disk);
    struct once__file *file = open_file(vfs, "f", MAKE | ONCE__OPEN_DURABLE);
    struct disk_faults faults = {.full_at = 7, .full_until = 8};
    uint64_t size = 0;

    (void)state;
    assert_int_equal(once__file_allocate(file, 2 * BLOCK), ONCE_OK);
    assert_int_equal(once__file_allocate(file, 4 * BLOCK), ONCE_ERR_SPACE);
    assert_int_equal(once__file_write(file, 2 * BLOCK, blocks[1], 2 * BLOCK), ONCE_ERR_SPACE);
    assert_int_equal(vfs->ops->free_size(vfs, &size), ONCE_OK);
    assert_int_equal(size, BLOCK);
    assert_int_equal(once__file_write(file, BLOCK, blocks[1], BLOCK), ONCE_OK);
    disk_set_faults(disk, &faults);
    assert_int_equal(once__file_write(file, 0, blocks[1], BLOCK), ONCE_OK); /* 6 */
    assert_int_equal(vfs->ops->free_size(vfs, &size), ONCE_OK);
    assert_int_equal(size, 0);
    assert_int_equal(once__file_write(file, 0, blocks[2], BLOCK), ONCE_OK);
    assert_int_equal(once__file_write(file, 2 * BLOCK, blocks[1], BLOCK), ONCE_ERR_SPACE);
    assert_int_equal(once__file_write(file, 2 * BLOCK, blocks[1], BLOCK), ONCE_OK);
    assert_int_equal(disk_operations(disk), 9);
    assert_int_equal(disk_used(disk), 3 * BLOCK);
    /* Removed, it takes its space until that is durable. */
    once__file_close(file);
    assert_int_equal(vfs->ops->remove(vfs, "f"), ONCE_OK);
    assert_int_equal(disk_used(disk), 3 * BLOCK);
    assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_OK);
    assert_int_equal(disk_used(disk), 0);
    end(disk, vfs, NULL);
}

/* ---- Lives ----------------------------------------------------------------------------------- */

static void lock__one_life__keeps_others_out_until_it_ends(void **state)
{
    struct disk *disk = disk_new(1, 1 << 20);
    struct once__vfs *first = disk_mount(disk), *second = disk_mount(disk);
    char owner[8] = "";

    (void)state;
    assert_int_equal(first->ops->lock(first, "lock", "the first one", owner, 8), ONCE_OK);
    assert_int_equal(second->ops->lock(second, "lock", "the second", owner, 8), ONCE_ERR_LOCKED);
    assert_string_equal(owner, "the fir");
    first->ops->free(first);
    assert_int_equal(second->ops->lock(second, "lock", "second", owner, 8), ONCE_OK);
    assert_int_equal(disk_file_size(disk, "lock"), 6);
    first = disk_mount(disk);
    assert_int_equal(first->ops->lock(first, "lock", "first", owner, 8), ONCE_ERR_LOCKED);
    assert_string_equal(owner, "second");
    first->ops->free(first);
    disk_kill(disk);
    first = disk_mount(disk);
    assert_int_equal(first->ops->lock(first, "lock", "first", owner, 8), ONCE_OK);
    second->ops->free(second); /* dead: takes nothing with it */
    second = disk_mount(disk);
    assert_int_equal(second->ops->lock(second, "lock", "x", owner, 8), ONCE_ERR_LOCKED);
    first->ops->free(first);
    second->ops->free(second);
    disk_free(disk);
}

static void kill__unsynced_write__is_visible_and_can_be_synced(void **state)
{
    struct disk *disk = disk_with_file(5);
    struct once__vfs *dead = disk_mount(disk), *vfs;
    struct once__file *old = open_file(dead, "f", ONCE__OPEN_WRITE), *file;
    size_t got = 0;

    (void)state;
    assert_int_equal(once__file_write(old, 0, blocks[2], BLOCK), ONCE_OK);
    disk_kill(disk);
    assert_false(disk_is_cut(disk));
    assert_int_equal(once__file_write(old, 0, blocks[3], BLOCK), ONCE_ERR_IO);
    vfs = disk_mount(disk);
    assert_int_equal(once__file_write(old, 0, blocks[3], BLOCK), ONCE_ERR_IO);
    file = open_file(vfs, "f", ONCE__OPEN_DURABLE);
    assert_int_equal(once__file_read(file, 0, back, 2 * BLOCK, &got), ONCE_OK);
    assert_int_equal(got, BLOCK);
    assert_memory_equal(back, blocks[2], BLOCK);
    assert_int_equal(once__file_sync(file), ONCE_OK);
    disk_cut(disk);
    assert_int_equal(new_sectors(disk, 1, 2), (1U << SECTORS) - 1);
    once__file_close(old);
    once__file_close(file);
    dead->ops->free(dead);
    end(disk, vfs, NULL);
}

static void damage__flip_below_a_lost_write__is_seen_then(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct disk *disk = disk_with_file(seed);
        struct once__vfs *vfs = disk_mount(disk);
        struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE);

        assert_true(disk_flip(disk, "f", 0, 1 ^ 4));
        assert_int_equal(once__file_write(file, 0, blocks[2], SECTOR), ONCE_OK);
        disk_cut(disk);
        assert_true(disk_peek(disk, "f", 0, back, 2));
        assert_true((back[0] == 4 && back[1] == 1) || (back[0] == 2 && back[1] == 2));
        end(disk, vfs, file);
    }
}

static void damage__flip_and_remove__are_durable_at_once(void **state)
{
    struct disk *disk = disk_with_file(5);
    uint8_t byte = 0;

    (void)state;
    assert_true(disk_flip(disk, "f", 100, 0x81));
    assert_false(disk_flip(disk, "f", BLOCK, 1));
    assert_false(disk_flip(disk, "g", 0, 1));
    assert_false(disk_peek(disk, "f", 1, back, BLOCK));
    assert_false(disk_peek(disk, "f", UINT64_MAX, back, 2));
    disk_cut(disk);
    assert_true(disk_peek(disk, "f", 100, &byte, 1));
    assert_int_equal(byte, 0x80);
    assert_true(disk_remove(disk, "f"));
    assert_false(disk_remove(disk, "f"));
    disk_cut(disk);
    assert_int_equal(disk_file_size(disk, "f"), 0);
    assert_int_equal(disk_used(disk), 0);
    disk_free(disk);
}

/* A file that has just been made, and whose name is not durable yet. */
static void damage__remove_a_new_name__does_not_come_back(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct disk *disk = disk_new(seed, 1 << 20);
        struct once__vfs *vfs = disk_mount(disk);

        once__file_close(open_file(vfs, "f", MAKE));
        assert_true(disk_remove(disk, "f"));
        disk_cut(disk);
        assert_false(disk_peek(disk, "f", 0, back, 0));
        end(disk, vfs, NULL);
    }
}

/* ---- Mistakes of the caller ------------------------------------------------------------------ */

enum mistake { ODD_OFFSET, ODD_SIZE, ODD_MEMORY, ODD_READ, READER_WRITES, LEAK, MISTAKES };

static void make_mistake(enum mistake mistake)
{
    struct disk *disk = disk_with_file(1);
    struct once__vfs *vfs = disk_mount(disk);
    struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE | ONCE__OPEN_DIRECT);
    struct once__file *reader = open_file(vfs, "f", ONCE__OPEN_DURABLE);
    size_t got = 0;
    int err = ONCE_OK;

    if (mistake == ODD_OFFSET)
        err = once__file_write(file, SECTOR, blocks[1], BLOCK);
    else if (mistake == ODD_SIZE)
        err = once__file_write(file, 0, blocks[1], SECTOR);
    else if (mistake == ODD_MEMORY)
        err = once__file_write(file, 0, blocks[1] + SECTOR, BLOCK);
    else if (mistake == ODD_READ)
        err = once__file_read(reader, 0, back, 100, &got);
    else if (mistake == READER_WRITES)
        err = once__file_write(reader, 0, blocks[1], BLOCK);
    else
        vfs->ops->free(vfs);
    _exit(err == ONCE_OK ? 0 : 1);
}

static void mistakes__of_the_caller__abort(void **state)
{
    (void)state;
    for (int mistake = 0; mistake < MISTAKES; mistake++) {
        int status = 0;
        pid_t child = fork();

        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            if (!freopen("/dev/null", "w", stderr))
                _exit(2);
            make_mistake((enum mistake)mistake);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
    }
}

/* ---- Against a model ------------------------------------------------------------------------- */

enum { MODEL_SECTORS = 64, STEPS = 30 };

/* For each sector of "f" the byte it is full of: durable, and newest. */
struct model {
    uint8_t durable[MODEL_SECTORS];
    uint8_t newest[MODEL_SECTORS];
};

static void random_step(uint64_t *random, struct once__file *durable, struct once__file *plain,
                        struct model *model)
{
    uint8_t value = (uint8_t)seeded_below(random, 8);
    uint64_t first;

    switch (seeded_below(random, 4)) {
    case 0:
        first = seeded_below(random, MODEL_SECTORS / SECTORS) * SECTORS;
        assert_int_equal(once__file_write(durable, first * SECTOR, blocks[value], BLOCK), ONCE_OK);
        memset(model->durable + first, value, SECTORS);
        memset(model->newest + first, value, SECTORS);
        break;
    case 1:
        assert_int_equal(once__file_sync(durable), ONCE_OK);
        memcpy(model->durable, model->newest, MODEL_SECTORS);
        break;
    default:
        first = seeded_below(random, MODEL_SECTORS);
        assert_int_equal(once__file_write(plain, first * SECTOR, blocks[value], SECTOR), ONCE_OK);
        model->newest[first] = value;
    }
}

static void cut__random_writes__every_sector_is_old_or_new(void **state)
{
    uint64_t random = seeded_start("disk");
    struct disk *disk = disk_new(random, 1 << 20);
    struct model model = {{0}, {0}};

    (void)state;
    for (int life = 0; life < 2000; life++) {
        struct once__vfs *vfs = disk_mount(disk);
        struct once__file *durable = open_file(vfs, "f", MAKE | ONCE__OPEN_DURABLE);
        struct once__file *plain = open_file(vfs, "f", ONCE__OPEN_WRITE);

        if (life == 0) {
            assert_int_equal(once__file_allocate(durable, MODEL_SECTORS * SECTOR), ONCE_OK);
            assert_int_equal(once__file_sync(durable), ONCE_OK);
            assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_OK);
        }
        for (uint64_t i = seeded_below(&random, STEPS); i > 0; i--)
            random_step(&random, durable, plain, &model);
        disk_cut(disk);
        assert_true(disk_peek(disk, "f", 0, back, MODEL_SECTORS * SECTOR));
        for (int i = 0; i < MODEL_SECTORS; i++) {
            uint8_t value = back[i * SECTOR];

            assert_true(value == model.durable[i] || value == model.newest[i]);
            assert_memory_equal(back + i * SECTOR, blocks[value], SECTOR);
            model.durable[i] = model.newest[i] = value;
        }
        once__file_close(durable);
        once__file_close(plain);
        vfs->ops->free(vfs);
    }
    disk_free(disk);
}

static void same_seed__same_calls__give_the_same_disk(void **state)
{
    uint8_t first[2 * BLOCK];

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        for (int round = 0; round < 2; round++) {
            struct disk *disk = disk_with_file(seed);
            struct once__vfs *vfs = disk_mount(disk);
            struct once__file *file = open_file(vfs, "f", ONCE__OPEN_WRITE);

            assert_int_equal(once__file_write(file, 0, blocks[2], BLOCK), ONCE_OK);
            disk_cut(disk);
            assert_true(disk_peek(disk, "f", 0, round ? back : first, BLOCK));
            end(disk, vfs, file);
        }
        assert_memory_equal(first, back, BLOCK);
    }
}

enum { THREADS = 4 };

static void *write_in_thread(void *user)
{
    struct once__vfs *vfs = user;
    struct once__file *file = NULL;

    for (int i = 0; i < 200; i++) {
        if (vfs->ops->open(vfs, i % 2 ? "a" : "b", MAKE | ONCE__OPEN_DURABLE, &file) != ONCE_OK)
            break;
        if (once__file_write(file, (uint64_t)(i % 5) * BLOCK, blocks[i % 8], BLOCK) != ONCE_OK)
            i = 200;
        once__file_close(file);
    }
    return NULL;
}

static void threads__and_a_cut__are_safe(void **state)
{
    struct disk *disk = disk_new(9, 1 << 20);
    struct once__vfs *vfs = disk_mount(disk);
    struct disk_faults faults = {.cut_at = 500};
    pthread_t threads[THREADS];

    (void)state;
    disk_set_faults(disk, &faults);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_in_thread, vfs), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(disk_is_cut(disk));
    assert_int_equal(disk_operations(disk), 500);
    end(disk, vfs, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut__unsynced_write__leaves_every_mixture_of_sectors),
        cmocka_unit_test(cut__during_a_durable_write__tears_it),
        cmocka_unit_test(cut__durable_or_synced__keeps_it),
        cmocka_unit_test(cut__order_of_two_files__is_kept_or_turned),
        cmocka_unit_test(cut__growing_file__ends_anywhere_and_has_zeros),
        cmocka_unit_test(cut__unsynced_names__come_and_go_whole),
        cmocka_unit_test(list__each_name__is_there_once),
        cmocka_unit_test(fail_sync__synced_again__is_still_not_durable),
        cmocka_unit_test(fail_sync__of_the_folder__leaves_names_undurable),
        cmocka_unit_test(fail_write__any_part__is_there_now_and_gone_later),
        cmocka_unit_test(fail_for_ever__every_later_one__fails_too),
        cmocka_unit_test(full__new_space__is_refused_and_old_space_is_not),
        cmocka_unit_test(lock__one_life__keeps_others_out_until_it_ends),
        cmocka_unit_test(kill__unsynced_write__is_visible_and_can_be_synced),
        cmocka_unit_test(damage__flip_below_a_lost_write__is_seen_then),
        cmocka_unit_test(damage__flip_and_remove__are_durable_at_once),
        cmocka_unit_test(damage__remove_a_new_name__does_not_come_back),
        cmocka_unit_test(mistakes__of_the_caller__abort),
        cmocka_unit_test(cut__random_writes__every_sector_is_old_or_new),
        cmocka_unit_test(same_seed__same_calls__give_the_same_disk),
        cmocka_unit_test(threads__and_a_cut__are_safe),
    };

    return cmocka_run_group_tests_name("disk", tests, fill_blocks, NULL);
}
