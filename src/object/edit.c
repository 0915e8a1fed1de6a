/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of an edit: docs/format/objects.md is the specification. One form only: numbers are in
 * their shortest form, so what decodes encodes to the same bytes.
 *
 *     u8 kind, u8 size of the name (1 to 255), the name, then by kind
 *
 *     1–11      number version, block delta (a state of that lattice type)
 *     COUNTER   signed value                    FENCE     number granted, number seen
 *     REGISTER  number version, bool present, block value if present
 *     MACHINE   block declared, number at       MOVED     number at
 *     EVENT     number n, block id, block payload
 *     LEASE     number token, number until_ms, block owner
 *     SEQUENCE  number epoch, number next       BUCKET    block bucket, number count
 *     MESSAGE   number n, block group, block payload
 *     SENT      number n                        OUTBOX    number total
 *
 * number: 7 bits a byte, the lowest first, the top bit says that more follow; signed: (n << 1) ^ (n
 * >> 63) as a number; block: number size, that many bytes.
 *
 * Whether an edit fits its object is table.c's question.
 */
#include "object/object.h"

#include <once/key.h>

#include "base/assert.h"
#include "base/defect.h"
#include "lattice/codec.h"

enum { NUMBER_SIZE_MAX = 10, NUMBER_BITS = 7, NUMBER_MORE = 0x80 };

