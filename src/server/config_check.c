/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds what was said against itself: every value is fine by now, and this finds out whether they
 * fit together. Fills in what a namespace takes from [namespace *], and sorts.
 */
#include "server/config_inner.h"

#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "store/postgres/pg.h"

static const struct once__where *where_of(const struct once__said *said, const char *section,
                                          const char *name)
{
    const struct once__setting_help *setting = once__setting_find(section, name);

    return &said->settings[once__setting_index(setting)];
}

static bool is_said(const struct once__said *said, const char *section, const char *name)
{
    return where_of(said, section, name)->source != ONCE__FROM_DEFAULT;
}

/* ---- Namespaces ------------------------------------------------------------------------------ */

/* What a namespace does not say, it takes from [namespace *]. */
static void inherit(const struct once__said *said, const struct once__policy *from,
                    struct once__policy *policy)
{
    for (size_t i = 0; i < once__setting_count; i++) {
        const struct once__setting_help *setting = &once__settings[i];

        if (strcmp(setting->section, "namespace") == 0 &&
            said->settings[i].source == ONCE__FROM_DEFAULT)
            memcpy((char *)policy + setting->offset, (const char *)from + setting->offset,
                   setting->size);
    }
}

/* One of two bounds that belong together. The one that was not said gives way. */
static int check_pair(struct once__reading *reading, const struct once__said *said,
                      const char *name, once_ms *value, const char *name_max, once_ms max)
{
    char given[32], bound[32];

    if (*value <= max)
        return ONCE_OK;
    if (!is_said(said, "namespace", name)) {
        *value = max;
        return ONCE_OK;
    }
    once__amount_text(ONCE__KIND_DURATION, (uint64_t)*value, given, sizeof(given));
    once__amount_text(ONCE__KIND_DURATION, (uint64_t)max, bound, sizeof(bound));
    return once__config_wrong(reading, where_of(said, "namespace", name),
                              "%s = %s is more than %s = %s", name, given, name_max, bound);
}

static int check_policy(struct once__reading *reading, const struct once__said *said,
                        struct once__policy *policy)
{
    int err = check_pair(reading, said, "retention", &policy->retention_ms, "retention_max",
                         policy->retention_ms_max);

    if (err == ONCE_OK)
        err = check_pair(reading, said, "lease", &policy->lease_ms, "lease_max",
                         policy->lease_ms_max);
    if (err != ONCE_OK)
        return err;
    if (policy->on_5xx != ONCE_ON_5XX_DEFAULT && policy->codes != ONCE__CODES_HTTP &&
        is_said(said, "namespace", "on_5xx"))
        return once__config_wrong(reading, where_of(said, "namespace", "on_5xx"),
                                  "on_5xx means nothing without codes = http");
    if (policy->codes != ONCE__CODES_HTTP)
        policy->on_5xx = ONCE_ON_5XX_DEFAULT; /* taken over from [namespace *] */
    if (policy->by_user && is_said(said, "namespace", "scope") && reading->config->user_count == 0)
        return once__config_wrong(reading, where_of(said, "namespace", "scope"),
                                  "scope = user needs users: add a [user NAME] section");
    return ONCE_OK;
}

/* Values have no leases and no codes: saying something about them would be a mistake. */
static int check_values_policy(struct once__reading *reading, const struct once__said *said)
{
    for (size_t i = 0; i < once__setting_count; i++) {
        const char *name = once__settings[i].name;

        if (said->settings[i].source == ONCE__FROM_DEFAULT || strcmp(name, "result_max") == 0 ||
            strcmp(name, "scope") == 0)
            continue;
        return once__config_wrong(reading, &said->settings[i],
                                  "'%s' means nothing for namespace '%s', where values live: only "
                                  "result_max and scope do",
                                  name, ONCE_VALUES_NAMESPACE);
    }
    return ONCE_OK;
}

