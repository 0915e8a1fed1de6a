/* SPDX-License-Identifier: Apache-2.0
 *
 * An object as JSON, for people and for HTTP:
 *
 *     {"name":"acct:42","type":"counter","value":900}
 *
 * counter    value                        fence     granted, seen
 * register   version, present, value      lease     token, owner (null: nobody), until_ms
 * machine    state, states, moves         sequence  epoch, next
 * log        version                      buckets   count
 * outbox     total, waiting               max, min  value (null: nothing yet)
 * flag       value                        lww       time, node, value (null: nothing yet)
 * gset, awset               count, members
 * vv                        count, nodes [{node, number}]
 * gcounter                  value (null: past 64 bits), count, nodes [{node, number}]
 * pncounter                 value (null: past 64 bits), count, nodes [{node, plus, minus}]
 * mvreg, map                text, as once_lattice_describe
 *
 * Of members and nodes the first VIEW_MEMBERS_MAX are shown, and then "more":true. Bytes that are
 * not UTF-8 stand in base64 under a name with _base64 behind it; members of a set that are not, in
 * a list members_base64 of their own.
 */
#include "object/object.h"

#include "base/assert.h"
#include "object/view_text.h"

enum { VIEW_MEMBERS_MAX = 1000 };

const char *once_object_type_name(enum once_object_type type)
{
    if (once_object_mergeable(type))
        return once_lattice_type_name((enum once_lattice_type)type);
    switch ((unsigned)type) {
    case ONCE_OBJECT_NONE:
        return "none";
    case ONCE_OBJECT_COUNTER:
        return "counter";
    case ONCE_OBJECT_REGISTER:
        return "register";
    case ONCE_OBJECT_MACHINE:
        return "machine";
    case ONCE_OBJECT_LOG:
        return "log";
    case ONCE_OBJECT_FENCE:
        return "fence";
    case ONCE_OBJECT_LEASE:
        return "lease";
    case ONCE_OBJECT_SEQUENCE:
        return "sequence";
    case ONCE_OBJECT_BUCKETS:
        return "buckets";
    case ONCE_OBJECT_OUTBOX:
        return "outbox";
    default:
        return "unknown";
    }
}

static void note(struct once__view *view, int err)
{
    if (view->err == ONCE_OK && err < 0)
        view->err = err;
}

static void write_register(struct once__view *view, const struct once__object *object)
{
    struct once__register reg = once__object_register(object);

    once__view_number_field(view, "version", reg.version);
    once__view_field(view, "present");
    once__view_text(view, reg.present ? "true" : "false");
    if (reg.present)
        once__view_bytes_field(view, "value", reg.value);
}

static void write_machine(struct once__view *view, const struct once__object *object)
{
    struct once_bytes declared = once__object_declared(object);
    struct once__declaration declaration;
    struct once_defect defect;
    int err = once__declaration_read(declared, &declaration, &defect);
    uint32_t at = once__object_machine_at(object);
    size_t from = 0;

    if (err != ONCE_OK) {
        note(view, ONCE_ERR_DAMAGED);
        return;
    }
    ONCE_ASSERT(at < declaration.machine.state_count);
    once__view_bytes_field(view, "state", declaration.states[at]);
    once__view_field(view, "states");
    for (uint32_t i = 0; i < declaration.machine.state_count; i++) {
        once__view_text(view, i == 0 ? "[" : ",");
        once__view_string(view, declaration.states[i]);
    }
    once__view_text(view, "]");
    once__view_field(view, "moves");
    for (size_t i = 0; i <= declared.size; i++) {
        if (i < declared.size && declared.data[i] != ' ')
            continue;
        once__view_text(view, from == 0 ? "[" : ",");
        once__view_string(view,
                          (struct once_bytes){.data = declared.data + from, .size = i - from});
        from = i + 1;
    }
    once__view_text(view, "]");
}

static void write_lease(struct once__view *view, const struct once__object *object)
{
    struct once__lease lease = once__object_lease(object);

    once__view_number_field(view, "token", lease.token);
    if (lease.owner.size > 0) {
        once__view_bytes_field(view, "owner", lease.owner);
    } else {
        once__view_field(view, "owner");
        once__view_text(view, "null");
    }
    once__view_signed_field(view, "until_ms", lease.until_ms);
}

