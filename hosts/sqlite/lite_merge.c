/* SPDX-License-Identifier: Apache-2.0
 *
 * Mergeable values (A2): each merge is commutative, associative and idempotent, so that states may
 * come in any order, any number of times, and need no key. NULL is "nothing yet". Each is a
 * function of two states, for ON CONFLICT DO UPDATE, and an aggregate of one, for rows. All of them
 * are merged by src/lattice; what differs is how a state is read from SQL and said to it.
 */
#include "lite_merge.h"

#include <string.h>

#include <once/lattice.h>
#include <once/limits.h>

/* States of an aggregate are merged as a binary counter is raised: each merge is of two states of
 * about the same number of rows, so that a row is not copied once for every row behind it. */
enum { LEVELS = 40 };

struct kind {
    const char *name;
    int (*read)(sqlite3_value *value, struct once_buf *out, struct once_defect *ret_defect);
    int (*write)(struct once_bytes state, sqlite3_context *context);
};

/* ---- Numbers --------------------------------------------------------------------------------- */

static int whole(sqlite3_value *value, int64_t *ret_number, struct once_defect *ret_defect)
{
    double number;

    if (sqlite3_value_type(value) == SQLITE_INTEGER) {
        *ret_number = sqlite3_value_int64(value);
        return ONCE_OK;
    }
    number = sqlite3_value_type(value) == SQLITE_FLOAT ? sqlite3_value_double(value) : 0.5;
    if (number >= -(double)ONCE_VERSION_MAX && number <= (double)ONCE_VERSION_MAX &&
        (double)(int64_t)number == number) {
        *ret_number = (int64_t)number;
        return ONCE_OK;
    }
    ret_defect->what = "the state is not a whole number";
    return ONCE_ERR_INVALID;
}

static int read_max(sqlite3_value *value, struct once_buf *out, struct once_defect *ret_defect)
{
    int64_t number;
    int err = whole(value, &number, ret_defect);

    return err != ONCE_OK ? err : once_max_set(number, out);
}

static int read_min(sqlite3_value *value, struct once_buf *out, struct once_defect *ret_defect)
{
    int64_t number;
    int err = whole(value, &number, ret_defect);

    return err != ONCE_OK ? err : once_min_set(number, out);
}

static int read_or(sqlite3_value *value, struct once_buf *out, struct once_defect *ret_defect)
{
    int64_t number;
    int err = whole(value, &number, ret_defect);

    if (err != ONCE_OK)
        return err;
    return number != 0 ? once_flag_raise(out) : once_lattice_bottom(ONCE_LATTICE_FLAG, out);
}

static int write_max(struct once_bytes state, sqlite3_context *context)
{
    int64_t number;
    bool known;
    int err = once_max_value(state, &known, &number);

    if (err == ONCE_OK && known)
        sqlite3_result_int64(context, number);
    return err;
}

static int write_min(struct once_bytes state, sqlite3_context *context)
{
    int64_t number;
    bool known;
    int err = once_min_value(state, &known, &number);

    if (err == ONCE_OK && known)
        sqlite3_result_int64(context, number);
    return err;
}

