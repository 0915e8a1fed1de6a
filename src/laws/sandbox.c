/* SPDX-License-Identifier: Apache-2.0
 *
 * A child process with a time limit. It protects the report from a plugin that crashes, hangs or
 * exits; it is no protection against one that means harm, which runs with the caller's rights.
 */
#include "laws/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_MS = 100 }; /* a SIGCHLD that somebody else swallowed costs no more than this */

void *once__sandbox_share(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                        (off_t)0);

    return memory == MAP_FAILED ? NULL : memory;
}

void once__sandbox_unshare(void *memory, size_t size)
{
    if (memory != NULL)
        munmap(memory, size);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static _Noreturn void run_child(void (*function)(void *), void *argument, const sigset_t *mask)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    const struct rlimit no_core = {0, 0};
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    /* A sanitizer's handlers would turn a signal into an exit status. */
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        signal(crashes[i], SIG_DFL);
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    function(argument);
    fflush(NULL);
    _exit(0);
}

/* Waits for the child and ends it when its time is over. */
static struct once__sandbox_result wait_child(pid_t child, unsigned timeout_ms)
{
    struct once__sandbox_result result = {.end = ONCE__SANDBOX_TIMED_OUT};
    int64_t end_ms = now_ms() + timeout_ms;
    sigset_t child_signal;
    pid_t ended = 0;
    int status = 0;

    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    for (;;) {
        int64_t left_ms = end_ms - now_ms();
        struct timespec slice = {.tv_nsec = 1000000L * (left_ms < SLICE_MS ? left_ms : SLICE_MS)};

        ended = waitpid(child, &status, WNOHANG);
        if (ended != 0 || left_ms <= 0)
            break;
        sigtimedwait(&child_signal, NULL, &slice);
    }
    if (ended == 0) {
        kill(child, SIGKILL);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            continue;
    } else if (WIFSIGNALED(status)) {
        result.end = ONCE__SANDBOX_KILLED;
        result.number = WTERMSIG(status);
    } else {
        result.end = ONCE__SANDBOX_EXITED;
        result.number = WEXITSTATUS(status);
    }
    return result;
}

int once__sandbox_run(void (*function)(void *), void *argument, unsigned timeout_ms,
                      struct once__sandbox_result *ret_result)
{
    struct sigaction standard = {.sa_handler = SIG_DFL}, old_action;
    sigset_t blocked, old_mask;
    pid_t child;

    /* An ignored SIGCHLD would take the child's status away; a blocked one waits for
     * sigtimedwait. */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    sigaction(SIGCHLD, &standard, &old_action);
    sigprocmask(SIG_BLOCK, &blocked, &old_mask);

    fflush(NULL); /* or the child would print it a second time */
    child = fork();
    if (child == 0)
        run_child(function, argument, &old_mask);
    if (child > 0)
        *ret_result = wait_child(child, timeout_ms);

    sigaction(SIGCHLD, &old_action, NULL);
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
    return child > 0 ? ONCE_OK : ONCE_ERR_MEMORY;
}
