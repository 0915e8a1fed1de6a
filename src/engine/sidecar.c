/* SPDX-License-Identifier: Apache-2.0
 *
 * Summaries of segments, and the sidecar files that keep them for a restart. A summary lists the
 * records of a segment that are the newest of their name, and the records of older segments that it
 * replaced. It says nothing that the log does not say: a sidecar that is missing or bad is made
 * again from the log, and one that could not be written is only a slower restart.
 */
#include "engine/inner.h"

#include "engine/scan.h"

#include <stdlib.h>
#include <string.h>

/* ---- In memory ------------------------------------------------------------------------------- */

static int reserve(uint64_t **words, size_t *capacity, size_t needed)
{
    size_t more = *capacity > 0 ? *capacity * 2 : 256;
    uint64_t *grown;

    if (needed <= *capacity)
        return ONCE_OK;
    grown = realloc(*words, more * sizeof(uint64_t));
    if (!grown)
        return ONCE_ERR_MEMORY;
    *words = grown;
    *capacity = more;
    return ONCE_OK;
}

int once__summary_reserve(struct once__summary *summary)
{
    int err = reserve(&summary->entries, &summary->entry_capacity, 2 * summary->entry_count + 2);

    return err != ONCE_OK
               ? err
               : reserve(&summary->kills, &summary->kill_capacity, summary->kill_count + 1);
}

void once__summary_note(struct once__summary *summary, uint64_t own_sequence, uint32_t offset,
                        struct once__weight weight, uint64_t hash,
                        const struct once__log_record *rec)
{
    struct once__sidecar_entry entry = {
        .hash = hash,
        .offset = offset,
        .size = weight.size,
        .expires_s = weight.open ? 0 : weight.expires_s,
        .open = weight.open,
        .absent = weight.absent,
    };
    struct once__sidecar_kill kill = {.sequence = rec->previous_sequence,
                                      .offset = rec->previous_offset};
    uint32_t bit = rec->previous_offset / ONCE__RECORD_ALIGN;

    ONCE_ASSERT(2 * summary->entry_count + 2 <= summary->entry_capacity);
    ONCE_ASSERT(summary->kill_count < summary->kill_capacity);
    once__sidecar_entry_pack(&entry, summary->entries + 2 * summary->entry_count);
    summary->entry_count++;
    if (rec->previous_sequence == own_sequence)
        summary->replaced[bit / 64] |= 1ULL << bit % 64;
    else if (rec->previous_sequence != 0)
        summary->kills[summary->kill_count++] = once__sidecar_kill_pack(own_sequence, kill);
}

int once__summary_new(const struct once__engine *engine, struct once__summary **ret_summary)
{
    struct once__summary *summary = calloc(1, sizeof(*summary));

    if (!summary)
        return ONCE_ERR_MEMORY;
    summary->replaced = calloc(engine->segment_size / ONCE__RECORD_ALIGN / 64, sizeof(uint64_t));
    if (!summary->replaced) {
        free(summary);
        return ONCE_ERR_MEMORY;
    }
    *ret_summary = summary;
    return ONCE_OK;
}

void once__summary_free(struct once__summary *summary)
{
    if (!summary)
        return;
    free(summary->replaced);
    free(summary->entries);
    free(summary->kills);
    free(summary);
}

/* ---- From a sidecar -------------------------------------------------------------------------- */

static int read_file(struct once__engine *engine, const char *name, uint8_t **ret_bytes,
                     size_t *ret_size)
{
    /* No more entries and kills than records that fit into a segment. */
    uint64_t size_max = 64 + (uint64_t)engine->segment_size / ONCE__RECORD_HEADER_SIZE * 24;
    struct once__file *file;
    uint8_t *bytes = NULL;
    uint64_t size;
    int err = engine->vfs->ops->open(engine->vfs, name, 0, &file);

    if (err != ONCE_OK)
        return err;
    err = once__file_size(file, &size);
    if (err == ONCE_OK && (size > size_max || size == 0))
        err = ONCE_ERR_DAMAGED;
    if (err == ONCE_OK) {
        bytes = malloc(size);
        err = bytes ? once__file_read(file, 0, bytes, size, ret_size) : ONCE_ERR_MEMORY;
    }
    once__file_close(file);
    if (err != ONCE_OK) {
        free(bytes);
        return err;
    }
    *ret_bytes = bytes;
    return ONCE_OK;
}

static int copy_words(const uint64_t *from, size_t count, uint64_t **ret_words)
{
    uint64_t *words = malloc((count > 0 ? count : 1) * sizeof(uint64_t));

    if (!words)
        return ONCE_ERR_MEMORY;
    memcpy(words, from, count * sizeof(uint64_t));
    *ret_words = words;
    return ONCE_OK;
}