static int check_namespaces(struct once__reading *reading)
{
    struct once__config *config = reading->config;
    int err = check_policy(reading, &reading->otherwise, &config->otherwise);

    for (size_t i = 0; err == ONCE_OK && i < config->policy_count; i++) {
        const struct once__said *said = &reading->policies[i];

        inherit(said, &config->otherwise, &config->policies[i]);
        if (strcmp(config->policies[i].name, ONCE_VALUES_NAMESPACE) == 0)
            err = check_values_policy(reading, said);
        if (err == ONCE_OK)
            err = check_policy(reading, said, &config->policies[i]);
    }
    if (err == ONCE_OK && config->namespaces_declared && config->policy_count == 0)
        err = once__config_wrong(reading, where_of(&reading->top, "", "namespaces"),
                                 "no namespace is declared: add a [namespace NAME] section");
    return err;
}

/* ---- Users ----------------------------------------------------------------------------------- */

static const struct once__policy *find_policy(const struct once__config *config, const char *name)
{
    for (size_t i = 0; i < config->policy_count; i++) {
        if (strcmp(config->policies[i].name, name) == 0)
            return &config->policies[i];
    }
    return NULL;
}

static int check_user_lists(struct once__reading *reading, const struct once__said *said,
                            const struct once__user *user)
{
    const struct once__where *names = where_of(said, "user", "namespaces");

    if (user->role == ONCE__ROLE_ADMIN) {
        const struct once__where *objects = where_of(said, "user", "objects");

        if ((user->namespace_count > 0 || user->object_count > 0))
            return once__config_wrong(reading, user->namespace_count > 0 ? names : objects,
                                      "an administrator may use every namespace and every object: "
                                      "leave this out, or choose role = write");
        return ONCE_OK;
    }
    if (!user->every_namespace && user->namespace_count == 0 && !user->every_object &&
        user->object_count == 0)
        return once__config_wrong(reading, &said->section,
                                  "user '%s' may use nothing: name namespaces = …, objects = …, or "
                                  "* for every one",
                                  user->name);
    for (size_t i = 0; i < user->namespace_count; i++) {
        if (reading->config->namespaces_declared &&
            !find_policy(reading->config, user->namespaces[i]))
            return once__config_wrong(reading, names,
                                      "namespace '%s' is not declared: add [namespace %s]",
                                      user->namespaces[i], user->namespaces[i]);
    }
    return ONCE_OK;
}

/* The keys of a user are kept in "namespace@user", which must be a namespace. */
static int check_user_scopes(struct once__reading *reading, const struct once__said *said,
                             const struct once__user *user)
{
    const struct once__config *config = reading->config;

    for (size_t i = 0; i < config->policy_count; i++) {
        const struct once__policy *policy = &config->policies[i];
        bool uses = user->every_namespace || user->role == ONCE__ROLE_ADMIN;

        for (size_t j = 0; !uses && j < user->namespace_count; j++)
            uses = strcmp(user->namespaces[j], policy->name) == 0;
        if (uses && policy->by_user &&
            strlen(policy->name) + 1 + strlen(user->name) > ONCE_NAMESPACE_SIZE_MAX)
            return once__config_wrong(
                reading, &said->section,
                "'%s@%s', where the keys of the user are kept, is longer than "
                "%d characters; shorten one of the names",
                policy->name, user->name, ONCE_NAMESPACE_SIZE_MAX);
    }
    return ONCE_OK;
}

static int check_users(struct once__reading *reading)
{
    struct once__config *config = reading->config;
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < config->user_count; i++) {
        struct once__user *user = &config->users[i];
        const struct once__said *said = &reading->users[i];

        if (!user->password.set && !user->token.set)
            return once__config_wrong(reading, &said->section,
                                      "user '%s' has neither a password nor a token; once serve "
                                      "--hash-password and --make-token make the line",
                                      user->name);
        err = check_user_lists(reading, said, user);
        if (err == ONCE_OK)
            err = check_user_scopes(reading, said, user);
        if (user->role == ONCE__ROLE_ADMIN)
            user->every_namespace = user->every_object = true;
    }
    return err;
}

/* ---- Listeners ------------------------------------------------------------------------------- */

