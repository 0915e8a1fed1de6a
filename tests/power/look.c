/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at a store from outside: lists and numbers, compared with the model.
 */
#include "power/drive.h"

#include <inttypes.h>

enum { LIST_PAGES_MAX = 100000 };

struct listing {
    struct drive *drive;
    const struct once_filter *filter;
    unsigned seen[MODEL_KEYS_MAX];
};

static void on_item(void *user, const struct once_item *item)
{
    struct listing *listing = user;
    struct model *model = listing->drive->model;

    for (int key = 0; key < model->key_count; key++) {
        if (!once__bytes_equal(item->ns, model->names[key].ns) ||
            !once__bytes_equal(item->key, model->names[key].key))
            continue;
        listing->seen[key]++;
        model_listed(model, key, item, drive_now(listing->drive));
        return;
    }
    model_break(model, HISTORY_NO_KEY, "the list shows a key that never was");
}

static void list(struct drive *drive, const struct once_filter *filter)
{
    struct listing listing = {.drive = drive, .filter = filter};
    struct model_shown before[MODEL_KEYS_MAX];
    uint64_t cursor = 0;
    size_t pages = 0;

    for (int key = 0; key < drive->model->key_count; key++)
        before[key] = model_shows(drive->model, key, filter, drive_now(drive));
    do {
        size_t count = 1 + chance_below(drive->chance, 10);
        int err = once_list(drive->store, filter, cursor, count, on_item, &listing, &cursor);

        if (err != ONCE_OK) {
            if (!((err == ONCE_ERR_IO || err == ONCE_ERR_STOPPED) &&
                  (drive->may_fail || disk_is_cut(drive->disk))) &&
                !(err == ONCE_ERR_DAMAGED && drive->may_damage))
                model_break(drive->model, HISTORY_NO_KEY, "once_list: %s", once_err_name(err));
            return;
        }
        if (drive->failed)
            model_break(drive->model, HISTORY_NO_KEY, "INV-8: listed after a write had failed");
        if (++pages > LIST_PAGES_MAX)
            model_break(drive->model, HISTORY_NO_KEY, "the list has no end");
    } while (cursor != 0 && !drive_over(drive));
    drive->counts.lists++;
    for (int key = 0; key < drive->model->key_count && !drive_over(drive); key++) {
        if (listing.seen[key] > 1)
            model_break(drive->model, key, "listed %u times", listing.seen[key]);
        if (listing.seen[key] == 0 && before[key].must)
            model_break(drive->model, key, "not listed, though it is there");
        if (listing.seen[key] > 0 && !before[key].may)
            model_break(drive->model, key, "listed, though it is not what was asked for");
    }
}

void drive_list(struct drive *drive)
{
    struct once_filter filter = {0};

    if (chance_percent(drive->chance, 30))
        filter.ns = drive->model->names[chance_below(drive->chance, 2)].ns;
    if (chance_percent(drive->chance, 60)) {
        filter.by_state = true;
        filter.state = (enum once_state)(1 + chance_below(drive->chance, 4));
    }
    list(drive, &filter);
}

/* Numbers that the model knows as well. */
void drive_numbers(struct drive *drive, bool settled)
{
    struct model *model = drive->model;
    struct once_stats stats;
    uint64_t open = 0;

    once_stats_get(drive->store, &stats);
    if (stats.now_ms != drive_now(drive))
        model_break(model, HISTORY_NO_KEY,
                    "INV-6: store time is %" PRId64 ", the boot clock says %" PRId64, stats.now_ms,
                    drive_now(drive));
    if (stats.last_fence != model->last_fence)
        model_break(model, HISTORY_NO_KEY,
                    "the last fence is %" PRIu64 ", and %" PRIu64 " was given", stats.last_fence,
                    model->last_fence);
    for (int key = 0; key < model->key_count; key++)
        open += model->now[key].state == ONCE_STATE_STARTED ||
                model->now[key].state == ONCE_STATE_DOUBT;
    if (settled && stats.keys_open != open)
        model_break(model, HISTORY_NO_KEY, "%" PRIu64 " keys are open, the store counts %" PRIu64,
                    open, stats.keys_open);
    if (model->extension)
        model->extension->numbers(model->extension->self, &stats);
}

void drive_compare(struct drive *drive)
{
    struct once_filter all = {0};

    if (drive_over(drive) || drive->failed || !drive_may_block(drive))
        return;
    drive_numbers(drive, true);
    list(drive, &all);
    if (drive->model->extension && !drive_over(drive) && !drive->failed)
        drive->model->extension->compare(drive->model->extension->self, drive);
}
