/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of objects share: tables, and all that is in one as bytes.
 */
#ifndef ONCE_TESTS_OBJECT_HELP_H
#define ONCE_TESTS_OBJECT_HELP_H

#include "unit/lattice_help.h"

#include "object/object.h"

static inline struct once__objects *objects_new(void)
{
    uint8_t secret[ONCE__OBJECT_SECRET_SIZE];
    struct once__objects *objects = NULL;

    for (size_t i = 0; i < sizeof secret; i++)
        secret[i] = (uint8_t)(i * 167 + 13);
    assert_ok(once__objects_new(secret, &objects));
    return objects;
}

static inline void put(struct once__objects *objects, struct once__edit edit)
{
    assert_ok(once__objects_put(objects, &edit));
}

static inline void refuses(struct once__objects *objects, struct once__edit edit)
{
    assert_int_equal(once__objects_put(objects, &edit), ONCE_ERR_DAMAGED);
}

/* Puts all edits of these bytes. */
static inline void put_all(struct once__objects *objects, struct once_bytes bytes)
{
    for (size_t offset = 0; offset < bytes.size;) {
        struct once__edit edit;

        assert_ok(once__edit_decode(bytes, &offset, &edit, NULL));
        assert_ok(once__objects_put(objects, &edit));
    }
}

/* Every object, in order. Equal bytes are equal tables. */
static inline struct once_buf dump_of(const struct once__objects *objects)
{
    struct once_buf out;

    once_buf_init(&out, SIZE_MAX / 2);
    for (uint64_t i = 0; i < once__objects_count(objects); i++) {
        uint64_t part = 0;

        while (part != UINT64_MAX)
            assert_ok(once__object_dump(once__objects_at(objects, i), &part, 1 << 16, &out));
    }
    return out;
}

static inline void assert_objects_equal(const struct once__objects *x,
                                        const struct once__objects *y)
{
    struct once_buf x_dump = dump_of(x), y_dump = dump_of(y);

    assert_int_equal(x_dump.size, y_dump.size);
    if (x_dump.size > 0)
        assert_memory_equal(x_dump.data, y_dump.data, x_dump.size);
    assert_int_equal(once__objects_encoded_size(x), once__objects_encoded_size(y));
    once_buf_release(&x_dump);
    once_buf_release(&y_dump);
}

static inline const struct once__object *found(const struct once__objects *objects,
                                               const char *name)
{
    const struct once__object *object = once__objects_find(objects, b(name));

    assert_non_null(object);
    assert_true(same(once__object_name(object), b(name)));
    return object;
}

#endif
