/* SPDX-License-Identifier: Apache-2.0
 *
 * What the benchmarks of stores share: time, keys, scratch folders, and dying with a message. A
 * benchmark that cannot measure says why and exits 2; it never reports a number it did not see.
 */
#ifndef BENCH_STORE_COMMON_H
#define BENCH_STORE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_KEY_SIZE = 36, BENCH_FINGERPRINT_SIZE = 32, BENCH_VALUE_SIZE = 72 };

/* A UUID as text, no NUL. */
struct bench_key {
    char text[BENCH_KEY_SIZE];
};

/* Version 4 is random: what most clients send. Version 7 begins with its time of birth, so new keys
 * land side by side in an ordered tree: the best that can happen to one. */
enum bench_key_kind { BENCH_UUID4, BENCH_UUID7 };

/* Makes keys. The same kind, seed and start give the same keys. */
struct bench_keys {
    enum bench_key_kind kind;
    uint64_t random;  /* state of the generator */
    uint64_t born_ms; /* of the next key */
    uint32_t in_ms;   /* keys that were made in this millisecond */
};

_Noreturn void bench_die(const char *what, ...) __attribute__((format(printf, 1, 2)));

uint64_t bench_now_ns(void);  /* monotonic */
uint64_t bench_wall_ms(void); /* since 1970 */
void bench_sleep_ms(unsigned ms);

void bench_keys_init(struct bench_keys *keys, enum bench_key_kind kind, uint64_t seed,
                     uint64_t born_ms);
/* A thousand of version 7 share a millisecond: ordered by time, not within it. */
void bench_keys_next(struct bench_keys *keys, struct bench_key *ret_keys, size_t count);

/* What is kept under every key: a fingerprint of 32 bytes, then 40 bytes that stand for what a
 * table would keep besides (state, fence, attempt, times). */
extern const uint8_t bench_value[BENCH_VALUE_SIZE];

void *bench_alloc(size_t count, size_t size); /* zeroed; dies when there is none */

/* Sorts the values. 0 for none. */
double bench_median(double *values, size_t count);
double bench_percentile(double *values, size_t count, double percent);

/* A new folder below parent (NULL: $TMPDIR, else /var/tmp, which is a disk where /tmp may not be).
 * The path is the caller's to free; the folder and all in it go when the process that made it
 * exits, or with _remove. */
char *bench_scratch_make(const char *parent);
void bench_scratch_remove(const char *folder);
/* folder + "/" + name; the caller frees it. */
char *bench_path(const char *folder, const char *name);
/* Copies the files of a folder into another one, and makes the copy durable. Folders inside are not
 * copied; there are none. */
void bench_copy(const char *from, const char *to);
/* Drops the files of a folder from the page cache, as a reboot would. */
void bench_chill(const char *folder);
uint64_t bench_disk_free(const char *folder); /* bytes */
uint64_t bench_resident(void);                /* bytes of anonymous memory of this process */

/* A number from the command line. Dies when it is none or out of bounds. */
double bench_number(const char *option, const char *text, double min, double max);

#endif
