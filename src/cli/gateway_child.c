/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of `once gateway`: nginx, and a server of Once if the folder has none. Each has a
 * process group of its own, so that Ctrl-C does not cut its requests; we pass signals on as is
 * right.
 */
#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/gateway.h"

enum { SIGNAL_BASE = 128 };

static const int waited_for[] = {SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1};
static sigset_t inherited, ours;

void gateway_signals_take(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};

    sigemptyset(&ours);
    for (size_t i = 0; i < sizeof(waited_for) / sizeof(waited_for[0]); i++)
        sigaddset(&ours, waited_for[i]);
    (void)sigaction(SIGCHLD, &plain, NULL); /* who ignores it is not told how a child ended */
    (void)sigprocmask(SIG_BLOCK, &ours, &inherited);
}

/* Connections are files: as many as the system lets us have. */
static void raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

pid_t gateway_child_start(char *const command[], int end_signal)
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid > 0 ? pid : 0;
    (void)prctl(PR_SET_PDEATHSIG, end_signal);
    if (getppid() != parent)
        _exit(CLI_INTERNAL); /* it was killed before the line above */
    (void)setpgid(0, 0);
    (void)sigprocmask(SIG_SETMASK, &inherited, NULL);
    raise_files();
    (void)execv(command[0], command);
    _exit(CLI_UNAVAILABLE);
}

int gateway_wait(once_ms ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    int got = sigtimedwait(&ours, NULL, &time);

    return got > 0 ? got : 0;
}

bool gateway_child_ended(pid_t pid, int *ret_status)
{
    int status;
    pid_t got;

    if (pid <= 0)
        return false;
    do
        got = waitpid(pid, &status, WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got != pid)
        return false;
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : SIGNAL_BASE + WTERMSIG(status);
    return true;
}
