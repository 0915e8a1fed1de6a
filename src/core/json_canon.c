/* SPDX-License-Identifier: Apache-2.0
 *
 * RFC 8785: one text for every JSON value, so that white space, member order and spelling make no
 * difference. Strict RFC 8259: one value, no byte order mark, no duplicate names, bounded depth and
 * size.
 *
 * Time is linear in the size of the source but for the sorting of names, and every byte is copied a
 * fixed number of times, however deep the objects nest:
 *   1. Reading writes the canonical text with members still in source order, and remembers every
 *   object
 *      that is out of order or holds one that is: where it lies in the text, and its members,
 *      sorted.
 *   2. Writing copies that text to the output and walks the members of those objects in their
 *   order.
 * A source that is in order already needs no second walk.
 */
#include "core/json_canon.h"

#include "base/assert.h"
#include "base/defect.h"
#include "core/json_number.h"
#include "core/json_string.h"

#include <string.h>

/* Offsets into the text of step 1; source is an offset into the source. */
struct member {
    uint32_t name;   /* the quote that opens the name */
    uint32_t value;  /* behind the colon */
    uint32_t end;    /* behind the value */
    uint32_t object; /* index of the first object at or after value */
    uint32_t source; /* the name in the source, to point at */
};

/* Objects stand in the order in which they open. */
struct object {
    uint32_t start;        /* the opening brace */
    uint32_t end;          /* behind the closing brace */
    uint32_t member_index; /* its members, sorted */
    uint32_t member_count;
    uint32_t next; /* index of the first object that opens behind end */
};

enum {
    TEXT_SIZE_MAX = ONCE_JSON_SIZE_MAX * ONCE__JSON_CANON_GROWTH_MAX,
    /* A member and an object take four source bytes at least and twenty here. */
    LIST_SIZE_MAX = ONCE_JSON_SIZE_MAX * 5
};

_Static_assert(ONCE_JSON_SIZE_MAX <= INT32_MAX / 5, "offsets fit 32 bits");
_Static_assert(sizeof(struct member) <= 20 && sizeof(struct object) <= 20, "LIST_SIZE_MAX holds");

struct canon {
    struct once_bytes json;
    size_t offset;
    enum once_json_numbers numbers;
    struct once_buf text;
    struct once_buf open;    /* struct member: those of the objects that are still open */
    struct once_buf members; /* struct member: those of the objects in objects, sorted */
    struct once_buf objects; /* struct object */
    struct once_defect *ret_defect;
};

static int read_value(struct canon *canon, unsigned depth);
static int write_range(const struct canon *canon, struct member range, struct once_buf *out);

static struct member *members_of(const struct once_buf *list)
{
    return (struct member *)(void *)list->data;
}

static struct object *objects_of(const struct canon *canon)
{
    return (struct object *)(void *)canon->objects.data;
}

static uint32_t member_count(const struct once_buf *list)
{
    return (uint32_t)(list->size / sizeof(struct member));
}

static uint32_t object_count(const struct canon *canon)
{
    return (uint32_t)(canon->objects.size / sizeof(struct object));
}

static uint32_t text_size(const struct canon *canon)
{
    ONCE_ASSERT(canon->text.size <= TEXT_SIZE_MAX);
    return (uint32_t)canon->text.size;
}

static int refuse(struct canon *canon, int err, size_t offset, const char *what)
{
    ONCE_ASSERT(offset <= canon->json.size);
    return once__defect(err, offset, what, canon->ret_defect);
}

/* Appends to one of the buffers. */
static int push(struct canon *canon, struct once_buf *buf, const void *data, size_t size)
{
    int err = once_buf_append(buf, data, size);

    return err == ONCE_OK ? ONCE_OK : refuse(canon, err, canon->offset, once_err_text(err));
}

/* What stands next after white space; -1 at the end. */
static int peek(struct canon *canon)
{
    for (; canon->offset < canon->json.size; canon->offset++) {
        uint8_t byte = canon->json.data[canon->offset];

        if (byte != ' ' && byte != '\t' && byte != '\n' && byte != '\r')
            return byte;
    }
    return -1;
}

