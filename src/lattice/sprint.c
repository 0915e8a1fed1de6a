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
    WINDOW_SIZE = 8, /* members are compared by this many bytes */ SKIP_MAX=63, TRIES_MAX = 6,

    /* Members are WINDOW_SIZE plus up to a span long, 2^n - 1 so that the bits of all sizes tell; a
     * block holds every such entry. Short covers ids and UUIDs as text, long also covers
     * digests. */
    SPAN_SHORT = 31,
    SPAN_LONG = 63,
    BLOCK_SHORT = 48,
    BLOCK_LONG = 80,

    COMMON_SIZE = 1024,
    STRETCH_SIZE = STEPS * (SIZE_SIZE + UINT8_MAX) + BLOCK_LONG,
};

_Static_assert(SIZE_SIZE + WINDOW_SIZE + SPAN_LONG <= BLOCK_LONG, "a block holds the entry");
_Static_assert(COMMON_SIZE <= STRETCH_SIZE, "a stretch's room is enough for both");
_Static_assert((SPAN_SHORT & (SPAN_SHORT + 1)) == 0, "the bits of all sizes tell");
_Static_assert((SPAN_LONG & (SPAN_LONG + 1)) == 0, "the bits of all sizes tell");

/* A stretch: where it starts, then where it ended and what it saw. Index 0 is a, 1 is b. */
static inline const uint8_t *pick_below(uint64_t x, uint64_t y, const uint8_t *yes, const uint8_t *no)
{
    __asm__("cmp %2, %1\n\tcmovb %3, %0" : "+r"(no) : "r"(x), "r"(y), "r"(yes) : "cc");
    return no;
}
struct gait { uint32_t skip; int mode; };
#ifndef FORCE_RAGGED
#define FORCE_RAGGED 0
#endif
struct stretch {
    const uint8_t *at[2];
    uint8_t *out;
    uint32_t sizes; /* all sizes, less the smallest that fits, or-ed together */
    size_t only_b;  /* steps that took b's entry alone */
    size_t both;    /* steps that took both, and the entries that they took */
    const uint8_t *pairs[STEPS][2];
};

/* The 8 bytes of the member behind its first skip as a number; if ragged, what lies behind its end
 * counts as zeros. */
static inline uint64_t load_window(const uint8_t *entry, uint32_t size, uint32_t skip, bool ragged)
{
    uint64_t window;

    memcpy(&window, entry + SIZE_SIZE + skip, sizeof window);
    window = be64toh(window);
    if (ragged) {
        int32_t excess = (int32_t)(8 * (skip + WINDOW_SIZE - size));

        window &= UINT64_MAX << ((excess > 0 ? excess : 0) & 63);
    }
    return window;
}

/* Equal sizes and windows are known, and that the members begin alike; compares the rest in
 * overlapping words. */
static inline bool same_member(const uint8_t *a, const uint8_t *b, size_t size, size_t known)
{
    size_t last = size - 8;
    uint64_t differ = 0;

    if (size <= known)
        return true;
    for (size_t i = known; i < 8 + SPAN_SHORT; i += 8) {
        size_t at = i < last ? i : last;

        differ |= once__load_u64(a + at) ^ once__load_u64(b + at);
    }
    return differ == 0 && (size <= 8 + SPAN_SHORT || memcmp(a, b, size) == 0);
}

/* Is every noted pair one member? Only after the sizes were found to fit. */
static bool pairs_are_same(const struct stretch *stretch, uint32_t skip)
{
    for (size_t i = 0; i < stretch->both; i++) {
        const uint8_t *a = stretch->pairs[i][0], *b = stretch->pairs[i][1];
        uint32_t size = once__load_u32(a);

        if (size != once__load_u32(b) ||
            !same_member(a + SIZE_SIZE, b + SIZE_SIZE, size, skip + WINDOW_SIZE))
            return false;
    }
    return true;
}

