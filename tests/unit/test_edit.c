/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of edits: the examples of docs/format/objects.md to the letter, and every rule that a
 * reader insists on. Bytes lie in heap blocks of their own size.
 */
#include "unit/lattice_help.h"

#include "object/object.h"

/* ---- Examples: one of each kind, as bytes ---------------------------------------------------- */

struct example {
    const char *hex;
    struct once__edit edit;
};

#define B(text)                                                                                    \
    {                                                                                              \
        .data = (const uint8_t *)(text), .size = sizeof(text) - 1                                  \
    }

static const struct example examples[] = {
    {"20 01 63 00", {.kind = 32, .name = B("c"), .to.counter = 0}},
    {"20 01 63 01", {.kind = 32, .name = B("c"), .to.counter = -1}},
    {"20 01 63 c8 01", {.kind = 32, .name = B("c"), .to.counter = 100}},
    {"20 01 63 ff ff ff ff ff ff ff ff ff 01",
     {.kind = 32, .name = B("c"), .to.counter = INT64_MIN}},
    {"20 01 63 fe ff ff ff ff ff ff ff ff 01",
     {.kind = 32, .name = B("c"), .to.counter = INT64_MAX}},
    {"21 01 72 07 01 03 6f 6e 65",
     {.kind = 33, .name = B("r"), .to.reg = {.version = 7, .present = true, .value = B("one")}}},
    {"21 01 72 07 01 00",
     {.kind = 33, .name = B("r"), .to.reg = {.version = 7, .present = true, .value = B("")}}},
    {"21 01 72 08 00", {.kind = 33, .name = B("r"), .to.reg = {.version = 8}}},
    {"22 01 6d 07 61 3e 62 20 62 3e 63 02",
     {.kind = 34, .name = B("m"), .to.machine = {.declared = B("a>b b>c"), .at = 2}}},
    {"2b 01 6d 3f", {.kind = 43, .name = B("m"), .to.moved = 63}},
    {"23 01 6c 80 80 80 08 01 69 02 7b 7d",
     {.kind = 35,
      .name = B("l"),
      .to.event = {.number = ONCE_EVENTS_MAX, .id = B("i"), .payload = B("{}")}}},
    {"24 01 66 03 02", {.kind = 36, .name = B("f"), .to.fence = {.granted = 3, .seen = 2}}},
    {"25 01 73 05 e8 07 02 6d 65",
     {.kind = 37, .name = B("s"), .to.lease = {.token = 5, .until_ms = 1000, .owner = B("me")}}},
    {"25 01 73 05 00 00", {.kind = 37, .name = B("s"), .to.lease = {.token = 5}}},
    {"26 01 71 01 ff ff ff ff ff ff ff 0f",
     {.kind = 38, .name = B("q"), .to.sequence = {.epoch = 1, .next = ONCE_VERSION_MAX}}},
    {"27 01 62 01 78 ff ff ff ff ff ff ff ff 7f",
     {.kind = 39, .name = B("b"), .to.bucket = {.bucket = B("x"), .count = INT64_MAX}}},
    {"28 01 74 01 00 01 70",
     {.kind = 40, .name = B("t"), .to.message = {.number = 1, .payload = B("p")}}},
    {"28 01 74 02 01 67 00",
     {.kind = 40, .name = B("t"), .to.message = {.number = 2, .group = B("g")}}},
    {"29 01 74 01", {.kind = 41, .name = B("t"), .to.sent = 1}},
    {"2a 01 74 00", {.kind = 42, .name = B("t"), .to.outbox = 0}},
    {"03 01 66 09 03 03 01 01",
     {.kind = 3, .name = B("f"), .to.merge = {.version = 9, .delta = B("\003\001\001")}}},
    {"04 01 67 ff ff ff ff ff ff ff ff ff 01 06 04 01 00 00 00 00",
     {.kind = 4,
      .name = B("g"),
      .to.merge = {.version = UINT64_MAX, .delta = B("\004\001\0\0\0\0")}}},
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof examples[0] };

static struct once_bytes encoded(const struct once__edit *edit)
{
    return MAKE(once__edit_encode(edit, &out));
}

