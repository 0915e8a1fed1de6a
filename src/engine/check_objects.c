/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects of a check: reads the snapshot, puts the changes of the log over it, and so finds
 * what a recovery would find, with the reasons.
 *
 * What is damaged is planned over here too. A repair writes the snapshot again with every chunk
 * that can be read, marked as repaired, to be replayed from the oldest segment that there is: an
 * edit says what came of an object, so old ones over newer objects do no harm, and objects that the
 * snapshot has lost get back what the log has of them. From the first damage on the replay is as
 * lenient as the recovery of such a store will be.
 *
 * Writes nothing; that is repair.c's.
 */
#include "engine/check_inner.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "engine/edits.h"

struct replay {
    struct once__check *check;
    struct once__check_segment *segment; /* that is read */
    struct once__objects *objects;
    struct once__snapshot_scan *scan;
    uint64_t unfit;      /* SNAPSHOT: offset of a chunk whose edits cannot be; 0: none */
    const char *why;     /* and why */
    bool lenient;        /* something is given up, now or before */
    bool told_misfit;    /* one finding is enough */
    bool told_malformed; /* the same */
    bool anywhere;       /* the first change may be any: the snapshot is lost */
    bool holes;          /* changes are missing in the log */
    bool any;
    uint64_t last;              /* change */
    struct once__patch *behind; /* a batch that a repair gives up came after the last change */
};

static struct once__finding *add(struct replay *replay, enum once__finding_kind kind,
                                 enum once__remedy remedy,
                                 const struct once__check_segment *segment, uint64_t offset)
{
    struct once__finding *finding = once__check_add(replay->check, kind, remedy, segment);

    if (!finding)
        return NULL;
    if (!segment)
        snprintf(finding->file, sizeof(finding->file), "%s", ONCE__OBJECTS_NAME);
    finding->offset = offset;
    if (remedy == ONCE__REMEDY_NEW_SNAPSHOT) {
        replay->check->new_snapshot = true;
        replay->lenient = true;
    }
    return finding;
}

/* ---- The log --------------------------------------------------------------------------------- */

static int replay_batch(void *user, const struct once__scan_batch *batch)
{
    struct replay *replay = user;
    struct once__check_segment *segment = replay->segment;

    for (size_t i = 0; i < segment->patch_count; i++) {
        if (segment->patches[i].offset == batch->offset && !replay->behind)
            replay->behind = &segment->patches[i];
    }
    return ONCE_OK;
}

/* Changes are missing, or come twice, before the one with this number. */
static int tell_gap(struct replay *replay, uint64_t change, uint32_t offset)
{
    uint64_t known = replay->last;
    struct once__finding *finding;
    bool given_up = replay->lenient;

    if (replay->behind) {
        if (known < replay->check->snapshot.header.change)
            known = replay->check->snapshot.header.change; /* the snapshot has what they came to */
        replay->behind->changes += change > known + 1 ? change - known - 1 : 0;
        return ONCE_OK;
    }
    finding = add(replay, ONCE__FINDING_CHANGES,
                  given_up ? ONCE__REMEDY_NOTHING : ONCE__REMEDY_NEW_SNAPSHOT, replay->segment,
                  offset);
    if (!finding)
        return ONCE_ERR_MEMORY;
    if (change > known + 1) {
        finding->loss.changes = change - known - 1;
        once__check_say(finding,
                        "changes %" PRIu64 " to %" PRIu64 " of objects are missing before change "
                        "%" PRIu64 "%s",
                        known + 1, change - 1, change,
                        given_up ? ": an earlier repair gave something up" : "");
    } else {
        once__check_say(finding, "change %" PRIu64 " of objects comes after change %" PRIu64,
                        change, known);
    }
    return ONCE_OK;
}

