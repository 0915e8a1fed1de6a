/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server is told before it starts: where it listens, who may do what, and what the owner of
 * each namespace has decided. Read from a file, the environment and flags, each over the one
 * before; checked whole before anything is used. docs/configuration.md describes every line.
 *
 * A configuration does not change after it was read. A reload reads a new one; whoever uses the
 * old one holds a reference to it.
 */
#ifndef ONCE_SERVER_CONFIG_H
#define ONCE_SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <once/limits.h>
#include <once/store.h>

#include "core/outcome.h"

/* ---- Namespaces ------------------------------------------------------------------------------ */

/* What becomes of the code that an operation is completed with (D6). */
enum once__codes {
    ONCE__CODES_ANY = 0, /* stored, whatever it is. The default */
    ONCE__CODES_HTTP = 1 /* it is an HTTP status: once__outcome_of_status says */
};

/* The policy of a namespace. What a request does not say is taken from here; what it says is held
 * against the bounds. */
struct once__policy {
    char name[ONCE_NAMESPACE_SIZE_MAX + 1]; /* "*": every namespace that is not declared */
    once_ms retention_ms;                   /* of a begin or apply that says no TTL */
    once_ms retention_ms_max;
    once_ms lease_ms;
    once_ms lease_ms_max;
    once_ms wait_ms_max; /* a longer WAIT waits that long */
    enum once_on_doubt on_doubt;
    bool doubt_fixed; /* a request may not say otherwise */
    enum once__codes codes;
    enum once_on_5xx on_5xx; /* of ONCE__CODES_HTTP */
    size_t result_size_max;
    bool by_user; /* every user has keys of their own (K2): they are kept as "namespace@user" */
};

/* A namespace may have scopes, "namespace~scope" (K2): the callers that a gateway tells apart. What
 * is declared, allowed and counted is the namespace before the mark. */
static inline struct once_bytes once__namespace_base(struct once_bytes ns)
{
    const uint8_t *mark = ns.size > 0 ? memchr(ns.data, '~', ns.size) : NULL;

    return mark && mark > ns.data ? (struct once_bytes){ns.data, (size_t)(mark - ns.data)} : ns;
}

/* ---- Users ----------------------------------------------------------------------------------- */

enum once__role {
    ONCE__ROLE_READ = 0,  /* looks */
    ONCE__ROLE_WRITE = 1, /* and calls */
    ONCE__ROLE_ADMIN = 2  /* and resolves, forgets, configures; every namespace, every object */
};

#define ONCE__SALT_SIZE 16
#define ONCE__HASH_SIZE 32

/* scrypt. As text: "scrypt$15$8$1$<salt in base64>$<hash in base64>" (log2 N, r, p). */
struct once__password {
    bool set;
    uint8_t log_n;
    uint32_t r;
    uint32_t p;
    uint8_t salt[ONCE__SALT_SIZE];
    uint8_t hash[ONCE__HASH_SIZE];
};

/* SHA-256 of a random token: as long as a token is random nothing slower is needed. As text:
 * "sha256$<hex>". */
struct once__token {
    bool set;
    uint8_t hash[ONCE__HASH_SIZE];
};

struct once__user {
    char name[ONCE_USER_SIZE_MAX + 1];
    enum once__role role;
    struct once__password password;
    struct once__token token;
    bool every_namespace;
    char (*namespaces)[ONCE_NAMESPACE_SIZE_MAX + 1];
    size_t namespace_count;
    bool every_object;
    char (*objects)[ONCE_OBJECT_NAME_SIZE_MAX + 1]; /* beginnings of names */
    size_t object_count;
    uint32_t rate_max; /* calls a second; 0 is no limit */
};

/* ---- The whole ------------------------------------------------------------------------------- */

struct once__listen {
    char host[256];
    uint16_t port; /* 0: any that is free */
    bool tls;
    bool loopback; /* nobody but this machine reaches it */
};

enum once__log_level { ONCE__LOG_ERROR, ONCE__LOG_WARN, ONCE__LOG_INFO, ONCE__LOG_DEBUG };

struct once__config {
    uint32_t references;
    uint64_t generation; /* larger for one that was read later; set by once__config_read */

    char *file;   /* where it was read from; NULL: none */
    char *folder; /* the store; NULL: it is a shared one */
    struct once_options store;
    char *store_url;  /* a shared store, with its password; NULL: it is the folder */
    bool accept_loss; /* of a shared store: it may lose what it has acknowledged */