static struct once__edit decoded(struct once_bytes bytes)
{
    struct once__edit edit;
    struct once_defect defect = {.what = "none"};
    size_t offset = 0;

    if (once__edit_decode(bytes, &offset, &edit, &defect) != ONCE_OK)
        fail_msg("refused at %zu: %s", defect.offset, defect.what);
    assert_int_equal(offset, bytes.size);
    return edit;
}

static void edit__of_every_kind__has_the_bytes_of_the_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXAMPLE_COUNT; i++)
        assert_state(encoded(&examples[i].edit), hex(examples[i].hex));
}

static void assert_bytes(struct once_bytes x, struct once_bytes y)
{
    assert_true(same(x, y));
}

/* Field by field: equal bytes alone would not see an encoder and a decoder that are wrong alike. */
static void assert_edit(const struct once__edit *x, const struct once__edit *y)
{
    assert_int_equal(x->kind, y->kind);
    assert_bytes(x->name, y->name);
    switch (x->kind) {
    case ONCE__EDIT_COUNTER:
        assert_true(x->to.counter == y->to.counter);
        break;
    case ONCE__EDIT_REGISTER:
        assert_int_equal(x->to.reg.version, y->to.reg.version);
        assert_int_equal(x->to.reg.present, y->to.reg.present);
        assert_bytes(x->to.reg.value, y->to.reg.value);
        break;
    case ONCE__EDIT_MACHINE:
        assert_bytes(x->to.machine.declared, y->to.machine.declared);
        assert_int_equal(x->to.machine.at, y->to.machine.at);
        break;
    case ONCE__EDIT_MOVED:
        assert_int_equal(x->to.moved, y->to.moved);
        break;
    case ONCE__EDIT_EVENT:
        assert_int_equal(x->to.event.number, y->to.event.number);
        assert_bytes(x->to.event.id, y->to.event.id);
        assert_bytes(x->to.event.payload, y->to.event.payload);
        break;
    case ONCE__EDIT_FENCE:
        assert_int_equal(x->to.fence.granted, y->to.fence.granted);
        assert_int_equal(x->to.fence.seen, y->to.fence.seen);
        break;
    case ONCE__EDIT_LEASE:
        assert_int_equal(x->to.lease.token, y->to.lease.token);
        assert_int_equal(x->to.lease.until_ms, y->to.lease.until_ms);
        assert_bytes(x->to.lease.owner, y->to.lease.owner);
        break;
    case ONCE__EDIT_SEQUENCE:
        assert_int_equal(x->to.sequence.epoch, y->to.sequence.epoch);
        assert_int_equal(x->to.sequence.next, y->to.sequence.next);
        break;
    case ONCE__EDIT_BUCKET:
        assert_bytes(x->to.bucket.bucket, y->to.bucket.bucket);
        assert_int_equal(x->to.bucket.count, y->to.bucket.count);
        break;
    case ONCE__EDIT_MESSAGE:
        assert_int_equal(x->to.message.number, y->to.message.number);
        assert_bytes(x->to.message.group, y->to.message.group);
        assert_bytes(x->to.message.payload, y->to.message.payload);
        break;
    case ONCE__EDIT_SENT:
        assert_int_equal(x->to.sent, y->to.sent);
        break;
    case ONCE__EDIT_OUTBOX:
        assert_int_equal(x->to.outbox, y->to.outbox);
        break;
    default:
        assert_int_equal(x->to.merge.version, y->to.merge.version);
        assert_bytes(x->to.merge.delta, y->to.merge.delta);
    }
}

static void edit__of_every_kind__reads_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        struct once__edit edit = decoded(hex(examples[i].hex));

        assert_edit(&edit, &examples[i].edit);
    }
}

static void edit__in_a_row__each_is_read_behind_the_one_before(void **state)
{
    struct once_buf row = fresh();
    struct once_bytes bytes;
    size_t offset = 0;

    (void)state;
    for (size_t i = 0; i < EXAMPLE_COUNT; i++)
        assert_ok(once__edit_encode(&examples[i].edit, &row));
    bytes = taken(ONCE_OK, &row);
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        struct once__edit edit;

        assert_ok(once__edit_decode(bytes, &offset, &edit, NULL));
        assert_edit(&edit, &examples[i].edit);
    }
    assert_int_equal(offset, bytes.size);
}

