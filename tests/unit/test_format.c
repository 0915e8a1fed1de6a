/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine writes is read back as it was, and nothing else is read at all. Inputs end at a
 * page that may not be touched. The seed is printed; ONCE_SEED=n replays.
 */
#include "seeded.h"

#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "segment_help.h"

enum { RUNS = 2000, GUARDED_SIZE = 1 << 16 };

/* ---- Memory that ends at a guard page -------------------------------------------------------- */

static uint8_t *guarded; /* GUARDED_SIZE bytes; the byte behind them faults */

static int guard_setup(void **state)
{
    uint8_t *pages = mmap(NULL, GUARDED_SIZE + 4096, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    if (pages == MAP_FAILED || mprotect(pages + GUARDED_SIZE, 4096, PROT_NONE) != 0)
        return -1;
    guarded = pages;
    return 0;
}

static int guard_teardown(void **state)
{
    (void)state;
    return munmap(guarded, GUARDED_SIZE + 4096);
}

/* A copy whose last byte is the last before the guard. */
static struct once_bytes at_guard(const void *data, size_t size)
{
    uint8_t *copy = guarded + GUARDED_SIZE - size;

    assert_true(size <= GUARDED_SIZE);
    memcpy(copy, data, size);
    return (struct once_bytes){.data = copy, .size = size};
}

/* ---- Records --------------------------------------------------------------------------------- */

static struct once__log_record some_record(void)
{
    struct once__log_record rec = {
        .ns = once_bytes_of("orders"),
        .key = once_bytes_of("k-1"),
        .record = {.state = ONCE_STATE_COMPLETED,
                   .attempt = 2,
                   .fence = 77,
                   .created_ms = help_now_ms,
                   .lease_end_ms = help_now_ms + 30000,
                   .retention_ms = ONCE_RETENTION_MS_DEFAULT,
                   .expires_ms = help_now_ms + ONCE_RETENTION_MS_DEFAULT,
                   .code = -5,
                   .fingerprint = {.bytes = {1, 2, 3}},
                   .owner = once_bytes_of("me"),
                   .point = once_bytes_of("paid"),
                   .data = once_bytes_of("data"),
                   .result = once_bytes_of("result")},
        .previous_sequence = 3,
        .previous_offset = 8192,
    };

    return rec;
}

/* Decodes what must be good. */
static struct once__log_record decoded(struct once_bytes bytes, uint32_t *ret_size,
                                       uint64_t *ret_check)
{
    struct once__log_record rec;
    struct once_defect defect = {0};

    if (once__record_decode(bytes, &rec, ret_size, ret_check, &defect) != ONCE_OK)
        fail_msg("%s at %zu", defect.what, defect.offset);
    return rec;
}

static int refused(struct once_bytes bytes)
{
    struct once__log_record rec;
    struct once_defect defect = {.offset = SIZE_MAX};
    uint32_t size = 12345;
    int err = once__record_decode(bytes, &rec, &size, NULL, &defect);

    if (err != ONCE_OK) {
        assert_int_equal(size, 12345);
        assert_non_null(defect.what);
        assert_true(defect.offset <= bytes.size);
    }
    return err;
}

/* Gives changed bytes the check that they ask for. */
static void reseal(uint8_t *bytes, uint32_t size)
{
    uint64_t check = XXH3_64bits(bytes + 8, size - 8);

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(check >> 8 * i);
}

static void record__any__comes_back_as_it_was(void **state)
{
    uint64_t seed = seeded_start("record round trips");
    static uint8_t bytes[8192], again[8192];

    (void)state;
    for (int run = 0; run < RUNS; run++) {
        struct once__log_record rec = help_random_record(&seed, 1000), back, view;
        uint32_t size, back_size, view_size;
        uint64_t check, back_check;

        if (run % 4 == 1)
            rec = (struct once__log_record){.change = 1}; /* edits alone */
        if (run % 2) {
            rec.change = 1 + help_random(&seed) % ONCE_VERSION_MAX;
            rec.edits = help_random_bytes(&seed, 0, 2000);
        }
        size = once__record_size(&rec);
        if (rec.ns.size > 0 && help_random(&seed) % 2) {
            rec.previous_sequence = 1 + help_random(&seed) % 1000;
            rec.previous_offset = ONCE__RECORD_OFFSET_MIN +
                                  8 * (uint32_t)(help_random(&seed) % 1000000);
        }
        memset(bytes, 0xee, sizeof bytes);
        check = once__record_encode(&rec, bytes);
        assert_int_equal(bytes[size], 0xee); /* exactly that many */
        assert_int_equal(size % ONCE__RECORD_ALIGN, 0);
        assert_int_equal(once__record_peek(bytes), size);
        back = decoded(at_guard(bytes, size), &back_size, &back_check);
        assert_int_equal(back_size, size);
        assert_true(check == back_check);
        assert_true(help_record_same(&rec, &back));
        once__record_view(bytes, &view, &view_size);
        assert_int_equal(view_size, size);
        assert_true(help_record_same(&rec, &view));
        assert_true(once__record_encode(&back, again) == check);
        assert_memory_equal(bytes, again, size);
    }
}

static void record__all_bounds__comes_back_as_it_was(void **state)
{
    struct once__log_record rec = some_record(), back;
    uint8_t *payload = calloc(1, ONCE_RESULT_SIZE_MAX), *bytes = malloc(ONCE__RECORD_SIZE_MAX);
    uint32_t size;

    (void)state;
    assert_non_null(payload);
    assert_non_null(bytes);
    memset(payload, 'x', ONCE_RESULT_SIZE_MAX);
    rec.ns = (struct once_bytes){.data = payload, .size = ONCE_NAMESPACE_SIZE_MAX};
    rec.key = (struct once_bytes){.data = payload, .size = ONCE_KEY_SIZE_MAX};
    rec.record.owner = (struct once_bytes){.data = payload, .size = ONCE_OWNER_SIZE_MAX};
    rec.record.point = (struct once_bytes){.data = payload, .size = ONCE_POINT_SIZE_MAX};
    rec.record.data = (struct once_bytes){.data = payload, .size = ONCE_DATA_SIZE_MAX};
    rec.record.result = (struct once_bytes){.data = payload, .size = ONCE_RESULT_SIZE_MAX};
    rec.record.fence = ONCE_FENCE_MAX;
    rec.record.attempt = ONCE_ATTEMPT_MAX;
    rec.record.expires_ms = ONCE_TIME_MS_MAX;
    rec.record.code = INT32_MIN;
    rec.previous_sequence = UINT64_MAX;
    rec.change = UINT64_MAX;
    rec.edits = (struct once_bytes){.data = payload, .size = ONCE_EDITS_SIZE_MAX};
    assert_int_equal(once__record_size(&rec), ONCE__RECORD_SIZE_MAX);
    once__record_encode(&rec, bytes);
    back = decoded((struct once_bytes){.data = bytes, .size = ONCE__RECORD_SIZE_MAX}, &size, NULL);
    assert_int_equal(size, ONCE__RECORD_SIZE_MAX);
    assert_true(help_record_same(&rec, &back));
    free(payload);
    free(bytes);
}

static void record__forgotten__keeps_its_name(void **state)
{
    struct once__log_record rec = {.ns = once_bytes_of("n"), .key = once_bytes_of("k")}, back;
    uint8_t bytes[ONCE__RECORD_SIZE_MIN];
    uint32_t size;

    (void)state;
    assert_int_equal(once__record_size(&rec), sizeof bytes);
    once__record_encode(&rec, bytes);
    back = decoded(at_guard(bytes, sizeof bytes), &size, NULL);
    assert_int_equal(back.record.state, ONCE_STATE_ABSENT);
    assert_true(help_record_same(&rec, &back));
}

/* The layout, byte by byte: docs/format/engine.md. */
static void record__layout__is_as_specified(void **state)
{
    static const char expected[] = "98000000"                 /* size */
                                   "0102060302040100"         /* kind, state, sizes, flags */
                                   "02000000"                 /* attempt */
                                   "0400000006000000"         /* data, result */
                                   "4d00000000000000"         /* fence */
                                   "0068e5cf8b010000"         /* created */
                                   "30dde5cf8b010000"         /* lease end */
                                   "005c260500000000"         /* retention */
                                   "00c40bd58b010000"         /* expires */
                                   "030000000000000000200000" /* replaces */
                                   "fbffffff"                 /* code */
                                   "01020300000000000000000000000000"
                                   "00000000000000000000000000000000"
                                   "6f7264657273" /* orders */
                                   "6b2d31"       /* k-1 */
                                   "6d65"         /* me */
                                   "70616964"     /* paid */
                                   "64617461"     /* data */
                                   "726573756c74" /* result */
                                   "00000000000000";
    struct once__log_record rec = some_record();
    uint32_t size = once__record_size(&rec);
    uint8_t bytes[256];
    char text[513] = "";

    (void)state;
    once__record_encode(&rec, bytes);
    for (uint32_t i = 8; i < size; i++)
        snprintf(text + 2 * (i - 8), 3, "%02x", bytes[i]);
    assert_string_equal(text, expected);
}

/* What is behind the check of an encoded record, in hex. */
static void hex_of(const struct once__log_record *rec, char ret_text[513])
{
    uint32_t size = once__record_size(rec);
    uint8_t bytes[256];

    assert_true(size <= sizeof bytes);
    once__record_encode(rec, bytes);
    for (uint32_t i = 8; i < size; i++)
        snprintf(ret_text + 2 * (i - 8), 3, "%02x", bytes[i]);
}

static void record__layout_of_edits__is_as_specified(void **state)
{
    struct once__log_record applied = {.ns = once_bytes_of("n"),
                                       .key = once_bytes_of("k"),
                                       .change = 0x0102,
                                       .edits = once_bytes_of("edits")};
    struct once__log_record alone = {.change = 3, .edits = once_bytes_of("edits")};
    char text[513] = "", zeros[65] = "";

    (void)state;
    memset(zeros, '0', 64);
    hex_of(&applied, text);
    assert_memory_equal(text, "700000000200010100000000", 24); /* size, kind, state, sizes */
    assert_string_equal(text + 160, "0201000000000000"         /* change */
                                    "0500000000000000"         /* size of the edits */
                                    "6e6b"                     /* n, k */
                                    "6564697473"               /* edits */
                                    "00");
    hex_of(&alone, text);
    assert_memory_equal(text, "7000000003", 10);
    assert_memory_equal(text + 10, zeros, 64);
    assert_memory_equal(text + 74, zeros, 64);
    assert_string_equal(text + 160, "0300000000000000"
                                    "0500000000000000"
                                    "6564697473"
                                    "000000");
}

/* A right check does not make a wrong record with edits right. */
static void record__sealed_nonsense_of_edits__is_refused(void **state)
{
    static const struct {
        bool alone;
        size_t offset;
        uint8_t value;
    } changes[] = {
        {false, 12, 1}, {false, 12, 3},  {false, 12, 4},   {false, 88, 0}, {false, 96, 13},
        {false, 96, 4}, {false, 99, 1},  {false, 100, 1},  {false, 15, 0}, {true, 12, 1},
        {true, 12, 2},  {true, 13, 1},   {true, 14, 1},    {true, 15, 1},  {true, 16, 1},
        {true, 18, 1},  {true, 20, 1},   {true, 24, 1},    {true, 32, 1},  {true, 87, 1},
        {true, 88, 0},  {true, 96, 200}, {true, 99, 0x7f}, {true, 102, 1}, {true, 111, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct once__log_record rec = {.change = 7, .edits = once_bytes_of("edits")};
        uint8_t bytes[256];
        uint32_t size;

        if (!changes[i].alone) {
            rec.ns = once_bytes_of("n");
            rec.key = once_bytes_of("k");
        }
        size = once__record_size(&rec);
        once__record_encode(&rec, bytes);
        assert_int_equal(refused(at_guard(bytes, size)), ONCE_OK);
        assert_int_not_equal(bytes[changes[i].offset], changes[i].value);
        bytes[changes[i].offset] = changes[i].value;
        reseal(bytes, size);
        if (refused(at_guard(bytes, size)) != ONCE_ERR_DAMAGED)
            fail_msg("%d byte %zu", changes[i].alone, changes[i].offset);
        for (uint32_t end = 0; end < size; end++) {
            once__record_encode(&rec, bytes);
            assert_int_equal(refused(at_guard(bytes, end)), ONCE_ERR_DAMAGED);
        }
    }
}

static void record__any_byte_flipped__is_refused(void **state)
{
    struct once__log_record rec = some_record();
    uint32_t size = once__record_size(&rec);
    uint8_t bytes[256];

    (void)state;
    once__record_encode(&rec, bytes);
    for (uint32_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            struct once_bytes copy = at_guard(bytes, size);

            guarded[GUARDED_SIZE - size + i] ^= (uint8_t)(1 << bit);
            if (refused(copy) != ONCE_ERR_DAMAGED)
                fail_msg("bit %d of byte %u", bit, (unsigned)i);
            assert_false(once__record_intact(copy));
        }
    }
}

static void record__cut_anywhere__is_refused(void **state)
{
    struct once__log_record rec = some_record();
    uint32_t size = once__record_size(&rec);
    uint8_t bytes[256];

    (void)state;
    once__record_encode(&rec, bytes);
    for (uint32_t i = 0; i < size; i++)
        assert_int_equal(refused(at_guard(bytes, i)), ONCE_ERR_DAMAGED);
    assert_int_equal(refused(at_guard(bytes, size)), ONCE_OK);
}

/* A right check does not make a wrong record right. */
static void record__sealed_nonsense__is_refused(void **state)
{
    static const struct {
        size_t offset;
        uint8_t value;
    } changes[] = {
        {8, 96},     {8, 183},   {12, 0},  {12, 2}, {13, 5}, {13, 0},    {14, 0},     {14, 14},
        {14, 4},     {15, 0},    {15, 11}, {18, 0}, {18, 2}, {18, 3},    {19, 1},     {23, 0xff},
        {24, 12},    {27, 0x80}, {28, 14}, {28, 5}, {32, 0}, {39, 1},    {47, 0x80},  {55, 0x10},
        {56 + 7, 1}, {71, 0x7f}, {72, 0},  {80, 4}, {81, 0}, {83, 0x80}, {64 + 5, 0},
    };
    struct once__log_record rec = some_record();
    static const uint8_t zeros[8];
    uint32_t size = once__record_size(&rec);
    uint8_t bytes[256];

    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct once_bytes copy;

        once__record_encode(&rec, bytes);
        assert_int_not_equal(bytes[changes[i].offset], changes[i].value);
        bytes[changes[i].offset] = changes[i].value;
        reseal(bytes, size);
        copy = at_guard(bytes, size);
        if (refused(copy) != ONCE_ERR_DAMAGED)
            fail_msg("byte %zu", changes[i].offset);
        if (changes[i].offset != 8)
            assert_true(once__record_intact(copy));
    }
    once__record_encode(&rec, bytes);
    bytes[size - 1] = 1; /* not zeros at the end */
    reseal(bytes, size);
    assert_int_equal(refused(at_guard(bytes, size)), ONCE_ERR_DAMAGED);
    once__record_encode(&rec, bytes);
    memset(bytes + 88, 0, 32); /* a fingerprint that is none */
    reseal(bytes, size);
    assert_int_equal(refused(at_guard(bytes, size)), ONCE_ERR_DAMAGED);
    rec.record.result = (struct once_bytes){.data = zeros, .size = sizeof zeros};
    size = once__record_size(&rec);
    once__record_encode(&rec, bytes);
    bytes[28] = 0; /* 8 zeros too many at the end */
    reseal(bytes, size);
    assert_int_equal(refused(at_guard(bytes, size)), ONCE_ERR_DAMAGED);
}

