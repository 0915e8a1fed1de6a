/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a user's merge in a child process.
 *
 * The child loads the plugin and runs the laws of merge_check.c on it. Before each call it notes in
 * shared memory which function it is about to call with which arguments, so that the parent can
 * tell what the last call was however the child ended. The plugin never runs in the parent.
 *
 * The plugin is held to its contract at every call. It is called twice over different garbage:
 * under the result, and around each argument, so that a result that depends on either is two
 * results. Arguments, and the garbage around them, must be untouched afterwards, and the result
 * must fit. Arguments, results and descriptions end where a page begins that nobody may touch
 * (arguments up to the alignment that they are promised).
 *
 * A plugin may fork. Only the process that began the check goes on with it; a copy that comes back
 * from a call ends there.
 */
#include "laws/plugin.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <once/laws_plugin.h>

#include "base/assert.h"
#include "laws/sandbox.h"
#include "laws/text.h"

enum {
    STATE_CAPACITY = ONCE_LAWS_STATE_CAPACITY,
    TEXT_CAPACITY = ONCE_LAWS_TEXT_CAPACITY,
    HEX_BYTES_MAX = 16,         /* of a state that cannot be described */
    DESCRIBE_TIMEOUT_MS = 2000, /* for the arguments of the last call */
    FILL_EXTRA = 64,
    ALIGNMENT = _Alignof(max_align_t)
};

typedef size_t generate_fn(uint64_t index, void *state, size_t capacity);
typedef size_t merge_fn(const void *a, size_t a_size, const void *b, size_t b_size, void *out,
                        size_t capacity);
typedef size_t describe_fn(const void *state, size_t size, char *text, size_t capacity);

/* What the child is doing. */
enum call { CALL_LOAD, CALL_GENERATE, CALL_MERGE, CALL_DESCRIBE, CALL_NONE };

struct argument {
    size_t size;
    uint8_t bytes[STATE_CAPACITY];
};

/* What parent and child share. The plugin could scribble on it: the parent checks sizes. */
struct shared {
    bool done;
    enum once__plugin_status status;
    char problem[ONCE__PLUGIN_MESSAGE_SIZE];
    enum call call;
    uint64_t index;
    struct argument arguments[2];
    char texts[2][TEXT_CAPACITY * 4 + 4]; /* the arguments described; empty: not */
    uint64_t small;
    uint64_t large;
    struct once__law_finding findings[ONCE__PLUGIN_LAW_COUNT];
};

struct plugin {
    const char *path;
    struct once__effort effort;
    struct shared *shared;
    generate_fn *generate;
    merge_fn *merge;
    describe_fn *describe;
    uint8_t *room[3]; /* STATE_CAPACITY bytes each, between two forbidden pages */
    pid_t pid;        /* of the process that checks */
    size_t result_size_last;
};

/* --- In the child --- */

/* After every call into the plugin: a copy of this process must not count, report or print. */
static void leave_if_copy(const struct plugin *plugin)
{
    if (getpid() != plugin->pid)
        _exit(0);
}

/* Notes what is wrong and ends the check: ONCE_ERR_INVALID, with everything the parent needs in
 * shared. */
__attribute__((format(printf, 3, 4))) static int
give_up(struct shared *shared, enum once__plugin_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(shared->problem, sizeof(shared->problem), format, args);
    va_end(args);
    shared->status = status;
    shared->done = true;
    return ONCE_ERR_INVALID;
}

static int find(struct plugin *plugin, void *library, const char *name, void *ret_function)
{
    void *symbol = dlsym(library, name);

    if (symbol == NULL)
        return give_up(plugin->shared, ONCE__PLUGIN_NOT_LOADED,
                       "the plugin does not export %s; it needs once_laws_generate, "
                       "once_laws_merge and once_laws_describe, as in <once/laws_plugin.h>",
                       name);
    memcpy(ret_function, &symbol, sizeof(symbol)); /* ISO C has no cast from data to function */
    return ONCE_OK;
}

