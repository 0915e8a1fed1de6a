/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging two large sets of short members at the speed of copying them.
 *
 * Which of two random members is lower cannot be predicted, and a branch on it costs more than
 * copying the member. So a stretch takes a fixed number of steps without any branch: members are
 * compared by a window of 8 bytes as one big-endian number, the lower one is copied as a block of
 * fixed size, and each side moves on by its entry's size or not at all; equal numbers take both
 * sides and note the pair. What the steps assumed is looked at once, after them:
 *
 * 1. Every size was in the range of the stride.
 * 2. All members begin with the same `skip` bytes, those before the window. The runs are sorted, so
 *    it is enough that this is so where both began and where both would go on.
 * 3. Every noted pair is one and the same member.
 *
 * If not, the stretch is forgotten, for nothing but bytes behind *out was changed, and tried again
 * with another stride: the window moves on where 3 fails, for members of one prefix, and back where
 * 2 fails. Where no stride helps, the caller walks on with care.
 *
 * Bounds. The first byte of an entry's u32 size is believed before it is checked, so a step moves a
 * side by at most 4 + 255 bytes: a stretch starts only where both runs and the output have room for
 * all of its steps at that length and for one more block, which no window and nothing skipped goes
 * beyond. It also needs that many entries left on both sides. These hold on any bytes; that the
 * output is a set, only on sorted ones.
 */
#include "lattice/sprint.h"

enum {
    STEPS = 24,
    TRIES_MAX = 6,      /* of one stretch */
    STRETCHES_MAX = 64, /* until the fastest gait is tried again */
    SIZE_SIZE = 4,      /* of the u32 before each member */
    WINDOW_SIZE = 8,
    SKIP_MAX = 63,
    MEMBER_USUAL = 40, /* equal members up to this size are compared without a call */
    BLOCK_MAX = 96,

    COMMON_SIZE = 1024,
    STRETCH_SIZE = STEPS * (SIZE_SIZE + UINT8_MAX) + BLOCK_MAX,
};
_Static_assert(SIZE_SIZE + SKIP_MAX + WINDOW_SIZE <= BLOCK_MAX, "a window is not beyond a block");
_Static_assert((SKIP_MAX + 1) % 8 == 0, "nor are the words of what is skipped");
_Static_assert((SKIP_MAX & (SKIP_MAX + 1)) == 0, "the search for a skip halves");
_Static_assert(COMMON_SIZE <= STRETCH_SIZE, "a stretch's room is enough for both");

/* How members are compared and copied, the fastest first. */
enum gait {
    GAIT_SMALL,  /* for names with numbers */
    GAIT_SHORT,  /* for UUIDs as text */
    GAIT_LONG,   /* for digests as text */
    GAIT_RAGGED, /* for members that end before the window does: zeros are put in place */
};

static const uint8_t block_sizes[] = {
    [GAIT_SMALL] = 32,
    [GAIT_SHORT] = 48,
    [GAIT_LONG] = BLOCK_MAX,
    [GAIT_RAGGED] = 80,
};

struct stride {
    enum gait gait;
    uint32_t skip; /* bytes of every member before the window */
};

/* A stretch: where it starts, then where it ended and what it saw. Index 0 is a, 1 is b. */
struct stretch {
    const uint8_t *at[2];
    uint8_t *out;
    uint32_t sizes; /* all sizes, less the smallest of the stride, or-ed together */
    size_t only_b;  /* steps that took b's entry alone */
    size_t both;    /* steps that took both, and the entries that they took */
    const uint8_t *pairs[STEPS][2];
};

/* What a step comes to. */
struct step {
    const uint8_t *lower; /* the entry to be copied */
    const uint8_t *next[2];
    size_t only_b;
};

/* Given a step that takes both: if b is lower, it copies b, a stays, and that is counted; if a is
 * lower, b stays. Compilers would make branches of it, or compare four times. */
static inline void step_choose(struct step *step, const uint8_t *a, uint64_t a_window,
                               const uint8_t *b, uint64_t b_window)
{
#ifdef __x86_64__
    __asm__("cmp %[a_window], %[b_window]\n\t"
            "cmovb %[b], %[lower]\n\t"
            "cmovb %[a], %[a_next]\n\t"
            "cmova %[b], %[b_next]\n\t"
            "adc $0, %[only_b]"
            : [lower] "+&r"(step->lower), [a_next] "+&r"(step->next[0]),
              [b_next] "+&r"(step->next[1]), [only_b] "+&r"(step->only_b)
            : [a] "r"(a), [b] "r"(b), [a_window] "r"(a_window), [b_window] "r"(b_window)
            : "cc");
#else
    uintptr_t a_stays = -(uintptr_t)(b_window < a_window);
    uintptr_t b_stays = -(uintptr_t)(a_window < b_window);

    __asm__("" : "+r"(a_stays), "+r"(b_stays));
    step->lower = (const uint8_t *)(((uintptr_t)b & a_stays) | ((uintptr_t)a & ~a_stays));
    step->next[0] -= (uintptr_t)(step->next[0] - a) & a_stays;
    step->next[1] -= (uintptr_t)(step->next[1] - b) & b_stays;
    step->only_b += a_stays & 1;
#endif
}

