/* SPDX-License-Identifier: Apache-2.0
 *
 * CONFIG GET: the settings that Redis has too, under its names and in its words, for clients and
 * tools that look at them. What is special to Once is shown by `once serve --check-config`.
 */
#include "server/resp_commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Patterns -------------------------------------------------------------------------------- */

enum { PATTERN_SIZE_MAX = 256 }; /* a longer one matches nothing */

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
}

/* Matches c against the class that begins at pattern[*at], behind its bracket; *at is then behind
 * its end. */
static bool in_class(struct once_bytes pattern, size_t *at, uint8_t c)
{
    size_t i = *at;
    bool inverted = i < pattern.size && pattern.data[i] == '^', found = false;

    if (inverted)
        i++;
    while (i < pattern.size && pattern.data[i] != ']') {
        uint8_t first, last;

        if (pattern.data[i] == '\\' && i + 1 < pattern.size)
            i++;
        first = last = lower(pattern.data[i]);
        if (i + 2 < pattern.size && pattern.data[i + 1] == '-' && pattern.data[i + 2] != ']') {
            last = lower(pattern.data[i + 2]);
            i += 2;
        }
        found = found || (first <= c && c <= last) || (last <= c && c <= first);
        i++;
    }
    *at = i < pattern.size ? i + 1 : i;
    return found != inverted;
}

/* Does one character of the pattern match c? *at is then behind it. */
static bool matches_one(struct once_bytes pattern, size_t *at, uint8_t c)
{
    uint8_t p = pattern.data[(*at)++];

    if (p == '?')
        return true;
    if (p == '[')
        return in_class(pattern, at, c);
    if (p == '\\' && *at < pattern.size)
        p = pattern.data[(*at)++];
    return lower(p) == c;
}

/* One star is gone back to at most: what an earlier one took more of, a later one could too. So it
 * takes no longer than pattern times text. */
bool once__glob(struct once_bytes pattern, struct once_bytes text)
{
    size_t p = 0, t = 0, star = SIZE_MAX, star_text = 0;

    if (pattern.size > PATTERN_SIZE_MAX)
        return false;
    while (t < text.size) {
        size_t next = p;

        if (p < pattern.size && pattern.data[p] == '*') {
            star = ++p;
            star_text = t;
        } else if (p < pattern.size && matches_one(pattern, &next, lower(text.data[t]))) {
            p = next;
            t++;
        } else if (star != SIZE_MAX) {
            p = star;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < pattern.size && pattern.data[p] == '*')
        p++;
    return p == pattern.size;
}

/* ---- Settings -------------------------------------------------------------------------------- */

enum { VALUE_SIZE = 512 };

static void number_text(char *text, int64_t number)
{
    (void)snprintf(text, VALUE_SIZE, "%" PRId64, number);
}

static void copy_text(char *text, const char *from)
{
    (void)snprintf(text, VALUE_SIZE, "%s", from ? from : "");
}

static void say_bind(const struct once__config *config, char *text)
{
    size_t size = 0;

    text[0] = '\0';
    for (size_t i = 0; i < config->resp_count && size < VALUE_SIZE; i++)
        size += (size_t)snprintf(text + size, VALUE_SIZE - size, "%s%s", i > 0 ? " " : "",
                                 config->resp[i].host);
}

static void say_port(const struct once__config *config, char *text, bool tls)
{
    number_text(text, 0);
    for (size_t i = config->resp_count; i > 0; i--)
        if (config->resp[i - 1].tls == tls)
            number_text(text, config->resp[i - 1].port);
}

static void say_plain_port(const struct once__config *config, char *text)
{
    say_port(config, text, false);
}

static void say_tls_port(const struct once__config *config, char *text)
{
    say_port(config, text, true);
}

static void say_appendfsync(const struct once__config *config, char *text)
{
    copy_text(text, config->store.durability == ONCE_LOSES_NOTHING    ? "always"
                    : config->store.durability == ONCE_LOSES_INTERVAL ? "everysec"
                                                                      : "no");
}

static void say_dir(const struct once__config *config, char *text)
{
    copy_text(text, config->folder);
}

static void say_unixsocket(const struct once__config *config, char *text)
{
    copy_text(text, config->socket);
}

static void say_logfile(const struct once__config *config, char *text)
{
    copy_text(text, config->log_file);
}

static void say_loglevel(const struct once__config *config, char *text)
{
    copy_text(text, config->log_level == ONCE__LOG_DEBUG  ? "debug"
                    : config->log_level == ONCE__LOG_INFO ? "notice"
                                                          : "warning");
}

static void say_maxclients(const struct once__config *config, char *text)
{
    number_text(text, config->connections_max);
}

static void say_timeout(const struct once__config *config, char *text)
{
    number_text(text, (config->idle_ms_max + 999) / 1000);
}

static void say_bulk_len(const struct once__config *config, char *text)
{
    (void)config;
    number_text(text, ONCE_COMMAND_SIZE_MAX);
}

/* Either say writes the value, or it is always the same. */
static const struct {
    const char *name;
    const char *value;
    void (*say)(const struct once__config *config, char *text);
} settings[] = {
    {"appendfsync", NULL, say_appendfsync},
    {"appendonly", "yes", NULL},
    {"bind", NULL, say_bind},
    {"databases", "1", NULL},
    {"dir", NULL, say_dir},
    {"logfile", NULL, say_logfile},
    {"loglevel", NULL, say_loglevel},
    {"maxclients", NULL, say_maxclients},
    {"maxmemory", "0", NULL},
    {"maxmemory-policy", "noeviction", NULL},
    {"port", NULL, say_plain_port},
    {"proto-max-bulk-len", NULL, say_bulk_len},
    {"save", "", NULL},
    {"timeout", NULL, say_timeout},
    {"tls-port", NULL, say_tls_port},
    {"unixsocket", NULL, say_unixsocket},
};

enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

static bool asked_for(const struct once__request *request, const char *name)
{
    for (size_t i = 2; i < request->arg_count; i++)
        if (once__glob(request->args[i], once_bytes_of(name)))
            return true;
    return false;
}

enum once__next once__resp_config_get(struct once__request *request, struct once__out *out)
{
    size_t count = 0;

    for (size_t i = 0; i < SETTINGS; i++)
        count += asked_for(request, settings[i].name) ? 1 : 0;
    once__out_map(out, count);
    for (size_t i = 0; i < SETTINGS; i++) {
        char text[VALUE_SIZE];

        if (!asked_for(request, settings[i].name))
            continue;
        if (settings[i].say)
            settings[i].say(request->session->config, text);
        else
            copy_text(text, settings[i].value);
        once__out_text(out, settings[i].name);
        once__out_text(out, text);
    }
    return ONCE__ANSWERED;
}
