/* SPDX-License-Identifier: Apache-2.0
 *
 * ONCE.STATS: the document of /v1/stats over RESP, as this caller may see it. What it is made for
 * (configuration, identity) is copied on the loop's thread: the session may change while a lane
 * makes it.
 */
#include "server/resp_commands.h"
#include "server/resp_look.h"
#include "server/server.h"

enum { TEXT_SIZE_MAX = 1 << 23 };

struct numbers {
    struct once__look look;
    const struct once__server *server;
    struct once__config *config; /* a reference */
    struct once__identity identity;
    struct once_buf text;
};

static void drop(struct once__look *look)
{
    struct numbers *numbers = (struct numbers *)look;

    once_buf_release(&numbers->text);
    once__config_unref(numbers->config);
}

static void run(struct once__job *job)
{
    struct numbers *numbers = once__look_of(job);

    numbers->look.err = once__stats_write(once__server_stats(numbers->server), numbers->server,
                                          numbers->config, &numbers->identity, &numbers->text);
}

enum once__next once__resp_stats(struct once__request *request, struct once__out *out)
{
    const struct once__session *session = request->session;
    struct numbers *numbers = once__look_new(request, out, sizeof(*numbers), run);

    if (!numbers)
        return ONCE__ANSWERED;
    numbers->look.drop = drop;
    numbers->server = session->server;
    numbers->config = once__config_ref(session->config);
    numbers->identity = session->identity;
    once_buf_init(&numbers->text, TEXT_SIZE_MAX);
    return ONCE__JOB;
}

void once__resp_stats_finish(struct once__request *request, struct once__out *out)
{
    const struct numbers *numbers = request->state;

    if (!once__look_failed(&numbers->look, out))
        once__out_bulk(out, once_buf_bytes(&numbers->text));
}
