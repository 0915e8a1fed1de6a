/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is calling, and what they may do.
 *
 * Owns three bounded tables, each with an age at which an entry means nothing any more: passwords
 * that were right a moment ago (as keyed hashes), addresses that said wrong ones, and how far each
 * user has used up their rate. Keeps no secret: a try is wiped before it is answered.
 */
#include "server/access.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/random.h"
#include "server/password.h"

enum {
    REMEMBERED_COUNT = 1024,
    ADDRESS_SETS = 256, /* an address has its place in one set; the oldest of it gives way */
    ADDRESS_WAYS = 8,
    ADDRESS_SIZE = 48,
    KEY_SIZE = 32,
    MAC_SIZE = 32
};

#define NS_A_SECOND 1000000000ULL

/* What proof is for those who have no secret. */
enum { PROOF_ANONYMOUS = 0, PROOF_OWNER = 1 };

struct remembered {
    uint8_t mac[MAC_SIZE];
    once_ms until_ms;
};

struct address {
    char text[ADDRESS_SIZE];
    once_ms since_ms; /* when the window began */
    unsigned wrong;
};

struct once__access {
    struct once__lane *lane;
    uint8_t key[KEY_SIZE]; /* of this process */
    once_ms (*now_ms)(void *user);
    void *now_user;
    _Atomic bool ended;
    pthread_mutex_t lock; /* of the two tables */
    struct remembered remembered[REMEMBERED_COUNT];
    struct address addresses[ADDRESS_SETS][ADDRESS_WAYS];
    /* By the place of the user in the configuration: until when their calls are used up. After a
     * reload a place may be another user's, which is wrong by a second at most. */
    _Atomic uint64_t used_until_ns[ONCE_USERS_MAX];
};

