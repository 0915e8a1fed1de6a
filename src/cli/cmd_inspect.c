/* SPDX-License-Identifier: Apache-2.0
 *
 * `once inspect`: shows one file of a store. Which kind it is its name says, else its content. It
 * takes no lock and changes nothing; of a file that is being written it shows some moment.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/echo.h"
#include "cli/folder.h"
#include "cli/inspect.h"
#include "cli/options.h"
#include "engine/format.h"

static const char inspect_help[] =
    "usage: once inspect [--json] [--records] [--values] [--offset N] FILE\n"
    "\n"
    "Shows what a file of a store holds: the store file, a segment (000000.seg, or what a repair\n"
    "kept of one), a sidecar (000000.idx), the snapshot of objects (objects). Broken parts are\n"
    "shown as such, with offset and reason. Nothing is changed, and the store may be in use.\n"
    "\n"
    "  --records   a segment's records too, a sidecar's entries too, a snapshot's edits too\n"
    "  --values    results and data themselves, not only their sizes\n"
    "  --offset N  only the batch, record, entry or chunk at this offset (with --records)\n"
    "  --json      one JSON object for machines, errors too\n"
    "  --          what follows is no option, even if it begins with a dash\n"
    "\n"
    "exit status: 0 shown, nothing broken; 64 usage, or no file of a store; 66 no such file; 69 "
    "the\n"
    "file cannot be read; 70 something in it is damaged; 71 out of memory, or an output that "
    "cannot\n"
    "be written.\n";

enum option { OPTION_JSON, OPTION_RECORDS, OPTION_VALUES, OPTION_OFFSET };

static const struct cli_option inspect_options[] = {
    {"--json", NULL, OPTION_JSON},
    {"--records", NULL, OPTION_RECORDS},
    {"--values", NULL, OPTION_VALUES},
    {"--offset", "N", OPTION_OFFSET},
};

enum { SIDECAR_SIZE_MAX = 1 << 30 };

/* ---- Shared ---------------------------------------------------------------------------------- */

struct inspect_time inspect_time(once_ms ms)
{
    struct inspect_time time = {{0}};
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    char text[24];