static int check_listeners(struct once__reading *reading, const char *name,
                           const struct once__listen *list, size_t count, bool *uses_tls)
{
    const struct once__config *config = reading->config;
    const struct once__where *where = where_of(&reading->top, "", name);

    for (size_t i = 0; i < count; i++) {
        *uses_tls = *uses_tls || list[i].tls;
        if (list[i].tls && (!config->tls_cert || !config->tls_key))
            return once__config_wrong(reading, where,
                                      "%s: tls:// needs a certificate: tls_cert = FILE and "
                                      "tls_key = FILE",
                                      name);
        if (list[i].loopback)
            continue;
        if (config->user_count == 0)
            return once__config_wrong(reading, where,
                                      "%s = %s:%u: a server that others can reach needs users: add "
                                      "a [user NAME] section, or listen on 127.0.0.1",
                                      name, list[i].host, list[i].port);
        if (!list[i].tls && !config->plaintext)
            return once__config_wrong(reading, where,
                                      "%s = %s:%u: passwords would cross the network in the clear: "
                                      "write tls://%s:%u, or plaintext = yes where the network is "
                                      "safe",
                                      name, list[i].host, list[i].port, list[i].host, list[i].port);
    }
    return ONCE_OK;
}

int once__config_check_reachable(struct once__reading *reading)
{
    struct once__config *config = reading->config;
    const struct once__where *cert = where_of(&reading->top, "", "tls_cert");
    bool uses_tls = false;
    int err;

    if ((config->tls_cert == NULL) != (config->tls_key == NULL))
        return once__config_wrong(reading,
                                  config->tls_cert ? cert : where_of(&reading->top, "", "tls_key"),
                                  "tls_cert and tls_key belong together; %s is missing",
                                  config->tls_cert ? "tls_key" : "tls_cert");
    err = check_listeners(reading, "listen", config->resp, config->resp_count, &uses_tls);
    if (err == ONCE_OK)
        err = check_listeners(reading, "http", config->http, config->http_count, &uses_tls);
    if (err != ONCE_OK)
        return err;
    if (config->tls_cert && !uses_tls)
        return once__config_wrong(reading, cert,
                                  "no listener uses the certificate: write listen = "
                                  "tls://HOST:PORT or http = tls://HOST:PORT");
    if (config->resp_count == 0 && config->http_count == 0 && !config->socket)
        return once__config_wrong(reading, where_of(&reading->top, "", "socket"),
                                  "listen, http and socket are all off: nobody could connect");
    return ONCE_OK;
}

/* ---- The store ------------------------------------------------------------------------------- */

enum once__source once__config_store_source(const struct once__reading *reading)
{
    return where_of(&reading->top, "", "store")->source;
}

bool once__config_url_secret(const char *url)
{
    char shown[ONCE_STORE_URL_SIZE_MAX + 64];

    if (!url)
        return false;
    once__pg_url_shown(url, shown, sizeof(shown));
    return strcmp(shown, url) != 0;
}

bool once__setting_fits(const struct once__setting_help *setting, const struct once__config *config)
{
    return setting->of == ONCE__OF_EVERY ||
           (setting->of == ONCE__OF_SHARED) == (config->store_url != NULL);
}

static void take_back(struct once__where *where, char **field)
{
    free(*field);
    *field = NULL;
    *where = (struct once__where){.source = ONCE__FROM_DEFAULT};
}

/* A flag goes over what the file or the environment say of the other one; everything else would be
 * a guess, and the wrong guess answers from an empty store. */
int once__config_choose_store(struct once__reading *reading)
{
    struct once__config *config = reading->config;
    size_t dir = once__setting_index(once__setting_find("", "dir"));
    size_t store = once__setting_index(once__setting_find("", "store"));
    struct once__where *dir_said = &reading->top.settings[dir];
    struct once__where *store_said = &reading->top.settings[store];
    char other[ONCE__WHERE_SIZE];

    if (!config->folder || !config->store_url)
        return ONCE_OK;
    if (store_said->source == ONCE__FROM_FLAG && dir_said->source != ONCE__FROM_FLAG) {
        take_back(dir_said, &config->folder);
        return ONCE_OK;
    }
    if (dir_said->source == ONCE__FROM_FLAG && store_said->source != ONCE__FROM_FLAG) {
        take_back(store_said, &config->store_url);
        return ONCE_OK;
    }
    once__where_text(dir_said, other, sizeof(other));
    return once__config_wrong(reading, store_said,
                              "a store is a folder (dir, %s) or a shared one (store), not both",
                              other);
}

