/* SPDX-License-Identifier: Apache-2.0
 *
 * `once key explain`: what a key is, when it was born, until when it is accepted, and how it is
 * sent.
 */
#include "base/uuid.h"
#include "cli/cli.h"
#include "cli/cmd_key.h"
#include "cli/echo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <once/key.h>

enum { TIME_TEXT_SIZE = 40, KIND_SIZE = 16 };

struct time_text {
    char text[TIME_TEXT_SIZE];
};

/* What can be read off a key. */
struct explanation {
    struct once_key key;
    char kind[KIND_SIZE]; /* for machines */
    const char *sequence; /* the digits, of kind "sequence" only */
    int client_size;
    const char *kind_text; /* for people */
    once_ms birth_ms;      /* ONCE_BIRTH_NONE */
    once_ms now_ms;
    once_ms end_ms; /* accepted as new before this; with a birth only */
    bool accepted;  /* now, as new */
};

static struct time_text time_text(once_ms ms)
{
    struct time_text text = {{0}};
    time_t seconds = (time_t)(ms / 1000);
    char date[TIME_TEXT_SIZE - 8];
    struct tm parts;

    if (!gmtime_r(&seconds, &parts) ||
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        return text;
    snprintf(text.text, sizeof(text.text), "%s.%03dZ", date, (int)(ms % 1000));
    return text;
}

/* A length of time in its two largest units; a day and a half is 36 h. */
static struct time_text span_text(once_ms ms)
{
    static const struct {
        once_ms from_ms;
        once_ms ms;
        const char *name;
    } units[] = {{172800000, 86400000, "d"},
                 {3600000, 3600000, "h"},
                 {60000, 60000, "min"},
                 {1000, 1000, "s"},
                 {0, 1, "ms"}};
    struct time_text text = {{0}};
    size_t i = 0;
    once_ms rest = 0;
    int printed;

