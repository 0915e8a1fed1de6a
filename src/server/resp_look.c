/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that look share. A state belongs to its request: the loop's thread writes it
 * before the job is handed over and reads it after it came back, the lane's thread in between.
 */
#include "server/resp_look.h"

#include "base/assert.h"
#include "server/server.h"

#include <inttypes.h>
#include <stdio.h>

/* What one answer may hold. */
enum { LIST_SIZE_MAX = ONCE_RESULT_SIZE_MAX + (1 << 20) };

static void drop_look(struct once__request *request)
{
    struct once__look *look = request->state;

    if (!look)
        return;
    if (look->drop)
        look->drop(look);
    once__out_release(&look->list);
    request->state = NULL;
}

void *once__look_new(struct once__request *request, struct once__out *out, size_t size,
                     void (*run)(struct once__job *job))
{
    struct once__look *look;

    ONCE_ASSERT(size >= sizeof(*look));
    look = once__request_alloc(request, size);
    if (!look) {
        once__out_err(out, ONCE_ERR_MEMORY, NULL);
        return NULL;
    }
    look->store = once__service_store(once__server_service(request->session->server));
    once__out_init(&look->list, LIST_SIZE_MAX);
    look->list.protocol = out->protocol;
    request->state = look;
    request->release = drop_look;
    request->job.run = run;
    return look;
}

struct once__request *once__look_request(struct once__job *job)
{
    return (struct once__request *)(void *)((char *)job - offsetof(struct once__request, job));
}

void *once__look_of(struct once__job *job)
{
    return once__look_request(job)->state;
}

bool once__look_failed(const struct once__look *look, struct once__out *out)
{
    if (look->err != ONCE_OK) {
        once__out_err(out, look->err, look->err == ONCE_ERR_UNSUPPORTED ? look->lacks : NULL);
        return true;
    }
    if (look->list.failed) {
        once__out_err(out, ONCE_ERR_TOO_LARGE,
                      "the answer would be too large: ask for fewer at once");
        return true;
    }
    return false;
}

/* ---- May they? ------------------------------------------------------------------------------- */

static bool refused(struct once__out *out, int err, const char *what)
{
    if (err != ONCE_OK)
        once__out_call_error(
            out, &(struct once_reply){.err = err, .what = what, .retry_ms = ONCE_RETRY_MS_MAX});
    return err != ONCE_OK;
}

bool once__look_at_namespace(const struct once__request *request, struct once__out *out,
                             struct once_bytes ns, char *ret_ns)
{
    const struct once__session *session = request->session;
    const char *what = NULL;
    int err = once__service_check_look(once__server_service(session->server), session->config,
                                       &session->identity, ns, ret_ns, &what);

    return !refused(out, err, what);
}

bool once__look_at_all(const struct once__request *request, struct once__out *out)
{
    const struct once__session *session = request->session;
    const char *what = NULL;
    int err = once__service_check_scan(once__server_service(session->server), session->config,
                                       &session->identity, &what);

    return !refused(out, err, what);
}

bool once__look_at_object(const struct once__request *request, struct once__out *out,
                          struct once_bytes name, bool writes)
{
    const struct once__session *session = request->session;
    const char *what = NULL;
    int err = once__service_check_object(once__server_service(session->server), session->config,
                                         &session->identity, name, writes, &what);

    return !refused(out, err, what);
}

/* ---- Cursors --------------------------------------------------------------------------------- */

bool once__cursor_read(const struct once__request *request, struct once__out *out,
                       struct once_bytes arg, uint64_t *ret_cursor)
{
    uint64_t cursor = 0;
    bool good = arg.size > 0 && arg.size <= 20;

    for (size_t i = 0; good && i < arg.size; i++) {
        uint64_t digit = (uint64_t)arg.data[i] - '0';

        good = digit <= 9 && cursor <= (UINT64_MAX - digit) / 10;
        cursor = cursor * 10 + digit;
    }
    if (!good) {
        once__out_bad(request, out, "the cursor must be one that it gave, or 0, not '%s'",
                      once__arg_echo(arg).text);
        return false;
    }
    *ret_cursor = cursor;
    return true;
}

void once__cursor_write(struct once__out *out, uint64_t cursor)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, cursor);
    once__out_text(out, text);
}

void once__out_bulk_or_null(struct once__out *out, struct once_bytes bytes)
{
    if (bytes.size > 0)
        once__out_bulk(out, bytes);
    else
        once__out_null(out);
}
