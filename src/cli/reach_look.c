/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at operations, asked of a server: lists and histories, and what their answers share with
 * that of ONCE.GET.
 */
#include "base/bytes.h"
#include "cli/reach_server.h"
#include "client/client.h"

/* ---- Maps ------------------------------------------------------------------------------------ */

bool reach_is_integer(const struct once__answer_item *item, int64_t min, int64_t max,
                      int64_t *ret_number)
{
    *ret_number = item->number;
    return item->kind == ONCE__ANSWER_NUMBER && item->number >= min && item->number <= max;
}

bool reach_find_bytes(const struct once__answer_item *map, const char *name,
                      struct once_bytes *ret_bytes)
{
    const struct once__answer_item *item = once__answer_find(map, name);

    *ret_bytes = (struct once_bytes){NULL, 0};
    return !item || reach_is_bytes(item, ret_bytes);
}

bool reach_find_number(const struct once__answer_item *map, const char *name, int64_t min,
                       int64_t max, int64_t *ret_number)
{
    const struct once__answer_item *item = once__answer_find(map, name);

    *ret_number = 0;
    return !item || item->kind == ONCE__ANSWER_NULL || reach_is_integer(item, min, max, ret_number);
}

static bool find_state(const struct once__answer_item *map, enum once_state *ret_state)
{
    struct once_bytes name;

    if (!reach_find_bytes(map, "state", &name))
        return false;
    for (int state = ONCE_STATE_ABSENT; state <= ONCE_STATE_DOUBT; state++) {
        if (once__bytes_equal(name, once_bytes_of(once_state_name((enum once_state)state)))) {
            *ret_state = (enum once_state)state;
            return true;
        }
    }
    return false;
}

bool reach_read_facts(const struct once__answer_item *map, struct reach_facts *facts)
{
    return map->kind == ONCE__ANSWER_LIST && find_state(map, &facts->state) &&
           reach_find_number(map, "fence", 0, INT64_MAX, &facts->fence) &&
           reach_find_number(map, "attempt", 0, UINT32_MAX, &facts->attempt) &&
           reach_find_number(map, "code", INT32_MIN, INT32_MAX, &facts->code) &&
           reach_find_number(map, "created_ms", 0, INT64_MAX, &facts->created_ms) &&
           reach_find_number(map, "lease_end_ms", 0, INT64_MAX, &facts->lease_end_ms) &&
           reach_find_number(map, "expires_ms", 0, INT64_MAX, &facts->expires_ms) &&
           reach_find_bytes(map, "owner", &facts->owner) &&
           reach_find_bytes(map, "point", &facts->point);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static const char *state_word(enum once_state state)
{
    static const char *const words[] = {"", "STARTED", "COMPLETED", "FAILED", "DOUBT"};

    return (unsigned)state < sizeof(words) / sizeof(words[0]) ? words[state] : "";
}

static bool read_item(const struct once__answer_item *map, struct once_item *item)
{
    struct reach_facts facts = {0};

    if (!reach_read_facts(map, &facts) || !reach_find_bytes(map, "ns", &item->ns) ||
        !reach_find_bytes(map, "key", &item->key))
        return false;
    item->state = facts.state;
    item->fence = (uint64_t)facts.fence;
    item->attempt = (uint32_t)facts.attempt;
    item->code = (int32_t)facts.code;
    item->created_ms = facts.created_ms;
    item->lease_end_ms = facts.lease_end_ms;
    item->expires_ms = facts.expires_ms;
    item->owner = facts.owner;
    item->point = facts.point;
    return true;
}

int reach_server_ops(struct cli_reach *reach, const struct once_filter *filter, uint64_t cursor,
                     size_t count, void (*each)(void *user, const struct once_item *item),
                     void *user, uint64_t *ret_cursor)
{
    const struct once__answer_item *answer;
    struct reach_number from = reach_number(cursor), many = reach_number(count);
    bool by_state = filter && filter->by_state;
    const struct once_bytes words[] = {
        once_bytes_of("ONCE.LIST"),
        filter ? filter->ns : (struct once_bytes){NULL, 0},
        once_bytes_of("CURSOR"),
        once_bytes_of(from.text),
        once_bytes_of("COUNT"),
        once_bytes_of(many.text),
        once_bytes_of("STATE"), /* last: left out where there is none */
        once_bytes_of(by_state ? state_word(filter->state) : ""),
    };
    int err = reach_call(reach, words, by_state ? 8 : 6, &answer);

    if (err != ONCE_OK)
        return err;
    if (!reach_is_list(answer, 2) || !reach_is_number(&answer->items[0], &cursor) ||
        answer->items[1].kind != ONCE__ANSWER_LIST)
        return reach_strange(reach);
    for (size_t i = 0; i < answer->items[1].count; i++) {
        struct once_item item = {.fence = 0};

        if (!read_item(&answer->items[1].items[i], &item))
            return reach_strange(reach);
        each(user, &item);
    }
    *ret_cursor = cursor;
    return ONCE_OK;
}

/* ---- Histories ------------------------------------------------------------------------------- */

static bool find_event(const struct once__answer_item *map, enum once_event *ret_event)
{
    struct once_bytes name;

    if (!reach_find_bytes(map, "event", &name))
        return false;
    for (int event = ONCE_EVENT_BEGAN; event <= ONCE_EVENT_KEPT; event++) {
        if (once__bytes_equal(name, once_bytes_of(once_event_name((enum once_event)event)))) {
            *ret_event = (enum once_event)event;
            return true;
        }
    }
    return false;
}

static bool read_past(const struct once__answer_item *map, struct once_past *past)
{
    struct reach_facts facts = {0};

    if (!reach_read_facts(map, &facts) || !find_event(map, &past->event) ||
        !reach_find_number(map, "at_ms", 0, INT64_MAX, &past->at_ms) ||
        !reach_find_bytes(map, "data", &past->data) ||
        !reach_find_bytes(map, "result", &past->result))
        return false;
    past->state = facts.state;
    past->fence = (uint64_t)facts.fence;
    past->attempt = (uint32_t)facts.attempt;
    past->code = (int32_t)facts.code;
    past->created_ms = facts.created_ms;
    past->lease_end_ms = facts.lease_end_ms;
    past->expires_ms = facts.expires_ms;
    past->owner = facts.owner;
    past->point = facts.point;
    return true;
}

int reach_server_history(struct cli_reach *reach, struct once_name name, size_t count,
                         void (*each)(void *user, const struct once_past *past), void *user,
                         bool *ret_found, bool *ret_more)
{
    const struct once__answer_item *answer;
    struct reach_number many = reach_number(count);
    const struct once_bytes words[] = {once_bytes_of("ONCE.HISTORY"), name.ns, name.key,
                                       once_bytes_of("COUNT"), once_bytes_of(many.text)};
    int err = reach_call(reach, words, sizeof(words) / sizeof(words[0]), &answer);
    int64_t more = 0;

    if (err != ONCE_OK)
        return err;
    if (answer->kind != ONCE__ANSWER_NULL &&
        (!reach_is_list(answer, 2) || !reach_is_integer(&answer->items[0], 0, 1, &more) ||
         answer->items[1].kind != ONCE__ANSWER_LIST))
        return reach_strange(reach);
    *ret_found = answer->kind != ONCE__ANSWER_NULL;
    *ret_more = more == 1;
    for (size_t i = 0; *ret_found && i < answer->items[1].count; i++) {
        struct once_past past = {.fence = 0};

        if (!read_past(&answer->items[1].items[i], &past))
            return reach_strange(reach);
        each(user, &past);
    }
    return ONCE_OK;
}
