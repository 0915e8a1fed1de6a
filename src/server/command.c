/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding commands and starting them: everything that is the same for each of them. Owns the hash
 * of the table's names and the memory of requests; knows nothing of any single command.
 *
 * Every command that is started is answered, or has calls, a job or a login under way: there is no
 * third way out of once__command_start.
 */
#include "server/command.h"

#include "base/assert.h"
#include "server/server.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Finding --------------------------------------------------------------------------------- */

enum {
    NAME_SIZE_MAX = 24, /* of one word */
    SLOTS = 512,        /* a power of two; the table fills less than half */
    COMMANDS_MAX = 200
};

/* Which command stands where: its number plus one, 0 is nobody. Written once. */
static uint8_t slots[SLOTS];
static uint8_t name_sizes[COMMANDS_MAX];
static char full_names[COMMANDS_MAX][2 * NAME_SIZE_MAX + 2];
static pthread_once_t indexed = PTHREAD_ONCE_INIT;

static inline uint8_t upper(uint8_t c)
{
    return c >= 'a' && c <= 'z' ? (uint8_t)(c - 'a' + 'A') : c;
}

static inline bool same(const uint8_t *data, const char *word, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (upper(data[i]) != (uint8_t)word[i])
            return false;
    return true;
}

/* The first and the last eight bytes without the bit of lower case: every byte of a name of up to
 * 16 counts, and longer names differ there too. */
static uint32_t hash(const uint8_t *data, size_t size, uint32_t parent)
{
    const uint64_t fold = 0xdfdfdfdfdfdfdfdfULL;
    uint64_t first = 0, last = 0;

    if (size >= 8) {
        memcpy(&first, data, 8);
        memcpy(&last, data + size - 8, 8);
    } else {
        memcpy(&first, data, size);
    }
    first = (first & fold) * 0x9e3779b97f4a7c15ULL;
    last = (last & fold) + parent + size;
    return (uint32_t)(((first ^ (first >> 29) ^ last) * 0xbf58476d1ce4e5b9ULL) >> 40);
}

/* The parent of a subcommand as hash and comparison want it: its number plus one; 0 is none. */
static uint32_t parent_number(const char *name)
{
    size_t i = 0;

    if (!name)
        return 0;
    while (i < once__command_count &&
           (once__commands[i].parent || strcmp(once__commands[i].name, name) != 0))
        i++;
    ONCE_ASSERT(i < once__command_count); /* the table has every parent */
    return (uint32_t)i + 1;
}