static void name_hash__other_split__is_another_name(void **state)
{
    uint8_t secret[ONCE__SECRET_SIZE], other[ONCE__SECRET_SIZE];
    struct once_bytes ab = once_bytes_of("ab"), c = once_bytes_of("c"), a = once_bytes_of("a"),
                      bc = once_bytes_of("bc");

    (void)state;
    for (int i = 0; i < ONCE__SECRET_SIZE; i++) {
        secret[i] = (uint8_t)(7 * i + 1);
        other[i] = (uint8_t)(11 * i + 3);
    }
    assert_true(once__name_hash(secret, ab, c) != once__name_hash(secret, a, bc));
    assert_true(once__name_hash(secret, ab, c) == once__name_hash(secret, ab, c));
    assert_true(once__name_hash(secret, ab, c) != once__name_hash(other, ab, c));
    assert_true(once__segment_salt(secret, 1) != once__segment_salt(secret, 2));
    assert_true(once__segment_salt(secret, 1) != once__segment_salt(other, 1));
}

static void expires_s__any__is_never_early(void **state)
{
    (void)state;
    assert_int_equal(once__expires_s(0), 0);
    assert_int_equal(once__expires_s(1), 1);
    assert_int_equal(once__expires_s(1000), 1);
    assert_int_equal(once__expires_s(1001), 2);
    assert_int_equal(once__expires_s(ONCE_TIME_MS_MAX), UINT32_MAX);
}

