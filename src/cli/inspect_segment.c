/* SPDX-License-Identifier: Apache-2.0
 *
 * `once inspect` of a segment: its header, its batches, on request their records. Damaged stretches
 * are shown where they are, and the walk goes on behind them.
 */
#include "cli/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "engine/check.h"

struct walk {
    const struct inspect_args *args;
    uint32_t batch_end; /* of the batch at hand */
    bool batch_shown;
    bool first_batch;  /* of the JSON array */
    bool first_record; /* of the JSON array in the batch */
    bool open_batch;   /* a JSON object is open */
    uint64_t changes;  /* of objects */
};

static bool is_wanted(const struct inspect_args *args, uint64_t offset, uint64_t end)
{
    return !args->at || (args->offset >= offset && args->offset < end);
}

static void close_batch(struct walk *walk)
{
    if (!walk->open_batch)
        return;
    fputs(walk->args->records ? "]}" : "}", stdout);
    walk->open_batch = false;
}

static const char *flags_text(uint32_t flags)
{
    static const char *const texts[] = {
        "",        "closed",         "given up",          "given up",
        "objects", "closed objects", "given up, objects", "given up, objects",
    };

    return texts[flags % (sizeof(texts) / sizeof(texts[0]))];
}

static void json_batch(struct walk *walk, const struct once__batch_header *header, uint32_t offset,
                       uint64_t check)
{
    close_batch(walk);
    printf("%s{\"offset\":%" PRIu32 ",\"size\":%" PRIu32 ",\"number\":%" PRIu64
           ",\"count\":%" PRIu32 ",\"durable\":%" PRIu64 ",\"last_fence\":%" PRIu64
           ",\"oldest\":%" PRIu64 ",\"now_ms\":%" PRId64 ",\"flags\":\"%s\",\"chain\":\"%016" PRIx64
           "\",\"check\":\"%016" PRIx64 "\"",
           walk->first_batch ? "" : ",", offset, header->size, header->number, header->count,
           header->durable, header->last_fence, header->oldest, header->now_ms,
           flags_text(header->flags), header->chain, check);
    if (header->flags & ONCE__BATCH_GIVEN_UP)
        printf(",\"next_chain\":\"%016" PRIx64 "\"", header->next_chain);
    if (walk->args->records)
        fputs(",\"records\":[", stdout);
    walk->first_batch = false;
    walk->first_record = true;
    walk->open_batch = true;
}

static int show_batch(void *user, const struct once__batch_header *header, uint32_t offset,
                      uint64_t check)
{
    struct walk *walk = user;

    walk->batch_end = offset + once__batch_disk_size(header->size);
    walk->batch_shown = is_wanted(walk->args, offset, walk->batch_end);
    if (!walk->batch_shown)
        return ONCE_OK;
    if (walk->args->json) {
        json_batch(walk, header, offset, check);
        return ONCE_OK;
    }
    printf("offset %-9" PRIu32 " batch %-8" PRIu64 " %5" PRIu32 " records %7" PRIu32
           " bytes  durable %" PRIu64 "  fence %" PRIu64 "  oldest %" PRIu64 "  %s%s%s\n",
           offset, header->number, header->count, header->size, header->durable, header->last_fence,
           header->oldest, inspect_time(header->now_ms).text, header->flags ? "  " : "",
           flags_text(header->flags));
    return ONCE_OK;
}

/* A field of bytes: its size always, itself on request. */
static void json_value(const struct inspect_args *args, const char *name, struct once_bytes bytes)
{
    printf(",\"%s_size\":%zu", name, bytes.size);
    if (!args->values)
        return;
    printf(",\"%s\":", name);
    inspect_bytes(args, bytes);
}