static int write_or(struct once_bytes state, sqlite3_context *context)
{
    bool raised;
    int err = once_flag_value(state, &raised);

    if (err == ONCE_OK)
        sqlite3_result_int(context, raised ? 1 : 0);
    return err;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static int json_of(sqlite3_value *value, struct once_bytes *ret_json,
                   struct once_defect *ret_defect)
{
    if (sqlite3_value_type(value) != SQLITE_TEXT) {
        ret_defect->what = "the state is not JSON as text";
        return ONCE_ERR_INVALID;
    }
    ret_json->data = sqlite3_value_text(value);
    ret_json->size = (size_t)sqlite3_value_bytes(value);
    return ret_json->data ? ONCE_OK : ONCE_ERR_MEMORY;
}

static int read_union(sqlite3_value *value, struct once_buf *out, struct once_defect *ret_defect)
{
    struct once_bytes json;
    int err = json_of(value, &json, ret_defect);

    return err != ONCE_OK ? err : once__lite_read_union(json, out, ret_defect);
}

static int read_vv(sqlite3_value *value, struct once_buf *out, struct once_defect *ret_defect)
{
    struct once_bytes json;
    int err = json_of(value, &json, ret_defect);

    return err != ONCE_OK ? err : once__lite_read_counts(json, false, out, ret_defect);
}

static int read_gcounter(sqlite3_value *value, struct once_buf *out, struct once_defect *ret_defect)
{
    struct once_bytes json;
    int err = json_of(value, &json, ret_defect);

    return err != ONCE_OK ? err : once__lite_read_counts(json, true, out, ret_defect);
}

static int read_lww(sqlite3_value *value, struct once_buf *out, struct once_defect *ret_defect)
{
    struct once_bytes json;
    int err = json_of(value, &json, ret_defect);

    return err != ONCE_OK ? err : once__lite_read_lww(json, out, ret_defect);
}

static int say_json(struct once_bytes state, sqlite3_context *context,
                    int (*write)(struct once_bytes state, struct once_buf *out))
{
    struct once_buf out;
    int err;

    once_buf_init(&out, ONCE_LITE_ANSWER_SIZE_MAX);
    err = write(state, &out);
    if (err == ONCE_OK && out.size > 0)
        sqlite3_result_text64(context, (const char *)out.data, out.size, SQLITE_TRANSIENT,
                              SQLITE_UTF8);
    once_buf_release(&out);
    return err;
}

static int write_union(struct once_bytes state, sqlite3_context *context)
{
    return say_json(state, context, once__lite_write_union);
}

static int write_counts(struct once_bytes state, sqlite3_context *context)
{
    return say_json(state, context, once__lite_write_counts);
}

static int write_lww(struct once_bytes state, sqlite3_context *context)
{
    return say_json(state, context, once__lite_write_lww);
}

/* ---- Merging --------------------------------------------------------------------------------- */

static const struct kind kinds[] = {
    {"once_merge_max", read_max, write_max},  {"once_merge_min", read_min, write_min},
    {"once_merge_or", read_or, write_or},     {"once_merge_union", read_union, write_union},
    {"once_merge_vv", read_vv, write_counts}, {"once_merge_gcounter", read_gcounter, write_counts},
    {"once_merge_lww", read_lww, write_lww},
};

/* What is wrong, in the words of the other functions. */
static void say_error(sqlite3_context *context, const char *name, int err,
                      const struct once_defect *defect)
{
    struct once__lite_call call = {.context = context, .name = name};

    once__lite_error(&call, err, defect->what);
}

/* Two states; each may be NULL. */
static void merge_two(sqlite3_context *context, int count, sqlite3_value **values)
{
    const struct kind *kind = sqlite3_user_data(context);
    struct once_defect defect = {0, NULL};
    struct once_buf states[3];
    int err = ONCE_OK, given = 0;

    for (int i = 0; i < 3; i++)
        once_buf_init(&states[i], ONCE_LITE_ANSWER_SIZE_MAX);
    for (int i = 0; err == ONCE_OK && i < count; i++)
        if (sqlite3_value_type(values[i]) != SQLITE_NULL)
            err = kind->read(values[i], &states[given++], &defect);
    if (err == ONCE_OK && given == 2)
        err = once_lattice_merge(once_buf_bytes(&states[0]), once_buf_bytes(&states[1]),
                                 &states[2]);
    if (err == ONCE_OK && given > 0)
        err = kind->write(once_buf_bytes(&states[given == 2 ? 2 : 0]), context);
    if (err != ONCE_OK)
        say_error(context, kind->name, err, &defect);
    for (int i = 0; i < 3; i++)
        once_buf_release(&states[i]);
}

struct rows {
    struct once_buf levels[LEVELS]; /* level i holds 2^i rows, or nothing */
    bool begun;
    int err;
    struct once_defect defect;
};

static int merge_up(struct rows *rows, struct once_buf *state)
{
    int err = ONCE_OK;

    for (int level = 0; level < LEVELS; level++) {
        struct once_buf merged, *here = &rows->levels[level];

        if (here->size == 0) {
            once_buf_release(here);
            *here = *state;
            once_buf_init(state, ONCE_LITE_ANSWER_SIZE_MAX);
            return ONCE_OK;
        }
        once_buf_init(&merged, ONCE_LITE_ANSWER_SIZE_MAX);
        err = once_lattice_merge(once_buf_bytes(here), once_buf_bytes(state), &merged);
        if (err != ONCE_OK) {
            once_buf_release(&merged);
            return err;
        }
        once_buf_release(state);
        once_buf_release(here);
        *state = merged;
    }
    return ONCE_ERR_FULL; /* more rows than a table can have */
}

static void merge_step(sqlite3_context *context, int count, sqlite3_value **values)
{
    const struct kind *kind = sqlite3_user_data(context);
    struct rows *rows = sqlite3_aggregate_context(context, sizeof *rows);
    struct once_buf state;

    (void)count;
    if (!rows) {
        sqlite3_result_error_nomem(context);
        return;
    }
    if (!rows->begun) {
        for (int i = 0; i < LEVELS; i++)
            once_buf_init(&rows->levels[i], ONCE_LITE_ANSWER_SIZE_MAX);
        rows->begun = true;
    }
    if (rows->err != ONCE_OK || sqlite3_value_type(values[0]) == SQLITE_NULL)
        return;
    once_buf_init(&state, ONCE_LITE_ANSWER_SIZE_MAX);
    rows->err = kind->read(values[0], &state, &rows->defect);
    if (rows->err == ONCE_OK)
        rows->err = merge_up(rows, &state);
    once_buf_release(&state);
}

static int merge_levels(struct rows *rows, struct once_buf *all)
{
    for (int level = 0; level < LEVELS; level++) {
        struct once_buf merged, *here = &rows->levels[level];
        int err;

        if (here->size == 0)
            continue;
        if (all->size == 0) {
            once_buf_release(all);
            *all = *here;
            once_buf_init(here, 0);
            continue;
        }
        once_buf_init(&merged, ONCE_LITE_ANSWER_SIZE_MAX);
        err = once_lattice_merge(once_buf_bytes(all), once_buf_bytes(here), &merged);
        once_buf_release(all);
        *all = merged;
        if (err != ONCE_OK)
            return err;
    }
    return ONCE_OK;
}

static void merge_final(sqlite3_context *context)
{
    const struct kind *kind = sqlite3_user_data(context);
    struct rows *rows = sqlite3_aggregate_context(context, 0);
    struct once_buf all;
    int err;

    if (!rows || !rows->begun)
        return; /* no rows: NULL */
    once_buf_init(&all, ONCE_LITE_ANSWER_SIZE_MAX);
    err = rows->err;
    if (err == ONCE_OK)
        err = merge_levels(rows, &all);
    if (err == ONCE_OK && all.size > 0)
        err = kind->write(once_buf_bytes(&all), context);
    if (err != ONCE_OK)
        say_error(context, kind->name, err, &rows->defect);
    once_buf_release(&all);
    for (int i = 0; i < LEVELS; i++)
        once_buf_release(&rows->levels[i]);
}

int once__lite_merge_register(struct once__lite *lite)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int status = SQLITE_OK;

    for (size_t i = 0; status == SQLITE_OK && i < sizeof kinds / sizeof kinds[0]; i++) {
        void *kind = (void *)(uintptr_t)&kinds[i]; /* SQLite hands it back, and no more */

        status = sqlite3_create_function_v2(lite->db, kinds[i].name, 2, flags, kind, merge_two,
                                            NULL, NULL, NULL);
        if (status == SQLITE_OK)
            status = sqlite3_create_function_v2(lite->db, kinds[i].name, 1, flags, kind, NULL,
                                                merge_step, merge_final, NULL);
    }
    return status;
}

