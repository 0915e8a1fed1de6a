/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of text for people about a state:
 *
 *     max{7}  max{}  flag{true}  lww{red @12 by n1}  gset{a,b}  vv{n1:3}  gcounter{n1:3,n2:4}
 *     pncounter{n1:+5-2}  map{k:max{7}}
 *     awset{x n1:3 n2:1,y n2:3 | n1:4,n2:1+3}  mvreg{red n1:2,blue n2:1 | n1:2,n2:1}
 *
 * After a member of an AWSET or a value of an MVREG stand its dots, after the bar the causal
 * context: the base of each node, then its extra dots. No bytes are written as "", bytes other than
 * visible ASCII as \xNN, and characters that mean something here are preceded by a backslash: what
 * a caller wrote cannot look like anything else, and states that differ are described differently.
 * The text is cut at ONCE_LATTICE_TEXT_MAX; it is no format, and nothing reads it back.
 */
#include "lattice/dots.h"
#include "lattice/ops.h"

#include <inttypes.h>

static const char ellipsis[] = "...";

struct text {
    struct once__writer writer;
    size_t left; /* characters */
    bool cut;
};

static void describe_state(struct text *text, struct once_bytes state, unsigned depth);

static void put_text(struct text *text, const char *chars, size_t size)
{
    if (text->cut)
        return;
    if (size > text->left) {
        chars = ellipsis;
        size = sizeof ellipsis - 1;
        text->cut = true;
    } else {
        text->left -= size;
    }
    once__put_bytes(&text->writer,
                    (struct once_bytes){.data = (const uint8_t *)chars, .size = size});
}

static void put_word(struct text *text, const char *word)
{
    put_text(text, word, strlen(word));
}

static void put_number(struct text *text, uint64_t number)
{
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%" PRIu64, number);

    put_text(text, digits, (size_t)size);
}

static void put_signed(struct text *text, int64_t number)
{
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%" PRId64, number);

    put_text(text, digits, (size_t)size);
}

static void put_escaped(struct text *text, struct once_bytes bytes)
{
    if (bytes.size == 0)
        put_word(text, "\"\"");
    for (size_t i = 0; i < bytes.size && !text->cut; i++) {
        char escaped[5] = {(char)bytes.data[i], 0};

        if (bytes.data[i] <= 0x20 || bytes.data[i] > 0x7e)
            (void)snprintf(escaped, sizeof escaped, "\\x%02x", bytes.data[i]);
        else if (strchr("\\\"{},:|+", bytes.data[i]))
            (void)snprintf(escaped, sizeof escaped, "\\%c", bytes.data[i]);
        put_word(text, escaped);
    }
}

static void fail(struct text *text, int err)
{
    if (err != ONCE_OK)
        once__writer_fail(&text->writer, err);
}

static void describe_number(struct text *text, struct once_bytes state, enum once_lattice_type type)
{
    int64_t value = 0;
    bool known = false;

    fail(text, type == ONCE_LATTICE_MAX ? once_max_value(state, &known, &value)
                                        : once_min_value(state, &known, &value));
    if (known)
        put_signed(text, value);
}

static void describe_flag(struct text *text, struct once_bytes state)
{
    bool raised = false;

    fail(text, once_flag_value(state, &raised));
    put_word(text, raised ? "true" : "false");
}

static void describe_lww(struct text *text, struct once_bytes state)
{
    struct once_lww write;
    bool written = false;

    fail(text, once_lww_value(state, &written, &write));
    if (!written)
        return;
    put_escaped(text, write.value);
    put_word(text, " @");
    put_signed(text, write.time);
    put_word(text, " by ");
    put_escaped(text, write.node);
}

static void describe_entry(struct text *text, const struct once_lattice_entry *entry,
                           enum once_lattice_type type, unsigned depth)
{
    put_escaped(text, entry->key);
    if (type == ONCE_LATTICE_VV || type == ONCE_LATTICE_GCOUNTER) {
        put_word(text, ":");
        put_number(text, entry->number);
    } else if (type == ONCE_LATTICE_PNCOUNTER) {
        put_word(text, ":+");
        put_number(text, entry->number);
        put_word(text, "-");
        put_number(text, entry->minus);
    } else if (type == ONCE_LATTICE_MAP) {
        put_word(text, ":");
        describe_state(text, entry->value, depth + 1);
    }
}

