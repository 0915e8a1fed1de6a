/* SPDX-License-Identifier: Apache-2.0
 *
 * The types that hold one thing: MAX, MIN, FLAG and LWW.
 *
 *     MAX, MIN   u8 known; if 1: i64 value
 *     FLAG       u8 raised
 *     LWW        u8 written; if 1: i64 time, u32 node size, node, u32 value size, value
 *
 * The leading byte is 0 in the bottom and nowhere else, so that "no value yet" is a state of its
 * own and not some number that a caller might have set. What wins is decided in scalar.c.
 */
#include "base/bytes.h"
#include "lattice/ops.h"
#include "lattice/scalar.h"

/* An LWW payload; all zero if not written. */
struct lww {
    bool written;
    struct once_lww write;
};

static struct once__number read_number(struct once__reader *reader)
{
    struct once__number number = {.known = once__read_bool(reader)};

    if (number.known)
        number.value = (int64_t)once__read_u64(reader);
    return number;
}

static void put_number(struct once__writer *writer, struct once__number number)
{
    once__put_u8(writer, number.known);
    if (number.known)
        once__put_u64(writer, (uint64_t)number.value);
}

static struct lww read_lww(struct once__reader *reader)
{
    struct lww lww = {.written = once__read_bool(reader)};

    if (lww.written) {
        lww.write.time = (int64_t)once__read_u64(reader);
        lww.write.node = once__read_node(reader);
        lww.write.value = once__read_member(reader);
    }
    return lww;
}

static void put_lww(struct once__writer *writer, const struct lww *lww)
{
    once__put_u8(writer, lww->written);
    if (lww->written) {
        once__put_u64(writer, (uint64_t)lww->write.time);
        once__put_node(writer, lww->write.node);
        once__put_member(writer, lww->write.value);
    }
}

static enum once_order lww_order(const struct lww *a, const struct lww *b)
{
    struct once__lww_pair pair = {
        .a_written = a->written,
        .b_written = b->written,
        .a_time = a->write.time,
        .b_time = b->write.time,
        .node_order = once__bytes_compare(a->write.node, b->write.node),
        .value_order = once__bytes_compare(a->write.value, b->write.value),
    };

    return once__lww_order(pair);
}

static void number_check(struct once__reader *reader, unsigned depth)
{
    (void)depth;
    (void)read_number(reader);
}

static void max_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                      unsigned depth)
{
    struct once__number a_number = read_number(a), b_number = read_number(b);

    (void)depth;
    put_number(out, once__max_merge(a_number, b_number));
}

static void min_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                      unsigned depth)
{
    struct once__number a_number = read_number(a), b_number = read_number(b);

    (void)depth;
    put_number(out, once__min_merge(a_number, b_number));
}

static enum once_order max_compare(struct once__reader *a, struct once__reader *b, unsigned depth)
{
    struct once__number a_number = read_number(a), b_number = read_number(b);

    (void)depth;
    return once__max_order(a_number, b_number);
}

static enum once_order min_compare(struct once__reader *a, struct once__reader *b, unsigned depth)
{
    struct once__number a_number = read_number(a), b_number = read_number(b);

    (void)depth;
    return once__min_order(a_number, b_number);
}

static void flag_check(struct once__reader *reader, unsigned depth)
{
    (void)depth;
    (void)once__read_bool(reader);
}

static void flag_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                       unsigned depth)
{
    bool a_raised = once__read_bool(a), b_raised = once__read_bool(b);

    (void)depth;
    once__put_u8(out, once__flag_merge(a_raised, b_raised));
}

static enum once_order flag_compare(struct once__reader *a, struct once__reader *b, unsigned depth)
{
    bool a_raised = once__read_bool(a), b_raised = once__read_bool(b);

    (void)depth;
    return once__flag_order(a_raised, b_raised);
}

static void lww_check(struct once__reader *reader, unsigned depth)
{
    (void)depth;
    (void)read_lww(reader);
}

static void lww_merge(struct once__reader *a, struct once__reader *b, struct once__writer *out,
                      unsigned depth)
{
    struct lww a_lww = read_lww(a), b_lww = read_lww(b);

    (void)depth;
    if (once__reader_ok(a) && once__reader_ok(b))
        put_lww(out, lww_order(&a_lww, &b_lww) == ONCE_ORDER_AFTER ? &a_lww : &b_lww);
}

