/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a configuration as a file would say it. Every setting is written, also those that were
 * not said; what was written is read as the same configuration, unless secrets were left out.
 */
#include "server/config_inner.h"

#include <string.h>

#include "base/assert.h"
#include "store/postgres/pg.h"

static int put(struct once_buf *out, const char *text)
{
    return once_buf_append(out, text, strlen(text));
}

/* As it is, or in quotes where it would be read otherwise. */
static int put_text(struct once_buf *out, const char *text)
{
    int err;

    if (text[0] != '\0' && !strpbrk(text, "\"\\# \t,") && strcmp(text, "off") != 0 &&
        strcmp(text, "*") != 0)
        return put(out, text);
    err = put(out, "\"");
    for (; err == ONCE_OK && *text; text++) {
        if (*text == '"' || *text == '\\')
            err = put(out, "\\");
        if (err == ONCE_OK)
            err = once_buf_append(out, text, 1);
    }
    return err == ONCE_OK ? put(out, "\"") : err;
}

static int put_line(struct once_buf *out, const char *name, const char *value)
{
    int err = put(out, name);

    if (err == ONCE_OK)
        err = put(out, " = ");
    if (err == ONCE_OK)
        err = put(out, value);
    return err == ONCE_OK ? put(out, "\n") : err;
}

static int put_path(struct once_buf *out, const char *name, const char *path)
{
    int err = put(out, name);

    if (err == ONCE_OK)
        err = put(out, " = ");
    if (err == ONCE_OK)
        err = put_text(out, path);
    return err == ONCE_OK ? put(out, "\n") : err;
}

static int put_listeners(struct once_buf *out, const char *name, const struct once__listen *list,
                         size_t count)
{
    int err = count == 0 ? put_line(out, name, "off") : ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < count; i++) {
        char value[sizeof(list->host) + 32];
        bool six = strchr(list[i].host, ':') != NULL;

        snprintf(value, sizeof(value), "%s%s%s%s:%u", list[i].tls ? "tls://" : "", six ? "[" : "",
                 list[i].host, six ? "]" : "", list[i].port);
        err = put_line(out, name, value);
    }
    return err;
}

static int put_items(struct once_buf *out, const char *name, bool every, const char *items,
                     size_t slot, size_t count)
{
    int err;

    if (every)
        return put_line(out, name, "*");
    if (count == 0)
        return ONCE_OK;
    err = put(out, name);
    for (size_t i = 0; err == ONCE_OK && i < count; i++) {
        err = put(out, i == 0 ? " = " : ", ");
        if (err == ONCE_OK)
            err = put_text(out, items + i * slot);
    }
    return err == ONCE_OK ? put(out, "\n") : err;
}

static int put_secret(struct once_buf *out, const struct once__setting_help *setting,
                      const struct once__user *user, bool secrets)
{
    bool password = setting->kind == ONCE__KIND_PASSWORD;
    int err;

    if (!(password ? user->password.set : user->token.set))
        return ONCE_OK;
    if (!secrets)
        return put_line(out, setting->name, "(set)");
    err = put(out, setting->name);
    if (err == ONCE_OK)
        err = put(out, " = ");
    if (err == ONCE_OK)
        err = password ? once__password_write(&user->password, out)
                       : once__token_write(&user->token, out);
    return err == ONCE_OK ? put(out, "\n") : err;
}

/* Without its password, unless secrets are asked for. */
static int put_store(struct once_buf *out, const struct once__setting_help *setting,
                     const char *url, bool secrets)
{
    char shown[ONCE_STORE_URL_SIZE_MAX + 64];

    if (!url || secrets)
        return url ? put_path(out, setting->name, url) : ONCE_OK;
    once__pg_url_shown(url, shown, sizeof(shown));
    return put_path(out, setting->name, shown);
}

static uint64_t number_at(const struct once__setting_help *setting, const void *source)
{
    uint32_t small;
    uint64_t large;

    if (setting->size == sizeof(small)) {
        memcpy(&small, (const char *)source + setting->offset, sizeof(small));
        return small;
    }
    ONCE_ASSERT(setting->size == sizeof(large));
    memcpy(&large, (const char *)source + setting->offset, sizeof(large));
    return large;
}

