/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration as a whole: its life, looking things up in it, and reading it from all of its
 * sources. The lines are read by config_read.c, values by config_value.c; config_check.c holds
 * them against each other.
 *
 * After once__config_read returned it, nothing but its count of references changes.
 */
#include "server/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "server/config_inner.h"

static _Atomic uint64_t generations;

void once__config_defaults(struct once__config *config)
{
    static const struct once__listen resp = {.host = "127.0.0.1", .port = 7411, .loopback = true};
    static const struct once__listen http = {.host = "127.0.0.1", .port = 7412, .loopback = true};

    *config = (struct once__config){
        .references = 1,
        .generation = atomic_fetch_add(&generations, 1) + 1,
        .store = {.interval_ms = ONCE_INTERVAL_MS_DEFAULT,
                  .keys_max = ONCE_KEYS_MAX,
                  .objects_size_max = ONCE_OBJECTS_SIZE_DEFAULT},
        .resp = {resp},
        .resp_count = 1,
        .http = {http},
        .http_count = 1,
        .log_level = ONCE__LOG_INFO,
        .connections_max = ONCE_CONNECTIONS_DEFAULT,
        .idle_ms_max = ONCE_IDLE_MS_DEFAULT,
        .drain_ms_max = ONCE_DRAIN_MS_DEFAULT,
        .otherwise = {.name = "*",
                      .retention_ms = ONCE_RETENTION_MS_DEFAULT,
                      .retention_ms_max = ONCE_RETENTION_MS_MAX,
                      .lease_ms = ONCE_LEASE_MS_DEFAULT,
                      .lease_ms_max = ONCE_LEASE_MS_MAX,
                      .wait_ms_max = ONCE_WAIT_MS_DEFAULT_MAX,
                      .result_size_max = ONCE_RESULT_SIZE_MAX},
    };
}

struct once__config *once__config_ref(struct once__config *config)
{
    uint32_t before = __atomic_fetch_add(&config->references, 1, __ATOMIC_RELAXED);

    ONCE_ASSERT(before > 0);
    return config;
}