    while (ms < units[i].from_ms)
        i++;
    printed = snprintf(text.text, sizeof(text.text), "%" PRId64 " %s", ms / units[i].ms,
                       units[i].name);
    if (units[i].ms > 1000)
        rest = ms % units[i].ms / units[i + 1].ms;
    if (rest > 0)
        snprintf(text.text + printed, sizeof(text.text) - (size_t)printed, " %" PRId64 " %s", rest,
                 units[i + 1].name);
    return text;
}

static bool all_bytes(const struct once__uuid *uuid, uint8_t byte)
{
    for (size_t i = 0; i < ONCE__UUID_SIZE; i++) {
        if (uuid->bytes[i] != byte)
            return false;
    }
    return true;
}

static const char *uuid_kind_text(const struct once__uuid *uuid)
{
    static const char *const versions[] = {
        [1] = "UUID version 1, of time and machine", [2] = "UUID version 2",
        [3] = "UUID version 3, the MD5 of a name",   [4] = "UUID version 4, random",
        [5] = "UUID version 5, the SHA-1 of a name", [6] = "UUID version 6, of time and machine",
        [7] = "UUID version 7, of time and chance",  [8] = "UUID version 8, made to measure",
    };
    unsigned version = once__uuid_version(uuid);

    if (all_bytes(uuid, 0x00) || all_bytes(uuid, 0xff))
        return "UUID without content: everyone who sends it shares one key";
    if (!once__uuid_is_rfc(uuid) || version == 0 || version > 8)
        return "UUID of an unknown layout";
    return versions[version];
}

static bool is_digest(const struct once_key *key)
{
    return key->size == ONCE_DIGEST_TEXT_SIZE &&
           strspn(key->text, "0123456789abcdef") == ONCE_DIGEST_TEXT_SIZE;
}

/* The digits of "client:12", as once_key_sequence makes them: no leading zero, 64 bits. Else NULL.
 * */
static const char *sequence_of(const struct once_key *key)
{
    static const char largest[] = "18446744073709551615";
    const char *colon = strrchr(key->text, ':');
    const char *digits = colon ? colon + 1 : NULL;
    size_t size = colon ? strlen(digits) : 0;

    if (size == 0 || colon == key->text || strspn(digits, "0123456789") != size)
        return NULL;
    if ((digits[0] == '0' && size > 1) || size >= sizeof(largest))
        return NULL;
    if (size == sizeof(largest) - 1 && strcmp(digits, largest) > 0)
        return NULL;
    return digits;
}

static void find_kind(struct explanation *explanation)
{
    const struct once_key *key = &explanation->key;
    struct once__uuid uuid;

    if (once__uuid_parse(once_bytes_of(key->text), &uuid) == ONCE_OK) {
        unsigned version = once__uuid_is_rfc(&uuid) ? once__uuid_version(&uuid) : 0;

        explanation->kind_text = uuid_kind_text(&uuid);
        if (version >= 1 && version <= 8)
            snprintf(explanation->kind, KIND_SIZE, "uuid%u", version);
        else
            snprintf(explanation->kind, KIND_SIZE, "uuid");
    } else if (is_digest(key)) {
        explanation->kind_text = "64 hex digits, like the SHA-256 that digest makes";
        snprintf(explanation->kind, KIND_SIZE, "digest");
    } else if (sequence_of(key)) {
        explanation->sequence = sequence_of(key);
        explanation->client_size = (int)(explanation->sequence - key->text) - 1;
        explanation->kind_text = "a client and its sequence number";
        snprintf(explanation->kind, KIND_SIZE, "sequence");
    } else {
        explanation->kind_text = "a name of your own";
        snprintf(explanation->kind, KIND_SIZE, "business");
    }
}

static void find_birth(struct explanation *explanation)
{
    struct timespec now = {0};
    once_ms birth_ms = once_key_birth_ms(once_bytes_of(explanation->key.text));

    clock_gettime(CLOCK_REALTIME, &now);
    explanation->now_ms = (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    explanation->birth_ms = birth_ms;
    explanation->accepted = true;
    if (birth_ms == ONCE_BIRTH_NONE)
        return;
    explanation->end_ms = birth_ms + ONCE_RETENTION_MS_DEFAULT;
    explanation->accepted = explanation->now_ms < explanation->end_ms &&
                            birth_ms - explanation->now_ms <= ONCE_KEY_SKEW_MS_MAX;
}

/* The key as an RFC 9651 string. */
static size_t quote(const struct once_key *key, char ret_text[2 * ONCE_KEY_SIZE_MAX + 3])
{
    size_t size = 0;

    ret_text[size++] = '"';
    for (size_t i = 0; i < key->size; i++) {
        if (key->text[i] == '"' || key->text[i] == '\\')
            ret_text[size++] = '\\';
        ret_text[size++] = key->text[i];
    }
    ret_text[size++] = '"';
    ret_text[size] = '\0';
    return size;
}

static void print_times(const struct explanation *explanation)
{
    once_ms age_ms = explanation->now_ms - explanation->birth_ms;

    if (explanation->birth_ms == ONCE_BIRTH_NONE) {
        printf("born      unknown: only a UUID version 7 says when\n"
               "accepted  always; a retry that comes after the answer has expired runs again\n");
    } else {
        printf("born      %s, %s %s\n", time_text(explanation->birth_ms).text,
               span_text(age_ms < 0 ? -age_ms : age_ms).text, age_ms < 0 ? "from now" : "ago");
        if (-age_ms > ONCE_KEY_SKEW_MS_MAX)
            printf("accepted  no: born more than %s in the future\n",
                   span_text(ONCE_KEY_SKEW_MS_MAX).text);
        else
            printf("accepted  as new until %s%s\n", time_text(explanation->end_ms).text,
                   explanation->accepted ? "" : "; it is TOO_OLD now");
    }
    printf("          (answers are kept %s unless the namespace says otherwise)\n",
           span_text(ONCE_RETENTION_MS_DEFAULT).text);
}

static void print_people(const struct explanation *explanation)
{
    char header[2 * ONCE_KEY_SIZE_MAX + 3];

    (void)quote(&explanation->key, header);
    printf("key       %s\n", explanation->key.text);
    printf("valid     yes, %zu of at most %d characters\n", explanation->key.size,
           ONCE_KEY_SIZE_MAX);
    if (explanation->sequence)
        printf("kind      number %s of the client %.*s\n", explanation->sequence,
               explanation->client_size, explanation->key.text);
    else
        printf("kind      %s\n", explanation->kind_text);
    print_times(explanation);
    printf("header    Idempotency-Key: %s\n", header);
}

static void print_machines(const struct explanation *explanation)
{
    char header[2 * ONCE_KEY_SIZE_MAX + 3];
    size_t header_size = quote(&explanation->key, header);

    fputs("{\"valid\":true,\"key\":", stdout);
    cli_json_string(stdout, once_bytes_of(explanation->key.text));
    printf(",\"kind\":\"%s\"", explanation->kind);
    if (explanation->sequence) {
        fputs(",\"client\":", stdout);
        cli_json_string(stdout, (struct once_bytes){(const uint8_t *)explanation->key.text,
                                                    (size_t)explanation->client_size});
        /* A string: a reader that keeps numbers as doubles would change it. */
        printf(",\"sequence\":\"%s\"", explanation->sequence);
    }
    if (explanation->birth_ms != ONCE_BIRTH_NONE)
        printf(",\"born\":\"%s\",\"born_ms\":%" PRId64 ",\"age_ms\":%" PRId64
               ",\"accepted_until\":\"%s\",\"accepted_until_ms\":%" PRId64,
               time_text(explanation->birth_ms).text, explanation->birth_ms,
               explanation->now_ms - explanation->birth_ms, time_text(explanation->end_ms).text,
               explanation->end_ms);
    printf(",\"accepted\":%s,\"retention_ms\":%lld,\"header\":",
           explanation->accepted ? "true" : "false", ONCE_RETENTION_MS_DEFAULT);
    cli_json_string(stdout, (struct once_bytes){(const uint8_t *)header, header_size});
    puts("}");
}

int key_explain(const struct key_args *args)
{
    struct once_bytes text = once_bytes_of(args->values[0]);
    struct explanation explanation = {.kind_text = NULL};
    struct once_defect defect;
    int err;

    err = args->as_header ? once_key_parse_header(text, &explanation.key, &defect)
                          : once_key_business(text, &explanation.key, &defect);
    if (err != ONCE_OK)
        return key_refuse(args, err, text, &defect);
    find_kind(&explanation);
    find_birth(&explanation);
    if (args->json)
        print_machines(&explanation);
    else
        print_people(&explanation);
    return CLI_OK;
}
