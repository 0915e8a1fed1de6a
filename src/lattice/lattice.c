/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry points that work on every type: the table of the types, and bottom, check, merge,
 * compare. Owns what holds for all of them: the header, that a state ends where its bytes end, that
 * inputs and output are apart, and that out is untouched on error. Everything else is each type's
 * own.
 */
#include "base/assert.h"
#include "lattice/ops.h"

static const struct once__lattice_ops *const table[] = {
    [ONCE_LATTICE_MAX] = &once__max_ops,
    [ONCE_LATTICE_MIN] = &once__min_ops,
    [ONCE_LATTICE_FLAG] = &once__flag_ops,
    [ONCE_LATTICE_GSET] = &once__gset_ops,
    [ONCE_LATTICE_VV] = &once__vv_ops,
    [ONCE_LATTICE_LWW] = &once__lww_ops,
    [ONCE_LATTICE_GCOUNTER] = &once__gcounter_ops,
    [ONCE_LATTICE_PNCOUNTER] = &once__pncounter_ops,
    [ONCE_LATTICE_AWSET] = &once__awset_ops,
    [ONCE_LATTICE_MVREG] = &once__mvreg_ops,
    [ONCE_LATTICE_MAP] = &once__map_ops,
};

static bool is_type(enum once_lattice_type type)
{
    return type >= ONCE_LATTICE_MAX && type <= ONCE_LATTICE_MAP;
}

const struct once__lattice_ops *once__lattice_ops_of(enum once_lattice_type type)
{
    ONCE_ASSERT(is_type(type));
    return table[type];
}

void once__open(struct once__reader *reader, struct once_bytes state, enum once_lattice_type type)
{
    enum once_lattice_type found;

    once__reader_init(reader, state);
    found = once__read_header(reader);
    if (once__reader_ok(reader) && found != type)
        once__reader_fail(reader, ONCE_ERR_TYPE, reader->start, "a state of another type");
}

enum once_lattice_type once__check_state(struct once__reader *reader, unsigned depth)
{
    enum once_lattice_type type = once__read_header(reader);

    if (once__reader_ok(reader))
        once__lattice_ops_of(type)->check(reader, depth);
    if (once__reader_ok(reader))
        once__reader_finish(reader);
    return type;
}

const char *once_lattice_type_name(enum once_lattice_type type)
{
    return is_type(type) ? table[type]->name : "unknown";
}

int once_lattice_bottom(enum once_lattice_type type, struct once_buf *out)
{
    struct once__writer writer;

    if (!out || !is_type(type))
        return ONCE_ERR_INVALID;
    once__writer_init(&writer, out);
    once__put_header(&writer, type);
    for (uint8_t i = 0; i < table[type]->bottom_size; i++)
        once__put_u8(&writer, 0);
    return once__writer_finish(&writer);
}

int once_lattice_check(struct once_bytes bytes, enum once_lattice_type *ret_type,
                       struct once_defect *ret_defect)
{
    struct once__reader reader;
    enum once_lattice_type type;

    once__reader_init(&reader, bytes);
    type = once__check_state(&reader, 0);
    if (!once__reader_ok(&reader)) {
        if (ret_defect)
            *ret_defect = reader.defect;
        return reader.err;
    }
    if (ret_type)
        *ret_type = type;
    return ONCE_OK;
}

/* Readers behind the headers of two states of one type. */
static int open_pair(struct once_bytes a, struct once_bytes b, struct once__reader *ret_a,
                     struct once__reader *ret_b, enum once_lattice_type *ret_type)
{
    enum once_lattice_type a_type, b_type;

    once__reader_init(ret_a, a);
    once__reader_init(ret_b, b);
    a_type = once__read_header(ret_a);
    b_type = once__read_header(ret_b);
    if (!once__reader_ok(ret_a))
        return ret_a->err;
    if (!once__reader_ok(ret_b))
        return ret_b->err;
    if (a_type != b_type)
        return ONCE_ERR_TYPE;
    *ret_type = a_type;
    return ONCE_OK;
}

int once_lattice_merge(struct once_bytes a, struct once_bytes b, struct once_buf *out)
{
    struct once__reader a_reader, b_reader;
    struct once__writer writer;
    enum once_lattice_type type;
    size_t ignored;
    int err = out ? open_pair(a, b, &a_reader, &b_reader, &type) : ONCE_ERR_INVALID;

    if (err != ONCE_OK)
        return err;
    once__writer_init(&writer, out);
    once__writer_apart(&writer, a);
    once__writer_apart(&writer, b);

    /* One allocation: no merge writes more than it reads. */
    (void)once__put_room_upto(&writer, a.size + b.size, &ignored);
    once__writer_rewind(&writer, writer.start);

    once__put_header(&writer, type);
    table[type]->merge(&a_reader, &b_reader, &writer, 0);
    if (!once__reader_ok(&a_reader))
        once__writer_fail(&writer, a_reader.err);
    if (!once__reader_ok(&b_reader))
        once__writer_fail(&writer, b_reader.err);
    return once__writer_finish(&writer);
}

int once_lattice_compare(struct once_bytes a, struct once_bytes b, enum once_order *ret_order)
{
    struct once__reader a_reader, b_reader;
    enum once_lattice_type type;
    enum once_order order;
    int err = ret_order ? open_pair(a, b, &a_reader, &b_reader, &type) : ONCE_ERR_INVALID;

    if (err != ONCE_OK)
        return err;
    order = table[type]->compare(&a_reader, &b_reader, 0);
    if (!once__reader_ok(&a_reader))
        return a_reader.err;
    if (!once__reader_ok(&b_reader))
        return b_reader.err;
    *ret_order = order;
    return ONCE_OK;
}
