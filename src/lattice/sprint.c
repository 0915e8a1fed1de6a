/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging two large sets of members up to 71 bytes at the speed of copying them.
 *
 * Which of two random members is lower cannot be predicted, and a branch on it costs more than
 * copying the member. So a stretch takes a fixed number of steps without any branch: members are
 * compared by their first 8 bytes as one big-endian number, the lower one is copied as a block of
 * fixed size, and each side moves on by its entry's size masked with whether it was taken; equal
 * numbers take both sides and note the pair. What the steps assumed is looked at once, after them:
 * that every size was in range, and that every noted pair is one and the same member. If not, the
 * stretch is forgotten, for nothing but bytes behind *out was changed, and the caller walks on with
 * care.
 *
 * Bounds. The first byte of an entry's u32 size is believed before it is checked, so a step moves a
 * side by at most 4 + 255 bytes: a stretch starts only where both runs and the output have room for
 * all of its steps at that length and for the last block. It also needs that many entries left on
 * both sides.
 */
#include "lattice/sprint.h"

enum {
    STEPS = 16,
    SIZE_SIZE = 4,  /* of the u32 before each member */
    MEMBER_MIN = 8, /* members are compared by this many bytes */

    /* Members are MEMBER_MIN plus up to a span long, 2^n - 1 so that the bits of all sizes tell; a
     * block holds every such entry. Short covers ids and UUIDs as text, long also covers
     * digests. */
    SPAN_SHORT = 31,
    SPAN_LONG = 63,
    BLOCK_SHORT = 48,
    BLOCK_LONG = 80,

    COMMON_SIZE = 1024,
    STRETCH_SIZE = STEPS * (SIZE_SIZE + UINT8_MAX) + BLOCK_LONG,
};
_Static_assert(SIZE_SIZE + MEMBER_MIN + SPAN_SHORT <= BLOCK_SHORT, "a block holds the entry");
_Static_assert(SIZE_SIZE + MEMBER_MIN + SPAN_LONG <= BLOCK_LONG, "a block holds the entry");
_Static_assert(COMMON_SIZE <= STRETCH_SIZE, "a stretch's room is enough for both");
_Static_assert((SPAN_SHORT & (SPAN_SHORT + 1)) == 0, "the bits of all sizes tell");
_Static_assert((SPAN_LONG & (SPAN_LONG + 1)) == 0, "the bits of all sizes tell");

/* A stretch: where it starts, then where it ended and what it saw. Index 0 is a, 1 is b. */
struct stretch {
    const uint8_t *at[2];
    uint8_t *out;
    uint32_t sizes; /* all sizes, less MEMBER_MIN, or-ed together */
    size_t only_b;  /* steps that took b's entry alone */
    size_t both;    /* steps that took both, and the entries that they took */
    const uint8_t *pairs[STEPS][2];
};

static inline uint64_t load_prefix(const uint8_t *entry)
{
    uint64_t prefix;

    memcpy(&prefix, entry + SIZE_SIZE, sizeof prefix);
    return be64toh(prefix);
}

/* All ones if x < y. The empty asm keeps compilers from making it a branch again. */
static inline size_t mask_below(uint64_t x, uint64_t y)
{
    size_t mask = -(size_t)(x < y);

    __asm__("" : "+r"(mask));
    return mask;
}

/* yes if the mask is all ones, no if it is 0. */
static inline const uint8_t *pick(size_t mask, const uint8_t *yes, const uint8_t *no)
{
    return (const uint8_t *)((uintptr_t)no ^ (((uintptr_t)yes ^ (uintptr_t)no) & mask));
}

/* Equal prefixes and sizes are known; compares the rest in overlapping words. */
static inline bool same_member(const uint8_t *a, const uint8_t *b, size_t size)
{
    size_t last = size - 8;
    uint64_t differ = 0;

    for (size_t i = 8; i < MEMBER_MIN + SPAN_SHORT; i += 8) {
        size_t at = i < last ? i : last;

        differ |= once__load_u64(a + at) ^ once__load_u64(b + at);
    }
    return differ == 0 && (size <= MEMBER_MIN + SPAN_SHORT || memcmp(a, b, size) == 0);
}

static bool sizes_fit(const struct stretch *stretch, uint32_t span)
{
    return (stretch->sizes & ~span) == 0;
}

