/* SPDX-License-Identifier: Apache-2.0
 *
 * A real server inside of the test: real sockets, real threads, and a store whose clock the test
 * moves. What the adapters of RESP and HTTP share.
 */
#ifndef ONCE_TESTS_SERVED_H
#define ONCE_TESTS_SERVED_H

#include "conformance/conformance.h"

struct served;

/* How adapters talk to it: a connection is taken from those that are idle, else made, and given
 * back; all of them are dropped when the server goes. */
struct served_link {
    void *(*make)(const struct served *served);
    void (*drop)(void *connection);
};

/* on_disk: on the test disk, where every second restart is a power cut; else in a folder, or on
 * PostgreSQL. NULL on failure, which is told. */
struct served *served_open(once_ms start_ms, bool on_disk, const struct served_link *link);
void served_close(struct served *served);
/* Stops the server, or cuts its power, and starts it again on what is left. On PostgreSQL its
 * sessions are cut every second time instead, and it must help itself. NULL on failure. */
struct served *served_restart(struct served *served);
void served_advance(struct served *served, once_ms by_ms);

uint16_t served_resp_port(const struct served *served);
uint16_t served_http_port(const struct served *served);

/* Calls that WAIT at this moment. */
size_t served_parked(const struct served *served);

void *served_take(struct served *served);
void served_give(struct served *served, void *connection);

/* Words and errors by their names. False, or ONCE_OK, when it is none. */
bool served_word(struct once_bytes name, enum once_word *ret_word);
bool served_state(struct once_bytes name, enum once_state *ret_state);
int served_err(struct once_bytes name);

/* At most CONFORMANCE_BYTES_MAX - 1 of the bytes, and a NUL. */
void served_copy(char *to, struct once_bytes bytes);

/* Where servers listen besides; "off" unless said. The same path after a restart. */
extern const char *served_socket;

/* The main of an adapter: [--threads N] [--disk | --postgres [--lanes N]] [--straight] [scenario].
 * --straight: nothing is restarted. */
extern bool served_on_disk;
extern bool served_on_postgres; /* on the database of ONCE_PG_URL; one at a time */
int served_main(int argc, char **argv, struct conformance_adapter *adapter, const char *protocol);

#endif