static int read_literal(struct canon *canon, const char *literal)
{
    size_t size = strlen(literal);

    if (canon->json.size - canon->offset < size ||
        memcmp(canon->json.data + canon->offset, literal, size) != 0)
        return refuse(canon, ONCE_ERR_JSON, canon->offset, "there is no JSON value here");
    canon->offset += size;
    return push(canon, &canon->text, literal, size);
}

static int read_number(struct canon *canon)
{
    struct once__json_number number;
    struct once_bytes literal;
    const char *what = NULL;
    int err;

    err = once__json_number_scan(canon->json, canon->offset, &literal.size, canon->ret_defect);
    if (err != ONCE_OK)
        return err;
    literal.data = canon->json.data + canon->offset;
    err = once__json_number_canonical(literal, canon->numbers, &number, &what);
    if (err != ONCE_OK)
        return refuse(canon, err, canon->offset, what);
    canon->offset += literal.size;
    return push(canon, &canon->text, number.text, number.size);
}

static int read_string(struct canon *canon)
{
    return once__json_string(canon->json, &canon->offset, &canon->text, canon->ret_defect);
}

static int compare(const struct canon *canon, const struct member *a, const struct member *b)
{
    const uint8_t *text = canon->text.data;
    /* Without the quotes; value stands behind the closing quote and the colon. */
    struct once_bytes a_name = {text + a->name + 1, a->value - a->name - 3};
    struct once_bytes b_name = {text + b->name + 1, b->value - b->name - 3};

    return once__json_name_compare(a_name, b_name);
}

/* Merges two sorted neighbours, of from_count in all, into to. Stable: the left one goes first. */
static void merge(const struct canon *canon, const struct member *from, size_t left_count,
                  size_t from_count, struct member *to)
{
    size_t left = 0, right = left_count;

    for (size_t i = 0; i < from_count; i++) {
        bool take_left = left < left_count &&
                         (right == from_count || compare(canon, &from[left], &from[right]) <= 0);

        to[i] = take_left ? from[left++] : from[right++];
    }
}

/* Sorts from into to; from is used up. Never worse than n log n, and allocates nothing, which
 * qsort() does not promise. */
static void sort_members(const struct canon *canon, struct member *from, struct member *to,
                         size_t count)
{
    struct member *sorted = from, *spare = to;

    for (size_t width = 1; width < count; width *= 2) {
        for (size_t i = 0; i < count; i += 2 * width) {
            size_t left = width < count - i ? width : count - i;
            size_t both = 2 * width < count - i ? 2 * width : count - i;

            merge(canon, sorted + i, left, both, spare + i);
        }
        struct member *swap = sorted;

        sorted = spare;
        spare = swap;
    }
    if (sorted != to)
        memcpy(to, sorted, count * sizeof(*to));
}

/* Equal names are neighbours; of all of them the first repetition in the source is told. */
static int check_duplicates(struct canon *canon, const struct member *sorted, size_t count)
{
    uint32_t first = UINT32_MAX;

    for (size_t i = 1; i < count; i++) {
        if (compare(canon, &sorted[i - 1], &sorted[i]) == 0 && sorted[i].source < first)
            first = sorted[i].source;
    }
    if (first == UINT32_MAX)
        return ONCE_OK;
    return refuse(canon, ONCE_ERR_JSON_DUPLICATE, first, "the object has this member already");
}

static bool in_order(const struct canon *canon, const struct member *members, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (compare(canon, &members[i - 1], &members[i]) >= 0)
            return false;
    }
    return true;
}

/* Nothing in the object is out of order: its text is canonical as it stands. */
static bool is_canonical(const struct canon *canon, uint32_t object_index, uint32_t open_index)
{
    uint32_t count = member_count(&canon->open) - open_index;

    if (object_count(canon) > object_index + 1)
        return false;
    return count == 0 || in_order(canon, members_of(&canon->open) + open_index, count);
}