/* ---- Changing and reading states ------------------------------------------------------------- */

/* The state of an argument; NULL is the bottom. */
static bool state_arg(struct once__lite_call *call, int index, bool counter, struct once_buf *out)
{
    struct once_defect defect = {0, NULL};
    int err;

    if (!once__lite_given(call, index))
        err = once_lattice_bottom(counter ? ONCE_LATTICE_GCOUNTER : ONCE_LATTICE_VV, out);
    else
        err = counter ? read_gcounter(call->values[index], out, &defect)
                      : read_vv(call->values[index], out, &defect);
    if (err != ONCE_OK)
        once__lite_error(call, err, defect.what);
    return err == ONCE_OK;
}

static int add_counts(struct once_bytes state, struct once_bytes node, uint64_t amount,
                      bool counter, struct once_buf *out)
{
    struct once_buf delta;
    int err;

    once_buf_init(&delta, ONCE_LITE_ANSWER_SIZE_MAX);
    err = counter ? once_gcounter_add(state, node, amount, &delta)
                  : once_vv_increment(state, node, &delta);
    if (err == ONCE_OK)
        err = once_lattice_merge(state, once_buf_bytes(&delta), out);
    once_buf_release(&delta);
    return err;
}

/* The state in which the node has so many more. */
static void add(struct once__lite_call *call, bool counter)
{
    const struct once__lite_range range = {0, (int64_t)ONCE_VERSION_MAX, 1};
    struct once__lite_bytes node;
    struct once_buf state, next;
    int64_t amount = 1;

    if (!once__lite_bytes_arg(call, 1, "the node", ONCE_NODE_SIZE_MAX, &node) ||
        (counter && !once__lite_number_arg(call, 2, "the number", range, &amount)))
        return;
    if (node.bytes.size == 0 || !node.text) {
        once__lite_error(call, ONCE_ERR_INVALID, "a node's name is text of 1 to 64 bytes");
        return;
    }
    once_buf_init(&state, ONCE_LITE_ANSWER_SIZE_MAX);
    once_buf_init(&next, ONCE_LITE_ANSWER_SIZE_MAX);
    if (state_arg(call, 0, counter, &state)) {
        int err = add_counts(once_buf_bytes(&state), node.bytes, (uint64_t)amount, counter, &next);

        if (err == ONCE_OK)
            err = write_counts(once_buf_bytes(&next), call->context);
        if (err != ONCE_OK)
            once__lite_error(call, err, NULL);
    }
    once_buf_release(&state);
    once_buf_release(&next);
}

