/* SPDX-License-Identifier: Apache-2.0
 *
 * Every setting, declared as data: reading, showing, --help, the flags, the variables and the
 * reference page all come from this one table.
 */
#include "server/config_inner.h"

#include <string.h>

#include <once/limits.h>

static const char *const durabilities[] = {"always", "interval", "none", NULL};
static const char *const no_yes[] = {"no", "yes", NULL};
static const char *const formats[] = {"text", "json", NULL};
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const existences[] = {"any", "declared", NULL};
static const char *const doubts[] = {"reject", "retry", NULL};
static const char *const codes[] = {"any", "http", NULL};
static const char *const on_5xx[] = {"default", "release", "store", "doubt", NULL};
static const char *const scopes[] = {"shared", "user", NULL};
static const char *const roles[] = {"read", "write", "admin", NULL};

#define CONFIG_FIELD(field)                                                                        \
    .offset = offsetof(struct once__config, field),                                                \
    .size = sizeof(((struct once__config *)0)->field)
#define POLICY_FIELD(field)                                                                        \
    .offset = offsetof(struct once__policy, field),                                                \
    .size = sizeof(((struct once__policy *)0)->field)
#define USER_FIELD(field)                                                                          \
    .offset = offsetof(struct once__user, field), .size = sizeof(((struct once__user *)0)->field)

