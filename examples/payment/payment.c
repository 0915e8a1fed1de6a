/* SPDX-License-Identifier: Apache-2.0
 *
 * One payment, for real on disk:  payment FOLDER
 *
 * An order is paid by one apply: the debit, the guard of the card terminal, the order's move and
 * the message for the mail happen together, under a key, or none of them does. The story loses the
 * answer, sends the request again, changes its amount, lets an old token try, and kills the program
 * at every step; the account is debited once. Each chapter says what must come; the exit status is
 * 0 only if it did.
 *
 * `payment FOLDER --die N` is the program that the story kills: it pays, and dies at step N. With
 * `--paid N` it was paid for sure in a life before, and what comes must be the answer of then.
 */
#include <once/once.h>

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 8, TEXT_MAX = 128, PATH_SIZE = 512, SEGMENT_SIZE = 1 << 20 };

/* Where the program may die. */
enum step {
    STEP_NONE,      /* it does not */
    STEP_STARTED,   /* nothing was opened */
    STEP_OPENED,    /* the store is open, nothing was asked */
    STEP_PREPARED,  /* the account and the order are there */
    STEP_SUBMITTED, /* the payment was handed to the store; it may be on disk or not */
    STEP_APPLIED,   /* it is on disk, and nobody was told */
    STEP_TOLD,      /* the customer was told */
    STEP_CLOSED,    /* the store is closed */
    STEP_COUNT
};

static const char *const step_names[] = {
    [STEP_STARTED] = "before the store is open",
    [STEP_OPENED] = "when the store is open",
    [STEP_PREPARED] = "before the payment is asked for",
    [STEP_SUBMITTED] = "while the payment is under way",
    [STEP_APPLIED] = "when it is done and nobody was told",
    [STEP_TOLD] = "when the customer was told",
    [STEP_CLOSED] = "at the very end",
};

static bool wrong;