/* Puts the edits; strictly first, then as after a repair. */
static int put_edits(struct replay *replay, uint32_t offset, const struct once__log_record *rec)
{
    struct once_defect defect = {0};
    struct once__finding *finding;
    int err = once__edits_put(replay->objects, NULL, rec->edits, replay->lenient, &defect);

    if (err == ONCE_ERR_DAMAGED && !replay->lenient) {
        err = once__edits_put(replay->objects, NULL, rec->edits, true, &defect);
        if (err == ONCE_OK && !replay->told_misfit) {
            replay->told_misfit = true;
            finding = add(replay, ONCE__FINDING_CHANGES, ONCE__REMEDY_NEW_SNAPSHOT, replay->segment,
                          offset);
            if (!finding)
                return ONCE_ERR_MEMORY;
            finding->loss.changes = 1;
            once__check_say(finding, "change %" PRIu64 " does not fit the objects", rec->change);
        }
    }
    if (err != ONCE_ERR_DAMAGED || replay->told_malformed)
        return err == ONCE_ERR_DAMAGED ? ONCE_OK : err;
    replay->told_malformed = true;
    finding = add(replay, ONCE__FINDING_CHANGES, ONCE__REMEDY_NONE, replay->segment, offset);
    if (!finding)
        return ONCE_ERR_MEMORY;
    once__check_say(finding, "change %" PRIu64 " has an edit that cannot be: %s", rec->change,
                    defect.what);
    return ONCE_OK;
}

static int replay_record(void *user, uint32_t offset, uint32_t size,
                         const struct once__log_record *rec)
{
    struct replay *replay = user;
    struct once__check *check = replay->check;
    bool follows = replay->any ? rec->change == replay->last + 1
                               : replay->anywhere || rec->change <= replay->last + 1;
    int err = ONCE_OK;

    (void)size;
    if (rec->change == 0)
        return ONCE_OK;
    check->first_change = check->first_change > 0 ? check->first_change : rec->change;
    replay->holes = replay->holes || !follows;
    if (!follows)
        err = tell_gap(replay, rec->change, offset);
    replay->behind = NULL;
    replay->any = true;
    replay->last = rec->change;
    return err == ONCE_OK ? put_edits(replay, offset, rec) : err;
}

static int replay_log(struct replay *replay, uint64_t from)
{
    struct once__scan_visitor visitor = {
        .batch = replay_batch, .record = replay_record, .user = replay};
    int err = ONCE_OK;

    for (size_t i = replay->check->log_count; err == ONCE_OK && i-- > 0;) {
        struct once__check_segment *segment = replay->check->log[i];

        replay->check->summary.changes += segment->changes;
        if (segment->header.sequence < from || (segment->changes == 0 && !segment->gaps))
            continue;
        replay->segment = segment;
        err = once__check_rewalk(replay->check, segment, &visitor);
    }
    return err;
}

/* The snapshot may have changes that the log does not. */
static int compare_end(struct replay *replay)
{
    uint64_t end = replay->check->snapshot.end.change;
    struct once__finding *finding;

    if (replay->last >= end)
        return ONCE_OK;
    if (replay->behind) {
        replay->behind->changes += end - replay->last;
        return ONCE_OK;
    }
    if (replay->lenient)
        return ONCE_OK; /* told already, or by the repair */
    finding = add(replay, ONCE__FINDING_CHANGES, ONCE__REMEDY_NEW_SNAPSHOT, NULL,
                  replay->check->snapshot.size);
    if (!finding)
        return ONCE_ERR_MEMORY;
    once__check_say(finding,
                    "the snapshot has changes of objects up to %" PRIu64 ", and the log ends with "
                    "change %" PRIu64 ": one of them is of another copy of the store",
                    end, replay->last);
    return ONCE_OK;
}

/* ---- The snapshot ---------------------------------------------------------------------------- */

static int load_chunk(void *user, uint64_t offset, struct once_bytes edits)
{
    struct replay *replay = user;
    bool lenient = replay->scan->damaged || replay->scan->header.flags & ONCE__SNAPSHOT_REPAIRED;
    struct once_defect defect = {0};
    int err = once__edits_put(replay->objects, NULL, edits, lenient, &defect);

    if (err != ONCE_ERR_DAMAGED)
        return err;
    if (replay->unfit == 0) {
        replay->unfit = offset;
        replay->why = defect.what;
    }
    err = once__edits_put(replay->objects, NULL, edits, true, &defect);
    return err == ONCE_ERR_DAMAGED ? ONCE_OK : err;
}