static void put_dot(struct text *text, struct once_bytes node, uint64_t number)
{
    put_escaped(text, node);
    put_word(text, ":");
    put_number(text, number);
}

static void describe_context(struct text *text, const struct once__context *context)
{
    for (uint32_t i = 0; i < context->count && !text->cut; i++) {
        const struct once__context_node *node = &context->nodes[i];

        put_word(text, i == 0 ? " | " : ",");
        put_dot(text, node->name, node->base);
        for (uint32_t j = 0; j < node->extra_count && !text->cut; j++) {
            put_word(text, "+");
            put_number(text, once__load_u64(node->extras + (size_t)j * 8));
        }
    }
}

/* Members with the dots of their adds, or values with that of their write. The dots are shown
 * because states that differ in nothing else do not merge alike. */
static void describe_causal(struct text *text, struct once_bytes state, enum once_lattice_type type)
{
    bool valued = type == ONCE_LATTICE_MVREG;
    struct once__context context;
    struct once__reader reader;
    struct once__dots dots;
    uint32_t member_count;

    once__open(&reader, state, type);
    once__context_read(&reader, &context);
    member_count = valued ? 1 : once__read_count(&reader);
    for (uint32_t i = 0; i < member_count && once__reader_ok(&reader) && !text->cut; i++) {
        if (!valued) {
            put_word(text, i == 0 ? "" : ",");
            put_escaped(text, once__read_member(&reader));
        }
        once__dots_open(&dots, &reader, &context, valued);
        for (bool first = true; dots.left > 0 && !text->cut; first = false) {
            if (valued) {
                put_word(text, first ? "" : ",");
                put_escaped(text, dots.value);
            }
            put_word(text, " ");
            put_dot(text, dots.dot.node->name, dots.dot.number);
            once__dots_next(&dots);
        }
    }
    fail(text, reader.err);
    describe_context(text, &context);
    once__context_release(&context);
}

static void describe_entries(struct text *text, struct once_bytes state,
                             enum once_lattice_type type, unsigned depth)
{
    struct once_lattice_iter iter;
    struct once_lattice_entry entry;
    int more = once_lattice_iter_init(&iter, state);

    fail(text, more);
    for (bool first = true; more >= 0 && !text->cut; first = false) {
        more = once_lattice_iter_next(&iter, &entry);
        if (more <= 0)
            break;
        if (!first)
            put_word(text, ",");
        describe_entry(text, &entry, type, depth);
    }
    fail(text, more < 0 ? more : ONCE_OK);
}

static void describe_state(struct text *text, struct once_bytes state, unsigned depth)
{
    enum once_lattice_type type;
    struct once__reader reader;

    once__reader_init(&reader, state);
    type = once__read_header(&reader);
    fail(text, depth > ONCE_LATTICE_DEPTH_MAX ? ONCE_ERR_FULL : reader.err);
    if (text->writer.err != ONCE_OK)
        return;
    put_word(text, once_lattice_type_name(type));
    put_word(text, "{");
    if (type == ONCE_LATTICE_MAX || type == ONCE_LATTICE_MIN)
        describe_number(text, state, type);
    else if (type == ONCE_LATTICE_FLAG)
        describe_flag(text, state);
    else if (type == ONCE_LATTICE_LWW)
        describe_lww(text, state);
    else if (type == ONCE_LATTICE_AWSET || type == ONCE_LATTICE_MVREG)
        describe_causal(text, state, type);
    else
        describe_entries(text, state, type, depth);
    put_word(text, "}");
}

int once_lattice_describe(struct once_bytes state, struct once_buf *out)
{
    struct text text = {.left = ONCE_LATTICE_TEXT_MAX - (sizeof ellipsis - 1)};

    if (!out)
        return ONCE_ERR_INVALID;
    once__writer_init(&text.writer, out);
    once__writer_apart(&text.writer, state);
    describe_state(&text, state, 0);
    return once__writer_finish(&text.writer);
}