/* What was said and means nothing would be believed to hold. */
static int check_store(struct once__reading *reading)
{
    struct once__config *config = reading->config;

    for (size_t i = 0; i < once__setting_count; i++) {
        const struct once__setting_help *setting = &once__settings[i];

        if (reading->top.settings[i].source == ONCE__FROM_DEFAULT || setting->section[0] != '\0' ||
            once__setting_fits(setting, config))
            continue;
        if (setting->kind == ONCE__KIND_WORD && config->store.durability == ONCE_LOSES_NOTHING)
            continue; /* durability = always is so */
        if (setting->of == ONCE__OF_SHARED)
            return once__config_wrong(reading, &reading->top.settings[i],
                                      "%s means nothing without store = URL", setting->name);
        return once__config_wrong(
            reading, &reading->top.settings[i],
            "%s means nothing for a shared store: leave it out; %s", setting->name,
            setting->kind == ONCE__KIND_WORD || setting->kind == ONCE__KIND_DURATION
                ? "the database's own settings say what is durable"
                : "the database has no such bound");
    }
    if (config->store_url && once__config_store_source(reading) == ONCE__FROM_FLAG &&
        once__config_url_secret(config->store_url))
        return once__config_warn(config, "everyone on this machine can see the password in --store "
                                         "(ps): put the URL into the configuration file or "
                                         "ONCE_STORE, or the password into the file that "
                                         "PGPASSFILE names");
    return ONCE_OK;
}

/* Fewer could not even be opened; a bound that is found out only then would come too late. */
static int check_disk(struct once__reading *reading)
{
    const uint64_t least = 4ULL * ONCE_SEGMENT_SIZE_DEFAULT;
    uint64_t most = reading->config->store.disk_size_max;
    char given[32], low[32];

    if (most == 0 || most >= least)
        return ONCE_OK;
    once__amount_text(ONCE__KIND_SIZE, most, given, sizeof(given));
    once__amount_text(ONCE__KIND_SIZE, least, low, sizeof(low));
    return once__config_wrong(reading, where_of(&reading->top, "", "disk_max"),
                              "disk_max = %s: a store needs at least %s; 0 is as much as there is",
                              given, low);
}

/* FOLDER/once.sock unless said. A path that no socket can have is left out, with a warning. */
static int place_socket(struct once__reading *reading)
{
    struct once__config *config = reading->config;

    if (config->socket || reading->socket_off || !config->folder)
        return ONCE_OK;
    if (asprintf(&config->socket, "%s/once.sock", config->folder) < 0) {
        config->socket = NULL;
        return ONCE_ERR_MEMORY;
    }
    if (strlen(config->socket) < sizeof(((struct sockaddr_un *)0)->sun_path))
        return ONCE_OK;
    free(config->socket);
    config->socket = NULL;
    return once__config_warn(config,
                             "the path of once.sock in '%s' is too long for a unix socket: there "
                             "is none; socket = PATH chooses a shorter one",
                             config->folder);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int by_policy_name(const void *a, const void *b)
{
    return strcmp(((const struct once__policy *)a)->name, ((const struct once__policy *)b)->name);
}

static int by_user_name(const void *a, const void *b)
{
    return strcmp(((const struct once__user *)a)->name, ((const struct once__user *)b)->name);
}

int once__config_check(struct once__reading *reading)
{
    struct once__config *config = reading->config;
    int err = check_namespaces(reading);

    if (err == ONCE_OK)
        err = check_users(reading);
    if (err == ONCE_OK)
        err = check_store(reading);
    if (err == ONCE_OK)
        err = check_disk(reading);
    if (err == ONCE_OK)
        err = place_socket(reading);
    if (err == ONCE_OK)
        err = once__config_check_reachable(reading);
    if (err != ONCE_OK)
        return err;
    /* What was said stands beside them and is not needed from here on. */
    if (config->policy_count > 0)
        qsort(config->policies, config->policy_count, sizeof(*config->policies), by_policy_name);
    if (config->user_count > 0)
        qsort(config->users, config->user_count, sizeof(*config->users), by_user_name);
    return ONCE_OK;
}
