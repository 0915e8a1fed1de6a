/* SPDX-License-Identifier: Apache-2.0
 *
 * Deciding a group: the flow of the engine (engine/operate.c, engine/apply.c) on rows instead of a
 * log. The stage says what effects come to; the objects that were found are a table that is made
 * for this one transaction.
 *
 * It holds: rows and things are changed by an op as a whole or not at all. An op that would make an
 * object larger than one may be here is found out only when its edits were put, which cannot be
 * undone: it is refused, and the others are decided again from the beginning, without it.
 *
 * Does no I/O and knows no time but that of the transaction.
 */
#include "store/postgres/pg_group.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "core/deed.h"
#include "store/call.h"

#include <stdlib.h>
#include <string.h>

/* Of a body beside the edits that were put: what an object begins with. */
enum { EDIT_OVERHEAD_SIZE = 512 };

/* Then the group is too large for this. */
enum { RESTARTS_MAX = 4 };

/* decide_op: an op was refused after it had changed something. */
enum { DECIDE_AGAIN = 1 };

/* ---- Names ----------------------------------------------------------------------------------- */

static int compare_names(struct once_name a, struct once_name b)
{
    int order = once__bytes_compare(a.ns, b.ns);

    return order != 0 ? order : once__bytes_compare(a.key, b.key);
}

static int compare_rows(const void *a, const void *b)
{
    return compare_names(((const struct once__pg_row *)a)->name,
                         ((const struct once__pg_row *)b)->name);
}

static int compare_things(const void *a, const void *b)
{
    return once__bytes_compare(((const struct once__pg_thing *)a)->name,
                               ((const struct once__pg_thing *)b)->name);
}

static struct once__pg_row *row_of(const struct once__pg_group *group, const struct once_op *op)
{
    struct once__pg_row wanted = {.name = {op->ns, op->key}};
    struct once__pg_row *row = bsearch(&wanted, group->rows, group->row_count, sizeof(*group->rows),
                                       compare_rows);

    ONCE_ASSERT(row);
    return row;
}

static struct once__pg_thing *thing_of(const struct once__pg_group *group, struct once_bytes name)
{
    struct once__pg_thing wanted = {.name = name};
    struct once__pg_thing *thing = bsearch(&wanted, group->things, group->thing_count,
                                           sizeof(*group->things), compare_things);

    ONCE_ASSERT(thing);
    return thing;
}

static void sort_rows(struct once__pg_group *group)
{
    size_t count = 0;

    qsort(group->rows, group->row_count, sizeof(*group->rows), compare_rows);
    for (size_t i = 0; i < group->row_count; i++) {
        if (count == 0 || compare_rows(&group->rows[count - 1], &group->rows[i]) != 0)
            group->rows[count++] = group->rows[i];
    }
    group->row_count = count;
}

static void sort_things(struct once__pg_group *group)
{
    size_t count = 0;

    qsort(group->things, group->thing_count, sizeof(*group->things), compare_things);
    for (size_t i = 0; i < group->thing_count; i++) {
        if (count == 0 || compare_things(&group->things[count - 1], &group->things[i]) != 0)
            group->things[count++] = group->things[i];
    }
    group->thing_count = count;
}

int once__pg_group_gather(struct once__pg_group *group)
{
    size_t thing_count = 0;

    ONCE_ASSERT(group->count > 0);
    for (size_t i = 0; i < group->count; i++)
        thing_count += group->ops[i]->inner.deed_count;
    group->refused = calloc(group->count, sizeof(*group->refused));
    group->fences = calloc(group->count, sizeof(*group->fences));
    group->rows = calloc(group->count, sizeof(*group->rows));
    group->things = calloc(thing_count + 1, sizeof(*group->things));
    if (!group->refused || !group->fences || !group->rows || !group->things)
        return ONCE_ERR_MEMORY;
    for (size_t i = 0; i < group->count; i++) {
        const struct once_op *op = group->ops[i];
        const struct once__deed *deeds = op->inner.deeds;

        if (once__call_named(op))
            group->rows[group->row_count++].name = (struct once_name){op->ns, op->key};
        for (size_t j = 0; j < op->inner.deed_count; j++)
            group->things[group->thing_count++].name = deeds[j].name;
    }
    sort_rows(group);
    sort_things(group);
    return ONCE_OK;
}

