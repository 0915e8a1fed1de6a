/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample as one line: for people who look at a log, and as JSON for programs. And the numbers of
 * all forms as text.
 */
#include "cli/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/echo.h"
#include "cli/text_table.h"

/* ---- Numbers --------------------------------------------------------------------------------- */

const char *watch_us_text(double us, char text[WATCH_TEXT_SIZE])
{
    if (us < 0)
        snprintf(text, WATCH_TEXT_SIZE, "-");
    else if (us < 999.5)
        snprintf(text, WATCH_TEXT_SIZE, "%.0f us", us);
    else if (us < 99950)
        snprintf(text, WATCH_TEXT_SIZE, "%.1f ms", us / 1e3);
    else if (us < 999500)
        snprintf(text, WATCH_TEXT_SIZE, "%.0f ms", us / 1e3);
    else
        snprintf(text, WATCH_TEXT_SIZE, "%.1f s", us / 1e6);
    return text;
}

const char *watch_size_text(uint64_t size, char text[WATCH_TEXT_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double amount = (double)size;
    size_t unit = 0;

    while (amount >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        amount /= 1024;
        unit++;
    }
    snprintf(text, WATCH_TEXT_SIZE, unit > 0 && amount < 99.95 ? "%.1f %s" : "%.0f %s", amount,
             units[unit]);
    return text;
}

const char *watch_count_text(uint64_t count, char text[WATCH_TEXT_SIZE])
{
    char digits[24];
    size_t size = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count);
    char *end = text;

    for (size_t i = 0; i < size; i++) {
        if (i > 0 && (size - i) % 3 == 0)
            *end++ = ',';
        *end++ = digits[i];
    }
    *end = '\0';
    return text;
}

/* A second. */
const char *watch_rate_text(double rate, char text[WATCH_TEXT_SIZE])
{
    if (rate > 0 && rate < 9.95)
        snprintf(text, WATCH_TEXT_SIZE, "%.1f", rate);
    else
        (void)watch_count_text((uint64_t)(rate + 0.5), text);
    return text;
}

/* ---- A line ---------------------------------------------------------------------------------- */

static void print_time(void)
{
    time_t now = time(NULL);
    struct tm local;
    char text[16];

    if (localtime_r(&now, &local) && strftime(text, sizeof(text), "%H:%M:%S", &local) > 0)
        printf("%s ", text);
}

static void print_rates(const struct watch_rates *rates)
{
    char text[WATCH_TEXT_SIZE];

    printf(" calls/s %s", watch_rate_text(rates->calls, text));
    for (unsigned word = 0; word < WATCH_WORDS; word++) {
        if (rates->words[word] > 0)
            printf(" %s %s", once_word_name((enum once_word)word),
                   watch_rate_text(rates->words[word], text));
    }
    printf(" errors %s", watch_rate_text(rates->errors, text));
    printf(" | p50 %s", watch_us_text(rates->latency.p50, text));
    printf(" p99 %s", watch_us_text(rates->latency.p99, text));
    printf(" max %s", watch_us_text(rates->latency.max, text));
    printf(" | writes/s %s", watch_rate_text(rates->writes, text));
    printf(" p99 %s |", watch_us_text(rates->write.p99, text));
}

