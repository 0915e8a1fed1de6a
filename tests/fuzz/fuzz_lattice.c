/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign states. The first two bytes say where the rest is split in two; each part lies in a heap
 * block of its own size, so that the address sanitizer sees any step outside. Nothing may crash on
 * any bytes; what passes the check must be canonical and keep the laws, and what is made of it must
 * pass the check.
 */
#include <once/lattice.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_lattice: %s (line %d)\n", #condition, __LINE__);                 \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static const struct once_bytes node = {.data = (const uint8_t *)"n1", .size = 2};
static const struct once_bytes member = {.data = (const uint8_t *)"x", .size = 1};

static uint8_t *exact_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    MUST(copy);
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

static bool same(struct once_bytes a, struct once_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool check(struct once_bytes bytes, enum once_lattice_type *ret_type)
{
    struct once_defect defect = {.offset = SIZE_MAX};
    int err = once_lattice_check(bytes, ret_type, &defect);

    if (err == ONCE_OK)
        return true;
    MUST(err == ONCE_ERR_DAMAGED || err == ONCE_ERR_FULL);
    MUST(defect.offset <= bytes.size && defect.what);
    return false;
}

/* The merge, in a buffer to be released. */
static struct once_buf merged(struct once_bytes a, struct once_bytes b)
{
    struct once_buf out;

    once_buf_init(&out, ONCE_LATTICE_SIZE_MAX);
    MUST(once_lattice_merge(a, b, &out) == ONCE_OK);
    MUST(check(once_buf_bytes(&out), NULL));
    return out;
}

static void must_merge_to(struct once_bytes a, struct once_bytes b, struct once_bytes expected)
{
    struct once_buf out = merged(a, b);

    MUST(same(once_buf_bytes(&out), expected));
    once_buf_release(&out);
}

/* A delta is a good state, and merging it keeps what was there. */
static void use_delta(int err, struct once_bytes state, struct once_buf *delta, bool good)
{
    if (err == ONCE_OK && good) {
        struct once_bytes bytes = once_buf_bytes(delta);
        struct once_buf next = merged(state, bytes);
        enum once_order order;

        MUST(check(bytes, NULL));
        MUST(once_lattice_compare(state, once_buf_bytes(&next), &order) == ONCE_OK);
        MUST(order == ONCE_ORDER_EQUAL || order == ONCE_ORDER_BEFORE);
        must_merge_to(once_buf_bytes(&next), bytes, once_buf_bytes(&next));
        once_buf_release(&next);
    }
    if (err != ONCE_OK)
        MUST(delta->size == 0);
    once_buf_clear(delta);
}

/* Every reader and mutator, on bytes that may be anything. */
static void use(struct once_bytes state, bool good)
{
    struct once_write write = {.node = node, .value = member};
    struct once_lattice_iter iter;
    struct once_lattice_entry entry;
    struct once_buf out;
    struct once_bytes inner;
    size_t count;
    bool found;
    int more;

    once_buf_init(&out, ONCE_LATTICE_SIZE_MAX);
    MUST(!good || once_lattice_describe(state, &out) == ONCE_OK);
    MUST(good || once_lattice_describe(state, &out) <= ONCE_OK);
    MUST(out.size <= 2 * ONCE_LATTICE_TEXT_MAX);
    once_buf_clear(&out);
    use_delta(once_vv_increment(state, node, &out), state, &out, good);
    use_delta(once_gcounter_add(state, node, 3, &out), state, &out, good);
    use_delta(once_pncounter_add(state, node, -3, &out), state, &out, good);
    use_delta(once_awset_add(state, &write, &out), state, &out, good);
    use_delta(once_awset_remove(state, member, &out), state, &out, good);
    use_delta(once_mvreg_write(state, &write, &out), state, &out, good);
    (void)!once_gset_contains(state, member, &found);
    (void)!once_awset_contains(state, member, &found);
    (void)!once_map_get(state, member, &found, &inner);
    if (once_lattice_iter_init(&iter, state) == ONCE_OK) {
        for (count = 0; (more = once_lattice_iter_next(&iter, &entry)) > 0; count++)
            MUST(entry.key.size <= state.size && entry.value.size <= state.size);
        MUST(!good || (more == 0 && once_lattice_count(state, &count) == ONCE_OK));
    }
    once_buf_release(&out);
}

static void must_be_canonical(struct once_bytes state, enum once_lattice_type type)
{
    struct once_buf bottom;
    enum once_order order;

    once_buf_init(&bottom, ONCE_LATTICE_SIZE_MAX);
    MUST(once_lattice_bottom(type, &bottom) == ONCE_OK);
    must_merge_to(state, once_buf_bytes(&bottom), state);
    must_merge_to(once_buf_bytes(&bottom), state, state);
    must_merge_to(state, state, state);
    MUST(once_lattice_compare(state, state, &order) == ONCE_OK && order == ONCE_ORDER_EQUAL);
    once_buf_release(&bottom);
}

static void must_keep_the_laws(struct once_bytes a, struct once_bytes b)
{
    struct once_buf both = merged(a, b);
    struct once_bytes ab = once_buf_bytes(&both);
    enum once_order order, expected;

    must_merge_to(b, a, ab);
    must_merge_to(a, ab, ab);
    must_merge_to(ab, b, ab);
    expected = same(a, b)    ? ONCE_ORDER_EQUAL
               : same(ab, b) ? ONCE_ORDER_BEFORE
               : same(ab, a) ? ONCE_ORDER_AFTER
                             : ONCE_ORDER_CONCURRENT;
    MUST(once_lattice_compare(a, b, &order) == ONCE_OK && order == expected);
    once_buf_release(&both);
}

/* States that differ are described differently, unless the text was cut. */
static void must_look_like_itself(struct once_bytes a, struct once_bytes b)
{
    struct once_buf a_text, b_text;

    once_buf_init(&a_text, ONCE_LATTICE_SIZE_MAX);
    once_buf_init(&b_text, ONCE_LATTICE_SIZE_MAX);
    MUST(once_lattice_describe(a, &a_text) == ONCE_OK);
    MUST(once_lattice_describe(b, &b_text) == ONCE_OK);
    if (same(once_buf_bytes(&a_text), once_buf_bytes(&b_text)))
        MUST(same(a, b) || memcmp(a_text.data + a_text.size - 3, "...", 3) == 0);
    once_buf_release(&a_text);
    once_buf_release(&b_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum once_lattice_type a_type = 0, b_type = 0;
    struct once_bytes a, b;
    struct once_buf out;
    enum once_order order;
    uint8_t *a_data, *b_data;
    bool a_good, b_good;
    size_t split;

    if (size < 2)
        return 0;
    split = (size_t)data[0] | (size_t)data[1] << 8;
    data += 2;
    size -= 2;
    split = split < size ? split : size;
    a_data = exact_copy(data, split);
    b_data = exact_copy(data + split, size - split);
    a = (struct once_bytes){.data = a_data, .size = split};
    b = (struct once_bytes){.data = b_data, .size = size - split};
    a_good = check(a, &a_type);
    b_good = check(b, &b_type);
    use(a, a_good);
    use(b, b_good);
    if (a_good)
        must_be_canonical(a, a_type);
    if (b_good)
        must_be_canonical(b, b_type);
    if (a_good && b_good)
        must_look_like_itself(a, b);
    if (a_good && b_good && a_type == b_type) {
        must_keep_the_laws(a, b);
    } else {
        once_buf_init(&out, ONCE_LATTICE_SIZE_MAX);
        if (once_lattice_merge(a, b, &out) != ONCE_OK)
            MUST(out.size == 0);
        (void)!once_lattice_compare(a, b, &order);
        once_buf_release(&out);
    }
    free(a_data);
    free(b_data);
    return 0;
}
