/* SPDX-License-Identifier: Apache-2.0
 *
 * The embedded engine and a store on PostgreSQL, asked the same: every answer must be the same, and
 * so must every object in the end. Random effects of every kind on a few names, under a few keys
 * that are used again and again, without keys, many in one call; merges, values and begins between
 * them.
 *
 *     ONCE_PG_URL=postgres://… pg_twin [seed [rounds]]     prints the seed of a run that failed
 *
 * The database must be empty. What may differ: fences, versions of mergeable objects, and the
 * times that a reason names.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <once/apply.h>
#include <once/store.h>

#include "store/postgres/pg.h"

enum { OPS_MAX = 24, EFFECTS = 4, WORDS_MAX = 8, WORD_SIZE = 40, NAMES = 40, KEYS = 30 };

static struct once_store *engine, *shared;
static uint64_t random_state, seed_given;
static unsigned long asked, words[ONCE_REJECTED + 1], errors;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fprintf(stderr, "pg_twin: seed %" PRIu64 ": ", seed_given);
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "\n");
    va_end(args);
    _exit(1); /* the store's threads go on, and libraries must not end below them */
}

/* splitmix64: the same sequence for the same seed everywhere. */
static uint64_t chance(uint64_t below)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

/* ---- What is asked --------------------------------------------------------------------------- */

/* n: a number; c: one that may be negative; o: a node; m: a member; v: a value; t: a token; s: a
 * state. Small letters stand for a word of that kind, all else for itself; name comes first. */
static const char *const forms[] = {
    "ADD c",           "ADD c MIN 0",    "ADD c MIN -5 MAX 9",
    "MAX c",           "MIN c",          "FLAG",
    "UNION m",         "UNION m m m",    "CLOCK o n",
    "LWW n o v",       "GADD o n",       "PNADD o c",
    "INSERT o m",      "INSERT o m m",   "REMOVE m",
    "REMOVE m m",      "SET v",          "SET v IF n",
    "DELETE",          "DELETE IF n",    "MACHINE a>b b>c",
    "MACHINE a>b b>a", "MOVE s s",       "APPEND v v",
    "APPEND v v AT n", "GRANT",          "GUARD t",
    "LEASE o 600000",  "RENEW t 900000", "RELEASE t",
    "HOLD t",          "SEQ n n",        "BUCKET m n",
    "EMIT v",          "EMIT v GROUP o", "SENT n",
    "SENT n n",        "NONSENSE v",
};
enum { FORMS = sizeof(forms) / sizeof(*forms) };

struct effect {
    char texts[WORDS_MAX][WORD_SIZE];
    struct once_bytes words[WORDS_MAX];
    size_t count;
};

struct request {
    struct effect effects[EFFECTS];
    struct once_do dos[EFFECTS];
    char key[WORD_SIZE], value[WORD_SIZE], state[WORD_SIZE];
    uint8_t merge[4096];
};

__attribute__((format(printf, 2, 3))) static void word(struct effect *effect, const char *format,
                                                       ...)
{
    va_list args;
    char *text = effect->texts[effect->count];

    va_start(args, format);
    (void)vsnprintf(text, WORD_SIZE, format, args);
    va_end(args);
    effect->words[effect->count++] = once_bytes_of(text);
}

static void word_of_kind(struct effect *effect, const char *kind)
{
    switch (kind[1] == '\0' ? kind[0] : '-') {
    case 'n':
        word(effect, "%" PRIu64, chance(6));
        break;
    case 'c':
        word(effect, "%" PRId64, (int64_t)chance(9) - 4);
        break;
    case 'o':
        word(effect, "node%" PRIu64, chance(3));
        break;
    case 'm':
        word(effect, "member%" PRIu64, chance(5));
        break;
    case 'v':
        word(effect, "\xc3\xa4 value %" PRIu64, chance(1000));
        break;
    case 't':
        word(effect, "%" PRIu64, chance(5));
        break;
    case 's':
        word(effect, "%c", (int)('a' + chance(4)));
        break;
    default:
        word(effect, "%s", kind);
    }
}

