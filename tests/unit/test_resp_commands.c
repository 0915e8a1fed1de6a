/* SPDX-License-Identifier: Apache-2.0
 *
 * The ONCE.* commands from their words to the exact bytes of their answers, in both versions of the
 * protocol, in front of a real service and store. In expectations '|' stands for CR LF.
 */
#include "command_help.h"

#include <once/lattice.h>

static int open_two(void **state)
{
    struct desk *desk = calloc(1, sizeof(*desk));

    desk_open(desk, 2);
    *state = desk;
    return 0;
}

static int open_three(void **state)
{
    struct desk *desk = calloc(1, sizeof(*desk));

    desk_open(desk, 3);
    *state = desk;
    return 0;
}

static int close_desk(void **state)
{
    desk_close(*state);
    free(*state);
    return 0;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static void begin__to_complete__replays(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.BEGIN pay k1", "*5|+EXECUTE|:1|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.BEGIN pay k1", "*2|+BUSY|:1000|");
    EXPECT(desk, "ONCE.COMPLETE pay k1 0 200 done",
           "-STALE the fence is not the current one, or the attempt has ended|");
    EXPECT(desk, "ONCE.COMPLETE pay k1 1 200 done", "+OK|");
    EXPECT(desk, "ONCE.COMPLETE pay k1 1 200 done", "+OK|");
    EXPECT(desk, "ONCE.COMPLETE pay k1 1 201 other", "-MISMATCH it has ended with another answer|");
    EXPECT(desk, "ONCE.BEGIN pay k1", "*3|+REPLAY|:200|$4|done|");
    EXPECT(desk, "once.begin pay k1 wait 5", "*3|+REPLAY|:200|$4|done|");
    EXPECT(desk, "ONCE.BEGIN pay k2", "*5|+EXECUTE|:2|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.COMPLETE pay k2 2 -5 ''", "+OK|");
    EXPECT(desk, "ONCE.BEGIN pay k2", "*3|+REPLAY|:-5|$0||");
    EXPECT(desk, "ONCE.COMPLETE pay k3 1 0 x", "-NOTFOUND there is no such operation|");
    EXPECT(desk, "ONCE.COMPLETE pay k2 1 0 x",
           "-STALE the fence is not the current one, or the attempt has ended|");
}

static void begin__resp3__nulls_are_underscores(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.BEGIN pay k1", "*5|+EXECUTE|:1|:1|_|_|");
    EXPECT(desk, "ONCE.CHECKPOINT pay k1 1 charged abc", "+OK|");
    EXPECT(desk, "ONCE.RENEW pay k1 1 0", "+OK|");
    EXPECT(desk, "ONCE.BEGIN pay k1", "*3|+DOUBT|:1|$7|charged|");
    EXPECT(desk, "ONCE.BEGIN pay k1 DOUBT retry", "*5|+EXECUTE|:2|:2|$7|charged|$3|abc|");
    EXPECT(desk, "ONCE.GET pay none", "_|");
}

static void begin__options__do_what_they_say(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.BEGIN pay k LEASE 5000 OWNER me TTL 60000 FP abc DOUBT reject WAIT 0",
           "*5|+EXECUTE|:1|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.BEGIN pay k fp abc owner me", "*5|+EXECUTE|:1|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.BEGIN pay k FP other OWNER me", "*1|+MISMATCH|");
    EXPECT(desk, "ONCE.BEGIN pay k", "*1|+MISMATCH|");
    life_pass(&desk->house.life, 5001);
    EXPECT(desk, "ONCE.BEGIN pay k FP abc", "*3|+DOUBT|:1|$-1|");
    EXPECT(desk, "ONCE.BEGIN pay k FP abc DOUBT RETRY OWNER you TTL 60000",
           "*5|+EXECUTE|:2|:2|$-1|$-1|");
    EXPECT(desk, "ONCE.COMPLETE pay k 2 0 r", "+OK|");
    life_pass(&desk->house.life, 59999);
    EXPECT(desk, "ONCE.BEGIN pay k FP abc", "*3|+REPLAY|:0|$1|r|");
    life_pass(&desk->house.life, 2);
    EXPECT(desk, "ONCE.BEGIN pay k FP abc", "*5|+EXECUTE|:3|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.BEGIN pay 017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "*1|+TOO_OLD|");
}

static void begin__bad_options__each_is_named(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.BEGIN a k LEASE abc",
           "-ERR ONCE.BEGIN: LEASE must be a number of milliseconds from 1 to 604800000, not 'abc' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a k LEASE 0",
           "-ERR ONCE.BEGIN: LEASE must be a number of milliseconds from 1 to 604800000, not '0' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a k LEASE 604800001",
           "-ERR ONCE.BEGIN: LEASE must be a number of milliseconds from 1 to 604800000, not "
           "'604800001' (ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a k TTL -1",
           "-ERR ONCE.BEGIN: TTL must be a number of milliseconds from 1 to 315576000000, not '-1' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a k WAIT 3600001",
           "-ERR ONCE.BEGIN: WAIT must be a number of milliseconds from 0 to 3600000, not "
           "'3600001' (ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a k DOUBT maybe",
           "-ERR ONCE.BEGIN: DOUBT must be REJECT or RETRY, not 'maybe' (ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a k LEASE 5 lease 6",
           "-ERR ONCE.BEGIN: LEASE was given twice (ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a k TTL 5 FP",
           "-ERR ONCE.BEGIN: FP needs a value: a fingerprint of 0 to 16842752 bytes "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a k DOUBT",
           "-ERR ONCE.BEGIN: DOUBT needs a value: REJECT or RETRY (ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a k NOPE 5",
           "-ERR ONCE.BEGIN: unknown option 'NOPE'; it knows FP, OWNER, TTL, LEASE, DOUBT, WAIT "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a k OWNER ''",
           "-ERR ONCE.BEGIN: OWNER must be a name of 1 to 64 bytes, not of 0 (ERR_INVALID)|");
    EXPECT(desk, "ONCE.BEGIN a ''", "-ERR a key has at least one character (ERR_KEY_EMPTY)|");
    EXPECT_START(desk, "ONCE.BEGIN a k\001", "-ERR ");
    EXPECT_START(desk, "ONCE.BEGIN '' k", "-ERR ");
    EXPECT_START(desk, "ONCE.BEGIN redis k", "-");
    EXPECT(desk, "ONCE.GET a k", "$-1|"); /* nothing of this has begun anything */
}