/* A ragged member is filled up with zeros: different windows still tell which is lower. */
static inline uint64_t load_window(const uint8_t *entry, struct stride stride)
{
    uint64_t window;

    memcpy(&window, entry + SIZE_SIZE + stride.skip, sizeof window);
    window = be64toh(window);
    if (stride.gait == GAIT_RAGGED) {
        int64_t excess = (int64_t)(stride.skip + WINDOW_SIZE) - entry[0];

        window &= UINT64_MAX << (8 * (excess > 0 ? excess : 0) & 63);
    }
    return window;
}

static inline uint32_t size_min_of(struct stride stride)
{
    return stride.skip + (stride.gait == GAIT_RAGGED ? 1 : WINDOW_SIZE);
}

/* Only the sizes of entries that were copied or come next are looked at: the other one of a pair
 * must have the same size. */
static inline __attribute__((always_inline)) void stretch_run_as(struct stretch *stretch,
                                                                 struct stride stride)
{
    const size_t block_size = block_sizes[stride.gait];
    const uint32_t size_min = size_min_of(stride);
    const uint8_t *a = stretch->at[0], *b = stretch->at[1];
    const uint8_t *(*pair)[2] = stretch->pairs;
    struct step step = {.only_b = 0};
    uint8_t *out = stretch->out;
    uint32_t sizes = 0, size;

    for (int i = 0; i < STEPS; i++) {
        uint64_t a_window = load_window(a, stride), b_window = load_window(b, stride);

        step.lower = a;
        step.next[0] = a + SIZE_SIZE + a[0];
        step.next[1] = b + SIZE_SIZE + b[0];
        step_choose(&step, a, a_window, b, b_window);
        size = once__load_u32(step.lower);
        sizes |= size - size_min;
        memcpy(out, step.lower, block_size);
        out += SIZE_SIZE + (uint8_t)size;
        (*pair)[0] = a;
        (*pair)[1] = b;
        pair += a_window == b_window;
        a = step.next[0];
        b = step.next[1];
    }
    stretch->at[0] = a;
    stretch->at[1] = b;
    stretch->out = out;
    stretch->sizes = sizes | (once__load_u32(a) - size_min) | (once__load_u32(b) - size_min);
    stretch->only_b = step.only_b;
    stretch->both = (size_t)(pair - stretch->pairs);
}

/* Compiled once for each gait, so that its block is a constant. */
static void stretch_run(struct stretch *stretch, struct stride stride)
{
    switch (stride.gait) {
    case GAIT_SMALL:
        stretch_run_as(stretch, (struct stride){GAIT_SMALL, stride.skip});
        break;
    case GAIT_SHORT:
        stretch_run_as(stretch, (struct stride){GAIT_SHORT, stride.skip});
        break;
    case GAIT_LONG:
        stretch_run_as(stretch, (struct stride){GAIT_LONG, stride.skip});
        break;
    case GAIT_RAGGED:
    default:
        stretch_run_as(stretch, (struct stride){GAIT_RAGGED, stride.skip});
        break;
    }
}

/* The members have one size and begin with the same `known` bytes; compares the rest in overlapping
 * words. */