static once_ms boot_ms(void *user)
{
    struct timespec now;

    (void)user;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int once__access_new(struct once__lane *lane, struct once__access **ret_access)
{
    struct once__access *access = calloc(1, sizeof(*access));
    int err;

    if (!access)
        return ONCE_ERR_MEMORY;
    access->lane = lane;
    access->now_ms = boot_ms;
    err = once__random_bytes(access->key, sizeof(access->key));
    if (err == ONCE_OK && pthread_mutex_init(&access->lock, NULL) != 0)
        err = ONCE_ERR_MEMORY;
    if (err != ONCE_OK) {
        free(access);
        return err;
    }
    *ret_access = access;
    return ONCE_OK;
}

void once__access_free(struct once__access *access)
{
    if (!access)
        return;
    (void)pthread_mutex_destroy(&access->lock);
    OPENSSL_cleanse(access, sizeof(*access));
    free(access);
}

void once__access_end(struct once__access *access)
{
    atomic_store(&access->ended, true);
}

void once__access_set_clock(struct once__access *access, once_ms (*now_ms)(void *user), void *user)
{
    access->now_ms = now_ms;
    access->now_user = user;
}

/* ---- Identities ------------------------------------------------------------------------------ */

static uint64_t proof_of(const uint8_t hash[ONCE__HASH_SIZE])
{
    uint64_t proof;

    memcpy(&proof, hash, sizeof(proof));
    return proof > PROOF_OWNER ? proof : proof + 2;
}

static struct once__identity identity_of(const struct once__config *config,
                                         const struct once__user *user, uint64_t proof)
{
    struct once__identity identity = {
        .known = true, .role = user->role, .generation = config->generation, .proof = proof};

    snprintf(identity.name, sizeof(identity.name), "%s", user->name);
    return identity;
}

struct once__identity once__identity_anonymous(const struct once__config *config)
{
    return (struct once__identity){.known = config->user_count == 0,
                                   .role = config->user_count == 0 ? ONCE__ROLE_ADMIN
                                                                   : ONCE__ROLE_READ,
                                   .generation = config->generation,
                                   .proof = PROOF_ANONYMOUS};
}

struct once__identity once__identity_owner(const struct once__config *config)
{
    return (struct once__identity){.known = true,
                                   .role = ONCE__ROLE_ADMIN,
                                   .generation = config->generation,
                                   .proof = PROOF_OWNER};
}

bool once__identity_renew(struct once__identity *identity, const struct once__config *config)
{
    const struct once__user *user;

    if (identity->generation == config->generation)
        return true;
    if (identity->name[0] == '\0') {
        bool was_known = identity->known, owner = identity->proof == PROOF_OWNER;

        *identity = owner ? once__identity_owner(config) : once__identity_anonymous(config);
        return identity->known || !was_known;
    }
    user = once__config_user(config, once_bytes_of(identity->name));
    if (!user || !((user->password.set && identity->proof == proof_of(user->password.hash)) ||
                   (user->token.set && identity->proof == proof_of(user->token.hash)))) {
        *identity = (struct once__identity){.known = false, .generation = config->generation};
        return false;
    }
    identity->role = user->role;
    identity->generation = config->generation;
    return true;
}

/* ---- Passwords that were right --------------------------------------------------------------- */

/* Of name, hash and secret: a password that was changed is another one. */
static bool mac_of(const struct once__access *access, const struct once__user *user,
                   const struct once__login *login, uint8_t ret_mac[MAC_SIZE])
{
    uint8_t text[ONCE_USER_SIZE_MAX + 1 + ONCE__HASH_SIZE + ONCE_PASSWORD_SIZE_MAX] = {0};
    size_t size = ONCE_USER_SIZE_MAX + 1; /* a fixed size: parts cannot run into each other */
    unsigned mac_size = 0;
    bool made;

    memcpy(text, user->name, strlen(user->name));
    memcpy(text + size, user->password.hash, ONCE__HASH_SIZE);
    size += ONCE__HASH_SIZE;
    memcpy(text + size, login->secret, login->secret_size);
    size += login->secret_size;
    made = HMAC(EVP_sha256(), access->key, KEY_SIZE, text, size, ret_mac, &mac_size) != NULL;
    OPENSSL_cleanse(text, sizeof(text));
    return made && mac_size == MAC_SIZE;
}

static size_t remembered_place(const uint8_t mac[MAC_SIZE])
{
    return ((size_t)mac[0] << 8 | mac[1]) % REMEMBERED_COUNT;
}

static bool is_remembered(struct once__access *access, const uint8_t mac[MAC_SIZE])
{
    const struct remembered *entry = &access->remembered[remembered_place(mac)];
    bool right;

    (void)pthread_mutex_lock(&access->lock);
    right = CRYPTO_memcmp(entry->mac, mac, MAC_SIZE) == 0 &&
            access->now_ms(access->now_user) < entry->until_ms;
    (void)pthread_mutex_unlock(&access->lock);
    return right;
}

static void remember(struct once__access *access, const uint8_t mac[MAC_SIZE])
{
    struct remembered *entry = &access->remembered[remembered_place(mac)];

    (void)pthread_mutex_lock(&access->lock);
    memcpy(entry->mac, mac, MAC_SIZE);
    entry->until_ms = access->now_ms(access->now_user) + ONCE_PASSWORD_CACHE_MS;
    (void)pthread_mutex_unlock(&access->lock);
}

/* ---- Addresses that were wrong --------------------------------------------------------------- */

/* An IPv6 caller owns at least a /64: all of it counts as one. */
static void address_of(const char *from, char ret_text[ADDRESS_SIZE])
{
    struct in6_addr six;
    char text[INET6_ADDRSTRLEN];

    if (inet_pton(AF_INET6, from, &six) == 1 && !IN6_IS_ADDR_V4MAPPED(&six)) {
        memset(six.s6_addr + 8, 0, 8);
        if (inet_ntop(AF_INET6, &six, text, sizeof(text))) {
            snprintf(ret_text, ADDRESS_SIZE, "%s", text);
            return;
        }
    }
    snprintf(ret_text, ADDRESS_SIZE, "%.*s", ADDRESS_SIZE - 1, from);
}

/* The entry of an address; one that gives way if it has none. The lock is held. */
static struct address *address_find(struct once__access *access, const char *text)
{
    uint8_t mac[MAC_SIZE] = {0};
    struct address *set, *oldest;

    (void)HMAC(EVP_sha256(), access->key, KEY_SIZE, (const uint8_t *)text, strlen(text), mac,
               NULL); /* keyed: nobody chooses whom they push out */
    set = access->addresses[mac[0] % ADDRESS_SETS];
    oldest = &set[0];
    for (size_t i = 0; i < ADDRESS_WAYS; i++) {
        if (strcmp(set[i].text, text) == 0)
            return &set[i];
        if (set[i].since_ms < oldest->since_ms)
            oldest = &set[i];
    }
    return oldest;
}

static bool is_delayed(struct once__access *access, const char *from)
{
    char text[ADDRESS_SIZE];
    const struct address *entry;
    bool delayed;

    address_of(from, text);
    (void)pthread_mutex_lock(&access->lock);
    entry = address_find(access, text);
    delayed = strcmp(entry->text, text) == 0 && entry->wrong >= ONCE_AUTH_FAILURES_MAX &&
              access->now_ms(access->now_user) - entry->since_ms < ONCE_AUTH_WINDOW_MS;
    (void)pthread_mutex_unlock(&access->lock);
    return delayed;
}

static void note_wrong(struct once__access *access, const char *from)
{
    char text[ADDRESS_SIZE];
    struct address *entry;
    once_ms now_ms;

    address_of(from, text);
    (void)pthread_mutex_lock(&access->lock);
    now_ms = access->now_ms(access->now_user);
    entry = address_find(access, text);
    if (strcmp(entry->text, text) != 0 || now_ms - entry->since_ms >= ONCE_AUTH_WINDOW_MS) {
        *entry = (struct address){.since_ms = now_ms};
        memcpy(entry->text, text, sizeof(entry->text));
    }
    entry->wrong++;
    (void)pthread_mutex_unlock(&access->lock);
}

/* ---- A try ----------------------------------------------------------------------------------- */

static void answer(struct once__login *login, bool granted, bool delayed)
{
    OPENSSL_cleanse(login->secret, sizeof(login->secret));
    login->secret_size = 0;
    login->granted = granted;
    login->delayed = delayed;
}

static void grant(struct once__login *login, const struct once__user *user, const uint8_t *hash)
{
    login->identity = identity_of(login->config, user, proof_of(hash));
    answer(login, true, false);
}

/* Looks at every token, wherever the right one stands; with a name only at that user's. */
static const struct once__user *find_token(const struct once__login *login)
{
    const struct once__config *config = login->config;
    const struct once__user *found = NULL;
    struct once__token token;

    if (once__token_hash((struct once_bytes){login->secret, login->secret_size}, &token) != ONCE_OK)
        return NULL;
    for (size_t i = 0; i < config->user_count; i++) {
        const struct once__user *user = &config->users[i];
        bool same = CRYPTO_memcmp(user->token.hash, token.hash, sizeof(token.hash)) == 0;

        if (same && user->token.set && (login->bearer || strcmp(user->name, login->name) == 0))
            found = user;
    }
    return found;
}

/* On the lane: compares, as long as it takes. */
static void compare(struct once__job *job)
{
    struct once__login *login = (struct once__login *)(void *)((char *)job -
                                                               offsetof(struct once__login, job));
    struct once__access *access = login->access;
    const struct once__user *user = once__config_user(login->config, once_bytes_of(login->name));
    bool has_password = user && user->password.set, right;
    struct once__password decoy;
    uint8_t hash[ONCE__HASH_SIZE], mac[MAC_SIZE];
    const struct once__password *password = has_password ? &user->password : &decoy;
    bool has_mac = has_password && mac_of(access, user, login, mac);

    once__password_decoy(&decoy);
    if (has_mac && is_remembered(access, mac)) { /* by someone who stood before this one */
        grant(login, user, user->password.hash);
        login->done(login);
        return;
    }
    if (atomic_load(&access->ended) || is_delayed(access, login->from)) {
        answer(login, false, true);
        login->done(login);
        return;
    }
    right = once__password_hash(password, (struct once_bytes){login->secret, login->secret_size},
                                hash) == ONCE_OK &&
            CRYPTO_memcmp(hash, password->hash, sizeof(hash)) == 0;
    OPENSSL_cleanse(hash, sizeof(hash));
    if (right && has_password) {
        if (has_mac)
            remember(access, mac);
        grant(login, user, user->password.hash);
    } else {
        note_wrong(access, login->from);
        answer(login, false, false);
    }
    login->done(login);
}

bool once__access_start(struct once__access *access, struct once__login *login)
{
    const struct once__user *user = find_token(login);
    uint8_t mac[MAC_SIZE];

    ONCE_ASSERT(login->secret_size <= sizeof(login->secret));
    /* Nobody guesses a token: the right one is taken even from where others guess, so that these
     * cannot lock a whole network out. A password, also one that is remembered, could be guessed.
     */
    if (user) {
        grant(login, user, user->token.hash);
        return true;
    }
    if (is_delayed(access, login->from)) {
        answer(login, false, true);
        return true;
    }
    if (login->bearer) {
        note_wrong(access, login->from);
        answer(login, false, false);
        return true;
    }
    user = once__config_user(login->config, once_bytes_of(login->name));
    if (user && user->password.set && mac_of(access, user, login, mac) &&
        is_remembered(access, mac)) {
        grant(login, user, user->password.hash);
        return true;
    }
    login->access = access;
    login->job = (struct once__job){.run = compare};
    if (once__lane_add(access->lane, &login->job) != ONCE_OK) {
        answer(login, false, true);
        return true;
    }
    return false;
}

/* ---- What they may do ------------------------------------------------------------------------ */

bool once__access_namespace(const struct once__config *config,
                            const struct once__identity *identity, struct once_bytes ns)
{
    const struct once__user *user;

    if (!identity->known)
        return false;
    if (identity->role == ONCE__ROLE_ADMIN)
        return true;
    user = once__config_user(config, once_bytes_of(identity->name));
    if (!user || user->every_namespace)
        return user != NULL;
    for (size_t i = 0; i < user->namespace_count; i++) {
        struct once_bytes name = once_bytes_of(user->namespaces[i]);

        if (once__bytes_equal(name, ns) || once__bytes_equal(name, once__namespace_base(ns)))
            return true;
    }
    return false;
}

bool once__access_object(const struct once__config *config, const struct once__identity *identity,
                         struct once_bytes name)
{
    const struct once__user *user;

    if (!identity->known)
        return false;
    if (identity->role == ONCE__ROLE_ADMIN)
        return true;
    user = once__config_user(config, once_bytes_of(identity->name));
    if (!user || user->every_object)
        return user != NULL;
    for (size_t i = 0; i < user->object_count; i++) {
        size_t size = strlen(user->objects[i]);

        if (size <= name.size && memcmp(user->objects[i], name.data, size) == 0)
            return true;
    }
    return false;
}

/* Each call uses up 1/rate of a second; a second may be used up in advance. */
bool once__access_rate(struct once__access *access, const struct once__config *config,
                       const struct once__identity *identity, uint64_t now_ns, once_ms *ret_wait_ms)
{
    const struct once__user *user = NULL;
    _Atomic uint64_t *until;
    uint64_t before, after;

    if (identity->name[0] != '\0')
        user = once__config_user(config, once_bytes_of(identity->name));
    if (!user || user->rate_max == 0)
        return true;
    until = &access->used_until_ns[user - config->users];
    before = atomic_load_explicit(until, memory_order_relaxed);
    do {
        after = (before > now_ns ? before : now_ns) + NS_A_SECOND / user->rate_max;
        if (after > now_ns + NS_A_SECOND) {
            *ret_wait_ms = (once_ms)((after - now_ns - NS_A_SECOND) / 1000000 + 1);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(until, &before, after, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}