    struct once__listen resp[ONCE_LISTENERS_MAX];
    size_t resp_count;
    struct once__listen http[ONCE_LISTENERS_MAX];
    size_t http_count;
    char *socket; /* unix socket; NULL: none. Default: FOLDER/once.sock, none without folder */

    char *tls_cert; /* PEM files; NULL: no TLS */
    char *tls_key;
    bool plaintext; /* other machines may be served without TLS */

    bool log_json;
    enum once__log_level log_level;
    char *log_file; /* NULL: standard error */

    uint32_t connections_max;
    once_ms idle_ms_max;      /* a connection that says nothing this long is closed; 0: never */
    once_ms drain_ms_max;     /* how long SIGTERM waits for what was begun */
    bool namespaces_declared; /* only declared namespaces exist */

    struct once__policy otherwise; /* [namespace *] */
    struct once__policy *policies;
    size_t policy_count;
    struct once__user *users; /* none: everyone who can connect is an administrator */
    size_t user_count;

    char *warnings[ONCE_CONFIG_WARNINGS_MAX]; /* what is allowed and still looks wrong */
    size_t warning_count;
};

/* What was wrong: the text names the file and line, the variable or the flag, and what to do. */
struct once__config_error {
    char text[ONCE_MESSAGE_SIZE];
};

/* One setting from the command line: name is that of the file's line, such as "listen". */
struct once__setting {
    const char *name;
    const char *value;
    const char *from; /* for messages: "--listen" */
};

struct once__config_sources {
    const char *file;                  /* NULL: none */
    char *const *environment;          /* "ONCE_LISTEN=…" and so on; NULL: none is looked at */
    const struct once__setting *flags; /* over all */
    size_t flag_count;
};

/* Reads and checks. The caller unrefs it. ONCE_ERR_INVALID (ret_error says what), ONCE_ERR_MEMORY,
 * ONCE_ERR_NO_STORE (no folder is known), ONCE_ERR_IO (the file cannot be read). */
ONCE_MUST_CHECK int once__config_read(const struct once__config_sources *sources,
                                      struct once__config **ret_config,
                                      struct once__config_error *ret_error);
/* The text of a file alone, for fuzzing and tests; name is what messages call it. */
ONCE_MUST_CHECK int once__config_parse(const char *name, struct once_bytes text,
                                       struct once__config **ret_config,
                                       struct once__config_error *ret_error);

/* Before a configuration that was just read takes the place of a running one: takes over what
 * cannot change while running, and checks the result. names: the settings that differ and were
 * taken over, with blanks between. ONCE_ERR_INVALID (what is left does not fit together), …MEMORY.
 */
ONCE_MUST_CHECK int once__config_keep_fixed(struct once__config *config,
                                            const struct once__config *running,
                                            struct once_buf *names,
                                            struct once__config_error *ret_error);

/* Atomic: any thread may. */
struct once__config *once__config_ref(struct once__config *config);
void once__config_unref(struct once__config *config); /* accepts NULL */

/* Never NULL, unless only declared namespaces exist and this is none. "pay@alice" is policed as
 * "pay" where that is by_user. */
const struct once__policy *once__config_policy(const struct once__config *config,
                                               struct once_bytes ns);
const struct once__user *once__config_user(const struct once__config *config,
                                           struct once_bytes name);

/* Writes the configuration as a file would say it, without secrets ("password = (set)"). */
ONCE_MUST_CHECK int once__config_show(const struct once__config *config, struct once_buf *out);

/* "24h", "16m": as a file would say them. */
enum { ONCE__AMOUNT_SIZE = 32 };
void once__duration_text(once_ms duration_ms, char ret_text[ONCE__AMOUNT_SIZE]);
void once__size_text(uint64_t size, char ret_text[ONCE__AMOUNT_SIZE]);

/* Which stores a setting means something for. */
enum once__of { ONCE__OF_EVERY = 0, ONCE__OF_FOLDER, ONCE__OF_SHARED };

/* Every setting of a file, for --help and the reference page. section: "", "namespace", "user". */
struct once__setting_help {
    const char *section;
    const char *name;
    const char *value;    /* what it is called: "HOST:PORT" */
    const char *fallback; /* its default, as text */
    const char *text;
    bool repeats; /* may stand more than once */
    bool fixed;   /* a reload does not change it */
    enum once__of of;
    /* Inner: how it is read and shown. */
    int kind;
    size_t offset;
    size_t size;
    uint64_t min;
    uint64_t max;
    const char *const *words;
};
extern const struct once__setting_help once__settings[];
extern const size_t once__setting_count;

#endif