/* source is the config, a policy or a user, as the setting's section says. */
static int put_setting(struct once_buf *out, const struct once__setting_help *setting,
                       const void *source, bool secrets)
{
    const struct once__config *config = source;
    const struct once__user *user = source;
    const char *path;
    char text[32];

    switch ((enum once__kind)setting->kind) {
    case ONCE__KIND_DURATION:
    case ONCE__KIND_SIZE:
    case ONCE__KIND_NUMBER:
        once__amount_text(setting->kind, number_at(setting, source), text, sizeof(text));
        return put_line(out, setting->name, text);
    case ONCE__KIND_WORD:
        return put_line(out, setting->name, setting->words[number_at(setting, source)]);
    case ONCE__KIND_SWITCH:
        return put_line(out, setting->name,
                        setting->words[*((const char *)source + setting->offset) != 0]);
    case ONCE__KIND_PATH:
    case ONCE__KIND_SOCKET:
        memcpy(&path, (const char *)source + setting->offset, sizeof(path));
        if (path)
            return put_path(out, setting->name, path);
        return setting->kind == ONCE__KIND_SOCKET ? put_line(out, setting->name, "off") : ONCE_OK;
    case ONCE__KIND_STORE:
        return put_store(out, setting, config->store_url, secrets);
    case ONCE__KIND_LISTEN:
        if (setting->offset == offsetof(struct once__config, resp))
            return put_listeners(out, setting->name, config->resp, config->resp_count);
        return put_listeners(out, setting->name, config->http, config->http_count);
    case ONCE__KIND_NAMES:
        return put_items(out, setting->name, user->every_namespace, (const char *)user->namespaces,
                         sizeof(user->namespaces[0]), user->namespace_count);
    case ONCE__KIND_BEGINNINGS:
        return put_items(out, setting->name, user->every_object, (const char *)user->objects,
                         sizeof(user->objects[0]), user->object_count);
    case ONCE__KIND_PASSWORD:
    case ONCE__KIND_TOKEN:
        return put_secret(out, setting, user, secrets);
    }
    return ONCE_ERR_INVALID;
}

int once__config_write_setting(const struct once__setting_help *setting,
                               const struct once__config *config, struct once_buf *out)
{
    ONCE_ASSERT(setting->section[0] == '\0');
    return put_setting(out, setting, config, true);
}

static int put_section(struct once_buf *out, const char *section, const char *name,
                       const void *source, bool secrets)
{
    bool values = strcmp(section, "namespace") == 0 && strcmp(name, ONCE_VALUES_NAMESPACE) == 0;
    int err = ONCE_OK;

    if (section[0] != '\0') {
        char head[128];

        snprintf(head, sizeof(head), "\n[%s %s]\n", section, name);
        err = put(out, head);
    }
    for (size_t i = 0; err == ONCE_OK && i < once__setting_count; i++) {
        const struct once__setting_help *setting = &once__settings[i];

        /* Of values only two settings may be said; of a store those that it knows. */
        if (strcmp(setting->section, section) != 0 ||
            (section[0] == '\0' && !once__setting_fits(setting, source)) ||
            (values && strcmp(setting->name, "result_max") != 0 &&
             strcmp(setting->name, "scope") != 0))
            continue;
        err = put_setting(out, setting, source, secrets);
    }
    return err;
}

int once__config_write(const struct once__config *config, bool secrets, struct once_buf *out)
{
    int err = put_section(out, "", "", config, secrets);

    if (err == ONCE_OK)
        err = put_section(out, "namespace", "*", &config->otherwise, secrets);
    for (size_t i = 0; err == ONCE_OK && i < config->policy_count; i++)
        err = put_section(out, "namespace", config->policies[i].name, &config->policies[i],
                          secrets);
    for (size_t i = 0; err == ONCE_OK && i < config->user_count; i++)
        err = put_section(out, "user", config->users[i].name, &config->users[i], secrets);
    return err;
}

int once__config_show(const struct once__config *config, struct once_buf *out)
{
    return once__config_write(config, false, out);
}
