/* SPDX-License-Identifier: Apache-2.0
 *
 * A child process with a time limit. It protects the report from a plugin that crashes, hangs or
 * exits; it is no protection against one that means harm, which runs with the caller's rights.
 *
 * Nothing that the function starts outlives the run. The child leads a process group, which is
 * ended as a whole before the child is waited for, so that its number cannot have become somebody
 * else's. Processes that left the group become children of the caller when their parents end (it
 * is their subreaper for the time of the run) and are ended one by one.
 */
#include "laws/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SLICE_MS = 100,      /* a SIGCHLD that somebody else swallowed costs no more than this */
    STRAYS_MS_MAX = 2000 /* for processes that left the group and go on making others */
};

/* What the calling process had before and gets back. */
struct before {
    struct sigaction child_action;
    sigset_t mask;
    int is_subreaper;
    bool has_children; /* of its own: among those no strays can be told apart */
};

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
    setpgid(0, 0);
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

/* Ends this process's children, and theirs as they become ours. */
static void end_strays(void)
{
    int64_t end_ms = now_ms() + STRAYS_MS_MAX;
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
    while (now_ms() < end_ms) {
        const struct timespec pause = {.tv_nsec = 1000000};
        pid_t ended = waitpid(-1, NULL, WNOHANG);
        FILE *children;
        long stray;

        if (ended < 0 && errno == ECHILD)
            return;
        if (ended != 0)
            continue;
        children = fopen(path, "re");
        if (children == NULL)
            return;
        while (fscanf(children, "%ld", &stray) == 1 && stray > 0)
            kill((pid_t)stray, SIGKILL);
        fclose(children);
        nanosleep(&pause, NULL);
    }
}

/* Waits until the child has ended, its time is over, or one of the signals came; gives that, or 0.
 * The child stays unreaped. */
static int wait_child(pid_t child, unsigned timeout_ms, const sigset_t *signals, siginfo_t *ret_end)
{
    int64_t end_ms = now_ms() + timeout_ms;

    for (;;) {
        int64_t left_ms = end_ms - now_ms();
        struct timespec slice = {.tv_nsec = 1000000L * (left_ms < SLICE_MS ? left_ms : SLICE_MS)};
        int came;

        memset(ret_end, 0, sizeof(*ret_end));
        if (waitid(P_PID, (id_t)child, ret_end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            ret_end->si_pid == child)
            return 0;
        if (left_ms <= 0)
            return 0;
        came = sigtimedwait(signals, NULL, &slice);
        if (came > 0 && came != SIGCHLD)
            return came;
    }
}

static struct once__sandbox_result result_of(const siginfo_t *end)
{
    struct once__sandbox_result result = {.end = ONCE__SANDBOX_TIMED_OUT};

    if (end->si_pid != 0) {
        result.end = end->si_code == CLD_EXITED ? ONCE__SANDBOX_EXITED : ONCE__SANDBOX_KILLED;
        result.number = end->si_status;
    }
    return result;
}

/* Blocks the signals that wait_child looks at: the child's end, and those that would end the
 * calling process and leave the group behind. An ignored SIGCHLD would take the child's status
 * away. */
static sigset_t prepare(struct before *ret_before)
{
    static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    siginfo_t ignored;
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        struct sigaction action;

        if (sigaction(endings[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&signals, endings[i]);
    }
    ret_before->has_children = waitid(P_ALL, 0, &ignored, WEXITED | WNOHANG | WNOWAIT) == 0;
    ret_before->is_subreaper = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &ret_before->is_subreaper);
    prctl(PR_SET_CHILD_SUBREAPER, 1UL);
    sigaction(SIGCHLD, &standard, &ret_before->child_action);
    sigprocmask(SIG_BLOCK, &signals, &ret_before->mask);
    return signals;
}

static void restore(const struct before *before)
{
    prctl(PR_SET_CHILD_SUBREAPER, (unsigned long)before->is_subreaper);
    sigaction(SIGCHLD, &before->child_action, NULL);
    sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

int once__sandbox_run(void (*function)(void *), void *argument, unsigned timeout_ms,
                      struct once__sandbox_result *ret_result)
{
    struct before before;
    sigset_t signals = prepare(&before);
    int came = 0;
    pid_t child;

    fflush(NULL); /* or the child would print it a second time */
    child = fork();
    if (child == 0)
        run_child(function, argument, &before.mask);
    if (child > 0) {
        siginfo_t end;

        setpgid(child, child); /* here too: whoever runs first */
        came = wait_child(child, timeout_ms, &signals, &end);
        *ret_result = result_of(&end);
        kill(-child, SIGKILL);
        while (waitpid(-child, NULL, 0) > 0 || errno == EINTR)
            continue;
        if (!before.has_children)
            end_strays();
    }
    restore(&before);
    if (came > 0)
        raise(came);
    return child > 0 ? ONCE_OK : ONCE_ERR_MEMORY;
}
