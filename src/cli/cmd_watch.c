/* SPDX-License-Identifier: Apache-2.0
 *
 * once watch: what happens now, again and again. On a terminal a screen of its own; elsewhere a
 * line, or a JSON object, each interval.
 *
 * The first sample must be had, so that a wrong address is noticed; afterwards a server that is
 * gone is waited for, and whoever owns the folder then is asked.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/folder.h"
#include "cli/options.h"
#include "cli/reach_server.h"
#include "cli/watch.h"

static const char watch_help[] =
    "usage: once watch [--dir DIR | --server ADDR] [--interval TIME] [--count N] [--json]\n"
    "\n"
    "Shows what happens now: calls by verdict, errors, how long calls and durable writes take,\n"
    "keys, doubts, memory, disk, connections, with their last minutes. Rates are what the server\n"
    "has counted; a folder that no server owns is opened for a moment each time and shows what it\n"
    "holds. When a server goes away, watch waits for it.\n"
    "\n"
    "On a terminal it has a screen of its own; q ends it. Elsewhere it prints a line each time.\n"
    "\n"
    "  once watch\n"
    "  once watch --json --count 1\n"
    "\n" CLI_HELP_DIR CLI_HELP_SERVER
    "  --interval TIME  between two looks, such as 500ms or 10s (default: 1s)\n"
    "  --count N  end after so many\n"
    "  --json     one JSON object a line\n"
    "\n"
    "exit status: 0 done; 64 usage; 66 there is no store; 69 it is in use, or nobody answers; "
    "77 not\n"
    "allowed.\n";

enum {
    INTERVAL_MS_DEFAULT = 1000,
    INTERVAL_MS_MIN = 250, /* a server makes a new document no sooner */
    INTERVAL_MS_MAX = 3600000,
    PATIENCE_MS = 500,
    SILENT_MS = 2000 /* a server that takes longer to answer is worth a word */
};
_Static_assert(ONCE_STATS_MS == INTERVAL_MS_MIN, "the comment above");

enum { OPTION_DIR, OPTION_SERVER, OPTION_INTERVAL, OPTION_COUNT, OPTION_JSON };
static const struct cli_option watch_options[] = {
    {"--dir", "DIR", OPTION_DIR},
    {"--server", "ADDR", OPTION_SERVER},
    {"--interval", "TIME", OPTION_INTERVAL},
    {"--count", "N", OPTION_COUNT},
    {"--json", NULL, OPTION_JSON},
};

struct watch {
    struct cli_where where;
    once_ms interval_ms;
    uint64_t count; /* 0: without end */
    bool json;
    struct cli_reach reach;
    struct watch_view view;

    /* Of a screen: a look that is under way. The thread has the reach and what follows. */
    bool asking;
    once_ms asked_ms;
    pthread_t asker;
    int news_fd; /* the thread is done */
    int taken_err;
    struct watch_sample taken;
};

