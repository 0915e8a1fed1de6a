/* SPDX-License-Identifier: Apache-2.0
 *
 * `once inspect` of a snapshot of objects: its header, its chunks, on request the edits in them;
 * and how edits are shown, also those of a segment's records.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/inspect.h"
#include "engine/snapshot_scan.h"
#include "object/object.h"

/* ---- Edits ----------------------------------------------------------------------------------- */

static const char *edit_name(unsigned kind)
{
    switch (kind) {
    case ONCE__EDIT_COUNTER:
        return "counter";
    case ONCE__EDIT_REGISTER:
        return "register";
    case ONCE__EDIT_MACHINE:
        return "machine";
    case ONCE__EDIT_EVENT:
        return "event";
    case ONCE__EDIT_FENCE:
        return "fence";
    case ONCE__EDIT_LEASE:
        return "lease";
    case ONCE__EDIT_SEQUENCE:
        return "sequence";
    case ONCE__EDIT_BUCKET:
        return "bucket";
    case ONCE__EDIT_MESSAGE:
        return "message";
    case ONCE__EDIT_SENT:
        return "sent";
    case ONCE__EDIT_OUTBOX:
        return "outbox";
    case ONCE__EDIT_MOVED:
        return "moved";
    default:
        return "merge";
    }
}

static void show_edit(const struct inspect_args *args, const struct once__edit *edit, size_t size)
{
    const char *type = once_object_type_name(once__edit_type(edit->kind));

    if (args->json) {
        fputs("{\"object\":", stdout);
        inspect_bytes(args, edit->name);
        printf(",\"type\":\"%s\",\"edit\":\"%s\",\"size\":%zu}", type, edit_name(edit->kind), size);
        return;
    }
    inspect_bytes(args, edit->name);
    printf(" %s", edit_name(edit->kind));
    if (edit->kind < ONCE__EDIT_COUNTER)
        printf(" %s", type);
}

bool inspect_edits(const struct inspect_args *args, struct once_bytes edits, const char *between,
                   uint64_t *ret_count)
{
    uint64_t count = 0;
    size_t offset = 0;
    bool good = true;

    while (good && offset < edits.size) {
        struct once_defect defect;
        struct once__edit edit;
        size_t at = offset;

        good = once__edit_decode(edits, &offset, &edit, &defect) == ONCE_OK;
        if (good && between) {
            fputs(count == 0 ? "" : between, stdout);
            show_edit(args, &edit, offset - at);
        }
        count += good ? 1 : 0;
    }
    *ret_count = count;
    return good;
}

/* ---- The file -------------------------------------------------------------------------------- */

struct walk {
    const struct inspect_args *args;
    struct once__snapshot_scan scan;
    bool header_shown;
    bool first; /* in a JSON array */
    uint64_t edits, bad_chunks;
};

static void show_header(struct walk *walk)
{
    const struct once__snapshot_header *header = &walk->scan.header;
    struct once_bytes id = {header->store_id, sizeof(header->store_id)};
    bool repaired = (header->flags & ONCE__SNAPSHOT_REPAIRED) != 0;

    if (walk->header_shown)
        return;
    walk->header_shown = true;
    if (walk->args->json) {
        inspect_json_head(walk->args, "snapshot");
        fputs(",\"store_id\":\"", stdout);
        inspect_hex(id);
        printf("\",\"from\":%" PRIu64 ",\"change\":%" PRIu64 ",\"created_ms\":%" PRId64
               ",\"repaired\":%s,\"chunks\":[",
               header->from, header->change, header->created_ms, repaired ? "true" : "false");
        return;
    }
    fputs("snapshot of objects of store ", stdout);
    inspect_hex(id);
    printf("\nbegun %s in segment %" PRIu64 " after change %" PRIu64 "%s\n",
           inspect_time(header->created_ms).text, header->from, header->change,
           repaired ? "; written again by a repair" : "");
}

static int show_chunk(void *user, uint64_t offset, struct once_bytes edits)
{
    struct walk *walk = user;
    const struct inspect_args *args = walk->args;
    bool wanted = !args->at ||
                  (args->offset >= offset &&
                   args->offset - offset < ONCE__SNAPSHOT_CHUNK_HEADER_SIZE + edits.size);
    uint64_t count;
    bool good;

    show_header(walk);
    good = inspect_edits(args, edits, NULL, &count);
    walk->edits += count;
    walk->bad_chunks += good ? 0 : 1;
    if (!wanted)
        return ONCE_OK;
    if (args->json) {
        printf("%s{\"offset\":%" PRIu64 ",\"size\":%zu,\"edit_count\":%" PRIu64 ",\"damaged\":%s",
               walk->first ? "" : ",", offset, edits.size, count, good ? "false" : "true");
        walk->first = false;
        if (args->records) {
            fputs(",\"edits\":[", stdout);
            (void)inspect_edits(args, edits, ",", &count);
            putchar(']');
        }
        putchar('}');
        return ONCE_OK;
    }
    printf("offset %-9" PRIu64 " %6" PRIu64 " edits %8zu bytes%s\n", offset, count, edits.size,
           good ? "" : "  DAMAGED: an edit cannot be");
    if (args->records && count > 0) {
        fputs("  ", stdout);
        (void)inspect_edits(args, edits, "\n  ", &count);
        putchar('\n');
    }
    return ONCE_OK;
}

static void show_end(const struct walk *walk)
{
    const struct once__snapshot_scan *scan = &walk->scan;
    uint64_t damages = scan->damaged ? (scan->lost_count > 0 ? scan->lost_count : 1) : 0;

    damages += walk->bad_chunks;
    if (walk->args->json) {
        printf("],\"has_end\":%s,\"objects\":%" PRIu64 ",\"end_change\":%" PRIu64
               ",\"chunk_count\":%" PRIu64 ",\"edit_count\":%" PRIu64 ",\"damages\":%" PRIu64,
               scan->has_end ? "true" : "false", scan->end.object_count, scan->end.change,
               scan->chunk_count, walk->edits, damages);
        if (scan->damaged) {
            fputs(",\"what\":", stdout);
            cli_json_string(stdout, once_bytes_of(scan->defect.what));
            printf(",\"offset\":%zu", scan->defect.offset);
        }
        fputs("}\n", stdout);
        return;
    }
    if (scan->damaged)
        printf("offset %-9zu DAMAGED: %s\n", scan->defect.offset, scan->defect.what);
    printf("%" PRIu64 " chunks, %" PRIu64 " edits", scan->chunk_count, walk->edits);
    if (scan->has_end)
        printf(", %" PRIu64 " objects, changes up to %" PRIu64, scan->end.object_count,
               scan->end.change);
    puts(damages > 0 ? ", damaged" : "");
}

int inspect_snapshot(const struct inspect_args *args, struct once__file *file)
{
    struct walk walk = {.args = args, .first = true};
    struct once__snapshot_visitor visitor = {.chunk = show_chunk, .user = &walk};
    int err = once__snapshot_scan(file, NULL, &visitor, &walk.scan);

    if (err == ONCE_ERR_VERSION)
        return inspect_broken(args, "snapshot", 8, "the snapshot has another format version");
    if (err != ONCE_OK)
        return cli_error(&cli_inspect, CLI_UNAVAILABLE, "'%s': %s", cli_echo(args->path).text,
                         once_err_text(err));
    if (!walk.scan.has_header)
        return inspect_broken(args, "snapshot", walk.scan.defect.offset, walk.scan.defect.what);
    show_header(&walk);
    show_end(&walk);
    return walk.scan.damaged || walk.bad_chunks > 0 ? CLI_DAMAGED : CLI_OK;
}
