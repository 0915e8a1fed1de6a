/* SPDX-License-Identifier: Apache-2.0
 *
 * See common.h.
 */
#include "common.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { KEYS_IN_MS = 1000, SCRATCH_MAX = 32, OPEN_FOLDERS_MAX = 16, COPY_SIZE = 1 << 24 };

const uint8_t bench_value[BENCH_VALUE_SIZE] = {
    0x9f, 0x1c, 0x52, 0xe7, 0x3b, 0x80, 0xd4, 0x6a, 0x27, 0xf5, 0x0e, 0xb9, 0x71, 0xc8, 0x45,
    0x1a, 0xe2, 0x3d, 0x96, 0x5f, 0x08, 0xab, 0x74, 0xc1, 0x6e, 0x33, 0xd9, 0x82, 0x4d, 0xf0,
    0x17, 0xbc, 1,    0,    0,    0,    1,    0,    0,    0,    0x2a, 0x11, 0x42, 0x07, 0,
    0,    0,    0,    0xe8, 0x61, 0x0b, 0x7c, 0x9c, 0x01, 0,    0,    0x18, 0xd7, 0x0b, 0x7c,
    0x9c, 0x01, 0,    0,    0x18, 0x33, 0x32, 0x81, 0x9c, 0x01, 0,    0,
};

/* Folders to remove at exit, by the process that made them: a child that was forked must not. */
static char *scratch_folders[SCRATCH_MAX];
static pid_t scratch_owner;