void once__pg_group_release(struct once__pg_group *group)
{
    for (size_t i = 0; group->things && i < group->thing_count; i++)
        once_buf_release(&group->things[i].body);
    free(group->things);
    free(group->rows);
    free(group->fences);
    free(group->refused);
    once__objects_free(group->objects);
    for (size_t i = 0; i < sizeof(group->results) / sizeof(*group->results); i++)
        PQclear(group->results[i]);
    memset(group, 0, sizeof(*group));
}

/* ---- What was found -------------------------------------------------------------------------- */

int once__pg_body_load(struct once__objects *objects, struct once_bytes name,
                       struct once_bytes body)
{
    struct once_defect defect;
    size_t offset = 0;
    int err = ONCE_OK;

    while (err == ONCE_OK && offset < body.size) {
        struct once__edit edit;

        err = once__edit_decode(body, &offset, &edit, &defect);
        if (err == ONCE_OK && !once__bytes_equal(edit.name, name))
            err = ONCE_ERR_DAMAGED;
        if (err == ONCE_OK)
            err = once__objects_put(objects, &edit);
    }
    return err;
}

/* Everything as it was found. */
static int restart(struct once__pg_group *group)
{
    int err = ONCE_OK;

    once__objects_free(group->objects);
    group->objects = NULL;
    group->version = 0;
    group->changed_count = 0;
    if (group->thing_count > 0)
        err = once__objects_new(group->secret, &group->objects);
    for (size_t i = 0; err == ONCE_OK && i < group->thing_count; i++) {
        struct once__pg_thing *thing = &group->things[i];

        thing->order = 0;
        thing->id = thing->found_id;
        thing->size = thing->found.size;
        if ((uint64_t)thing->found_version > group->version)
            group->version = (uint64_t)thing->found_version;
        err = once__pg_body_load(group->objects, thing->name, thing->found);
        if (err == ONCE_ERR_DAMAGED) {
            thing->damaged = true;
            err = ONCE_OK;
        }
    }
    for (size_t i = 0; i < group->row_count; i++) {
        struct once__pg_row *row = &group->rows[i];

        row->record = row->found;
        row->id = row->found_id;
        row->changed = false;
    }
    return err;
}

/* ---- One op ---------------------------------------------------------------------------------- */

static int stage(struct once__pg_group *group, struct once_op *op, bool has_key,
                 struct once__staged *ret_staged)
{
    const struct once__deed *deeds = op->inner.deeds;
    struct once__stage_input input = {
        .objects = group->objects,
        .deeds = deeds,
        .deed_count = op->inner.deed_count,
        .has_key = has_key,
        .now_ms = group->now_ms,
        .version = group->version + 1,
        .memory_max = UINT64_MAX, /* what a group may hold was bounded when it was read */
    };
    const char *what = NULL;
    uint32_t effect = 0;
    int err;

    for (size_t i = 0; i < op->inner.deed_count; i++) {
        if (!thing_of(group, deeds[i].name)->damaged)
            continue;
        once__call_refuse(op, ONCE_ERR_DAMAGED, "the object's row in once.object cannot be read");
        op->reply.effect = (uint32_t)i + 1;
        return ONCE_ERR_DAMAGED;
    }
    err = once__stage_run(group->stage, &input, ret_staged, &effect, &what);
    if (err != ONCE_OK) {
        once__call_refuse(op, err, what ? what : once_err_text(err));
        op->reply.effect = effect;
    }
    return err;
}

/* Marks what the edits change. */
static int note_edits(struct once__pg_group *group, struct once_bytes edits)
{
    struct once_defect defect;
    size_t offset = 0;

    while (offset < edits.size) {
        size_t start = offset;
        struct once__pg_thing *thing;
        struct once__edit edit;
        int err = once__edit_decode(edits, &offset, &edit, &defect);

        if (err != ONCE_OK)
            return err;
        thing = thing_of(group, edit.name);
        if (thing->order == 0)
            thing->order = ++group->changed_count;
        thing->size += offset - start + EDIT_OVERHEAD_SIZE;
    }
    return ONCE_OK;
}

