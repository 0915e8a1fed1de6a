/* SPDX-License-Identifier: Apache-2.0
 *
 * What the client of the kill test remembers, outside of the store and across its own kill -9: an
 * entry for each answer that it was told and each effect that it ran, in one file a round.
 *
 * Entries are 32 bytes and appended by one write each, or a few in one: a page holds a whole number
 * of them, so a killed writer never leaves half an entry.
 */
#ifndef ONCE_TESTS_KILL_JOURNAL_H
#define ONCE_TESTS_KILL_JOURNAL_H

#include <once/once.h>

enum entry_kind {
    ENTRY_BEGUN = 1,  /* was told EXECUTE with this fence */
    ENTRY_EFFECT = 2, /* ran the effect under this fence; before complete is called */
    ENTRY_ENDED = 3,  /* was told that the answer of the effect under this fence is kept */
    ENTRY_FREED = 4   /* is about to say that the attempt of this fence did not happen */
};

enum {
    SHARED_THREAD = 255, /* keys that all threads of a round want */
    KEY_SIZE = 48,
    RESULT_SIZE = 256,
    SHORT_TTL_MS = 1000 /* of seven keys in eight: what expires is retired under fire, too */
};

struct operation {
    uint32_t round;
    uint32_t thread;
    uint32_t number;
};

struct entry {
    uint32_t kind;
    struct operation operation;
    uint64_t fence;
    once_ms boot_ms; /* before the call that made it so */
};

_Static_assert(sizeof(struct entry) == 32, "a page holds a whole number of entries");

/* The file of this round, for appending. */
int journal_append_to(const char *folder, uint32_t round);
void journal_write(int fd, const struct entry *entries, size_t count);

/* Entries of the rounds from since on and before end, in the order in which they were written. */
struct entry *journal_read(const char *folder, uint32_t since, uint32_t end, size_t *ret_count);

/* By operation; what was written first stays first. */
void journal_sort(struct entry *entries, size_t count);
bool same_operation(const struct entry *a, const struct entry *b);

void key_text(const struct operation *operation, char text[KEY_SIZE]);
/* The one right answer of the effect that ran under this fence. */
size_t result_text(const struct operation *operation, uint64_t fence, char text[RESULT_SIZE]);
int32_t result_code(const struct operation *operation);
bool expires_soon(const struct operation *operation);

once_ms boot_now_ms(void);

/* Says what is wrong and ends the process with status 1. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
