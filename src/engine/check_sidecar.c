/* SPDX-License-Identifier: Apache-2.0
 *
 * One sidecar against its segment, exactly: what it lists is there and is what it says, what it
 * leaves out is dead, and the records that it says were replaced are those that its segment
 * replaced. A sidecar that does not fit costs nothing but the time to make it again.
 */
#include "engine/check_inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* The whole file in memory. */
static int read_file(const struct once__check *check, uint32_t slot, struct once_bytes *ret_bytes)
{
    char name[ONCE__NAME_SIZE];
    struct once__file *file = NULL;
    uint64_t size = 0;
    uint8_t *bytes = NULL;
    size_t got = 0;
    int err;

    once__sidecar_name(slot, name);
    err = check->vfs->ops->open(check->vfs, name, 0, &file);
    if (err == ONCE_OK)
        err = once__file_size(file, &size);
    if (err == ONCE_OK) {
        /* Larger than any that we write is damage, and need not be read to its end. */
        size = size < (uint64_t)2 * ONCE_SEGMENT_SIZE_MAX ? size : 0;
        bytes = malloc(size > 0 ? size : 1);
        err = bytes ? once__file_read(file, 0, bytes, size, &got) : ONCE_ERR_MEMORY;
    }
    once__file_close(file);
    if (err != ONCE_OK) {
        free(bytes);
        return err;
    }
    *ret_bytes = (struct once_bytes){bytes, got};
    return ONCE_OK;
}

