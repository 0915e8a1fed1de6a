/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of `once watch` share.
 *
 *     watch_sample.c  asks the server, or looks into the folder: a sample
 *     watch_rates.c   two samples: rates and quantiles; pure
 *     watch_screen.c  draws them, with their past, on a terminal
 *     watch_line.c    prints them, a line or an object each
 *     watch_terminal.c  takes the terminal, and gives it back on every way out
 */
#ifndef ONCE_CLI_WATCH_H
#define ONCE_CLI_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <once/store.h>

#include "cli/reach.h"

enum {
    WATCH_WORDS = ONCE_REJECTED + 1,
    WATCH_BUCKETS = 28,
    WATCH_DOUBTS_MAX = 200, /* doubts that are looked at to find the oldest and the newest */
    WATCH_PAST_MAX = 512    /* samples that a sparkline can show */
};

/* ---- A sample -------------------------------------------------------------------------------- */

struct watch_doubt {
    char ns[ONCE_NAMESPACE_SIZE_MAX + 1];
    char key[ONCE_KEY_SIZE_MAX + 1];
    char owner[ONCE_OWNER_SIZE_MAX + 1];
    char point[ONCE_POINT_SIZE_MAX + 1];
    size_t owner_size, point_size; /* they may hold any bytes */
    uint64_t fence;
    uint32_t attempt;
    once_ms since_ms; /* its lease was over, or given up */
};

struct watch_sample {
    bool server; /* else a folder: counters are not known */
    char version[32];
    char phase[16];
    uint64_t loaded, to_load;
    bool stopped;
    bool shared; /* a store that servers share: it has no disk here */
    uint64_t started_ms, uptime_ms;
    once_ms now_ms;
    uint64_t words[WATCH_WORDS]; /* of all calls */
    uint64_t errors;
    struct once_spread latency_us, write_us;
    uint64_t batches, records;
    uint64_t keys, keys_max, keys_open, doubts, started;
    bool doubts_more;
    uint64_t index_size, memory_size, objects, objects_size;
    uint64_t disk_size, disk_size_max, disk_free, log_size, live_size;
    uint64_t resp, http, parked;

    struct watch_doubt *list; /* the oldest first; sample_release frees it */
    size_t list_count;
    bool list_more;     /* there are others */
    char list_text[96]; /* why there is no list; "" */
};

/* Asks. The reach is open, or was let go of; a folder is let go of again. Otherwise an error, which
 * cli_reach_text explains. The caller releases the sample. */
int watch_sample_take(struct cli_reach *reach, struct watch_sample *ret_sample);
void watch_sample_release(struct watch_sample *sample);
/* Reads the document of a server. False: it is not one. For tests: JSON of anyone. */
bool watch_sample_read(struct once_bytes json, struct watch_sample *ret_sample);

/* ---- Rates ----------------------------------------------------------------------------------- */

/* Microseconds; negative: nothing happened. */
struct watch_times {
    double p50, p99, max;
};

struct watch_rates {
    bool known; /* else there are no two samples of one server */
    once_ms length_ms;
    double calls; /* a second, as the next ones */
    double words[WATCH_WORDS];
    double errors;
    double writes;
    double records;
    struct watch_times latency, write;
};

/* before may be NULL. Counters that run backwards, or of another start, make none known. */
void watch_rates_of(const struct watch_sample *before, const struct watch_sample *after,
                    struct watch_rates *ret_rates);
/* Of so many in each bucket: bucket i has those up to 2^i. Between the bounds of its bucket the
 * value is taken in proportion; of the last bucket, which has no bound, its lower one. Negative:
 * there are none. */
double watch_quantile(const uint64_t buckets[WATCH_BUCKETS], double part);

/* ---- Showing --------------------------------------------------------------------------------- */

enum watch_state { WATCH_LIVE, WATCH_RECONNECTING };

/* Everything that can be shown. */
struct watch_view {
    const char *name; /* the folder or the address */
    enum watch_state state;
    char trouble[256]; /* RECONNECTING: why */
    once_ms silent_ms; /* so long nobody has answered the last question; 0: it was answered */
    bool has_sample;
    struct watch_sample sample;
    struct watch_rates rates;
    once_ms interval_ms;
    /* A ring; past[(past_next - 1) % MAX] is the newest. */
    struct watch_rates past[WATCH_PAST_MAX];
    size_t past_count, past_next;
};

/* The i-th newest; NULL: there is none. */
const struct watch_rates *watch_past(const struct watch_view *view, size_t i);

void watch_print_line(const struct watch_view *view);
void watch_print_json(const struct watch_view *view);
/* The whole screen, in one write. */
void watch_draw(const struct watch_view *view, size_t width, size_t height);

/* "1.2 ms", "3.4 MiB", "12,345"; they return text. */
enum { WATCH_TEXT_SIZE = 32 };
const char *watch_us_text(double us, char text[WATCH_TEXT_SIZE]);
const char *watch_size_text(uint64_t size, char text[WATCH_TEXT_SIZE]);
const char *watch_count_text(uint64_t count, char text[WATCH_TEXT_SIZE]);
const char *watch_rate_text(double rate, char text[WATCH_TEXT_SIZE]);

/* ---- The terminal ---------------------------------------------------------------------------- */

/* Is there one that can be drawn on? */
bool watch_terminal_there(void);
/* Takes it: another screen, no cursor, keys at once. It is given back by leave, at exit, and by
 * every signal that ends the process. */
void watch_terminal_enter(void);
void watch_terminal_leave(void);
void watch_terminal_size(size_t *ret_width, size_t *ret_height);

enum watch_event { WATCH_TICK, WATCH_QUIT, WATCH_REDRAW, WATCH_NEWS };
/* Waits for a key, a change of size, something to read at news_fd (-1: nothing), or until the time
 * (CLOCK_MONOTONIC). */
enum watch_event watch_terminal_wait(int news_fd, once_ms until_ms);

#endif