void once__config_unref(struct once__config *config)
{
    if (!config || __atomic_sub_fetch(&config->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (size_t i = 0; i < config->user_count; i++) {
        free(config->users[i].namespaces);
        free(config->users[i].objects);
    }
    for (size_t i = 0; i < config->warning_count; i++)
        free(config->warnings[i]);
    free(config->users);
    free(config->policies);
    free(config->file);
    free(config->folder);
    if (config->store_url)
        explicit_bzero(config->store_url, strlen(config->store_url));
    free(config->store_url);
    free(config->socket);
    free(config->tls_cert);
    free(config->tls_key);
    free(config->log_file);
    free(config);
}

/* Compares a name with bytes, as strcmp would if they ended with a NUL. */
static int compare_name(const char *name, struct once_bytes bytes)
{
    size_t size = strlen(name), common = size < bytes.size ? size : bytes.size;
    int order = common > 0 ? memcmp(name, bytes.data, common) : 0;

    return order != 0 ? order : (size > bytes.size) - (size < bytes.size);
}

static const struct once__policy *declared(const struct once__config *config, struct once_bytes ns)
{
    size_t low = 0, high = config->policy_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_name(config->policies[middle].name, ns);

        if (order == 0)
            return &config->policies[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct once__policy *once__config_policy(const struct once__config *config,
                                               struct once_bytes ns)
{
    const struct once__policy *policy = declared(config, ns);
    struct once_bytes base = once__namespace_base(ns);
    const uint8_t *at = ns.size > 0 ? memrchr(ns.data, '@', ns.size) : NULL;

    if (!policy && base.size < ns.size)
        policy = declared(config, base);
    if (!policy && at) {
        policy = declared(config, (struct once_bytes){ns.data, (size_t)(at - ns.data)});
        if (policy && !policy->by_user)
            policy = NULL;
    }
    if (!policy && !config->namespaces_declared)
        policy = &config->otherwise;
    return policy;
}

const struct once__user *once__config_user(const struct once__config *config,
                                           struct once_bytes name)
{
    size_t low = 0, high = config->user_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_name(config->users[middle].name, name);

        if (order == 0)
            return &config->users[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- Telling what is wrong ------------------------------------------------------------------- */

void once__where_text(const struct once__where *where, char *ret_text, size_t size)
{
    if (where->source == ONCE__FROM_FILE && where->line > 0)
        snprintf(ret_text, size, "%s:%u", where->name, where->line);
    else
        snprintf(ret_text, size, "%s", where->name ? where->name : "configuration");
}

int once__config_wrong(struct once__reading *reading, const struct once__where *where,
                       const char *format, ...)
{
    char place[ONCE__WHERE_SIZE], message[ONCE_MESSAGE_SIZE];
    va_list args;

    once__where_text(where, place, sizeof(place));
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (reading->error && reading->error->text[0] == '\0')
        snprintf(reading->error->text, sizeof(reading->error->text), "%s: %.700s", place, message);
    return ONCE_ERR_INVALID;
}

int once__config_warn(struct once__config *config, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    int size;

    if (config->warning_count == ONCE_CONFIG_WARNINGS_MAX)
        return ONCE_OK;
    va_start(args, format);
    size = vasprintf(&text, format, args);
    va_end(args);
    if (size < 0)
        return ONCE_ERR_MEMORY;
    config->warnings[config->warning_count++] = text;
    return ONCE_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int tell_file(struct once__config_error *error, const char *file, int system_errno)
{
    snprintf(error->text, sizeof(error->text), "the configuration file '%.600s' cannot be read: %s",
             file, strerror(system_errno));
    return ONCE_ERR_IO;
}

static int read_whole(int fd, const char *file, struct once_buf *text,
                      struct once__config_error *error)
{
    for (;;) {
        ssize_t got;
        int err = once_buf_reserve(text, 4096);

        if (err == ONCE_ERR_FULL) {
            snprintf(error->text, sizeof(error->text),
                     "the configuration file '%.600s' is larger than %d bytes", file,
                     ONCE_CONFIG_SIZE_MAX);
            return ONCE_ERR_INVALID;
        }
        if (err != ONCE_OK)
            return err;
        got = read(fd, text->data + text->size, 4096);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return tell_file(error, file, errno);
        if (got == 0)
            return ONCE_OK;
        text->size += (size_t)got;
    }
}

/* Who else may read a file that holds hashes can try passwords at home. */
static int check_mode(struct once__config *config, const char *file, const struct stat *about,
                      bool url_in_file)
{
    bool secrets = false, url = url_in_file && once__config_url_secret(config->store_url);
    int err = ONCE_OK;

    for (size_t i = 0; i < config->user_count; i++)
        secrets = secrets || config->users[i].password.set || config->users[i].token.set;
    if (!S_ISREG(about->st_mode))
        return ONCE_OK;
    if ((about->st_mode & S_IWOTH) != 0)
        err = once__config_warn(config, "everyone can write '%s'; run: chmod o-rwx '%s'", file,
                                file);
    else if ((secrets || url) && (about->st_mode & S_IROTH) != 0)
        err = once__config_warn(
            config, "'%s' holds %s, and everyone can read it; run: chmod o-rwx '%s'", file,
            url ? "the password of the store" : "hashes of passwords or tokens", file);
    return err;
}

static int read_file(struct once__reading *reading, const char *file, struct stat *ret_about)
{
    struct once_buf text;
    int err, fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0)
        return tell_file(reading->error, file, errno);
    once_buf_init(&text, ONCE_CONFIG_SIZE_MAX + 4096);
    if (fstat(fd, ret_about) != 0)
        err = tell_file(reading->error, file, errno);
    else
        err = read_whole(fd, file, &text, reading->error);
    if (err == ONCE_OK)
        err = once__config_lines(reading, file, once_buf_bytes(&text));
    if (text.data)
        explicit_bzero(text.data, text.capacity);
    once_buf_release(&text);
    (void)close(fd);
    return err;
}

static const char *variable(char *const *environment, const char *name)
{
    size_t size = strlen(name);

    for (; environment && *environment; environment++) {
        if (strncmp(*environment, name, size) == 0 && (*environment)[size] == '=' &&
            (*environment)[size + 1] != '\0')
            return *environment + size + 1;
    }
    return NULL;
}

/* Where the store is when nobody said. */
static int default_folder(struct once__config *config, char *const *environment,
                          struct once__config_error *error)
{
    const char *data = variable(environment, "XDG_DATA_HOME");
    const char *home = variable(environment, "HOME");
    int size;

    if (config->folder || config->store_url)
        return ONCE_OK;
    if (!data && !home) {
        snprintf(error->text, sizeof(error->text),
                 "which folder? Give --dir, set ONCE_DIR, or write dir = FOLDER; or --store URL");
        return ONCE_ERR_NO_STORE;
    }
    if (data)
        size = asprintf(&config->folder, "%s/once", data);
    else
        size = asprintf(&config->folder, "%s/.local/share/once", home);
    if (size < 0) {
        config->folder = NULL;
        return ONCE_ERR_MEMORY;
    }
    return ONCE_OK;
}

static int reading_new(struct once__reading *reading, struct once__config_error *error)
{
    *reading = (struct once__reading){.error = error};
    error->text[0] = '\0';
    reading->config = malloc(sizeof(*reading->config));
    if (!reading->config)
        return ONCE_ERR_MEMORY;
    once__config_defaults(reading->config);
    return ONCE_OK;
}

static int reading_end(struct once__reading *reading, int err, struct once__config **ret_config)
{
    free(reading->policies);
    free(reading->users);
    if (err == ONCE_OK) {
        *ret_config = reading->config;
        return ONCE_OK;
    }
    once__config_unref(reading->config);
    if (reading->error->text[0] == '\0')
        snprintf(reading->error->text, sizeof(reading->error->text), "%s", once_err_text(err));
    return err;
}

int once__config_read(const struct once__config_sources *sources, struct once__config **ret_config,
                      struct once__config_error *ret_error)
{
    struct once__config_error unused;
    struct once__config_error *error = ret_error ? ret_error : &unused;
    const char *file = sources->file ? sources->file
                                     : variable(sources->environment, "ONCE_CONFIG");
    struct once__reading *reading = malloc(sizeof(*reading));
    struct stat about = {0};
    int err = reading ? reading_new(reading, error) : ONCE_ERR_MEMORY;

    if (!reading)
        return err;
    if (err == ONCE_OK && file) {
        reading->config->file = strdup(file);
        err = reading->config->file ? read_file(reading, file, &about) : ONCE_ERR_MEMORY;
    }
    if (err == ONCE_OK && sources->environment)
        err = once__config_variables(reading, sources->environment);
    if (err == ONCE_OK)
        err = once__config_flags(reading, sources->flags, sources->flag_count);
    if (err == ONCE_OK)
        err = once__config_choose_store(reading);
    if (err == ONCE_OK)
        err = default_folder(reading->config, sources->environment, error);
    if (err == ONCE_OK)
        err = once__config_check(reading);
    if (err == ONCE_OK && file)
        err = check_mode(reading->config, file, &about,
                         once__config_store_source(reading) == ONCE__FROM_FILE);
    err = reading_end(reading, err, ret_config);
    free(reading);
    return err;
}

int once__config_parse(const char *name, struct once_bytes text, struct once__config **ret_config,
                       struct once__config_error *ret_error)
{
    struct once__config_error unused;
    struct once__reading *reading = malloc(sizeof(*reading));
    int err = reading ? reading_new(reading, ret_error ? ret_error : &unused) : ONCE_ERR_MEMORY;

    if (!reading)
        return err;
    if (err == ONCE_OK)
        err = once__config_lines(reading, name, text);
    if (err == ONCE_OK)
        err = once__config_choose_store(reading);
    if (err == ONCE_OK)
        err = once__config_check(reading);
    err = reading_end(reading, err, ret_config);
    free(reading);
    return err;
}
