/* SPDX-License-Identifier: Apache-2.0
 *
 * How the call of the upstream went, as far as nginx can know. What tells the cases apart is what
 * nginx notes of every try (upstream_states): whether bytes went out, and whether a whole header
 * came in.
 *
 *     never connected, or nothing was sent     it did not happen: the key is free
 *     sent, and no answer or half of one       nobody knows: in doubt
 *     an answer                                its status decides (core/outcome.h, once_on_5xx)
 *     nginx itself answers, no upstream        the same, but its own 5xx did not happen
 */
#include "gate.h"

static const ngx_msec_t NEVER = (ngx_msec_t)-1;

/* Over all tries of this request: did a byte go out? */
static bool was_sent(const ngx_http_request_t *r)
{
    const ngx_http_upstream_state_t *states = r->upstream_states->elts;

    for (ngx_uint_t i = 0; i < r->upstream_states->nelts; i++) {
        if (states[i].bytes_sent > 0)
            return true;
    }
    /* A try that is not over was not counted yet. */
    return r->upstream && r->upstream->peer.connection && r->upstream->peer.connection->sent > 0;
}

/* nginx puts a state without a peer between those of two upstreams. */
static const ngx_http_upstream_state_t *last_state(const ngx_http_request_t *r)
{
    const ngx_http_upstream_state_t *states = r->upstream_states->elts;

    for (ngx_uint_t i = r->upstream_states->nelts; i > 0; i--) {
        if (states[i - 1].peer)
            return &states[i - 1];
    }
    return NULL;
}

static enum once_outcome outcome_of(const ngx_http_upstream_state_t *state,
                                    const struct gate_conf *conf)
{
    if (state->header_time == NEVER)
        return state->bytes_sent > 0 ? ONCE_OUTCOME_DOUBT : ONCE_OUTCOME_RELEASE;
    return once__outcome_of_status((int)state->status, (enum once_on_5xx)conf->on_5xx);
}

/* An error page, or the first upstream itself (X-Accel-Redirect), may have another upstream asked.
 * What that says does not make known what became of the first, nor undone. */
static bool earlier_is_against(const ngx_http_request_t *r, const ngx_http_upstream_state_t *last,
                               const struct gate_conf *conf, enum once_outcome said)
{
    for (const ngx_http_upstream_state_t *state = r->upstream_states->elts; state < last; state++) {
        enum once_outcome outcome = ONCE_OUTCOME_RELEASE;

        if (state->peer)
            outcome = outcome_of(state, conf);
        if (outcome == ONCE_OUTCOME_DOUBT ||
            (outcome == ONCE_OUTCOME_STORE && said == ONCE_OUTCOME_RELEASE))
            return true;
    }
    return false;
}

/* A status that a person may choose how to read. */
static struct gate_judgement by_status(int status, const struct gate_conf *conf)
{
    struct gate_judgement judged = {.status = status};

    judged.outcome = once__outcome_of_status(status, (enum once_on_5xx)conf->on_5xx);
    if (judged.outcome == ONCE_OUTCOME_RELEASE)
        judged.what = "the upstream says that it did not take the request";
    else if (judged.outcome == ONCE_OUTCOME_DOUBT)
        judged.what = "the upstream failed, and may have done it before";
    return judged;
}

/* What spoke no HTTP has no status (0), though nginx notes 200. */
static int status_of(const ngx_http_request_t *r, const ngx_http_upstream_state_t *state)
{
    const ngx_http_upstream_t *u = r->upstream;

    return (int)(u && u->state == state ? u->headers_in.status_n : state->status);
}

struct gate_judgement gate_judge(ngx_http_request_t *r, const struct gate_conf *conf)
{
    const ngx_http_upstream_state_t *state = r->upstream_states ? last_state(r) : NULL;

    if (!state) {
        int status = (int)(r->headers_out.status > 0 ? r->headers_out.status : 500);

        if (status >= 500)
            return (struct gate_judgement){
                .outcome = ONCE_OUTCOME_RELEASE, .status = status, .what = "no upstream was asked"};
        return by_status(status, conf);
    }
    if (state->header_time != NEVER) {
        struct gate_judgement judged = by_status(status_of(r, state), conf);

        if (earlier_is_against(r, state, conf, judged.outcome)) {
            judged.outcome = ONCE_OUTCOME_DOUBT;
            judged.what = "another upstream was asked before, and may have done it";
        }
        return judged;
    }
    if (was_sent(r))
        return (struct gate_judgement){.outcome = ONCE_OUTCOME_DOUBT,
                                       .what = "the upstream was asked and gave no answer"};
    return (struct gate_judgement){.outcome = ONCE_OUTCOME_RELEASE,
                                   .what = state->connect_time == NEVER
                                               ? "the upstream was never reached"
                                               : "nothing was sent to the upstream"};
}