static inline __attribute__((always_inline)) void
stretch_run(struct stretch *stretch, uint32_t skip, size_t block_size, bool ragged)
{
    const uint8_t *a = stretch->at[0], *b = stretch->at[1];
    uint8_t *out = stretch->out;
    uint32_t sizes = 0, size_min = ragged ? 1 : skip + WINDOW_SIZE;
    size_t both = 0, only_b = 0;

    for (int i = 0; i < STEPS; i++) {
        uint32_t a_size = once__load_u32(a), b_size = once__load_u32(b);
        uint64_t a_window = load_window(a, a_size, skip, ragged);
        uint64_t b_window = load_window(b, b_size, skip, ragged);
        const uint8_t *a_next = a + SIZE_SIZE + a[0], *b_next = b + SIZE_SIZE + b[0];
        const uint8_t *lower = pick_below(b_window, a_window, b, a);

        sizes |= (a_size - size_min) | (b_size - size_min);
        memcpy(out, lower, block_size);
        out += SIZE_SIZE + (size_t)lower[0];
        stretch->pairs[both][0] = a;
        stretch->pairs[both][1] = b;
        both += a_window == b_window;
        only_b += b_window < a_window;
        a = pick_below(b_window, a_window, a, a_next);
        b = pick_below(a_window, b_window, b, b_next);
    }
    stretch->at[0] = a;
    stretch->at[1] = b;
    stretch->out = out;
    stretch->sizes = sizes;
    stretch->only_b = only_b;
    stretch->both = both;
}

static size_t common_size(const uint8_t *a, const uint8_t *b, size_t max)
{
    uint32_t b_size = once__load_u32(b);

    if (b_size <= max)
        max = b_size > 0 ? b_size - 1 : 0;
    for (size_t i = 0; i < max; i += 8) {
        uint64_t differ = once__load_u64(a + SIZE_SIZE + i) ^ once__load_u64(b + SIZE_SIZE + i);

        if (differ != 0) {
            i += (size_t)__builtin_ctzll(differ) / 8;
            return i < max ? i : max;
        }
    }
    return max;
}

static uint32_t stretch_common(const struct stretch *stretch, const uint8_t *a, const uint8_t *b)
{
    size_t common = common_size(a, a, SKIP_MAX);

    common = common_size(a, b, common);
    common = common_size(a, stretch->at[0], common);
    return (uint32_t)common_size(a, stretch->at[1], common);
}

static uint32_t span_of(uint32_t block, uint32_t size_min)
{
    uint32_t span = 63;

    while (span > 0 && SIZE_SIZE + size_min + span > block)
        span >>= 1;
    return span;
}

static bool stretch_try(struct stretch *stretch, const struct once__run *a,
                        const struct once__run *b, uint8_t *out, struct gait *gait)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        uint32_t common;
        uint32_t block = gait->mode & 1 ? BLOCK_LONG : BLOCK_SHORT;
        uint32_t size_min = gait->mode & 2 ? 1 : gait->skip + 8;

        stretch->at[0] = a->at;
        stretch->at[1] = b->at;
        stretch->out = out;
        switch (gait->mode) {
        case 0:
            stretch_run(stretch, gait->skip, BLOCK_SHORT, false);
            break;
        case 1:
            stretch_run(stretch, gait->skip, BLOCK_LONG, false);
            break;
        case 2:
            stretch_run(stretch, gait->skip, BLOCK_SHORT, true);
            break;
        default:
            stretch_run(stretch, gait->skip, BLOCK_LONG, true);
            break;
        }
        if (stretch->sizes & ~span_of(block, size_min)) {
            if (gait->mode == 3)
                return false;
            gait->mode++;
            continue;
        }
        if (gait->skip > 0 && (common = stretch_common(stretch, a->at, b->at)) < gait->skip) {
            gait->skip = common;
            continue;
        }
        if (pairs_are_same(stretch, gait->skip))
            return true;
        common = stretch_common(stretch, a->at, b->at);
        if (common <= gait->skip)
            return false;
        gait->skip = common;
        if (FORCE_RAGGED && gait->mode < 2) gait->mode = 2;
    }
    return false;
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
    struct gait gait = {0};

    while (has_room(a) && has_room(b) && out_end - *out >= STRETCH_SIZE) {
        uint32_t taken = copy_common(a, b, out);

        if (taken == 0) {
            if (!stretch_try(&stretch, a, b, *out, &gait))
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
