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

/* Edits that are put together, so that their objects are looked for at the same time: among many
 * objects, finding one is most of what an edit costs. */
enum { WINDOW_EDITS = 64 };

struct window {
    struct once__edit edits[WINDOW_EDITS];
    struct once__edit_spot spots[WINDOW_EDITS]; /* of each */
    struct once_bytes names[WINDOW_EDITS];
    struct once__object_place places[WINDOW_EDITS];
    size_t count;
};

/* Decodes as many as fit, from *next on. On failure those before the bad one are there, and *next
 * is its. */
static int window_read(struct window *window, const struct once_bytes *pieces, size_t piece_count,
                       struct once__edit_spot *next, struct once_defect *ret_defect)
{
    window->count = 0;
    while (window->count < WINDOW_EDITS && next->piece < piece_count) {
        struct once__edit *edit = &window->edits[window->count];
        int err;

        if (next->offset == pieces[next->piece].size) {
            *next = (struct once__edit_spot){.piece = next->piece + 1};
            continue;
        }
        window->spots[window->count] = *next;
        err = once__edit_decode(pieces[next->piece], &next->offset, edit, ret_defect);
        if (err != ONCE_OK)
            return err;
        window->names[window->count] = edit->name;
        window->count++;
    }
    return ONCE_OK;
}

/* *ret_bad: the edit that does not fit. */
static int window_put(struct window *window, struct once__objects *objects,
                      struct once__recent *recent, bool lenient, struct once__edit_spot *ret_bad)
{
    once__objects_locate(objects, window->names, window->count, window->places);
    for (size_t i = 0; i < window->count; i++) {
        const struct once__edit *edit = &window->edits[i];
        int err = lenient ? put_lenient(objects, edit)
                          : once__objects_put_at(objects, &window->places[i], edit);

        if (err != ONCE_OK) {
            *ret_bad = window->spots[i];
            return err;
        }
        if (recent && once_object_mergeable(once__edit_type(edit->kind)))
            once__recent_note(recent, edit);
    }
    return ONCE_OK;
}

int once__edits_put_all(struct once__objects *objects, struct once__recent *recent,
                        const struct once_bytes *pieces, size_t piece_count, bool lenient,
                        struct once__edit_spot *ret_bad, struct once_defect *ret_defect)
{
    struct once__edit_spot next = {0};
    struct window window;

    ONCE_ASSERT(objects);
    while (next.piece < piece_count) {
        struct once_defect defect = {0};
        int bad = window_read(&window, pieces, piece_count, &next, &defect);
        int err = window_put(&window, objects, recent, lenient, ret_bad);

        if (err != ONCE_OK)
            return once__defect(err, ret_bad->offset, "an edit does not fit the object",
                                ret_defect);
        if (bad != ONCE_OK) {
            *ret_bad = next;
            return once__defect(bad, defect.offset, defect.what, ret_defect);
        }
    }
    return ONCE_OK;
}

int once__edits_put(struct once__objects *objects, struct once__recent *recent,
                    struct once_bytes edits, bool lenient, struct once_defect *ret_defect)
{
    struct once__edit_spot bad;

    return once__edits_put_all(objects, recent, &edits, 1, lenient, &bad, ret_defect);
}
