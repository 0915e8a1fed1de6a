/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the configuration share: how a setting is read, where it came from, and telling
 * what is wrong with it. Nobody outside of config*.c includes this, but their tests.
 */
#ifndef ONCE_SERVER_CONFIG_INNER_H
#define ONCE_SERVER_CONFIG_INNER_H

#include "server/config.h"

/* What a value is; once__setting_help.kind. */
enum once__kind {
    ONCE__KIND_DURATION,   /* once_ms: 250ms 30s 5m 24h 7d */
    ONCE__KIND_SIZE,       /* bytes: 512 64k 16m 1g 1t */
    ONCE__KIND_NUMBER,     /* unsigned, of 4 or 8 bytes */
    ONCE__KIND_WORD,       /* an enum whose numbers are the indexes of words */
    ONCE__KIND_SWITCH,     /* a bool: words[0] is false */
    ONCE__KIND_PATH,       /* a string of its own */
    ONCE__KIND_LISTEN,     /* of RESP; words[0] is the protocol's name */
    ONCE__KIND_SOCKET,     /* a path, or off */
    ONCE__KIND_STORE,      /* the URL of a shared store: a string that may hold a password */
    ONCE__KIND_NAMES,      /* namespaces of a user */
    ONCE__KIND_BEGINNINGS, /* objects of a user */
    ONCE__KIND_PASSWORD,
    ONCE__KIND_TOKEN
};

enum { ONCE__SETTINGS_MAX = 48, ONCE__WHERE_SIZE = 320 };

/* From what a setting was read; later ones go over earlier ones. */
enum once__source { ONCE__FROM_DEFAULT, ONCE__FROM_FILE, ONCE__FROM_ENVIRONMENT, ONCE__FROM_FLAG };

/* Where a setting was said. */
struct once__where {
    enum once__source source;
    unsigned line;    /* of the file */
    const char *name; /* of the file, the variable or the flag; borrowed */
};

/* What is known of one section besides its settings: where each was said. */
struct once__said {
    struct once__where section;
    struct once__where settings[ONCE__SETTINGS_MAX]; /* by index in once__settings */
};

struct once__reading {
    struct once__config *config;
    struct once__config_error *error; /* written once */
    struct once__where here;          /* what is being read */
    struct once__said top;
    struct once__said otherwise;
    bool socket_off;
    /* Beside config->policies and config->users. */
    struct once__said *policies;
    struct once__said *users;
    size_t policy_capacity;
    size_t user_capacity;
    char names[64][48]; /* of variables, for where.name */
    size_t name_count;
};

/* Writes "WHERE: message" unless something was told before; returns ONCE_ERR_INVALID. */
int once__config_wrong(struct once__reading *reading, const struct once__where *where,
                       const char *format, ...) __attribute__((format(printf, 3, 4)));
/* "once.conf:12", "ONCE_LISTEN", "--listen". */
void once__where_text(const struct once__where *where, char *ret_text, size_t size);

/* The setting of this name in a section; NULL: there is none. */
const struct once__setting_help *once__setting_find(const char *section, const char *name);
size_t once__setting_index(const struct once__setting_help *setting);

/* Reads the value into target: the config, a policy or a user. ONCE_ERR_INVALID (told),
 * ONCE_ERR_MEMORY. value is changed. */
ONCE_MUST_CHECK int once__value_read(struct once__reading *reading,
                                     const struct once__setting_help *setting, void *target,
                                     char *value);
/* "30s", "16m", "7": the amount of a kind, in the largest unit that leaves no rest. */
void once__amount_text(int kind, uint64_t amount, char *ret_text, size_t size);

/* Takes back what earlier sources said of a list. */
void once__value_clear(const struct once__setting_help *setting, void *target);

/* Is this a name that a section, or the list of a user, may give a namespace? NULL, or why not. */
const char *once__config_name_defect(const char *name);

/* Reads lines of a file. ONCE_ERR_INVALID (told), ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__config_lines(struct once__reading *reading, const char *name,
                                       struct once_bytes text);
ONCE_MUST_CHECK int once__config_variables(struct once__reading *reading, char *const *environment);
ONCE_MUST_CHECK int once__config_flags(struct once__reading *reading,
                                       const struct once__setting *flags, size_t count);

/* A folder or a shared store? Takes back the one that a flag goes over. Before anything is filled
 * in. */
ONCE_MUST_CHECK int once__config_choose_store(struct once__reading *reading);

/* Does the setting mean anything for the store that was chosen? */
bool once__setting_fits(const struct once__setting_help *setting,
                        const struct once__config *config);

/* Where the shared store was said; ONCE__FROM_DEFAULT: nowhere. */
enum once__source once__config_store_source(const struct once__reading *reading);

/* Does the URL hold a password? False of NULL. */
bool once__config_url_secret(const char *url);

/* Fills in what was not said, holds the whole against itself, and sorts it. */
ONCE_MUST_CHECK int once__config_check(struct once__reading *reading);

/* Is everyone who can connect someone who may? The last part of the check. */
ONCE_MUST_CHECK int once__config_check_reachable(struct once__reading *reading);

void once__config_defaults(struct once__config *config);
ONCE_MUST_CHECK int once__config_warn(struct once__config *config, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* once__config_show, with secrets if asked: what it writes is read as the same configuration. */
ONCE_MUST_CHECK int once__config_write(const struct once__config *config, bool secrets,
                                       struct once_buf *out);

/* One setting as it would be written, for comparing. */
ONCE_MUST_CHECK int once__config_write_setting(const struct once__setting_help *setting,
                                               const struct once__config *config,
                                               struct once_buf *out);

/* The textual forms of passwords and tokens. */
ONCE_MUST_CHECK int once__password_write(const struct once__password *password,
                                         struct once_buf *out);
ONCE_MUST_CHECK int once__token_write(const struct once__token *token, struct once_buf *out);

#endif