static void owners_calls__bad_arguments__each_is_named(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.COMPLETE a k x 0 r",
           "-ERR ONCE.COMPLETE: the fence must be a number from 0 to 9007199254740991, not 'x' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.COMPLETE a k -1 0 r",
           "-ERR ONCE.COMPLETE: the fence must be a number from 0 to 9007199254740991, not '-1' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.FORGET a k 0",
           "-ERR ONCE.FORGET: the fence must be a number from 1 to 9007199254740991, not '0' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.COMPLETE a k 1 2147483648 r",
           "-ERR ONCE.COMPLETE: the code must be a number from -2147483648 to 2147483647, not "
           "'2147483648' (ERR_INVALID)|");
    EXPECT(desk, "ONCE.FAIL a k 1 r more",
           "-ERR wrong number of arguments for 'once.fail' command|");
    EXPECT(desk, "ONCE.RENEW a k 1 604800001",
           "-ERR ONCE.RENEW: lease_ms must be a number of milliseconds from 0 to 604800000, not "
           "'604800001' (ERR_INVALID)|");
    EXPECT(desk, "ONCE.CHECKPOINT a k 1 p BEFORE q",
           "-ERR ONCE.CHECKPOINT: AFTER was expected, not 'BEFORE' (ERR_INVALID)|");
    EXPECT(desk, "ONCE.CHECKPOINT a k 1 p d AFTER q x",
           "-ERR wrong number of arguments for 'once.checkpoint' command|");
    EXPECT(desk, "ONCE.RESOLVE a k MAYBE",
           "-ERR ONCE.RESOLVE: DONE or NOTDONE was expected, not 'MAYBE' (ERR_INVALID)|");
    EXPECT(desk, "ONCE.RESOLVE a k DONE 5",
           "-ERR ONCE.RESOLVE: DONE needs a code and a result (ERR_INVALID)|");
    EXPECT(desk, "ONCE.RESOLVE a k DONE x r",
           "-ERR ONCE.RESOLVE: the code must be a number from -2147483648 to 2147483647, not 'x' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.RESOLVE a k NOTDONE FENCE 0",
           "-ERR ONCE.RESOLVE: FENCE must be a number from 1 to 9007199254740991, not '0' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.RESOLVE a k NOTDONE x",
           "-ERR ONCE.RESOLVE: unknown option 'x'; it knows FENCE (ERR_INVALID)|");
    EXPECT(desk, "ONCE.FORGET a k 1 2",
           "-ERR wrong number of arguments for 'once.forget' command|");
    EXPECT(desk, "ONCE.FORGET a k one",
           "-ERR ONCE.FORGET: the fence must be a number from 1 to 9007199254740991, not 'one' "
           "(ERR_INVALID)|");
}

