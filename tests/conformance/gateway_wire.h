/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP as far as the gateway's adapter needs it: the client of a request and the service that it
 * arrives at, both here.
 */
#ifndef ONCE_TESTS_GATEWAY_WIRE_H
#define ONCE_TESTS_GATEWAY_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/once.h>

#define GATEWAY_PATH "/operation"

enum { GATEWAY_TEXT_MAX = 4096, GATEWAY_WORD_MAX = 32 };

struct gateway_request {
    uint16_t port;
    char host[128];
    const char *ns, *key, *body;
};

/* The two ends of a request. */
struct gateway_pair {
    int client, service; /* service is -1 when it did not arrive */
};

struct gateway_answer {
    int status;
    bool replayed;
    char verdict[GATEWAY_WORD_MAX]; /* "" is none; of the problem details, as the others */
    char problem[GATEWAY_WORD_MAX];
    once_ms retry_ms;
    char text[GATEWAY_TEXT_MAX]; /* all of it */
    const char *body;            /* in text, which ends with a NUL */
    size_t body_size;
};

/* Sends it. True: it has arrived at the service, with this fence and attempt, and is held there.
 * False: an answer is there to be read. */
bool gateway_ask(const struct gateway_request *request, struct gateway_pair *ret_pair,
                 uint64_t *ret_fence, uint32_t *ret_attempt);
/* What the service says; status 0: nothing, it closes. */
void gateway_say(struct gateway_pair *pair, int status, struct once_bytes body);
/* What the client gets. */
void gateway_read(const struct gateway_pair *pair, struct gateway_answer *ret_answer);
void gateway_close(struct gateway_pair *pair);

#endif