static int dump(const struct once__pg_group *group, struct once__pg_thing *thing)
{
    const struct once__object *object = once__objects_find(group->objects, thing->name);
    uint64_t part = 0;

    ONCE_ASSERT(object);
    once_buf_clear(&thing->body);
    thing->body.size_max = ONCE_PG_OBJECT_SIZE_MAX;
    return once__object_dump(object, &part, SIZE_MAX, &thing->body);
}

/* Is an object of the op too large now? Its size was only estimated so far. */
static int check_sizes(struct once__pg_group *group, struct once_op *op)
{
    const struct once__deed *deeds = op->inner.deeds;

    for (size_t i = 0; i < op->inner.deed_count; i++) {
        struct once__pg_thing *thing = thing_of(group, deeds[i].name);
        int err;

        if (thing->size <= ONCE_PG_OBJECT_SIZE_MAX)
            continue;
        err = dump(group, thing);
        if (err == ONCE_ERR_FULL) {
            once__call_refuse(op, err,
                              "an object of a shared store takes at most 4 MiB; take messages out "
                              "(SENT), or go on under another name");
            op->reply.effect = (uint32_t)i + 1;
            return DECIDE_AGAIN;
        }
        if (err != ONCE_OK)
            return err;
        thing->size = thing->body.size;
    }
    return ONCE_OK;
}
_Static_assert(ONCE_PG_OBJECT_SIZE_MAX == 1 << 22, "the text above says so");

/* Makes true what was staged. It was told into the reply already, because this uses the stage. */
static int put(struct once__pg_group *group, struct once_op *op, const struct once__staged *staged)
{
    int err;

    if (!staged->changed)
        return ONCE_OK;
    group->version++;
    err = note_edits(group, staged->edits);
    if (err == ONCE_OK)
        err = once__stage_put(group->stage, group->objects, NULL);
    return err == ONCE_OK ? check_sizes(group, op) : err;
}

static int decide_nameless(struct once__pg_group *group, struct once_op *op)
{
    struct once_decision decision = {.word = ONCE_APPLIED};
    struct once__staged staged;

    if (stage(group, op, false, &staged) != ONCE_OK)
        return ONCE_OK;
    if (staged.rejected) {
        decision.word = ONCE_REJECTED;
        decision.next.code = ONCE_CODE_REJECTED;
    }
    decision.next.result = staged.result;
    if (once__call_tell(op, &decision, group->now_ms) != ONCE_OK)
        return ONCE_OK;
    return put(group, op, &staged);
}

/* begin, effects and complete in one. The decision borrows from the stage. */
static int decide_apply(struct once__pg_group *group, struct once_op *op,
                        struct once_decision *decision, struct once__staged *ret_staged)
{
    struct once_record started = decision->next;
    struct once_answer answer;
    int err;

    ONCE_ASSERT(started.state == ONCE_STATE_STARTED);
    err = stage(group, op, true, ret_staged);
    if (err != ONCE_OK)
        return err;
    answer.code = ret_staged->rejected ? ONCE_CODE_REJECTED : ONCE_CODE_APPLIED;
    answer.result = ret_staged->result;
    *decision = once__decide_complete(&started, started.fence, &answer, group->now_ms);
    ONCE_ASSERT(decision->word == ONCE_DONE && decision->changed);
    decision->word = ret_staged->rejected ? ONCE_REJECTED : ONCE_APPLIED;
    return ONCE_OK;
}

static void change_row(struct once__pg_group *group, size_t index, struct once__pg_row *row,
                       const struct once_decision *decision)
{
    const struct once_op *op = group->ops[index];
    bool first = once__state_at(&row->record, group->now_ms) == ONCE_STATE_ABSENT;

    row->record = decision->next;
    if (decision->word == ONCE_APPLIED || decision->word == ONCE_REJECTED)
        row->record.result = op->reply.result; /* the reply stays, the stage does not */
    if (first)
        row->id = (int64_t)row->record.fence;
    row->call = group->ids[index];
    row->changed = true;
}