static struct once__seen *find_seen(struct once__seens *seens, uint32_t offset)
{
    size_t low = 0, high = seens->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (seens->items[middle].offset == offset)
            return &seens->items[middle];
        if (seens->items[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* What is wrong with an entry, or NULL. */
static const char *entry_fault(struct once__seens *seens, const struct once__sidecar_entry *entry)
{
    struct once__seen *seen = find_seen(seens, entry->offset);

    if (!seen)
        return "lists a record where there is none";
    if (seen->listed)
        return "lists a record twice";
    seen->listed = true;
    if (seen->hash >> 20 != entry->hash >> 20)
        return "lists a record under another name";
    if (seen->size != entry->size)
        return "has a wrong size for a record";
    if (seen->open != entry->open || seen->absent != entry->absent)
        return "has a wrong state for a record";
    if (!seen->absent && seen->expires_s != entry->expires_s)
        return "has a wrong expiry for a record";
    return NULL;
}

/* A record that the sidecar leaves out must be dead. */
static bool may_be_missing(const struct once__check *check,
                           const struct once__check_segment *segment, const struct once__seen *seen)
{
    if (seen->listed || seen->absent || once__kills_has(&segment->kills, seen->offset))
        return true;
    if (check->lossy) /* what replaced it may be what is lost; a repair deletes all sidecars then */
        return true;
    return !seen->open && (once_ms)seen->expires_s * 1000 <= check->now_ms;
}

static const char *entries_fault(struct once__check *check,
                                 const struct once__check_segment *segment, const uint64_t *words,
                                 uint32_t count, uint64_t *ret_offset)
{
    struct once__seens *seens = &check->seens;

    for (uint32_t i = 0; i < count; i++) {
        struct once__sidecar_entry entry;
        const char *fault;

        once__sidecar_entry_unpack(words + (size_t)2 * i, &entry);
        fault = entry_fault(seens, &entry);
        if (fault) {
            *ret_offset = ONCE__SIDECAR_HEADER_SIZE + (uint64_t)i * ONCE__SIDECAR_ENTRY_SIZE;
            return fault;
        }
    }
    for (size_t i = 0; i < seens->count; i++) {
        if (!may_be_missing(check, segment, &seens->items[i])) {
            *ret_offset = 0;
            return "leaves out a record that is live";
        }
    }
    return NULL;
}

static int compare_kills(const void *a, const void *b)
{
    const struct once__kill *x = a, *y = b;

    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Both sorted. Those of the segment itself are not in the sidecar; those of segments that are not
 * needed any more need not be. */
static const char *kills_fault(const struct once__kills *killed, const struct once__kills *told,
                               uint64_t own_sequence, uint64_t oldest)
{
    size_t i = 0, j = 0;

    while (i < killed->count || j < told->count) {
        int order = i == killed->count ? 1
                    : j == told->count ? -1
                                       : compare_kills(&killed->items[i], &told->items[j]);

        if (order > 0)
            return "says that a record was replaced which was not";
        if (order < 0 && killed->items[i].sequence < own_sequence &&
            killed->items[i].sequence >= oldest)
            return "does not say that a record was replaced";
        i++;
        j += order == 0;
    }
    return NULL;
}

static int compare_told(struct once__check *check, const struct once__check_segment *segment,
                        const uint64_t *words, uint32_t count, const char **ret_fault)
{
    struct once__kills told = {.items = calloc(count > 0 ? count : 1, sizeof(*told.items)),
                               .count = count};

    if (!told.items)
        return ONCE_ERR_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        struct once__sidecar_kill kill = once__sidecar_kill_unpack(segment->header.sequence,
                                                                   words[i]);

        told.items[i] = (struct once__kill){.sequence = kill.sequence, .offset = kill.offset};
    }
    once__kills_sort(&told);
    once__kills_sort(&check->killed);
    *ret_fault = kills_fault(&check->killed, &told, segment->header.sequence,
                             check->summary.oldest);
    free(told.items);
    return ONCE_OK;
}

static int report(struct once__check *check, struct once__check_segment *segment, uint64_t offset,
                  const char *what)
{
    struct once__finding *finding = once__check_add(check, ONCE__FINDING_SIDECAR,
                                                    ONCE__REMEDY_DELETE, segment);

    if (!finding)
        return ONCE_ERR_MEMORY;
    segment->delete_sidecar = true;
    once__sidecar_name(segment->slot, finding->file);
    finding->offset = offset;
    once__check_say(finding, "the sidecar %s", what);
    return ONCE_OK;
}

static int report_stale(struct once__check *check, const struct once__check_segment *segment)
{
    struct once__finding *finding = once__check_add(check, ONCE__FINDING_LEFTOVER,
                                                    ONCE__REMEDY_NOTHING, segment);

    if (!finding)
        return ONCE_ERR_MEMORY;
    once__sidecar_name(segment->slot, finding->file);
    once__check_say(finding, "the sidecar is of what the segment's file held before");
    return ONCE_OK;
}

int once__check_sidecar(struct once__check *check, struct once__check_segment *segment)
{
    struct once_bytes bytes = {0};
    struct once__sidecar_header header;
    const uint64_t *entries, *kills;
    struct once_defect defect;
    const char *fault = NULL;
    uint64_t offset = 0;
    int err;

    ONCE_ASSERT(segment->has_sidecar && segment->needed);
    err = read_file(check, segment->slot, &bytes);
    if (err == ONCE_ERR_IO)
        return report(check, segment, 0, "cannot be read");
    if (err != ONCE_OK)
        return err;
    err = once__sidecar_decode(bytes, &header, &entries, &kills, &defect);
    if (err == ONCE_ERR_DAMAGED || err == ONCE_ERR_VERSION) {
        err = report(check, segment, defect.offset, "is damaged");
        goto out;
    }
    if (err != ONCE_OK)
        goto out;
    if (header.sequence < segment->header.sequence) {
        err = report_stale(check, segment);
        goto out;
    }
    if (memcmp(header.store_id, segment->header.store_id, ONCE__STORE_ID_SIZE) != 0 ||
        header.sequence != segment->header.sequence || header.chain != segment->scan.chain ||
        header.end != segment->scan.end)
        fault = "is not of this segment as it is now";
    if (!fault && segment->patch_count > 0)
        goto out; /* it lists what is lost, and goes with it */
    if (!fault && header.change_count != segment->changes) {
        fault = "has a wrong count of changes of objects";
        offset = 56;
    }
    if (!fault)
        fault = entries_fault(check, segment, entries, header.entry_count, &offset);
    if (!fault) {
        offset = ONCE__SIDECAR_HEADER_SIZE +
                 (uint64_t)header.entry_count * ONCE__SIDECAR_ENTRY_SIZE;
        err = compare_told(check, segment, kills, header.kill_count, &fault);
    }
    if (err == ONCE_OK && fault)
        err = report(check, segment, offset, fault);
    else if (err == ONCE_OK)
        check->summary.sidecars++;
out:
    free((void *)(uintptr_t)bytes.data);
    return err;
}

/* What a segment that cannot be read replaced. */
static int take_kills(struct once__check *check, uint64_t sequence, const uint64_t *words,
                      uint32_t count)
{
    struct once__kills *killed = &check->killed;

    for (uint32_t i = 0; i < count; i++) {
        struct once__sidecar_kill kill = once__sidecar_kill_unpack(sequence, words[i]);
        int err = once__check_grow(&killed->items, killed->count, &killed->capacity,
                                   sizeof(*killed->items));

        if (err != ONCE_OK)
            return err;
        killed->items[killed->count++] = (struct once__kill){.sequence = kill.sequence,
                                                             .offset = kill.offset};
    }
    return ONCE_OK;
}

int once__check_sidecar_count(struct once__check *check, uint64_t sequence,
                              const struct once__kills *kills, bool *ret_found, uint64_t *ret_count)
{
    for (size_t i = 0; i < check->segment_count; i++) {
        const struct once__check_segment *segment = check->segments[i];
        struct once__sidecar_header header;
        const uint64_t *entries, *words;
        struct once_defect defect;
        struct once_bytes bytes;
        uint64_t count = 0;
        int err;

        if (!segment->has_sidecar || read_file(check, segment->slot, &bytes) != ONCE_OK)
            continue;
        if (once__sidecar_decode(bytes, &header, &entries, &words, &defect) != ONCE_OK ||
            header.sequence != sequence) {
            free((void *)(uintptr_t)bytes.data);
            continue;
        }
        for (uint32_t j = 0; j < header.entry_count; j++) {
            struct once__sidecar_entry entry;

            once__sidecar_entry_unpack(entries + (size_t)2 * j, &entry);
            count += !once__kills_has(kills, entry.offset);
        }
        err = take_kills(check, sequence, words, header.kill_count);
        free((void *)(uintptr_t)bytes.data);
        if (err != ONCE_OK)
            return err;
        *ret_found = true;
        *ret_count = count;
        return ONCE_OK;
    }
    *ret_found = false;
    return ONCE_OK;
}
