/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the server's log. A line is made whole and written in one piece, under the lock, so
 * lines never mix. Text from outside is escaped: no line can forge another, or steer a terminal.
 *
 * What cannot be written is lost: a log that holds up a server would be worse. A pipe that nobody
 * reads is given a moment, once; what is lost until it is read again is counted, and told then.
 */
#include "server/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_MAX = 64, LINE_SIZE_MAX = 1 << 16, STAMP_SIZE = 32, FULL_WAIT_MS = 100 };

/* How often an event was written in this second. */
struct event {
    char name[32];
    time_t second;
    unsigned written;
    uint64_t left_out;
};

struct once__log {
    pthread_mutex_t lock;
    int fd;
    bool own_fd;
    bool json;
    enum once__log_level level;
    struct event events[EVENTS_MAX];
    size_t event_count;
    uint64_t lost; /* lines, since one was written */
    bool torn;     /* the last line that was written lacks its end */
};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static int open_target(const struct once__config *config, int *ret_fd, bool *ret_own,
                       int *ret_errno)
{
    int fd;

    if (!config->log_file) {
        *ret_fd = STDERR_FILENO;
        *ret_own = false;
        return ONCE_OK;
    }
    /* A pipe without a reader is an error, and nothing to wait for. */
    fd = open(config->log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
              0600);
    if (fd < 0) {
        *ret_errno = errno;
        return ONCE_ERR_IO;
    }
    *ret_fd = fd;
    *ret_own = true;
    return ONCE_OK;
}

int once__log_new(const struct once__config *config, struct once__log **ret_log, int *ret_errno)
{
    struct once__log *log = calloc(1, sizeof(*log));
    int err;

    *ret_errno = ENOMEM;
    if (!log)
        return ONCE_ERR_MEMORY;
    err = open_target(config, &log->fd, &log->own_fd, ret_errno);
    if (err == ONCE_OK && pthread_mutex_init(&log->lock, NULL) != 0) {
        if (log->own_fd)
            (void)close(log->fd);
        err = ONCE_ERR_MEMORY;
    }
    if (err != ONCE_OK) {
        free(log);
        return err;
    }
    log->json = config->log_json;
    log->level = config->log_level;
    *ret_log = log;
    return ONCE_OK;
}

int once__log_reopen(struct once__log *log, const struct once__config *config)
{
    int fd, error;
    bool own;
    int err = open_target(config, &fd, &own, &error);

    if (err != ONCE_OK) {
        errno = error;
        return err;
    }
    (void)pthread_mutex_lock(&log->lock);
    if (log->own_fd)
        (void)close(log->fd);
    log->fd = fd;
    log->own_fd = own;
    log->torn = false;
    log->json = config->log_json;
    log->level = config->log_level;
    (void)pthread_mutex_unlock(&log->lock);
    return ONCE_OK;
}

/* ---- A line ---------------------------------------------------------------------------------- */

/* A line under way; like once__out it remembers that it failed, and nobody checks each piece. */
struct line {
    struct once_buf buf;
    bool json;
    bool failed;
};

static void put(struct line *line, const void *data, size_t size)
{
    if (!line->failed && once_buf_append(&line->buf, data, size) != ONCE_OK)
        line->failed = true;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* Printable ASCII as it is, everything else as \xNN (in JSON \\xNN): the same in both forms. */
static void put_quoted(struct line *line, struct once_bytes bytes)
{
    size_t size = bytes.size < ONCE_LOG_FIELD_SIZE_MAX ? bytes.size : ONCE_LOG_FIELD_SIZE_MAX;

    put_text(line, "\"");
    for (size_t i = 0; i < size; i++) {
        uint8_t c = bytes.data[i];
        char escaped[8];

        if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
            put(line, escaped, 2);
        } else if (c >= 0x20 && c < 0x7f) {
            put(line, &c, 1);
        } else {
            snprintf(escaped, sizeof(escaped), line->json ? "\\\\x%02x" : "\\x%02x", c);
            put_text(line, escaped);
        }
    }
    put_text(line, size < bytes.size ? "...\"" : "\"");
}

static void put_name(struct line *line, const char *name)
{
    if (!line->json) {
        put_text(line, " ");
        put_text(line, name);
        put_text(line, "=");
        return;
    }
    put_text(line, ",\"");
    put_text(line, name);
    put_text(line, "\":");
}

static void put_field(struct line *line, const struct once__field *field)
{
    char number[32];

    put_name(line, field->name);
    if (field->text) {
        put_quoted(line, once_bytes_of(field->text));
    } else if (field->bytes.data) {
        put_quoted(line, field->bytes);
    } else {
        snprintf(number, sizeof(number), "%lld", (long long)field->number);
        put_text(line, number);
    }
}

static void put_head(struct line *line, const struct timespec *now, const char *level,
                     const char *event)
{
    char stamp[STAMP_SIZE], text[STAMP_SIZE + 8];
    struct tm tm;

    (void)gmtime_r(&now->tv_sec, &tm);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, sizeof(text), "%s.%03uZ", stamp, (unsigned)(now->tv_nsec / 1000000) % 1000U);
    if (!line->json) {
        put_text(line, text);
        put_text(line, " ");
        put_text(line, level);
        put_text(line, " ");
        put_text(line, event);
        return;
    }
    put_text(line, "{\"time\":\"");
    put_text(line, text);
    put_text(line, "\",\"level\":\"");
    put_text(line, level);
    put_text(line, "\",\"event\":\"");
    put_text(line, event);
    put_text(line, "\"");
}

