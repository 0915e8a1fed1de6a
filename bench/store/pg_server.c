/* SPDX-License-Identifier: Apache-2.0
 *
 * See pg_server.h. Settings are the server's own, which are durable (fsync and synchronous_commit
 * on, and it is asked whether they are), but for memory, which is given generously, and for room in
 * the log, so that no checkpoint, with the full pages that follow one, falls into a run.
 */
#include "pg_server.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum { START_MS_MAX = 60000, STEP_MS = 20 };

struct bench_pg {
    pid_t pid; /* 0: not running */
    char *sockets;
    char *address;
    char *data;
    char *log;
    const struct passwd *user; /* NULL: our own */
};

/* The one that must be stopped when we die. */
static struct bench_pg *running;
static pid_t owner;

/* Whom root asks to run it. */
static const struct passwd *other_user(void)
{
    const struct passwd *user;

    if (geteuid() != 0)
        return NULL;
    user = getpwnam("postgres");
    if (!user)
        user = getpwnam("nobody");
    if (!user)
        bench_die("postgres: root may not run it, and there is no user postgres or nobody");
    return user;
}

/* Runs in the child. Its output goes to a file, which is told when something fails. */
static _Noreturn void become(const struct bench_pg *pg, char *const *words)
{
    int log = open(pg->log, O_WRONLY | O_CREAT | O_APPEND, 0600),
        null = open("/dev/null", O_RDONLY);

    if (log < 0 || null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        _exit(126);
    if (pg->user &&
        (setgroups(0, NULL) != 0 || setgid(pg->user->pw_gid) != 0 || setuid(pg->user->pw_uid) != 0))
        _exit(126);
    /* A benchmark that is killed leaves no server behind. */
    if (chdir("/") != 0 || prctl(PR_SET_PDEATHSIG, SIGINT) != 0)
        _exit(126);
    execv(words[0], words);
    _exit(127);
}

static pid_t start(const struct bench_pg *pg, char *const *words)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0)
        become(pg, words);
    return pid;
}

static _Noreturn void die_with_log(const struct bench_pg *pg, const char *what)
{
    FILE *log = fopen(pg->log, "re");
    char line[512];

    while (log && fgets(line, sizeof line, log))
        fputs(line, stderr);
    bench_die("postgres: %s", what);
}

static char *word(const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        bench_die("out of memory");
    return copy;
}

static void make_cluster(const struct bench_pg *pg)
{
    char *words[] = {word(BENCH_PG_BIN "/initdb"), word("--pgdata"),     pg->data,
                     word("--username=bench"),     word("--auth=trust"), word("--encoding=UTF8"),
                     word("--locale=C"),           word("--no-sync"),    NULL};
    int status;
    pid_t pid = start(pg, words);

    if (waitpid(pid, &status, 0) != pid || status != 0)
        die_with_log(pg, "initdb failed (" BENCH_PG_BIN ")");
    for (size_t i = 0; words[i]; i++) {
        if (words[i] != pg->data)
            free(words[i]);
    }
}

static void wait_until_ready(struct bench_pg *pg)
{
    int status;

    for (int ms = 0; ms < START_MS_MAX; ms += STEP_MS) {
        if (PQping(pg->address) == PQPING_OK) /* the database need not be there */
            return;
        if (waitpid(pg->pid, &status, WNOHANG) == pg->pid) {
            pg->pid = 0;
            break;
        }
        bench_sleep_ms(STEP_MS);
    }
    die_with_log(pg, "the server did not start");
}

static void stop_running(void)
{
    pid_t pid = running && getpid() == owner ? running->pid : 0;
    int status = -1;

    if (pid == 0)
        return;
    running->pid = 0;
    kill(pid, SIGINT); /* "fast": ends connections, then stops */
    if (waitpid(pid, &status, 0) != pid || status != 0)
        fprintf(stderr, "bench: postgres stopped with %d\n", status);
}

static void start_server(struct bench_pg *pg)
{
    char *socket_option = NULL;
    char *words[] = {word(BENCH_PG_BIN "/postgres"),
                     word("-D"),
                     pg->data,
                     word("-clisten_addresses="),
                     NULL, /* where the socket is */
                     word("-cmax_connections=200"),
                     word("-cshared_buffers=512MB"),
                     word("-cmax_wal_size=16GB"),
                     word("-cmin_wal_size=2GB"),
                     NULL};
    const size_t socket_word = 4;

    if (asprintf(&socket_option, "-cunix_socket_directories=%s", pg->sockets) < 0)
        bench_die("out of memory");
    words[socket_word] = socket_option;
    if (running)
        bench_die("postgres: one server at a time");
    owner = getpid();
    running = pg;
    if (atexit(stop_running) != 0)
        bench_die("out of memory");
    pg->pid = start(pg, words);
    wait_until_ready(pg);
    for (size_t i = 0; words[i]; i++) {
        if (words[i] != pg->data)
            free(words[i]);
    }
}

/* A folder that the server's user owns, or can pass through. */
static void hand_over(const struct bench_pg *pg, const char *folder, bool owned)
{
    if (pg->user &&
        (owned ? chown(folder, pg->user->pw_uid, pg->user->pw_gid) : chmod(folder, 0711)) != 0)
        bench_die("%s: %s", folder, strerror(errno));
}

struct bench_pg *bench_pg_start(const char *folder)
{
    struct bench_pg *pg = bench_alloc(1, sizeof *pg);

    pg->user = other_user();
    pg->data = bench_path(folder, "cluster");
    pg->log = bench_path(folder, "server.log");
    /* The path of a Unix socket has at most 107 bytes, so it does not go below folder. */
    pg->sockets = bench_scratch_make("/tmp");
    if (asprintf(&pg->address, "host=%s user=bench", pg->sockets) < 0)
        bench_die("out of memory");
    if (mkdir(pg->data, 0700) != 0)
        bench_die("%s: %s", pg->data, strerror(errno));
    hand_over(pg, folder, false);
    hand_over(pg, pg->data, true);
    hand_over(pg, pg->sockets, true);
    make_cluster(pg);
    start_server(pg);
    return pg;
}

const char *bench_pg_address(const struct bench_pg *pg)
{
    return pg->address;
}

void bench_pg_stop(struct bench_pg *pg)
{
    stop_running();
    running = NULL;
    bench_scratch_remove(pg->sockets);
    free(pg->sockets);
    free(pg->address);
    free(pg->data);
    free(pg->log);
    free(pg);
}