/* The object has been read: open holds its members from open_index on. */
static int close_object(struct canon *canon, uint32_t object_index, uint32_t open_index)
{
    uint32_t count = member_count(&canon->open) - open_index;
    size_t size = count * sizeof(struct member);
    struct object *object;
    struct member *sorted;
    int err;

    if (is_canonical(canon, object_index, open_index)) {
        canon->objects.size -= sizeof(struct object);
        canon->open.size -= size;
        return ONCE_OK;
    }
    err = once_buf_reserve(&canon->members, size);
    if (err != ONCE_OK)
        return refuse(canon, err, canon->offset, once_err_text(err));
    sorted = members_of(&canon->members) + member_count(&canon->members);
    sort_members(canon, members_of(&canon->open) + open_index, sorted, count);
    err = check_duplicates(canon, sorted, count);
    if (err != ONCE_OK)
        return err;
    object = objects_of(canon) + object_index;
    object->end = text_size(canon);
    object->member_index = member_count(&canon->members);
    object->member_count = count;
    object->next = object_count(canon);
    canon->members.size += size;
    canon->open.size -= size;
    return ONCE_OK;
}

/* "name": value */
static int read_member(struct canon *canon, unsigned depth)
{
    struct member member = {.name = text_size(canon)};
    int err;

    if (peek(canon) != '"')
        return refuse(canon, ONCE_ERR_JSON, canon->offset, "a member's name must stand here");
    member.source = (uint32_t)canon->offset;
    err = read_string(canon);
    if (err != ONCE_OK)
        return err;
    if (peek(canon) != ':')
        return refuse(canon, ONCE_ERR_JSON, canon->offset, "a colon must follow the name");
    canon->offset++;
    err = push(canon, &canon->text, ":", 1);
    if (err != ONCE_OK)
        return err;
    member.value = text_size(canon);
    member.object = object_count(canon);
    err = read_value(canon, depth);
    if (err != ONCE_OK)
        return err;
    member.end = text_size(canon);
    return push(canon, &canon->open, &member, sizeof(member));
}

/* Behind the opening bracket: members or elements until the closing one. */
static int read_list(struct canon *canon, unsigned depth, char closing)
{
    bool is_object = closing == '}';
    bool first = true;
    int err;

    for (;; first = false) {
        int next = peek(canon);

        if (next == closing)
            break;
        if (!first) {
            if (next != ',')
                return refuse(canon, ONCE_ERR_JSON, canon->offset,
                              is_object ? "a comma or a closing brace must stand here"
                                        : "a comma or a closing bracket must stand here");
            canon->offset++;
            err = push(canon, &canon->text, ",", 1);
            if (err != ONCE_OK)
                return err;
        }
        err = is_object ? read_member(canon, depth) : read_value(canon, depth);
        if (err != ONCE_OK)
            return err;
    }
    canon->offset++;
    return push(canon, &canon->text, &closing, 1);
}

static int read_array(struct canon *canon, unsigned depth)
{
    int err = push(canon, &canon->text, "[", 1);

    canon->offset++;
    return err == ONCE_OK ? read_list(canon, depth, ']') : err;
}

static int read_object(struct canon *canon, unsigned depth)
{
    struct object object = {.start = text_size(canon)};
    uint32_t object_index = object_count(canon);
    uint32_t open_index = member_count(&canon->open);
    int err;

    err = push(canon, &canon->objects, &object, sizeof(object));
    if (err != ONCE_OK)
        return err;
    err = push(canon, &canon->text, "{", 1);
    if (err != ONCE_OK)
        return err;
    canon->offset++;
    err = read_list(canon, depth, '}');
    if (err != ONCE_OK)
        return err;
    return close_object(canon, object_index, open_index);
}