int once__summary_load(struct once__engine *engine, uint32_t slot, uint64_t sequence,
                       uint64_t chain, uint32_t end, struct once__summary **ret_summary)
{
    struct once__summary *summary = NULL;
    struct once__sidecar_header header;
    struct once_defect defect;
    const uint64_t *entries, *kills;
    char name[ONCE__NAME_SIZE];
    uint8_t *bytes;
    size_t size;
    int err;

    once__sidecar_name(slot, name);
    err = read_file(engine, name, &bytes, &size);
    if (err != ONCE_OK)
        return err;
    err = once__sidecar_decode((struct once_bytes){bytes, size}, &header, &entries, &kills,
                               &defect);
    if (err == ONCE_OK &&
        (header.sequence != sequence || header.chain != chain || header.end != end ||
         memcmp(header.store_id, engine->file.id, sizeof(header.store_id)) != 0))
        err = ONCE_ERR_NO_STORE; /* of what the slot held before */
    if (err == ONCE_OK) {
        summary = calloc(1, sizeof(*summary));
        err = summary ? ONCE_OK : ONCE_ERR_MEMORY;
    }
    if (err == ONCE_OK)
        err = copy_words(entries, 2 * (size_t)header.entry_count, &summary->entries);
    if (err == ONCE_OK)
        err = copy_words(kills, header.kill_count, &summary->kills);
    if (err == ONCE_OK) {
        summary->entry_count = header.entry_count;
        summary->entry_capacity = 2 * (size_t)header.entry_count;
        summary->kill_count = summary->kill_capacity = header.kill_count;
        summary->changes = header.change_count;
        *ret_summary = summary;
    } else {
        once__summary_free(summary);
    }
    free(bytes);
    return err;
}

/* ---- From the log ---------------------------------------------------------------------------- */

struct gathering {
    struct once__engine *engine;
    struct once__summary *summary;
    uint64_t sequence;
};

static int gather_batch(void *user, const struct once__scan_batch *batch)
{
    struct gathering *gathering = user;

    gathering->sequence = batch->header.sequence;
    if (batch->header.flags & ONCE__BATCH_GIVEN_UP)
        gathering->summary->gaps = true;
    return ONCE_OK;
}

static int gather_record(void *user, uint32_t offset, uint32_t size,
                         const struct once__log_record *rec)
{
    struct gathering *gathering = user;
    struct once__weight weight = once__weight_of(&rec->record, size);
    int err = once__summary_reserve(gathering->summary);

    if (err != ONCE_OK)
        return err;
    gathering->summary->changes += rec->change > 0 ? 1 : 0;
    if (rec->ns.size == 0)
        return ONCE_OK; /* edits alone */
    once__summary_note(gathering->summary, gathering->sequence, offset, weight,
                       once__name_hash(gathering->engine->file.secret, rec->ns, rec->key), rec);
    return ONCE_OK;
}

static void drop_replaced(struct once__summary *summary)
{
    size_t kept = 0;

    for (size_t i = 0; i < summary->entry_count; i++) {
        struct once__sidecar_entry entry;
        uint32_t bit;

        once__sidecar_entry_unpack(summary->entries + 2 * i, &entry);
        bit = entry.offset / ONCE__RECORD_ALIGN;
        if (summary->replaced[bit / 64] >> bit % 64 & 1)
            continue;
        memmove(summary->entries + 2 * kept, summary->entries + 2 * i, 2 * sizeof(uint64_t));
        kept++;
    }
    summary->entry_count = kept;
}

int once__summary_scan(struct once__engine *engine, struct once__file *file, uint32_t known_end,
                       uint64_t durable, struct once__summary **ret_summary,
                       struct once__scan *ret_scan)
{
    struct gathering gathering = {.engine = engine};
    struct once__scan_input input = {
        .file = file,
        .store_id = engine->file.id,
        .segment_size = engine->segment_size,
        .known_end = known_end,
        .durable = durable,
    };
    struct once__scan_visitor visitor = {
        .batch = gather_batch, .record = gather_record, .user = &gathering};
    int err = once__summary_new(engine, &gathering.summary);

    if (err != ONCE_OK)
        return err;
    err = once__scan_segment(&input, &visitor, ret_scan);
    if (err != ONCE_OK) {
        once__summary_free(gathering.summary);
        return err;
    }
    drop_replaced(gathering.summary);
    *ret_summary = gathering.summary;
    return ONCE_OK;
}

/* ---- To a sidecar ---------------------------------------------------------------------------- */

enum { DIGIT_BITS = 8, DIGITS = 64 / DIGIT_BITS, DIGIT_VALUES = 1 << DIGIT_BITS };

