/* SPDX-License-Identifier: Apache-2.0
 *
 * Who runs an attempt: an owner id that names this process, and whether such a process is gone.
 *
 *     <12 hex: machine>.<pid>.<start time>.<16 hex: random>
 *
 * machine is a hash of the boot, the namespaces of process ids and of time, and the host's name:
 * only who has the same one can look the process up. The start time (ticks since boot) tells two
 * processes with one pid apart, the random part two attempts of one process.
 */
#ifndef ONCE_CLI_OWNER_H
#define ONCE_CLI_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

#include <once/bytes.h>
#include <once/limits.h>

struct cli_owner {
    char text[ONCE_OWNER_SIZE_MAX + 1];
};

/* A new id for an attempt of this process. Where the system tells nothing about processes (no
 * /proc, or that of another namespace), the id names no machine, and nobody ever takes it for
 * gone. ONCE_ERR_RANDOM, ONCE_ERR_CRYPTO. */
ONCE_MUST_CHECK int cli_owner_make(struct cli_owner *ret_owner);

/* The process of this owner, if it is one of this machine and of this namespace of process ids,
 * else 0. It may be gone, and another one may have its number. */
pid_t cli_owner_pid(struct once_bytes owner);

/* Is the process that made this owner known to be gone? False for every owner that is not of
 * this machine, that is not of the form above, or that cannot be looked up: then its lease
 * decides. What is gone says nothing any more, so its lease may be given up (renew 0): the
 * outcome is in doubt. */
bool cli_owner_gone(struct once_bytes owner);

#endif