/* depth counts the arrays and objects around the value. */
static int read_value(struct canon *canon, unsigned depth)
{
    int next = peek(canon);

    if ((next == '{' || next == '[') && depth == ONCE_JSON_DEPTH_MAX)
        return refuse(canon, ONCE_ERR_FULL, canon->offset, "arrays and objects nest too deep");
    switch (next) {
    case '{':
        return read_object(canon, depth + 1);
    case '[':
        return read_array(canon, depth + 1);
    case '"':
        return read_string(canon);
    case 't':
        return read_literal(canon, "true");
    case 'f':
        return read_literal(canon, "false");
    case 'n':
        return read_literal(canon, "null");
    case -1:
        return refuse(canon, ONCE_ERR_JSON, canon->offset, "the JSON ends too early");
    default:
        break;
    }
    if (next == '-' || (next >= '0' && next <= '9'))
        return read_number(canon);
    return refuse(canon, ONCE_ERR_JSON, canon->offset, "there is no JSON value here");
}

static int read_document(struct canon *canon)
{
    int err;

    if (canon->json.size >= 3 && memcmp(canon->json.data, "\xef\xbb\xbf", 3) == 0)
        return refuse(canon, ONCE_ERR_JSON, 0, "JSON does not begin with a byte order mark");
    err = read_value(canon, 0);
    if (err != ONCE_OK)
        return err;
    if (peek(canon) != -1)
        return refuse(canon, ONCE_ERR_JSON, canon->offset, "something follows the JSON value");
    ONCE_ASSERT(canon->open.size == 0);
    return ONCE_OK;
}

static int write_object(const struct canon *canon, const struct object *object,
                        struct once_buf *out)
{
    const struct member *members = members_of(&canon->members) + object->member_index;

    ONCE_ASSERT(object->member_count > 0); /* an empty one is in order and was not remembered */
    for (uint32_t i = 0; i < object->member_count; i++) {
        const struct member *member = &members[i];
        int err = once_buf_append(out, i == 0 ? "{" : ",", 1);

        if (err == ONCE_OK)
            err = once_buf_append(out, canon->text.data + member->name,
                                  member->value - member->name);
        if (err == ONCE_OK)
            err = write_range(canon, *member, out);
        if (err != ONCE_OK)
            return err;
    }
    return once_buf_append(out, "}", 1);
}

/* The value of a member: its text, with every object in it that is to be put in order. */
static int write_range(const struct canon *canon, struct member range, struct once_buf *out)
{
    uint32_t copied = range.value;

    for (uint32_t i = range.object; i < object_count(canon);) {
        const struct object *object = &objects_of(canon)[i];
        int err;

        if (object->start >= range.end)
            break;
        err = once_buf_append(out, canon->text.data + copied, object->start - copied);
        if (err == ONCE_OK)
            err = write_object(canon, object, out);
        if (err != ONCE_OK)
            return err;
        copied = object->end;
        i = object->next;
    }
    return once_buf_append(out, canon->text.data + copied, range.end - copied);
}

int once_json_canonical(struct once_bytes json, enum once_json_numbers numbers,
                        struct once_buf *out, struct once_defect *ret_defect)
{
    struct canon canon = {.json = json, .numbers = numbers, .ret_defect = ret_defect};
    size_t out_size;
    int err;

    if (!out || (!json.data && json.size > 0) ||
        (numbers != ONCE_JSON_EXACT && numbers != ONCE_JSON_RFC8785))
        return once__defect(ONCE_ERR_INVALID, 0, "an argument is not valid", ret_defect);
    if (json.size > ONCE_JSON_SIZE_MAX)
        return once__defect(ONCE_ERR_FULL, ONCE_JSON_SIZE_MAX, "the JSON is too large", ret_defect);
    once_buf_init(&canon.text, TEXT_SIZE_MAX);
    once_buf_init(&canon.open, LIST_SIZE_MAX);
    once_buf_init(&canon.members, LIST_SIZE_MAX);
    once_buf_init(&canon.objects, LIST_SIZE_MAX);
    out_size = out->size;
    err = read_document(&canon);
    if (err == ONCE_OK) {
        struct member document = {.end = text_size(&canon)};

        err = write_range(&canon, document, out);
        if (err != ONCE_OK) {
            out->size = out_size;
            err = refuse(&canon, err, json.size, "the canonical form does not fit");
        }
    }
    once_buf_release(&canon.objects);
    once_buf_release(&canon.members);
    once_buf_release(&canon.open);
    once_buf_release(&canon.text);
    return err;
}
