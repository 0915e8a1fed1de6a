/* SPDX-License-Identifier: Apache-2.0
 *
 * The screen of `once watch`. A frame is made whole in memory, as wide and as high as the terminal,
 * and written at once, so that nothing flickers and nothing scrolls. Text of others is escaped
 * before it gets here: every byte of it is one column.
 *
 *     once watch  /var/lib/once                          live · 0.1.0 · up 3 h
 *
 *     calls        1,234 /s   ▁▁▂▃▅▇█▆▅▃
 *       EXECUTE      600 /s   ▁▁▂▃▅▇█▆▅▃      verdicts that were ever given
 *     latency   p50 120 us  p99 2.1 ms  max 4 ms   ▁▂▁▁▃
 *     …
 *     DOUBTS 2
 *       3 min  pay order-4  attempt 1  owner worker-1  at charged
 */
#include "cli/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/echo.h"
#include "cli/text_table.h"

enum {
    FRAME_SIZE = 1 << 18,
    LABEL_WIDTH = 12,
    TEXT_WIDTH = 52, /* of rows with more than one number: their sparkline begins behind */
    SPARK_MIN = 8,
    BODY_ROWS = 14 /* of a screen, without verdicts and doubts */
};

struct frame {
    char bytes[FRAME_SIZE];
    size_t size;
    size_t width, height;
    size_t row, column;
    struct cli_style style;
    bool utf8;
};

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_bytes(struct frame *frame, const char *bytes, size_t size)
{
    if (frame->size + size > sizeof(frame->bytes))
        return;
    memcpy(frame->bytes + frame->size, bytes, size);
    frame->size += size;
}

static void put_colour(struct frame *frame, enum cli_colour colour)
{
    const char *code = cli_colour(frame->style, colour);

    put_bytes(frame, code, strlen(code));
}

static void put(struct frame *frame, enum cli_colour colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ASCII; cut where the screen ends. */
static void put(struct frame *frame, enum cli_colour colour, const char *format, ...)
{
    char text[1024];
    va_list args;
    size_t size, room = frame->width > frame->column ? frame->width - frame->column : 0;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    size = strlen(text) < room ? strlen(text) : room;
    if (colour != CLI_PLAIN)
        put_colour(frame, colour);
    put_bytes(frame, text, size);
    if (colour != CLI_PLAIN)
        put_colour(frame, CLI_PLAIN);
    frame->column += size;
}

static void put_blanks(struct frame *frame, size_t to_column)
{
    while (frame->column < to_column && frame->column < frame->width)
        put(frame, CLI_PLAIN, " ");
}

/* False: the screen is full, and nothing may be put any more. */
static bool end_row(struct frame *frame)
{
    static const char wipe[] = "\033[K";

    put_bytes(frame, wipe, sizeof(wipe) - 1);
    frame->column = 0;
    if (++frame->row >= frame->height)
        return false;
    put_bytes(frame, "\r\n", 2);
    return true;
}

/* ---- Sparklines ------------------------------------------------------------------------------ */

/* What a sparkline shows of a moment; negative: nothing is known. */
typedef double value_of(const struct watch_rates *rates, unsigned which);

static void put_spark(struct frame *frame, const struct watch_view *view, value_of *value,
                      unsigned which, enum cli_colour colour)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const marks[] = {".", ".", ":", "-", "=", "+", "*", "#"};
    size_t room = frame->width > frame->column ? frame->width - frame->column : 0;
    double most = 0;

    if (room < SPARK_MIN)
        return;
    for (size_t i = 0; i < room && watch_past(view, i); i++) {
        double v = value(watch_past(view, i), which);

        most = v > most ? v : most;
    }
    put_colour(frame, colour);
    for (size_t i = room; i > 0; i--) {
        const struct watch_rates *rates = watch_past(view, i - 1);
        double v = rates && rates->known ? value(rates, which) : -1;
        size_t level = most > 0 && v > 0 ? (size_t)(v / most * 7.999) : 0;
        const char *mark = v < 0 ? " " : (frame->utf8 ? blocks : marks)[level];

        put_bytes(frame, mark, strlen(mark));
    }
    put_colour(frame, CLI_PLAIN);
    frame->column += room;
}

static double calls_of(const struct watch_rates *rates, unsigned which)
{
    (void)which;
    return rates->calls;
}

static double word_of(const struct watch_rates *rates, unsigned which)
{
    return rates->words[which];
}

static double errors_of(const struct watch_rates *rates, unsigned which)
{
    (void)which;
    return rates->errors;
}