enum once_object_type once__edit_type(unsigned kind)
{
    if (kind >= ONCE_OBJECT_MAX && kind <= ONCE_OBJECT_MAP)
        return (enum once_object_type)kind;
    switch (kind) {
    case ONCE__EDIT_COUNTER:
        return ONCE_OBJECT_COUNTER;
    case ONCE__EDIT_REGISTER:
        return ONCE_OBJECT_REGISTER;
    case ONCE__EDIT_MACHINE:
    case ONCE__EDIT_MOVED:
        return ONCE_OBJECT_MACHINE;
    case ONCE__EDIT_EVENT:
        return ONCE_OBJECT_LOG;
    case ONCE__EDIT_FENCE:
        return ONCE_OBJECT_FENCE;
    case ONCE__EDIT_LEASE:
        return ONCE_OBJECT_LEASE;
    case ONCE__EDIT_SEQUENCE:
        return ONCE_OBJECT_SEQUENCE;
    case ONCE__EDIT_BUCKET:
        return ONCE_OBJECT_BUCKETS;
    case ONCE__EDIT_MESSAGE:
    case ONCE__EDIT_SENT:
    case ONCE__EDIT_OUTBOX:
        return ONCE_OBJECT_OUTBOX;
    default:
        return ONCE_OBJECT_NONE;
    }
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_number(struct once__writer *writer, uint64_t value)
{
    uint8_t bytes[NUMBER_SIZE_MAX];
    size_t size = 0;

    for (; value >= NUMBER_MORE; value >>= NUMBER_BITS)
        bytes[size++] = (uint8_t)(value | NUMBER_MORE);
    bytes[size++] = (uint8_t)value;
    once__put_bytes(writer, (struct once_bytes){.data = bytes, .size = size});
}

static void put_signed(struct once__writer *writer, int64_t value)
{
    put_number(writer, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

static void put_block(struct once__writer *writer, struct once_bytes bytes)
{
    put_number(writer, bytes.size);
    once__put_bytes(writer, bytes);
}

static void put_register(struct once__writer *writer, const struct once__register *reg)
{
    ONCE_ASSERT(reg->present || reg->value.size == 0);

    put_number(writer, reg->version);
    once__put_u8(writer, reg->present);
    if (reg->present)
        put_block(writer, reg->value);
}

static void put_lease(struct once__writer *writer, const struct once__lease *lease)
{
    ONCE_ASSERT(lease->until_ms >= 0);

    put_number(writer, lease->token);
    put_number(writer, (uint64_t)lease->until_ms);
    put_block(writer, lease->owner);
}

static void put_fields(struct once__writer *writer, const struct once__edit *edit)
{
    switch (edit->kind) {
    case ONCE__EDIT_COUNTER:
        put_signed(writer, edit->to.counter);
        break;
    case ONCE__EDIT_REGISTER:
        put_register(writer, &edit->to.reg);
        break;
    case ONCE__EDIT_MACHINE:
        put_block(writer, edit->to.machine.declared);
        put_number(writer, edit->to.machine.at);
        break;
    case ONCE__EDIT_EVENT:
        put_number(writer, edit->to.event.number);
        put_block(writer, edit->to.event.id);
        put_block(writer, edit->to.event.payload);
        break;
    case ONCE__EDIT_FENCE:
        put_number(writer, edit->to.fence.granted);
        put_number(writer, edit->to.fence.seen);
        break;
    case ONCE__EDIT_LEASE:
        put_lease(writer, &edit->to.lease);
        break;
    case ONCE__EDIT_SEQUENCE:
        put_number(writer, edit->to.sequence.epoch);
        put_number(writer, edit->to.sequence.next);
        break;
    case ONCE__EDIT_BUCKET:
        put_block(writer, edit->to.bucket.bucket);
        put_number(writer, edit->to.bucket.count);
        break;
    case ONCE__EDIT_MESSAGE:
        put_number(writer, edit->to.message.number);
        put_block(writer, edit->to.message.group);
        put_block(writer, edit->to.message.payload);
        break;
    case ONCE__EDIT_SENT:
        put_number(writer, edit->to.sent);
        break;
    case ONCE__EDIT_OUTBOX:
        put_number(writer, edit->to.outbox);
        break;
    case ONCE__EDIT_MOVED:
        put_number(writer, edit->to.moved);
        break;
    default:
        put_number(writer, edit->to.merge.version);
        put_block(writer, edit->to.merge.delta);
    }
}

int once__edit_encode(const struct once__edit *edit, struct once_buf *out)
{
    struct once__writer writer;

    ONCE_ASSERT(once__edit_type(edit->kind) != ONCE_OBJECT_NONE);
    ONCE_ASSERT(edit->name.size > 0 && edit->name.size <= ONCE_OBJECT_NAME_SIZE_MAX);

    once__writer_init(&writer, out);
    once__put_u8(&writer, (uint8_t)edit->kind);
    once__put_u8(&writer, (uint8_t)edit->name.size);
    once__put_bytes(&writer, edit->name);
    put_fields(&writer, edit);
    return once__writer_finish(&writer);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void damaged(struct once__reader *reader, const uint8_t *where, const char *what)
{
    once__reader_fail(reader, ONCE_ERR_DAMAGED, where, what);
}

/* Any 64 bits, in the shortest form. */
static uint64_t read_any(struct once__reader *reader)
{
    const uint8_t *where = reader->at;
    uint64_t value = 0;

    for (unsigned shift = 0;; shift += NUMBER_BITS) {
        uint8_t byte = once__read_u8(reader);

        if (!once__reader_ok(reader))
            return 0;
        if (shift == NUMBER_BITS * (NUMBER_SIZE_MAX - 1) && byte > 1) {
            damaged(reader, where, "a number of more than 64 bits");
            return 0;
        }
        value |= (uint64_t)(byte & ~NUMBER_MORE) << shift;
        if (byte & NUMBER_MORE)
            continue;
        if (byte == 0 && shift > 0) {
            damaged(reader, where, "a number that is not in its shortest form");
            return 0;
        }
        return value;
    }
}

struct range {
    uint64_t min;
    uint64_t max;
};

static uint64_t read_number(struct once__reader *reader, struct range range)
{
    const uint8_t *where = reader->at;
    uint64_t value = read_any(reader);

    if (once__reader_ok(reader) && (value < range.min || value > range.max))
        damaged(reader, where, "a number outside its range");
    return once__reader_ok(reader) ? value : 0;
}

static uint64_t read_upto(struct once__reader *reader, uint64_t max)
{
    return read_number(reader, (struct range){.min = 0, .max = max});
}

static int64_t read_signed(struct once__reader *reader)
{
    uint64_t value = read_any(reader);
    uint64_t bits = value >> 1 ^ (value & 1 ? UINT64_MAX : 0);
    int64_t number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

static struct once_bytes read_block(struct once__reader *reader, size_t size_max)
{
    return once__read_bytes(reader, (size_t)read_upto(reader, size_max));
}

/* One that is not empty. */
static struct once_bytes read_word(struct once__reader *reader, size_t size_max)
{
    struct range size = {.min = 1, .max = size_max};

    return once__read_bytes(reader, (size_t)read_number(reader, size));
}

static struct once_bytes read_name(struct once__reader *reader)
{
    const uint8_t *where = reader->at;
    size_t size = once__read_u8(reader);
    struct once_bytes name = once__read_bytes(reader, size);
    struct once_defect defect;

    if (!once__reader_ok(reader))
        return name;
    if (size == 0)
        damaged(reader, where, "an object without a name");
    else if (once_key_check(name, &defect) != ONCE_OK)
        damaged(reader, name.data + defect.offset, "a name that breaks the rules of a key");
    return name;
}

static void read_merge(struct once__reader *reader, struct once__edit *edit)
{
    struct once_bytes delta;
    enum once_lattice_type type;
    struct once_defect defect = {.offset = 0};
    int err;

    edit->to.merge.version = read_any(reader);
    delta = read_block(reader, ONCE_MERGEABLE_SIZE_MAX);
    if (!once__reader_ok(reader))
        return;
    err = once_lattice_check(delta, &type, &defect);
    if (err == ONCE_ERR_MEMORY)
        once__reader_fail(reader, err, delta.data, "no memory to check a state");
    else if (err != ONCE_OK)
        damaged(reader, delta.data + defect.offset, defect.what);
    else if ((unsigned)type != edit->kind)
        damaged(reader, delta.data, "a state of another type than the edit");
    edit->to.merge.delta = delta;
}

static struct once__register read_register(struct once__reader *reader)
{
    struct once__register reg = {.version = read_upto(reader, ONCE_VERSION_MAX)};
    const uint8_t *where = reader->at;

    reg.present = once__read_bool(reader);
    if (reg.present && reg.version == 0)
        damaged(reader, where, "a value that was never set");
    if (reg.present)
        reg.value = read_block(reader, ONCE_VALUE_SIZE_MAX);
    return reg;
}

static void read_machine(struct once__reader *reader, struct once__edit *edit)
{
    struct once_bytes declared = read_block(reader, ONCE_DECLARATION_SIZE_MAX);
    struct once__declaration declaration;
    struct once_defect defect;

    if (!once__reader_ok(reader))
        return;
    if (once__declaration_read(declared, &declaration, &defect) != ONCE_OK) {
        damaged(reader, declared.data + defect.offset, defect.what);
        return;
    }
    edit->to.machine.declared = declared;
    edit->to.machine.at = (uint32_t)read_upto(reader, declaration.machine.state_count - 1);
}

static struct once__lease read_lease(struct once__reader *reader)
{
    struct once__lease lease = {.token = read_upto(reader, ONCE_FENCE_MAX)};
    const uint8_t *where;

    lease.until_ms = (int64_t)read_upto(reader, ONCE_TIME_MS_MAX);
    where = reader->at;
    lease.owner = read_block(reader, ONCE_OWNER_SIZE_MAX);
    if (once__reader_ok(reader) && lease.owner.size > 0 && lease.token == 0)
        damaged(reader, where, "an owner that has no token");
    return lease;
}

static void read_fields(struct once__reader *reader, struct once__edit *edit)
{
    const struct range from_one = {.min = 1, .max = ONCE_VERSION_MAX};

    switch (edit->kind) {
    case ONCE__EDIT_COUNTER:
        edit->to.counter = read_signed(reader);
        break;
    case ONCE__EDIT_REGISTER:
        edit->to.reg = read_register(reader);
        break;
    case ONCE__EDIT_MACHINE:
        read_machine(reader, edit);
        break;
    case ONCE__EDIT_EVENT:
        edit->to.event.number = read_number(reader,
                                            (struct range){.min = 1, .max = ONCE_EVENTS_MAX});
        edit->to.event.id = read_word(reader, ONCE_EVENT_ID_SIZE_MAX);
        edit->to.event.payload = read_block(reader, ONCE_PAYLOAD_SIZE_MAX);
        break;
    case ONCE__EDIT_FENCE:
        edit->to.fence.granted = read_upto(reader, ONCE_FENCE_MAX);
        edit->to.fence.seen = read_upto(reader, ONCE_FENCE_MAX);
        break;
    case ONCE__EDIT_LEASE:
        edit->to.lease = read_lease(reader);
        break;
    case ONCE__EDIT_SEQUENCE:
        edit->to.sequence.epoch = read_upto(reader, ONCE_VERSION_MAX);
        edit->to.sequence.next = read_upto(reader, ONCE_VERSION_MAX);
        break;
    case ONCE__EDIT_BUCKET:
        edit->to.bucket.bucket = read_word(reader, ONCE_BUCKET_SIZE_MAX);
        edit->to.bucket.count = read_upto(reader, ONCE_BUCKET_COUNT_MAX);
        break;
    case ONCE__EDIT_MESSAGE:
        edit->to.message.number = read_number(reader, from_one);
        edit->to.message.group = read_block(reader, ONCE_GROUP_SIZE_MAX);
        edit->to.message.payload = read_block(reader, ONCE_PAYLOAD_SIZE_MAX);
        break;
    case ONCE__EDIT_SENT:
        edit->to.sent = read_number(reader, from_one);
        break;
    case ONCE__EDIT_OUTBOX:
        edit->to.outbox = read_upto(reader, ONCE_VERSION_MAX);
        break;
    case ONCE__EDIT_MOVED:
        edit->to.moved = (uint32_t)read_upto(reader, ONCE_MACHINE_STATES_MAX - 1);
        break;
    default:
        read_merge(reader, edit);
    }
}

int once__edit_decode(struct once_bytes bytes, size_t *offset, struct once__edit *ret_edit,
                      struct once_defect *ret_defect)
{
    struct once__edit edit = {.kind = 0};
    struct once__reader reader;
    struct once_bytes rest;

    if (*offset >= bytes.size)
        return once__defect(ONCE_ERR_DAMAGED, bytes.size, "the bytes end too early", ret_defect);

    /* A reader takes no more than the largest state, and no edit comes near that. */
    rest = (struct once_bytes){.data = bytes.data + *offset, .size = bytes.size - *offset};
    if (rest.size > ONCE_LATTICE_SIZE_MAX)
        rest.size = ONCE_LATTICE_SIZE_MAX;
    once__reader_init(&reader, rest);
    edit.kind = once__read_u8(&reader);
    if (once__edit_type(edit.kind) == ONCE_OBJECT_NONE)
        damaged(&reader, reader.start, "not a kind of edit");
    edit.name = read_name(&reader);
    if (once__reader_ok(&reader))
        read_fields(&reader, &edit);
    if (!once__reader_ok(&reader))
        return once__defect(reader.err, *offset + reader.defect.offset, reader.defect.what,
                            ret_defect);
    *offset += (size_t)(reader.at - reader.start);
    *ret_edit = edit;
    return ONCE_OK;
}
