/* SPDX-License-Identifier: Apache-2.0
 *
 * Owner ids: made from what /proc tells about this process, and looked up there again.
 *
 * Gone is said only when it is certain: a process that is there but may not be looked at counts as
 * alive. Ids come from the store, and so from anyone: every byte of them is checked.
 */
#include "cli/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/sha256.h"

enum { MACHINE_SIZE = 12, RANDOM_SIZE = 8, PROC_TEXT_SIZE = 1024, PID_MAX = 1 << 30 };

_Static_assert(MACHINE_SIZE + 1 + 10 + 1 + 20 + 1 + 2 * RANDOM_SIZE <= ONCE_OWNER_SIZE_MAX,
               "an owner id fits");

struct machine {
    char hex[MACHINE_SIZE + 1]; /* all '-': unknown */
};

static void to_hex(const uint8_t *bytes, size_t count, char *hex)
{
    for (size_t i = 0; i < count; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
}

/* A small file of /proc, with its NUL. Its size, or -1. */
static ssize_t read_text(const char *path, char text[PROC_TEXT_SIZE])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = -1;

    if (fd < 0)
        return -1;
    do
        size = read(fd, text, PROC_TEXT_SIZE - 1);
    while (size < 0 && errno == EINTR);
    (void)close(fd);
    if (size >= 0)
        text[size] = '\0';
    return size;
}

/* Does /proc tell about the process ids that we have? Another namespace's, which whoever made ours
 * may have left mounted, has other processes under the same numbers. */
static bool proc_is_ours(void)
{
    char self[PROC_TEXT_SIZE], pid[24];
    ssize_t size = readlink("/proc/self", self, sizeof(self) - 1);

    if (size <= 0)
        return false;
    self[size] = '\0';
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    return strcmp(self, pid) == 0;
}

/* ---- This machine ---------------------------------------------------------------------------- */

static int machine_of(struct machine *ret_machine)
{
    char boot[PROC_TEXT_SIZE], space[PROC_TEXT_SIZE], clock[PROC_TEXT_SIZE];
    char host[PROC_TEXT_SIZE] = "";
    struct once__sha256 hash = {0};
    struct once__sha256_digest digest;
    ssize_t boot_size = read_text("/proc/sys/kernel/random/boot_id", boot);
    ssize_t space_size = readlink("/proc/self/ns/pid", space, sizeof(space));
    ssize_t clock_size = readlink("/proc/self/ns/time", clock, sizeof(clock)); /* not of old ones */
    int err;

    memset(ret_machine->hex, '-', MACHINE_SIZE);
    ret_machine->hex[MACHINE_SIZE] = '\0';
    if (boot_size <= 0 || space_size <= 0 || !proc_is_ours() ||
        gethostname(host, sizeof(host) - 1) != 0)
        return ONCE_OK;
    err = once__sha256_init(&hash);
    if (err == ONCE_OK)
        err = once__sha256_add_sized(&hash, once_bytes_of(boot));
    if (err == ONCE_OK)
        err = once__sha256_add_sized(
            &hash, (struct once_bytes){(const uint8_t *)space, (size_t)space_size});
    if (err == ONCE_OK)
        err = once__sha256_add_sized(
            &hash,
            (struct once_bytes){(const uint8_t *)clock, clock_size > 0 ? (size_t)clock_size : 0});
    if (err == ONCE_OK)
        err = once__sha256_add_sized(&hash, once_bytes_of(host));
    if (err == ONCE_OK)
        err = once__sha256_finish(&hash, &digest);
    once__sha256_release(&hash);
    if (err == ONCE_OK)
        to_hex(digest.bytes, MACHINE_SIZE / 2, ret_machine->hex);
    return err;
}

/* ---- Processes ------------------------------------------------------------------------------- */

struct process {
    char state; /* 'R', 'S', …; 'Z' and 'X' are dead */
    uint64_t start;
};

