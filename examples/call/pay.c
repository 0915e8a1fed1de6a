/* SPDX-License-Identifier: Apache-2.0
 * Pays over HTTP, once, however often it is told to and killed:  pay FOLDER URL ORDER AMOUNT
 *
 * $PAY_TOKEN is sent as a secret. The same command again goes on where a killed one stopped: with
 * the same key and the same bytes, which is right because the receiver pays once for each key. */
#include <once/call.h>
#include <once/once.h>
#include <stdio.h>

static int tell(int err, const struct once_http_answer *answer)
{
    if (err != ONCE_OK) {
        fprintf(stderr, "%s\n", answer->text);
        return 1;
    }
    printf("%s", once_http_outcome_name(answer->outcome));
    if (answer->outcome == ONCE_HTTP_ANSWERED || answer->outcome == ONCE_HTTP_REPLAYED)
        printf(": %d %.*s", answer->status, (int)answer->body.size,
               answer->body.size > 0 ? (const char *)answer->body.data : "");
    printf("\n");
    return answer->outcome <= ONCE_HTTP_REPLAYED && answer->status < 400 ? 0 : 1;
}

static int pay(struct once_store *store, char **argv)
{
    const char *secrets[] = {"Authorization: Bearer $PAY_TOKEN"};
    char body[128];
    struct once_http_request request = {
        .method = "POST", .url = argv[2], .secret_headers = secrets, .secret_header_count = 1};
    struct once_http_options options = {.ns = once_bytes_of("payments"),
                                        .on_doubt = ONCE_ON_DOUBT_RETRY,
                                        .lease_ms = 5000,
                                        .wait_ms = 20000};
    struct once_http_journal journal = once_http_journal_of(store);
    struct once_http_answer answer;
    int err, status;

    snprintf(body, sizeof(body), "{\"amount\":\"%s\"}", argv[4]);
    request.body = once_bytes_of(body);
    err = once_http_send(&journal, once_bytes_of(argv[3]), &request, &options, &answer);
    status = tell(err, &answer);
    once_http_answer_release(&answer);
    return status;
}

int main(int argc, char **argv)
{
    struct once_message message = {"usage: pay FOLDER URL ORDER AMOUNT"};
    struct once_store *store;
    int status;

    if (argc != 5 || once_open(argv[1], NULL, &store, &message) != ONCE_OK)
        return fprintf(stderr, "%s\n", message.text), 1;
    status = pay(store, argv);
    return once_close(store) == ONCE_OK ? status : 1;
}