static void json_operation(const struct inspect_args *args, const struct once__log_record *rec)
{
    const struct once_record *record = &rec->record;

    fputs(",\"namespace\":", stdout);
    inspect_bytes(args, rec->ns);
    fputs(",\"key\":", stdout);
    inspect_bytes(args, rec->key);
    printf(",\"state\":\"%s\",\"fence\":%" PRIu64 ",\"attempt\":%" PRIu32 ",\"code\":%" PRId32
           ",\"created_ms\":%" PRId64 ",\"lease_end_ms\":%" PRId64 ",\"retention_ms\":%" PRId64
           ",\"expires_ms\":%" PRId64 ",\"owner\":",
           once_state_name(record->state), record->fence, record->attempt, record->code,
           record->created_ms, record->lease_end_ms, record->retention_ms, record->expires_ms);
    inspect_bytes(args, record->owner);
    fputs(",\"point\":", stdout);
    inspect_bytes(args, record->point);
    json_value(args, "data", record->data);
    json_value(args, "result", record->result);
    if (rec->previous_sequence != 0)
        printf(",\"replaces\":{\"segment\":%" PRIu64 ",\"offset\":%" PRIu32 "}",
               rec->previous_sequence, rec->previous_offset);
}

static void json_record(struct walk *walk, uint32_t offset, uint32_t size,
                        const struct once__log_record *rec)
{
    uint64_t count;

    printf("%s{\"offset\":%" PRIu32 ",\"size\":%" PRIu32 ",\"kind\":\"%s\"",
           walk->first_record ? "" : ",", offset, size,
           rec->change == 0    ? "operation"
           : rec->ns.size == 0 ? "edits"
                               : "applied");
    walk->first_record = false;
    if (rec->ns.size > 0)
        json_operation(walk->args, rec);
    if (rec->change > 0) {
        printf(",\"change\":%" PRIu64 ",\"edits_size\":%zu,\"edits\":[", rec->change,
               rec->edits.size);
        (void)inspect_edits(walk->args, rec->edits, ",", &count);
        putchar(']');
    }
    putchar('}');
}

static void text_value(const struct inspect_args *args, const char *name, struct once_bytes bytes)
{
    if (bytes.size == 0)
        return;
    printf("  %s %zu bytes", name, bytes.size);
    if (args->values) {
        putchar(' ');
        inspect_bytes(args, bytes);
    }
}

static void text_operation(const struct inspect_args *args, const struct once__log_record *rec)
{
    const struct once_record *record = &rec->record;

    inspect_bytes(args, rec->ns);
    putchar(' ');
    inspect_bytes(args, rec->key);
    printf("  %s", once_state_name(record->state));
    if (record->state != ONCE_STATE_ABSENT)
        printf("  fence %" PRIu64 "  attempt %" PRIu32, record->fence, record->attempt);
    if (record->state == ONCE_STATE_COMPLETED)
        printf("  code %" PRId32, record->code);
    if (record->state == ONCE_STATE_STARTED)
        printf("  lease to %s", inspect_time(record->lease_end_ms).text);
    if (record->state == ONCE_STATE_COMPLETED || record->state == ONCE_STATE_FAILED)
        printf("  expires %s", inspect_time(record->expires_ms).text);
    text_value(args, "point", record->point);
    text_value(args, "data", record->data);
    text_value(args, record->state == ONCE_STATE_FAILED ? "reason" : "result", record->result);
    if (rec->previous_sequence != 0)
        printf("  replaces segment %" PRIu64 " offset %" PRIu32, rec->previous_sequence,
               rec->previous_offset);
}

static void text_record(const struct inspect_args *args, uint32_t offset, uint32_t size,
                        const struct once__log_record *rec)
{
    uint64_t count;

    printf("  offset %-9" PRIu32 " %5" PRIu32 " bytes  ", offset, size);
    if (rec->ns.size > 0)
        text_operation(args, rec);
    if (rec->change > 0) {
        printf("%schange %" PRIu64 ": ", rec->ns.size > 0 ? "  " : "", rec->change);
        (void)inspect_edits(args, rec->edits, ", ", &count);
    }
    putchar('\n');
}

static int show_record(void *user, uint32_t offset, uint32_t size,
                       const struct once__log_record *rec)
{
    struct walk *walk = user;

    walk->changes += rec->change > 0 ? 1 : 0;
    if (!walk->args->records || !walk->batch_shown || !is_wanted(walk->args, offset, offset + size))
        return ONCE_OK;
    if (walk->args->json)
        json_record(walk, offset, size, rec);
    else
        text_record(walk->args, offset, size, rec);
    return ONCE_OK;
}

