/* SPDX-License-Identifier: Apache-2.0
 *
 * A channel that loses 30 % of what is sent, brings 30 % twice, and brings it in any order, now and
 * then with a bit flipped. A replica's cursor moves when the answer has arrived and is merged, and
 * may move back when an old answer arrives late: then it is given some things again.
 */
#include "replica/replicas.h"

#include <stdlib.h>
#include <string.h>

enum { LOST_PERCENT = 30, REPEATED_PERCENT = 30, MESSAGE_SIZE_MAX = 1 << 24 };

bool channel_knows(unsigned to, unsigned from)
{
    return to != from && (to != REPLICAS - 1 || from == 0);
}

static void send(const struct packet *packet)
{
    struct packet copy = *packet;
    uint8_t *bytes;

    if (world.packet_count == PACKETS_MAX || chance_percent(&world.chance, LOST_PERCENT)) {
        world.counts.lost++;
        return;
    }
    bytes = malloc(packet->message.size);
    MUST(bytes);
    memcpy(bytes, packet->message.data, packet->message.size);
    copy.message.data = bytes;
    world.packets[world.packet_count++] = copy;
}

/* Mostly all that is new at once; sometimes so little that it takes many questions. */
static size_t random_size(void)
{
    return 1 + chance_below(&world.chance, chance_percent(&world.chance, 25) ? 500 : 1 << 17);
}

void channel_ask(unsigned to, unsigned from)
{
    struct packet packet = {.to = to, .from = from, .cursor = world.replicas[to].cursors[from]};
    struct once_buf out;
    bool more = false;

    once_buf_init(&out, MESSAGE_SIZE_MAX);
    MUST(once_changes(world.replicas[from].store, &packet.cursor, random_size(), &out, &more) ==
         ONCE_OK);
    world.counts.questions++;
    world.counts.walks += packet.cursor.until > 0;
    packet.message = once_buf_bytes(&out);
    if (out.size > 0) {
        send(&packet);
        if (chance_percent(&world.chance, REPEATED_PERCENT)) {
            send(&packet);
            world.counts.repeated++;
        }
    } else {
        world.replicas[to].cursors[from] = packet.cursor;
    }
    once_buf_release(&out);
}

/* A message with a flipped bit changes nothing. */
static void deliver_damaged(struct replica *replica, struct once_bytes message)
{
    uint8_t *bytes = malloc(message.size);
    uint64_t bit = chance_below(&world.chance, message.size * 8);

    MUST(bytes);
    memcpy(bytes, message.data, message.size);
    bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
    message.data = bytes;
    MUST(once_changes_merge(replica->store, message, NULL) == ONCE_ERR_DAMAGED);
    free(bytes);
    world.counts.damaged++;
}

bool channel_deliver(void)
{
    struct packet packet;
    size_t at, news = 0;

    if (world.packet_count == 0)
        return false;
    at = chance_below(&world.chance, world.packet_count);
    packet = world.packets[at];
    world.packets[at] = world.packets[--world.packet_count];
    if (chance_percent(&world.chance, 1))
        deliver_damaged(&world.replicas[packet.to], packet.message);
    MUST(once_changes_merge(world.replicas[packet.to].store, packet.message, &news) == ONCE_OK);
    world.replicas[packet.to].cursors[packet.from] = packet.cursor;
    world.counts.news += news;
    free((void *)(uintptr_t)packet.message.data);
    return true;
}

static bool has_news(unsigned to, unsigned from)
{
    struct once_changes_cursor cursor = world.replicas[to].cursors[from];
    struct once_buf out;
    bool more = false, news;

    once_buf_init(&out, MESSAGE_SIZE_MAX);
    MUST(once_changes(world.replicas[from].store, &cursor, MESSAGE_SIZE_MAX, &out, &more) ==
         ONCE_OK);
    news = out.size > 0 || more;
    once_buf_release(&out);
    return news;
}

bool channel_quiet(void)
{
    if (world.packet_count > 0)
        return false;
    for (unsigned to = 0; to < REPLICAS; to++)
        for (unsigned from = 0; from < REPLICAS; from++)
            if (channel_knows(to, from) && has_news(to, from))
                return false;
    return true;
}

void channel_end(void)
{
    while (world.packet_count > 0)
        free((void *)(uintptr_t)world.packets[--world.packet_count].message.data);
}