static double latency_of(const struct watch_rates *rates, unsigned which)
{
    (void)which;
    return rates->latency.p99;
}

static double write_of(const struct watch_rates *rates, unsigned which)
{
    (void)which;
    return rates->write.p99;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Its end, where the whole does not fit beside what stands on the right. */
static void put_name(struct frame *frame, const char *name, size_t right_width)
{
    struct cli_echo echo = cli_echo(name);
    size_t size = strlen(echo.text), used = frame->column + right_width + 5; /* and blanks */
    size_t room = frame->width > used ? frame->width - used : 0;

    if (size <= room)
        put(frame, CLI_PLAIN, "  %s  ", echo.text);
    else if (room > 3)
        put(frame, CLI_PLAIN, "  ...%s  ", echo.text + size - (room - 3));
    else
        put(frame, CLI_PLAIN, "  ");
}

static bool is_well(const struct watch_view *view)
{
    return view->state == WATCH_LIVE && view->silent_ms == 0 && !view->sample.stopped;
}

static bool put_head(struct frame *frame, const struct watch_view *view)
{
    const struct watch_sample *sample = &view->sample;
    char up[CLI_TIME_SIZE], right[128] = "";

    if (view->state == WATCH_RECONNECTING)
        (void)snprintf(right, sizeof(right), "reconnecting");
    else if (view->silent_ms > 0)
        (void)snprintf(right, sizeof(right), "no answer for %s", cli_length(view->silent_ms, up));
    else if (!sample->server)
        (void)snprintf(right, sizeof(right), "a folder without a server");
    else if (strcmp(sample->phase, "loading") == 0 && sample->to_load > 0)
        (void)snprintf(right, sizeof(right), "loading %.0f %%",
                       100.0 * (double)sample->loaded / (double)sample->to_load);
    else
        (void)snprintf(right, sizeof(right), "%s | once %s | up %s",
                       strcmp(sample->phase, "ready") == 0 ? "live" : sample->phase,
                       sample->version, cli_length((once_ms)sample->uptime_ms, up));
    put(frame, CLI_BOLD, "once watch");
    put_name(frame, view->name, strlen(right));
    if (frame->column + strlen(right) < frame->width)
        put_blanks(frame, frame->width - strlen(right));
    put(frame, is_well(view) ? CLI_GREEN : CLI_RED, "%s", cli_echo(right).text);
    return end_row(frame);
}

/* "reconnecting: …", "a write failed", or nothing. */
static bool put_trouble(struct frame *frame, const struct watch_view *view)
{
    if (view->state == WATCH_RECONNECTING)
        put(frame, CLI_RED, "%s; trying again. What follows was so before.",
            cli_echo(view->trouble).text);
    else if (view->sample.stopped)
        put(frame, CLI_RED, "A write failed: nothing is acknowledged any more.");
    else if (!view->sample.server)
        put(frame, CLI_DIM, "Rates need a server: once serve. This is what the store holds.");
    return end_row(frame);
}

static bool put_rate(struct frame *frame, const struct watch_view *view, const char *name,
                     value_of *value, unsigned which, enum cli_colour colour)
{
    char text[WATCH_TEXT_SIZE];
    double rate = value(&view->rates, which);

    put(frame, CLI_PLAIN, "%-*s", LABEL_WIDTH, name);
    if (view->rates.known)
        put(frame, rate > 0 ? colour : CLI_PLAIN, "%10s /s  ", watch_rate_text(rate, text));
    else
        put(frame, CLI_PLAIN, "%10s     ", "-");
    put_spark(frame, view, value, which, colour);
    return end_row(frame);
}

static enum cli_colour word_colour(unsigned word)
{
    static const enum cli_colour colours[WATCH_WORDS] = {
        [ONCE_EXECUTE] = CLI_GREEN, [ONCE_REPLAY] = CLI_BLUE,     [ONCE_BUSY] = CLI_YELLOW,
        [ONCE_MISMATCH] = CLI_RED,  [ONCE_DOUBT] = CLI_RED,       [ONCE_TOO_OLD] = CLI_YELLOW,
        [ONCE_DONE] = CLI_GREEN,    [ONCE_STALE] = CLI_YELLOW,    [ONCE_NOTFOUND] = CLI_DIM,
        [ONCE_APPLIED] = CLI_GREEN, [ONCE_REJECTED] = CLI_YELLOW,
    };

    return colours[word];
}

/* Verdicts that were ever given, as many as there is room for. */
static bool put_words(struct frame *frame, const struct watch_view *view)
{
    size_t room = frame->height > BODY_ROWS ? frame->height - BODY_ROWS : 0, count = 0;

    if (view->sample.list_count > 0)
        room = room > 4 ? room - 4 : 0;
    for (unsigned word = 0; word < WATCH_WORDS && count < room; word++) {
        char name[32];

        if (view->sample.words[word] == 0 && word != ONCE_EXECUTE && word != ONCE_REPLAY)
            continue;
        (void)snprintf(name, sizeof(name), "  %s", once_word_name((enum once_word)word));
        if (!put_rate(frame, view, name, word_of, word, word_colour(word)))
            return false;
        count++;
    }
    return true;
}

static bool put_times(struct frame *frame, const struct watch_view *view, const char *name,
                      const struct watch_times *times, value_of *value)
{
    char p50[WATCH_TEXT_SIZE], p99[WATCH_TEXT_SIZE], max[WATCH_TEXT_SIZE];

    put(frame, CLI_PLAIN, "%-*s", LABEL_WIDTH, name);
    put(frame, CLI_PLAIN, "p50 %8s  p99 %8s  max %8s", watch_us_text(times->p50, p50),
        watch_us_text(times->p99, p99), watch_us_text(times->max, max));
    put_blanks(frame, TEXT_WIDTH);
    put_spark(frame, view, value, 0, CLI_BLUE);
    return end_row(frame);
}

static bool put_writes(struct frame *frame, const struct watch_view *view)
{
    const struct watch_rates *rates = &view->rates;
    char text[WATCH_TEXT_SIZE], more[WATCH_TEXT_SIZE];

    put(frame, CLI_PLAIN, "%-*s", LABEL_WIDTH, "writes");
    if (rates->known)
        put(frame, CLI_PLAIN, "%10s /s  of %s records each", watch_rate_text(rates->writes, text),
            watch_rate_text(rates->writes > 0 ? rates->records / rates->writes : 0, more));
    else
        put(frame, CLI_PLAIN, "%10s", "-");
    return end_row(frame);
}

static bool put_disk(struct frame *frame, const struct watch_sample *sample)
{
    char a[WATCH_TEXT_SIZE], b[WATCH_TEXT_SIZE];

    if (sample->shared) {
        put(frame, CLI_PLAIN, "%-*s%s", LABEL_WIDTH, "disk", "the database's: the store is shared");
        return end_row(frame);
    }
    put(frame, CLI_PLAIN, "%-*s%s", LABEL_WIDTH, "disk", watch_size_text(sample->disk_size, a));
    if (sample->disk_size_max > 0)
        put(frame, CLI_PLAIN, " of %s", watch_size_text(sample->disk_size_max, a));
    put(frame, CLI_PLAIN, "  log %s  needed %s", watch_size_text(sample->log_size, a),
        watch_size_text(sample->live_size, b));
    put(frame, CLI_PLAIN, "  free %s", watch_size_text(sample->disk_free, a));
    return end_row(frame);
}

static bool put_store(struct frame *frame, const struct watch_sample *sample)
{
    char a[WATCH_TEXT_SIZE], b[WATCH_TEXT_SIZE], c[WATCH_TEXT_SIZE];

    put(frame, CLI_PLAIN, "%-*s%s  under way %s  ", LABEL_WIDTH, "keys",
        watch_count_text(sample->keys, a), watch_count_text(sample->started, b));
    put(frame, sample->doubts > 0 ? CLI_RED : CLI_PLAIN, "in doubt %s%s",
        watch_count_text(sample->doubts, a), sample->doubts_more ? " or more" : "");
    put(frame, CLI_PLAIN, "  objects %s", watch_count_text(sample->objects, a));
    if (!end_row(frame))
        return false;
    put(frame, CLI_PLAIN, "%-*s", LABEL_WIDTH, "memory");
    if (sample->server)
        put(frame, CLI_PLAIN, "%s  ", watch_size_text(sample->memory_size, a));
    if (!sample->shared)
        put(frame, CLI_PLAIN, "index %s  objects %s", watch_size_text(sample->index_size, b),
            watch_size_text(sample->objects_size, c));
    if (!end_row(frame) || !put_disk(frame, sample))
        return false;
    if (sample->server)
        put(frame, CLI_PLAIN, "%-*sRESP %" PRIu64 "  HTTP %" PRIu64 "  waiting %" PRIu64,
            LABEL_WIDTH, "clients", sample->resp, sample->http, sample->parked);
    return end_row(frame);
}

static bool put_doubt(struct frame *frame, const struct watch_sample *sample,
                      const struct watch_doubt *doubt)
{
    char text[CLI_TIME_SIZE];
    once_ms age_ms = sample->now_ms > doubt->since_ms ? sample->now_ms - doubt->since_ms : 0;

    /* One that was given up before its lease was over: when is not written. */
    put(frame, CLI_RED, "  %9s",
        doubt->since_ms > sample->now_ms ? "given up" : cli_length(age_ms, text));
    put(frame, CLI_PLAIN, "  %s %s", cli_echo(doubt->ns).text, cli_echo(doubt->key).text);
    put(frame, CLI_DIM, "  attempt %" PRIu32, doubt->attempt);
    if (doubt->owner_size > 0)
        put(frame, CLI_DIM, "  owner %s",
            cli_echo_bytes((struct once_bytes){(const uint8_t *)doubt->owner, doubt->owner_size})
                .text);
    if (doubt->point_size > 0)
        put(frame, CLI_DIM, "  at %s",
            cli_echo_bytes((struct once_bytes){(const uint8_t *)doubt->point, doubt->point_size})
                .text);
    return end_row(frame);
}

/* The oldest, and where they do not all fit also the newest. */
static bool put_doubts(struct frame *frame, const struct watch_sample *sample)
{
    size_t room = frame->height - frame->row, count = sample->list_count, first, last = 0;
    char text[WATCH_TEXT_SIZE];

    if (sample->doubts == 0 || room < 4)
        return true;
    room -= 3; /* a blank row, the title, the last row */
    first = count;
    if (count > room || sample->list_more) {
        room--; /* "…" */
        last = room / 2 < count / 2 ? room / 2 : count / 2;
        first = room - last < count - last ? room - last : count - last;
    }
    if (!end_row(frame))
        return false;
    put(frame, CLI_BOLD, "IN DOUBT %s%s", watch_count_text(sample->doubts, text),
        sample->doubts_more ? " or more" : "");
    put(frame, CLI_DIM, "  %s",
        sample->list_text[0] ? sample->list_text
                             : "find out what happened, then: once resolve "
                               "NAMESPACE KEY");
    if (!end_row(frame))
        return false;
    for (size_t i = 0; i < first; i++) {
        if (!put_doubt(frame, sample, &sample->list[i]))
            return false;
    }
    if (first + last < count || sample->list_more) {
        put(frame, CLI_DIM, "  %9s  others between them", "...");
        if (!end_row(frame))
            return false;
    }
    for (size_t i = count - last; i < count; i++) {
        if (!put_doubt(frame, sample, &sample->list[i]))
            return false;
    }
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Each is a row or more, and false ends the screen. */
static void put_screen(struct frame *frame, const struct watch_view *view)
{
    const struct watch_sample *sample = &view->sample;
    bool room = put_head(frame, view) && put_trouble(frame, view);

    if (sample->server)
        room = room && put_rate(frame, view, "calls", calls_of, 0, CLI_GREEN) &&
               put_words(frame, view) && put_rate(frame, view, "errors", errors_of, 0, CLI_RED) &&
               end_row(frame) &&
               put_times(frame, view, "latency", &view->rates.latency, latency_of) &&
               put_times(frame, view, "write time", &view->rates.write, write_of) &&
               put_writes(frame, view) && end_row(frame);
    room = room && put_store(frame, sample) && put_doubts(frame, sample);
    while (room && frame->row + 1 < frame->height)
        room = end_row(frame);
    if (room)
        put(frame, CLI_DIM, "q quits; every %.3g s", (double)view->interval_ms / 1000);
}

/* Does the terminal take UTF-8? The environment says. */
static bool takes_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        if (value && value[0])
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

void watch_draw(const struct watch_view *view, size_t width, size_t height)
{
    static struct frame frame;
    static const char home[] = "\033[H", wipe[] = "\033[K\033[J";
    const char *at = frame.bytes;

    frame.size = frame.row = frame.column = 0;
    frame.width = width;
    frame.height = height;
    frame.style = cli_style_of(stdout);
    frame.utf8 = takes_utf8();
    put_bytes(&frame, home, sizeof(home) - 1);
    put_screen(&frame, view);
    put_bytes(&frame, wipe, sizeof(wipe) - 1);
    while (frame.size > 0) {
        ssize_t written = write(STDOUT_FILENO, at, frame.size);

        if (written < 0 && errno != EINTR)
            return; /* the terminal is gone: a signal or the keys end it */
        if (written > 0) {
            at += written;
            frame.size -= (size_t)written;
        }
    }
}