/* ---- Headers --------------------------------------------------------------------------------- */

static struct once__store_file some_store(void)
{
    struct once__store_file file = {.segment_size = HELP_SEGMENT_SIZE, .created_ms = help_now_ms};

    for (int i = 0; i < ONCE__STORE_ID_SIZE; i++)
        file.id[i] = (uint8_t)(i + 1);
    for (int i = 0; i < ONCE__SECRET_SIZE; i++)
        file.secret[i] = (uint8_t)(i * 3);
    return file;
}

static void store_file__any_byte_flipped_or_cut__is_refused(void **state)
{
    struct once__store_file file = some_store(), back;
    uint8_t bytes[ONCE__STORE_FILE_SIZE];
    struct once_defect defect;

    (void)state;
    once__store_file_encode(&file, bytes);
    assert_int_equal(once__store_file_decode(at_guard(bytes, sizeof bytes), &back, &defect),
                     ONCE_OK);
    assert_memory_equal(back.id, file.id, sizeof file.id);
    assert_memory_equal(back.secret, file.secret, sizeof file.secret);
    assert_int_equal(back.segment_size, file.segment_size);
    assert_true(back.created_ms == file.created_ms);
    for (size_t i = 0; i < sizeof bytes; i++) {
        struct once_bytes copy = at_guard(bytes, sizeof bytes);

        guarded[GUARDED_SIZE - sizeof bytes + i] ^= 0x10;
        assert_int_equal(once__store_file_decode(copy, &back, &defect), ONCE_ERR_DAMAGED);
        assert_int_equal(once__store_file_decode(at_guard(bytes, i), &back, &defect),
                         ONCE_ERR_DAMAGED);
    }
}

