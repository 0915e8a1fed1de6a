/* SPDX-License-Identifier: Apache-2.0
 *
 * The dashboard: its page at / and the page's files at /web/{file}. They are the same for everyone
 * and hold nothing of the store: what the page shows it asks the API for, as whoever signs in.
 *
 * The policy that goes out with them lets the page load its own files and call its own server, and
 * nothing else: no inline script, no other host, no frame around it, and (trusted types) no string
 * that becomes markup, so that a key or a result with markup in it stays text even where the page
 * would have a mistake. Nothing here decides who may see what.
 */
#include "server/http_inner.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "server/web.h"

#define PAGE "index.html"

static const char content_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

const struct once__web_file *once__web_find(struct once_bytes name)
{
    for (size_t i = 0; i < once__web_file_count; i++) {
        if (once__bytes_equal(name, once_bytes_of(once__web_files[i].name)))
            return &once__web_files[i];
    }
    return NULL;
}

bool once__web_matches(const char *header, const char *etag)
{
    size_t size = strlen(etag);

    while (header && *header != '\0') {
        header += strspn(header, " \t,");
        if (*header == '*')
            return true;
        if (strncmp(header, "W/", 2) == 0)
            header += 2;
        if (strncmp(header, etag, size) == 0 && strchr(" \t,", header[size]))
            return true; /* strchr finds the end of the text too */
        header += strcspn(header, ",");
    }
    return false;
}

static enum once__http_next answer_file(struct once__http_request *request,
                                        const struct once__web_file *file)
{
    bool same = once__web_matches(once__http_header(request, "If-None-Match"), file->etag);
    struct once__view view = once__http_answer(request, same ? 304 : 200);
    struct once__http_answer *answer = &request->answer;

    ONCE_ASSERT(strlen(file->etag) < sizeof answer->etag);
    answer->type = same ? NULL : file->type;
    answer->privacy = content_policy;
    memcpy(answer->etag, file->etag, strlen(file->etag) + 1);
    if (!same)
        view.err = once_buf_append(view.out, file->bytes.data, file->bytes.size);
    once__http_answer_end(request, &view);
    return ONCE__HTTP_ANSWERED;
}

enum once__http_next once__http_page(struct once__http_request *request)
{
    const struct once__web_file *file = once__web_find(once_bytes_of(PAGE));

    ONCE_ASSERT(file);
    return answer_file(request, file);
}

enum once__http_next once__http_page_file(struct once__http_request *request)
{
    const struct once__web_file *file = once__web_find(request->params.values[0]);

    /* The page itself has one address, / : its links are relative to that. */
    if (!file || strcmp(file->name, PAGE) == 0) {
        once__http_problem(request, ONCE__PROBLEM_NO_FILE,
                           "The page at / has no file of that name.");
        return ONCE__HTTP_ANSWERED;
    }
    return answer_file(request, file);
}