/* Names are mostly used by one kind of effect, so that something comes of them. */
static void make_effect(struct effect *effect)
{
    uint64_t form = chance(FORMS), name = chance(10) == 0 ? chance(NAMES) : form;
    char text[64], *rest = text, *part;

    effect->count = 0;
    (void)snprintf(text, sizeof(text), "%s", forms[form]);
    if (strncmp(text, "ADD", 3) == 0)
        name = chance(3);
    part = strsep(&rest, " ");
    word(effect, "%s", part);
    for (uint64_t i = 0; i < FORMS && name == form; i++) { /* one name for all of a type's forms */
        if (strncmp(forms[i], text, 3) == 0)
            name = i;
    }
    if (strcmp(text, "REMOVE") == 0)
        name = 12;
    if (strcmp(text, "DELETE") == 0)
        name = 16;
    if (strcmp(text, "MOVE") == 0)
        name = 20 + chance(2);
    if (strcmp(text, "GUARD") == 0)
        name = 25;
    if (strcmp(text, "RENEW") == 0 || strcmp(text, "RELEASE") == 0 || strcmp(text, "HOLD") == 0)
        name = 27;
    if (strcmp(text, "SENT") == 0)
        name = 33;
    word(effect, "it's:%" PRIu64 "\\\"%%", name);
    while ((part = strsep(&rest, " ")) != NULL)
        word_of_kind(effect, part);
}

static void make_key(struct request *request)
{
    (void)snprintf(request->key, sizeof(request->key), "key '%" PRIu64 "'", chance(KEYS));
}

static void make_apply(struct request *request, struct once_op *op)
{
    size_t count = 1 + chance(EFFECTS) * chance(2);

    for (size_t i = 0; i < count; i++) {
        make_effect(&request->effects[i]);
        request->dos[i] = (struct once_do){request->effects[i].words, request->effects[i].count};
    }
    *op = (struct once_op){.call = ONCE_CALL_APPLY, .dos = request->dos, .do_count = count};
    if (chance(3) == 0)
        return; /* without a key */
    op->ns = once_bytes_of("shop");
    op->key = once_bytes_of(request->key);
    if (chance(8) != 0) /* mostly a new key: what is remembered is only sometimes asked for */
        (void)snprintf(request->key, sizeof(request->key), "new %" PRIu64, chance(UINT64_MAX));
    if (chance(2) == 0)
        op->fingerprint = once_bytes_of("one fingerprint");
    op->ttl_ms = chance(4) == 0 ? 3600000 : 0;
}

/* The state of one object, merged into another of the same name or not. */
static bool make_merge(struct request *request, struct once_op *op)
{
    struct once_object object;
    char name[WORD_SIZE];
    bool made = false;

    (void)snprintf(name, sizeof(name), "it's:%" PRIu64 "\\\"%%", chance(NAMES));
    if (once_object_get(engine, once_bytes_of(name), &object) != ONCE_OK)
        fail("the engine does not show %s", name);
    if (once_object_mergeable(object.type) && object.state.size <= sizeof(request->merge)) {
        memcpy(request->merge, object.state.data, object.state.size);
        (void)snprintf(request->key, sizeof(request->key), "merged:%" PRIu64, chance(12));
        *op = (struct once_op){.call = ONCE_CALL_MERGE,
                               .key = once_bytes_of(request->key),
                               .data = {request->merge, object.state.size}};
        made = true;
    }
    once_object_release(&object);
    return made;
}

static void make_value(struct request *request, struct once_op *op)
{
    (void)snprintf(request->value, sizeof(request->value), "value %" PRIu64, chance(1000));
    *op = (struct once_op){.call = chance(4) == 0 ? ONCE_CALL_EXPIRE : ONCE_CALL_SET,
                           .ns = once_bytes_of("redis"),
                           .key = once_bytes_of(request->key)};
    if (op->call == ONCE_CALL_SET) {
        op->result = once_bytes_of(request->value);
        op->when = (enum once_when)chance(3);
        op->keep_ttl = chance(4) == 0;
    }
    if (!op->keep_ttl && chance(2) == 0)
        op->ttl_ms = 3600000;
}