static int load(struct plugin *plugin)
{
    char path[PATH_MAX + 3];
    void *library;
    int err;

    snprintf(path, sizeof(path), "%s%s", strchr(plugin->path, '/') == NULL ? "./" : "",
             plugin->path);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    leave_if_copy(plugin);
    if (library == NULL)
        return give_up(plugin->shared, ONCE__PLUGIN_NOT_LOADED, "cannot load the plugin: %s",
                       dlerror());
    err = find(plugin, library, "once_laws_generate", &plugin->generate);
    if (err == ONCE_OK)
        err = find(plugin, library, "once_laws_merge", &plugin->merge);
    if (err == ONCE_OK)
        err = find(plugin, library, "once_laws_describe", &plugin->describe);
    return err;
}

static int make_rooms(struct plugin *plugin)
{
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);

    ONCE_ASSERT(STATE_CAPACITY % page_size == 0);
    for (size_t i = 0; i < sizeof(plugin->room) / sizeof(plugin->room[0]); i++) {
        uint8_t *pages = mmap(NULL, STATE_CAPACITY + 2 * page_size, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, (off_t)0);

        if (pages == MAP_FAILED ||
            mprotect(pages + page_size, STATE_CAPACITY, PROT_READ | PROT_WRITE) != 0)
            return ONCE_ERR_MEMORY;
        plugin->room[i] = pages + page_size;
    }
    return ONCE_OK;
}

/* Tells the parent. */
static void note_argument(struct plugin *plugin, size_t which, struct once_bytes state)
{
    struct argument *argument = &plugin->shared->arguments[which];

    ONCE_ASSERT(state.size <= STATE_CAPACITY);
    argument->size = state.size;
    if (state.size > 0)
        memcpy(argument->bytes, state.data, state.size);
}

/* Different at the first and at the second call. */
static uint8_t garbage(bool again)
{
    return again ? 0xa5 : 0x5a;
}

/* Where an argument lies in its room: at the end, garbage before it and in what its alignment
 * leaves behind it. */
struct place {
    uint8_t *start;
    size_t before_size;
    size_t behind_size;
};

static struct place place_of(const struct plugin *plugin, size_t which, size_t size)
{
    size_t aligned_size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t free_size = STATE_CAPACITY - aligned_size;

    ONCE_ASSERT(size <= STATE_CAPACITY);
    return (struct place){.start = plugin->room[which] + free_size,
                          .before_size = free_size < FILL_EXTRA ? free_size : FILL_EXTRA,
                          .behind_size = aligned_size - size};
}

/* Copies an argument to where the plugin sees it. */
static const uint8_t *put_argument(struct plugin *plugin, size_t which, struct once_bytes state,
                                   bool again)
{
    struct place place = place_of(plugin, which, state.size);

    memset(place.start - place.before_size, garbage(again), place.before_size);
    if (state.size > 0)
        memcpy(place.start, state.data, state.size);
    memset(place.start + state.size, garbage(again), place.behind_size);
    return place.start;
}

static bool is_garbage(const uint8_t *bytes, size_t size, bool again)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != garbage(again))
            return false;
    }
    return true;
}

static int check_argument(struct plugin *plugin, size_t which, struct once_bytes state, bool again)
{
    static const char *const names[] = {"a", "b"};
    struct place place = place_of(plugin, which, state.size);

    if (state.size > 0 && memcmp(place.start, state.data, state.size) != 0)
        return give_up(plugin->shared, ONCE__PLUGIN_BROKEN, "the plugin changed its argument %s",
                       names[which]);
    if (!is_garbage(place.start - place.before_size, place.before_size, again) ||
        !is_garbage(place.start + state.size, place.behind_size, again))
        return give_up(plugin->shared, ONCE__PLUGIN_BROKEN,
                       "the plugin wrote beside its argument %s", names[which]);
    return ONCE_OK;
}

