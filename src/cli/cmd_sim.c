/* SPDX-License-Identifier: Apache-2.0
 *
 * `once sim payment`: the payment story, played on the real decision core with records in memory.
 *
 * Every verdict below comes from core/decide.c; the story only says what it must be, and stops
 * with an error if it is not. The ledger stands for the outside world: it counts what really
 * happened.
 */
#include "cli/cli.h"

#include "base/assert.h"
#include "core/decide.h"
#include "core/effect.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const once_ms STORY_START_MS = 1767225600000LL; /* 2026-01-01T00:00:00Z */
static const once_ms STORY_LEASE_MS = 30000;

enum { ORDER_COUNT = 3 };

/* The account that is charged. For each order it remembers the highest fence it was shown and
 * whether the debit is there: whoever takes over a doubt needs both, the one to keep the old
 * owner out, the other to see whether it had been there already. */
struct ledger {
    int64_t balance;
    int64_t naive_balance; /* what it would be if every request that arrives were executed */
    struct {
        uint64_t highest_fence;
        bool debited;
    } orders[ORDER_COUNT];
    int debit_count;
};

struct story {
    once_ms now_ms;
    uint64_t last_fence;
    struct ledger ledger;
    bool wrong;
};

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static void chapter(int number, const char *title)
{
    printf("\n%d. %s\n", number, title);
}

static struct once_moment moment_of(const struct story *story)
{
    struct once_moment at = {.now_ms = story->now_ms, .next_fence = story->last_fence + 1};

    return at;
}

/* Keeps the decision, prints the verdict, and checks that it is the one the story promises. */
static void settle(struct story *story, struct once_record *record, struct once_decision decision,
                   enum once_word expected)
{
    if (decision.changed)
        *record = decision.next;
    if (record->fence > story->last_fence)
        story->last_fence = record->fence;

    printf("      -> %s", once_word_name(decision.word));
    if (decision.word == ONCE_EXECUTE || decision.word == ONCE_DOUBT)
        printf("  fence %" PRIu64 ", attempt %" PRIu32, record->fence, record->attempt);
    if (decision.word == ONCE_REPLAY)
        printf("  %" PRId32 " \"%.*s\"", record->code, (int)record->result.size,
               (const char *)record->result.data);
    if (decision.word == ONCE_BUSY)
        printf("  come back in %" PRId64 " ms", decision.retry_ms);
    putchar('\n');

    if (decision.word != expected) {
        fprintf(stderr, "once sim: the story expected %s here\n", once_word_name(expected));
        story->wrong = true;
    }
}

static void begin(struct story *story, struct once_record *record, const char *owner,
                  const char *question, enum once_on_doubt on_doubt, enum once_word expected)
{
    struct once_request request = {
        .owner = once_bytes_of(owner),
        .birth_ms = ONCE_BIRTH_NONE,
        .retention_ms = ONCE_RETENTION_MS_DEFAULT,
        .lease_ms = STORY_LEASE_MS,
        .on_doubt = on_doubt,
    };

    tell("   %s asks: begin \"%s\"%s", owner, question,
         on_doubt == ONCE_ON_DOUBT_RETRY ? ", and take over a doubt" : "");
    if (once_fingerprint_from_bytes(once_bytes_of(question), &request.fingerprint) != ONCE_OK ||
        once__request_check(&request, story->now_ms, NULL) != ONCE_OK) {
        fputs("once sim: the request was refused\n", stderr);
        story->wrong = true;
        return;
    }
    settle(story, record, once__decide_begin(record, &request, moment_of(story)), expected);
}

static void complete(struct story *story, struct once_record *record, const char *owner,
                     uint64_t fence, const char *result, enum once_word expected)
{
    struct once_answer answer = {.code = 201, .result = once_bytes_of(result)};

    tell("   %s says: complete with 201 \"%s\", fence %" PRIu64, owner, result, fence);
    settle(story, record, once__decide_complete(record, fence, &answer, story->now_ms), expected);
}

/* The ledger is shown a fence: it refuses one below the highest of this order. */
static bool show_fence(struct ledger *ledger, int order, uint64_t fence)
{
    return fence == ledger->orders[order].highest_fence ||
           !once__effect_rejected(once__effect_guard(&ledger->orders[order].highest_fence, fence));
}

/* The effect in the outside world, under the fence that Once gave out. */
static void debit(struct story *story, const char *owner, int order, int64_t amount, uint64_t fence,
                  bool expected)
{
    struct ledger *ledger = &story->ledger;
    struct once__range range = {.min = 0, .max = INT64_MAX};
    bool current = show_fence(ledger, order, fence);
    bool done = current && !ledger->orders[order].debited &&
                !once__effect_rejected(once__effect_add(&ledger->balance, -amount, range));

    ledger->orders[order].debited |= done;
    ledger->debit_count += done;
    tell("   %s debits %" PRId64 " under fence %" PRIu64 ": %s; balance %" PRId64, owner, amount,
         fence, done ? "done" : "refused by the ledger, a larger fence was here", ledger->balance);
    if (done != expected || (!done && current)) {
        fputs("once sim: the ledger did not do what the story says\n", stderr);
        story->wrong = true;
    }
}

