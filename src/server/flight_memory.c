/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of commands under way. Flights are kept and used again, and a command that fits into a
 * flight's own room needs no further memory; what does not is counted in the away_size of its
 * connection and of all.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/conn_inner.h"

struct once__flight *once__flight_new(struct once__conn *conn)
{
    struct once__conns *conns = conn->conns;
    struct once__flight *flight = conns->spare;

    if (flight) {
        conns->spare = flight->next;
        conns->spare_count--;
    } else {
        flight = aligned_alloc(_Alignof(struct once__flight), sizeof *flight);
        if (!flight)
            return NULL;
        flight->bytes = NULL;
        flight->words = NULL;
        flight->away_size = 0;
        flight->away_calls = 0;
        atomic_init(&flight->held_size, 0);
    }
    flight->conn = conn;
    flight->next = NULL;
    flight->holds = false;
    flight->waits = false;
    flight->cancelled = false;
    flight->protocol = conn->session.protocol;
    return flight;
}

/* It holds so much memory besides its own. */
static void weigh(struct once__flight *flight, size_t size)
{
    struct once__conn *conn = flight->conn;

    conn->away_size += size - flight->away_size;
    conn->conns->away_size += size - flight->away_size;
    flight->away_size = size;
}

static void memory_release(struct once__flight *flight)
{
    if (flight->away_size > 0)
        weigh(flight, 0);
    if (flight->bytes) {
        free(flight->bytes);
        flight->bytes = NULL;
    }
    if (flight->words) {
        free(flight->words);
        flight->words = NULL;
    }
}

void once__flight_free(struct once__flight *flight)
{
    struct once__conns *conns = flight->conn->conns;
    size_t held = atomic_load_explicit(&flight->held_size, memory_order_relaxed);

    if (held > 0) {
        atomic_fetch_sub(&conns->held_size, held);
        atomic_store_explicit(&flight->held_size, 0, memory_order_relaxed);
    }
    memory_release(flight);
    if (conns->spare_count >= ONCE__FLIGHTS_SPARE_MAX) {
        free(flight);
        return;
    }
    flight->next = conns->spare;
    conns->spare = flight;
    conns->spare_count++;
}

void once__flight_free_all(struct once__conn *conn)
{
    ONCE_ASSERT(conn->away == 0);
    while (conn->first) {
        struct once__flight *flight = conn->first;

        conn->first = flight->next;
        if (flight->state != ONCE__FLIGHT_ANSWERED)
            once__request_release(&flight->request);
        once__flight_free(flight);
    }
    conn->last = NULL;
    conn->flights = 0;
}

void once__flight_free_spare(struct once__conns *conns)
{
    while (conns->spare) {
        struct once__flight *flight = conns->spare;

        conns->spare = flight->next;
        free(flight);
    }
    conns->spare_count = 0;
}

bool once__flight_take_arguments(struct once__flight *flight, const struct once__found *found,
                                 bool *ret_taken)
{
    size_t from = found->args[0].offset;
    size_t span = found->args[found->count - 1].offset + found->args[found->count - 1].size - from;
    size_t words_size = found->count * sizeof(struct once_bytes);
    struct once_bytes *words = (void *)flight->room;
    uint8_t *bytes = flight->room + words_size;

    if (words_size + span > ONCE__FLIGHT_ROOM) {
        if (words_size > ONCE__FLIGHT_ROOM)
            words = flight->words = malloc(words_size);
        if (!words)
            return false;
        if (found->gift && span >= ONCE__GIFT_SIZE_MIN) {
            flight->bytes = found->gift;
            bytes = found->data + from;
            *ret_taken = true;
        } else {
            bytes = flight->bytes = malloc(span > 0 ? span : 1);
        }
        if (!bytes)
            return false;
        weigh(flight, words_size + span);
    }
    if (!*ret_taken && span > 0)
        memcpy(bytes, found->data + from, span);
    for (size_t i = 0; i < found->count; i++)
        words[i] = (struct once_bytes){.data = bytes + (found->args[i].offset - from),
                                       .size = found->args[i].size};
    flight->request.session = &flight->conn->session;
    flight->request.args = words;
    flight->request.arg_count = found->count;
    return true;
}

bool once__flight_take_answer(struct once__flight *flight, const struct once__out *aside)
{
    struct once_bytes answer = once_buf_bytes(&aside->buf);

    memory_release(flight);
    flight->answer = flight->room;
    if (answer.size > ONCE__FLIGHT_ROOM) {
        flight->answer = flight->bytes = malloc(answer.size);
        if (!flight->answer)
            return false;
        weigh(flight, answer.size);
    }
    if (answer.size > 0)
        memcpy(flight->answer, answer.data, answer.size);
    flight->answer_size = answer.size;
    flight->state = ONCE__FLIGHT_ANSWERED;
    return true;
}