static uint8_t *result_room(struct plugin *plugin, size_t expected_size, bool again)
{
    size_t size = expected_size > plugin->result_size_last ? expected_size
                                                           : plugin->result_size_last;

    size = size + FILL_EXTRA < STATE_CAPACITY ? size + FILL_EXTRA : STATE_CAPACITY;
    memset(plugin->room[2], garbage(again), size);
    return plugin->room[2];
}

/* Takes the first result into out, compares the second one with it. */
static int take_result(struct plugin *plugin, size_t size, bool again, size_t out_start,
                       struct once_buf *out)
{
    if (size > STATE_CAPACITY)
        return give_up(plugin->shared, ONCE__PLUGIN_BROKEN,
                       "the plugin returned a size of %zu, more than its capacity of %d", size,
                       STATE_CAPACITY);
    plugin->result_size_last = size;
    if (!again)
        return once_buf_append(out, plugin->room[2], size);
    if (size == out->size - out_start &&
        (size == 0 || memcmp(out->data + out_start, plugin->room[2], size) == 0))
        return ONCE_OK;
    return give_up(plugin->shared, ONCE__PLUGIN_BROKEN,
                   "the plugin gave two different results for the same arguments (it must write "
                   "every byte that it counts, padding too, and read nothing but its arguments)");
}

/* 1 when there is no such state. */
static int generate(struct plugin *plugin, uint64_t index, struct once_buf *out)
{
    size_t start = out->size;
    int err = ONCE_OK;

    plugin->shared->call = CALL_GENERATE;
    plugin->shared->index = index;
    for (int again = 0; err == ONCE_OK && again < 2; again++) {
        size_t size = plugin->generate(index, result_room(plugin, 0, again), STATE_CAPACITY);

        leave_if_copy(plugin);
        if (size == ONCE_LAWS_END)
            return 1;
        err = take_result(plugin, size, again, start, out);
    }
    return err;
}

static int plugin_generate(void *context, uint64_t index, struct once_buf *out)
{
    struct plugin *plugin = context;
    int err = generate(plugin, index, out);

    if (err == 1)
        return give_up(plugin->shared, ONCE__PLUGIN_BROKEN,
                       "the plugin says ONCE_LAWS_END where it gave a state before, or gives one "
                       "at a higher index,");
    return err;
}

static int plugin_merge(void *context, struct once_bytes a, struct once_bytes b,
                        struct once_buf *out)
{
    struct plugin *plugin = context;
    size_t start = out->size;
    int err = ONCE_OK;

    plugin->shared->call = CALL_MERGE;
    note_argument(plugin, 0, a);
    note_argument(plugin, 1, b);
    for (int again = 0; err == ONCE_OK && again < 2; again++) {
        const uint8_t *first = put_argument(plugin, 0, a, again);
        const uint8_t *second = put_argument(plugin, 1, b, again);
        uint8_t *room = result_room(plugin, a.size + b.size, again);
        size_t size = plugin->merge(first, a.size, second, b.size, room, STATE_CAPACITY);

        leave_if_copy(plugin);
        err = check_argument(plugin, 0, a, again);
        if (err == ONCE_OK)
            err = check_argument(plugin, 1, b, again);
        if (err == ONCE_OK)
            err = take_result(plugin, size, again, start, out);
    }
    return err;
}

static int call_describe(struct plugin *plugin, struct once_bytes state, struct once_buf *out)
{
    char *text = (char *)plugin->room[2] + STATE_CAPACITY - TEXT_CAPACITY;
    const uint8_t *argument = put_argument(plugin, 0, state, false);
    size_t size;
    int err;

    memset(text, 0, TEXT_CAPACITY);
    size = plugin->describe(argument, state.size, text, TEXT_CAPACITY);
    leave_if_copy(plugin);
    err = once_buf_append(out, text, strnlen(text, size < TEXT_CAPACITY ? size : TEXT_CAPACITY));
    if (err == ONCE_OK && size >= TEXT_CAPACITY)
        err = once_buf_append(out, "...", 3);
    return err;
}