static void edit__without_room__leaves_the_buffer_as_it_was(void **state)
{
    struct once_bytes bytes = encoded(&examples[5].edit);

    (void)state;
    for (size_t size_max = 0; size_max < bytes.size + 1; size_max++) {
        struct once_buf out;

        once_buf_init(&out, size_max + 1);
        assert_ok(once_buf_append(&out, "x", 1));
        assert_int_equal(once__edit_encode(&examples[5].edit, &out),
                         size_max < bytes.size ? ONCE_ERR_FULL : ONCE_OK);
        assert_int_equal(out.size, size_max < bytes.size ? 1 : 1 + bytes.size);
        once_buf_release(&out);
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void assert_damaged(struct once_bytes bytes, size_t at)
{
    struct once__edit edit = {.kind = 77};
    struct once_defect defect = {.offset = SIZE_MAX};
    size_t offset = 0;

    assert_int_equal(once__edit_decode(bytes, &offset, &edit, &defect), ONCE_ERR_DAMAGED);
    assert_int_equal(defect.offset, at);
    assert_non_null(defect.what);
    assert_int_equal(offset, 0);
    assert_int_equal(edit.kind, 77);
}

static void edit__cut_short__is_damaged_at_the_missing_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        struct once_bytes bytes = hex(examples[i].hex);

        for (size_t size = 0; size < bytes.size; size++)
            assert_damaged(keep(bytes.data, size), size);
    }
}

static void edit__behind_others__says_where_from_the_beginning(void **state)
{
    struct once_bytes bytes = hex("29 01 74 01  29 01 74 00");
    struct once_defect defect;
    struct once__edit edit;
    size_t offset = 4;

    (void)state;
    assert_int_equal(once__edit_decode(bytes, &offset, &edit, &defect), ONCE_ERR_DAMAGED);
    assert_int_equal(offset, 4);
    assert_int_equal(defect.offset, 7);
}

static void edit__of_no_kind__is_damaged(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 256; kind++) {
        bool known = (kind >= 1 && kind <= 11) || (kind >= 32 && kind <= 43);
        uint8_t bytes[] = {(uint8_t)kind, 0};

        assert_int_equal(once__edit_type(kind) != ONCE_OBJECT_NONE, known);
        assert_damaged(keep(bytes, sizeof bytes), known ? 1 : 0);
    }
    assert_int_equal(once__edit_type(256 + 32), ONCE_OBJECT_NONE);
}

