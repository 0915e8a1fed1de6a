/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign edits: a row of them, in a heap block of its own size. The first byte is the size of the
 * slices that objects are dumped in.
 *
 * Nothing may crash on any bytes. What decodes encodes to the same bytes. What a table takes can be
 * dumped and makes an equal table; and where it took all of them, it may be given them once more.
 */
#include "object/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_edit: %s (line %d)\n", #condition, __LINE__);                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void must_encode_to(const struct once__edit *edit, struct once_bytes bytes)
{
    struct once_buf out;

    once_buf_init(&out, bytes.size);
    MUST(once__edit_encode(edit, &out) == ONCE_OK);
    MUST(out.size == bytes.size && memcmp(out.data, bytes.data, bytes.size) == 0);
    once_buf_release(&out);
}

static void must_be_there(const struct once__objects *objects, const struct once__edit *edit)
{
    const struct once__object *object = once__objects_find(objects, edit->name);

    MUST(object);
    MUST(once__object_type(object) == once__edit_type(edit->kind));
    if (edit->kind == ONCE__EDIT_COUNTER)
        MUST(once__object_counter(object) == edit->to.counter);
    if (edit->kind == ONCE__EDIT_MOVED)
        MUST(once__object_machine_at(object) == edit->to.moved);
    if (edit->kind == ONCE__EDIT_EVENT)
        MUST(once__object_event_count(object) >= edit->to.event.number);
    if (edit->kind == ONCE__EDIT_MESSAGE)
        MUST(once__object_has_message(object, edit->to.message.number));
    if (edit->kind == ONCE__EDIT_SENT)
        MUST(!once__object_has_message(object, edit->to.sent));
    if (edit->kind == ONCE__EDIT_BUCKET)
        MUST(once__object_bucket(object, edit->to.bucket.bucket) == edit->to.bucket.count);
}

/* Up to the first edit that is damaged. False: the table refused one. */
static bool put_all(struct once__objects *objects, struct once_bytes bytes)
{
    bool all = true;
    size_t offset = 0;

    while (offset < bytes.size) {
        struct once_defect defect = {.offset = SIZE_MAX};
        struct once__edit edit;
        size_t start = offset;
        int err = once__edit_decode(bytes, &offset, &edit, &defect);

        if (err != ONCE_OK) {
            MUST(err == ONCE_ERR_DAMAGED);
            MUST(offset == start && defect.what);
            MUST(defect.offset >= start && defect.offset <= bytes.size);
            break;
        }
        MUST(offset > start && offset <= bytes.size);
        must_encode_to(&edit,
                       (struct once_bytes){.data = bytes.data + start, .size = offset - start});
        err = once__objects_put(objects, &edit);
        MUST(err == ONCE_OK || err == ONCE_ERR_DAMAGED);
        if (err == ONCE_OK)
            must_be_there(objects, &edit);
        else
            all = false;
    }
    return all;
}

static struct once_buf dump_of(const struct once__objects *objects, size_t slice_size)
{
    struct once_buf out;

    once_buf_init(&out, SIZE_MAX / 2);
    for (uint64_t i = 0; i < once__objects_count(objects); i++)
        for (uint64_t part = 0; part != UINT64_MAX;)
            MUST(once__object_dump(once__objects_at(objects, i), &part, slice_size, &out) ==
                 ONCE_OK);
    return out;
}

static void must_be(const struct once__objects *objects, const struct once_buf *dump)
{
    struct once_buf now = dump_of(objects, 1 << 16);

    MUST(now.size == dump->size);
    MUST(now.size == 0 || memcmp(now.data, dump->data, now.size) == 0);
    once_buf_release(&now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t secret[ONCE__OBJECT_SECRET_SIZE] = {1, 2, 3};
    struct once__objects *objects, *copy;
    struct once_bytes bytes;
    struct once_buf dump;
    uint8_t *block;
    bool all;

    if (size < 1)
        return 0;
    block = malloc(size - 1 > 0 ? size - 1 : 1);
    MUST(block && once__objects_new(secret, &objects) == ONCE_OK);
    MUST(once__objects_new(secret, &copy) == ONCE_OK);
    memcpy(block, data + 1, size - 1);
    bytes = (struct once_bytes){.data = block, .size = size - 1};

    all = put_all(objects, bytes);
    dump = dump_of(objects, data[0]);
    MUST(put_all(copy, once_buf_bytes(&dump)));
    must_be(copy, &dump);
    MUST(once__objects_encoded_size(copy) == once__objects_encoded_size(objects));
    if (all) {
        MUST(put_all(objects, bytes));
        must_be(objects, &dump);
    }
    once_buf_release(&dump);
    once__objects_free(objects);
    once__objects_free(copy);
    free(block);
    return 0;
}