static void fail_renew_checkpoint__answers(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.FAIL a k 1", "-NOTFOUND there is no such operation|");
    EXPECT(desk, "ONCE.BEGIN a k", "*5|+EXECUTE|:1|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.CHECKPOINT a k 1 one", "+OK|");
    EXPECT(desk, "ONCE.CHECKPOINT a k 1 two data AFTER one", "+OK|");
    EXPECT(desk, "ONCE.CHECKPOINT a k 1 four after three",
           "-STALE the fence is not the current one, or the attempt has ended|");
    EXPECT(desk, "ONCE.RENEW a k 1 60000", "+OK|");
    life_pass(&desk->house.life, 60001);
    EXPECT(desk, "ONCE.RENEW a k 1 60000",
           "-DOUBT 1 the lease is over and nobody knows whether it "
           "happened: resolve it|");
    EXPECT(desk, "ONCE.BEGIN a k", "*3|+DOUBT|:1|$3|two|");
    EXPECT(desk, "ONCE.RESOLVE a k NOTDONE FENCE 1", "+OK|");
    EXPECT(desk, "ONCE.BEGIN a k", "*5|+EXECUTE|:3|:2|$3|two|$4|data|");
    EXPECT(desk, "ONCE.FAIL a k 3 because", "+OK|");
    EXPECT(desk, "ONCE.FAIL a k 1",
           "-STALE the fence is not the current one, or the attempt has ended|");
}

static void resolve_forget__answers(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.RESOLVE a k NOTDONE", "-NOTFOUND there is no such operation|");
    EXPECT(desk, "ONCE.BEGIN a k LEASE 1000", "*5|+EXECUTE|:1|:1|$-1|$-1|");
    EXPECT_START(desk, "ONCE.RESOLVE a k DONE 0 r", "-BUSY 1000 someone holds a live lease");
    EXPECT_START(desk, "ONCE.FORGET a k", "-BUSY 1000 someone holds a live lease");
    life_pass(&desk->house.life, 1001);
    EXPECT_START(desk, "ONCE.FORGET a k", "-DOUBT 1 ");
    EXPECT(desk, "ONCE.RESOLVE a k DONE 7 r FENCE 2",
           "-STALE the fence is not the current one, or the attempt has ended|");
    EXPECT(desk, "once.resolve a k done 7 r fence 1", "+OK|");
    EXPECT(desk, "ONCE.RESOLVE a k DONE 8 r", "-MISMATCH it has ended with another answer|");
    EXPECT(desk, "ONCE.BEGIN a k", "*3|+REPLAY|:7|$1|r|");
    EXPECT(desk, "ONCE.FORGET a k", "+OK|");
    EXPECT(desk, "ONCE.FORGET a k", "-NOTFOUND there is no such operation|");
    EXPECT(desk, "ONCE.BEGIN a k", "*5|+EXECUTE|:3|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.FORGET a k 3", "+OK|");
}

static void get__every_state__the_whole_record(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.GET a k", "$-1|");
    EXPECT(desk, "ONCE.BEGIN a k OWNER me FP 0123456789abcdef0123456789abcdef",
           "*5|+EXECUTE|:1|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.CHECKPOINT a k 1 p d", "+OK|");
    EXPECT(desk, "ONCE.GET a k",
           "*26|$5|state|$7|started|$5|fence|:1|$7|attempt|:1|$4|code|$-1|$6|result|$-1|$5|owner|"
           "$2|me|$5|point|$1|p|$4|data|$1|d|$10|created_ms|:1700000000000|$12|lease_end_ms|"
           ":1700000030000|$12|retention_ms|:86400000|$10|expires_ms|:1700086400000|$11|"
           "fingerprint|$64|"
           "3031323334353637383961626364656630313233343536373839616263646566|");
    EXPECT(desk, "ONCE.FAIL a k 1 because", "+OK|");
    EXPECT_START(desk, "ONCE.GET a k",
                 "*26|$5|state|$6|failed|$5|fence|:1|$7|attempt|:1|$4|code|$-1|$6|reason|$7|"
                 "because|");
    EXPECT(desk, "ONCE.BEGIN b k", "*5|+EXECUTE|:2|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.COMPLETE b k 2 0 ''", "+OK|");
    EXPECT(desk, "ONCE.GET b k",
           "*26|$5|state|$9|completed|$5|fence|:2|$7|attempt|:1|$4|code|:0|$6|result|$0||$5|owner|"
           "$-1|$5|point|$-1|$4|data|$-1|$10|created_ms|:1700000000000|$12|lease_end_ms|:"
           "1700000030000|$12|"
           "retention_ms|:86400000|$10|expires_ms|:1700086400000|$11|fingerprint|$-1|");
    desk->session.protocol = 3;
    EXPECT_START(desk, "ONCE.GET b k", "%13|$5|state|$9|completed|");
}