static void make_op(struct request *request, struct once_op *op)
{
    make_key(request);
    switch (chance(8)) {
    case 0:
        if (make_merge(request, op))
            return;
        break;
    case 1:
    case 2:
        make_value(request, op);
        return;
    default:
        break;
    }
    make_apply(request, op);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Times have 13 digits, and are not the same in two stores. */
static void normal(struct once_bytes bytes, struct once_buf *out)
{
    once_buf_init(out, 1 << 24);
    for (size_t i = 0, digits = 0; i <= bytes.size; i++) {
        bool digit = i < bytes.size && bytes.data[i] >= '0' && bytes.data[i] <= '9';

        digits = digit ? digits + 1 : 0;
        if (digits == 13)
            out->size -= 12;
        if (i < bytes.size && digits < 13 && once_buf_append(out, &bytes.data[i], 1) != ONCE_OK)
            fail("no memory");
    }
}

static bool same(struct once_bytes a, struct once_bytes b)
{
    struct once_buf one, two;
    bool equal;

    normal(a, &one);
    normal(b, &two);
    equal = one.size == two.size && (one.size == 0 || memcmp(one.data, two.data, one.size) == 0);
    once_buf_release(&one);
    once_buf_release(&two);
    return equal;
}

static void show_op(const struct once_op *op)
{
    (void)fprintf(stderr, "call %d, key %.*s:", (int)op->call, (int)op->key.size,
                  (const char *)op->key.data);
    for (size_t i = 0; i < op->do_count; i++) {
        for (size_t j = 0; j < op->dos[i].count; j++)
            (void)fprintf(stderr, " %.*s", (int)op->dos[i].words[j].size,
                          (const char *)op->dos[i].words[j].data);
        (void)fprintf(stderr, ";");
    }
    (void)fprintf(stderr, "\n");
}

static void compare_replies(const struct once_op *op, const struct once_op *twin)
{
    const struct once_reply *a = &op->reply, *b = &twin->reply;
    const char *what_a = a->what ? a->what : "", *what_b = b->what ? b->what : "";

    if (a->err == b->err && a->word == b->word && a->effect == b->effect && a->code == b->code &&
        a->state == b->state && a->attempt == b->attempt && strcmp(what_a, what_b) == 0 &&
        same(a->result, b->result))
        return;
    show_op(op);
    fail(
        "the engine: %s %s %d effect %u state %d '%s' %.*s\n  PostgreSQL: %s %s %d effect %u state "
        "%d '%s' %.*s",
        once_err_name(a->err), once_word_name(a->word), a->code, a->effect, (int)a->state, what_a,
        (int)a->result.size, (const char *)a->result.data, once_err_name(b->err),
        once_word_name(b->word), b->code, b->effect, (int)b->state, what_b, (int)b->result.size,
        (const char *)b->result.data);
}

static void ask_both(struct once_op *ops, size_t count)
{
    struct once_op twins[OPS_MAX];

    memcpy(twins, ops, count * sizeof(*ops));
    (void)once_call(engine, ops, count);
    (void)once_call(shared, twins, count);
    for (size_t i = 0; i < count; i++) {
        compare_replies(&ops[i], &twins[i]);
        if (ops[i].reply.err == ONCE_OK)
            words[ops[i].reply.word]++;
        else
            errors++;
        once_reply_release(&ops[i].reply);
        once_reply_release(&twins[i].reply);
    }
    asked += count;
}

struct listing {
    struct once_buf names;
    size_t count;
};

static void list_one(void *user, struct once_bytes name, enum once_object_type type)
{
    struct listing *listing = user;
    uint8_t number = (uint8_t)type, size = (uint8_t)name.size;

    if (once_buf_append(&listing->names, &number, 1) != ONCE_OK ||
        once_buf_append(&listing->names, &size, 1) != ONCE_OK ||
        once_buf_append(&listing->names, name.data, name.size) != ONCE_OK)
        fail("no memory");
    listing->count++;
}

static void list_all(struct once_store *store, struct listing *ret_listing)
{
    uint64_t cursor = 0;

    once_buf_init(&ret_listing->names, 1 << 24);
    ret_listing->count = 0;
    do {
        if (once_object_list(store, cursor, 1 + chance(20), list_one, ret_listing, &cursor) !=
            ONCE_OK)
            fail("objects are not listed");
    } while (cursor != 0);
}

static void read_one(void *user, const struct once_object_item *item)
{
    struct once_buf *out = user;

    if (once_buf_append(out, &item->number, sizeof(item->number)) != ONCE_OK ||
        (item->id.size && once_buf_append(out, item->id.data, item->id.size) != ONCE_OK) ||
        (item->group.size && once_buf_append(out, item->group.data, item->group.size) != ONCE_OK) ||
        (item->payload.size &&
         once_buf_append(out, item->payload.data, item->payload.size) != ONCE_OK))
        fail("no memory");
}

static int read_all(struct once_store *store, struct once_bytes name, struct once_buf *out)
{
    uint64_t cursor = 0;
    bool more = true;
    int err = ONCE_OK;

    once_buf_init(out, 1 << 24);
    while (err == ONCE_OK && more)
        err = once_object_read(store, name, cursor, 1 + chance(30), read_one, out, &cursor, &more);
    return err;
}

static void compare_object(struct once_bytes name)
{
    struct once_object a, b;
    struct once_buf items_a, items_b;
    int err_a, err_b;

    if (once_object_get(engine, name, &a) != ONCE_OK ||
        once_object_get(shared, name, &b) != ONCE_OK)
        fail("%.*s is not shown", (int)name.size, (const char *)name.data);
    err_a = read_all(engine, name, &items_a);
    err_b = read_all(shared, name, &items_b);
    if (a.type != b.type || a.present != b.present || !same(a.state, b.state) ||
        !same(a.json, b.json) || (a.version != b.version && !once_object_mergeable(a.type)))
        fail("%.*s\n  PostgreSQL: %.*s", (int)a.json.size, (const char *)a.json.data,
             (int)b.json.size, (const char *)b.json.data);
    if (err_a != err_b || items_a.size != items_b.size ||
        (items_a.size > 0 && memcmp(items_a.data, items_b.data, items_a.size) != 0))
        fail("the items of %.*s differ", (int)name.size, (const char *)name.data);
    once_buf_release(&items_a);
    once_buf_release(&items_b);
    once_object_release(&a);
    once_object_release(&b);
}

static void compare_delta(struct once_bytes name)
{
    struct once_buf a, b;
    uint64_t version_a = 0, version_b = 0;
    int err_a, err_b;

    once_buf_init(&a, 1 << 24);
    once_buf_init(&b, 1 << 24);
    err_a = once_object_delta(engine, name, 0, &a, &version_a);
    err_b = once_object_delta(shared, name, 0, &b, &version_b);
    if (err_a != err_b || a.size != b.size || (a.size > 0 && memcmp(a.data, b.data, a.size) != 0))
        fail("the state of %.*s differs", (int)name.size, (const char *)name.data);
    once_buf_clear(&b);
    if (err_b == ONCE_OK &&
        (once_object_delta(shared, name, version_b, &b, &version_a) != ONCE_OK || b.size != 0 ||
         version_a != version_b))
        fail("%.*s has news since its own version", (int)name.size, (const char *)name.data);
    once_buf_release(&a);
    once_buf_release(&b);
}

static size_t compare_objects(void)
{
    struct listing a, b;
    size_t count, offset = 0;

    list_all(engine, &a);
    list_all(shared, &b);
    if (a.names.size != b.names.size || memcmp(a.names.data, b.names.data, a.names.size) != 0)
        fail("the engine lists %zu objects, PostgreSQL %zu, or in another order", a.count, b.count);
    while (offset < a.names.size) {
        struct once_bytes name = {a.names.data + offset + 2, a.names.data[offset + 1]};

        compare_object(name);
        compare_delta(name);
        offset += 2 + name.size;
    }
    count = a.count;
    once_buf_release(&a.names);
    once_buf_release(&b.names);
    return count;
}

/* ---- A run ----------------------------------------------------------------------------------- */

static void round_of_both(void)
{
    static struct request requests[OPS_MAX];
    struct once_op ops[OPS_MAX];
    size_t count = chance(3) == 0 ? 1 + chance(OPS_MAX) : 1;

    for (size_t i = 0; i < count; i++)
        make_op(&requests[i], &ops[i]);
    ask_both(ops, count);
    if (chance(6) == 0) { /* a begin under one of the keys: what follows is BUSY, or MISMATCH */
        make_key(&requests[0]);
        ops[0] = (struct once_op){.call = ONCE_CALL_BEGIN,
                                  .ns = once_bytes_of(chance(2) ? "shop" : "redis"),
                                  .key = once_bytes_of(requests[0].key),
                                  .lease_ms = 3600000};
        ask_both(ops, 1);
    }
}

static void open_both(const char *folder)
{
    struct once__pg_setup setup = {.url = getenv("ONCE_PG_URL"), .lanes = 1};
    struct once_message message = {""};

    if (!setup.url)
        fail("ONCE_PG_URL is not set");
    if (once_open(folder, NULL, &engine, &message) != ONCE_OK ||
        once__pg_open(&setup, &shared, &message) != ONCE_OK)
        fail("%s", message.text);
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/once-twin-XXXXXX", command[64];
    unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 400;
    size_t count;

    random_state = seed_given = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    if (!mkdtemp(folder))
        fail("no folder");
    open_both(folder);
    for (unsigned long i = 0; i < rounds; i++)
        round_of_both();
    count = compare_objects();
    if (once_close(engine) != ONCE_OK || once_close(shared) != ONCE_OK)
        fail("not closed");
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    if (system(command) != 0)
        fail("%s is still there", folder);
    (void)printf("%lu answers and %zu objects are the same; ERROR %lu", asked, count, errors);
    for (unsigned i = 0; i <= ONCE_REJECTED; i++)
        (void)printf(", %s %lu", once_word_name((enum once_word)i), words[i]);
    (void)printf("\n");
    return 0;
}
