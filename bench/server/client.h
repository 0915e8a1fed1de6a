/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of the load generator to a RESP server on this machine: each claims keys and
 * remembers when each claim was due, so that its answer can be timed. Answers of a connection
 * come in order.
 * */
#ifndef BENCH_SERVER_CLIENT_H
#define BENCH_SERVER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../store/common.h"

/* Claims of one connection under way at most. Past it claims are held back, and keep the time when
 * they were due. */
enum { BENCH_CLIENT_CLAIMS_MAX = 4096 };

enum bench_peer { BENCH_PEER_ONCE, BENCH_PEER_REDIS };

struct bench_client;

/* known: the key was claimed before. */
typedef void bench_client_told(void *user, uint64_t due_ns, bool known);

/* Connects, and is watched by this epoll with itself as data. Dies when nobody listens there. */
struct bench_client *bench_client_open(int epoll, uint16_t port, enum bench_peer peer);
void bench_client_close(struct bench_client *client);

size_t bench_client_pending(const struct bench_client *client);
/* Puts a claim behind those that are not sent yet. At most BENCH_CLIENT_CLAIMS_MAX may be
 * pending. */
void bench_client_claim(struct bench_client *client, const struct bench_key *key, uint64_t due_ns);
/* Sends what it can; the rest goes when epoll says that it may. */
void bench_client_send(struct bench_client *client);
/* Epoll named it: sends, reads, and tells what was answered. Dies when an answer is an error or
 * none that a claim can have, or when the server hangs up. */
void bench_client_serve(struct bench_client *client, uint32_t events, bench_client_told *told,
                        void *user);

#endif