static int plugin_describe(void *context, struct once_bytes state, struct once_buf *out)
{
    struct plugin *plugin = context;

    plugin->shared->call = CALL_DESCRIBE;
    note_argument(plugin, 0, state);
    return call_describe(plugin, state, out);
}

/* How many states there are below limit. The plugin says END from some index on, so halving
 * finds it. */
static int count_states(struct plugin *plugin, uint64_t limit, uint64_t *ret_count)
{
    uint64_t low = 0, high = limit;
    struct once_buf state;
    int err = ONCE_OK;

    once_buf_init(&state, STATE_CAPACITY);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        once_buf_clear(&state);
        err = generate(plugin, middle, &state);
        if (err < 0)
            break;
        if (err == 1)
            high = middle;
        else
            low = middle + 1;
    }
    once_buf_release(&state);
    if (err < 0)
        return err;
    *ret_count = low;
    return ONCE_OK;
}

static int check(struct plugin *plugin)
{
    struct once__mergeable mergeable = {
        .context = plugin,
        .generate = plugin_generate,
        .merge = plugin_merge,
        .describe = plugin_describe,
        .state_size_max = STATE_CAPACITY,
    };
    int err;

    plugin->shared->call = CALL_LOAD;
    err = load(plugin);
    if (err == ONCE_OK)
        err = make_rooms(plugin);
    if (err == ONCE_OK)
        err = count_states(plugin, ONCE_LAWS_INDEX_LARGE, &mergeable.large);
    if (err != ONCE_OK)
        return err;
    if (mergeable.large == 0)
        return give_up(plugin->shared, ONCE__PLUGIN_BROKEN, "the plugin has no state to check");
    mergeable.small = mergeable.large < ONCE_LAWS_INDEX_SMALL ? mergeable.large
                                                              : ONCE_LAWS_INDEX_SMALL;
    plugin->shared->small = mergeable.small;
    plugin->shared->large = mergeable.large;
    return once__law_check_merge(&mergeable, plugin->effort, ONCE__PLUGIN_LAW_COUNT,
                                 plugin->shared->findings);
}

static void check_in_child(void *argument)
{
    struct plugin *plugin = argument;
    int err;

    plugin->pid = getpid();
    err = check(plugin);
    if (plugin->shared->done) /* it gave up */
        return;
    if (err != ONCE_OK) {
        give_up(plugin->shared, ONCE__PLUGIN_BROKEN, "the check stopped (%s)", once_err_text(err));
        return;
    }
    plugin->shared->call = CALL_NONE;
    plugin->shared->status = ONCE__PLUGIN_CHECKED;
    plugin->shared->done = true;
}

/* The arguments of the last merge, for the parent. Reads the notes and leaves them as they are. */
static void describe_in_child(void *argument)
{
    struct plugin *plugin = argument;
    struct shared *shared = plugin->shared;
    struct once_buf text;

    plugin->pid = getpid();
    once_buf_init(&text, TEXT_CAPACITY + 3);
    if (load(plugin) != ONCE_OK || make_rooms(plugin) != ONCE_OK)
        return;
    for (size_t i = 0; i < 2; i++) {
        struct once__text escaped = once__text_in(shared->texts[i], sizeof(shared->texts[i]));
        struct once_bytes state = {shared->arguments[i].bytes, shared->arguments[i].size};

        if (state.size > STATE_CAPACITY)
            return;
        once_buf_clear(&text);
        if (call_describe(plugin, state, &text) == ONCE_OK)
            once__text_add_bytes(&escaped, once_buf_bytes(&text));
    }
}

/* --- In the parent --- */

static void add_hex(struct once__text *text, const struct argument *argument)
{
    size_t size = argument->size <= STATE_CAPACITY ? argument->size : 0;

    once__text_add(text, "bytes ");
    for (size_t i = 0; i < size && i < HEX_BYTES_MAX; i++)
        once__text_add(text, "%02x", argument->bytes[i]);
    once__text_add(text, size > HEX_BYTES_MAX ? "... (%zu of them)" : " (%zu)", size);
}