/* Another version of a whole file says so, and nothing else of it is judged. */
static void versions__unknown__are_refused_as_such(void **state)
{
    struct once__store_file file = some_store();
    struct once__segment_header header = help_header(7);
    uint8_t store[ONCE__STORE_FILE_SIZE], block[ONCE__SEGMENT_HEADER_SIZE];
    uint64_t check;

    (void)state;
    once__store_file_encode(&file, store);
    store[8] = 2;
    store[50] = 9;
    check = XXH3_64bits(store, 504);
    memcpy(store + 504, &check, 8);
    assert_int_equal(once__store_file_decode(at_guard(store, sizeof store), &file, NULL),
                     ONCE_ERR_VERSION);
    once__segment_header_encode(&header, block);
    block[8] = 2;
    check = XXH3_64bits(block, 504);
    memcpy(block + 504, &check, 8);
    assert_int_equal(once__segment_header_decode(at_guard(block, sizeof block), &header, NULL),
                     ONCE_ERR_VERSION);
}

static void segment_header__round_trip__keeps_every_field(void **state)
{
    struct once__segment_header header = help_header(7), back;
    uint8_t block[ONCE__SEGMENT_HEADER_SIZE];

    (void)state;
    once__segment_header_encode(&header, block);
    assert_int_equal(once__segment_header_decode(at_guard(block, sizeof block), &back, NULL),
                     ONCE_OK);
    assert_memory_equal(back.store_id, header.store_id, sizeof header.store_id);
    assert_int_equal(back.segment_size, header.segment_size);
    assert_true(back.sequence == 7 && back.first_batch == 700 && back.chain == header.chain);
    assert_true(back.previous_end == header.previous_end && back.salt == header.salt);
    assert_true(back.created_ms == header.created_ms);
}

/* A hit in the magic alone must not turn a segment into a spare, which would be written over. */
static void segment_header__any_byte_flipped__is_damage_and_never_a_spare(void **state)
{
    struct once__segment_header header = help_header(7), back;
    uint8_t block[ONCE__SEGMENT_HEADER_SIZE] = {0};
    struct once_defect defect;

    (void)state;
    assert_int_equal(once__segment_header_decode(at_guard(block, sizeof block), &back, &defect),
                     ONCE_ERR_NO_STORE);
    once__segment_header_encode(&header, block);
    for (size_t i = 0; i < 512; i++) {
        struct once_bytes copy = at_guard(block, sizeof block);

        guarded[GUARDED_SIZE - sizeof block + i] ^= 0x40;
        assert_int_equal(once__segment_header_decode(copy, &back, &defect), ONCE_ERR_DAMAGED);
    }
    for (size_t i = 0; i < 512; i++)
        assert_int_not_equal(once__segment_header_decode(at_guard(block, i), &back, &defect),
                             ONCE_OK);
}