const struct once__setting_help once__settings[] = {
    {"", "dir", "FOLDER", "$XDG_DATA_HOME/once, else ~/.local/share/once",
     "The folder of the store. It is made if it is not there.", .fixed = true,
     .kind = ONCE__KIND_PATH, CONFIG_FIELD(folder), .of = ONCE__OF_FOLDER},
    {"", "store", "URL", "none: the folder",
     "A store that servers share, instead of a folder: `postgres://USER@HOST/DATABASE`, as libpq "
     "reads it. A password is better kept in this file or in a password file than on the command "
     "line.",
     .fixed = true, .kind = ONCE__KIND_STORE, CONFIG_FIELD(store_url), .of = ONCE__OF_SHARED},
    {"", "accept_loss", "yes|no", "no",
     "Go on with a shared store whose settings let it lose what it has acknowledged. On the "
     "command "
     "line `--accept-loss` stands alone.",
     .fixed = true, .kind = ONCE__KIND_SWITCH, CONFIG_FIELD(accept_loss), .words = no_yes,
     .of = ONCE__OF_SHARED},
    {"", "listen", "[tls://]HOST:PORT", "127.0.0.1:7411",
     "Where RESP is served. HOST is an address; IPv6 stands in brackets. May stand more than once; "
     "`off` is nowhere. Port 0 is any that is free.",
     .repeats = true, .fixed = true, .kind = ONCE__KIND_LISTEN, CONFIG_FIELD(resp)},
    {"", "http", "[tls://]HOST:PORT", "127.0.0.1:7412", "Where HTTP is served, in the same way.",
     .repeats = true, .fixed = true, .kind = ONCE__KIND_LISTEN, CONFIG_FIELD(http)},
    {"", "socket", "PATH", "once.sock in the folder; none of a shared store",
     "A unix socket that serves RESP, to the user of the server and to root, who are "
     "administrators. `off` is none.",
     .fixed = true, .kind = ONCE__KIND_SOCKET, CONFIG_FIELD(socket)},
    {"", "durability", "always|interval|none", "always",
     "When an answer is told: after it is durable (`always`), or at once. With `interval` a crash "
     "may take back the last interval, with `none` whatever the system had not written.",
     .fixed = true, .kind = ONCE__KIND_WORD, CONFIG_FIELD(store.durability), .words = durabilities,
     .of = ONCE__OF_FOLDER},
    {"", "interval", "TIME", "100ms", "The longest time between durable writes with `interval`.",
     .fixed = true, .kind = ONCE__KIND_DURATION, CONFIG_FIELD(store.interval_ms), .min = 1,
     .max = ONCE_INTERVAL_MS_MAX, .of = ONCE__OF_FOLDER},
    {"", "disk_max", "SIZE", "0",
     "Bytes that the log may take on disk, at least 128m; 0 is as many as there are. At the bound "
     "new operations are refused, and those that were begun can finish.",
     .fixed = true, .kind = ONCE__KIND_SIZE, CONFIG_FIELD(store.disk_size_max), .max = 1ULL << 60,
     .of = ONCE__OF_FOLDER},
    {"", "keys_max", "N", "4294967296",
     "Keys that the store may hold, about 24 bytes of memory each.", .fixed = true,
     .kind = ONCE__KIND_NUMBER, CONFIG_FIELD(store.keys_max), .min = 1, .max = ONCE_KEYS_MAX,
     .of = ONCE__OF_FOLDER},
    {"", "objects_max", "SIZE", "4g", "Bytes of memory for objects.", .fixed = true,
     .kind = ONCE__KIND_SIZE, CONFIG_FIELD(store.objects_size_max), .min = 1, .max = 1ULL << 60,
     .of = ONCE__OF_FOLDER},
    {"", "tls_cert", "FILE", "none", "The certificate and those that sign it, PEM.",
     .kind = ONCE__KIND_PATH, CONFIG_FIELD(tls_cert)},
    {"", "tls_key", "FILE", "none", "The key of the certificate, PEM.", .kind = ONCE__KIND_PATH,
     CONFIG_FIELD(tls_key)},
    {"", "plaintext", "yes|no", "no",
     "Other machines may be served without TLS: everyone on the way can read passwords then.",
     .kind = ONCE__KIND_SWITCH, CONFIG_FIELD(plaintext), .words = no_yes},
    {"", "log", "text|json", "text", "What a line of the log looks like.",
     .kind = ONCE__KIND_SWITCH, CONFIG_FIELD(log_json), .words = formats},
    {"", "log_level", "error|warn|info|debug", "info",
     "The least important lines that are written. Audit lines always are.", .kind = ONCE__KIND_WORD,
     CONFIG_FIELD(log_level), .words = levels},
    {"", "log_file", "FILE", "standard error",
     "Where the log is appended to. SIGHUP opens it again.", .kind = ONCE__KIND_PATH,
     CONFIG_FIELD(log_file)},
    {"", "connections_max", "N", "20000", "Connections at the same time; more are refused.",
     .kind = ONCE__KIND_NUMBER, CONFIG_FIELD(connections_max), .min = 1,
     .max = ONCE_CONNECTIONS_MAX},
    {"", "idle", "TIME", "0",
     "A RESP connection that says nothing for this long is closed; 0 is never.",
     .kind = ONCE__KIND_DURATION, CONFIG_FIELD(idle_ms_max), .max = 604800000LL},
    {"", "drain", "TIME", "30s",
     "How long a server that was told to stop waits for what was begun, before it cuts it off.",
     .kind = ONCE__KIND_DURATION, CONFIG_FIELD(drain_ms_max), .max = 3600000LL},
    {"", "namespaces", "any|declared", "any",
     "Whether a namespace exists as soon as it is used, or only if the file has a section for it.",
     .kind = ONCE__KIND_SWITCH, CONFIG_FIELD(namespaces_declared), .words = existences},

    {"namespace", "retention", "TIME", "24h",
     "How long an answer is kept, where the request says no TTL.", .kind = ONCE__KIND_DURATION,
     POLICY_FIELD(retention_ms), .min = 1, .max = ONCE_RETENTION_MS_MAX},
    {"namespace", "retention_max", "TIME", "87660h",
     "The longest TTL that a request may ask for (87660h is ten years).",
     .kind = ONCE__KIND_DURATION, POLICY_FIELD(retention_ms_max), .min = 1,
     .max = ONCE_RETENTION_MS_MAX},
    {"namespace", "lease", "TIME", "30s", "The lease of an attempt, where the request says none.",
     .kind = ONCE__KIND_DURATION, POLICY_FIELD(lease_ms), .min = 1, .max = ONCE_LEASE_MS_MAX},
    {"namespace", "lease_max", "TIME", "7d", "The longest lease that a request may ask for.",
     .kind = ONCE__KIND_DURATION, POLICY_FIELD(lease_ms_max), .min = 1, .max = ONCE_LEASE_MS_MAX},
    {"namespace", "wait_max", "TIME", "1m",
     "The longest time that a request may WAIT for another to finish; a longer one waits this "
     "long, and 0 is not at all.",
     .kind = ONCE__KIND_DURATION, POLICY_FIELD(wait_ms_max), .max = ONCE_WAIT_MS_MAX},
    {"namespace", "doubt", "reject|retry", "reject",
     "What a begin gets that meets a doubt: it is told (`reject`), or it takes over with a larger "
     "fence (`retry`: right only where the effect is keyed, fenced or transactional).",
     .kind = ONCE__KIND_WORD, POLICY_FIELD(on_doubt), .words = doubts},
    {"namespace", "doubt_fixed", "yes|no", "no", "Whether a request may not choose otherwise.",
     .kind = ONCE__KIND_SWITCH, POLICY_FIELD(doubt_fixed), .words = no_yes},
    {"namespace", "codes", "any|http", "any",
     "What the code of a complete is: a number that is stored with the answer (`any`), or an HTTP "
     "status (`http`) of which success and caller errors are stored, and the rest releases the key "
     "or leaves a doubt.",
     .kind = ONCE__KIND_WORD, POLICY_FIELD(codes), .words = codes},
    {"namespace", "on_5xx", "default|release|store|doubt", "default",
     "With `codes = http`, what becomes of a 5xx: by default a 503 releases the key, and every "
     "other leaves a doubt.",
     .kind = ONCE__KIND_WORD, POLICY_FIELD(on_5xx), .words = on_5xx},
    {"namespace", "result_max", "SIZE", "16m", "The largest result, or value.",
     .kind = ONCE__KIND_SIZE, POLICY_FIELD(result_size_max), .min = 1, .max = ONCE_RESULT_SIZE_MAX},
    {"namespace", "scope", "shared|user", "shared",
     "Whether all users share its keys, or each has keys of their own.", .kind = ONCE__KIND_SWITCH,
     POLICY_FIELD(by_user), .words = scopes},

    {"user", "role", "read|write|admin", "write",
     "What the user may do: look; also call; also resolve, forget and configure, in every "
     "namespace and on every object.",
     .kind = ONCE__KIND_WORD, USER_FIELD(role), .words = roles},
    {"user", "password", "HASH", "none", "As `once serve --hash-password` prints it.",
     .kind = ONCE__KIND_PASSWORD, USER_FIELD(password)},
    {"user", "token", "HASH", "none", "As `once serve --make-token` prints it.",
     .kind = ONCE__KIND_TOKEN, USER_FIELD(token)},
    {"user", "namespaces", "NAME, …", "none",
     "The namespaces that the user may use; `*` is every one.", .kind = ONCE__KIND_NAMES,
     USER_FIELD(namespaces)},
    {"user", "objects", "BEGINNING, …", "none",
     "The objects that the user may use: those whose names begin so; `*` is every one.",
     .kind = ONCE__KIND_BEGINNINGS, USER_FIELD(objects)},
    {"user", "rate", "N", "0", "Calls a second; 0 is no limit.", .kind = ONCE__KIND_NUMBER,
     USER_FIELD(rate_max), .max = 1000000},
};

const size_t once__setting_count = sizeof(once__settings) / sizeof(once__settings[0]);

_Static_assert(sizeof(once__settings) / sizeof(once__settings[0]) <= ONCE__SETTINGS_MAX,
               "where each setting was said has a place");

const struct once__setting_help *once__setting_find(const char *section, const char *name)
{
    for (size_t i = 0; i < once__setting_count; i++) {
        if (strcmp(once__settings[i].section, section) == 0 &&
            strcmp(once__settings[i].name, name) == 0)
            return &once__settings[i];
    }
    return NULL;
}

size_t once__setting_index(const struct once__setting_help *setting)
{
    return (size_t)(setting - once__settings);
}