static void complete__codes_of_http__released_or_doubt(void **state)
{
    struct desk *desk = *state;

    desk_configure(desk, "dir = /nowhere\n[namespace web]\ncodes = http\n");
    EXPECT(desk, "ONCE.BEGIN web k", "*5|+EXECUTE|:1|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.COMPLETE web k 1 503 busy", "+RELEASED|");
    EXPECT(desk, "ONCE.BEGIN web k", "*5|+EXECUTE|:2|:2|$-1|$-1|");
    EXPECT(desk, "ONCE.COMPLETE web k 2 500 oops", "+DOUBT|");
    EXPECT(desk, "ONCE.BEGIN web k", "*3|+DOUBT|:2|$-1|");
    EXPECT(desk, "ONCE.COMPLETE web k 2 500 oops", "+DOUBT|");
    EXPECT(desk, "ONCE.COMPLETE web k 2 200 ok", "+OK|");
}

static void list__pages__and_filters(void **state)
{
    struct desk *desk = *state;
    const char *text;

    EXPECT(desk, "ONCE.LIST a", "*2|$1|0|*0|");
    EXPECT(desk, "ONCE.BEGIN a k OWNER me", "*5|+EXECUTE|:1|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.LIST a COUNT 10 STATE started CURSOR 0",
           "*2|$1|0|*1|*22|$2|ns|$1|a|$3|key|$1|k|$5|state|$7|started|$5|fence|:1|$7|attempt|:1|"
           "$4|code|$-1|$5|owner|$2|me|$5|point|$-1|$10|created_ms|:1700000000000|$12|"
           "lease_end_ms|:1700000030000|$10|expires_ms|:1700086400000|");
    EXPECT(desk, "ONCE.LIST a STATE completed", "*2|$1|0|*0|");
    EXPECT(desk, "ONCE.LIST b", "*2|$1|0|*0|");
    EXPECT_START(desk, "ONCE.LIST ''", "*2|$1|0|*1|");
    for (int i = 0; i < 5; i++) {
        char line[64];

        snprintf(line, sizeof(line), "ONCE.BEGIN a more%d", i);
        EXPECT_START(desk, line, "*5|+EXECUTE|");
    }
    text = shown(ask(desk, "ONCE.LIST a COUNT 2"));
    assert_true(strncmp(text, "*2|$1|0|", 8) != 0); /* there is more */
    EXPECT(desk, "ONCE.LIST a STATE nope",
           "-ERR ONCE.LIST: STATE must be STARTED or COMPLETED or FAILED or DOUBT, not 'nope' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.LIST a CURSOR x",
           "-ERR ONCE.LIST: the cursor must be one that it gave, or 0, not 'x' (ERR_INVALID)|");
    EXPECT(desk, "ONCE.LIST a CURSOR 18446744073709551616",
           "-ERR ONCE.LIST: the cursor must be one that it gave, or 0, not '18446744073709551616' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.LIST a COUNT 1001",
           "-ERR ONCE.LIST: COUNT must be a number from 1 to 1000, not '1001' (ERR_INVALID)|");
    desk->session.protocol = 3;
    EXPECT_START(desk, "ONCE.LIST a STATE started COUNT 1", "*2|");
    assert_non_null(strstr(shown(once_buf_bytes(&desk->out.buf)), "|*1|%11|$2|ns|"));
    desk->session.identity.role = ONCE__ROLE_READ;
    snprintf(desk->session.identity.name, sizeof(desk->session.identity.name), "bob");
    EXPECT(desk, "ONCE.LIST ''", "*2|$1|0|*0|"); /* nothing of it is bob's */
}

