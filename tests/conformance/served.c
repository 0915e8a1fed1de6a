/* SPDX-License-Identifier: Apache-2.0
 *
 * A real server inside of the test. It opens its store through a hook that puts the test's clock,
 * and on demand the test's disk, behind it; everything else is as in `once serve`. On PostgreSQL
 * there is no hook: the clock is the database's.
 */
#include "conformance/served.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "conformance/served_pg.h"
#include "disk/disk.h"
#include "engine/engine.h"
#include "server/server.h"

enum { FOLDER_SIZE = 256, PATH_SIZE = FOLDER_SIZE + 256, IDLE_MAX = 1024 };

static const uint64_t DISK_SIZE = 1ULL << 26;

bool served_on_disk;
bool served_on_postgres;
const char *served_socket = "off";

struct served {
    struct once__server *server;
    pthread_t thread;
    int run_err;
    bool may_fail; /* the power was cut: the server cannot seal its store */
    _Atomic once_ms now_ms;
    once_ms booted_ms;
    struct once__time_source time;
    char folder[FOLDER_SIZE];
    struct disk *disk;
    unsigned restarts;
    const struct served_link *link;
    pthread_mutex_t lock; /* of the idle ones */
    void *idle[IDLE_MAX];
    size_t idle_count;
};

static once_ms wall_ms(void *self)
{
    struct served *served = self;

    return served->now_ms;
}

static once_ms boot_ms(void *self)
{
    struct served *served = self;

    return served->now_ms - served->booted_ms;
}

/* ---- Starting -------------------------------------------------------------------------------- */

static int open_store(void *self, const struct once__config *config, struct once_store **ret_store,
                      struct once_message *ret_message)
{
    struct served *served = self;
    struct once__engine_setup setup = {
        .time = &served->time,
        .options = {.segment_size = ONCE_SEGMENT_SIZE_MIN},
    };
    int system_errno = 0, err;

    (void)config;
    if (served->disk) {
        setup.vfs = disk_mount(served->disk);
    } else {
        err = once__vfs_open(served->folder, true, &setup.vfs, &system_errno);
        if (err != ONCE_OK) {
            snprintf(ret_message->text, sizeof(ret_message->text), "%s: errno %d", served->folder,
                     system_errno);
            return err;
        }
    }
    return once__engine_open(&setup, ret_store, ret_message);
}

static int read_config(const struct served *served, struct once__config **ret_config)
{
    const struct once__setting flags[] = {
        {served_on_postgres ? "store" : "dir",
         served_on_postgres ? served_pg_url() : served->folder, "test"},
        {"listen", "127.0.0.1:0", "test"},
        {"http", "127.0.0.1:0", "test"},
        {"socket", served_socket, "test"},
        {"log_file", "/dev/null", "test"},
    };
    const struct once__config_sources sources = {.flags = flags,
                                                 .flag_count = sizeof(flags) / sizeof(flags[0])};
    struct once__config_error error = {""};
    int err = once__config_read(&sources, ret_config, &error);

    if (err != ONCE_OK)
        printf("# configuration: %s\n", error.text);
    return err;
}

static void *run(void *self)
{
    struct served *served = self;
    struct once_message message = {""};

    served->run_err = once__server_run(served->server, &message);
    if (served->run_err != ONCE_OK && !served->may_fail)
        printf("# the server ended: %s: %s\n", once_err_name(served->run_err), message.text);
    return NULL;
}

/* Until the store is open. */
static bool wait_until_ready(const struct served *served)
{
    static const struct timespec step = {.tv_nsec = 200000};

    for (;;) {
        enum once__phase phase = once__server_status(served->server).phase;

        if (phase != ONCE__LOADING)
            return phase == ONCE__READY;
        (void)nanosleep(&step, NULL);
    }
}

static bool start(struct served *served)
{
    struct once__server_setup setup = {.open = open_store, .user = served};
    struct once_message message = {""};
    int err;

    if (served_on_postgres)
        setup.open = served_pg_lanes > 0 ? served_pg_open : NULL;
    served->booted_ms = served->now_ms;
    served->may_fail = false;
    if (read_config(served, &setup.config) != ONCE_OK)
        return false;
    err = once__server_new(&setup, &served->server, &message);
    once__config_unref(setup.config);
    if (err != ONCE_OK) {
        printf("# the server does not start: %s: %s\n", once_err_name(err), message.text);
        return false;
    }
    ONCE_ASSERT(pthread_create(&served->thread, NULL, run, served) == 0);
    return wait_until_ready(served);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void drop_connections(struct served *served)
{
    while (served->idle_count > 0) /* of a test without links there are none */
        served->link->drop(served->idle[--served->idle_count]);
}

/* False: it could not seal its store. */
static bool stop(struct served *served)
{
    if (!served->server)
        return true;
    drop_connections(served);
    once__server_stop(served->server);
    ONCE_ASSERT(pthread_join(served->thread, NULL) == 0);
    once__server_free(served->server);
    served->server = NULL;
    return served->run_err == ONCE_OK || served->may_fail;
}

static void remove_folder(const char *folder)
{
    DIR *entries = opendir(folder);

    if (!entries)
        return;
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        char path[PATH_SIZE];

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        unlink(path); /* "." and ".." stay: they are folders */
    }
    closedir(entries);
    rmdir(folder);
}

