/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of a check: what lies in the folder, the store file, and the list of findings. The log
 * itself is check_log.c's.
 *
 * Writes nothing; that is repair.c's.
 */
#include "engine/check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/random.h"
#include "engine/check_inner.h"
#include "engine/inner.h"

enum { GROW_FIRST = 16 };

int once__check_grow(void *items_pointer, size_t count, size_t *capacity, size_t item_size)
{
    void *items, *grown;
    size_t more = *capacity > 0 ? *capacity * 2 : GROW_FIRST;

    if (count < *capacity)
        return ONCE_OK;
    memcpy(&items, items_pointer, sizeof(items));
    grown = reallocarray(items, more, item_size);
    if (!grown)
        return ONCE_ERR_MEMORY;
    memcpy(items_pointer, &grown, sizeof(grown));
    *capacity = more;
    return ONCE_OK;
}

/* ---- Findings -------------------------------------------------------------------------------- */

struct once__finding *once__check_add(struct once__check *check, enum once__finding_kind kind,
                                      enum once__remedy remedy,
                                      const struct once__check_segment *segment)
{
    struct once__finding *finding;

    if (once__check_grow(&check->findings, check->finding_count, &check->finding_capacity,
                         sizeof(*check->findings)) != ONCE_OK)
        return NULL;
    finding = &check->findings[check->finding_count++];
    *finding = (struct once__finding){.kind = kind, .remedy = remedy};
    if (segment) {
        finding->sequence = segment->header.sequence;
        once__segment_name(segment->slot, finding->file);
    }
    return finding;
}

void once__check_say(struct once__finding *finding, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(finding->what, sizeof(finding->what), format, args);
    va_end(args);
}

void once__check_retract(struct once__check *check, uint64_t sequence)
{
    size_t kept = 0;

    for (size_t i = 0; i < check->finding_count; i++) {
        if (check->findings[i].sequence < sequence)
            check->findings[kept++] = check->findings[i];
    }
    check->finding_count = kept;
}