__attribute__((format(printf, 2, 3))) static void expect(bool holds, const char *format, ...)
{
    va_list args;

    if (holds)
        return;
    wrong = true;
    fputs("   NOT AS IT MUST BE: ", stdout);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* ---- Asking the store ------------------------------------------------------------------------ */

/* Effects as they are written in the documentation, split into words, which point into the text
 * and the scratch. */
struct effects {
    char texts[4][TEXT_MAX];
    struct once_bytes words[4][WORDS_MAX];
    uint8_t scratch[4][TEXT_MAX];
    struct once_do dos[4];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void add_effect(struct effects *effects,
                                                             const char *format, ...)
{
    size_t i = effects->count++;
    struct once_defect defect;
    va_list args;

    va_start(args, format);
    vsnprintf(effects->texts[i], TEXT_MAX, format, args);
    va_end(args);
    if (once_do_split(once_bytes_of(effects->texts[i]), effects->scratch[i], effects->words[i],
                      WORDS_MAX, &effects->dos[i].count, &defect) != ONCE_OK) {
        fprintf(stderr, "payment: '%s', character %zu: %s\n", effects->texts[i], defect.offset + 1,
                defect.what);
        exit(2);
    }
    effects->dos[i].words = effects->words[i];
}

/* The payment: all of it or nothing. */
static void payment(struct effects *effects, int amount, int token)
{
    *effects = (struct effects){0};
    add_effect(effects, "ADD acct:42 -%d MIN 0", amount);
    add_effect(effects, "GUARD card-terminal %d", token);
    add_effect(effects, "MOVE order:7 placed paid");
    add_effect(effects, "EMIT charges {\"order\": 7, \"amount\": %d} GROUP acct:42", amount);
}

static struct once_store *open_store(const char *folder)
{
    struct once_options options = {.segment_size = SEGMENT_SIZE};
    struct once_message message;
    struct once_store *store;

    if (once_open(folder, &options, &store, &message) != ONCE_OK) {
        fprintf(stderr, "payment: %s\n", message.text);
        exit(2);
    }
    return store;
}

static void apply(struct once_store *store, const char *key, const struct effects *effects,
                  struct once_reply *ret_reply)
{
    int err = once_apply(store, once_name_of("pay", key), NULL, effects->dos, effects->count,
                         ret_reply);

    if (err != ONCE_OK) {
        fprintf(stderr, "payment: effect %u: %s\n", (unsigned)ret_reply->effect,
                ret_reply->what ? ret_reply->what : once_err_text(err));
        exit(2);
    }
}

/* An account with 1,000 and an order that may be paid. Under a key: whoever comes again changes
 * nothing. */
static void prepare(struct once_store *store)
{
    struct effects effects = {0};
    struct once_reply reply;

    add_effect(&effects, "ADD acct:42 1000");
    add_effect(&effects, "MACHINE order:7 placed>paid placed>cancelled paid>shipped");
    apply(store, "opening-balance", &effects, &reply);
    expect(reply.word == ONCE_APPLIED || reply.word == ONCE_REPLAY, "the opening balance: %s",
           once_word_name(reply.word));
    once_reply_release(&reply);
}

/* ---- What is true now ------------------------------------------------------------------------ */

struct messages {
    bool shown;
    int count;
};

static void take_message(void *user, const struct once_object_item *item)
{
    struct messages *messages = user;

    messages->count++;
    if (messages->shown)
        printf("   message %llu in the outbox: %.*s\n", (unsigned long long)item->number,
               (int)item->payload.size, (const char *)item->payload.data);
}

static void expect_object(struct once_store *store, const char *name, const char *member,
                          bool shown)
{
    struct once_object object = {0};

    if (once_object_get(store, once_bytes_of(name), &object) != ONCE_OK)
        exit(2);
    if (shown)
        printf("   %.*s\n", (int)object.json.size, (const char *)object.json.data);
    expect(memmem(object.json.data, object.json.size, member, strlen(member)) != NULL,
           "%s must have %s", name, member);
    once_object_release(&object);
}

static void expect_paid_once(struct once_store *store, bool shown)
{
    struct messages messages = {.shown = shown};
    uint64_t cursor;
    bool more;

    expect_object(store, "acct:42", "\"value\":900", shown);
    expect_object(store, "order:7", "\"state\":\"paid\"", shown);
    if (once_object_read(store, once_bytes_of("charges"), 0, 100, take_message, &messages, &cursor,
                         &more) != ONCE_OK)
        exit(2);
    expect(messages.count == 1 && !more, "there must be one message");
    if (!wrong)
        printf("   one debit, one message, and the order is paid\n");
}

/* ---- The story: one key, many requests ------------------------------------------------------- */

/* Asks, prints the answer, and keeps its result. */
static void ask(struct once_store *store, const char *key, int amount, int token,
                enum once_word expected, char *ret_result, size_t result_size)
{
    struct effects effects;
    struct once_reply reply;

    payment(&effects, amount, token);
    apply(store, key, &effects, &reply);
    printf("   pay %d under key %s with token %d -> %s %.*s\n", amount, key, token,
           once_word_name(reply.word), (int)reply.result.size,
           reply.result.size > 0 ? (const char *)reply.result.data : "");
    expect(reply.word == expected, "the answer must be %s", once_word_name(expected));
    snprintf(ret_result, result_size, "%.*s", (int)reply.result.size,
             reply.result.size > 0 ? (const char *)reply.result.data : "");
    once_reply_release(&reply);
}

static void tell_requests(const char *folder)
{
    char first[TEXT_MAX * 4], again[TEXT_MAX * 4];
    struct once_store *store = open_store(folder);

    prepare(store);
    printf("\n1. Charge 100 with token 42, and the answer is lost\n");
    ask(store, "order-7", 100, 42, ONCE_APPLIED, first, sizeof(first));

    printf("\n2. The customer presses the button again: same key, same request\n");
    ask(store, "order-7", 100, 42, ONCE_REPLAY, again, sizeof(again));
    expect(strcmp(first, again) == 0, "the first answer, and not another one");

    printf("\n3. The key is reused for another amount\n");
    ask(store, "order-7", 900, 42, ONCE_MISMATCH, again, sizeof(again));

    printf("\n4. A terminal that was asleep comes with the older token 41, and a key of its own\n");
    ask(store, "order-7-terminal-1", 100, 41, ONCE_REJECTED, again, sizeof(again));
    expect(strstr(again, "\"rejected\":2,\"word\":\"STALE\"") != NULL, "the guard rejects it");
    ask(store, "order-7-terminal-1", 100, 41, ONCE_REPLAY, again, sizeof(again));

    printf("\n5. What is true now\n");
    expect_paid_once(store, true);
    expect(once_close(store) == ONCE_OK, "the store closes");
}

/* ---- The story: death at every step ---------------------------------------------------------- */

static void die_at(enum step step, enum step dies)
{
    if (step == dies)
        raise(SIGKILL);
}

static void on_paid(struct once_op *op)
{
    bool *paid = op->user;

    __atomic_store_n(paid, true, __ATOMIC_RELEASE);
}

/* The whole program once more. Returns the exit status. */
static int pay(const char *folder, enum step dies, bool was_paid)
{
    struct once_store *store;
    struct effects effects;
    bool paid = false;
    struct once_op op = {.call = ONCE_CALL_APPLY,
                         .ns = once_bytes_of("pay"),
                         .key = once_bytes_of("order-7"),
                         .told = on_paid,
                         .user = &paid};

    die_at(STEP_STARTED, dies);
    store = open_store(folder);
    die_at(STEP_OPENED, dies);
    prepare(store);
    die_at(STEP_PREPARED, dies);
    payment(&effects, 100, 42);
    op.dos = effects.dos;
    op.do_count = effects.count;
    if (once_submit(store, &op) != ONCE_OK)
        return 2;
    die_at(STEP_SUBMITTED, dies);
    while (!__atomic_load_n(&paid, __ATOMIC_ACQUIRE))
        usleep(100);
    die_at(STEP_APPLIED, dies);
    printf("   the customer is told: %s %.*s\n", once_word_name(op.reply.word),
           (int)op.reply.result.size,
           op.reply.result.size > 0 ? (const char *)op.reply.result.data : "");
    fflush(stdout);
    expect(op.reply.err == ONCE_OK &&
               (op.reply.word == ONCE_REPLAY || (op.reply.word == ONCE_APPLIED && !was_paid)),
           was_paid ? "paid before: what was answered once stays true" : "paid now, or before");
    once_reply_release(&op.reply);
    die_at(STEP_TOLD, dies);
    expect(once_close(store) == ONCE_OK, "the store closes");
    die_at(STEP_CLOSED, dies);
    return wrong ? 1 : 0;
}

/* Runs this program again as a child. Gives its wait status. */
static int run_child(const char *folder, enum step dies, bool was_paid)
{
    char number[16];
    int status = -1;
    pid_t child;

    snprintf(number, sizeof(number), "%d", (int)dies);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "payment", folder, was_paid ? "--paid" : "--die", number,
              (char *)NULL);
        _exit(2);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static void kill_at(const char *folder, enum step step, bool was_paid)
{
    int status = run_child(folder, step, was_paid);

    printf("   killed %s\n", step_names[step]);
    expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child dies by SIGKILL");
}

static void go_on(const char *folder, bool was_paid)
{
    struct once_store *store;
    int status = run_child(folder, STEP_NONE, was_paid);

    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the retry goes through");
    store = open_store(folder);
    expect_paid_once(store, false);
    expect(once_close(store) == ONCE_OK, "the store closes");
}

static void tell_deaths(const char *folder)
{
    char path[PATH_SIZE];

    for (enum step step = STEP_STARTED; step < STEP_COUNT; step++) {
        printf("\n%d. A new store; the program dies %s, and is started again\n", 5 + (int)step,
               step_names[step]);
        snprintf(path, sizeof(path), "%s/death-%d", folder, (int)step);
        kill_at(path, step, false);
        go_on(path, step >= STEP_APPLIED);
    }
    printf("\n%d. One store, and the program dies at each of the steps in turn\n",
           5 + (int)STEP_COUNT);
    snprintf(path, sizeof(path), "%s/deaths", folder);
    for (enum step step = STEP_STARTED; step < STEP_COUNT; step++)
        kill_at(path, step, step > STEP_APPLIED);
    go_on(path, true);
}

int main(int argc, char **argv)
{
    char path[PATH_SIZE];

    if (argc == 4 && (strcmp(argv[2], "--die") == 0 || strcmp(argv[2], "--paid") == 0))
        return pay(argv[1], (enum step)strtol(argv[3], NULL, 10), strcmp(argv[2], "--paid") == 0);
    if (argc != 2 || strlen(argv[1]) > PATH_SIZE - 16) {
        fputs("usage: payment FOLDER\n", stderr);
        return 2;
    }
    if (mkdir(argv[1], 0700) != 0) {
        fprintf(stderr, "payment: '%s' must be a folder that is not there yet: %s\n", argv[1],
                strerror(errno));
        return 2;
    }
    printf("An account holds 1,000. Order 7 is placed, and costs 100.\n");
    snprintf(path, sizeof(path), "%s/requests", argv[1]);
    tell_requests(path);
    tell_deaths(argv[1]);
    printf(wrong ? "\nThe end: something is not as it must be.\n"
                 : "\nThe end: in every story one debit, one message, and the order is paid.\n");
    return wrong ? 1 : 0;
}