static void stats__one_document__of_what_was_told(void **state)
{
    struct desk *desk = *state;
    const char *text;

    EXPECT(desk, "ONCE.STATS all", "-ERR wrong number of arguments for 'once.stats' command|");
    EXPECT_START(desk, "ONCE.BEGIN pay k1", "*5|+EXECUTE|");
    EXPECT_START(desk, "ONCE.STATS", "$");
    text = shown(once_buf_bytes(&desk->out.buf));
    assert_non_null(strstr(text, "\"verdicts\":{\"begin\":{\"EXECUTE\":1},\"complete\":{},"));
    assert_non_null(strstr(text, "\"doubts\":0,\"doubts_more\":false,\"started\":1,"));
    assert_non_null(strstr(text, "{\"namespace\":\"pay\",\"verdicts\":{\"begin\":{\"EXECUTE\":1}},"
                                 "\"errors\":0}"));
    desk->session.identity.role = ONCE__ROLE_READ;
    snprintf(desk->session.identity.name, sizeof(desk->session.identity.name), "bob");
    EXPECT_START(desk, "ONCE.STATS", "$"); /* remembered, and not all of it is bob's */
    text = shown(once_buf_bytes(&desk->out.buf));
    assert_non_null(strstr(text, "\"begin\":{\"EXECUTE\":1}"));
    assert_non_null(strstr(text, "\"namespaces\":[]}"));
    desk->session.identity.known = false;
    EXPECT_START(desk, "ONCE.STATS", "-NOAUTH ");
}

static void namespace__declared_or_not__its_policy(void **state)
{
    struct desk *desk = *state;

    EXPECT(
        desk, "ONCE.NAMESPACE pay",
        "*26|$9|namespace|$3|pay|$8|declared|:0|$12|retention_ms|:86400000|$16|"
        "retention_ms_max|:315576000000|$8|lease_ms|:30000|$12|lease_ms_max|:604800000|$11|"
        "wait_ms_max|:60000|$8|on_doubt|$6|reject|$11|doubt_fixed|:0|$5|codes|$3|any|$6|on_5xx|$-1|"
        "$15|result_size_max|:16777216|$7|by_user|:0|");
    EXPECT(desk, "ONCE.NAMESPACE a b",
           "-ERR wrong number of arguments for 'once.namespace' command|");
    desk_configure(desk, "dir = /nowhere\n[namespace web]\ncodes = http\ndoubt = retry\n");
    desk->session.protocol = 3;
    EXPECT_START(desk, "ONCE.NAMESPACE", "*2|%13|$9|namespace|$3|web|$8|declared|#t|");
    assert_non_null(strstr(shown(once_buf_bytes(&desk->out.buf)), "|$5|codes|$4|http|$6|on_5xx|"));
    assert_non_null(strstr(shown(once_buf_bytes(&desk->out.buf)), "$9|namespace|$1|*|"));
    desk_configure(desk, "dir = /nowhere\nnamespaces = declared\n[namespace web]\n");
    EXPECT_START(desk, "ONCE.NAMESPACE", "*1|");
    EXPECT(desk, "ONCE.NAMESPACE pay",
           "-ERR ONCE.NAMESPACE: namespace 'pay' is not declared (ERR_INVALID)|");
}

/* ---- Objects --------------------------------------------------------------------------------- */

static void apply__applied_then_replayed(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.APPLY pay k1 DO 3 ADD acct 100 DO 4 SEQ p 0 0", "*3|+APPLIED|:100|$3|new|");
    EXPECT(desk, "ONCE.APPLY pay k1 DO 3 ADD acct 100 DO 4 SEQ p 0 0", "*3|+REPLAY|:100|$3|new|");
    EXPECT(desk, "ONCE.APPLY pay k1 DO 3 ADD acct 50", "*1|+MISMATCH|");
    EXPECT(desk, "ONCE.APPLY pay k2 DO 5 ADD acct -200 MIN 0",
           "-REJECTED 1 BELOW_MIN acct is at 100 and would come to -100, below its minimum 0|");
    EXPECT(desk, "ONCE.APPLY pay k2 DO 5 ADD acct -200 MIN 0",
           "-REJECTED 1 BELOW_MIN acct is at 100 and would come to -100, below its minimum 0 "
           "(replayed)|");
    EXPECT(desk, "ONCE.APPLY '' '' DO 3 MAX top 5", "*2|+APPLIED|:5|");
    EXPECT(desk, "ONCE.APPLY pay k3 do 3 add acct 1 ttl 1000 fp x", "*2|+APPLIED|:101|");
    EXPECT(desk, "ONCE.APPLY pay k3 FP x DO 3 ADD acct 7", "*2|+REPLAY|:101|");
    EXPECT(desk, "ONCE.BEGIN pay k4", "*5|+EXECUTE|:4|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.APPLY pay k4 DO 3 ADD acct 1", "*1|+MISMATCH|");
    EXPECT(desk, "ONCE.BEGIN pay k5 FP x", "*5|+EXECUTE|:5|:1|$-1|$-1|");
    EXPECT(desk, "ONCE.APPLY pay k5 FP x DO 3 ADD acct 1", "*2|+BUSY|:1000|");
    EXPECT(desk, "ONCE.COMPLETE pay k5 5 200 other", "+OK|");
    EXPECT(desk, "ONCE.APPLY pay k5 FP x DO 3 ADD acct 1", "*2|+REPLAY|*2|:200|$5|other|");
}