static enum once_order lww_compare(struct once__reader *a, struct once__reader *b, unsigned depth)
{
    struct lww a_lww = read_lww(a), b_lww = read_lww(b);

    (void)depth;
    return lww_order(&a_lww, &b_lww);
}

const struct once__lattice_ops once__max_ops = {
    .name = "max",
    .bottom_size = 1,
    .check = number_check,
    .merge = max_merge,
    .compare = max_compare,
};

const struct once__lattice_ops once__min_ops = {
    .name = "min",
    .bottom_size = 1,
    .check = number_check,
    .merge = min_merge,
    .compare = min_compare,
};

const struct once__lattice_ops once__flag_ops = {
    .name = "flag",
    .bottom_size = 1,
    .check = flag_check,
    .merge = flag_merge,
    .compare = flag_compare,
};

const struct once__lattice_ops once__lww_ops = {
    .name = "lww",
    .bottom_size = 1,
    .check = lww_check,
    .merge = lww_merge,
    .compare = lww_compare,
};

static int set_number(enum once_lattice_type type, int64_t value, struct once_buf *out)
{
    struct once__writer writer;

    if (!out)
        return ONCE_ERR_INVALID;
    once__writer_init(&writer, out);
    once__put_header(&writer, type);
    put_number(&writer, (struct once__number){.known = true, .value = value});
    return once__writer_finish(&writer);
}

static int number_value(enum once_lattice_type type, struct once_bytes state, bool *ret_known,
                        int64_t *ret_value)
{
    struct once__reader reader;
    struct once__number number;

    if (!ret_known || !ret_value)
        return ONCE_ERR_INVALID;
    once__open(&reader, state, type);
    number = read_number(&reader);
    if (!once__reader_ok(&reader))
        return reader.err;
    *ret_known = number.known;
    *ret_value = number.value;
    return ONCE_OK;
}

int once_max_set(int64_t value, struct once_buf *out)
{
    return set_number(ONCE_LATTICE_MAX, value, out);
}

int once_min_set(int64_t value, struct once_buf *out)
{
    return set_number(ONCE_LATTICE_MIN, value, out);
}

int once_max_value(struct once_bytes state, bool *ret_known, int64_t *ret_value)
{
    return number_value(ONCE_LATTICE_MAX, state, ret_known, ret_value);
}

int once_min_value(struct once_bytes state, bool *ret_known, int64_t *ret_value)
{
    return number_value(ONCE_LATTICE_MIN, state, ret_known, ret_value);
}

int once_flag_raise(struct once_buf *out)
{
    struct once__writer writer;

    if (!out)
        return ONCE_ERR_INVALID;
    once__writer_init(&writer, out);
    once__put_header(&writer, ONCE_LATTICE_FLAG);
    once__put_u8(&writer, 1);
    return once__writer_finish(&writer);
}

int once_flag_value(struct once_bytes state, bool *ret_raised)
{
    struct once__reader reader;
    bool raised;

    if (!ret_raised)
        return ONCE_ERR_INVALID;
    once__open(&reader, state, ONCE_LATTICE_FLAG);
    raised = once__read_bool(&reader);
    if (!once__reader_ok(&reader))
        return reader.err;
    *ret_raised = raised;
    return ONCE_OK;
}

int once_lww_write(const struct once_lww *write, struct once_buf *out)
{
    struct lww lww = {.written = true};
    struct once__writer writer;

    if (!out || !write)
        return ONCE_ERR_INVALID;
    lww.write = *write;
    once__writer_init(&writer, out);
    once__writer_apart(&writer, write->node);
    once__writer_apart(&writer, write->value);
    once__put_header(&writer, ONCE_LATTICE_LWW);
    put_lww(&writer, &lww);
    return once__writer_finish(&writer);
}

int once_lww_value(struct once_bytes state, bool *ret_written, struct once_lww *ret_write)
{
    struct once__reader reader;
    struct lww lww;

    if (!ret_written || !ret_write)
        return ONCE_ERR_INVALID;
    once__open(&reader, state, ONCE_LATTICE_LWW);
    lww = read_lww(&reader);
    if (!once__reader_ok(&reader))
        return reader.err;
    *ret_written = lww.written;
    *ret_write = lww.write;
    return ONCE_OK;
}