    if (!gmtime_r(&seconds, &parts) ||
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        snprintf(time.text, sizeof(time.text), "%" PRId64 " ms", ms);
    else
        snprintf(time.text, sizeof(time.text), "%s.%03dZ", text, (int)(ms % 1000));
    return time;
}

void inspect_hex(struct once_bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        printf("%02x", bytes.data[i]);
}

void inspect_bytes(const struct inspect_args *args, struct once_bytes bytes)
{
    if (args->json) {
        cli_json_string(stdout, bytes);
        return;
    }
    putchar('"');
    for (size_t i = 0; i < bytes.size; i++) {
        uint8_t byte = bytes.data[i];

        if (byte == '"' || byte == '\\')
            printf("\\%c", byte);
        else if (byte >= 0x20 && byte <= 0x7e)
            putchar(byte);
        else
            printf("\\x%02x", byte);
    }
    putchar('"');
}

void inspect_json_head(const struct inspect_args *args, const char *kind)
{
    fputs("{\"file\":", stdout);
    cli_json_string(stdout, once_bytes_of(args->path));
    printf(",\"kind\":\"%s\"", kind);
}

int inspect_broken(const struct inspect_args *args, const char *kind, uint64_t offset,
                   const char *what)
{
    if (args->json) {
        inspect_json_head(args, kind);
        fputs(",\"damages\":1,\"what\":", stdout);
        cli_json_string(stdout, once_bytes_of(what));
        printf(",\"offset\":%" PRIu64 "}\n", offset);
    } else {
        printf("a damaged %s: %s (at offset %" PRIu64 ")\n", kind, what, offset);
    }
    return CLI_DAMAGED;
}

/* ---- The store file -------------------------------------------------------------------------- */

static int inspect_store(const struct inspect_args *args, struct once__file *file)
{
    uint8_t bytes[ONCE__STORE_FILE_SIZE + 1];
    struct once__store_file store;
    struct once_defect defect;
    struct once_bytes id = {store.id, sizeof(store.id)};
    size_t got = 0;
    int err = once__file_read(file, 0, bytes, sizeof(bytes), &got);

    if (err != ONCE_OK)
        return inspect_broken(args, "store file", 0, once_err_text(err));
    err = once__store_file_decode((struct once_bytes){bytes, got}, &store, &defect);
    if (err != ONCE_OK)
        return inspect_broken(args, "store file", defect.offset, defect.what);
    if (args->json) {
        inspect_json_head(args, "store");
        fputs(",\"id\":\"", stdout);
        inspect_hex(id);
        printf("\",\"format\":%d,\"segment_size\":%" PRIu32 ",\"created_ms\":%" PRId64
               ",\"secret_size\":%d,\"damages\":0}\n",
               (int)ONCE__FORMAT_VERSION, store.segment_size, store.created_ms,
               (int)ONCE__SECRET_SIZE);
        return CLI_OK;
    }
    fputs("store ", stdout);
    inspect_hex(id);
    printf("\nformat %d, segment size %" PRIu32 ", made %s\nsecret: %d bytes, not shown\n",
           (int)ONCE__FORMAT_VERSION, store.segment_size, inspect_time(store.created_ms).text,
           (int)ONCE__SECRET_SIZE);
    return CLI_OK;
}

/* ---- Sidecars -------------------------------------------------------------------------------- */

static bool is_wanted(const struct inspect_args *args, uint64_t offset, uint64_t size)
{
    return !args->at || (args->offset >= offset && args->offset < offset + size);
}

static void show_entry(const struct inspect_args *args, bool first, uint64_t offset,
                       const struct once__sidecar_entry *entry)
{
    const char *state = entry->open ? "open" : entry->absent ? "forgotten" : "ended";

    if (args->json) {
        printf("%s{\"at\":%" PRIu64 ",\"hash\":\"%011" PRIx64 "\",\"offset\":%" PRIu32
               ",\"size\":%" PRIu32 ",\"state\":\"%s\",\"expires_s\":%" PRIu32 "}",
               first ? "" : ",", offset, entry->hash >> 20, entry->offset, entry->size, state,
               entry->expires_s);
        return;
    }
    printf("offset %-9" PRIu64 " hash %011" PRIx64 "  record at %" PRIu32 ", %" PRIu32 " bytes, %s",
           offset, entry->hash >> 20, entry->offset, entry->size, state);
    if (!entry->open && !entry->absent)
        printf(", expires %s", inspect_time((once_ms)entry->expires_s * 1000).text);
    putchar('\n');
}

static void show_sidecar(const struct inspect_args *args, const struct once__sidecar_header *header,
                         const uint64_t *entries, const uint64_t *kills)
{
    bool first = true;

    for (uint32_t i = 0; args->records && i < header->entry_count; i++) {
        uint64_t at = ONCE__SIDECAR_HEADER_SIZE + (uint64_t)i * ONCE__SIDECAR_ENTRY_SIZE;
        struct once__sidecar_entry entry;

        if (!is_wanted(args, at, ONCE__SIDECAR_ENTRY_SIZE))
            continue;
        once__sidecar_entry_unpack(entries + (size_t)2 * i, &entry);
        show_entry(args, first, at, &entry);
        first = false;
    }
    if (args->json)
        fputs("],\"kills\":[", stdout);
    first = true;
    for (uint32_t i = 0; args->records && i < header->kill_count; i++) {
        struct once__sidecar_kill kill = once__sidecar_kill_unpack(header->sequence, kills[i]);
        uint64_t at = ONCE__SIDECAR_HEADER_SIZE +
                      (uint64_t)header->entry_count * ONCE__SIDECAR_ENTRY_SIZE +
                      (uint64_t)i * ONCE__SIDECAR_KILL_SIZE;

        if (!is_wanted(args, at, ONCE__SIDECAR_KILL_SIZE))
            continue;
        if (args->json)
            printf("%s{\"at\":%" PRIu64 ",\"segment\":%" PRIu64 ",\"offset\":%" PRIu32 "}",
                   first ? "" : ",", at, kill.sequence, kill.offset);
        else
            printf("offset %-9" PRIu64 " replaced: segment %" PRIu64 " offset %" PRIu32 "\n", at,
                   kill.sequence, kill.offset);
        first = false;
    }
}

static int inspect_sidecar(const struct inspect_args *args, struct once__file *file,
                           uint64_t file_size)
{
    struct once__sidecar_header header;
    const uint64_t *entries, *kills;
    struct once_defect defect;
    uint8_t *bytes = file_size <= SIDECAR_SIZE_MAX ? malloc(file_size + 1) : NULL;
    size_t got = 0;
    int err, status = CLI_OK;

    if (!bytes)
        return cli_error(&cli_inspect, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    err = once__file_read(file, 0, bytes, file_size, &got);
    if (err == ONCE_OK)
        err = once__sidecar_decode((struct once_bytes){bytes, got}, &header, &entries, &kills,
                                   &defect);
    else
        defect = (struct once_defect){.what = once_err_text(err)};
    if (err != ONCE_OK) {
        status = inspect_broken(args, "sidecar", defect.offset, defect.what);
    } else if (args->json) {
        inspect_json_head(args, "sidecar");
        printf(",\"segment\":%" PRIu64 ",\"chain\":\"%016" PRIx64 "\",\"end\":%" PRIu32
               ",\"entry_count\":%" PRIu32 ",\"kill_count\":%" PRIu32 ",\"change_count\":%" PRIu32
               ",\"damages\":0,\"entries\":[",
               header.sequence, header.chain, header.end, header.entry_count, header.kill_count,
               header.change_count);
        show_sidecar(args, &header, entries, kills);
        fputs("]}\n", stdout);
    } else {
        printf("sidecar of segment %" PRIu64 ", chain %016" PRIx64 ", end %" PRIu32 "\n%" PRIu32
               " live records, %" PRIu32 " replaced in older segments, %" PRIu32
               " changes of objects\n",
               header.sequence, header.chain, header.end, header.entry_count, header.kill_count,
               header.change_count);
        show_sidecar(args, &header, entries, kills);
    }
    free(bytes);
    return status;
}

/* ---- Which kind ------------------------------------------------------------------------------ */

enum kind { KIND_NONE, KIND_STORE, KIND_SEGMENT, KIND_SIDECAR, KIND_SNAPSHOT };

static enum kind kind_of_name(const char *name)
{
    if (strcmp(name, ONCE__STORE_NAME) == 0)
        return KIND_STORE;
    if (strcmp(name, ONCE__OBJECTS_NAME) == 0 ||
        strncmp(name, ONCE__OBJECTS_NAME ".", sizeof(ONCE__OBJECTS_NAME)) == 0)
        return KIND_SNAPSHOT;
    if (strstr(name, ".seg"))
        return KIND_SEGMENT;
    return strstr(name, ".idx") ? KIND_SIDECAR : KIND_NONE;
}

/* All our files begin with a magic of their own; whatever decodes without complaint is that. */
static enum kind kind_of_content(struct once__file *file, uint64_t file_size)
{
    uint8_t block[ONCE_BLOCK_SIZE];
    struct once__segment_header segment;
    struct once__snapshot_header snapshot;
    struct once__store_file store;
    struct once_defect defect;
    size_t got = 0;

    if (once__file_read(file, 0, block, sizeof(block), &got) != ONCE_OK)
        return KIND_NONE;
    if (once__snapshot_header_decode((struct once_bytes){block, got}, &snapshot, &defect) ==
        ONCE_OK)
        return KIND_SNAPSHOT;
    if (once__store_file_decode((struct once_bytes){block, got}, &store, &defect) == ONCE_OK)
        return KIND_STORE;
    if (once__segment_header_decode((struct once_bytes){block, got}, &segment, &defect) !=
        ONCE_ERR_NO_STORE)
        return KIND_SEGMENT;
    if (file_size >= ONCE__SIDECAR_HEADER_SIZE + 8 && got >= 8 && memcmp(block, "Once", 4) == 0)
        return KIND_SIDECAR;
    return KIND_NONE;
}

static int show(const struct inspect_args *args, const char *name, struct once__file *file)
{
    enum kind kind = kind_of_name(name);
    uint64_t size = 0;
    int err = once__file_size(file, &size);

    if (err != ONCE_OK)
        return cli_error(&cli_inspect, CLI_UNAVAILABLE, "'%s': %s", cli_echo(args->path).text,
                         once_err_text(err));
    if (kind == KIND_NONE)
        kind = kind_of_content(file, size);
    switch (kind) {
    case KIND_STORE:
        return inspect_store(args, file);
    case KIND_SEGMENT:
        return inspect_segment(args, file, size);
    case KIND_SIDECAR:
        return inspect_sidecar(args, file, size);
    case KIND_SNAPSHOT:
        return inspect_snapshot(args, file);
    case KIND_NONE:
        break;
    }
    return cli_usage(&cli_inspect, "'%s' is no file of a store", cli_echo(args->path).text);
}

static int inspect_path(const struct inspect_args *args)
{
    const char *slash = strrchr(args->path, '/');
    const char *name = slash ? slash + 1 : args->path;
    char *folder = slash ? strndup(args->path, (size_t)(slash - args->path) + 1) : strdup(".");
    struct once__vfs *vfs = NULL;
    struct once__file *file = NULL;
    int err, error = 0, status;

    if (!folder)
        return cli_error(&cli_inspect, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    if (!name[0]) {
        free(folder);
        return cli_usage(&cli_inspect, "'%s' is a folder; name a file in it",
                         cli_echo(args->path).text);
    }
    err = once__vfs_open(folder, false, &vfs, &error);
    if (err == ONCE_OK) {
        err = vfs->ops->open(vfs, name, 0, &file);
        error = err == ONCE_OK ? 0 : vfs->system_errno;
    }
    if (err == ONCE_ERR_NO_STORE)
        status = cli_error(&cli_inspect, CLI_NOT_FOUND, "there is no file '%s'",
                           cli_echo(args->path).text);
    else if (err != ONCE_OK)
        status = cli_error(&cli_inspect, cli_store_status(err), "'%s' cannot be opened: %s",
                           cli_echo(args->path).text, strerror(error));
    else
        status = show(args, name, file);
    once__file_close(file);
    if (vfs)
        vfs->ops->free(vfs);
    free(folder);
    return status;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static int read_args(int argc, char **argv, struct inspect_args *ret_args)
{
    struct inspect_args args = {0};
    struct cli_args reader = CLI_ARGS(&cli_inspect, inspect_options, argc, argv);
    const char *value;
    int got;

    while ((got = cli_args_next(&reader, &value)) != CLI_ARG_END) {
        if (got == CLI_ARG_WRONG)
            return CLI_USAGE;
        args.json = args.json || got == OPTION_JSON;
        args.records = args.records || got == OPTION_RECORDS || got == OPTION_OFFSET;
        args.values = args.values || got == OPTION_VALUES;
        if (got == OPTION_OFFSET) {
            args.at = true;
            if (!cli_number(value, 0, UINT64_MAX, &args.offset))
                return cli_usage(&cli_inspect, "--offset takes a number of bytes, not '%s'",
                                 cli_echo(value).text);
        }
        if (got == CLI_ARG_VALUE && args.path)
            return cli_usage(&cli_inspect, "one file at a time; '%s' is a second one",
                             cli_echo(value).text);
        if (got == CLI_ARG_VALUE)
            args.path = value;
    }
    if (!args.path || !args.path[0])
        return cli_usage(&cli_inspect, "which file? Name one of a store's folder");
    *ret_args = args;
    return CLI_OK;
}

static int inspect_run(int argc, char **argv)
{
    struct inspect_args args = {0};
    int status = read_args(argc, argv, &args);

    return status == CLI_OK ? inspect_path(&args) : status;
}

const struct cli_command cli_inspect = {
    .name = "inspect",
    .summary = "show what a file of a store holds",
    .help = inspect_help,
    .run = inspect_run,
    .options = inspect_options,
    .option_count = sizeof(inspect_options) / sizeof(inspect_options[0]),
};
