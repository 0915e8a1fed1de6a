/* SPDX-License-Identifier: Apache-2.0
 *
 * The command's process, and signals on their way to it.
 *
 * The command gets the mask and the dispositions that we inherited, our standard input, and nothing
 * else of ours: every descriptor closes on exec. It stays in our process group, so the terminal's
 * signals reach it by themselves; what a process sent to us is passed on. If we are killed, it is
 * killed too: nobody would record what it does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run.h"

static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                                SIGUSR2, SIGALRM, SIGTSTP, SIGCONT, SIGWINCH};
static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

enum { READ = 0, WRITE = 1 };

/* ---- Signals --------------------------------------------------------------------------------- */

int run_signals_take(pthread_mutex_t *at_store, struct run_signals *ret_signals)
{
    struct run_signals signals = {.at_store = at_store, .fd = -1};
    struct sigaction plain = {.sa_handler = SIG_DFL}, ignore = {.sa_handler = SIG_IGN};
    sigset_t ours;

    sigemptyset(&ours);
    sigaddset(&ours, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        sigaddset(&ours, passed_on[i]);
    signals.fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals.fd < 0)
        return ONCE_ERR_IO;
    /* Who ignores SIGCHLD is not told how a child ended; a reader that is gone is no reason to
     * die. */
    (void)sigaction(SIGCHLD, &plain, &signals.child_action);
    (void)sigaction(SIGPIPE, &ignore, &signals.pipe_action);
    (void)sigprocmask(SIG_BLOCK, &ours, &signals.mask);
    *ret_signals = signals;
    return ONCE_OK;
}

void run_signals_breathe(const struct run_signals *signals)
{
    sigset_t blocked;

    (void)sigprocmask(SIG_SETMASK, &signals->mask, &blocked);
    (void)sigprocmask(SIG_SETMASK, &blocked, NULL);
}

bool run_signals_ending(void)
{
    sigset_t pending;
    struct sigaction action;

    if (sigpending(&pending) != 0)
        return false;
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
        if (sigismember(&pending, ending[i]) == 1 && sigaction(ending[i], NULL, &action) == 0 &&
            action.sa_handler != SIG_IGN)
            return true;
    }
    return false;
}

/* Ctrl-Z: the shell waits until we stop. Not where nobody could continue us (an orphaned group),
 * and not while a renewal has the folder, which would keep everyone out until we go on. */
static void stop_here(pthread_mutex_t *at_store)
{
    sigset_t stop, old;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    (void)pthread_mutex_lock(at_store);
    (void)raise(SIGTSTP);
    (void)sigprocmask(SIG_UNBLOCK, &stop, &old);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    (void)pthread_mutex_unlock(at_store);
}

static void reap(struct run_child *child)
{
    pid_t pid;

    if (child->ended || child->pid <= 0)
        return;
    do
        pid = waitpid(child->pid, &child->wait_status, WNOHANG);
    while (pid < 0 && errno == EINTR);
    child->ended = pid == child->pid;
}

void run_signals_read(const struct run_signals *signals, struct run_child *child)
{
    struct signalfd_siginfo info;

    while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int number = (int)info.ssi_signo;

        if (number == SIGCHLD) {
            reap(child);
            continue;
        }
        /* The terminal's went to the whole group; and a pid is nobody's once it was reaped. */
        if ((info.ssi_code == SI_USER || info.ssi_code == SI_QUEUE) && child->pid > 0 &&
            !child->ended)
            (void)kill(child->pid, number);
        if (number == SIGTSTP && !child->ended)
            stop_here(signals->at_store);
    }
}

/* ---- The child ------------------------------------------------------------------------------- */

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            (void)close(pair[i]);
        pair[i] = -1;
    }
}

/* In the child. Nothing is written to the terminal here: the parent tells. The clock is looked
 * at as late as can be: whoever was held up until after the lease may not be the only one any
 * more. */
__attribute__((noreturn)) static void become(const struct run_start *start, pid_t parent, int out,
                                             int err, int told)
{
    const struct run_signals *signals = start->signals;
    int error;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(CLI_INTERNAL); /* it was killed before the line above */
    if (dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0) {
        (void)sigaction(SIGCHLD, &signals->child_action, NULL);
        (void)sigaction(SIGPIPE, &signals->pipe_action, NULL);
        (void)sigprocmask(SIG_SETMASK, &signals->mask, NULL);
        errno = RUN_LATE;
        if (run_clock_ms() < start->until_ms)
            (void)execvp(start->command[0], start->command);
    }
    error = errno;
    (void)!write(told, &error, sizeof(error));
    _exit(CLI_INTERNAL);
}

/* Waits until the command has begun (the pipe closes on exec) or could not. Its errno, or 0. */
static int hear(int told)
{
    int error = 0;
    ssize_t size;

    do
        size = read(told, &error, sizeof(error));
    while (size < 0 && errno == EINTR);
    return size == (ssize_t)sizeof(error) ? error : 0;
}

int run_child_start(const struct run_start *start, struct run_child *ret_child)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, told[2] = {-1, -1}, error = 0;
    pid_t parent = getpid(), pid;

    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 || pipe2(told, O_CLOEXEC) != 0) {
        error = errno;
        goto out;
    }
    pid = fork();
    if (pid < 0) {
        error = errno;
        goto out;
    }
    if (pid == 0)
        become(start, parent, out[WRITE], err[WRITE], told[WRITE]);
    (void)close(told[WRITE]);
    told[WRITE] = -1;
    error = hear(told[READ]);
    if (error != 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        goto out;
    }
    (void)fcntl(out[READ], F_SETFL, O_NONBLOCK);
    (void)fcntl(err[READ], F_SETFL, O_NONBLOCK);
    *ret_child = (struct run_child){.pid = pid, .out = out[READ], .err = err[READ]};
    out[READ] = err[READ] = -1;
out:
    close_pair(out);
    close_pair(err);
    close_pair(told);
    return error;
}

void run_child_release(struct run_child *child)
{
    if (child->out >= 0)
        (void)close(child->out);
    if (child->err >= 0)
        (void)close(child->err);
    child->out = child->err = -1;
}