static int decide_named(struct once__pg_group *group, size_t index)
{
    struct once_op *op = group->ops[index];
    struct once__pg_row *row = row_of(group, op);
    struct once_moment at = {.now_ms = group->now_ms, .next_fence = group->fences[index]};
    struct once__staged staged = {.changed = false};
    struct once_decision decision;

    if (row->damaged || row->record.fence >= at.next_fence) {
        once__call_refuse(op, ONCE_ERR_DAMAGED,
                          row->damaged ? "the operation's row in once.operation cannot be read"
                                       : "once.fence_seq was set back: it gives fences that were "
                                         "given before");
        return ONCE_OK;
    }
    if (once__call_decide(op, &row->record, at, &decision) != ONCE_OK)
        return ONCE_OK;
    if (op->call == ONCE_CALL_APPLY && decision.word == ONCE_EXECUTE &&
        decide_apply(group, op, &decision, &staged) != ONCE_OK)
        return ONCE_OK;
    if (once__call_tell(op, &decision, at.now_ms) != ONCE_OK)
        return ONCE_OK;
    if (decision.changed)
        change_row(group, index, row, &decision);
    return put(group, op, &staged);
}

/* ONCE_OK also when the op was refused: its reply says so. */
static int decide_op(struct once__pg_group *group, size_t index)
{
    struct once_op *op = group->ops[index];

    ONCE_ASSERT(op->call == ONCE_CALL_APPLY || op->call == ONCE_CALL_MERGE ||
                op->call == ONCE_CALL_SET || op->call == ONCE_CALL_EXPIRE);
    return once__call_named(op) ? decide_named(group, index) : decide_nameless(group, op);
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* *ret_again: one was refused, and the rest must be decided without it. */
static int decide_all(struct once__pg_group *group, bool *ret_again)
{
    size_t size = 0; /* of all answers */
    int err = restart(group);

    *ret_again = false;
    for (size_t i = 0; err == ONCE_OK && i < group->count; i++) {
        if (group->refused[i])
            continue;
        once_reply_release(&group->ops[i]->reply);
        err = decide_op(group, i);
        size += group->ops[i]->reply.result.size;
        if (err == ONCE_OK && size > ONCE_PG_ANSWERS_SIZE_MAX)
            return ONCE_ERR_FULL;
        if (err != DECIDE_AGAIN)
            continue;
        group->refused[i] = true;
        *ret_again = true;
        return ONCE_OK;
    }
    return err;
}

/* New objects are numbered in the order in which they were first used. Their numbers were drawn
 * when they were held, in the order of their names. */
static int number_things(struct once__pg_group *group)
{
    struct once__pg_thing **first = calloc(group->changed_count + 1, sizeof(*first));
    size_t next = 0;

    if (!first)
        return ONCE_ERR_MEMORY;
    for (size_t i = 0; i < group->thing_count; i++) {
        if (group->things[i].order > 0 && group->things[i].found_id < 0)
            first[group->things[i].order - 1] = &group->things[i];
    }
    for (size_t i = 0; i < group->thing_count; i++) {
        if (group->things[i].order == 0 || group->things[i].found_id >= 0)
            continue;
        while (!first[next])
            next++;
        first[next++]->id = -group->things[i].found_id;
    }
    free(first);
    return ONCE_OK;
}

int once__pg_group_decide(struct once__pg_group *group)
{
    bool again = true;
    int err = ONCE_OK;

    for (unsigned i = 0; err == ONCE_OK && again; i++) {
        if (i == RESTARTS_MAX && group->count > 1)
            return ONCE_ERR_FULL;
        err = decide_all(group, &again);
    }
    for (size_t i = 0; err == ONCE_OK && i < group->thing_count; i++) {
        if (group->things[i].order > 0)
            err = dump(group, &group->things[i]);
    }
    return err == ONCE_OK ? number_things(group) : err;
}
