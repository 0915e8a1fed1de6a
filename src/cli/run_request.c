/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run is: its fingerprint, and what is kept about it while it runs.
 *
 * The fingerprint is SHA-256 over: a name and a version; the words of the command; the contents of
 * --input files; the names and values of --env variables. Each after its size, each list after its
 * count, so that no two requests look the same. Where the command is run does not count.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sha256.h"
#include "cli/echo.h"
#include "cli/run.h"

enum { PIECE_SIZE = 1 << 16, PATH_SIZE = 4096, HOST_SIZE = 256, WORDS_SIZE_MAX = 2048 };

/* ---- Fingerprint ----------------------------------------------------------------------------- */

static int digest_fd(int fd, struct once__sha256_digest *ret_digest)
{
    static uint8_t piece[PIECE_SIZE];
    struct once__sha256 hash = {0};
    ssize_t size = 0;
    int err = once__sha256_init(&hash);

    while (err == ONCE_OK) {
        size = read(fd, piece, sizeof(piece));
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            break;
        err = once__sha256_add(&hash, (struct once_bytes){piece, (size_t)size});
    }
    if (err == ONCE_OK && size < 0)
        err = ONCE_ERR_IO;
    if (err == ONCE_OK)
        err = once__sha256_finish(&hash, ret_digest);
    once__sha256_release(&hash);
    return err;
}

/* A file, because the command reads it after us. */
static int digest_file(const char *path, struct once__sha256_digest *ret_digest)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    int err, error;

    if (fd < 0 || fstat(fd, &about) != 0) {
        error = errno;
        if (fd >= 0)
            (void)close(fd);
        return cli_error(&cli_run, CLI_USAGE, "--input '%s' cannot be opened: %s; nothing was run",
                         cli_echo(path).text, strerror(error));
    }
    if (!S_ISREG(about.st_mode)) {
        (void)close(fd);
        return cli_error(&cli_run, CLI_USAGE,
                         "--input '%s' is no file: only what can be read twice can be compared; "
                         "nothing was run",
                         cli_echo(path).text);
    }
    err = digest_fd(fd, ret_digest);
    error = errno;
    (void)close(fd);
    if (err == ONCE_ERR_IO)
        return cli_error(&cli_run, CLI_USAGE, "--input '%s' cannot be read: %s; nothing was run",
                         cli_echo(path).text, strerror(error));
    if (err != ONCE_OK)
        return cli_error(&cli_run, CLI_INTERNAL, "%s", once_err_text(err));
    return CLI_OK;
}

static int add_command(struct once__sha256 *hash, const struct run_args *args)
{
    uint64_t count = 0;
    int err = once__sha256_add_sized(hash, once_bytes_of("once run 1"));

    while (args->command[count])
        count++;
    if (err == ONCE_OK)
        err = once__sha256_add_number(hash, count);
    for (uint64_t i = 0; i < count && err == ONCE_OK; i++)
        err = once__sha256_add_sized(hash, once_bytes_of(args->command[i]));
    return err;
}

static int add_variables(struct once__sha256 *hash, const struct run_args *args)
{
    int err = once__sha256_add_number(hash, args->variable_count);

    for (size_t i = 0; i < args->variable_count && err == ONCE_OK; i++) {
        const char *value = getenv(args->variables[i]);

        err = once__sha256_add_sized(hash, once_bytes_of(args->variables[i]));
        if (err == ONCE_OK)
            err = once__sha256_add_number(hash, value ? 1 : 0);
        if (err == ONCE_OK)
            err = once__sha256_add_sized(hash, once_bytes_of(value));
    }
    return err;
}

int run_fingerprint(const struct run_args *args, struct once_fingerprint *ret_fingerprint)
{
    struct once__sha256 hash = {0};
    struct once__sha256_digest digest;
    int status = CLI_OK, err = once__sha256_init(&hash);

    if (err == ONCE_OK)
        err = add_command(&hash, args);
    if (err == ONCE_OK)
        err = once__sha256_add_number(&hash, args->input_count);
    for (size_t i = 0; i < args->input_count && err == ONCE_OK && status == CLI_OK; i++) {
        status = digest_file(args->inputs[i], &digest);
        if (status == CLI_OK)
            err = once__sha256_add(&hash, (struct once_bytes){digest.bytes, sizeof(digest.bytes)});
    }
    if (err == ONCE_OK)
        err = add_variables(&hash, args);
    if (err == ONCE_OK)
        err = once__sha256_finish(&hash, &digest);
    once__sha256_release(&hash);
    if (status != CLI_OK)
        return status;
    if (err != ONCE_OK)
        return cli_error(&cli_run, CLI_INTERNAL, "%s", once_err_text(err));
    _Static_assert(sizeof(digest.bytes) == sizeof(ret_fingerprint->bytes), "both are SHA-256");
    memcpy(ret_fingerprint->bytes, digest.bytes, sizeof(digest.bytes));
    return CLI_OK;
}

/* ---- Facts ----------------------------------------------------------------------------------- */

/* The words of the command, as many as fit. */
static void write_words(FILE *out, char *const command[])
{
    size_t size = 0, i;

    fputs("{\"command\":[", out);
    for (i = 0; command[i]; i++) {
        size += strlen(command[i]);
        if (size > WORDS_SIZE_MAX)
            break;
        fputs(i > 0 ? "," : "", out);
        cli_json_string(out, once_bytes_of(command[i]));
    }
    fputs(command[i] ? "],\"command_cut\":true" : "]", out);
}

static void write_place(FILE *out)
{
    char host[HOST_SIZE] = "", folder[PATH_SIZE] = "";
    const struct passwd *user = getpwuid(geteuid());

    (void)gethostname(host, sizeof(host) - 1);
    if (!getcwd(folder, sizeof(folder)) || strlen(folder) > WORDS_SIZE_MAX)
        folder[0] = '\0';
    fputs(",\"host\":", out);
    cli_json_string(out, once_bytes_of(host));
    fputs(",\"user\":", out);
    if (user)
        cli_json_string(out, once_bytes_of(user->pw_name));
    else
        fprintf(out, "\"%lu\"", (unsigned long)geteuid());
    fputs(",\"cwd\":", out);
    cli_json_string(out, once_bytes_of(folder));
}

int run_facts(const struct run *run, pid_t child, struct once_buf *ret_facts)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct once_buf facts;
    int err;

    if (!out)
        return ONCE_ERR_MEMORY;
    write_words(out, run->args->command);
    write_place(out);
    fprintf(out, ",\"pid\":%ld", (long)getpid());
    if (child > 0)
        fprintf(out, ",\"child\":%ld", (long)child);
    fprintf(out, ",\"started_ms\":%" PRId64 "}", run->started_ms);
    if (fclose(out) != 0) {
        free(text);
        return ONCE_ERR_MEMORY;
    }
    once_buf_init(&facts, ONCE_DATA_SIZE_MAX);
    err = once_buf_append(&facts, text, size);
    free(text);
    if (err == ONCE_OK)
        *ret_facts = facts;
    return err;
}

/* ---- Time ------------------------------------------------------------------------------------ */

once_ms run_clock_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
