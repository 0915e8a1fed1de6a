/* SPDX-License-Identifier: Apache-2.0
 *
 * Load for a RESP server on this machine, where redis-benchmark has none: keys of our choice,
 * whose answers are looked at, and a rate.
 *
 *     bench_load fill  claims --keys new keys as fast as the server takes them
 *     bench_load again claims the same keys; every one must be known
 *     bench_load rate  claims --rate new keys a second for --seconds, and times the answers
 *
 * Fill and rate must find every key new. The rate does not wait for the server: a claim is due
 * at its place in the schedule, and its time counts from there, so that a server that stalls is
 * charged for all whom it kept waiting. Claims go to the connections in turn, behind one
 * another where an earlier one is not answered yet. The first quarter of the time is not
 * counted.
 *
 * Prints one line: "load.MODE key=number …".
 * */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "client.h"
#include "spread.h"

enum { CLIENTS_MAX = 10000, EVENTS_MAX = 256 };
#define SILENCE_NS_MAX 30000000000U
enum mode { FILL, AGAIN, RATE };
static const char *const mode_names[] = {"fill", "again", "rate"};

struct options {
    enum mode mode;
    enum bench_peer peer;
    uint16_t port;
    size_t connections;
    size_t window; /* claims of a connection under way, unless there is a rate */
    uint64_t keys;
    uint64_t seed;
    double rate;
    double seconds;
};

struct load {
    const struct options *options;
    int epoll;
    struct bench_client **clients;
    struct bench_keys keys;
    uint64_t total;
    uint64_t uncounted; /* claims that warm up */
    uint64_t sent;
    uint64_t answered;
    uint64_t began_ns;
    uint64_t read_ns;  /* when the answers that are being told were there */
    uint64_t heard_ns; /* when the server last did something */
    struct bench_spread spread;
};

static uint64_t due_ns(const struct load *load, uint64_t claim)
{
    return load->began_ns + (uint64_t)((double)claim * 1e9 / load->options->rate);
}

static void claim_next(struct load *load, struct bench_client *client, uint64_t due)
{
    struct bench_key key;

    bench_keys_next(&load->keys, &key, 1);
    bench_client_claim(client, &key, due);
    load->sent++;
}

static void told(void *user, uint64_t due, bool known)
{
    struct load *load = user;

    if (known != (load->options->mode == AGAIN))
        bench_die("a key that is %s was told as %s", known ? "new" : "known",
                  known ? "known" : "new");
    load->answered++;
    if (load->options->mode == RATE && due >= due_ns(load, load->uncounted))
        bench_spread_add(&load->spread, load->read_ns - due);
}

/* Everything that is due by now, each to the connection whose turn it is. */
static void send_due(struct load *load)
{
    const size_t count = load->options->connections;
    const uint64_t now = bench_now_ns(), first = load->sent;

    while (load->sent < load->total && due_ns(load, load->sent) <= now) {
        struct bench_client *client = load->clients[load->sent % count];

        if (bench_client_pending(client) == BENCH_CLIENT_CLAIMS_MAX)
            break;
        claim_next(load, client, due_ns(load, load->sent));
    }
    for (uint64_t i = first; i < load->sent && i < first + count; i++)
        bench_client_send(load->clients[i % count]);
}

/* Every connection has as many claims under way as it may. */
static void send_window(struct load *load)
{
    for (size_t i = 0; i < load->options->connections && load->sent < load->total; i++) {
        struct bench_client *client = load->clients[i];
        size_t pending = bench_client_pending(client);

        if (pending * 2 > load->options->window)
            continue;
        for (; pending < load->options->window && load->sent < load->total; pending++)
            claim_next(load, client, 0);
        bench_client_send(client);
    }
}

/* Until something is answered, can be sent, or is due. */
static int wait_events(const struct load *load, struct epoll_event *events)
{
    struct timespec timeout = {.tv_sec = 1};
    int count;

    if (load->options->mode == RATE && load->sent < load->total) {
        uint64_t now = bench_now_ns(), due = due_ns(load, load->sent);
        uint64_t left = due > now ? due - now : 0;

        timeout = (struct timespec){(time_t)(left / 1000000000), (long)(left % 1000000000)};
    }
    count = epoll_pwait2(load->epoll, events, EVENTS_MAX, &timeout, NULL);
    if (count < 0 && errno != EINTR)
        bench_die("epoll: %s", strerror(errno));
    return count < 0 ? 0 : count;
}