void bench_die(const char *what, ...)
{
    va_list args;

    fputs("bench: ", stderr);
    va_start(args, what);
    vfprintf(stderr, what, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    if (clock_gettime(clock, &now) != 0)
        bench_die("no clock: %s", strerror(errno));
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t bench_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t bench_wall_ms(void)
{
    return clock_ns(CLOCK_REALTIME) / 1000000U;
}

void bench_sleep_ms(unsigned ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        continue;
}

void *bench_alloc(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (!memory)
        bench_die("out of memory: %zu times %zu bytes", count, size);
    return memory;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = (*state += 0x9e3779b97f4a7c15U);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

void bench_keys_init(struct bench_keys *keys, enum bench_key_kind kind, uint64_t seed,
                     uint64_t born_ms)
{
    *keys = (struct bench_keys){.kind = kind, .random = seed, .born_ms = born_ms};
}

static void write_hex(char *text, uint64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--) {
        text[i] = "0123456789abcdef"[value & 15];
        value >>= 4;
    }
}

void bench_keys_next(struct bench_keys *keys, struct bench_key *ret_keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *text = ret_keys[i].text;
        uint64_t high = next_random(&keys->random), low = next_random(&keys->random);
        bool ordered = keys->kind == BENCH_UUID7;
        uint64_t first = ordered ? keys->born_ms : low >> 16; /* 48 bits */

        write_hex(text, first >> 16, 8);
        text[8] = '-';
        write_hex(text + 9, first & 0xffff, 4);
        text[13] = '-';
        write_hex(text + 14, (ordered ? 0x7000U : 0x4000U) | (high & 0xfff), 4);
        text[18] = '-';
        write_hex(text + 19, 0x8000 | (high >> 12 & 0x3fff), 4);
        text[23] = '-';
        write_hex(text + 24, (ordered ? low : high >> 16) & 0xffffffffffff, 12);
        if (++keys->in_ms == KEYS_IN_MS) {
            keys->in_ms = 0;
            keys->born_ms++;
        }
    }
}

static int compare_doubles(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

double bench_percentile(double *values, size_t count, double percent)
{
    size_t at = (size_t)((double)count * percent / 100.0);

    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare_doubles);
    return values[at < count ? at : count - 1];
}

double bench_median(double *values, size_t count)
{
    return bench_percentile(values, count, 50);
}

char *bench_path(const char *folder, const char *name)
{
    char *path = NULL;

    if (asprintf(&path, "%s/%s", folder, name) < 0)
        bench_die("out of memory");
    return path;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

static void remove_tree(const char *folder)
{
    if (nftw(folder, remove_one, OPEN_FOLDERS_MAX, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        fprintf(stderr, "bench: %s is still there: %s\n", folder, strerror(errno));
}

static void remove_all(void)
{
    if (getpid() != scratch_owner)
        return;
    for (size_t i = 0; i < SCRATCH_MAX; i++) {
        if (scratch_folders[i])
            remove_tree(scratch_folders[i]);
    }
}

char *bench_scratch_make(const char *parent)
{
    const char *tmp = getenv("TMPDIR");
    size_t slot = 0;
    char *folder;

    while (slot < SCRATCH_MAX && scratch_folders[slot])
        slot++;
    if (slot == SCRATCH_MAX)
        bench_die("too many scratch folders");
    if (!parent)
        parent = tmp && *tmp ? tmp : "/var/tmp";
    folder = bench_path(parent, "once-bench-XXXXXX");
    if (!mkdtemp(folder))
        bench_die("no folder below %s: %s; choose another with --folder", parent, strerror(errno));
    if (scratch_owner == 0) {
        scratch_owner = getpid();
        if (atexit(remove_all) != 0)
            bench_die("out of memory");
    }
    scratch_folders[slot] = strdup(folder);
    if (!scratch_folders[slot])
        bench_die("out of memory");
    return folder;
}

void bench_scratch_remove(const char *folder)
{
    remove_tree(folder);
    for (size_t i = 0; i < SCRATCH_MAX; i++) {
        if (scratch_folders[i] && strcmp(scratch_folders[i], folder) == 0) {
            free(scratch_folders[i]);
            scratch_folders[i] = NULL;
        }
    }
}

static void copy_file(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t copied;

    if (in < 0 || out < 0)
        bench_die("copy %s: %s", from, strerror(errno));
    do {
        copied = sendfile(out, in, NULL, COPY_SIZE);
    } while (copied > 0);
    if (copied < 0 || fsync(out) != 0)
        bench_die("copy %s: %s", from, strerror(errno));
    close(in);
    close(out);
}

void bench_copy(const char *from, const char *to)
{
    DIR *folder = opendir(from);
    struct dirent *entry;

    if (!folder)
        bench_die("%s: %s", from, strerror(errno));
    while ((entry = readdir(folder))) {
        char *source = bench_path(from, entry->d_name), *target = bench_path(to, entry->d_name);
        struct stat info;

        if (stat(source, &info) == 0 && S_ISREG(info.st_mode))
            copy_file(source, target);
        free(source);
        free(target);
    }
    closedir(folder);
}

void bench_chill(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    if (!folder)
        bench_die("%s: %s", path, strerror(errno));
    while ((entry = readdir(folder))) {
        char *file = bench_path(path, entry->d_name);
        int fd = open(file, O_RDONLY | O_CLOEXEC);

        /* Only pages that are on disk can be dropped. */
        if (fd >= 0 && (fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0))
            bench_die("%s: not dropped from the cache", file);
        if (fd >= 0)
            close(fd);
        free(file);
    }
    closedir(folder);
}

uint64_t bench_disk_free(const char *folder)
{
    struct statvfs info;

    if (statvfs(folder, &info) != 0)
        bench_die("%s: %s", folder, strerror(errno));
    return (uint64_t)info.f_bavail * info.f_frsize;
}

uint64_t bench_resident(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long long kib = 0;

    if (!file)
        bench_die("/proc/self/status: %s", strerror(errno));
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "RssAnon: %llu", &kib) == 1)
            break;
    }
    fclose(file);
    return (uint64_t)kib << 10;
}

double bench_number(const char *option, const char *text, double min, double max)
{
    char *end = NULL;
    double value;

    if (!text)
        bench_die("%s wants a number", option);
    errno = 0;
    value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(value >= min && value <= max))
        bench_die("%s %s: not a number from %g to %g", option, text, min, max);
    return value;
}