/* A number that may be missing. */
static void write_known(struct once__view *view, const char *name, bool known, int64_t number)
{
    if (known) {
        once__view_signed_field(view, name, number);
    } else {
        once__view_field(view, name);
        once__view_text(view, "null");
    }
}

/* ---- Mergeables ------------------------------------------------------------------------------ */

static void write_extreme(struct once__view *view, struct once_bytes state, bool is_max)
{
    bool known = false;
    int64_t value = 0;

    note(view,
         is_max ? once_max_value(state, &known, &value) : once_min_value(state, &known, &value));
    write_known(view, "value", known, value);
}

static void write_flag(struct once__view *view, struct once_bytes state)
{
    bool raised = false;

    note(view, once_flag_value(state, &raised));
    once__view_field(view, "value");
    once__view_text(view, raised ? "true" : "false");
}

static void write_lww(struct once__view *view, struct once_bytes state)
{
    struct once_lww write = {0};
    bool written = false;

    note(view, once_lww_value(state, &written, &write));
    write_known(view, "time", written, write.time);
    if (!written) {
        once__view_text(view, ",\"node\":null,\"value\":null");
        return;
    }
    once__view_bytes_field(view, "node", write.node);
    once__view_bytes_field(view, "value", write.value);
}

/* One list of a set's first members: those that are UTF-8, or those that are not. How many. */
static size_t write_members(struct once__view *view, struct once_bytes state, bool utf8)
{
    struct once_lattice_iter iter;
    struct once_lattice_entry entry;
    size_t count = 0;
    int more = once_lattice_iter_init(&iter, state);

    note(view, more);
    for (size_t i = 0; more >= 0 && i < VIEW_MEMBERS_MAX; i++) {
        more = once_lattice_iter_next(&iter, &entry);
        note(view, more);
        if (more != 1)
            break;
        if (once__utf8_check(entry.key) != utf8)
            continue;
        if (count == 0) {
            once__view_field(view, utf8 ? "members" : "members_base64");
            once__view_text(view, "[");
        } else {
            once__view_text(view, ",");
        }
        if (utf8)
            once__view_string(view, entry.key);
        else
            once__view_base64(view, entry.key);
        count++;
    }
    if (count > 0)
        once__view_text(view, "]");
    return count;
}

static void write_count(struct once__view *view, struct once_bytes state, size_t *ret_count)
{
    *ret_count = 0;
    note(view, once_lattice_count(state, ret_count));
    once__view_number_field(view, "count", *ret_count);
}

static void write_more(struct once__view *view, size_t count)
{
    if (count > VIEW_MEMBERS_MAX)
        once__view_text(view, ",\"more\":true");
}

static void write_set(struct once__view *view, struct once_bytes state)
{
    size_t count;

    write_count(view, state, &count);
    if (write_members(view, state, true) == 0)
        once__view_text(view, ",\"members\":[]");
    (void)write_members(view, state, false);
    write_more(view, count);
}

static void write_node(struct once__view *view, const struct once_lattice_entry *entry, bool pairs)
{
    if (once__utf8_check(entry->key)) {
        once__view_text(view, "{\"node\":");
        once__view_string(view, entry->key);
    } else {
        once__view_text(view, "{\"node_base64\":");
        once__view_base64(view, entry->key);
    }
    if (pairs) {
        once__view_number_field(view, "plus", entry->number);
        once__view_number_field(view, "minus", entry->minus);
    } else {
        once__view_number_field(view, "number", entry->number);
    }
    once__view_text(view, "}");
}

static void write_nodes(struct once__view *view, struct once_bytes state, bool pairs)
{
    struct once_lattice_iter iter;
    struct once_lattice_entry entry;
    size_t count;
    int more;

    write_count(view, state, &count);
    once__view_field(view, "nodes");
    once__view_text(view, "[");
    more = once_lattice_iter_init(&iter, state);
    note(view, more);
    for (size_t i = 0; more >= 0 && i < VIEW_MEMBERS_MAX; i++) {
        more = once_lattice_iter_next(&iter, &entry);
        note(view, more);
        if (more != 1)
            break;
        if (i > 0)
            once__view_text(view, ",");
        write_node(view, &entry, pairs);
    }
    once__view_text(view, "]");
    write_more(view, count);
}