/* Is every noted pair one member? Only after the sizes were found to fit. */
static bool pairs_are_same(const struct stretch *stretch)
{
    for (size_t i = 0; i < stretch->both; i++) {
        const uint8_t *a = stretch->pairs[i][0], *b = stretch->pairs[i][1];
        uint32_t size = once__load_u32(a);

        if (size != once__load_u32(b) || !same_member(a + SIZE_SIZE, b + SIZE_SIZE, size))
            return false;
    }
    return true;
}

static inline __attribute__((always_inline)) void stretch_run(struct stretch *stretch,
                                                              size_t block_size)
{
    const uint8_t *a = stretch->at[0], *b = stretch->at[1];
    uint8_t *out = stretch->out;
    uint32_t sizes = 0;
    size_t both = 0, only_b = 0;

    for (int i = 0; i < STEPS; i++) {
        uint64_t a_prefix = load_prefix(a), b_prefix = load_prefix(b);
        size_t a_stays = mask_below(b_prefix, a_prefix), b_stays = mask_below(a_prefix, b_prefix);
        const uint8_t *lower = pick(a_stays, b, a);

        sizes |= (once__load_u32(a) - MEMBER_MIN) | (once__load_u32(b) - MEMBER_MIN);
        memcpy(out, lower, block_size);
        out += SIZE_SIZE + (size_t)lower[0];
        stretch->pairs[both][0] = a;
        stretch->pairs[both][1] = b;
        both += 1 + a_stays + b_stays;
        only_b -= a_stays;
        a += (SIZE_SIZE + (size_t)a[0]) & ~a_stays;
        b += (SIZE_SIZE + (size_t)b[0]) & ~b_stays;
    }
    stretch->at[0] = a;
    stretch->at[1] = b;
    stretch->out = out;
    stretch->sizes = sizes;
    stretch->only_b = only_b;
    stretch->both = both;
}

/* One stretch from where the runs stand: did it go as assumed? *is_long remembers which members
 * were met. */
static bool stretch_try(struct stretch *stretch, const struct once__run *a,
                        const struct once__run *b, uint8_t *out, bool *is_long)
{
    for (;;) {
        stretch->at[0] = a->at;
        stretch->at[1] = b->at;
        stretch->out = out;
        if (*is_long)
            stretch_run(stretch, BLOCK_LONG);
        else
            stretch_run(stretch, BLOCK_SHORT);
        if (sizes_fit(stretch, *is_long ? SPAN_LONG : SPAN_SHORT))
            return pairs_are_same(stretch);
        if (*is_long || !sizes_fit(stretch, SPAN_LONG))
            return false;
        *is_long = true;
    }
}

/* Replicas mostly hold the same: where the next COMMON_SIZE bytes of both runs are equal, copies the
 * whole entries in them at once. Gives how many. Needs the room of a stretch. */
static uint32_t copy_common(struct once__run *a, struct once__run *b, uint8_t **out)
{
    uint32_t left = a->left < b->left ? a->left : b->left;
    uint32_t count = 0;
    size_t size = 0;

    if (once__load_u64(a->at) != once__load_u64(b->at) || memcmp(a->at, b->at, COMMON_SIZE) != 0)
        return 0;
    while (count < left && size + SIZE_SIZE <= COMMON_SIZE) {
        size_t entry_size = SIZE_SIZE + (size_t)once__load_u32(a->at + size);

        if (entry_size > COMMON_SIZE - size)
            break;
        size += entry_size;
        count++;
    }
    memcpy(*out, a->at, size);
    a->at += size;
    b->at += size;
    *out += size;
    a->left -= count;
    b->left -= count;
    return count;
}

static inline bool has_room(const struct once__run *run)
{
    return run->left >= STEPS && run->end - run->at >= STRETCH_SIZE;
}

uint64_t once__sprint(struct once__run *a, struct once__run *b, uint8_t **out,
                      const uint8_t *out_end)
{
    struct stretch stretch;
    uint64_t written = 0;
    bool is_long = false;

    while (has_room(a) && has_room(b) && out_end - *out >= STRETCH_SIZE) {
        uint32_t taken = copy_common(a, b, out);

        if (taken == 0) {
            if (!stretch_try(&stretch, a, b, *out, &is_long))
                break;
            a->at = stretch.at[0];
            b->at = stretch.at[1];
            *out = stretch.out;
            a->left -= (uint32_t)(STEPS - stretch.only_b);
            b->left -= (uint32_t)(stretch.only_b + stretch.both);
            taken = STEPS;
        }
        written += taken;
    }
    return written;
}
