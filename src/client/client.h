/* SPDX-License-Identifier: Apache-2.0
 *
 * Talks RESP to a server, blocking, one command at a time: what the command line uses when a
 * server owns the folder, and what tests and the gateway use. Knows nothing of commands.
 */
#ifndef ONCE_CLIENT_CLIENT_H
#define ONCE_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/bytes.h>
#include <once/store.h>

struct once__client;

/* address: a path with a slash (unix socket), HOST:PORT (also tcp://HOST:PORT), or tls://HOST:PORT.
 * timeout_ms: of connecting, and of each answer; 0 is ONCE_CLIENT_TIMEOUT_MS. */
struct once__client_options {
    const char *user; /* NULL: none */
    const char *password;
    const char *tls_ca; /* PEM file of who signs; NULL: the system's */
    once_ms timeout_ms;
};
/* ONCE_ERR_INVALID (the address), ONCE_ERR_IO (nobody there, or its certificate is not good),
 * ONCE_ERR_DENIED (the user or password), ONCE_ERR_DAMAGED (no server of Once), ONCE_ERR_MEMORY;
 * the message (may be NULL) says more, and may hold the server's words. options may be NULL. */
ONCE_MUST_CHECK int once__client_open(const char *address,
                                      const struct once__client_options *options,
                                      struct once__client **ret_client,
                                      struct once_message *ret_message);
void once__client_close(struct once__client *client); /* accepts NULL */

enum once__answer_kind {
    ONCE__ANSWER_NULL,
    ONCE__ANSWER_WORD,  /* a simple string: bytes */
    ONCE__ANSWER_ERROR, /* bytes: "STALE a larger fence exists" */
    ONCE__ANSWER_NUMBER,
    ONCE__ANSWER_BYTES,
    ONCE__ANSWER_LIST /* items; a map is a list of name, value, name, value */
};
struct once__answer_item {
    enum once__answer_kind kind;
    int64_t number;
    struct once_bytes bytes;
    const struct once__answer_item *items;
    size_t count;
};

/* Sends the words and reads the answer, which belongs to the client until the next call. After
 * ONCE_ERR_IO (also when the answer did not come in time) nobody knows whether the command was
 * done; the connection is closed, and the next call opens it again: repeating is safe, because
 * every command of Once is idempotent. ONCE_ERR_DAMAGED: the answer was not RESP. Opening it
 * again can fail as above. An error of the server (-ERR …) is an answer. */
ONCE_MUST_CHECK int once__client_call(struct once__client *client, const struct once_bytes *words,
                                      size_t count, const struct once__answer_item **ret_answer,
                                      struct once_message *ret_message);
/* The value of a name in a list of pairs; NULL: there is none. */
const struct once__answer_item *once__answer_find(const struct once__answer_item *answer,
                                                  const char *name);
/* Is it an error that begins with this word? */
bool once__answer_is_error(const struct once__answer_item *answer, const char *code);

#endif
