/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a function in a process of its own, because it calls code that nobody vouches for.
 */
#ifndef ONCE_LAWS_SANDBOX_H
#define ONCE_LAWS_SANDBOX_H

#include <stddef.h>

#include <once/err.h>

enum once__sandbox_end {
    ONCE__SANDBOX_EXITED, /* number is the exit status; 0 also when the function returned */
    ONCE__SANDBOX_KILLED, /* number is the signal */
    ONCE__SANDBOX_TIMED_OUT
};

struct once__sandbox_result {
    enum once__sandbox_end end;
    int number;
};

/* Memory that parent and child both see, all zero. NULL when there is none. */
void *once__sandbox_share(size_t size);
void once__sandbox_unshare(void *memory, size_t size); /* accepts NULL */

/* The function gets argument; its standard input is empty and its standard output is standard
 * error. For the calling process nothing changes but what it shares. No process that the function
 * started is left afterwards, except when the calling process has children of its own already: then
 * one that made itself a session or a process group may be. The calling process must have one
 * thread. ONCE_ERR_MEMORY when no process can be made. */
ONCE_MUST_CHECK int once__sandbox_run(void (*function)(void *argument), void *argument,
                                      unsigned timeout_ms, struct once__sandbox_result *ret_result);

#endif
