/* SPDX-License-Identifier: Apache-2.0
 *
 * What a reload cannot change: a new configuration takes it over from the running one, so that it
 * says what is so, and is then checked again: who may connect depends on both.
 */
#include "server/config_inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { LINES_SIZE_MAX = 1 << 16 };

static int same_setting(const struct once__setting_help *setting, const struct once__config *a,
                        const struct once__config *b, bool *ret_same)
{
    struct once_buf a_text, b_text;
    int err;

    once_buf_init(&a_text, LINES_SIZE_MAX);
    once_buf_init(&b_text, LINES_SIZE_MAX);
    err = once__config_write_setting(setting, a, &a_text);
    if (err == ONCE_OK)
        err = once__config_write_setting(setting, b, &b_text);
    if (err == ONCE_OK)
        *ret_same = once__bytes_equal(once_buf_bytes(&a_text), once_buf_bytes(&b_text));
    once_buf_release(&a_text);
    once_buf_release(&b_text);
    return err;
}

static int take_over(const struct once__setting_help *setting, const struct once__config *from,
                     struct once__config *config)
{
    char **field = (char **)(void *)((char *)config + setting->offset), *copy = NULL;
    char *const *source = (char *const *)(const void *)((const char *)from + setting->offset);

    if (setting->kind == ONCE__KIND_PATH || setting->kind == ONCE__KIND_SOCKET ||
        setting->kind == ONCE__KIND_STORE) {
        if (*source) {
            copy = strdup(*source);
            if (!copy)
                return ONCE_ERR_MEMORY;
        }
        free(*field);
        *field = copy;
        return ONCE_OK;
    }
    memcpy((char *)config + setting->offset, (const char *)from + setting->offset, setting->size);
    if (setting->kind == ONCE__KIND_LISTEN) {
        config->resp_count = from->resp_count;
        config->http_count = from->http_count;
    }
    return ONCE_OK;
}

int once__config_keep_fixed(struct once__config *config, const struct once__config *running,
                            struct once_buf *names, struct once__config_error *ret_error)
{
    struct once__reading *reading;
    int err = ONCE_OK;

    for (size_t i = 0; err == ONCE_OK && i < once__setting_count; i++) {
        const struct once__setting_help *setting = &once__settings[i];
        bool same = true;

        if (!setting->fixed)
            continue;
        err = same_setting(setting, config, running, &same);
        if (err != ONCE_OK || same)
            continue;
        if (names->size > 0)
            err = once_buf_append(names, " ", 1);
        if (err == ONCE_OK)
            err = once_buf_append(names, setting->name, strlen(setting->name));
    }
    for (size_t i = 0; err == ONCE_OK && i < once__setting_count; i++) {
        if (once__settings[i].fixed)
            err = take_over(&once__settings[i], running, config);
    }
    reading = err == ONCE_OK ? calloc(1, sizeof(*reading)) : NULL;
    if (!reading)
        return err == ONCE_OK ? ONCE_ERR_MEMORY : err;
    ret_error->text[0] = '\0';
    reading->config = config;
    reading->error = ret_error;
    err = once__config_check_reachable(reading);
    free(reading);
    return err;
}
