/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands and answers over one connection to a server.
 *
 * A connection is only kept while both sides agree on what was said: after every failure, and when
 * an answer came before the command was sent whole (the server had seen enough), it is closed, so
 * that no answer can ever be taken for that of another command.
 */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "client/client_answer.h"
#include "client/client_link.h"

struct once__client {
    struct once__address address;
    char *user;
    char *password;
    char *tls_ca;
    once_ms timeout_ms;
    struct once__link link;
    struct once_buf out;
    struct once__answer answer;
};

enum { READ_SIZE = 1 << 14, HEAD_SIZE = 32 };

/* ---- One command ----------------------------------------------------------------------------- */

static int append_head(struct once_buf *out, char type, size_t number)
{
    char head[HEAD_SIZE];
    int size = snprintf(head, sizeof(head), "%c%zu\r\n", type, number);

    return once_buf_append(out, head, (size_t)size);
}

static int write_command(struct once_buf *out, const struct once_bytes *words, size_t count)
{
    int err;

    once_buf_clear(out);
    err = append_head(out, '*', count);
    for (size_t i = 0; i < count && err == ONCE_OK; i++) {
        err = append_head(out, '$', words[i].size);
        if (err == ONCE_OK)
            err = once_buf_append(out, words[i].data, words[i].size);
        if (err == ONCE_OK)
            err = once_buf_append(out, "\r\n", 2);
    }
    return err;
}

static int read_more(struct once__client *client, bool *ret_moved, struct once_message *ret_message)
{
    uint8_t bytes[READ_SIZE];
    long got = once__link_read(&client->link, bytes, sizeof(bytes), ret_message);
    int err = got < 0 ? (int)got : ONCE_OK;

    if (got > 0)
        err = once__answer_feed(&client->answer, bytes, (size_t)got);
    if (err == ONCE_ERR_FULL || err == ONCE_ERR_MEMORY)
        return once__link_fail(ret_message, err, "%s", once_err_text(err));
    *ret_moved = got > 0;
    return err;
}

/* Sends what is in out and reads one answer. Reads while it sends: a server that refuses a long
 * command says so before it has seen the end. */
static int exchange(struct once__client *client, once_ms deadline_ms,
                    const struct once__answer_item **ret_answer, bool *ret_sent_whole,
                    struct once_message *ret_message)
{
    size_t sent = 0;

    once__answer_reset(&client->answer);
    for (;;) {
        bool moved = false, arrived = false;
        int err, whole;

        if (sent < client->out.size) {
            long got = once__link_send(&client->link, client->out.data + sent,
                                       client->out.size - sent, ret_message);

            /* What it said before it hung up is worth more than that it did. */
            if (got < 0 && read_more(client, &arrived, NULL) != ONCE_OK)
                return (int)got;
            if (got > 0)
                sent += (size_t)got;
            moved = got > 0;
        }
        if (!arrived) {
            err = read_more(client, &arrived, ret_message);
            if (err != ONCE_OK)
                return err;
        }
        whole = arrived ? once__answer_next(&client->answer, ret_answer) : 0;
        if (whole == 1) {
            *ret_sent_whole = sent == client->out.size;
            return ONCE_OK;
        }
        if (whole < 0)
            return once__link_fail(ret_message, whole,
                                   "the answer is not one of a server of "
                                   "Once: %s",
                                   client->answer.what ? client->answer.what
                                                       : once_err_text(whole));
        if (moved || arrived)
            continue;
        err = once__link_wait(&client->link, sent < client->out.size, deadline_ms, ret_message);
        if (err != ONCE_OK)
            return err;
    }
}

/* On a connection that is open; afterwards it still is only if all was as it should be. */
static int call(struct once__client *client, const struct once_bytes *words, size_t count,
                once_ms deadline_ms, const struct once__answer_item **ret_answer,
                struct once_message *ret_message)
{
    bool sent_whole = false;
    int err = write_command(&client->out, words, count);