static struct once__batch_header some_batch(void)
{
    return (struct once__batch_header){
        .size = ONCE__BATCH_HEADER_SIZE + 200,
        .count = 2,
        .sequence = 7,
        .number = 705,
        .durable = 702,
        .chain = 0x0123456789abcdefULL,
        .last_fence = 99,
        .oldest = 3,
        .now_ms = help_now_ms,
        .flags = ONCE__BATCH_CLOSED,
        .records = 0xfedcba9876543210ULL,
    };
}

static void batch_header__round_trip__keeps_every_field(void **state)
{
    struct once__batch_header h = some_batch(), back;
    uint8_t bytes[ONCE__BATCH_HEADER_SIZE];
    uint64_t check, back_check;

    (void)state;
    check = once__batch_header_encode(&h, 5, bytes);
    assert_int_equal(
        once__batch_header_decode(at_guard(bytes, sizeof bytes), 5, &back, &back_check, NULL),
        ONCE_OK);
    assert_true(check == back_check);
    assert_true(back.size == h.size && back.count == h.count && back.sequence == h.sequence);
    assert_true(back.number == h.number && back.durable == h.durable && back.chain == h.chain);
    assert_true(back.last_fence == h.last_fence && back.oldest == h.oldest);
    assert_true(back.now_ms == h.now_ms && back.flags == h.flags && back.records == h.records);
    assert_true(back.next_chain == 0);
    assert_int_equal(/* the salt of another segment */
                     once__batch_header_decode(at_guard(bytes, sizeof bytes), 6, &back, &back_check,
                                               NULL),
                     ONCE_ERR_DAMAGED);
}

static void batch_header__any_byte_flipped_or_cut__is_refused(void **state)
{
    struct once__batch_header header = some_batch(), back;
    uint8_t bytes[ONCE__BATCH_HEADER_SIZE];
    struct once_defect defect;
    uint64_t check;

    (void)state;
    once__batch_header_encode(&header, 5, bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        struct once_bytes copy = at_guard(bytes, sizeof bytes);

        guarded[GUARDED_SIZE - sizeof bytes + i] ^= 1;
        assert_int_equal(once__batch_header_decode(copy, 5, &back, &check, &defect),
                         ONCE_ERR_DAMAGED);
        assert_false(once__batch_header_intact(copy, 5));
        assert_int_equal(once__batch_header_decode(at_guard(bytes, i), 5, &back, &check, &defect),
                         ONCE_ERR_DAMAGED);
    }
}

static void batch_header__sealed_nonsense__is_refused_but_intact(void **state)
{
    static const struct {
        size_t offset;
        uint8_t value;
    } changes[] = {
        {4, 0},  {4, 1},  {7, 0x7f}, {8, 0},     {8, 9},     {12, 8},    {12, 2}, {16, 2},
        {24, 0}, {56, 0}, {56, 8},   {33, 0xff}, {54, 0x80}, {71, 0x80}, {80, 1},
    };
    struct once__batch_header header = some_batch(), back;
    uint8_t bytes[ONCE__BATCH_HEADER_SIZE];
    uint64_t check;

    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct once_bytes copy;

        once__batch_header_encode(&header, 5, bytes);
        assert_int_not_equal(bytes[changes[i].offset], changes[i].value);
        bytes[changes[i].offset] = changes[i].value;
        if (changes[i].offset == 24)
            bytes[25] = 0;
        check = XXH3_64bits_withSeed(bytes, 96, 5);
        memcpy(bytes + 96, &check, 8);
        copy = at_guard(bytes, sizeof bytes);
        if (once__batch_header_decode(copy, 5, &back, &check, NULL) != ONCE_ERR_DAMAGED)
            fail_msg("byte %zu", changes[i].offset);
        assert_true(once__batch_header_intact(copy, 5));
    }
}

/* ---- Sidecars -------------------------------------------------------------------------------- */

enum { ENTRIES = 40, KILLS = 7 };

static int by_order(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    uint64_t left = once__sidecar_order(x[0]), right = once__sidecar_order(y[0]);

    return left < right ? -1 : left > right;
}

static struct once__sidecar_header some_sidecar(uint64_t seed, uint64_t entries[2 * ENTRIES],
                                                uint64_t kills[KILLS])
{
    struct once__sidecar_header header = {.sequence = 1000,
                                          .chain = help_random(&seed),
                                          .end = HELP_SEGMENT_SIZE,
                                          .entry_count = ENTRIES,
                                          .kill_count = KILLS};

    memset(header.store_id, 7, sizeof header.store_id);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        struct once__sidecar_entry entry = {
            .hash = help_random(&seed),
            .offset = ONCE__RECORD_OFFSET_MIN + 8 * (uint32_t)(help_random(&seed) % 3000),
            .size = ONCE__RECORD_SIZE_MIN + 8 * (uint32_t)(help_random(&seed) % 64),
            .open = i % 3 == 0,
            .absent = i % 3 == 1,
            .expires_s = i % 3 == 2 ? (uint32_t)help_random(&seed) : 0,
        };

        once__sidecar_entry_pack(&entry, entries + 2 * i);
    }
    qsort(entries, ENTRIES, 16, by_order);
    for (uint32_t i = 0; i < KILLS; i++)
        kills[i] = once__sidecar_kill_pack(
            1000, (struct once__sidecar_kill){.sequence = 1 + help_random(&seed) % 999,
                                              .offset = ONCE__RECORD_OFFSET_MIN +
                                                        8 * (uint32_t)(help_random(&seed) % 99)});
    return header;
}