static int read_snapshot(struct replay *replay)
{
    struct once__check *check = replay->check;
    struct once__snapshot_visitor visitor = {.chunk = load_chunk, .user = replay};
    struct once__file *file = NULL;
    int err;

    if (!check->has_snapshot)
        return ONCE_OK;
    err = check->vfs->ops->open(check->vfs, ONCE__OBJECTS_NAME, 0, &file);
    if (err == ONCE_OK)
        err = once__snapshot_scan(file, check->file.id, &visitor, &check->snapshot);
    once__file_close(file);
    if (err != ONCE_OK)
        return err;
    if (!check->snapshot.damaged && replay->unfit > 0) {
        check->snapshot.damaged = true;
        check->snapshot.defect = (struct once_defect){.offset = (size_t)replay->unfit,
                                                      .what = replay->why};
    }
    check->summary.snapshot_size = check->snapshot.size;
    check->summary.disk_size += check->snapshot.size;
    return ONCE_OK;
}

/* What is wrong with the snapshot, once it is known what the log makes up for. */
static int tell_snapshot(struct replay *replay, uint64_t kept, bool missing)
{
    struct once__check *check = replay->check;
    const struct once__snapshot_scan *scan = &check->snapshot;
    uint64_t count = once__objects_count(replay->objects);
    const char *why = missing ? "it is missing" : scan->defect.what;
    struct once__finding *finding = add(replay, ONCE__FINDING_SNAPSHOT, ONCE__REMEDY_NEW_SNAPSHOT,
                                        NULL, missing ? 0 : scan->defect.offset);

    if (!finding)
        return ONCE_ERR_MEMORY;
    if (check->first_change == 1 && !replay->holes) {
        once__check_say(finding, "the snapshot of objects: %s; the log has every change of them",
                        why);
        return ONCE_OK;
    }
    finding->loss.more = true;
    finding->loss.objects = scan->end.object_count > count ? scan->end.object_count - count : 0;
    if (kept == 0)
        once__check_say(finding,
                        "the snapshot of objects: %s; giving it up loses all objects but for what "
                        "the log has of %" PRIu64,
                        why, count);
    else
        once__check_say(finding,
                        "the snapshot of objects: %s; %" PRIu64 " objects can be read in it, and "
                        "%" PRIu64 " are left with what the log has",
                        why, kept, count);
    return ONCE_OK;
}

static int tell_repaired(struct replay *replay)
{
    struct once__finding *finding = add(replay, ONCE__FINDING_GIVEN_UP, ONCE__REMEDY_NOTHING, NULL,
                                        0);

    if (!finding)
        return ONCE_ERR_MEMORY;
    once__check_say(finding,
                    "the snapshot of objects was written again by an earlier repair, without "
                    "what was lost");
    return ONCE_OK;
}

static int run(struct replay *replay)
{
    struct once__check *check = replay->check;
    uint64_t from = 1, kept;
    bool missing, bad;
    int err = read_snapshot(replay);

    if (err != ONCE_OK)
        return err;
    missing = !check->has_snapshot && check->told_objects;
    bad = missing || check->snapshot.damaged;
    kept = once__objects_count(replay->objects);
    replay->lenient = replay->lenient || bad ||
                      check->snapshot.header.flags & ONCE__SNAPSHOT_REPAIRED;
    if (!bad && check->has_snapshot)
        from = check->snapshot.header.from;
    replay->last = bad ? 0 : check->snapshot.header.change;
    replay->anywhere = bad; /* what is missing before the first change is the snapshot's own loss */
    err = replay_log(replay, from);
    if (err == ONCE_OK)
        err = compare_end(replay);
    if (err == ONCE_OK && bad)
        err = tell_snapshot(replay, kept, missing);
    else if (err == ONCE_OK && check->snapshot.header.flags & ONCE__SNAPSHOT_REPAIRED)
        err = tell_repaired(replay);
    check->summary.objects = once__objects_count(replay->objects);
    check->summary.last_change = replay->last > check->snapshot.end.change
                                     ? replay->last
                                     : check->snapshot.end.change;
    return err;
}

int once__check_objects(struct once__check *check)
{
    struct replay replay = {.check = check, .scan = &check->snapshot};
    int err = once__objects_new(check->file.secret, &replay.objects);

    for (size_t i = 0; i < check->log_count; i++)
        replay.lenient = replay.lenient || check->log[i]->gaps || check->log[i]->patch_count > 0;
    if (err == ONCE_OK)
        err = run(&replay);
    once__objects_free(replay.objects);
    return err;
}
