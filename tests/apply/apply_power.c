/* SPDX-License-Identifier: Apache-2.0
 *
 * Power cuts of applies: random effects on objects, under keys and without, on a disk that loses
 * power, against a second bookkeeping (world.h).
 *
 *     apply_power --cuts 20000          at least that many cuts; 1 and a history on a violation
 *     apply_power --seed 7 --verbose    one run again, with everything that happens in it
 *     apply_power --exhaustive          small workloads, a fault at every disk operation
 *     apply_power --mutant edits-forgotten    a broken engine: 0 when it is caught
 *
 * ONCE_APPLY_CUTS overrides --cuts: slow builds do fewer. Lives, faults, keys and the journal are
 * the power test's (tests/power); here is what applies add to it.
 */
#include "apply/ask.h"
#include "apply/show.h"
#include "base/sha256.h"
#include "engine/format.h"
#include "power/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct objects {
    struct world *world;
    struct asker asker;
    struct {
        uint64_t applied;
        uint64_t rejected;
        uint64_t replayed;
        uint64_t refused; /* wrong types, no key, no sense */
        uint64_t mismatched;
        uint64_t in_the_way; /* BUSY, DOUBT, TOO_OLD */
        uint64_t keyless;
        uint64_t looks;
        uint64_t snapshots;
    } counts;
};

/* ---- Asking and deciding --------------------------------------------------------------------- */

static void start(void *self, struct model *model, struct chance *chance, bool short_run)
{
    struct objects *objects = self;

    world_clear(objects->world, model);
    asker_start(&objects->asker, objects->world, chance);
    if (short_run)
        objects->asker.large_percent = 60;
}

static bool next(void *self, struct chance *chance, once_ms now_ms, int *ret_key,
                 struct once_op *ret_op)
{
    struct objects *objects = self;
    const struct world *world = objects->world;
    const struct request *request;

    if (chance_percent(chance, 30))
        return false;
    request = asker_next(&objects->asker, chance, now_ms);
    *ret_op = (struct once_op){.call = ONCE_CALL_APPLY,
                               .dos = request->dos, /* of a merge too: it is known by them */
                               .do_count = request->count,
                               .fingerprint = request->fingerprint,
                               .ttl_ms = request->ttl_ms};
    if (request->merges) {
        ret_op->call = ONCE_CALL_MERGE;
        ret_op->do_count = 0;
        ret_op->key = once_bytes_of(world->names[request->asks[0].object]);
        ret_op->data = request->state;
    } else if (request->key != HISTORY_NO_KEY) {
        ret_op->ns = world->model->names[request->key].ns;
        ret_op->key = world->model->names[request->key].key;
    }
    *ret_key = request->key;
    return true;
}

/* Of the words: as long as the request is the same, so is this. */
static struct once_fingerprint fingerprint_of(const struct once_op *op)
{
    struct once_fingerprint fingerprint = {{0}};
    struct once__sha256 hash = {NULL};
    struct once__sha256_digest digest = {{0}};
    int err;

    if (op->fingerprint.size > 0) {
        memcpy(fingerprint.bytes, op->fingerprint.data, ONCE_FINGERPRINT_SIZE);
        return fingerprint;
    }
    err = once__sha256_init(&hash);
    for (size_t i = 0; err == ONCE_OK && i < op->do_count; i++) {
        err = once__sha256_add_number(&hash, op->dos[i].count);
        for (size_t j = 0; err == ONCE_OK && j < op->dos[i].count; j++)
            err = once__sha256_add_sized(&hash, op->dos[i].words[j]);
    }
    if (err == ONCE_OK)
        err = once__sha256_finish(&hash, &digest);
    if (err != ONCE_OK)
        abort();
    once__sha256_release(&hash);
    memcpy(fingerprint.bytes, digest.bytes, sizeof(fingerprint.bytes));
    return fingerprint;
}

/* A rejection says which effect and why in one word; its sentence for people is whatever it was the
 * first time. Where the store could not answer any more that is not known. */
static struct once_bytes rejection(struct world *world, const struct once_op *op,
                                   const struct outcome *outcome)
{
    char text[128];
    int size = snprintf(text, sizeof(text),
                        "{\"rejected\":%" PRIu32 ",\"word\":\"%s\",\"reason\":\"", outcome->effect,
                        outcome->rejected);
    struct once_bytes begin = {(uint8_t *)text, (size_t)size}, told = op->reply.result;
    struct once_rejection read;

    if (op->reply.err == ONCE_OK && op->reply.word == ONCE_REJECTED && told.size > begin.size &&
        memcmp(told.data, begin.data, begin.size) == 0 &&
        once_rejection_read(told, &read) == ONCE_OK && read.reason.size > 0)
        begin = told;
    return world_copy(world, begin);
}