static void sidecar_entry__any__comes_back_as_it_was(void **state)
{
    uint64_t seed = seeded_start("sidecar entries");

    (void)state;
    for (int run = 0; run < RUNS; run++) {
        struct once__sidecar_entry entry = {
            .hash = help_random(&seed),
            .offset = (uint32_t)help_random(&seed) % (1U << 31) / 8 * 8,
            .size = (uint32_t)help_random(&seed) % (1U << 25) / 8 * 8,
            .expires_s = (uint32_t)help_random(&seed),
            .open = help_random(&seed) % 2,
            .absent = help_random(&seed) % 2,
        };
        struct once__sidecar_kill kill = {.sequence = 1 + help_random(&seed) % (1ULL << 36),
                                          .offset = entry.offset};
        struct once__sidecar_entry back;
        struct once__sidecar_kill kill_back;
        uint64_t words[2], own = (1ULL << 36) + 1;

        once__sidecar_entry_pack(&entry, words);
        once__sidecar_entry_unpack(words, &back);
        assert_true(back.hash == entry.hash >> 20 << 20);
        assert_true(back.hash == once__sidecar_order(words[0]) >> 20 << 20);
        assert_int_equal(back.offset, entry.offset);
        assert_int_equal(back.size, entry.size);
        assert_int_equal(back.expires_s, entry.expires_s);
        assert_int_equal(back.open, entry.open);
        assert_int_equal(back.absent, entry.absent);
        kill.sequence = kill.sequence == 1 ? 2 : kill.sequence;
        kill_back = once__sidecar_kill_unpack(own, once__sidecar_kill_pack(own, kill));
        assert_true(kill_back.sequence == kill.sequence && kill_back.offset == kill.offset);
    }
}

static void sidecar__any_byte_flipped_or_cut__is_refused(void **state)
{
    uint64_t seed = seeded_start("sidecars"), entries[2 * ENTRIES], kills[KILLS];
    struct once__sidecar_header header = some_sidecar(seed, entries, kills), back;
    const uint64_t *entries_back, *kills_back;
    struct once_defect defect;
    struct once_buf buf;

    (void)state;
    once_buf_init(&buf, 1 << 20);
    assert_int_equal(once__sidecar_encode(&header, entries, kills, &buf), ONCE_OK);
    assert_int_equal(buf.size, 64 + 16 * ENTRIES + 8 * KILLS + 8);
    assert_int_equal(once__sidecar_decode(at_guard(buf.data, buf.size), &back, &entries_back,
                                          &kills_back, &defect),
                     ONCE_OK);
    assert_memory_equal(entries_back, entries, sizeof entries);
    assert_memory_equal(kills_back, kills, sizeof kills);
    assert_memory_equal(back.store_id, header.store_id, sizeof header.store_id);
    assert_true(back.sequence == header.sequence && back.chain == header.chain);
    assert_true(back.end == header.end && back.entry_count == ENTRIES && back.kill_count == KILLS);
    for (size_t i = 0; i < buf.size; i++) {
        struct once_bytes copy = at_guard(buf.data, buf.size);

        guarded[GUARDED_SIZE - buf.size + i] ^= 0x80;
        assert_int_equal(once__sidecar_decode(copy, &back, &entries_back, &kills_back, &defect),
                         ONCE_ERR_DAMAGED);
    }
    for (size_t i = 0; i < buf.size; i += 8)
        assert_int_equal(
            once__sidecar_decode(at_guard(buf.data, i), &back, &entries_back, &kills_back, &defect),
            ONCE_ERR_DAMAGED);
    once_buf_release(&buf);
}

/* Changes one word of a good sidecar, seals it again, and says how it is taken. */
static int resealed(size_t offset, uint64_t word)
{
    uint64_t seed = 1, entries[2 * ENTRIES], kills[KILLS], check;
    struct once__sidecar_header header = some_sidecar(seed, entries, kills);
    const uint64_t *entries_back, *kills_back;
    struct once_buf buf;
    int err;

    once_buf_init(&buf, 1 << 20);
    assert_int_equal(once__sidecar_encode(&header, entries, kills, &buf), ONCE_OK);
    if (offset < buf.size)
        memcpy(buf.data + offset, &word, sizeof word);
    check = XXH3_64bits(buf.data, buf.size - 8);
    memcpy(buf.data + buf.size - 8, &check, 8);
    err = once__sidecar_decode(at_guard(buf.data, buf.size), &header, &entries_back, &kills_back,
                               NULL);
    once_buf_release(&buf);
    return err;
}

