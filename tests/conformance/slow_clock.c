/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded into nginx before the C library: its monotonic clock, which moves its timers, runs 20
 * times slower. The gateway renews the lease of what it holds by the clock of the machine, and the
 * suite plays owners that are silent while its own clock goes on.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOWER = 20 };

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    static const long long SECOND_NS = 1000000000;
    static long long first_ns;
    long long now_ns;

    if (syscall(SYS_clock_gettime, clock, ret_time) != 0)
        return -1;
    if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE && clock != CLOCK_MONOTONIC_RAW)
        return 0;
    now_ns = ret_time->tv_sec * SECOND_NS + ret_time->tv_nsec;
    if (first_ns == 0)
        first_ns = now_ns;
    now_ns = first_ns + (now_ns - first_ns) / SLOWER;
    ret_time->tv_sec = now_ns / SECOND_NS;
    ret_time->tv_nsec = now_ns % SECOND_NS;
    return 0;
}
