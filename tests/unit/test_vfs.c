/* SPDX-License-Identifier: Apache-2.0
 *
 * The vfs of the system, in a folder of its own that is made for each test and removed again.
 */
#include "unit/seeded.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <once/limits.h>

#include "engine/vfs.h"

enum { BLOCK = ONCE_BLOCK_SIZE, PATH_SIZE = 256 };

struct place {
    char top[PATH_SIZE];
    struct once__vfs *vfs;
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    const char *tmp = getenv("TMPDIR");
    int err, error = 0;

    assert_non_null(place);
    snprintf(place->top, sizeof(place->top), "%s/once-vfs-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(place->top));
    err = once__vfs_open(place->top, false, &place->vfs, &error);
    assert_int_equal(err, ONCE_OK);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    char *const argv[] = {(char[]){"rm"}, (char[]){"-rf"}, (char[]){"--"}, place->top, NULL};
    pid_t child;

    if (place->vfs)
        place->vfs->ops->free(place->vfs);
    child = fork();
    if (child == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    free(place);
    return 0;
}

static struct once__file *open_file(struct once__vfs *vfs, const char *name, unsigned flags)
{
    struct once__file *file = NULL;

    assert_int_equal(vfs->ops->open(vfs, name, flags, &file), ONCE_OK);
    return file;
}

static uint8_t *block(size_t count, int fill)
{
    uint8_t *bytes = aligned_alloc(BLOCK, count * BLOCK);

    assert_non_null(bytes);
    memset(bytes, fill, count * BLOCK);
    return bytes;
}

static const char *path(const struct place *place, const char *name)
{
    static char text[PATH_SIZE * 2];

    snprintf(text, sizeof(text), "%s/%s", place->top, name);
    return text;
}

static mode_t mode_of(const char *name)
{
    struct stat status;

    assert_int_equal(stat(name, &status), 0);
    return status.st_mode & 07777;
}

/* ---- The folder ------------------------------------------------------------------------------ */

static void open__folder_is_missing__is_no_store(void **state)
{
    struct place *place = *state;
    struct once__vfs *vfs = NULL;
    int error = 0;

    assert_int_equal(once__vfs_open(path(place, "a/b"), false, &vfs, &error), ONCE_ERR_NO_STORE);
    assert_int_equal(error, ENOENT);
    assert_null(vfs);
    assert_int_equal(once__vfs_open("", true, &vfs, NULL), ONCE_ERR_IO);
    close(open(path(place, "file"), O_CREAT | O_WRONLY, 0600));
    assert_int_equal(once__vfs_open(path(place, "file"), true, &vfs, &error), ONCE_ERR_IO);
    assert_int_equal(error, ENOTDIR);
}

static void open__make__makes_the_way_and_keeps_the_store_private(void **state)
{
    struct place *place = *state;
    struct once__vfs *vfs = NULL;
    mode_t old = umask(022);
    int error = 0;

    assert_int_equal(once__vfs_open(path(place, "a//b/c/"), true, &vfs, &error), ONCE_OK);
    vfs->ops->free(vfs);
    assert_int_equal(mode_of(path(place, "a")), 0755);
    assert_int_equal(mode_of(path(place, "a/b")), 0755);
    assert_int_equal(mode_of(path(place, "a/b/c")), 0700);
    assert_int_equal(once__vfs_open(path(place, "a/b/c"), true, &vfs, &error), ONCE_OK);
    once__file_close(open_file(vfs, "x", ONCE__OPEN_CREATE | ONCE__OPEN_WRITE));
    vfs->ops->free(vfs);
    assert_int_equal(mode_of(path(place, "a/b/c/x")), 0600);
    umask(old);
}

/* The same from where we stand, as `--dir data` gives it. */
static void open__relative_path__is_made_here(void **state)
{
    struct place *place = *state;
    struct once__vfs *vfs = NULL;
    int here = open(".", O_PATH | O_DIRECTORY), error = 0;

    assert_int_equal(chdir(place->top), 0);
    assert_int_equal(once__vfs_open("data/once", true, &vfs, &error), ONCE_OK);
    vfs->ops->free(vfs);
    assert_int_equal(fchdir(here), 0);
    close(here);
    assert_int_equal(mode_of(path(place, "data/once")), 0700);
}

/* In a child without rights, for the superuser may do anything. */
static int without_rights(const char *top)
{
    struct once__vfs *vfs = NULL;
    struct once__file *file = NULL;
    char below[PATH_SIZE * 2];
    int error = 0;

    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 1;
    /* A parent that may be passed but not read. */
    snprintf(below, sizeof(below), "%s/shut/in", top);
    if (once__vfs_open(below, true, &vfs, &error) != ONCE_OK)
        return 8;
    vfs->ops->free(vfs);
    snprintf(below, sizeof(below), "%s/below", top);
    if (once__vfs_open(below, true, &vfs, &error) != ONCE_ERR_PERMISSION || error != EACCES)
        return 2;
    if (once__vfs_open(top, true, &vfs, &error) != ONCE_OK)
        return 3;
    if (vfs->ops->open(vfs, "new", ONCE__OPEN_CREATE | ONCE__OPEN_WRITE, &file) !=
            ONCE_ERR_PERMISSION ||
        vfs->system_errno != EACCES)
        return 4;
    if (vfs->ops->remove(vfs, "old") != ONCE_ERR_PERMISSION)
        return 5;
    if (vfs->ops->lock(vfs, "lock", "me", below, sizeof(below)) != ONCE_ERR_PERMISSION)
        return 6;
    if (vfs->ops->open(vfs, "old", 0, &file) != ONCE_OK)
        return 7;
    once__file_close(file);
    vfs->ops->free(vfs);
    return 0;
}

static void open__read_only_folder__is_permission(void **state)
{
    struct place *place = *state;
    int status = 0;
    pid_t child;

    once__file_close(open_file(place->vfs, "old", ONCE__OPEN_CREATE | ONCE__OPEN_WRITE));
    assert_int_equal(chmod(path(place, "old"), 0644), 0);
    assert_int_equal(mkdir(path(place, "shut"), 0700), 0);
    assert_int_equal(mkdir(path(place, "shut/in"), 0700), 0);
    assert_int_equal(chmod(path(place, "shut/in"), 0777), 0);
    assert_int_equal(chmod(path(place, "shut"), 0311), 0);
    assert_int_equal(chmod(place->top, 0555), 0);
    child = fork();
    if (child == 0)
        _exit(without_rights(place->top));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(place->top, 0700), 0);
    assert_int_equal(chmod(path(place, "shut"), 0700), 0);
    assert_int_equal(status, 0);
}

static int count_name(void *user, const char *name)
{
    unsigned *seen = user;

    if (strcmp(name, "a") == 0)
        *seen += 1;
    else if (strcmp(name, "b") == 0)
        *seen += 100;
    else
        *seen += 10000;
    return ONCE_OK;
}

static int stop_listing(void *user, const char *name)
{
    (void)name;
    ++*(unsigned *)user;
    return ONCE_ERR_FULL;
}

static void names__made_renamed_removed__are_listed_so(void **state)
{
    struct once__vfs *vfs = ((struct place *)*state)->vfs;
    struct once__file *file = NULL;
    unsigned seen = 0;
    uint64_t size = 0;

    assert_int_equal(mkdir(path(*state, "folder"), 0700), 0);
    assert_int_equal(vfs->ops->open(vfs, "a", ONCE__OPEN_WRITE, &file), ONCE_ERR_NO_STORE);
    assert_null(file);
    once__file_close(open_file(vfs, "a", ONCE__OPEN_CREATE | ONCE__OPEN_WRITE));
    once__file_close(open_file(vfs, "c", ONCE__OPEN_CREATE | ONCE__OPEN_WRITE));
    assert_int_equal(vfs->ops->rename(vfs, "c", "b"), ONCE_OK);
    assert_int_equal(vfs->ops->rename(vfs, "c", "b"), ONCE_ERR_NO_STORE);
    assert_int_equal(vfs->ops->sync_folder(vfs), ONCE_OK);
    assert_int_equal(vfs->ops->list(vfs, count_name, &seen), ONCE_OK);
    assert_int_equal(seen, 101);
    seen = 0;
    assert_int_equal(vfs->ops->list(vfs, stop_listing, &seen), ONCE_ERR_FULL);
    assert_int_equal(seen, 1);
    assert_int_equal(vfs->ops->remove(vfs, "a"), ONCE_OK);
    assert_int_equal(vfs->ops->remove(vfs, "a"), ONCE_ERR_NO_STORE);
    seen = 0;
    assert_int_equal(vfs->ops->list(vfs, count_name, &seen), ONCE_OK);
    assert_int_equal(seen, 100);
    assert_int_equal(vfs->ops->free_size(vfs, &size), ONCE_OK);
    assert_true(size > 0);
}

/* ---- The lock -------------------------------------------------------------------------------- */

static int lock_in_child(const char *top)
{
    struct once__vfs *vfs = NULL;
    char owner[64] = "";
    int error = 0;

    if (once__vfs_open(top, false, &vfs, &error) != ONCE_OK)
        return 1;
    if (vfs->ops->lock(vfs, "lock", "the child", owner, sizeof(owner)) != ONCE_ERR_LOCKED)
        return 2;
    if (strcmp(owner, "pid 1 of the test") != 0)
        return 3;
    if (vfs->ops->lock(vfs, "lock", "the child", owner, 5) != ONCE_ERR_LOCKED)
        return 4;
    return strcmp(owner, "pid ") == 0 ? 0 : 5;
}

static void lock__another_process_has_it__is_locked_and_names_it(void **state)
{
    struct place *place = *state;
    char owner[64];
    int status = 0;
    pid_t child;

    assert_int_equal(place->vfs->ops->lock(place->vfs, "lock", "pid 1 of the test", owner, 64),
                     ONCE_OK);
    child = fork();
    if (child == 0)
        _exit(lock_in_child(place->top));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void lock__same_process_twice__is_locked_until_freed(void **state)
{
    struct place *place = *state;
    struct once__vfs *second = NULL;
    char owner[64] = "", text[64] = "";
    int error = 0;
    ssize_t size;
    int fd;

    assert_int_equal(place->vfs->ops->lock(place->vfs, "lock", "a longer first text", owner, 64),
                     ONCE_OK);
    assert_int_equal(once__vfs_open(place->top, false, &second, &error), ONCE_OK);
    assert_int_equal(second->ops->lock(second, "lock", "second", owner, 64), ONCE_ERR_LOCKED);
    assert_string_equal(owner, "a longer first text");
    place->vfs->ops->free(place->vfs);
    place->vfs = second;
    assert_int_equal(second->ops->lock(second, "lock", "second", owner, 64), ONCE_OK);
    fd = open(path(place, "lock"), O_RDONLY);
    size = read(fd, text, sizeof(text) - 1);
    close(fd);
    assert_int_equal(size, 6);
    assert_string_equal(text, "second");
}

/* ---- Files, direct or not -------------------------------------------------------------------- */

static void check_durable(struct place *place, const char *name, unsigned kind)
{
    struct once__vfs *vfs = place->vfs;
    struct once__file *file = open_file(vfs, name, kind | ONCE__OPEN_CREATE | ONCE__OPEN_WRITE);
    uint8_t *data = block(3, 'a'), *back = block(4, 0);
    uint64_t size = 0;
    size_t got = 0;

    memset(data + BLOCK, 'b', BLOCK);
    assert_int_equal(once__file_write(file, 0, data, 3 * BLOCK), ONCE_OK);
    assert_int_equal(once__file_write(file, 5 * BLOCK, data + BLOCK, BLOCK), ONCE_OK);
    assert_int_equal(once__file_sync(file), ONCE_OK);
    assert_int_equal(once__file_size(file, &size), ONCE_OK);
    assert_int_equal(size, 6 * BLOCK);
    assert_int_equal(once__file_read(file, 4 * BLOCK, back, 4 * BLOCK, &got), ONCE_OK);
    assert_int_equal(got, 2 * BLOCK);
    assert_memory_equal(back + BLOCK, data + BLOCK, BLOCK);
    assert_int_equal(back[0], 0);
    assert_int_equal(once__file_read(file, 6 * BLOCK, back, BLOCK, &got), ONCE_OK);
    assert_int_equal(got, 0);
    /* A file may end inside a block all the same, when somebody cut it. */
    assert_int_equal(once__file_truncate(file, BLOCK + 700), ONCE_OK);
    assert_int_equal(once__file_read(file, 0, back, 4 * BLOCK, &got), ONCE_OK);
    assert_int_equal(got, BLOCK + 700);
    assert_memory_equal(back, data, got);
    assert_int_equal(once__file_allocate(file, 3 * BLOCK), ONCE_OK);
    assert_int_equal(once__file_allocate(file, 2 * BLOCK), ONCE_OK);
    assert_int_equal(once__file_read(file, 0, back, 4 * BLOCK, &got), ONCE_OK);
    assert_int_equal(got, 3 * BLOCK);
    assert_memory_equal(back, data, BLOCK + 700);
    for (size_t i = BLOCK + 700; i < got; i++)
        assert_int_equal(back[i], 0);
    once__file_close(file);
    free(data);
    free(back);
}

static void file__durable_and_direct__keep_every_byte(void **state)
{
    check_durable(*state, "durable", ONCE__OPEN_DURABLE);
    check_durable(*state, "direct", ONCE__OPEN_DIRECT);
    check_durable(*state, "plain", 0);
}

static void open__durable_file_is_missing__says_nothing_of_direct_access(void **state)
{
    struct once__vfs *vfs = ((struct place *)*state)->vfs;
    struct once__file *file = NULL;
    bool direct;

    check_durable(*state, "a", ONCE__OPEN_DURABLE);
    direct = vfs->direct;
    assert_int_equal(vfs->ops->open(vfs, "b", ONCE__OPEN_DURABLE, &file), ONCE_ERR_NO_STORE);
    check_durable(*state, "b", ONCE__OPEN_DURABLE);
    assert_int_equal(vfs->direct, direct);
}

static void file__direct_refused_at_open__is_buffered(void **state)
{
    struct place *place = *state;

    once__vfs_refuse(place->vfs, ONCE__REFUSE_DIRECT_OPEN);
    check_durable(place, "durable", ONCE__OPEN_DURABLE);
    check_durable(place, "direct", ONCE__OPEN_DIRECT);
    assert_false(place->vfs->direct);
}

static void file__direct_refused_at_use__is_buffered_from_then_on(void **state)
{
    struct place *place = *state;
    struct once__file *early;
    uint8_t *data = block(1, 'e');
    size_t got = 0;

    early = open_file(place->vfs, "early",
                      ONCE__OPEN_DURABLE | ONCE__OPEN_CREATE | ONCE__OPEN_WRITE);
    once__vfs_refuse(place->vfs, ONCE__REFUSE_DIRECT_USE);
    check_durable(place, "durable", ONCE__OPEN_DURABLE);
    assert_false(place->vfs->direct);
    check_durable(place, "direct", ONCE__OPEN_DIRECT);
    assert_int_equal(once__file_read(early, 0, data, BLOCK, &got), ONCE_OK);
    assert_int_equal(got, 0);
    assert_int_equal(once__file_write(early, 0, data, BLOCK), ONCE_OK);
    assert_false(place->vfs->direct);
    once__file_close(early);
    free(data);
}

static void allocate__no_fallocate__writes_zeros(void **state)
{
    struct place *place = *state;
    struct once__file *file;
    struct stat status;
    static uint8_t back[1 << 20];
    size_t got = 0;

    once__vfs_refuse(place->vfs, ONCE__REFUSE_FALLOCATE);
    check_durable(place, "durable", ONCE__OPEN_DURABLE);
    check_durable(place, "plain", 0);
    file = open_file(place->vfs, "large", ONCE__OPEN_CREATE | ONCE__OPEN_WRITE);
    assert_int_equal(once__file_write(file, 5000, "end", 3), ONCE_OK);
    assert_int_equal(once__file_allocate(file, 1 << 20), ONCE_OK);
    assert_int_equal(once__file_sync(file), ONCE_OK);
    assert_int_equal(once__file_read(file, 0, back, sizeof(back), &got), ONCE_OK);
    assert_int_equal(got, sizeof(back));
    assert_memory_equal(back + 5000, "end", 3);
    memset(back + 5000, 0, 3);
    for (size_t i = 0; i < sizeof(back); i++)
        assert_int_equal(back[i], 0);
    once__file_close(file);
    assert_int_equal(stat(path(place, "large"), &status), 0);
    assert_int_equal(status.st_size, 1 << 20);
    assert_true(status.st_blocks * 512 >= 1000 * 1000); /* really there */
}

static void plain__any_offset__reads_back_and_stops_at_the_end(void **state)
{
    struct once__vfs *vfs = ((struct place *)*state)->vfs;
    struct once__file *file = open_file(vfs, "f", ONCE__OPEN_CREATE | ONCE__OPEN_WRITE), *reader;
    char back[16] = "";
    size_t got = 0;

    assert_int_equal(once__file_write(file, 3, "hello", 5), ONCE_OK);
    reader = open_file(vfs, "f", 0);
    assert_int_equal(once__file_read(reader, 4, back, sizeof(back), &got), ONCE_OK);
    assert_int_equal(got, 4);
    assert_memory_equal(back, "ello", 4);
    assert_int_equal(once__file_write(reader, 0, "x", 1), ONCE_ERR_IO);
    assert_int_equal(vfs->system_errno, EBADF);
    once__file_close(reader);
    once__file_close(file);
}

/* ---- Room and threads ------------------------------------------------------------------------ */

static void write__past_the_limit__is_space(void **state)
{
    struct once__vfs *vfs = ((struct place *)*state)->vfs;
    struct once__file *durable = open_file(
        vfs, "d", ONCE__OPEN_CREATE | ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE);
    struct once__file *plain = open_file(vfs, "p", ONCE__OPEN_CREATE | ONCE__OPEN_WRITE);
    struct rlimit old, limit;
    uint8_t *data = block(4, 'x');
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = (struct rlimit){.rlim_cur = 2 * BLOCK, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    /* The first blocks fit: a short write, then the error. */
    assert_int_equal(once__file_write(durable, 0, data, 4 * BLOCK), ONCE_ERR_SPACE);
    assert_int_equal(vfs->system_errno, EFBIG);
    assert_int_equal(once__file_write(durable, 0, data, 2 * BLOCK), ONCE_OK);
    assert_int_equal(once__file_write(plain, BLOCK + 1, data, BLOCK), ONCE_ERR_SPACE);
    assert_int_equal(once__file_allocate(plain, 3 * BLOCK), ONCE_ERR_SPACE);
    once__vfs_refuse(vfs, ONCE__REFUSE_FALLOCATE);
    assert_int_equal(once__file_allocate(plain, 3 * BLOCK), ONCE_ERR_SPACE);
    assert_int_equal(once__file_truncate(plain, 3 * BLOCK), ONCE_ERR_SPACE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(once__file_write(durable, 0, data, 4 * BLOCK), ONCE_OK);
    once__file_close(durable);
    once__file_close(plain);
    free(data);
}

enum { WRITERS = 4, ROUNDS = 20 };

struct writer {
    struct once__file *file;
    uint64_t offset;
    int err;
};

static void *write_rounds(void *user)
{
    struct writer *writer = user;
    uint8_t *data = aligned_alloc(BLOCK, BLOCK);

    for (int i = 0; data && i < ROUNDS && writer->err == ONCE_OK; i++) {
        memset(data, i, BLOCK);
        writer->err = once__file_write(writer->file, writer->offset, data, BLOCK);
    }
    free(data);
    return NULL;
}

static void write__several_under_way__all_arrive(void **state)
{
    struct once__vfs *vfs = ((struct place *)*state)->vfs;
    static const unsigned refusals[] = {0, ONCE__REFUSE_DIRECT_USE};
    uint8_t *back = block(WRITERS, 0);

    for (int round = 0; round < 2; round++) {
        struct once__file *file = open_file(
            vfs, "f", ONCE__OPEN_CREATE | ONCE__OPEN_WRITE | ONCE__OPEN_DURABLE);
        struct writer writers[WRITERS];
        pthread_t threads[WRITERS];
        size_t got = 0;

        once__vfs_refuse(vfs, refusals[round]);
        for (int i = 0; i < WRITERS; i++) {
            writers[i] = (struct writer){.file = file, .offset = (uint64_t)i * BLOCK};
            assert_int_equal(pthread_create(&threads[i], NULL, write_rounds, &writers[i]), 0);
        }
        for (int i = 0; i < WRITERS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_int_equal(writers[i].err, ONCE_OK);
        }
        assert_int_equal(once__file_read(file, 0, back, WRITERS * BLOCK, &got), ONCE_OK);
        assert_int_equal(got, WRITERS * BLOCK);
        for (int i = 0; i < WRITERS * BLOCK; i++)
            assert_int_equal(back[i], ROUNDS - 1);
        once__file_close(file);
    }
    free(back);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(open__folder_is_missing__is_no_store),
        TEST(open__make__makes_the_way_and_keeps_the_store_private),
        TEST(open__relative_path__is_made_here),
        TEST(open__read_only_folder__is_permission),
        TEST(names__made_renamed_removed__are_listed_so),
        TEST(lock__another_process_has_it__is_locked_and_names_it),
        TEST(lock__same_process_twice__is_locked_until_freed),
        TEST(file__durable_and_direct__keep_every_byte),
        TEST(open__durable_file_is_missing__says_nothing_of_direct_access),
        TEST(file__direct_refused_at_open__is_buffered),
        TEST(file__direct_refused_at_use__is_buffered_from_then_on),
        TEST(allocate__no_fallocate__writes_zeros),
        TEST(plain__any_offset__reads_back_and_stops_at_the_end),
        TEST(write__past_the_limit__is_space),
        TEST(write__several_under_way__all_arrive),
    };

    return cmocka_run_group_tests_name("vfs", tests, NULL, NULL);
}
