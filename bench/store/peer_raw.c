/* SPDX-License-Identifier: Apache-2.0
 *
 * The limit: a log and nothing else. Records as large as Once's are laid out, checksummed one by
 * one and written into a file that is already written: no index, no look whether the key is known,
 * no recovery. Two ways to make a write durable:
 *
 *     raw_fdatasync  pwrite, then fdatasync; batches lie side by side
 *     raw_direct     one O_DIRECT|O_DSYNC write; batches begin and end at blocks
 *
 * Every thread writes for itself: what a device gives to so many writers, without group commit. At
 * the end of the file writing starts again at its beginning.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/format.h"

enum { CHUNK_SIZE = 1 << 20, ALIGN = 4096, NS_SIZE = 5 };

struct raw {
    int fd;
    bool direct;
    size_t record_size;
    size_t write_size; /* of a batch */
    uint64_t slots;    /* batches that fit into the file */
    _Atomic uint64_t next;
    uint8_t **buffers; /* one a thread */
    int threads;
};

/* As large as the record of a begin of the same key. */
static size_t record_size(void)
{
    static const uint8_t name[BENCH_KEY_SIZE];
    struct once__log_record rec = {
        .ns = {.data = name, .size = NS_SIZE},
        .key = {.data = name, .size = BENCH_KEY_SIZE},
        .record = {.state = ONCE_STATE_STARTED},
    };

    return once__record_size(&rec);
}

static void fill_file(int fd, uint8_t *chunk, size_t size)
{
    memset(chunk, 0xa5, CHUNK_SIZE);
    for (off_t offset = 0; offset < (off_t)size; offset += CHUNK_SIZE) {
        if (pwrite(fd, chunk, CHUNK_SIZE, offset) != CHUNK_SIZE)
            bench_die("raw: fill: %s", strerror(errno));
    }
    if (fsync(fd) != 0)
        bench_die("raw: fsync: %s", strerror(errno));
}

static void *open_raw(const struct bench_load *load, bool direct)
{
    struct raw *raw = bench_alloc(1, sizeof *raw);
    char *path = bench_path(load->folder, "log");
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | (direct ? O_DIRECT | O_DSYNC : 0);
    size_t bytes;

    raw->fd = open(path, flags, 0600);
    if (raw->fd < 0 && direct && errno == EINVAL) {
        free(path);
        free(raw);
        return NULL;
    }
    if (raw->fd < 0)
        bench_die("raw: %s: %s", path, strerror(errno));
    raw->direct = direct;
    raw->threads = load->threads;
    raw->record_size = record_size();
    bytes = raw->record_size * load->batch;
    raw->write_size = direct ? (bytes + ALIGN - 1) / ALIGN * ALIGN : bytes;
    raw->slots = load->log_size / raw->write_size;
    raw->buffers = bench_alloc((size_t)load->threads, sizeof *raw->buffers);
    for (int i = 0; i < load->threads; i++) {
        size_t size = raw->write_size > CHUNK_SIZE ? raw->write_size : CHUNK_SIZE;
        void *memory = NULL;

        if (posix_memalign(&memory, ALIGN, size) != 0)
            bench_die("out of memory");
        raw->buffers[i] = memory;
        memset(memory, 0, size);
    }
    fill_file(raw->fd, raw->buffers[0], load->log_size);
    free(path);
    return raw;
}

static void *open_fdatasync(const struct bench_load *load)
{
    return open_raw(load, false);
}

static void *open_direct(const struct bench_load *load)
{
    return open_raw(load, true);
}

/* A check, then what the check is of: sizes and number, the value, the key, zeros. */
static void encode(uint8_t *out, size_t size, uint64_t number, const struct bench_key *key)
{
    uint64_t check;

    memcpy(out + 8, &number, sizeof number);
    memcpy(out + 16, bench_value, BENCH_VALUE_SIZE);
    memcpy(out + 16 + BENCH_VALUE_SIZE, key->text, BENCH_KEY_SIZE);
    memset(out + 16 + BENCH_VALUE_SIZE + BENCH_KEY_SIZE, 0,
           size - 16 - BENCH_VALUE_SIZE - BENCH_KEY_SIZE);
    check = XXH3_64bits(out + 8, size - 8);
    memcpy(out, &check, sizeof check);
}

static size_t insert(void *self, int thread, const struct bench_key *keys, size_t count)
{
    struct raw *raw = self;
    uint8_t *buffer = raw->buffers[thread];
    uint64_t number = atomic_fetch_add(&raw->next, 1);
    off_t offset = (off_t)(number % raw->slots * raw->write_size);

    for (size_t i = 0; i < count; i++)
        encode(buffer + i * raw->record_size, raw->record_size, number, &keys[i]);
    if (pwrite(raw->fd, buffer, raw->write_size, offset) != (ssize_t)raw->write_size)
        bench_die("raw: write: %s", strerror(errno));
    if (!raw->direct && fdatasync(raw->fd) != 0)
        bench_die("raw: fdatasync: %s", strerror(errno));
    return count;
}

static void close_raw(void *self)
{
    struct raw *raw = self;

    for (int i = 0; i < raw->threads; i++)
        free(raw->buffers[i]);
    free(raw->buffers);
    close(raw->fd);
    free(raw);
}

const struct bench_peer bench_raw_fdatasync = {
    .name = "raw_fdatasync",
    .open = open_fdatasync,
    .insert = insert,
    .close = close_raw,
};

const struct bench_peer bench_raw_direct = {
    .name = "raw_direct",
    .open = open_direct,
    .insert = insert,
    .close = close_raw,
};