static inline bool same_member(const uint8_t *a, const uint8_t *b, size_t size, size_t known)
{
    size_t last = size - 8;
    uint64_t differ = 0;

    if (size <= known)
        return true;
    for (size_t i = known; i < MEMBER_USUAL; i += 8) {
        size_t at = i < last ? i : last;

        differ |= once__load_u64(a + at) ^ once__load_u64(b + at);
    }
    return differ == 0 && (size <= MEMBER_USUAL || memcmp(a, b, size) == 0);
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

/* Sizes may be up to 2^n - 1 above the smallest, so that the bits of all of them tell, as far as a
 * block holds the entry. */
static bool sizes_fit(const struct stretch *stretch, struct stride stride)
{
    uint32_t size_min = size_min_of(stride), size_end = block_sizes[stride.gait] - SIZE_SIZE + 1;

    return size_min < size_end && stretch->sizes >> (31 - __builtin_clz(size_end - size_min)) == 0;
}

/* Which bits of the first skip bytes differ? skip > 0. */
static inline uint64_t differ_before(const uint8_t *a, const uint8_t *b, size_t skip)
{
    uint64_t differ = 0;
    size_t i = 0;

    for (a += SIZE_SIZE, b += SIZE_SIZE; i + 8 < skip; i += 8)
        differ |= once__load_u64(a + i) ^ once__load_u64(b + i);
    return differ | (once__load_u64(a + i) ^ once__load_u64(b + i)) << 8 * (8 + i - skip);
}

/* Do the members where the runs stand and where the stretch ended begin with the same skip bytes?
 * All of them are larger. */
static inline bool prefix_is_same(const struct stretch *stretch, const struct once__run *a,
                                  const struct once__run *b, size_t skip)
{
    return skip == 0 ||
           (differ_before(a->at, b->at, skip) | differ_before(a->at, stretch->at[0], skip) |
            differ_before(a->at, stretch->at[1], skip)) == 0;
}

/* The largest skip that would have done for the stretch in this gait, as far as is seen from the
 * same four members. */
static uint32_t skip_seen(const struct stretch *stretch, const struct once__run *a,
                          const struct once__run *b, enum gait gait)
{
    const uint8_t *const others[] = {b->at, stretch->at[0], stretch->at[1]};
    uint32_t behind = size_min_of((struct stride){.gait = gait});
    uint32_t size = once__load_u32(a->at);
    uint32_t skip = 0;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        uint32_t other_size = once__load_u32(others[i]);

        size = other_size < size ? other_size : size;
    }
    for (uint32_t more = (SKIP_MAX + 1) / 2; more > 0; more /= 2) {
        if (skip + more + behind <= size && prefix_is_same(stretch, a, b, skip + more))
            skip += more;
    }
    return skip;
}

/* After a stretch with sizes that do not fit: picks a gait that they might fit, if there is one. */
static bool change_gait(const struct stretch *stretch, struct stride *stride)
{
    bool too_small = stretch->sizes >> 31 != 0;

    if (stride->gait == GAIT_RAGGED)
        return false;
    while (stride->gait < GAIT_RAGGED && !sizes_fit(stretch, *stride))
        stride->gait++;
    return stride->gait < GAIT_RAGGED || too_small;
}

/* After a stretch that took different members for one: moves the window on, if that is possible. */
static bool move_window(const struct stretch *stretch, const struct once__run *a,
                        const struct once__run *b, struct stride *stride)
{
    uint32_t skip = skip_seen(stretch, a, b, stride->gait);

    if (skip <= stride->skip) {
        stride->gait = GAIT_RAGGED;
        skip = skip_seen(stretch, a, b, stride->gait);
    }
    if (skip <= stride->skip)
        return false;
    stride->skip = skip;
    return true;
}

/* One stretch from where the runs stand: did it go as assumed? *stride remembers what the members
 * are like. */
static bool stretch_try(struct stretch *stretch, const struct once__run *a,
                        const struct once__run *b, uint8_t *out, struct stride *stride)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        stretch->at[0] = a->at;
        stretch->at[1] = b->at;
        stretch->out = out;
        stretch_run(stretch, *stride);
        if (!sizes_fit(stretch, *stride)) {
            if (!change_gait(stretch, stride))
                return false;
            continue;
        }
        if (!prefix_is_same(stretch, a, b, stride->skip))
            stride->skip = skip_seen(stretch, a, b, stride->gait);
        else if (pairs_are_same(stretch, stride->skip))
            return true;
        else if (!move_window(stretch, a, b, stride))
            return false;
    }
    return false;
}

/* Replicas mostly hold the same: where the next COMMON_SIZE bytes of both runs are equal,
 * copies the whole entries in them at once. Gives how many. Needs the room of a stretch.
 * Different windows behind skip save a closer look. */
static uint32_t copy_common(struct once__run *a, struct once__run *b, uint8_t **out, uint32_t skip)
{
    uint32_t left = a->left < b->left ? a->left : b->left;
    uint32_t count = 0;
    size_t window = SIZE_SIZE + skip, size = 0;

    if (once__load_u64(a->at + window) != once__load_u64(b->at + window) ||
        memcmp(a->at, b->at, COMMON_SIZE) != 0)
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
    struct stride stride = {.gait = GAIT_SMALL, .skip = 0};
    struct stretch stretch;
    unsigned stretches = 0;
    uint64_t written = 0;

    while (has_room(a) && has_room(b) && out_end - *out >= STRETCH_SIZE) {
        uint32_t taken = copy_common(a, b, out, stride.skip);

        if (taken == 0) {
            if (!stretch_try(&stretch, a, b, *out, &stride))
                break;
            a->at = stretch.at[0];
            b->at = stretch.at[1];
            *out = stretch.out;
            a->left -= (uint32_t)(STEPS - stretch.only_b);
            b->left -= (uint32_t)(stretch.only_b + stretch.both);
            taken = STEPS;
            if (++stretches % STRETCHES_MAX == 0)
                stride.gait = GAIT_SMALL;
        }
        written += taken;
    }
    return written;
}