static size_t weight_of(const struct once_op *op)
{
    size_t weight = op->data.size;

    for (size_t i = 0; i < op->do_count; i++) {
        weight += 300;
        for (size_t j = 0; j < op->dos[i].count; j++)
            weight += op->dos[i].words[j].size;
    }
    return weight;
}

/* Does any of the effects need memory that stays? What there is can be changed where it is. */
static bool grows(const struct world *world, const struct request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        switch ((unsigned)request->asks[i].kind) {
        case ASK_ADD:
        case ASK_FLAG:
        case ASK_DELETE:
        case ASK_MOVE:
        case ASK_GRANT:
        case ASK_GUARD:
        case ASK_RENEW:
        case ASK_RELEASE:
        case ASK_HOLD:
        case ASK_SEQ:
        case ASK_SENT:
            if (world->now[request->asks[i].object]->type == ONCE_OBJECT_NONE)
                return true;
            break;
        default:
            return true;
        }
    }
    return false;
}

static void count(struct objects *objects, enum once_word word)
{
    switch ((unsigned)word) {
    case ONCE_APPLIED:
        objects->counts.applied++;
        break;
    case ONCE_REJECTED:
        objects->counts.rejected++;
        break;
    case ONCE_REPLAY:
        objects->counts.replayed++;
        break;
    case ONCE_MISMATCH:
        objects->counts.mismatched++;
        break;
    default:
        objects->counts.in_the_way++;
        break;
    }
}

static int decide(void *self, const struct once_op *op, struct promise *promise)
{
    struct objects *objects = self;
    struct world *world = objects->world;
    const struct request *request = (const struct request *)(const void *)op->dos;
    struct once_decision *decision = &promise->decision;
    bool has_key = request->key != HISTORY_NO_KEY;
    struct once_answer answer;
    struct outcome outcome;
    int err = ONCE_OK;

    promise->weight = weight_of(op);
    promise->grows = grows(world, request);
    world_decide(world, request, has_key, promise->now_ms, &outcome);
    if (has_key && outcome.err != ONCE_ERR_INVALID) {
        struct once_fingerprint fingerprint = fingerprint_of(op);

        err = model_begin(world->model, request->key, op, &fingerprint, promise->now_ms, decision);
    }
    if (err == ONCE_OK && has_key && outcome.err != ONCE_ERR_INVALID &&
        decision->word != ONCE_EXECUTE) {
        world->stage.count = 0; /* the effects are not even looked at */
        promise->grows = false;
        count(objects, decision->word);
        return ONCE_OK;
    }
    promise->effect = err == ONCE_OK && outcome.err != ONCE_OK ? outcome.effect : 0;
    err = err == ONCE_OK ? outcome.err : err;
    if (err != ONCE_OK) {
        *decision = (struct once_decision){.word = ONCE_DONE};
        world->stage.count = 0;
        objects->counts.refused++;
        return err;
    }

    answer.code = outcome.rejected ? ONCE_CODE_REJECTED : ONCE_CODE_APPLIED;
    answer.result = outcome.rejected
                        ? rejection(world, op, &outcome)
                        : world_copy(world,
                                     (struct once_bytes){(uint8_t *)outcome.result, outcome.size});
    promise->reveals = world_stage_reveals(world);
    if (has_key) {
        struct once_record started = decision->next;

        *decision = once__decide_complete(&started, started.fence, &answer, promise->now_ms);
    } else {
        *decision = (struct once_decision){.changed = outcome.changed};
        decision->next.code = answer.code;
        decision->next.result = answer.result;
        objects->counts.keyless++;
    }
    decision->word = outcome.rejected ? ONCE_REJECTED : ONCE_APPLIED;
    count(objects, decision->word);
    return ONCE_OK;
}