static void sidecar__sealed_nonsense__is_refused(void **state)
{
    enum { FIRST = 64, FIRST_KILL = 64 + 16 * ENTRIES };
    uint64_t words[2];
    const struct once__sidecar_entry entries[] = {
        {.size = HELP_SEGMENT_SIZE},
        {.size = 96, .open = true, .absent = true},
        {.size = 96, .open = true, .expires_s = 1},
    };

    (void)state;
    assert_int_equal(resealed(SIZE_MAX, 0), ONCE_OK);
    assert_int_equal(resealed(8, 2 | (uint64_t)HELP_SEGMENT_SIZE << 32), ONCE_ERR_VERSION);
    assert_int_equal(resealed(8, 1 | 4095ULL << 32), ONCE_ERR_DAMAGED);
    assert_int_equal(resealed(32, 0), ONCE_ERR_DAMAGED);           /* sequence */
    assert_int_equal(resealed(48, ENTRIES + 1), ONCE_ERR_DAMAGED); /* counts */
    assert_int_equal(resealed(48, UINT64_MAX), ONCE_ERR_DAMAGED);
    assert_int_equal(resealed(56, 1), ONCE_OK);                   /* changes: any number */
    assert_int_equal(resealed(56, 1ULL << 32), ONCE_ERR_DAMAGED); /* zeros */
    assert_int_equal(resealed(FIRST, UINT64_MAX << 20 | 3), ONCE_ERR_DAMAGED); /* order */
    assert_int_equal(resealed(FIRST + 16 * (ENTRIES - 1), UINT64_MAX << 20 | 3), ONCE_OK);
    for (int i = 0; i < 3; i++) {
        once__sidecar_entry_pack(&entries[i], words);
        assert_int_equal(resealed(FIRST + 8, words[1]), ONCE_ERR_DAMAGED);
    }
    assert_int_equal(resealed(FIRST_KILL, 1 << 20), ONCE_ERR_DAMAGED); /* in its own segment */
    assert_int_equal(resealed(FIRST_KILL, 1000ULL << 28 | 1 << 20), ONCE_ERR_DAMAGED);
    assert_int_equal(resealed(FIRST_KILL, 999ULL << 28 | 1 << 20), ONCE_OK);
    assert_int_equal(resealed(FIRST_KILL, 999ULL << 28 | 1), ONCE_ERR_DAMAGED);
}

static void sidecar__bounded_buffer__is_full_and_unchanged(void **state)
{
    uint64_t entries[2 * ENTRIES], kills[KILLS];
    struct once__sidecar_header header = some_sidecar(1, entries, kills);
    struct once_buf buf;

    (void)state;
    once_buf_init(&buf, 64 + 16 * ENTRIES + 8 * KILLS + 7);
    assert_int_equal(once__sidecar_encode(&header, entries, kills, &buf), ONCE_ERR_FULL);
    assert_int_equal(buf.size, 0);
    once_buf_release(&buf);
}

/* ---- Snapshots ------------------------------------------------------------------------------- */

static struct once__snapshot_header some_snapshot(void)
{
    struct once__snapshot_header header = {
        .from = 3, .change = 0x0405, .created_ms = help_now_ms, .flags = ONCE__SNAPSHOT_REPAIRED};

    memset(header.store_id, 9, sizeof header.store_id);
    return header;
}

static int snapshot_refused(const uint8_t *bytes, size_t size)
{
    struct once__snapshot_header header;
    struct once_defect defect = {.offset = SIZE_MAX};
    int err = once__snapshot_header_decode(at_guard(bytes, size), &header, &defect);

    if (err != ONCE_OK)
        assert_true(defect.what && defect.offset <= size);
    return err;
}

static void snapshot_header__flipped_cut_or_nonsense__is_refused(void **state)
{
    static const struct {
        size_t offset;
        uint8_t value;
        int err;
    } changes[] = {{8, 2, ONCE_ERR_VERSION},     {12, 2, ONCE_ERR_DAMAGED},
                   {15, 1, ONCE_ERR_DAMAGED},    {32, 0, ONCE_ERR_DAMAGED},
                   {55, 0x80, ONCE_ERR_DAMAGED}, {40, 0, ONCE_OK}};
    struct once__snapshot_header header = some_snapshot(), back;
    uint8_t bytes[ONCE__SNAPSHOT_HEADER_SIZE];
    uint64_t check;

    (void)state;
    once__snapshot_header_encode(&header, bytes);
    assert_memory_equal(bytes, "Onceobjs\1\0\0\0\1\0\0\0\11\11", 18);
    assert_memory_equal(bytes + 32, "\3\0\0\0\0\0\0\0\5\4\0\0\0\0\0\0", 16);
    assert_int_equal(once__snapshot_header_decode(at_guard(bytes, sizeof bytes), &back, NULL),
                     ONCE_OK);
    assert_memory_equal(back.store_id, header.store_id, sizeof back.store_id);
    assert_true(back.from == header.from && back.change == header.change &&
                back.created_ms == header.created_ms && back.flags == header.flags);
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_int_equal(snapshot_refused(bytes, i), ONCE_ERR_DAMAGED);
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            assert_int_equal(snapshot_refused(bytes, sizeof bytes), ONCE_ERR_DAMAGED);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    }
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        once__snapshot_header_encode(&header, bytes);
        bytes[changes[i].offset] = changes[i].value;
        check = XXH3_64bits(bytes, 56);
        memcpy(bytes + 56, &check, 8);
        if (snapshot_refused(bytes, sizeof bytes) != changes[i].err)
            fail_msg("byte %zu", changes[i].offset);
    }
}