static void write_gcounter(struct once__view *view, struct once_bytes state)
{
    uint64_t value = 0;
    int err = once_gcounter_value(state, &value);

    if (err == ONCE_OK) {
        once__view_number_field(view, "value", value);
    } else {
        once__view_text(view, ",\"value\":null");
        note(view, err == ONCE_ERR_OVERFLOW ? ONCE_OK : err);
    }
    write_nodes(view, state, false);
}

static void write_pncounter(struct once__view *view, struct once_bytes state)
{
    int64_t value = 0;
    int err = once_pncounter_value(state, &value);

    write_known(view, "value", err == ONCE_OK, value);
    note(view, err == ONCE_ERR_OVERFLOW ? ONCE_OK : err);
    write_nodes(view, state, true);
}

/* What has no form of its own. The text is visible ASCII. */
static void write_described(struct once__view *view, struct once_bytes state)
{
    struct once_buf text;

    once_buf_init(&text, (size_t)2 * ONCE_LATTICE_TEXT_MAX);
    note(view, once_lattice_describe(state, &text));
    once__view_bytes_field(view, "text", once_buf_bytes(&text));
    once_buf_release(&text);
}

static void write_mergeable(struct once__view *view, const struct once__object *object)
{
    struct once_bytes state = once__object_state(object);

    switch ((unsigned)once__object_type(object)) {
    case ONCE_OBJECT_MAX:
    case ONCE_OBJECT_MIN:
        write_extreme(view, state, once__object_type(object) == ONCE_OBJECT_MAX);
        break;
    case ONCE_OBJECT_FLAG:
        write_flag(view, state);
        break;
    case ONCE_OBJECT_GSET:
    case ONCE_OBJECT_AWSET:
        write_set(view, state);
        break;
    case ONCE_OBJECT_VV:
        write_nodes(view, state, false);
        break;
    case ONCE_OBJECT_LWW:
        write_lww(view, state);
        break;
    case ONCE_OBJECT_GCOUNTER:
        write_gcounter(view, state);
        break;
    case ONCE_OBJECT_PNCOUNTER:
        write_pncounter(view, state);
        break;
    default:
        write_described(view, state);
        break;
    }
}

static void write_fields(struct once__view *view, const struct once__object *object)
{
    switch ((unsigned)once__object_type(object)) {
    case ONCE_OBJECT_COUNTER:
        once__view_signed_field(view, "value", once__object_counter(object));
        break;
    case ONCE_OBJECT_REGISTER:
        write_register(view, object);
        break;
    case ONCE_OBJECT_MACHINE:
        write_machine(view, object);
        break;
    case ONCE_OBJECT_LOG:
        once__view_number_field(view, "version", once__object_event_count(object));
        break;
    case ONCE_OBJECT_FENCE:
        once__view_number_field(view, "granted", once__object_fence(object).granted);
        once__view_number_field(view, "seen", once__object_fence(object).seen);
        break;
    case ONCE_OBJECT_LEASE:
        write_lease(view, object);
        break;
    case ONCE_OBJECT_SEQUENCE:
        once__view_number_field(view, "epoch", once__object_sequence(object).epoch);
        once__view_number_field(view, "next", once__object_sequence(object).next);
        break;
    case ONCE_OBJECT_BUCKETS:
        once__view_number_field(view, "count", once__object_bucket_count(object));
        break;
    case ONCE_OBJECT_OUTBOX:
        once__view_number_field(view, "total", once__object_message_total(object));
        once__view_number_field(view, "waiting", once__object_message_count(object));
        break;
    default:
        write_mergeable(view, object);
        break;
    }
}

int once__object_view(const struct once__object *object, struct once_buf *out)
{
    struct once__view view = {.out = out, .err = ONCE_OK};
    size_t size_before = out->size;

    once__view_text(&view, "{\"name\":");
    once__view_string(&view, once__object_name(object)); /* printable ASCII */
    once__view_field(&view, "type");
    once__view_text(&view, "\"");
    once__view_text(&view, once_object_type_name(once__object_type(object)));
    once__view_text(&view, "\"");
    write_fields(&view, object);
    once__view_text(&view, "}");
    if (view.err != ONCE_OK)
        out->size = size_before;
    return view.err;
}