static void apply__bad_arguments__each_is_named(void **state)
{
    struct desk *desk = *state;
    char line[2048] = "ONCE.APPLY a k";

    EXPECT(desk, "ONCE.APPLY a k DO x y",
           "-ERR ONCE.APPLY: DO 1: the number of its words must be from 1 to 4096, not 'x' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.APPLY a k DO 0 ADD",
           "-ERR ONCE.APPLY: DO 1: the number of its words must be from 1 to 4096, not '0' "
           "(ERR_INVALID)|");
    EXPECT(desk, "ONCE.APPLY a k DO 3 ADD a",
           "-ERR ONCE.APPLY: DO 1 says 3 words, but 2 follow (ERR_INVALID)|");
    EXPECT(desk, "ONCE.APPLY a k DO 3 ADD a 1 DO",
           "-ERR ONCE.APPLY: DO 2 needs the number of its words (ERR_INVALID)|");
    EXPECT(desk, "ONCE.APPLY a k DO 3 ADD a 1 MIN 0",
           "-ERR ONCE.APPLY: unknown option 'MIN'; it knows FP, TTL, DO (ERR_INVALID)|");
    EXPECT(desk, "ONCE.APPLY a k FP x TTL 5",
           "-ERR ONCE.APPLY: DO is missing: there is nothing to apply (ERR_INVALID)|");
    EXPECT(desk, "ONCE.APPLY a k TTL 1 DO 2 FLAG f TTL 2",
           "-ERR ONCE.APPLY: TTL was given twice (ERR_INVALID)|");
    EXPECT_START(desk, "ONCE.APPLY a k DO 2 FLAG f DO 2 NOPE x", "-ERR effect 2: ");
    EXPECT_START(desk, "ONCE.APPLY a k DO 3 ADD f x", "-ERR effect 1: ");
    EXPECT(desk, "ONCE.APPLY a k DO 2 FLAG f", "*2|+APPLIED|:1|");
    EXPECT_START(desk, "ONCE.APPLY a k2 DO 3 ADD f 1", "-ERR effect 1: ");
    assert_non_null(strstr(shown(once_buf_bytes(&desk->out.buf)), "(ERR_OBJECT_TYPE)|"));
    EXPECT_START(desk, "ONCE.APPLY '' '' DO 3 ADD n 1", "-ERR ");
    assert_non_null(strstr(shown(once_buf_bytes(&desk->out.buf)), "(ERR_KEY_NEEDED)|"));
    for (int i = 0; i < 15; i++)
        snprintf(line + strlen(line), sizeof(line) - strlen(line), " DO 2 FLAG f");
    EXPECT_START(desk, line, "*1|+MISMATCH|");
}

static void apply__more_effects_than_allowed__is_refused(void **state)
{
    struct desk *desk = *state;
    struct once_bytes words[3 + 65 * 4];
    size_t count = 0;

    words[count++] = once_bytes_of("ONCE.APPLY");
    words[count++] = once_bytes_of("a");
    words[count++] = once_bytes_of("k");
    for (int i = 0; i < 65; i++) {
        words[count++] = once_bytes_of("DO");
        words[count++] = once_bytes_of("2");
        words[count++] = once_bytes_of("FLAG");
        words[count++] = once_bytes_of("f");
    }
    assert_string_equal(shown(desk_ask(desk, words, count)),
                        "-ERR ONCE.APPLY: at most 64 DO are allowed (ERR_INVALID)|");
    assert_string_equal(
        shown(desk_ask(desk, words, count - 4)) + 4,
        "+APPLIED|:1|:1|:1|:1|:1|:1|:1|"
        ":1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1"
        "|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1|:1"
        "|:1|:1|:1|:1|:1|:1|:1|");
}