/* The state is the third field of stat and the start time the 22nd; the second is a name in
 * parentheses that may hold anything. */
static bool process_look(const char *path, struct process *ret_process)
{
    char text[PROC_TEXT_SIZE];
    char *field, *rest = NULL;
    struct process process;

    if (read_text(path, text) <= 0)
        return false;
    field = strrchr(text, ')');
    if (!field || field[1] != ' ' || !field[2])
        return false;
    process.state = field[2];
    field += 2;
    for (int i = 3; i < 22 && field; i++) {
        field = strchr(field, ' ');
        if (field)
            field++;
    }
    if (!field || *field < '0' || *field > '9')
        return false;
    errno = 0;
    process.start = strtoull(field, &rest, 10);
    if (errno != 0 || *rest != ' ')
        return false;
    *ret_process = process;
    return true;
}

/* ---- Ids ------------------------------------------------------------------------------------- */

int cli_owner_make(struct cli_owner *ret_owner)
{
    struct machine machine;
    struct process self = {0};
    uint8_t bytes[RANDOM_SIZE];
    char chance[2 * RANDOM_SIZE + 1];
    int err = machine_of(&machine);

    if (err == ONCE_OK)
        err = once__random_bytes(bytes, sizeof(bytes));
    if (err != ONCE_OK)
        return err;
    to_hex(bytes, sizeof(bytes), chance);
    if (!process_look("/proc/self/stat", &self))
        memset(machine.hex, '-', MACHINE_SIZE);
    snprintf(ret_owner->text, sizeof(ret_owner->text), "%s.%ld.%" PRIu64 ".%s", machine.hex,
             (long)getpid(), self.start, chance);
    return ONCE_OK;
}

struct owner_parts {
    pid_t pid;
    uint64_t start;
};

/* Digits from *at on and a dot behind them. */
static bool take_number(const char **at, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *c = *at;

    for (; *c >= '0' && *c <= '9'; c++) {
        if (__builtin_mul_overflow(number, 10U, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*c - '0'), &number))
            return false;
    }
    if (c == *at || *c != '.' || number > max)
        return false;
    *ret_number = number;
    *at = c + 1;
    return true;
}

static bool read_owner(struct once_bytes owner, struct owner_parts *ret_parts)
{
    char text[ONCE_OWNER_SIZE_MAX + 1];
    struct machine machine;
    const char *at = text + MACHINE_SIZE + 1;
    uint64_t pid, start;

    if (owner.size > ONCE_OWNER_SIZE_MAX || owner.size <= MACHINE_SIZE + 1)
        return false;
    memcpy(text, owner.data, owner.size);
    text[owner.size] = '\0';
    if (machine_of(&machine) != ONCE_OK || machine.hex[0] == '-')
        return false;
    if (memcmp(text, machine.hex, MACHINE_SIZE) != 0 || text[MACHINE_SIZE] != '.')
        return false;
    if (!take_number(&at, PID_MAX, &pid) || pid == 0 || !take_number(&at, UINT64_MAX, &start))
        return false;
    if (strspn(at, "0123456789abcdef") != (size_t)2 * RANDOM_SIZE ||
        (size_t)(at - text) + (size_t)2 * RANDOM_SIZE != owner.size)
        return false;
    *ret_parts = (struct owner_parts){.pid = (pid_t)pid, .start = start};
    return true;
}

pid_t cli_owner_pid(struct once_bytes owner)
{
    struct owner_parts parts;

    return read_owner(owner, &parts) ? parts.pid : 0;
}

bool cli_owner_gone(struct once_bytes owner)
{
    struct owner_parts parts;
    struct process process;
    char path[64];

    if (!read_owner(owner, &parts))
        return false;
    /* /proc may hide the processes of other users; this does not. */
    if (kill(parts.pid, 0) != 0 && errno == ESRCH)
        return true;
    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)parts.pid);
    if (!process_look(path, &process))
        return false;
    return process.start != parts.start || process.state == 'Z' || process.state == 'X';
}