static int read_args(struct watch *watch, int argc, char **argv)
{
    struct cli_args args = CLI_ARGS(&cli_watch, watch_options, argc, argv);
    const char *value = NULL;
    int id;

    while ((id = cli_args_next(&args, &value)) != CLI_ARG_END) {
        switch (id) {
        case OPTION_DIR:
            watch->where.dir = value;
            break;
        case OPTION_SERVER:
            watch->where.server = value;
            break;
        case OPTION_INTERVAL:
            if (!cli_duration(value, INTERVAL_MS_MAX, &watch->interval_ms) ||
                watch->interval_ms < INTERVAL_MS_MIN)
                return cli_usage(&cli_watch, "--interval is a time from 250ms to 1h, such as 1s");
            break;
        case OPTION_COUNT:
            if (!cli_number(value, 1, UINT32_MAX, &watch->count))
                return cli_usage(&cli_watch, "--count is a number from 1 to %u", UINT32_MAX);
            break;
        case OPTION_JSON:
            watch->json = true;
            break;
        case CLI_ARG_VALUE:
            return cli_usage(&cli_watch, "watch takes no argument besides its options");
        default:
            return CLI_USAGE;
        }
    }
    return CLI_OK;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static void remember(struct watch_view *view)
{
    view->past[view->past_next] = view->rates;
    view->past_next = (view->past_next + 1) % WATCH_PAST_MAX;
    if (view->past_count < WATCH_PAST_MAX)
        view->past_count++;
}

/* The next sample, or the reason why there is none. */
static void digest(struct watch *watch, int err, const struct watch_sample *sample)
{
    struct watch_view *view = &watch->view;

    view->silent_ms = 0;
    if (err != ONCE_OK) {
        view->state = WATCH_RECONNECTING;
        snprintf(view->trouble, sizeof(view->trouble), "%s", cli_reach_text(&watch->reach, err));
        view->rates = (struct watch_rates){.known = false};
        remember(view);
        return;
    }
    view->state = WATCH_LIVE;
    /* A document that was shown already changes nothing. */
    if (!view->has_sample || !sample->server || !view->sample.server ||
        sample->started_ms != view->sample.started_ms ||
        sample->uptime_ms != view->sample.uptime_ms) {
        watch_rates_of(view->has_sample ? &view->sample : NULL, sample, &view->rates);
        if (view->has_sample)
            remember(view);
    }
    watch_sample_release(&view->sample);
    view->sample = *sample;
    view->has_sample = true;
}

static int look(struct watch *watch)
{
    struct watch_sample sample;
    int err = watch_sample_take(&watch->reach, &sample);

    digest(watch, err, &sample);
    return err;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static void print(const struct watch *watch)
{
    if (watch->json)
        watch_print_json(&watch->view);
    else
        watch_print_line(&watch->view);
    (void)fflush(stdout); /* each line is wanted when it is printed */
}

/* When the next look is due, by a rhythm that a late one does not hurry. */
static once_ms next_time(const struct watch *watch, once_ms last_ms)
{
    once_ms now_ms = reach_now_ms();

    return (last_ms + watch->interval_ms > now_ms ? last_ms : now_ms) + watch->interval_ms;
}

static void run_lines(struct watch *watch)
{
    uint64_t shown = 0;
    once_ms next_ms = reach_now_ms();

    /* Rates need two samples; a folder has something to show before. */
    if (!watch->view.sample.server) {
        print(watch);
        shown = 1;
    }
    while ((watch->count == 0 || shown < watch->count) && !ferror(stdout)) {
        next_ms = next_time(watch, next_ms);
        while (reach_now_ms() < next_ms)
            reach_sleep(next_ms - reach_now_ms(), 0);
        (void)look(watch);
        print(watch);
        shown++;
    }
}

/* ---- A screen -------------------------------------------------------------------------------- */

/* A server may take long to answer, or never do; keys and sizes do not wait for it. So each look is
 * taken on a thread, one at a time. */
static void *take_beside(void *user)
{
    struct watch *watch = user;
    uint64_t one = 1;

    watch->taken_err = watch_sample_take(&watch->reach, &watch->taken);
    while (write(watch->news_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
    return NULL;
}

static void ask(struct watch *watch)
{
    sigset_t all, before;

    /* Signals are the main thread's: they end its waiting. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    watch->asking = pthread_create(&watch->asker, NULL, take_beside, watch) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    watch->asked_ms = reach_now_ms();
    if (!watch->asking)
        (void)look(watch);
}

static void take_news(struct watch *watch)
{
    uint64_t count;

    if (read(watch->news_fd, &count, sizeof(count)) < 0 || !watch->asking)
        return;
    (void)pthread_join(watch->asker, NULL);
    watch->asking = false;
    digest(watch, watch->taken_err, &watch->taken);
}

static void draw(struct watch *watch)
{
    size_t width, height;
    once_ms silent_ms = watch->asking ? reach_now_ms() - watch->asked_ms : 0;

    watch->view.silent_ms = silent_ms >= SILENT_MS ? silent_ms : 0;
    watch_terminal_size(&width, &height);
    watch_draw(&watch->view, width, height);
}

/* Until the count is reached, or someone wants no more. */
static void run_screen(struct watch *watch)
{
    uint64_t shown = 1;
    once_ms next_ms = reach_now_ms() + watch->interval_ms;

    draw(watch);
    while (watch->count == 0 || shown < watch->count) {
        switch (watch_terminal_wait(watch->news_fd, next_ms)) {
        case WATCH_QUIT:
            return;
        case WATCH_NEWS:
            take_news(watch);
            shown++;
            break;
        case WATCH_TICK:
            next_ms = next_time(watch, next_ms);
            if (!watch->asking)
                ask(watch);
            if (watch->asking && reach_now_ms() - watch->asked_ms < SILENT_MS)
                continue; /* what comes is drawn then */
            break;
        case WATCH_REDRAW:
            break;
        }
        draw(watch);
    }
}

static int watch_screen(struct watch *watch)
{
    watch->news_fd = eventfd(0, EFD_CLOEXEC);
    if (watch->news_fd < 0)
        return cli_error(&cli_watch, CLI_INTERNAL, "%s", strerror(errno));
    watch_terminal_enter();
    run_screen(watch);
    watch_terminal_leave();
    if (watch->asking && !watch->view.sample.server)
        take_news(watch); /* it holds the folder, for a moment only */
    if (!watch->asking)
        (void)close(watch->news_fd);
    return CLI_OK;
}

static int watch_run(int argc, char **argv)
{
    static struct watch watch; /* its past is large, and a thread may outlive this call */
    bool screen;
    int status, err;

    watch = (struct watch){.interval_ms = INTERVAL_MS_DEFAULT};
    status = read_args(&watch, argc, argv);
    if (status != CLI_OK)
        return status;
    screen = !watch.json && watch_terminal_there();
    status = cli_reach_open(&cli_watch, &watch.where, false, &watch.reach);
    if (status != CLI_OK)
        return status;
    watch.view.name = watch.reach.name;
    watch.view.interval_ms = watch.interval_ms;
    watch.reach.patience_ms = PATIENCE_MS;
    err = look(&watch);
    if (err != ONCE_OK)
        status = cli_error(&cli_watch, cli_store_status(err), "%s",
                           cli_reach_text(&watch.reach, err));
    else if (screen)
        status = watch_screen(&watch);
    else
        run_lines(&watch);
    if (watch.asking)
        return status; /* nobody answers: the thread that waits for it ends with the process */
    watch_sample_release(&watch.view.sample);
    return cli_reach_close(&cli_watch, &watch.reach, status);
}

const struct cli_command cli_watch = {
    .name = "watch",
    .summary = "what happens now: rates, verdicts, doubts, latency",
    .help = watch_help,
    .run = watch_run,
    .options = watch_options,
    .option_count = sizeof(watch_options) / sizeof(watch_options[0]),
};