static void enter(void *self, const struct promise *promise)
{
    struct objects *objects = self;

    if (promise->call != ONCE_CALL_APPLY && promise->call != ONCE_CALL_MERGE)
        objects->world->stage.count = 0;
    world_enter(objects->world);
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* What the store shows of an object. False when it cannot, which is judged here. */
static bool see(struct objects *objects, struct drive *drive, int object, struct show *ret_show)
{
    struct once_stats stats;
    int err;

    drive->quiet = true; /* callbacks may run inside */
    err = show_object(drive->store, drive->chance, objects->world->names[object], ret_show);
    drive->quiet = false;
    drive_look_for_decisions(drive);
    once_stats_get(drive->store, &stats);
    drive->failed = drive->failed || stats.stopped;
    objects->counts.looks++;
    if (err == ONCE_OK)
        return true;
    if (!(err == ONCE_ERR_IO || err == ONCE_ERR_STOPPED) ||
        (!drive->may_fail && !disk_is_cut(drive->disk)))
        model_break(drive->model, HISTORY_NO_KEY, "looking at %s: %s",
                    objects->world->names[object], once_err_name(err));
    return false;
}

static void differs(struct objects *objects, int object, const struct show *seen)
{
    struct model *model = objects->world->model;
    struct show expected;

    show_thing(objects->world, object, objects->world->now[object], &expected);
    model_break(model, HISTORY_NO_KEY,
                "INV-2, INV-3: %s is %.*s: no prefix of the decisions from %zu to %zu of %zu gives "
                "that; after all of them it would be %.*s",
                objects->world->names[object], (int)(seen->size < 180 ? seen->size : 180),
                seen->text, model->floor, model->count, model->count,
                (int)(expected.size < 180 ? expected.size : 180), expected.text);
}

/* After a crash: which prefixes give this object? */
static void weigh(struct objects *objects, int object, const struct show *seen)
{
    struct world *world = objects->world;
    struct model *model = world->model;
    const struct thing *before = NULL;
    bool same = false, any = false;

    for (size_t prefix = 0, at = 0; prefix <= model->count; prefix++) {
        const struct thing *thing = prefix == 0 ? world->base[object] : before;
        struct show expected;

        for (; at < world->change_count && world->changes[at].entry <= prefix; at++) {
            if (world->changes[at].object == object)
                thing = world->changes[at].after;
        }
        if (thing != before) {
            show_thing(world, object, thing, &expected);
            same = show_equal(&expected, seen);
        }
        before = thing;
        model->possible[prefix] = model->possible[prefix] && same;
        any = any || model->possible[prefix];
    }
    if (!any)
        differs(objects, object, seen);
}

static bool look(void *self, struct drive *drive)
{
    struct objects *objects = self;
    struct once_stats stats;
    bool any = false;

    if (!drive->model->guessing) /* the first life: there is nothing */
        return true;
    for (int i = 0; i < objects->world->object_count && !drive_over(drive); i++) {
        struct show seen;

        if (!see(objects, drive, i, &seen))
            return false;
        weigh(objects, i, &seen);
    }
    if (drive_over(drive))
        return false;
    once_stats_get(drive->store, &stats);
    for (size_t prefix = 0; prefix <= drive->model->count; prefix++) {
        uint64_t change = prefix == 0 ? objects->world->base_change
                                      : objects->world->changes_after[prefix];

        any = any || (drive->model->possible[prefix] && change == stats.changes);
    }
    if (!any)
        model_break(drive->model, HISTORY_NO_KEY,
                    "the store counts %" PRIu64 " changes of objects, which nothing explains",
                    stats.changes);
    return !drive_over(drive);
}

static void settle(void *self, size_t prefix, const struct once_stats *stats)
{
    struct objects *objects = self;

    world_settle(objects->world, prefix, stats->changes);
}

/* In a life: it is what it was after some prefix that may be durable; being shown makes it so. */
static void see_one(struct objects *objects, struct drive *drive, int object)
{
    struct world *world = objects->world;
    struct model *model = drive->model;
    const struct thing *thing = world->base[object];
    struct show seen, expected;
    size_t since = 0;

    if (!see(objects, drive, object, &seen))
        return;
    if (drive->failed)
        model_break(model, HISTORY_NO_KEY, "INV-8: %s was shown after a write had failed",
                    world->names[object]);
    for (size_t prefix = 0, at = 0; prefix <= model->count; prefix++) {
        for (; at < world->change_count && world->changes[at].entry <= prefix; at++) {
            if (world->changes[at].object != object)
                continue;
            thing = world->changes[at].after;
            since = prefix;
        }
        if (prefix < model->floor)
            continue;
        show_thing(world, object, thing, &expected);
        if (!show_equal(&expected, &seen))
            continue;
        if (since > model->floor)
            model->floor = since; /* it was shown: it is durable (INV-2) */
        drive_note(drive, "an object was shown; durable now:", (int64_t)model->floor);
        return;
    }
    differs(objects, object, &seen);
}

static void step(void *self, struct drive *drive)
{
    struct objects *objects = self;
    int looks = 1 + (int)chance_below(drive->chance, 4);

    while (looks-- > 0 && !drive_over(drive) && !drive->failed && drive_may_block(drive))
        see_one(objects, drive,
                (int)chance_below(drive->chance, (uint64_t)objects->world->object_count));
}

static uint64_t count_objects(const struct world *world)
{
    uint64_t existing = 0;

    for (int i = 0; i < world->object_count; i++)
        existing += world->now[i]->type != ONCE_OBJECT_NONE;
    return existing;
}

static void numbers(void *self, const struct once_stats *stats)
{
    struct objects *objects = self;
    struct world *world = objects->world;

    if (stats->changes != world->change)
        model_break(world->model, HISTORY_NO_KEY,
                    "%" PRIu64 " changes of objects were made, the store counts %" PRIu64,
                    world->change, stats->changes);
    if (stats->objects != count_objects(world))
        model_break(world->model, HISTORY_NO_KEY,
                    "there are %" PRIu64 " objects, the store counts %" PRIu64,
                    count_objects(world), stats->objects);
}

struct listing {
    struct world *world;
    uint64_t count;
    uint64_t last_birth;
};

static void on_listed(void *user, struct once_bytes name, enum once_object_type type)
{
    struct listing *listing = user;
    struct world *world = listing->world;

    for (int i = 0; i < world->object_count; i++) {
        const struct thing *thing = world->now[i];

        if (!once__bytes_equal(name, once_bytes_of(world->names[i])))
            continue;
        if (thing->type != type || type == ONCE_OBJECT_NONE)
            model_break(world->model, HISTORY_NO_KEY, "%s is listed as a %s", world->names[i],
                        once_object_type_name(type));
        if (thing->birth <= listing->last_birth)
            model_break(world->model, HISTORY_NO_KEY, "%s is listed twice or out of order",
                        world->names[i]);
        listing->last_birth = thing->birth;
        listing->count++;
        return;
    }
    model_break(world->model, HISTORY_NO_KEY, "an object is listed that never was");
}

static void compare(void *self, struct drive *drive)
{
    struct objects *objects = self;
    struct listing listing = {.world = objects->world};
    uint64_t cursor = 0;
    int err;

    for (int i = 0; i < objects->world->object_count && !drive_over(drive) && !drive->failed; i++)
        see_one(objects, drive, i);
    if (drive_over(drive) || drive->failed)
        return;
    do {
        err = once_object_list(drive->store, cursor, 1 + chance_below(drive->chance, 20), on_listed,
                               &listing, &cursor);
    } while (err == ONCE_OK && cursor != 0);
    if (err != ONCE_OK)
        model_break(drive->model, HISTORY_NO_KEY, "once_object_list: %s", once_err_name(err));
    else if (listing.count != count_objects(objects->world))
        model_break(drive->model, HISTORY_NO_KEY,
                    "%" PRIu64 " objects are listed, there are %" PRIu64, listing.count,
                    count_objects(objects->world));
}

static struct once_bytes keep(void *self, struct once_bytes bytes)
{
    return world_copy(((struct objects *)self)->world, bytes);
}

static void over(void *self, const struct once_stats *stats)
{
    ((struct objects *)self)->counts.snapshots += stats->snapshots;
}

/* ---- The command ----------------------------------------------------------------------------- */

static struct objects objects;

static void finish(void)
{
    printf("%" PRIu64 " applied, %" PRIu64 " rejected, %" PRIu64 " replayed, %" PRIu64
           " mismatches, %" PRIu64 " busy, in doubt or too old, %" PRIu64 " refused, %" PRIu64
           " without a key; %" PRIu64 " looks at objects, %" PRIu64 " snapshots\n",
           objects.counts.applied, objects.counts.rejected, objects.counts.replayed,
           objects.counts.mismatched, objects.counts.in_the_way, objects.counts.refused,
           objects.counts.keyless, objects.counts.looks, objects.counts.snapshots);
    world_free(objects.world);
}

int main(int argc, char **argv)
{
    static struct extension extension = {.self = &objects,
                                         .start = start,
                                         .next = next,
                                         .decide = decide,
                                         .enter = enter,
                                         .look = look,
                                         .settle = settle,
                                         .step = step,
                                         .numbers = numbers,
                                         .compare = compare,
                                         .keep = keep,
                                         .over = over,
                                         .file = ONCE__OBJECTS_NAME};
    static const struct command command = {.name = "apply_power",
                                           .cuts_variable = "ONCE_APPLY_CUTS",
                                           .extension = &extension,
                                           .finish = finish};

    objects.world = calloc(1, sizeof(*objects.world));
    if (!objects.world)
        abort();
    return command_main(&command, argc, argv);
}
