/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's own record; see journal.h.
 */
#include "kill/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 512 };

void die(const char *format, ...)
{
    va_list args;

    flockfile(stderr);
    fputs("kill: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    _exit(1);
}

static void path_of(const char *folder, uint32_t round, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/journal.%" PRIu32, folder, round);
}

int journal_append_to(const char *folder, uint32_t round)
{
    char path[PATH_SIZE];
    int fd;

    path_of(folder, round, path);
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        die("%s: %s", path, strerror(errno));
    return fd;
}

void journal_write(int fd, const struct entry *entries, size_t count)
{
    size_t size = count * sizeof(*entries);

    if (write(fd, entries, size) != (ssize_t)size)
        die("the journal cannot be written: %s", strerror(errno));
}

static void read_one(const char *folder, uint32_t round, struct entry **entries, size_t *count)
{
    char path[PATH_SIZE];
    struct stat about;
    size_t size;
    int fd;

    path_of(folder, round, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return; /* killed before it began */
    if (fd < 0 || fstat(fd, &about) != 0)
        die("%s: %s", path, strerror(errno));
    size = (size_t)about.st_size;
    if (size % sizeof(struct entry) != 0)
        die("%s holds half an entry", path);
    *entries = realloc(*entries, *count * sizeof(struct entry) + size + 1);
    if (!*entries)
        die("out of memory");
    if (read(fd, *entries + *count, size) != (ssize_t)size)
        die("%s: %s", path, strerror(errno));
    close(fd);
    *count += size / sizeof(struct entry);
}

struct entry *journal_read(const char *folder, uint32_t since, uint32_t end, size_t *ret_count)
{
    struct entry *entries = NULL;

    *ret_count = 0;
    for (uint32_t round = since; round < end; round++)
        read_one(folder, round, &entries, ret_count);
    return entries;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_operations(const struct entry *a, const struct entry *b)
{
    int order = compare(a->operation.round, b->operation.round);

    if (order == 0)
        order = compare(a->operation.thread, b->operation.thread);
    if (order == 0)
        order = compare(a->operation.number, b->operation.number);
    return order;
}

bool same_operation(const struct entry *a, const struct entry *b)
{
    return compare_operations(a, b) == 0;
}

/* Of one operation, fences grow with every attempt, and the kinds are numbered as they follow. */
static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = compare_operations(a, b);

    if (order == 0)
        order = compare(a->fence, b->fence);
    return order != 0 ? order : compare(a->kind, b->kind);
}

void journal_sort(struct entry *entries, size_t count)
{
    if (count > 0)
        qsort(entries, count, sizeof(*entries), compare_entries);
}

void key_text(const struct operation *operation, char text[KEY_SIZE])
{
    snprintf(text, KEY_SIZE, "%" PRIu32 "-%" PRIu32 "-%" PRIu32, operation->round,
             operation->thread, operation->number);
}

size_t result_text(const struct operation *operation, uint64_t fence, char text[RESULT_SIZE])
{
    int size = snprintf(text, RESULT_SIZE, "%" PRIu32 "-%" PRIu32 "-%" PRIu32 " under %" PRIu64,
                        operation->round, operation->thread, operation->number, fence);
    size_t all = (size_t)size + operation->number % 64; /* records of many sizes */

    memset(text + size, '.', all - (size_t)size);
    return all;
}

int32_t result_code(const struct operation *operation)
{
    return (int32_t)(operation->number % 600) - 100;
}

bool expires_soon(const struct operation *operation)
{
    return operation->number % 8 != 0;
}

once_ms boot_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