static unsigned digit_of(uint64_t word, unsigned digit)
{
    return once__sidecar_order(word) >> (digit * DIGIT_BITS) & (DIGIT_VALUES - 1);
}

/* Entries are two words; by the first of them, digit by digit, the lowest first. A sort that
 * compares took a seventh of all the time at full load. */
static int sort_entries(uint64_t *entries, size_t count)
{
    size_t starts[DIGITS][DIGIT_VALUES] = {{0}};
    uint64_t *from = entries, *to, *spare;

    if (count < 2)
        return ONCE_OK;
    spare = malloc(count * 2 * sizeof(*spare));
    if (!spare)
        return ONCE_ERR_MEMORY;
    to = spare;
    for (size_t i = 0; i < count; i++) {
        for (unsigned digit = 0; digit < DIGITS; digit++)
            starts[digit][digit_of(entries[2 * i], digit)]++;
    }
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        uint64_t *swap = from;
        size_t start = 0;

        if (starts[digit][digit_of(from[0], digit)] == count)
            continue; /* they all agree in it */
        for (unsigned value = 0; value < DIGIT_VALUES; value++) {
            size_t with_value = starts[digit][value];

            starts[digit][value] = start;
            start += with_value;
        }
        for (size_t i = 0; i < count; i++) {
            size_t at = starts[digit][digit_of(from[2 * i], digit)]++;

            to[2 * at] = from[2 * i];
            to[2 * at + 1] = from[2 * i + 1];
        }
        from = to;
        to = swap;
    }
    if (from != entries)
        memcpy(entries, from, count * 2 * sizeof(*entries));
    free(spare);
    return ONCE_OK;
}

static int write_sidecar(struct once__engine *engine, uint32_t slot,
                         struct once__sidecar_header *header, struct once__summary *summary)
{
    struct once__file *file = NULL;
    char name[ONCE__NAME_SIZE];
    struct once_buf buf;
    int err;

    memcpy(header->store_id, engine->file.id, sizeof(header->store_id));
    header->entry_count = (uint32_t)summary->entry_count;
    header->kill_count = (uint32_t)summary->kill_count;
    header->change_count = summary->changes;
    once_buf_init(&buf, SIZE_MAX / 2);
    err = sort_entries(summary->entries, summary->entry_count);
    if (err == ONCE_OK)
        err = once__sidecar_encode(header, summary->entries, summary->kills, &buf);
    once__sidecar_name(slot, name);
    if (err == ONCE_OK)
        err = engine->vfs->ops->open(engine->vfs, name, ONCE__OPEN_CREATE | ONCE__OPEN_WRITE,
                                     &file);
    if (err == ONCE_OK)
        err = once__file_write(file, 0, buf.data, buf.size);
    if (err == ONCE_OK)
        err = once__file_truncate(file, buf.size);
    if (err == ONCE_OK)
        err = once__file_sync(file);
    once__file_close(file);
    once_buf_release(&buf);
    return err;
}

/* The newest sealed segment without a sidecar whose batches are all durable. */
static struct once__segment *next_to_summarise(struct once__engine *engine, uint32_t *ret_slot)
{
    const struct once__log *log = &engine->log;

    if (engine->unsummarised == 0)
        return NULL;
    for (uint64_t sequence = log->sequence; sequence-- > log->oldest;) {
        uint32_t slot = once__segment_slot(engine, sequence);
        struct once__segment *segment = engine->segments[slot];

        if (segment->summarised || once__position(engine, sequence, segment->end) > log->durable)
            continue;
        *ret_slot = slot;
        return segment;
    }
    return NULL;
}

bool once__sidecar_work(struct once__engine *engine)
{
    struct once__sidecar_header header = {0};
    struct once__summary *summary;
    struct once__segment *segment;
    uint32_t slot;

    pthread_mutex_lock(&engine->lock);
    segment = next_to_summarise(engine, &slot);
    if (!segment) {
        pthread_mutex_unlock(&engine->lock);
        return false;
    }
    ONCE_ASSERT(segment->state == ONCE__SEGMENT_SEALED && segment->summary);
    summary = segment->summary;
    segment->summary = NULL;
    header.sequence = segment->sequence;
    header.chain = segment->chain;
    header.end = segment->end;
    pthread_mutex_unlock(&engine->lock);

    if (!summary->gaps) {
        drop_replaced(summary);
        (void)write_sidecar(engine, slot, &header, summary); /* without it the log is read */
    }

    pthread_mutex_lock(&engine->lock);
    segment->summarised = true;
    engine->unsummarised--;
    pthread_mutex_unlock(&engine->lock);
    once__summary_free(summary);
    return true;
}
