/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads one value of one setting, by its kind, and says what is wrong with it: never with the
 * value of a secret, and never with a byte that a terminal would obey.
 */
#include "server/config_inner.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <once/key.h>

#include "base/assert.h"
#include "server/access.h"
#include "store/postgres/pg.h"

static const char separators[] = ", \t";

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit duration_units[] = {{"ms", 1},      {"s", 1000},     {"m", 60000},
                                             {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
static const struct unit size_units[] = {{"", 1},           {"k", 1ULL << 10}, {"m", 1ULL << 20},
                                         {"g", 1ULL << 30}, {"t", 1ULL << 40}, {NULL, 0}};
static const struct unit number_units[] = {{"", 1}, {NULL, 0}};

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Digits and a unit. Zero needs none. */
static bool read_amount(const char *text, const struct unit *units, uint64_t *ret_amount)
{
    size_t digits = strspn(text, "0123456789");
    uint64_t amount = 0;

    if (digits == 0)
        return false;
    for (size_t i = 0; i < digits; i++) {
        if (__builtin_mul_overflow(amount, 10U, &amount) ||
            __builtin_add_overflow(amount, (uint64_t)(text[i] - '0'), &amount))
            amount = UINT64_MAX; /* out of every range */
        if (amount == UINT64_MAX)
            break;
    }
    if (amount == 0 && text[digits] == '\0') {
        *ret_amount = 0;
        return true;
    }
    for (; units->name; units++) {
        if (strcasecmp(text + digits, units->name) != 0)
            continue;
        if (__builtin_mul_overflow(amount, units->factor, &amount))
            amount = UINT64_MAX;
        *ret_amount = amount;
        return true;
    }
    return false;
}

/* The amount in the largest unit that leaves no rest; a day is better known as 24h. */
static void amount_text(uint64_t amount, const struct unit *units, char *ret_text, size_t size)
{
    const struct unit *best = units;

    for (const struct unit *unit = units; amount > 0 && unit->name; unit++) {
        bool is_day = strcmp(unit->name, "d") == 0 && amount == unit->factor;

        if (amount % unit->factor == 0 && !is_day)
            best = unit;
    }
    snprintf(ret_text, size, "%llu%s", (unsigned long long)(amount / best->factor),
             amount > 0 ? best->name : "");
}

static const struct unit *units_of(int kind)
{
    if (kind == ONCE__KIND_DURATION)
        return duration_units;
    return kind == ONCE__KIND_SIZE ? size_units : number_units;
}

void once__amount_text(int kind, uint64_t amount, char *ret_text, size_t size)
{
    amount_text(amount, units_of(kind), ret_text, size);
}

void once__duration_text(once_ms duration_ms, char ret_text[ONCE__AMOUNT_SIZE])
{
    amount_text((uint64_t)duration_ms, duration_units, ret_text, ONCE__AMOUNT_SIZE);
}

void once__size_text(uint64_t size, char ret_text[ONCE__AMOUNT_SIZE])
{
    amount_text(size, size_units, ret_text, ONCE__AMOUNT_SIZE);
}

static int read_number(struct once__reading *reading, const struct once__setting_help *setting,
                       void *target, const char *value)
{
    static const char *const forms[] = {
        [ONCE__KIND_DURATION] = "digits and a unit, such as 250ms, 30s, 5m, 24h or 7d",
        [ONCE__KIND_SIZE] = "bytes, or digits and a unit, such as 64k, 16m, 1g or 1t",
        [ONCE__KIND_NUMBER] = "digits"};
    char low[32], high[32];
    uint64_t amount;

    if (!read_amount(value, units_of(setting->kind), &amount))
        return once__config_wrong(reading, &reading->here, "%s = %.64s: write %s", setting->name,
                                  value, forms[setting->kind]);
    if (amount < setting->min || amount > setting->max) {
        once__amount_text(setting->kind, setting->min, low, sizeof(low));
        once__amount_text(setting->kind, setting->max, high, sizeof(high));
        return once__config_wrong(reading, &reading->here, "%s = %.64s: it may be from %s to %s",
                                  setting->name, value, low, high);
    }
    if (setting->size == sizeof(uint32_t))
        memcpy((char *)target + setting->offset, &(uint32_t){(uint32_t)amount}, sizeof(uint32_t));
    else
        memcpy((char *)target + setting->offset, &amount, sizeof(amount));
    ONCE_ASSERT(setting->size == sizeof(uint32_t) || setting->size == sizeof(uint64_t));
    return ONCE_OK;
}

/* ---- Words and paths ------------------------------------------------------------------------- */

static int read_word(struct once__reading *reading, const struct once__setting_help *setting,
                     void *target, const char *value)
{
    for (unsigned i = 0; setting->words[i]; i++) {
        if (strcmp(value, setting->words[i]) != 0)
            continue;
        if (setting->kind == ONCE__KIND_SWITCH)
            memcpy((char *)target + setting->offset, &(bool){i != 0}, sizeof(bool));
        else
            memcpy((char *)target + setting->offset, &i, sizeof(i));
        return ONCE_OK;
    }
    return once__config_wrong(reading, &reading->here, "%s = %.64s: it may be %s", setting->name,
                              value, setting->value);
}

/* The text between quotes, in its own place; *ret_end is behind the closing one. */
static bool unquote(char *text, char **ret_end)
{
    char *out = text;

    for (char *in = text + 1; *in; in++) {
        if (*in == '"') {
            *ret_end = in + 1;
            *out = '\0';
            return true;
        }
        if (*in == '\\' && (in[1] == '"' || in[1] == '\\'))
            in++;
        *out++ = *in;
    }
    return false;
}

static int read_path(struct once__reading *reading, const struct once__setting_help *setting,
                     void *target, char *value)
{
    char **field = (char **)(void *)((char *)target + setting->offset), *end = NULL, *copy;

    if (reading->here.source == ONCE__FROM_FILE && value[0] == '"' &&
        (!unquote(value, &end) || *end != '\0'))
        return once__config_wrong(reading, &reading->here,
                                  "%s: what begins with a quote ends with one", setting->name);
    if (value[0] == '\0')
        return once__config_wrong(reading, &reading->here, "%s is empty", setting->name);
    if (setting->kind == ONCE__KIND_PATH && once__pg_url(value)) /* an empty folder would answer */
        return once__config_wrong(reading, &reading->here,
                                  "%s is a path, and this is the URL of a shared store: write it "
                                  "as store = URL (--store URL)",
                                  setting->name);
    if (setting->kind == ONCE__KIND_SOCKET) {
        reading->socket_off = !end && strcmp(value, "off") == 0;
        if (reading->socket_off) {
            free(*field);
            *field = NULL;
            return ONCE_OK;
        }
        if (strlen(value) >= sizeof(((struct sockaddr_un *)0)->sun_path))
            return once__config_wrong(reading, &reading->here,
                                      "%s: the path has %zu bytes; a unix socket's has at most %zu",
                                      setting->name, strlen(value),
                                      sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
    }
    copy = strdup(value);
    if (!copy)
        return ONCE_ERR_MEMORY;
    free(*field);
    *field = copy;
    return ONCE_OK;
}

/* The URL of a shared store. It may hold a password: no message shows any of it. */
static int read_store(struct once__reading *reading, const struct once__setting_help *setting,
                      void *target, char *value)
{
    char **field = (char **)(void *)((char *)target + setting->offset);
    int err = read_path(reading, setting, target, value);

    if (err != ONCE_OK)
        return err;
    if (!once__pg_url(*field))
        return once__config_wrong(reading, &reading->here,
                                  "%s is no URL of a shared store: write "
                                  "postgres://USER@HOST:PORT/DATABASE",
                                  setting->name);
    if (strlen(*field) > ONCE_STORE_URL_SIZE_MAX)
        return once__config_wrong(reading, &reading->here, "%s: the URL is longer than %d bytes",
                                  setting->name, ONCE_STORE_URL_SIZE_MAX);
    if (!once__pg_url_readable(*field))
        return once__config_wrong(reading, &reading->here, "%s cannot be read as a URL: %s",
                                  setting->name, ONCE__PG_URL_FORM);
    return ONCE_OK;
}

/* ---- Listeners ------------------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct in6_addr six;
    struct in_addr four;

    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &six) == 1 &&
           (IN6_IS_ADDR_LOOPBACK(&six) ||
            (memcmp(six.s6_addr, mapped, sizeof(mapped)) == 0 && six.s6_addr[12] == 127));
}

static bool read_host(const char *text, size_t size, char *ret_host, size_t host_size)
{
    unsigned char address[sizeof(struct in6_addr)];
    bool brackets = size >= 2 && text[0] == '[' && text[size - 1] == ']';

    if (size == strlen("localhost") && memcmp(text, "localhost", size) == 0) {
        snprintf(ret_host, host_size, "127.0.0.1");
        return true;
    }
    if (brackets) {
        text++;
        size -= 2;
    }
    if (size == 0 || size >= host_size || size > INET6_ADDRSTRLEN)
        return false;
    memcpy(ret_host, text, size);
    ret_host[size] = '\0';
    return inet_pton(brackets ? AF_INET6 : AF_INET, ret_host, address) == 1;
}

static int read_listen(struct once__reading *reading, const struct once__setting_help *setting,
                       char *item, struct once__listen *ret_listen)
{
    struct once__listen listen = {.tls = strncmp(item, "tls://", 6) == 0};
    const char *host = listen.tls ? item + 6 : item, *colon = strrchr(host, ':');
    uint64_t port;

    if (!colon || colon[1] == '\0' || strchr(colon, ']'))
        return once__config_wrong(reading, &reading->here,
                                  "%s = %.64s: write HOST:PORT, such as %s", setting->name, item,
                                  setting->fallback);
    if (!read_amount(colon + 1, number_units, &port) || port > UINT16_MAX)
        return once__config_wrong(reading, &reading->here,
                                  "%s = %.64s: a port is a number from 0 to 65535", setting->name,
                                  item);
    if (!read_host(host, (size_t)(colon - host), listen.host, sizeof(listen.host)))
        return once__config_wrong(reading, &reading->here,
                                  "%s = %.64s: the host is no address; write one such as "
                                  "127.0.0.1 or [::1], or 0.0.0.0 for every one of this machine",
                                  setting->name, item);
    listen.port = (uint16_t)port;
    listen.loopback = is_loopback(listen.host);
    *ret_listen = listen;
    return ONCE_OK;
}

static struct once__listen *listeners(const struct once__setting_help *setting,
                                      struct once__config *config, size_t **ret_count)
{
    bool resp = setting->offset == offsetof(struct once__config, resp);

    *ret_count = resp ? &config->resp_count : &config->http_count;
    return resp ? config->resp : config->http;
}

static bool same_listener(const struct once__listen *a, const struct once__listen *b)
{
    return a->port != 0 && a->port == b->port && strcmp(a->host, b->host) == 0;
}

static int read_listeners(struct once__reading *reading, const struct once__setting_help *setting,
                          char *value)
{
    size_t *count;
    struct once__listen *list = listeners(setting, reading->config, &count);
    bool more = reading->top.settings[once__setting_index(setting)].source == reading->here.source;
    char *rest = NULL;

    if (strcmp(value, "off") == 0 && !more) {
        *count = 0;
        return ONCE_OK;
    }
    if (more && *count == 0)
        return once__config_wrong(reading, &reading->here, "%s = off stands alone", setting->name);
    for (char *item = strtok_r(value, separators, &rest); item;
         item = strtok_r(NULL, separators, &rest)) {
        struct once__listen listen;
        int err = strcmp(item, "off") == 0
                      ? once__config_wrong(reading, &reading->here, "%s = off stands alone",
                                           setting->name)
                      : read_listen(reading, setting, item, &listen);

        for (size_t i = 0; err == ONCE_OK && i < *count; i++) {
            if (same_listener(&list[i], &listen))
                err = once__config_wrong(reading, &reading->here, "%s = %.64s stands twice",
                                         setting->name, item);
        }
        if (err == ONCE_OK && *count == ONCE_LISTENERS_MAX)
            err = once__config_wrong(reading, &reading->here, "more than %d of %s",
                                     ONCE_LISTENERS_MAX, setting->name);
        if (err != ONCE_OK)
            return err;
        list[(*count)++] = listen;
    }
    if (*count == 0)
        return once__config_wrong(reading, &reading->here, "%s is empty", setting->name);
    return ONCE_OK;
}

void once__value_clear(const struct once__setting_help *setting, void *target)
{
    size_t *count;

    ONCE_ASSERT(setting->kind == ONCE__KIND_LISTEN);
    (void)listeners(setting, target, &count);
    *count = 0;
}

/* ---- Lists of a user ------------------------------------------------------------------------- */

const char *once__config_name_defect(const char *name)
{
    struct once_defect defect;

    if (once_namespace_check(once_bytes_of(name), &defect) != ONCE_OK)
        return defect.what;
    if (strchr(name, '@'))
        return "an @ stands between a namespace and a user";
    if (strpbrk(name, ",\"\\#[]"))
        return "a name in this file is without , \" \\ # [ ]";
    return NULL;
}

/* The next item of a list, in its own place. False: there is none, or *ret_wrong says why. */
static bool next_item(char **cursor, char **ret_item, const char **ret_wrong)
{
    char *item = *cursor + strspn(*cursor, separators), *end;

    *ret_wrong = NULL;
    if (*item == '\0')
        return false;
    if (*item == '"') {
        if (!unquote(item, &end) || (*end != '\0' && !strchr(separators, *end))) {
            *ret_wrong = "what begins with a quote ends with one";
            return false;
        }
    } else {
        end = item + strcspn(item, separators);
    }
    *cursor = *end != '\0' ? end + 1 : end;
    *end = '\0';
    *ret_item = item;
    return true;
}

/* Items are stored in slots of one size, each with its NUL. */
static int add_item(struct once__reading *reading, const struct once__setting_help *setting,
                    char **items, size_t *count, size_t slot, const char *item)
{
    const char *defect = setting->kind == ONCE__KIND_NAMES ? once__config_name_defect(item) : NULL;
    char *grown;

    if (setting->kind == ONCE__KIND_BEGINNINGS && (item[0] == '\0' || strlen(item) >= slot))
        defect = "the beginning of an object's name has 1 to 255 bytes";
    if (strcmp(item, "*") == 0)
        defect = "* stands alone";
    if (!defect && *count == ONCE_USER_LIST_MAX)
        defect = "the list is too long";
    for (size_t i = 0; !defect && i < *count; i++) {
        if (strcmp(*items + i * slot, item) == 0)
            defect = "it stands twice";
    }
    if (defect)
        return once__config_wrong(reading, &reading->here, "%s: '%.64s': %s", setting->name, item,
                                  defect);
    grown = realloc(*items, (*count + 1) * slot);
    if (!grown)
        return ONCE_ERR_MEMORY;
    *items = grown;
    memset(grown + *count * slot, 0, slot);
    memcpy(grown + *count * slot, item, strlen(item));
    (*count)++;
    return ONCE_OK;
}

static int read_list(struct once__reading *reading, const struct once__setting_help *setting,
                     struct once__user *user, char *value)
{
    bool names = setting->kind == ONCE__KIND_NAMES;
    size_t slot = names ? sizeof(user->namespaces[0]) : sizeof(user->objects[0]);
    char *items = NULL, *item, *cursor = value;
    const char *wrong = NULL;
    size_t count = 0;
    int err = ONCE_OK;

    if (strcmp(value, "*") == 0) {
        *(names ? &user->every_namespace : &user->every_object) = true;
        return ONCE_OK;
    }
    while (err == ONCE_OK && next_item(&cursor, &item, &wrong))
        err = add_item(reading, setting, &items, &count, slot, item);
    if (err == ONCE_OK && wrong)
        err = once__config_wrong(reading, &reading->here, "%s: %s", setting->name, wrong);
    if (err == ONCE_OK && count == 0)
        err = once__config_wrong(reading, &reading->here, "%s is empty", setting->name);
    if (err != ONCE_OK) {
        free(items);
        return err;
    }
    if (names) {
        user->namespaces = (void *)items;
        user->namespace_count = count;
    } else {
        user->objects = (void *)items;
        user->object_count = count;
    }
    return ONCE_OK;
}

/* ---- All of them ----------------------------------------------------------------------------- */

int once__value_read(struct once__reading *reading, const struct once__setting_help *setting,
                     void *target, char *value)
{
    struct once__user *user = target;

    for (const char *c = value; *c; c++) {
        if ((unsigned char)*c < 0x20 && *c != '\t')
            return once__config_wrong(reading, &reading->here, "%s holds a control character",
                                      setting->name);
    }
    switch ((enum once__kind)setting->kind) {
    case ONCE__KIND_DURATION:
    case ONCE__KIND_SIZE:
    case ONCE__KIND_NUMBER:
        return read_number(reading, setting, target, value);
    case ONCE__KIND_WORD:
    case ONCE__KIND_SWITCH:
        return read_word(reading, setting, target, value);
    case ONCE__KIND_PATH:
    case ONCE__KIND_SOCKET:
        return read_path(reading, setting, target, value);
    case ONCE__KIND_STORE:
        return read_store(reading, setting, target, value);
    case ONCE__KIND_LISTEN:
        return read_listeners(reading, setting, value);
    case ONCE__KIND_NAMES:
    case ONCE__KIND_BEGINNINGS:
        return read_list(reading, setting, user, value);
    case ONCE__KIND_PASSWORD:
        if (once__password_read(once_bytes_of(value), &user->password))
            return ONCE_OK;
        return once__config_wrong(reading, &reading->here,
                                  "this is no password's hash; make one: once serve "
                                  "--hash-password");
    case ONCE__KIND_TOKEN:
        if (once__token_read(once_bytes_of(value), &user->token))
            return ONCE_OK;
        return once__config_wrong(reading, &reading->here,
                                  "this is no token's hash; make one: once serve --make-token");
    }
    return ONCE_ERR_INVALID;
}
