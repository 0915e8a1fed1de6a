/* SPDX-License-Identifier: Apache-2.0
 *
 * What the lattice's tests share: states as values. Every state made here lives in a heap block of
 * exactly its size, so that the address sanitizer sees the first byte read too many; all of them
 * are freed by help_release, the teardown of every test.
 */
#ifndef ONCE_TESTS_LATTICE_HELP_H
#define ONCE_TESTS_LATTICE_HELP_H

#include <endian.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <once/lattice.h>

#define assert_ok(call) assert_int_equal((call), ONCE_OK)
#define assert_state(a, b) assert_true(same((a), (b)))
#define assert_text(state, expected) assert_string_equal(text_of(state), (expected))

struct help_block {
    struct help_block *next;
    uint8_t *data;
};

static struct help_block *help_blocks;

static inline int help_release(void **unused)
{
    (void)unused;
    while (help_blocks) {
        struct help_block *block = help_blocks;

        help_blocks = block->next;
        free(block->data);
        free(block);
    }
    return 0;
}

/* A copy in a block of exactly this size. */
static inline struct once_bytes keep(const void *data, size_t size)
{
    struct help_block *block = malloc(sizeof *block);

    assert_non_null(block);
    block->data = malloc(size > 0 ? size : 1);
    assert_non_null(block->data);
    if (size > 0)
        memcpy(block->data, data, size);
    block->next = help_blocks;
    help_blocks = block;
    return (struct once_bytes){.data = block->data, .size = size};
}

/* Takes what a call that gave err put into out. */
static inline struct once_bytes taken(int err, struct once_buf *out)
{
    struct once_bytes state;

    assert_int_equal(err, ONCE_OK);
    state = keep(out->data, out->size);
    once_buf_release(out);
    return state;
}

static inline struct once_buf fresh(void)
{
    struct once_buf out;

    once_buf_init(&out, ONCE_LATTICE_SIZE_MAX);
    return out;
}

static inline struct once_bytes b(const char *text)
{
    return once_bytes_of(text);
}

/* Only as an argument: it lives as long as the block it is written in. */
#define WRITE(by, what) (&(struct once_write){.node = b(by), .value = b(what)})

static inline bool same(struct once_bytes x, struct once_bytes y)
{
    return x.size == y.size && (x.size == 0 || memcmp(x.data, y.data, x.size) == 0);
}

/* MAKE(once_gset_add(b("x"), &out)) is the state that the call makes. */
#define MAKE(call)                                                                                 \
    __extension__({                                                                                \
        struct once_buf out = fresh();                                                             \
        int help_err = (call);                                                                     \
                                                                                                   \
        taken(help_err, &out);                                                                     \
    })

static inline struct once_bytes bottom(enum once_lattice_type type)
{
    return MAKE(once_lattice_bottom(type, &out));
}

static inline struct once_bytes merge(struct once_bytes x, struct once_bytes y)
{
    return MAKE(once_lattice_merge(x, y, &out));
}

static inline enum once_order order(struct once_bytes x, struct once_bytes y)
{
    enum once_order result = ONCE_ORDER_CONCURRENT;

    assert_ok(once_lattice_compare(x, y, &result));
    return result;
}

static inline const char *text_of(struct once_bytes state)
{
    struct once_buf out = fresh();

    assert_ok(once_lattice_describe(state, &out));
    assert_ok(once_buf_append(&out, "", 1));
    return (const char *)taken(ONCE_OK, &out).data;
}

/* Asserts that the check refuses the bytes at that offset. */
static inline void assert_refused(struct once_bytes bytes, int err, size_t offset)
{
    struct once_defect defect = {.offset = SIZE_MAX};

    assert_int_equal(once_lattice_check(bytes, NULL, &defect), err);
    assert_int_equal(defect.offset, offset);
    assert_non_null(defect.what);
}

/* "09 01 ff…": the bytes of hex digits, white space and lines of # left out. */
static inline struct once_bytes hex(const char *digits)
{
    struct once_buf out = fresh();
    int high = -1;

    for (; *digits; digits++) {
        const char *alphabet = "0123456789abcdef";
        const char *digit = strchr(alphabet, *digits);

        if (*digits == '#')
            digits += strcspn(digits, "\n") - 1;
        else if (strchr(" \n", *digits))
            continue;
        else if (!digit)
            fail_msg("not a hex digit: %c", *digits);
        else if (high < 0)
            high = (int)(digit - alphabet);
        else {
            uint8_t byte = (uint8_t)(high << 4 | (int)(digit - alphabet));

            assert_ok(once_buf_append(&out, &byte, 1));
            high = -1;
        }
    }
    assert_int_equal(high, -1);
    return taken(ONCE_OK, &out);
}

/* Random numbers that a printed seed replays. */
static inline uint64_t help_seed(void)
{
    const char *text = getenv("ONCE_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

    print_message("# ONCE_SEED=%" PRIu64 "\n", seed);
    return seed;
}

static inline uint64_t help_random(uint64_t *seed)
{
    uint64_t x = (*seed += 0x9e3779b97f4a7c15U);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

static inline uint64_t help_below(uint64_t *seed, uint64_t bound)
{
    return help_random(seed) % bound;
}

#endif