static void object__each_kind__its_map(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.OBJECT none", "$-1|");
    EXPECT(desk, "ONCE.APPLY a k DO 3 ADD acct 9 DO 3 SET reg hello", "*3|+APPLIED|:9|:1|");
    EXPECT(desk, "ONCE.OBJECT acct",
           "*12|$4|name|$4|acct|$4|type|$7|counter|$7|version|:0|$7|present|:1|$5|state|$-1|$4|"
           "json|$42|{\"name\":\"acct\",\"type\":\"counter\",\"value\":9}|");
    EXPECT_START(desk, "ONCE.OBJECT reg",
                 "*12|$4|name|$3|reg|$4|type|$8|register|$7|version|:1|$7|present|:1|$5|state|$5|"
                 "hello|$4|json|$");
    EXPECT(desk, "ONCE.OBJECTS", "*2|$1|0|*2|*2|$4|acct|$7|counter|*2|$3|reg|$8|register|");
    EXPECT_START(desk, "ONCE.OBJECTS COUNT 1", "*2|");
    assert_non_null(strstr(shown(once_buf_bytes(&desk->out.buf)), "*1|*2|$4|acct|$7|counter|"));
    EXPECT(desk, "ONCE.OBJECTS AFTER 1",
           "-ERR ONCE.OBJECTS: unknown option 'AFTER'; it knows CURSOR, COUNT (ERR_INVALID)|");
    desk->session.protocol = 3;
    EXPECT(desk, "ONCE.OBJECT none", "_|");
    EXPECT_START(desk, "ONCE.OBJECT acct", "%6|$4|name|$4|acct|");
}

static void items__of_a_log__numbered(void **state)
{
    struct desk *desk = *state;

    EXPECT(desk, "ONCE.APPLY a k DO 4 APPEND log e1 one DO 4 APPEND log e2 two DO 3 EMIT out hi",
           "*4|+APPLIED|:1|:2|:1|");
    EXPECT(desk, "ONCE.ITEMS log", "*3|$1|2|:0|*2|*4|:1|$2|e1|$-1|$3|one|*4|:2|$2|e2|$-1|$3|two|");
    EXPECT(desk, "ONCE.ITEMS log COUNT 1", "*3|$1|1|:1|*1|*4|:1|$2|e1|$-1|$3|one|");
    EXPECT(desk, "ONCE.ITEMS log AFTER 1", "*3|$1|2|:0|*1|*4|:2|$2|e2|$-1|$3|two|");
    EXPECT(desk, "ONCE.ITEMS out", "*3|$1|1|:0|*1|*4|:1|$-1|$-1|$2|hi|");
    EXPECT(desk, "ONCE.ITEMS log AFTER x",
           "-ERR ONCE.ITEMS: the cursor must be one that it gave, or 0, not 'x' (ERR_INVALID)|");
    EXPECT(desk, "ONCE.APPLY a k2 DO 2 FLAG f", "*2|+APPLIED|:1|");
    EXPECT(desk, "ONCE.ITEMS f", "-ERR the object is of another type (ERR_OBJECT_TYPE)|");
}

static void items__large_payloads__come_in_pages(void **state)
{
    struct desk *desk = *state;
    static const char payload[16000] = "x";
    char id[32], line[64];
    const char *text;
    long number = 0, before, pages = 0;

    for (int i = 1; i <= 80; i++) {
        struct once_bytes words[] = {once_bytes_of("ONCE.APPLY"),
                                     once_bytes_of("a"),
                                     {(const uint8_t *)id, (size_t)snprintf(id, 32, "e%d", i)},
                                     once_bytes_of("DO"),
                                     once_bytes_of("4"),
                                     once_bytes_of("APPEND"),
                                     once_bytes_of("log"),
                                     {(const uint8_t *)id, strlen(id)},
                                     {(const uint8_t *)payload, sizeof(payload)}};

        assert_true(strncmp(shown(desk_ask(desk, words, 9)), "*2|+APPLIED|", 12) == 0);
    }
    do {
        before = number;
        snprintf(line, sizeof(line), "ONCE.ITEMS log COUNT 1000 AFTER %ld", number);
        text = (const char *)ask(desk, line).data;
        assert_int_equal(sscanf(text, "*3\r\n$%*d\r\n%ld\r\n", &number), 1);
        assert_true(number > before);
        text = strstr(text, "\r\n:");
        pages++;
    } while (text[3] == '1');
    assert_int_equal(number, 80);
    assert_true(pages > 1);
}