void watch_print_line(const struct watch_view *view)
{
    const struct watch_sample *sample = &view->sample;
    char text[WATCH_TEXT_SIZE];

    print_time();
    if (view->state == WATCH_RECONNECTING) {
        printf("reconnecting: %s\n", cli_echo(view->trouble).text);
        return;
    }
    printf("%s", sample->server ? cli_echo(sample->phase).text : "folder");
    if (view->rates.known)
        print_rates(&view->rates);
    printf(" doubts %s%s", watch_count_text(sample->doubts, text), sample->doubts_more ? "+" : "");
    printf(" started %s", watch_count_text(sample->started, text));
    printf(" keys %s", watch_count_text(sample->keys, text));
    if (!sample->shared)
        printf(" disk %s", watch_size_text(sample->disk_size, text));
    if (sample->server) {
        printf(" memory %s", watch_size_text(sample->memory_size, text));
        printf(" connections %" PRIu64, sample->resp + sample->http);
    }
    printf("%s\n", sample->stopped ? " STOPPED: a write failed" : "");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_times(const char *name, const struct watch_times *times)
{
    if (times->p50 < 0) {
        printf(",\"%s\":null", name);
        return;
    }
    printf(",\"%s\":{\"p50\":%.1f,\"p99\":%.1f,\"max\":%.0f}", name, times->p50, times->p99,
           times->max);
}

static void json_rates(const struct watch_rates *rates)
{
    if (!rates->known) {
        printf(",\"rates\":null,\"latency_us\":null,\"write_us\":null");
        return;
    }
    printf(",\"rates\":{\"calls\":%.3f,\"errors\":%.3f,\"writes\":%.3f,\"records\":%.3f,"
           "\"verdicts\":{",
           rates->calls, rates->errors, rates->writes, rates->records);
    for (unsigned word = 0; word < WATCH_WORDS; word++)
        printf("%s\"%s\":%.3f", word > 0 ? "," : "", once_word_name((enum once_word)word),
               rates->words[word]);
    printf("},\"length_ms\":%" PRId64 "}", rates->length_ms);
    json_times("latency_us", &rates->latency);
    json_times("write_us", &rates->write);
}

static void json_list(const struct watch_sample *sample)
{
    printf(",\"doubt_list\":[");
    for (size_t i = 0; i < sample->list_count; i++) {
        const struct watch_doubt *doubt = &sample->list[i];

        printf("%s{\"namespace\":", i > 0 ? "," : "");
        cli_json_string(stdout, once_bytes_of(doubt->ns));
        printf(",\"key\":");
        cli_json_string(stdout, once_bytes_of(doubt->key));
        printf(",\"fence\":%" PRIu64 ",\"attempt\":%" PRIu32, doubt->fence, doubt->attempt);
        if (doubt->since_ms <= sample->now_ms)
            printf(",\"since_ms\":%" PRId64, doubt->since_ms);
        else
            printf(",\"since_ms\":null"); /* given up before its lease was over */
        if (doubt->owner_size > 0) {
            fputc(',', stdout);
            cli_json_bytes(stdout, "owner",
                           (struct once_bytes){(const uint8_t *)doubt->owner, doubt->owner_size});
        }
        if (doubt->point_size > 0) {
            fputc(',', stdout);
            cli_json_bytes(stdout, "point",
                           (struct once_bytes){(const uint8_t *)doubt->point, doubt->point_size});
        }
        fputc('}', stdout);
    }
    printf("],\"doubt_list_more\":%s", sample->list_more ? "true" : "false");
}

void watch_print_json(const struct watch_view *view)
{
    const struct watch_sample *sample = &view->sample;

    printf("{\"time_ms\":%" PRId64 ",\"state\":", cli_now_ms());
    if (view->state == WATCH_RECONNECTING) {
        printf("\"reconnecting\",\"message\":");
        cli_json_string(stdout, once_bytes_of(view->trouble));
        printf("}\n");
        return;
    }
    printf("\"live\",\"source\":\"%s\",\"phase\":", sample->server ? "server" : "folder");
    cli_json_string(stdout, once_bytes_of(sample->phase));
    printf(",\"now_ms\":%" PRId64 ",\"stopped\":%s", sample->now_ms,
           sample->stopped ? "true" : "false");
    json_rates(&view->rates);
    printf(",\"keys\":%" PRIu64 ",\"keys_open\":%" PRIu64 ",\"started\":%" PRIu64
           ",\"doubts\":%" PRIu64 ",\"doubts_more\":%s,\"objects\":%" PRIu64,
           sample->keys, sample->keys_open, sample->started, sample->doubts,
           sample->doubts_more ? "true" : "false", sample->objects);
    printf(",\"shared\":%s", sample->shared ? "true" : "false");
    if (!sample->shared)
        printf(",\"index_size\":%" PRIu64 ",\"objects_size\":%" PRIu64 ",\"disk_size\":%" PRIu64
               ",\"disk_size_max\":%" PRIu64 ",\"disk_free\":%" PRIu64 ",\"log_size\":%" PRIu64
               ",\"live_size\":%" PRIu64,
               sample->index_size, sample->objects_size, sample->disk_size, sample->disk_size_max,
               sample->disk_free, sample->log_size, sample->live_size);
    if (sample->server)
        printf(",\"memory_size\":%" PRIu64 ",\"uptime_ms\":%" PRIu64 ",\"parked\":%" PRIu64
               ",\"connections\":{\"resp\":%" PRIu64 ",\"http\":%" PRIu64 "}",
               sample->memory_size, sample->uptime_ms, sample->parked, sample->resp, sample->http);
    json_list(sample);
    printf("}\n");
}