static void snapshot_chunk__other_place_snapshot_or_bytes__is_not_good(void **state)
{
    struct once__snapshot_header header = some_snapshot(), other = header;
    struct once_bytes bytes = once_bytes_of("some edits, some more edits");
    uint8_t head[ONCE__SNAPSHOT_CHUNK_HEADER_SIZE], changed[32];
    struct once__snapshot_chunk chunk, as_end;
    struct once_defect defect;

    (void)state;
    once__snapshot_chunk_encode(&header, 5, false, bytes, head);
    assert_int_equal(once__snapshot_chunk_decode(head, &chunk, &defect), ONCE_OK);
    assert_true(chunk.size == bytes.size && !chunk.is_end);
    assert_true(once__snapshot_chunk_good(&header, 5, &chunk, bytes));
    assert_false(once__snapshot_chunk_good(&header, 4, &chunk, bytes));
    assert_false(once__snapshot_chunk_good(&header, 6, &chunk, bytes));
    as_end = chunk;
    as_end.is_end = true;
    assert_false(once__snapshot_chunk_good(&header, 5, &as_end, bytes));
    other.change++;
    assert_false(once__snapshot_chunk_good(&other, 5, &chunk, bytes));
    memcpy(changed, bytes.data, bytes.size);
    for (size_t i = 0; i < bytes.size; i++) {
        changed[i] ^= 1;
        assert_false(once__snapshot_chunk_good(&header, 5, &chunk,
                                               (struct once_bytes){changed, bytes.size}));
        changed[i] ^= 1;
    }
    assert_false(once__snapshot_chunk_good(&header, 5, &chunk,
                                           (struct once_bytes){bytes.data, bytes.size - 1}));
    head[4] = 1; /* an end has its own size */
    assert_int_equal(once__snapshot_chunk_decode(head, &chunk, &defect), ONCE_ERR_DAMAGED);
    head[4] = 2;
    assert_int_equal(once__snapshot_chunk_decode(head, &chunk, &defect), ONCE_ERR_DAMAGED);
    memset(head, 0, sizeof head); /* nothing in it */
    assert_int_equal(once__snapshot_chunk_decode(head, &chunk, &defect), ONCE_ERR_DAMAGED);
    head[3] = 0x7f;
    assert_int_equal(once__snapshot_chunk_decode(head, &chunk, &defect), ONCE_ERR_DAMAGED);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void file_names__every_slot__comes_back(void **state)
{
    static const char *const strange[] = {
        "",          "store",      "lock",       "00002a.se",  "00002a.segm", "00002A.seg",
        "0002a.seg", "080000.seg", "00002a.idy", "00002a_seg", "ffffff.seg",  " 0002a.seg"};
    char name[ONCE__NAME_SIZE];
    uint32_t slot = 7;
    bool is_segment;

    (void)state;
    once__segment_name(0x2a, name);
    assert_string_equal(name, "00002a.seg");
    once__sidecar_name(0x7ffff, name);
    assert_string_equal(name, "07ffff.idx");
    for (uint32_t i = 0; i < ONCE_SEGMENTS_MAX; i += 977) {
        once__segment_name(i, name);
        assert_true(once__name_slot(name, &is_segment, &slot) && is_segment && slot == i);
        once__sidecar_name(i, name);
        assert_true(once__name_slot(name, &is_segment, &slot) && !is_segment && slot == i);
        assert_int_equal(once__place_slot(once__place(i, 4096 + 8 * i)), i);
        assert_int_equal(once__place_offset(once__place(i, 4096 + 8 * i)), 4096 + 8 * i);
    }
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        assert_false(once__name_slot(strange[i], &is_segment, &slot));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record__any__comes_back_as_it_was),
        cmocka_unit_test(record__all_bounds__comes_back_as_it_was),
        cmocka_unit_test(record__forgotten__keeps_its_name),
        cmocka_unit_test(record__layout__is_as_specified),
        cmocka_unit_test(record__layout_of_edits__is_as_specified),
        cmocka_unit_test(record__sealed_nonsense_of_edits__is_refused),
        cmocka_unit_test(record__any_byte_flipped__is_refused),
        cmocka_unit_test(record__cut_anywhere__is_refused),
        cmocka_unit_test(record__sealed_nonsense__is_refused),
        cmocka_unit_test(name_hash__other_split__is_another_name),
        cmocka_unit_test(expires_s__any__is_never_early),
        cmocka_unit_test(store_file__any_byte_flipped_or_cut__is_refused),
        cmocka_unit_test(versions__unknown__are_refused_as_such),
        cmocka_unit_test(segment_header__round_trip__keeps_every_field),
        cmocka_unit_test(segment_header__any_byte_flipped__is_damage_and_never_a_spare),
        cmocka_unit_test(batch_header__round_trip__keeps_every_field),
        cmocka_unit_test(batch_header__any_byte_flipped_or_cut__is_refused),
        cmocka_unit_test(batch_header__sealed_nonsense__is_refused_but_intact),
        cmocka_unit_test(sidecar_entry__any__comes_back_as_it_was),
        cmocka_unit_test(sidecar__any_byte_flipped_or_cut__is_refused),
        cmocka_unit_test(sidecar__sealed_nonsense__is_refused),
        cmocka_unit_test(sidecar__bounded_buffer__is_full_and_unchanged),
        cmocka_unit_test(snapshot_header__flipped_cut_or_nonsense__is_refused),
        cmocka_unit_test(snapshot_chunk__other_place_snapshot_or_bytes__is_not_good),
        cmocka_unit_test(file_names__every_slot__comes_back),
    };

    return cmocka_run_group_tests(tests, guard_setup, guard_teardown);
}