static void line_begin(struct line *line, bool json)
{
    once_buf_init(&line->buf, LINE_SIZE_MAX);
    line->json = json;
    line->failed = false;
}

/* Standard error belongs to others too and may block, so it is asked before each piece: who is
 * ready takes PIPE_BUF bytes. The lock is held. */
static bool write_all(struct once__log *log, const uint8_t *data, size_t size)
{
    size_t done = 0;

    while (done < size) {
        struct pollfd target = {.fd = log->fd, .events = POLLOUT};
        size_t piece = size - done < PIPE_BUF ? size - done : PIPE_BUF;
        ssize_t wrote = -1;

        if (poll(&target, 1, log->lost > 0 ? 0 : FULL_WAIT_MS) == 1)
            wrote = write(log->fd, data + done, piece);
        else
            errno = EAGAIN;
        if (wrote < 0 && errno != EINTR)
            break;
        if (wrote > 0)
            done += (size_t)wrote;
    }
    if (done > 0)
        log->torn = done < size;
    return done == size;
}

static bool line_write(struct once__log *log, const struct line *line)
{
    return !line->failed && (!log->torn || write_all(log, (const uint8_t *)"\n", 1)) &&
           write_all(log, line->buf.data, line->buf.size);
}

/* The lock is held. */
static void tell_lost(struct once__log *log)
{
    struct timespec now;
    struct line line;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    line_begin(&line, log->json);
    put_head(&line, &now, "warn", "left_out");
    put_field(&line, &(struct once__field){"of", .text = "log"});
    put_field(&line, &(struct once__field){"lines", .number = (int64_t)log->lost});
    put_text(&line, line.json ? "}\n" : "\n");
    if (line_write(log, &line))
        log->lost = 0;
    once_buf_release(&line.buf);
}

/* The lock is held. */
static void line_end(struct once__log *log, struct line *line)
{
    put_text(line, line->json ? "}\n" : "\n");
    if (log->lost > 0)
        tell_lost(log);
    if (log->lost > 0 || !line_write(log, line))
        log->lost++;
    once_buf_release(&line->buf);
}

/* ---- How often ------------------------------------------------------------------------------- */

/* The lock is held. NULL: more kinds of events than there are places; those are not counted. */
static struct event *event_of(struct once__log *log, const char *name)
{
    for (size_t i = 0; i < log->event_count; i++) {
        if (strncmp(log->events[i].name, name, sizeof(log->events[i].name) - 1) == 0)
            return &log->events[i];
    }
    if (log->event_count == EVENTS_MAX)
        return NULL;
    snprintf(log->events[log->event_count].name, sizeof(log->events[0].name), "%s", name);
    return &log->events[log->event_count++];
}

static void tell_left_out(struct once__log *log, struct event *event, const struct timespec *now)
{
    struct line line;

    if (event->left_out == 0)
        return;
    line_begin(&line, log->json);
    put_head(&line, now, "warn", "left_out");
    put_field(&line, &(struct once__field){"of", .text = event->name});
    put_field(&line, &(struct once__field){"lines", .number = (int64_t)event->left_out});
    line_end(log, &line);
    event->left_out = 0;
}

/* May one more line of this event be written? The lock is held. */
static bool admit(struct once__log *log, const char *name, const struct timespec *now)
{
    struct event *event = event_of(log, name);

    if (!event)
        return true;
    if (event->second != now->tv_sec) {
        event->second = now->tv_sec;
        event->written = 0;
        tell_left_out(log, event, now);
    }
    if (event->written == ONCE_LOG_RATE_MAX) {
        event->left_out++;
        return false;
    }
    event->written++;
    return true;
}

/* ---- Events ---------------------------------------------------------------------------------- */

void once__log_event(struct once__log *log, enum once__log_level level, const char *event,
                     const struct once__field *fields)
{
    struct timespec now;
    struct line line;

    if (!log)
        return;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)pthread_mutex_lock(&log->lock);
    if (level <= log->level && admit(log, event, &now)) {
        line_begin(&line, log->json);
        put_head(&line, &now, level_names[level], event);
        for (; fields && fields->name; fields++)
            put_field(&line, fields);
        line_end(log, &line);
    }
    (void)pthread_mutex_unlock(&log->lock);
}

void once__log_audit(struct once__log *log, const char *who, const char *from, const char *what,
                     const struct once__field *fields)
{
    struct timespec now;
    struct line line;

    if (!log)
        return;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)pthread_mutex_lock(&log->lock);
    line_begin(&line, log->json);
    put_head(&line, &now, "info", "audit");
    put_field(&line, &(struct once__field){"who", .text = who ? who : ""});
    put_field(&line, &(struct once__field){"from", .text = from ? from : ""});
    put_field(&line, &(struct once__field){"what", .text = what});
    for (; fields && fields->name; fields++)
        put_field(&line, fields);
    line_end(log, &line);
    (void)pthread_mutex_unlock(&log->lock);
}

void once__log_free(struct once__log *log)
{
    struct timespec now;

    if (!log)
        return;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < log->event_count; i++)
        tell_left_out(log, &log->events[i], &now);
    if (log->own_fd)
        (void)close(log->fd);
    (void)pthread_mutex_destroy(&log->lock);
    free(log);
}