static void merge_delta_changes__between_two_names(void **state)
{
    struct desk *desk = *state;
    struct once_buf delta, message;
    struct once_bytes words[] = {
        once_bytes_of("ONCE.MERGE"), once_bytes_of("set"), once_bytes_of("GSet"), {NULL, 0}};
    char cursor[128] = "", line[256];
    const char *text;
    int more = -1;

    once_buf_init(&delta, 1000);
    once_buf_init(&message, 1 << 20);
    assert_int_equal(once_gset_add(once_bytes_of("x"), &delta), ONCE_OK);
    words[3] = once_buf_bytes(&delta);
    assert_string_equal(shown(desk_ask(desk, words, 4)), ":1|");
    assert_string_equal(shown(desk_ask(desk, words, 4)), ":0|");
    words[2] = once_bytes_of("flag");
    assert_string_equal(shown(desk_ask(desk, words, 4)),
                        "-ERR ONCE.MERGE: the bytes are no state of the type flag (ERR_INVALID)|");
    EXPECT(desk, "ONCE.MERGE set counter x",
           "-ERR ONCE.MERGE: type must be one of max, min, flag, gset, vv, lww, gcounter, "
           "pncounter, awset, mvreg, map, not 'counter' (ERR_INVALID)|");
    EXPECT_START(desk, "ONCE.MERGE set gset \004xyz", "-ERR ");
    assert_non_null(strstr(shown(once_buf_bytes(&desk->out.buf)), "(ERR_DAMAGED)|"));
    EXPECT_START(desk, "ONCE.DELTA set 0", "*2|:1|$");
    EXPECT(desk, "ONCE.DELTA set 1", "*2|:1|$0||");
    EXPECT(desk, "ONCE.DELTA none 0", "-ERR there is no such object (ERR_NO_OBJECT)|");
    EXPECT(desk, "ONCE.DELTA set -1",
           "-ERR ONCE.DELTA: since must be a version from 0 to 9007199254740991, not '-1' "
           "(ERR_INVALID)|");
    text = (const char *)ask(desk, "ONCE.CHANGES SIZE 1000").data;
    assert_int_equal(sscanf(text, "*3\r\n$%*d\r\n%100s\r\n:%d\r\n", cursor, &more), 2);
    assert_int_equal(more, 0);
    text = strstr(strchr(text, ':'), "\r\n$") + 3;
    assert_int_equal(
        once_buf_append(&message, strstr(text, "\r\n") + 2, (size_t)strtoul(text, NULL, 10)),
        ONCE_OK);
    snprintf(line, sizeof(line), "ONCE.CHANGES CURSOR %s", cursor);
    text = shown(ask(desk, line));
    assert_non_null(strstr(text, "|:0|$0||")); /* no news */
    words[0] = once_bytes_of("ONCE.CHANGES.MERGE");
    words[1] = once_buf_bytes(&message);
    assert_string_equal(shown(desk_ask(desk, words, 2)), ":0|"); /* known */
    EXPECT_START(desk, "ONCE.CHANGES.MERGE junk", "-ERR ");
    EXPECT(desk, "ONCE.CHANGES CURSOR abc",
           "-ERR ONCE.CHANGES: CURSOR must be one that it gave, not 'abc' (ERR_INVALID)|");
    snprintf(line, sizeof(line), "ONCE.CHANGES CURSOR %s.5", cursor);
    EXPECT_START(desk, line, "-ERR ONCE.CHANGES: CURSOR must be one that it gave");
    once_buf_release(&delta);
    once_buf_release(&message);
}

int main(void)
{
#define TWO(test) cmocka_unit_test_setup_teardown(test, open_two, close_desk)
    const struct CMUnitTest tests[] = {
        TWO(begin__to_complete__replays),
        cmocka_unit_test_setup_teardown(begin__resp3__nulls_are_underscores, open_three,
                                        close_desk),
        TWO(begin__options__do_what_they_say),
        TWO(begin__bad_options__each_is_named),
        TWO(owners_calls__bad_arguments__each_is_named),
        TWO(fail_renew_checkpoint__answers),
        TWO(stats__one_document__of_what_was_told),
        TWO(resolve_forget__answers),
        TWO(get__every_state__the_whole_record),
        TWO(complete__codes_of_http__released_or_doubt),
        TWO(list__pages__and_filters),
        TWO(namespace__declared_or_not__its_policy),
        TWO(apply__applied_then_replayed),
        TWO(apply__bad_arguments__each_is_named),
        TWO(apply__more_effects_than_allowed__is_refused),
        TWO(object__each_kind__its_map),
        TWO(items__of_a_log__numbered),
        TWO(items__large_payloads__come_in_pages),
        TWO(merge_delta_changes__between_two_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