static void run(struct load *load)
{
    struct epoll_event events[EVENTS_MAX];

    load->began_ns = load->heard_ns = bench_now_ns();
    while (load->answered < load->total) {
        int count;

        if (load->options->mode == RATE)
            send_due(load);
        else
            send_window(load);
        count = wait_events(load, events);
        load->read_ns = bench_now_ns();
        if (count > 0 || load->answered == load->sent)
            load->heard_ns = load->read_ns;
        if (load->read_ns - load->heard_ns > SILENCE_NS_MAX)
            bench_die("no answer for %u s", (unsigned)(SILENCE_NS_MAX / 1000000000U));
        for (int i = 0; i < count; i++)
            bench_client_serve(events[i].data.ptr, events[i].events, told, load);
    }
}

static void report(const struct load *load)
{
    const struct bench_spread *spread = &load->spread;
    double seconds = (double)(bench_now_ns() - load->began_ns) / 1e9;

    printf("load.%s rate=%.0f keys=%llu", mode_names[load->options->mode],
           (double)load->answered / seconds, (unsigned long long)load->answered);
    if (load->options->mode == RATE)
        printf(" p50_us=%.1f p99_us=%.1f p999_us=%.1f max_us=%.1f",
               (double)bench_spread_at(spread, 0.5) / 1e3,
               (double)bench_spread_at(spread, 0.99) / 1e3,
               (double)bench_spread_at(spread, 0.999) / 1e3, (double)spread->max / 1e3);
    putchar('\n');
}

static _Noreturn void usage(void)
{
    fputs("usage: bench_load fill|again|rate --peer once|redis --port PORT [--connections N] "
          "[--seed N]\n"
          "                  [--keys N] [--window N] [--rate N] [--seconds N]\n",
          stderr);
    exit(2);
}

static enum bench_peer peer_of(const char *name)
{
    if (strcmp(name, "once") == 0)
        return BENCH_PEER_ONCE;
    if (strcmp(name, "redis") == 0)
        return BENCH_PEER_REDIS;
    usage();
}

static void read_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"peer", required_argument, NULL, 'p'},
        {"port", required_argument, NULL, 'P'},
        {"keys", required_argument, NULL, 'k'},
        {"connections", required_argument, NULL, 'c'},
        {"window", required_argument, NULL, 'w'},
        {"seed", required_argument, NULL, 's'},
        {"rate", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 't'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
        if (option == 'p')
            options->peer = peer_of(optarg);
        else if (option == 'P')
            options->port = (uint16_t)bench_number("--port", optarg, 1, UINT16_MAX);
        else if (option == 'k')
            options->keys = (uint64_t)bench_number("--keys", optarg, 1, 1e9);
        else if (option == 'c')
            options->connections = (size_t)bench_number("--connections", optarg, 1, CLIENTS_MAX);
        else if (option == 'w')
            options->window = (size_t)bench_number("--window", optarg, 1, BENCH_CLIENT_CLAIMS_MAX);
        else if (option == 's')
            options->seed = (uint64_t)bench_number("--seed", optarg, 0, 1e15);
        else if (option == 'r')
            options->rate = bench_number("--rate", optarg, 1, 1e8);
        else if (option == 't')
            options->seconds = bench_number("--seconds", optarg, 0.01, 86400);
        else
            usage();
    }
    if (optind != argc - 1 || options->port == 0)
        usage();
    for (options->mode = FILL; strcmp(argv[optind], mode_names[options->mode]) != 0;
         options->mode++) {
        if (options->mode == RATE)
            usage();
    }
}

int main(int argc, char **argv)
{
    struct options options = {
        .connections = 50, .window = 64, .keys = 1000, .seed = 1, .rate = 1000, .seconds = 1};
    struct load load = {.options = &options};

    read_options(argc, argv, &options);
    load.total = options.mode == RATE ? (uint64_t)ceil(options.rate * options.seconds)
                                      : options.keys;
    load.uncounted = load.total / 4;
    bench_keys_init(&load.keys, BENCH_UUID4, options.seed, 0);
    /* What is due soon shall not be woken for in a batch. */
    if (prctl(PR_SET_TIMERSLACK, 1000UL) != 0)
        bench_die("prctl: %s", strerror(errno));
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (load.epoll < 0)
        bench_die("epoll: %s", strerror(errno));
    load.clients = bench_alloc(options.connections, sizeof *load.clients);
    for (size_t i = 0; i < options.connections; i++)
        load.clients[i] = bench_client_open(load.epoll, options.port, options.peer);
    run(&load);
    report(&load);
    for (size_t i = 0; i < options.connections; i++)
        bench_client_close(load.clients[i]);
    free(load.clients);
    close(load.epoll);
    return 0;
}