void once__lite_do_gcounter_add(struct once__lite_call *call)
{
    add(call, true);
}

void once__lite_do_vv_tick(struct once__lite_call *call)
{
    add(call, false);
}

void once__lite_do_gcounter_value(struct once__lite_call *call)
{
    struct once_buf state;
    uint64_t value;

    once_buf_init(&state, ONCE_LITE_ANSWER_SIZE_MAX);
    if (state_arg(call, 0, true, &state)) {
        int err = once_gcounter_value(once_buf_bytes(&state), &value);

        if (err == ONCE_OK && value > INT64_MAX)
            err = ONCE_ERR_OVERFLOW;
        if (err == ONCE_OK)
            sqlite3_result_int64(call->context, (sqlite3_int64)value);
        else
            once__lite_error(call, err, NULL);
    }
    once_buf_release(&state);
}

void once__lite_do_vv_order(struct once__lite_call *call)
{
    static const char *const words[] = {[ONCE_ORDER_EQUAL] = "equal",
                                        [ONCE_ORDER_BEFORE] = "before",
                                        [ONCE_ORDER_AFTER] = "after",
                                        [ONCE_ORDER_CONCURRENT] = "concurrent"};
    struct once_buf a, b;
    enum once_order order;

    once_buf_init(&a, ONCE_LITE_ANSWER_SIZE_MAX);
    once_buf_init(&b, ONCE_LITE_ANSWER_SIZE_MAX);
    if (state_arg(call, 0, false, &a) && state_arg(call, 1, false, &b)) {
        int err = once_lattice_compare(once_buf_bytes(&a), once_buf_bytes(&b), &order);

        if (err == ONCE_OK)
            sqlite3_result_text(call->context, words[order], -1, SQLITE_STATIC);
        else
            once__lite_error(call, err, NULL);
    }
    once_buf_release(&a);
    once_buf_release(&b);
}

/* A register that was written: time, node and a value, which is JSON. */
void once__lite_do_lww(struct once__lite_call *call)
{
    const struct once__lite_range range = {-(int64_t)ONCE_VERSION_MAX, (int64_t)ONCE_VERSION_MAX,
                                           INT64_MIN};
    struct once__lite_bytes node, value;
    struct once_defect defect = {0, NULL};
    struct once_buf canonical, state;
    struct once_lww write = {.time = 0};
    int err;

    if (!once__lite_number_arg(call, 0, "the time", range, &write.time) ||
        !once__lite_bytes_arg(call, 1, "the node", ONCE_NODE_SIZE_MAX, &node) ||
        !once__lite_bytes_arg(call, 2, "the value", ONCE_MEMBER_SIZE_MAX, &value))
        return;
    if (write.time == INT64_MIN || node.bytes.size == 0 || !node.text || !value.given) {
        once__lite_error(call, ONCE_ERR_INVALID,
                         "a write has a time, a node of 1 to 64 bytes, and a value that is JSON");
        return;
    }
    once_buf_init(&canonical, ONCE_LITE_ANSWER_SIZE_MAX);
    once_buf_init(&state, ONCE_LITE_ANSWER_SIZE_MAX);
    err = once_json_canonical(value.bytes, ONCE_JSON_EXACT, &canonical, &defect);
    write.node = node.bytes;
    write.value = once_buf_bytes(&canonical);
    if (err == ONCE_OK)
        err = once_lww_write(&write, &state);
    if (err == ONCE_OK)
        err = write_lww(once_buf_bytes(&state), call->context);
    if (err != ONCE_OK)
        once__lite_error(call, err, defect.what);
    once_buf_release(&canonical);
    once_buf_release(&state);
}