static void edit__that_no_bound_allows__is_damaged(void **state)
{
    static const struct {
        const char *hex;
        size_t at;
    } bad[] = {
        {"20 00 00", 1},                               /* no name */
        {"20 02 63 0a 00", 3},                         /* a name with a line end */
        {"20 01 ff 00", 2},                            /* not ASCII */
        {"20 01 63 80 00", 3},                         /* 0 in two bytes */
        {"20 01 63 ff ff ff ff ff ff ff ff ff 02", 3}, /* 65 bits */
        {"20 01 63 ff ff ff ff ff ff ff ff ff 81 00", 3},
        {"21 01 72 00 01 00", 4},                   /* a value of version 0 */
        {"21 01 72 01 02 00", 4},                   /* neither present nor absent */
        {"21 01 72 80 80 80 80 80 80 80 10 00", 3}, /* 2^53 */
        {"21 01 72 01 01 81 80 10", 5},             /* a value of 2^18 + 1 */
        {"22 01 6d 00 00", 4},                      /* no moves */
        {"22 01 6d 03 61 3e 62 02", 7},             /* a third state of two */
        {"22 01 6d 04 61 3e 62 20 00", 8},          /* ends in a blank */
        {"22 01 6d 08 61 3e 62 20 20 62 3e 61 00", 8},
        {"2b 01 6d 40", 3},                   /* state 64 */
        {"23 01 6c 00 01 69 00", 3},          /* event 0 */
        {"23 01 6c 81 80 80 08 01 69 00", 3}, /* event 2^24 + 1 */
        {"23 01 6c 01 00 00", 4},             /* no id */
        {"23 01 6c 01 80 02 00", 4},          /* an id of 256 */
        {"23 01 6c 01 01 69 81 80 10", 6},    /* a payload of 2^18 + 1 */
        {"24 01 66 80 80 80 80 80 80 80 10 00", 3},
        {"24 01 66 00 80 80 80 80 80 80 80 10", 4},
        {"25 01 73 80 80 80 80 80 80 80 10 00 00", 3},
        {"25 01 73 01 ff ff ff ff ff ff 7f 00", 4}, /* far behind the end of time */
        {"25 01 73 01 00 41", 5},                   /* an owner of 65 */
        {"25 01 73 00 00 01 61", 5},                /* an owner without a token */
        {"26 01 71 80 80 80 80 80 80 80 10 00", 3},
        {"26 01 71 00 80 80 80 80 80 80 80 10", 4},
        {"27 01 62 00 01", 3},                               /* no bucket */
        {"27 01 62 41", 3},                                  /* a bucket of 65 */
        {"27 01 62 01 78 80 80 80 80 80 80 80 80 80 01", 5}, /* 2^63 */
        {"28 01 74 00 00 00", 3},                            /* message 0 */
        {"28 01 74 80 80 80 80 80 80 80 10 00 00", 3},       /* 2^53 */
        {"28 01 74 01 80 02", 4},                            /* a group of 256 */
        {"28 01 74 01 00 81 80 10", 5},                      /* a payload of 2^18 + 1 */
        {"29 01 74 00", 3},                                  /* message 0 */
        {"29 01 74 80 80 80 80 80 80 80 10", 3},             /* 2^53 */
        {"2a 01 74 80 80 80 80 80 80 80 10", 3},             /* 2^53 */
        {"03 01 66 00 03 03 01 02", 7},                      /* a flag of 2 */
        {"03 01 66 00 04 03 01 01 00", 8},                   /* a byte behind the state */
        {"03 01 66 00 06 04 01 00 00 00 00", 5},             /* a state of another type */
        {"04 01 66 00 81 80 40", 4},                         /* a state of 2^20 + 1 */
        {"03 01 66 00 00", 5},                               /* no state */
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_damaged(hex(bad[i].hex), bad[i].at);
}

/* Every single byte of every example, changed to anything: refused, or another edit that encodes to
 * just those bytes. */
static void edit__with_any_byte_changed__has_one_form_only(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        struct once_bytes good = hex(examples[i].hex);
        uint8_t bytes[64];

        assert_true(good.size <= sizeof bytes);
        for (size_t at = 0; at < good.size * 255; at++) {
            struct once_buf again = fresh();
            struct once__edit edit;
            struct once_bytes all;
            size_t offset = 0;

            memcpy(bytes, good.data, good.size);
            bytes[at / 255] = (uint8_t)(bytes[at / 255] + at % 255 + 1);
            all = (struct once_bytes){.data = bytes, .size = good.size};
            if (once__edit_decode(all, &offset, &edit, NULL) == ONCE_OK) {
                assert_ok(once__edit_encode(&edit, &again));
                assert_int_equal(again.size, offset);
                assert_memory_equal(again.data, bytes, offset);
            }
            once_buf_release(&again);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(edit__of_every_kind__has_the_bytes_of_the_format, help_release),
        cmocka_unit_test_teardown(edit__of_every_kind__reads_back, help_release),
        cmocka_unit_test_teardown(edit__in_a_row__each_is_read_behind_the_one_before, help_release),
        cmocka_unit_test_teardown(edit__without_room__leaves_the_buffer_as_it_was, help_release),
        cmocka_unit_test_teardown(edit__cut_short__is_damaged_at_the_missing_byte, help_release),
        cmocka_unit_test_teardown(edit__behind_others__says_where_from_the_beginning, help_release),
        cmocka_unit_test_teardown(edit__of_no_kind__is_damaged, help_release),
        cmocka_unit_test_teardown(edit__that_no_bound_allows__is_damaged, help_release),
        cmocka_unit_test_teardown(edit__with_any_byte_changed__has_one_form_only, help_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