static int compare_findings(const void *a, const void *b)
{
    const struct once__finding *x = a, *y = b;

    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    if (x->sequence == 0 && once__finding_is_damage(x) != once__finding_is_damage(y))
        return once__finding_is_damage(x) ? -1 : 1;
    if (x->kind == ONCE__FINDING_SIDECAR || y->kind == ONCE__FINDING_SIDECAR)
        return (x->kind == ONCE__FINDING_SIDECAR) - (y->kind == ONCE__FINDING_SIDECAR);
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void sum_up(struct once__check *check)
{
    if (check->finding_count > 1)
        qsort(check->findings, check->finding_count, sizeof(*check->findings), compare_findings);
    check->summary.findings = check->finding_count;
    for (size_t i = 0; i < check->finding_count; i++) {
        bool damage = once__finding_is_damage(&check->findings[i]);

        check->summary.damages += damage;
        check->summary.repairs += damage && check->findings[i].remedy != ONCE__REMEDY_NONE;
    }
}

/* ---- The folder ------------------------------------------------------------------------------ */

struct listing {
    struct once__check *check;
    bool has_store;
};

static bool ends_with(const char *name, const char *end)
{
    size_t size = strlen(name), end_size = strlen(end);

    return size >= end_size && strcmp(name + size - end_size, end) == 0;
}

static int add_leftover(struct once__check *check, const char *name, const char *what)
{
    struct once__finding *finding = once__check_add(check, ONCE__FINDING_LEFTOVER,
                                                    ONCE__REMEDY_NOTHING, NULL);

    if (!finding)
        return ONCE_ERR_MEMORY;
    snprintf(finding->file, sizeof(finding->file), "%s", name);
    once__check_say(finding, "%s", what);
    return ONCE_OK;
}

/* The slot's segment; there may be a file of it, a sidecar, or both. Segments are found by going
 * through them only here, where a folder lists the two names of a slot apart. */
static int add_file(struct once__check *check, uint32_t slot, bool is_segment)
{
    struct once__check_segment *segment = NULL;
    int err;

    err = once__check_grow(&check->segments, check->segment_count, &check->segment_capacity,
                           sizeof(*check->segments));
    if (err != ONCE_OK)
        return err;
    segment = calloc(1, sizeof(*segment));
    if (!segment)
        return ONCE_ERR_MEMORY;
    segment->slot = slot;
    segment->present = is_segment;
    segment->has_sidecar = !is_segment;
    check->segments[check->segment_count++] = segment;
    return ONCE_OK;
}

static int list_name(void *user, const char *name)
{
    struct listing *listing = user;
    bool is_segment;
    uint32_t slot;

    if (once__name_slot(name, &is_segment, &slot))
        return add_file(listing->check, slot, is_segment);
    if (strcmp(name, ONCE__STORE_NAME) == 0) {
        listing->has_store = true;
        return ONCE_OK;
    }
    if (strcmp(name, ONCE__OBJECTS_NAME) == 0) {
        listing->check->has_snapshot = true;
        return ONCE_OK;
    }
    if (strcmp(name, ONCE__LOCK_NAME) == 0 || ends_with(name, ".sock"))
        return ONCE_OK;
    if (strcmp(name, ONCE__OBJECTS_NEW_NAME) == 0)
        return add_leftover(
            listing->check, name,
            "a snapshot of objects that was not finished; the next start removes it");
    if (strstr(name, ".damaged"))
        return add_leftover(listing->check, name, "what an earlier repair kept of a damaged file");
    return add_leftover(listing->check, name, "no file of the store needs this one");
}

static int compare_slots(const void *a, const void *b)
{
    const struct once__check_segment *const *x = a, *const *y = b;

    if ((*x)->slot != (*y)->slot)
        return (*x)->slot < (*y)->slot ? -1 : 1;
    return (int)(*y)->present - (int)(*x)->present;
}

/* Brings the two names of a slot together. */
static void join_slots(struct once__check *check)
{
    size_t kept = 0;

    if (check->segment_count > 1)
        qsort(check->segments, check->segment_count, sizeof(struct once__check_segment *),
              compare_slots);
    for (size_t i = 0; i < check->segment_count; i++) {
        struct once__check_segment *segment = check->segments[i];

        if (kept > 0 && check->segments[kept - 1]->slot == segment->slot) {
            check->segments[kept - 1]->has_sidecar = true;
            free(segment);
            continue;
        }
        check->segments[kept++] = segment;
    }
    check->segment_count = kept;
}

/* ---- The store file -------------------------------------------------------------------------- */

static int read_store_file(struct once__check *check, struct once_defect *ret_defect)
{
    uint8_t bytes[ONCE__STORE_FILE_SIZE + 1];
    struct once__file *file = NULL;
    size_t got = 0;
    int err = check->vfs->ops->open(check->vfs, ONCE__STORE_NAME, 0, &file);

    *ret_defect = (struct once_defect){.what = "the store file is missing"};
    if (err == ONCE_OK) {
        *ret_defect = (struct once_defect){.what = "the store file cannot be read"};
        err = once__file_read(file, 0, bytes, sizeof(bytes), &got);
    }
    if (err == ONCE_OK)
        err = once__store_file_decode((struct once_bytes){bytes, got}, &check->file, ret_defect);
    once__file_close(file);
    check->summary.disk_size += got;
    return err;
}

/* Reads the header of every segment. */
static int read_headers(struct once__check *check)
{
    uint8_t *block = aligned_alloc(ONCE_BLOCK_SIZE, ONCE_BLOCK_SIZE);
    int err = block ? ONCE_OK : ONCE_ERR_MEMORY;

    for (size_t i = 0; err == ONCE_OK && i < check->segment_count; i++) {
        struct once__check_segment *segment = check->segments[i];
        struct once__file *file = NULL;

        segment->header_err = ONCE_ERR_NO_STORE;
        if (!segment->present)
            continue;
        err = once__check_open(check, segment, ONCE__OPEN_DIRECT, &file);
        if (err == ONCE_OK)
            err = once__file_size(file, &segment->file_size);
        if (err == ONCE_OK) {
            int unread = once__check_read(file, 0, block, ONCE_BLOCK_SIZE);

            if (unread == ONCE_ERR_IO)
                memset(block, 0, ONCE_BLOCK_SIZE);
            else
                err = unread;
        }
        once__file_close(file);
        if (err == ONCE_OK)
            segment->header_err = once__segment_header_decode(
                (struct once_bytes){block, ONCE_BLOCK_SIZE}, &segment->header,
                &segment->header_defect);
        if (segment->header_err == ONCE_ERR_VERSION)
            err = ONCE_ERR_VERSION;
        if (segment->header_err != ONCE_OK)
            segment->header = (struct once__segment_header){0};
        check->summary.disk_size += segment->file_size;
    }
    free(block);
    return err;
}

/* What the store file said, from the segments: everything but the secret, which only sidecars need,
 * and those can be made again. */
static int make_store_file(struct once__check *check, const struct once_defect *defect)
{
    const struct once__check_segment *newest = NULL;
    struct once__finding *finding;

    for (size_t i = 0; i < check->segment_count; i++) {
        const struct once__check_segment *segment = check->segments[i];

        if (segment->header_err == ONCE_OK &&
            (!newest || segment->header.sequence > newest->header.sequence))
            newest = segment;
    }
    finding = once__check_add(check, ONCE__FINDING_STORE,
                              newest ? ONCE__REMEDY_NEW_STORE : ONCE__REMEDY_NONE, NULL);
    if (!finding)
        return ONCE_ERR_MEMORY;
    snprintf(finding->file, sizeof(finding->file), "%s", ONCE__STORE_NAME);
    finding->offset = defect->offset;
    once__check_say(finding, "%s", defect->what);
    check->store_bad = true;
    if (!newest)
        return ONCE_OK;
    memcpy(check->file.id, newest->header.store_id, sizeof(check->file.id));
    check->file.segment_size = newest->header.segment_size;
    check->file.created_ms = newest->header.created_ms;
    return once__random_bytes(check->file.secret, sizeof(check->file.secret));
}

/* Segments of other stores, or of another size, are none of ours. */
static void drop_strangers(struct once__check *check)
{
    for (size_t i = 0; i < check->segment_count; i++) {
        struct once__check_segment *segment = check->segments[i];

        if (segment->header_err != ONCE_OK)
            continue;
        if (memcmp(segment->header.store_id, check->file.id, ONCE__STORE_ID_SIZE) == 0 &&
            segment->header.segment_size == check->file.segment_size)
            continue;
        segment->header = (struct once__segment_header){0};
        segment->header_err = ONCE_ERR_DAMAGED;
        segment->header_defect = (struct once_defect){
            .offset = 0, .what = "the segment belongs to another store"};
    }
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int run(struct once__check *check, struct once_message *ret_message)
{
    struct listing listing = {.check = check};
    struct once_defect defect = {0};
    int err = check->vfs->ops->list(check->vfs, list_name, &listing);

    if (err == ONCE_OK && !listing.has_store && check->segment_count == 0)
        return once__message(ONCE_ERR_NO_STORE, ret_message, "there is no store here");
    if (err != ONCE_OK)
        return once__message(err, ret_message, "the folder cannot be listed: %s",
                             once_err_text(err));
    join_slots(check);
    err = read_store_file(check, &defect);
    if (err == ONCE_ERR_VERSION)
        return once__message(err, ret_message,
                             "the store file is of a format that this version does not know: use "
                             "the version of Once that wrote it");
    check->store_bad = err == ONCE_ERR_DAMAGED || err == ONCE_ERR_NO_STORE || err == ONCE_ERR_IO;
    if (err != ONCE_OK && !check->store_bad)
        return once__message(err, ret_message, "the store file: %s", once_err_text(err));
    err = read_headers(check);
    if (err == ONCE_OK && check->store_bad)
        err = make_store_file(check, &defect);
    if (err == ONCE_OK && once__segment_size_ok(check->file.segment_size)) {
        drop_strangers(check);
        err = once__check_log(check);
    }
    if (err != ONCE_OK)
        return once__message(err, ret_message, "the store cannot be checked: %s",
                             once_err_text(err));
    sum_up(check);
    return ONCE_OK;
}

int once__check_new(struct once__vfs *vfs, struct once__check **ret_check,
                    struct once_message *ret_message)
{
    return once__check_new_watched(vfs, NULL, NULL, ret_check, ret_message);
}

int once__check_new_watched(struct once__vfs *vfs,
                            void (*progress)(void *user, uint64_t done, uint64_t all), void *user,
                            struct once__check **ret_check, struct once_message *ret_message)
{
    struct once__check *check = calloc(1, sizeof(*check));
    int err;

    ONCE_ASSERT(vfs != NULL && ret_check != NULL);
    if (!check)
        return once__message(ONCE_ERR_MEMORY, ret_message, "out of memory");
    check->vfs = vfs;
    check->progress = progress;
    check->user = user;
    err = run(check, ret_message);
    if (err != ONCE_OK) {
        once__check_free(check);
        return err;
    }
    *ret_check = check;
    return ONCE_OK;
}

void once__check_free(struct once__check *check)
{
    if (!check)
        return;
    for (size_t i = 0; i < check->segment_count; i++) {
        free(check->segments[i]->patches);
        free(check->segments[i]->kills.items);
        free(check->segments[i]);
    }
    for (size_t i = 0; i < check->kills_count; i++)
        free(check->kills[i].items);
    free(check->kills);
    free(check->segments);
    free(check->log);
    free(check->findings);
    free(check->seens.items);
    free(check->killed.items);
    free(check->givens.items);
    free(check);
}

const struct once__check_summary *once__check_summary(const struct once__check *check)
{
    return &check->summary;
}

void once__check_findings(const struct once__check *check,
                          void (*each)(void *user, const struct once__finding *finding), void *user)
{
    for (size_t i = 0; i < check->finding_count; i++)
        each(user, &check->findings[i]);
}

int once__check_lost(const struct once__check *check, const struct once__finding *finding,
                     void (*each)(void *user, const struct once__lost *lost), void *user)
{
    if (finding->remedy != ONCE__REMEDY_GIVE_UP)
        return ONCE_OK;
    for (size_t i = 0; i < check->log_count; i++) {
        const struct once__check_segment *segment = check->log[i];

        if (segment->header.sequence != finding->sequence)
            continue;
        for (size_t j = 0; j < segment->patch_count; j++) {
            struct once__loss loss = finding->loss;

            if (segment->patches[j].offset == finding->offset)
                return once__check_loss(check, segment, &segment->patches[j], each, user, &loss);
        }
    }
    return ONCE_OK;
}