    if (err != ONCE_OK)
        return once__link_fail(ret_message, err, "the command is too large: %s",
                               once_err_text(err));
    err = exchange(client, deadline_ms, ret_answer, &sent_whole, ret_message);
    if (err == ONCE_OK && once__answer_has_more(&client->answer))
        err = once__link_fail(ret_message, ONCE_ERR_DAMAGED,
                              "the server said more than it was asked");
    if (err != ONCE_OK || !sent_whole)
        once__link_close(&client->link);
    return err;
}

/* ---- The connection -------------------------------------------------------------------------- */

static int say_who(struct once__client *client, once_ms deadline_ms,
                   struct once_message *ret_message)
{
    const struct once_bytes words[] = {
        once_bytes_of("AUTH"),
        once_bytes_of(client->user ? client->user : client->password),
        once_bytes_of(client->password),
    };
    const struct once__answer_item *answer;
    int err = call(client, words, client->user ? 3 : 2, deadline_ms, &answer, ret_message);

    explicit_bzero(client->out.data, client->out.size);
    if (err == ONCE_OK && answer->kind == ONCE__ANSWER_ERROR) {
        err = once__link_fail(ret_message, ONCE_ERR_DENIED, "the server refuses%s%s: %.*s",
                              client->user ? " user " : "", client->user ? client->user : "",
                              (int)answer->bytes.size, (const char *)answer->bytes.data);
        once__link_close(&client->link);
    }
    return err;
}

static int connect_again(struct once__client *client, once_ms deadline_ms,
                         struct once_message *ret_message)
{
    int err = once__link_open(&client->address, client->tls_ca, deadline_ms, &client->link,
                              ret_message);

    if (err == ONCE_OK && client->password)
        err = say_who(client, deadline_ms, ret_message);
    return err;
}

int once__client_call(struct once__client *client, const struct once_bytes *words, size_t count,
                      const struct once__answer_item **ret_answer, struct once_message *ret_message)
{
    once_ms deadline_ms = once__link_now_ms() + client->timeout_ms;
    int err;

    if (client->link.fd < 0) {
        err = connect_again(client, deadline_ms, ret_message);
        if (err != ONCE_OK)
            return err;
    }
    return call(client, words, count, deadline_ms, ret_answer, ret_message);
}

/* NULL stays NULL. */
static bool copy(const char *text, char **ret_text)
{
    *ret_text = text ? strdup(text) : NULL;
    return !text || *ret_text;
}

int once__client_open(const char *address, const struct once__client_options *options,
                      struct once__client **ret_client, struct once_message *ret_message)
{
    static const struct once__client_options none = {0};
    struct once__client *client = calloc(1, sizeof(*client));
    int err = ONCE_OK;

    if (!options)
        options = &none;
    if (!client)
        return once__link_fail(ret_message, ONCE_ERR_MEMORY, "%s", once_err_text(ONCE_ERR_MEMORY));
    client->link = ONCE__LINK_CLOSED;
    client->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : ONCE_CLIENT_TIMEOUT_MS;
    once_buf_init(&client->out, ONCE_ANSWER_SIZE_MAX);
    once__answer_init(&client->answer);
    if (!copy(options->user, &client->user) || !copy(options->password, &client->password) ||
        !copy(options->tls_ca, &client->tls_ca))
        err = once__link_fail(ret_message, ONCE_ERR_MEMORY, "%s", once_err_text(ONCE_ERR_MEMORY));
    if (err == ONCE_OK)
        err = once__address_read(address, &client->address, ret_message);
    if (err == ONCE_OK)
        err = connect_again(client, once__link_now_ms() + client->timeout_ms, ret_message);
    if (err != ONCE_OK) {
        once__client_close(client);
        return err;
    }
    *ret_client = client;
    return ONCE_OK;
}

void once__client_close(struct once__client *client)
{
    if (!client)
        return;
    once__link_close(&client->link);
    once__answer_release(&client->answer);
    once_buf_release(&client->out);
    if (client->password)
        explicit_bzero(client->password, strlen(client->password));
    free(client->user);
    free(client->password);
    free(client->tls_ca);
    free(client);
}