static void release(struct served *served)
{
    disk_free(served->disk);
    remove_folder(served->folder);
    pthread_mutex_destroy(&served->lock);
    free(served);
}

struct served *served_open(once_ms start_ms, bool on_disk, const struct served_link *link)
{
    const char *temporary = getenv("TMPDIR");
    struct served *served = calloc(1, sizeof(*served));

    ONCE_ASSERT(served != NULL);
    ONCE_ASSERT(pthread_mutex_init(&served->lock, NULL) == 0);
    served->now_ms = start_ms;
    served->link = link;
    served->time = (struct once__time_source){wall_ms, boot_ms, served};
    snprintf(served->folder, sizeof(served->folder), "%s/once-served-XXXXXX",
             temporary ? temporary : "/tmp");
    ONCE_ASSERT(mkdtemp(served->folder) != NULL);
    if (on_disk)
        served->disk = disk_new(1, DISK_SIZE);
    if ((!served_on_postgres || served_pg_prepare(start_ms)) && start(served))
        return served;
    (void)stop(served);
    release(served);
    return NULL;
}

void served_close(struct served *served)
{
    ONCE_ASSERT(stop(served));
    release(served);
}

struct served *served_restart(struct served *served)
{
    if (served->disk && served->restarts++ % 2 == 0) {
        served->may_fail = true;
        disk_cut(served->disk);
    } else if (served_on_postgres && served->restarts++ % 2 == 0) {
        served_pg_cut();
        return served;
    }
    if (stop(served) && start(served))
        return served;
    (void)stop(served);
    release(served);
    return NULL;
}

void served_advance(struct served *served, once_ms by_ms)
{
    if (served_on_postgres)
        served_pg_advance(by_ms);
    served->now_ms += by_ms;
}

uint16_t served_resp_port(const struct served *served)
{
    return once__server_resp_port(served->server, 0);
}

uint16_t served_http_port(const struct served *served)
{
    return once__server_http_port(served->server, 0);
}

size_t served_parked(const struct served *served)
{
    return once__service_parked(once__server_service(served->server));
}

/* ---- Connections ----------------------------------------------------------------------------- */

void *served_take(struct served *served)
{
    void *connection = NULL;

    pthread_mutex_lock(&served->lock);
    if (served->idle_count > 0)
        connection = served->idle[--served->idle_count];
    pthread_mutex_unlock(&served->lock);
    return connection ? connection : served->link->make(served);
}

void served_give(struct served *served, void *connection)
{
    pthread_mutex_lock(&served->lock);
    ONCE_ASSERT(served->idle_count < IDLE_MAX);
    served->idle[served->idle_count++] = connection;
    pthread_mutex_unlock(&served->lock);
}

/* ---- Names ----------------------------------------------------------------------------------- */

bool served_word(struct once_bytes name, enum once_word *ret_word)
{
    for (int word = ONCE_EXECUTE; word <= ONCE_REJECTED; word++) {
        if (once__bytes_equal(name, once_bytes_of(once_word_name((enum once_word)word)))) {
            *ret_word = (enum once_word)word;
            return true;
        }
    }
    return false;
}

bool served_state(struct once_bytes name, enum once_state *ret_state)
{
    for (int state = ONCE_STATE_ABSENT; state <= ONCE_STATE_DOUBT; state++) {
        if (once__bytes_equal(name, once_bytes_of(once_state_name((enum once_state)state)))) {
            *ret_state = (enum once_state)state;
            return true;
        }
    }
    return false;
}

int served_err(struct once_bytes name)
{
    for (int err = -1; strcmp(once_err_name(err), once_err_name(INT32_MIN)) != 0; err--) {
        if (once__bytes_equal(name, once_bytes_of(once_err_name(err))))
            return err;
    }
    return ONCE_OK;
}

void served_copy(char *to, struct once_bytes bytes)
{
    size_t size = bytes.size < CONFORMANCE_BYTES_MAX ? bytes.size : CONFORMANCE_BYTES_MAX - 1;

    if (size > 0)
        memcpy(to, bytes.data, size);
    to[size] = '\0';
}

int served_main(int argc, char **argv, struct conformance_adapter *adapter, const char *protocol)
{
    static char name[64];
    const char *filter = NULL;

    adapter->threads = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--disk") == 0)
            served_on_disk = true;
        else if (strcmp(argv[i], "--postgres") == 0)
            served_on_postgres = true;
        else if (strcmp(argv[i], "--lanes") == 0 && i + 1 < argc)
            served_pg_lanes = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--straight") == 0)
            adapter->restart = NULL;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            adapter->threads = (unsigned)strtoul(argv[++i], NULL, 10);
        else
            filter = argv[i];
    }
    snprintf(name, sizeof(name), "%s, %u threads%s", protocol, adapter->threads,
             served_on_postgres ? ", PostgreSQL"
             : served_on_disk   ? ", test disk"
                                : "");
    adapter->name = name;
    return conformance_run(adapter, filter) > 0 ? 1 : 0;
}