static void add_argument(struct once__text *text, const struct shared *shared, size_t which)
{
    size_t room = sizeof(shared->texts[which]);

    if (shared->texts[which][0] != '\0')
        once__text_add(text, "%.*s", (int)strnlen(shared->texts[which], room),
                       shared->texts[which]);
    else
        add_hex(text, &shared->arguments[which]);
}

/* " in merge(a=1, b=2)": the last call that the child noted. */
static void add_call(struct once__text *text, struct plugin *plugin)
{
    struct shared *shared = plugin->shared;
    struct once__sandbox_result ignored;

    if (shared->call == CALL_MERGE) {
        /* Whether this comes to an end does not matter: without texts there are still the bytes. */
        if (once__sandbox_run(describe_in_child, plugin, DESCRIBE_TIMEOUT_MS, &ignored) < 0)
            shared->texts[0][0] = shared->texts[1][0] = '\0';
        once__text_add(text, " in merge(a=");
        add_argument(text, shared, 0);
        once__text_add(text, ", b=");
        add_argument(text, shared, 1);
        once__text_add(text, ")");
    } else if (shared->call == CALL_GENERATE) {
        once__text_add(text, " in generate(index=%" PRIu64 ")", shared->index);
    } else if (shared->call == CALL_DESCRIBE) {
        once__text_add(text, " in describe(");
        add_hex(text, &shared->arguments[0]);
        once__text_add(text, ")");
    } else if (shared->call == CALL_LOAD) {
        once__text_add(text, " while it was loaded");
    }
}

static void describe_end(struct once__text *text, const struct once__sandbox_result *result,
                         unsigned timeout_ms)
{
    if (result->end == ONCE__SANDBOX_TIMED_OUT)
        once__text_add(text, "the plugin was not finished after %g s", timeout_ms / 1000.0);
    else if (result->end == ONCE__SANDBOX_KILLED)
        once__text_add(text, "the plugin crashed (signal %d)", result->number);
    else
        once__text_add(text, "the plugin ended the process (exit status %d)", result->number);
}

static void make_report(struct plugin *plugin, const struct once__sandbox_result *result,
                        unsigned timeout_ms, struct once__plugin_report *report)
{
    const struct shared *shared = plugin->shared;
    struct once__text text = once__text_in(report->message, sizeof(report->message));
    bool told = shared->done && result->end == ONCE__SANDBOX_EXITED && result->number == 0;

    report->status = told ? shared->status : ONCE__PLUGIN_BROKEN;
    report->small = shared->small;
    report->large = shared->large;
    if (report->status == ONCE__PLUGIN_CHECKED) {
        memcpy(report->findings, shared->findings, sizeof(report->findings));
        return;
    }
    if (told)
        once__text_add(&text, "%.*s", (int)strnlen(shared->problem, sizeof(shared->problem)),
                       shared->problem);
    else
        describe_end(&text, result, timeout_ms);
    if (report->status == ONCE__PLUGIN_BROKEN)
        add_call(&text, plugin);
    if (!told && result->end == ONCE__SANDBOX_TIMED_OUT)
        once__text_add(&text, ": it never returns, or it needs more time");
}

int once__plugin_check(const char *path, const struct once__plugin_options *options,
                       struct once__plugin_report *ret_report)
{
    struct plugin plugin = {.path = path, .effort = options->effort};
    struct once__sandbox_result result;
    int err = ONCE_ERR_MEMORY;

    plugin.shared = once__sandbox_share(sizeof(*plugin.shared));
    if (plugin.shared == NULL)
        goto out;
    err = once__sandbox_run(check_in_child, &plugin, options->timeout_ms, &result);
    if (err == ONCE_OK)
        make_report(&plugin, &result, options->timeout_ms, ret_report);
out:
    once__sandbox_unshare(plugin.shared, sizeof(*plugin.shared));
    return err;
}