static void the_lost_answer(struct story *story, struct once_record *order)
{
    chapter(1, "A charge, and its answer is lost");
    begin(story, order, "web-1/a7", "charge 100", ONCE_ON_DOUBT_REJECT, ONCE_EXECUTE);
    debit(story, "web-1/a7", 0, 100, order->fence, true);
    story->ledger.naive_balance -= 100;
    complete(story, order, "web-1/a7", order->fence, "charge ch_1", ONCE_DONE);
    tell("   ~~ the network loses the answer: the customer sees a timeout ~~");

    chapter(2, "The customer presses the button again: same key, same request");
    begin(story, order, "web-2/c1", "charge 100", ONCE_ON_DOUBT_REJECT, ONCE_REPLAY);
    story->ledger.naive_balance -= 100;
    tell("   The first answer, and no second debit: balance %" PRId64
         " (without Once it would be %" PRId64 ").",
         story->ledger.balance, story->ledger.naive_balance);

    chapter(3, "A program reuses the key for another amount");
    begin(story, order, "web-3/e9", "charge 900", ONCE_ON_DOUBT_REJECT, ONCE_MISMATCH);
    tell("   An old answer to a new question would be silent corruption, so it gets none.");
}

static void the_stale_writer(struct story *story, struct once_record *order)
{
    uint64_t paused_fence;

    chapter(4, "A second order (a new key), and its worker is paused before the debit");
    begin(story, order, "worker-A", "charge 50", ONCE_ON_DOUBT_REJECT, ONCE_EXECUTE);
    paused_fence = order->fence;
    story->now_ms += 10000;
    begin(story, order, "worker-B", "charge 50", ONCE_ON_DOUBT_REJECT, ONCE_BUSY);
    tell("   ~~ worker-A sleeps past its lease of 30 s ~~");
    story->now_ms += STORY_LEASE_MS;
    begin(story, order, "worker-B", "charge 50", ONCE_ON_DOUBT_REJECT, ONCE_DOUBT);
    tell(
        "   Nobody knows whether worker-A debited. Most systems would now run it again; Once says "
        "so"
        "\n   and waits. This ledger knows which orders it has debited, and for each the highest "
        "fence"
        "\n   it was shown. So worker-B may take over on purpose: it shows its fence, then looks.");
    begin(story, order, "worker-B", "charge 50", ONCE_ON_DOUBT_RETRY, ONCE_EXECUTE);
    if (!show_fence(&story->ledger, 1, order->fence) || story->ledger.orders[1].debited)
        story->wrong = true;
    tell("   worker-B shows the ledger fence %" PRIu64
         " and looks: this order has no debit, and an older"
         "\n   owner can no longer make one",
         order->fence);
    debit(story, "worker-B", 1, 50, order->fence, true);
    complete(story, order, "worker-B", order->fence, "charge ch_2", ONCE_DONE);

    chapter(5, "The stale writer wakes up");
    debit(story, "worker-A", 1, 50, paused_fence, false);
    complete(story, order, "worker-A", paused_fence, "charge ch_2b", ONCE_STALE);
}

static void the_doubt(struct story *story, struct once_record *order)
{
    struct once_resolution not_done = {.done = false, .fence = 0};

    chapter(6, "A third order, and its worker dies: nothing guards this one, so a person looks");
    begin(story, order, "worker-C", "charge 25", ONCE_ON_DOUBT_REJECT, ONCE_EXECUTE);
    tell("   ~~ worker-C loses power; a year passes ~~");
    story->now_ms += 365LL * 24 * 3600 * 1000;
    begin(story, order, "worker-D", "charge 25", ONCE_ON_DOUBT_REJECT, ONCE_DOUBT);
    tell("   Still in doubt: time never turns it into \"new\". Somebody reads the ledger: no "
         "debit.");
    tell("   operator says: resolve, not done");
    settle(story, order, once__decide_resolve(order, &not_done, moment_of(story)), ONCE_DONE);
    begin(story, order, "worker-D", "charge 25", ONCE_ON_DOUBT_REJECT, ONCE_EXECUTE);
    debit(story, "worker-D", 2, 25, order->fence, true);
    complete(story, order, "worker-D", order->fence, "charge ch_3", ONCE_DONE);
}

static int play_payment(void)
{
    struct story story = {
        .now_ms = STORY_START_MS,
        .ledger = {.balance = 500, .naive_balance = 500},
    };
    struct once_record first = {0}, second = {0}, third = {0};

    tell("Once, in one story. An account holds 500. Every charge has a key; a request may arrive "
         "many\n"
         "times, its effect happens once, and every retry gets the first answer. Names like "
         "web-1/a7 stand\n"
         "for one attempt of one caller.");
    the_lost_answer(&story, &first);
    the_stale_writer(&story, &second);
    the_doubt(&story, &third);

    tell("\nThe end: 3 orders, %d debits, balance %" PRId64 " = 500 - 100 - 50 - 25.",
         story.ledger.debit_count, story.ledger.balance);
    tell("Next: docs/concepts.md says why this works, `once laws` what needs a key, `once key` "
         "makes one.");
    if (story.wrong || story.ledger.debit_count != 3 || story.ledger.balance != 325) {
        fputs("once sim: the story did not end as it must; this is a bug in Once\n", stderr);
        return CLI_INTERNAL;
    }
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return cli_usage(&cli_sim, "which story? There is: payment");
    if (strcmp(argv[1], "payment") != 0)
        return cli_usage(&cli_sim, "there is no story of that name; there is: payment");
    if (argc > 2)
        return cli_usage(&cli_sim, "payment takes no arguments");
    return play_payment();
}

const struct cli_command cli_sim = {
    .name = "sim",
    .summary = "play a story on the decision core: once sim payment",
    .help =
        "usage: once sim payment\n"
        "\n"
        "Plays the payment story on the real decision core with records in memory: a charge whose\n"
        "answer is lost, the retry, the key reused for another amount, a worker that is paused "
        "and\n"
        "overtaken, and one that dies. Every verdict is checked against what must come.\n"
        "\n"
        "Exit status: 0 the story ended well; 71 it did not, which is a bug; 64 usage.\n",
    .run = run,
    .words = "payment",
};