static int show_damage(void *user, const struct once__damage *damage)
{
    struct walk *walk = user;

    if (walk->args->json) {
        close_batch(walk);
        printf("%s{\"offset\":%" PRIu32 ",\"size\":%" PRIu32 ",\"damaged\":true,\"what\":",
               walk->first_batch ? "" : ",", damage->offset, damage->end - damage->offset);
        cli_json_string(stdout, once_bytes_of(damage->defect.what));
        printf(",\"at\":%zu}", damage->defect.offset);
        walk->first_batch = false;
        return ONCE_OK;
    }
    printf("offset %-9" PRIu32 " DAMAGED up to %" PRIu32 ": %s (at offset %zu)\n", damage->offset,
           damage->end, damage->defect.what, damage->defect.offset);
    return ONCE_OK;
}

static void show_header(const struct inspect_args *args, const struct once__segment_header *header)
{
    struct once_bytes id = {header->store_id, sizeof(header->store_id)};

    if (args->json) {
        inspect_json_head(args, "segment");
        fputs(",\"store_id\":\"", stdout);
        inspect_hex(id);
        printf("\",\"segment\":%" PRIu64 ",\"segment_size\":%" PRIu32 ",\"first_batch\":%" PRIu64
               ",\"chain\":\"%016" PRIx64 "\",\"previous_end\":%" PRIu32 ",\"created_ms\":%" PRId64
               ",\"batches\":[",
               header->sequence, header->segment_size, header->first_batch, header->chain,
               header->previous_end, header->created_ms);
        return;
    }
    printf("segment %" PRIu64 " of store ", header->sequence);
    inspect_hex(id);
    printf("\nsegment size %" PRIu32 ", first batch %" PRIu64 ", chain %016" PRIx64
           ", the segment before ends at %" PRIu32 ", begun %s\n",
           header->segment_size, header->first_batch, header->chain, header->previous_end,
           inspect_time(header->created_ms).text);
}

static int show_spare(const struct inspect_args *args, uint64_t file_size)
{
    if (args->json) {
        inspect_json_head(args, "spare");
        printf(",\"size\":%" PRIu64 "}\n", file_size);
    } else {
        printf("a spare segment file, %" PRIu64 " bytes: it holds no segment\n", file_size);
    }
    return CLI_OK;
}

int inspect_segment(const struct inspect_args *args, struct once__file *file, uint64_t file_size)
{
    struct once__segment_header header;
    struct walk walk = {.args = args, .first_batch = true};
    struct once__view_visitor visitor = {
        .batch = show_batch, .record = show_record, .damage = show_damage, .user = &walk};
    uint8_t block[ONCE_BLOCK_SIZE];
    struct once_defect defect = {0};
    struct once__view view;
    size_t got = 0;
    int err = once__file_read(file, 0, block, sizeof(block), &got);

    if (err != ONCE_OK)
        return inspect_broken(args, "segment", 0, "the header cannot be read");
    err = once__segment_header_decode((struct once_bytes){block, got}, &header, &defect);
    if (err == ONCE_ERR_NO_STORE)
        return show_spare(args, file_size);
    if (err != ONCE_OK)
        return inspect_broken(args, "segment", defect.offset, defect.what);
    show_header(args, &header);
    err = once__view_segment(file, &header, &visitor, &view);
    close_batch(&walk);
    if (err != ONCE_OK)
        return cli_message(&cli_inspect, CLI_UNAVAILABLE, "'%s': %s", cli_echo(args->path).text,
                           once_err_text(err));
    if (args->json)
        printf("],\"end\":%" PRIu32 ",\"batch_count\":%" PRIu64 ",\"record_count\":%" PRIu64
               ",\"change_count\":%" PRIu64 ",\"damages\":%" PRIu64 "}\n",
               view.end, view.batch_count - view.damage_count, view.record_count, walk.changes,
               view.damage_count);
    else if (walk.changes > 0)
        printf("%" PRIu64 " batches, %" PRIu64 " records (%" PRIu64
               " change objects), up to offset %" PRIu32 "%s\n",
               view.batch_count - view.damage_count, view.record_count, walk.changes, view.end,
               view.damage_count > 0 ? ", damaged" : "");
    else
        printf("%" PRIu64 " batches, %" PRIu64 " records, up to offset %" PRIu32 "%s\n",
               view.batch_count - view.damage_count, view.record_count, view.end,
               view.damage_count > 0 ? ", damaged" : "");
    return view.damage_count > 0 ? CLI_DAMAGED : CLI_OK;
}