static void write_full_name(const struct once__command *command, char *text, size_t size)
{
    (void)snprintf(text, size, "%s%s%s", command->parent ? command->parent : "",
                   command->parent ? "|" : "", command->name);
    for (char *c = text; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
}

static void index_commands(void)
{
    ONCE_ASSERT(once__command_count <= COMMANDS_MAX);
    for (size_t i = 0; i < once__command_count; i++) {
        const struct once__command *command = &once__commands[i];
        size_t size = strlen(command->name);
        uint32_t slot;

        ONCE_ASSERT(size > 0 && size <= NAME_SIZE_MAX);
        name_sizes[i] = (uint8_t)size;
        write_full_name(command, full_names[i], sizeof(full_names[i]));
        slot = hash((const uint8_t *)command->name, size, parent_number(command->parent));
        while (slots[slot % SLOTS] != 0)
            slot++;
        slots[slot % SLOTS] = (uint8_t)(i + 1);
    }
}

_Static_assert(COMMANDS_MAX < 256, "a slot is a byte");

static const struct once__command *find_word(struct once_bytes word,
                                             const struct once__command *parent)
{
    uint32_t number = parent ? (uint32_t)(parent - once__commands) + 1 : 0;
    uint32_t slot;

    if (word.size == 0 || word.size > NAME_SIZE_MAX)
        return NULL;
    slot = hash(word.data, word.size, number);
    for (; slots[slot % SLOTS] != 0; slot++) {
        size_t i = slots[slot % SLOTS] - 1U;
        const struct once__command *command = &once__commands[i];

        if (name_sizes[i] == word.size && same(word.data, command->name, word.size) &&
            (parent ? command->parent && strcmp(command->parent, parent->name) == 0
                    : !command->parent))
            return command;
    }
    return NULL;
}

/* Subcommands stand right behind their parent in the table. */
static bool has_subcommands(const struct once__command *command)
{
    const struct once__command *next = command + 1;

    return next < once__commands + once__command_count && next->parent != NULL && !command->parent;
}

const struct once__command *once__command_find(const struct once_bytes *args, size_t arg_count,
                                               const char **ret_what)
{
    const struct once__command *command;

    (void)pthread_once(&indexed, index_commands);
    command = arg_count > 0 ? find_word(args[0], NULL) : NULL;
    if (!command) {
        *ret_what = "command";
        return NULL;
    }
    if (arg_count == 1 || !has_subcommands(command))
        return command;
    command = find_word(args[1], command);
    if (!command)
        *ret_what = "subcommand";
    return command;
}

bool once__command_arity_ok(const struct once__command *command, size_t arg_count)
{
    return command->arity >= 0 ? arg_count == (size_t)command->arity
                               : arg_count >= (size_t)-command->arity;
}

const char *once__command_full_name(const struct once__command *command)
{
    ONCE_ASSERT(command >= once__commands && command < once__commands + once__command_count);
    (void)pthread_once(&indexed, index_commands);
    return full_names[command - once__commands];
}

/* ---- Starting -------------------------------------------------------------------------------- */

static enum once__next unknown(const struct once__request *request, struct once__out *out,
                               const char *what)
{
    struct once__echo name;
    char shown[256] = "";
    size_t size = 0;

    if (strcmp(what, "subcommand") == 0) {
        struct once__echo parent = once__arg_echo(request->args[0]);

        name = once__arg_echo(request->args[1]);
        for (char *c = parent.text; *c; c++)
            *c = (char)upper((uint8_t)*c);
        once__out_error(out, "ERR", "unknown subcommand '%s'. Try %s HELP.", name.text,
                        parent.text);
        return ONCE__ANSWERED;
    }
    name = once__arg_echo(request->arg_count > 0 ? request->args[0] : (struct once_bytes){NULL, 0});
    for (size_t i = 1; i < request->arg_count; i++) {
        struct once__echo arg = once__arg_echo(request->args[i]);
        size_t more = strlen(arg.text) + 3;

        if (size + more >= sizeof(shown))
            break;
        size += (size_t)snprintf(shown + size, sizeof(shown) - size, "'%s' ", arg.text);
    }
    once__out_error(out, "ERR", "unknown command '%s', with args beginning with: %s", name.text,
                    shown);
    return ONCE__ANSWERED;
}

static enum once__next loading(const struct once__request *request, struct once__out *out)
{
    struct once__status status = once__server_status(request->session->server);

    if (status.phase == ONCE__FAILED)
        once__out_err(out, ONCE_ERR_STOPPED, NULL);
    else if (status.to_load > 0)
        once__out_error(out, "LOADING", "the store is being opened: %u %% of it is read (%s)",
                        (unsigned)((double)status.loaded * 100 / (double)status.to_load),
                        once_err_name(ONCE_ERR_LOADING));
    else
        once__out_err(out, ONCE_ERR_LOADING, NULL);
    return ONCE__ANSWERED;
}

/* Is this one allowed to, as far as that depends on the command alone? Else it was answered. */
static bool admitted(const struct once__request *request, struct once__out *out)
{
    const struct once__identity *identity = &request->session->identity;
    unsigned flags = request->command->flags;
    enum once__role needed = flags & ONCE__COMMAND_ADMIN   ? ONCE__ROLE_ADMIN
                             : flags & ONCE__COMMAND_WRITE ? ONCE__ROLE_WRITE
                                                           : ONCE__ROLE_READ;

    if (flags & ONCE__COMMAND_NO_AUTH)
        return true;
    if (!identity->known) {
        once__out_error(out, "NOAUTH", "Authentication required.");
        return false;
    }
    if (identity->role < needed) {
        once__out_error(out, "NOPERM", "this user has no permissions to run the '%s' command (%s)",
                        once__command_full_name(request->command), once_err_name(ONCE_ERR_DENIED));
        return false;
    }
    return true;
}

enum once__next once__command_start(struct once__request *request, struct once__out *out)
{
    struct once__session *session = request->session;
    const char *what = NULL;

    memset(&request->command, 0, sizeof(*request) - offsetof(struct once__request, command));
    request->command = once__command_find(request->args, request->arg_count, &what);
    if (!request->command)
        return unknown(request, out, what);
    if (!once__command_arity_ok(request->command, request->arg_count)) {
        once__out_wrong_count(request, out);
        return ONCE__ANSWERED;
    }
    if (!admitted(request, out))
        return ONCE__ANSWERED;
    session->last_command = full_names[request->command - once__commands];
    if (!(request->command->flags & ONCE__COMMAND_NO_STORE) &&
        !once__service_store(once__server_service(session->server)))
        return loading(request, out);
    return request->command->start(request, out);
}

/* ---- A request ------------------------------------------------------------------------------- */

struct once__request_memory {
    struct once__request_memory *next;
    max_align_t bytes[];
};

void *once__request_alloc(struct once__request *request, size_t size)
{
    struct once__request_memory *memory;

    if (size > SIZE_MAX - sizeof(*memory))
        return NULL;
    memory = calloc(1, sizeof(*memory) + size);
    if (!memory)
        return NULL;
    memory->next = request->memory;
    request->memory = memory;
    return memory->bytes;
}

void once__request_release(struct once__request *request)
{
    if (request->release)
        request->release(request);
    request->release = NULL;
    for (size_t i = 0; i < request->call_count; i++)
        once_reply_release(&request->calls[i].op.reply);
    request->call_count = 0;
    while (request->memory) {
        struct once__request_memory *next = request->memory->next;

        free(request->memory);
        request->memory = next;
    }
}

struct once__call *once__request_calls(struct once__request *request, struct once__out *out,
                                       size_t count)
{
    ONCE_ASSERT(count > 0 && count <= ONCE_COMMAND_ARGS_MAX);
    request->calls = count == 1 ? &request->one
                                : once__request_alloc(request, count * sizeof(*request->calls));
    if (!request->calls) {
        once__out_err(out, ONCE_ERR_MEMORY, NULL);
        return NULL;
    }
    request->call_count = count;
    return request->calls;
}

enum once__next once__request_send(struct once__request *request, struct once__out *out)
{
    struct once__session *session = request->session;
    struct once__service *service = once__server_service(session->server);

    ONCE_ASSERT(request->call_count > 0);
    for (size_t i = 0; i < request->call_count; i++) {
        struct once__call *call = &request->calls[i];

        call->from = session->from;
        if (once__service_check(service, session->config, &session->identity, call) != ONCE_OK) {
            once__out_call_error(out, &call->op.reply);
            return ONCE__ANSWERED;
        }
    }
    return ONCE__CALLS;
}
