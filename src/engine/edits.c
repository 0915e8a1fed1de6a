/* SPDX-License-Identifier: Apache-2.0
 *
 * Edits into a table, and what becomes of those whose predecessors were given up (`once check
 * --repair`): an event keeps its number, behind events that say that they are lost; a move of a
 * machine whose declaration is lost is left out.
 */
#include "engine/edits.h"

#include "base/assert.h"
#include "base/defect.h"

static int fill_log(struct once__objects *objects, const struct once__edit *edit)
{
    const struct once__object *object = once__objects_find(objects, edit->name);
    struct once__edit lost = *edit;
    uint64_t count = object ? once__object_event_count(object) : 0;
    int err = ONCE_OK;

    if (edit->to.event.number > ONCE_EVENTS_MAX)
        return ONCE_ERR_DAMAGED;
    lost.to.event.id = once_bytes_of("lost");
    lost.to.event.payload = (struct once_bytes){NULL, 0};
    for (uint64_t number = count + 1; err == ONCE_OK && number < edit->to.event.number; number++) {
        lost.to.event.number = number;
        err = once__objects_put(objects, &lost);
    }
    return err;
}

static int put_lenient(struct once__objects *objects, const struct once__edit *edit)
{
    const struct once__object *object = once__objects_find(objects, edit->name);
    int err;

    if (object && once__object_type(object) != once__edit_type(edit->kind))
        return ONCE_OK;
    if (edit->kind == ONCE__EDIT_MOVED && !object)
        return ONCE_OK; /* its declaration is lost */
    err = edit->kind == ONCE__EDIT_EVENT ? fill_log(objects, edit) : ONCE_OK;
    if (err == ONCE_OK)
        err = once__objects_put(objects, edit);
    return err == ONCE_ERR_DAMAGED ? ONCE_OK : err;
}

int once__edits_put(struct once__objects *objects, struct once__recent *recent,
                    struct once_bytes edits, bool lenient, struct once_defect *ret_defect)
{
    size_t offset = 0;
    int err = ONCE_OK;

    ONCE_ASSERT(objects);
    while (err == ONCE_OK && offset < edits.size) {
        struct once_defect defect = {0};
        struct once__edit edit;
        size_t at = offset;

        err = once__edit_decode(edits, &offset, &edit, &defect);
        if (err != ONCE_OK)
            return once__defect(err, defect.offset, defect.what, ret_defect);
        err = lenient ? put_lenient(objects, &edit) : once__objects_put(objects, &edit);
        if (err != ONCE_OK)
            return once__defect(err, at, "an edit does not fit the object", ret_defect);
        if (recent && once_object_mergeable(once__edit_type(edit.kind)))
            once__recent_note(recent, &edit);
    }
    return err;
}
