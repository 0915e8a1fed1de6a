/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is calling, and what they may do. The same for RESP and HTTP.
 *
 * Comparing a password takes tens of milliseconds on purpose, so hosts never do it on their own
 * thread: once__access_start hands it to a worker. A password that was right a moment ago is
 * remembered (as a keyed hash, for ONCE_PASSWORD_CACHE_MS) and answers at once. Wrong ones make
 * the next try from the same address wait (ONCE_AUTH_FAILURES_MAX in ONCE_AUTH_WINDOW_MS, then
 * refused until the window is over; the right token never is). All comparisons take the same
 * time wherever they differ, and a name that does not exist costs as much as a wrong password.
 */
#ifndef ONCE_SERVER_ACCESS_H
#define ONCE_SERVER_ACCESS_H

#include "server/config.h"
#include "server/work.h"

/* Someone who is known. Small: hosts keep it by value. */
struct once__identity {
    bool known;
    enum once__role role;
    char name[ONCE_USER_SIZE_MAX + 1]; /* "" where there are no users, or over the unix socket */
    uint64_t generation;               /* of the configuration that knew them */
    uint64_t proof; /* of their password or token then: a change of it ends the identity */
};

struct once__access;

/* lane is where passwords are compared. */
ONCE_MUST_CHECK int once__access_new(struct once__lane *lane, struct once__access **ret_access);
void once__access_free(struct once__access *access); /* accepts NULL */
/* Passwords that still wait are compared no more but refused, as delayed: who knows none cannot
 * hold up a server that has to end. Any thread. */
void once__access_end(struct once__access *access);
/* For tests: another clock than the system's, for windows and what is remembered. */
void once__access_set_clock(struct once__access *access, once_ms (*now_ms)(void *user), void *user);

/* Where there are no users, everyone is an administrator without a name; else nobody is known yet.
 */
struct once__identity once__identity_anonymous(const struct once__config *config);
/* The owner of the process, over the unix socket: an administrator. */
struct once__identity once__identity_owner(const struct once__config *config);
/* After a reload: is it still that user, with the same secret? Takes the new role over. */
bool once__identity_renew(struct once__identity *identity, const struct once__config *config);

/* One try. The caller keeps it until done was called; secret is wiped by then. */
struct once__login {
    struct once__config *config; /* the caller holds a reference */
    bool bearer;                 /* secret is a token and name is empty */
    char name[ONCE_USER_SIZE_MAX + 1];
    uint8_t secret[ONCE_PASSWORD_SIZE_MAX];
    size_t secret_size;
    char from[64]; /* the address, without its port */
    /* The answer. */
    bool granted;
    bool delayed; /* too many wrong ones: not even looked at */
    struct once__identity identity;
    void (*done)(struct once__login *login); /* on a worker's thread */
    void *user;
    struct once__job job; /* inner */
    struct once__access *access;
};
/* True: answered already (remembered, a token, or delayed); done is not called. False: done will
 * be. ONCE_ERR_FULL is an answer too: not granted, delayed. */
bool once__access_start(struct once__access *access, struct once__login *login);

/* May this identity use the namespace, the object, this many calls a second? */
bool once__access_namespace(const struct once__config *config,
                            const struct once__identity *identity, struct once_bytes ns);
bool once__access_object(const struct once__config *config, const struct once__identity *identity,
                         struct once_bytes name);
/* False: over the rate of its user; *ret_wait_ms says when to come back. Any thread. */
bool once__access_rate(struct once__access *access, const struct once__config *config,
                       const struct once__identity *identity, uint64_t now_ns,
                       once_ms *ret_wait_ms);

/* Makes the text of a password line; of a new token and its line. ONCE_ERR_RANDOM,
 * ONCE_ERR_CRYPTO, ONCE_ERR_INVALID (too short, too long), ONCE_ERR_FULL. */
ONCE_MUST_CHECK int once__password_make(struct once_bytes password, struct once_buf *out);
ONCE_MUST_CHECK int once__token_make(struct once_buf *token, struct once_buf *line);
/* Reads such a text. False: it is not one. */
bool once__password_read(struct once_bytes text, struct once__password *ret_password);
bool once__token_read(struct once_bytes text, struct once__token *ret_token);

#endif
