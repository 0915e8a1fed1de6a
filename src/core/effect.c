/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of the effects, and the table of what is true of each. effect.h has the contracts.
 *
 * Every step is pure: it reads its arguments and writes the one value it was given, and that only
 * when it says CHANGED. The order of the checks is part of the meaning: "already done" comes before
 * every refusal that the work itself would have caused, so that a repetition is told the truth.
 */
#include "core/effect.h"

_Static_assert(ONCE_MACHINE_STATES_MAX == 64, "one bit of a uint64_t for each state");

const char *once__effect_word_text(enum once__effect_word word)
{
    static const char *const texts[] = {
#define ONCE__EFFECT_TEXT(name, text) text,
        ONCE__EFFECT_WORDS(ONCE__EFFECT_TEXT)
#undef ONCE__EFFECT_TEXT
    };

    return word < ONCE__EFFECT_WORD_COUNT ? texts[word] : "unknown";
}

enum once__effect_word once__effect_add(int64_t *value, int64_t n, struct once__range range)
{
    int64_t sum;

    if (n > 0 ? *value > INT64_MAX - n : *value < INT64_MIN - n)
        return ONCE__EFFECT_OVERFLOW;
    sum = *value + n;
    if (sum < range.min)
        return ONCE__EFFECT_BELOW_MIN;
    if (sum > range.max)
        return ONCE__EFFECT_ABOVE_MAX;
    if (n == 0)
        return ONCE__EFFECT_UNCHANGED;
    *value = sum;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_max(struct once__extreme *extreme, int64_t n)
{
    if (extreme->present && n <= extreme->value)
        return ONCE__EFFECT_UNCHANGED;
    extreme->present = true;
    extreme->value = n;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_min(struct once__extreme *extreme, int64_t n)
{
    if (extreme->present && n >= extreme->value)
        return ONCE__EFFECT_UNCHANGED;
    extreme->present = true;
    extreme->value = n;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_flag(bool *flag)
{
    if (*flag)
        return ONCE__EFFECT_UNCHANGED;
    *flag = true;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_set(struct once__register *reg, struct once_bytes value,
                                        struct once__expected expected)
{
    if (expected.given && expected.version != reg->version)
        return ONCE__EFFECT_VERSION;
    if (reg->version >= ONCE_VERSION_MAX)
        return ONCE__EFFECT_OVERFLOW;
    reg->version++;
    reg->present = true;
    reg->value = value;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_delete(struct once__register *reg,
                                           struct once__expected expected)
{
    if (!reg->present && (!expected.given || expected.version <= reg->version))
        return ONCE__EFFECT_UNCHANGED;
    if (expected.given && expected.version != reg->version)
        return ONCE__EFFECT_VERSION;
    if (reg->version >= ONCE_VERSION_MAX)
        return ONCE__EFFECT_OVERFLOW;
    reg->version++;
    reg->present = false;
    reg->value.data = NULL;
    reg->value.size = 0;
    return ONCE__EFFECT_CHANGED;
}

/*@ requires \valid_read(a) && \valid_read(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result <==> same_machine{Here, Here}(a, b);
  @*/
static bool machine_equal(const struct once__machine *a, const struct once__machine *b)
{
    if (a->state_count != b->state_count)
        return false;
    /*@ loop invariant range: 0 <= i <= ONCE_MACHINE_STATES_MAX;
      @ loop invariant equal: \forall integer j; 0 <= j < i ==> a->to[j] == b->to[j];
      @ loop assigns i;
      @ loop variant ONCE_MACHINE_STATES_MAX - i;
      @*/
    for (uint32_t i = 0; i < ONCE_MACHINE_STATES_MAX; i++) {
        if (a->to[i] != b->to[i])
            return false;
    }
    return true;
}

enum once__effect_word once__effect_machine(struct once__machine *machine,
                                            const struct once__machine *declared)
{
    if (machine->state_count != 0)
        return machine_equal(machine, declared) ? ONCE__EFFECT_UNCHANGED : ONCE__EFFECT_REDECLARED;

    /* A loop instead of an assignment: the prover follows it entry by entry. */
    /*@ loop invariant range: 0 <= i <= ONCE_MACHINE_STATES_MAX;
      @ loop invariant copied: \forall integer j; 0 <= j < i ==> machine->to[j] == declared->to[j];
      @ loop assigns i, machine->to[0 .. ONCE_MACHINE_STATES_MAX - 1];
      @ loop variant ONCE_MACHINE_STATES_MAX - i;
      @*/
    for (uint32_t i = 0; i < ONCE_MACHINE_STATES_MAX; i++)
        machine->to[i] = declared->to[i];
    machine->state_count = declared->state_count;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_move(uint32_t *at, struct once__move move,
                                         const struct once__machine *machine)
{
    if (move.from >= machine->state_count || move.to >= machine->state_count)
        return ONCE__EFFECT_NO_STATE;
    if (move.to == *at)
        return ONCE__EFFECT_UNCHANGED;
    if (((machine->to[move.from] >> move.to) & 1) == 0)
        return ONCE__EFFECT_NO_MOVE;
    if (move.from != *at)
        return ONCE__EFFECT_ELSEWHERE;
    *at = move.to;
    return ONCE__EFFECT_CHANGED;
}

/* Takes away, again and again, every state from which no remaining state can be reached. What
 * can never be taken away lies on a cycle or leads into one. Each round takes at least one, so
 * 64 rounds do. */
bool once__machine_has_cycle(const struct once__machine *machine)
{
    uint64_t left = 0;

    /*@ loop invariant range: 0 <= i <= machine->state_count;
      @ loop assigns i, left;
      @ loop variant machine->state_count - i;
      @*/
    for (uint32_t i = 0; i < machine->state_count; i++)
        left |= (uint64_t)1 << i;

    /*@ loop invariant range: 0 <= round <= machine->state_count;
      @ loop assigns round, left;
      @ loop variant machine->state_count - round;
      @*/
    for (uint32_t round = 0; round < machine->state_count; round++) {
        /*@ loop invariant range: 0 <= i <= machine->state_count;
          @ loop assigns i, left;
          @ loop variant machine->state_count - i;
          @*/
        for (uint32_t i = 0; i < machine->state_count; i++) {
            uint64_t self = (uint64_t)1 << i;

            if ((machine->to[i] & left & ~self) == 0)
                left &= ~self;
        }
    }
    return left != 0;
}

enum once__effect_word once__effect_grant(uint64_t *token)
{
    if (*token >= ONCE_FENCE_MAX)
        return ONCE__EFFECT_OVERFLOW;
    *token += 1;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_guard(uint64_t *highest, uint64_t token)
{
    if (token <= *highest)
        return ONCE__EFFECT_STALE;
    if (token > ONCE_FENCE_MAX)
        return ONCE__EFFECT_OVERFLOW;
    *highest = token;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_lease(struct once__lease *lease, struct once__claim claim)
{
    if (lease->owner.size > 0 && claim.now_ms < lease->until_ms)
        return once__bytes_equal(lease->owner, claim.owner) ? ONCE__EFFECT_UNCHANGED
                                                            : ONCE__EFFECT_HELD;
    if (lease->token >= ONCE_FENCE_MAX)
        return ONCE__EFFECT_OVERFLOW;
    lease->token++;
    lease->until_ms = claim.until_ms;
    lease->owner = claim.owner;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_renew(struct once__lease *lease, struct once__renewal renewal)
{
    if (lease->owner.size == 0 || renewal.token != lease->token)
        return ONCE__EFFECT_STALE;
    if (renewal.until_ms <= lease->until_ms)
        return ONCE__EFFECT_UNCHANGED;
    lease->until_ms = renewal.until_ms;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_release(struct once__lease *lease, uint64_t token)
{
    if (token == 0 || token != lease->token)
        return ONCE__EFFECT_STALE;
    if (lease->owner.size == 0)
        return ONCE__EFFECT_UNCHANGED;
    lease->until_ms = 0;
    lease->owner.data = NULL;
    lease->owner.size = 0;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_hold(const struct once__lease *lease, uint64_t token)
{
    return lease->owner.size > 0 && token == lease->token ? ONCE__EFFECT_UNCHANGED
                                                          : ONCE__EFFECT_STALE;
}

enum once__effect_word once__effect_seq(struct once__sequence *sequence,
                                        struct once__position position)
{
    if (position.epoch < sequence->epoch)
        return ONCE__EFFECT_FENCED;
    if (position.epoch == sequence->epoch && position.n < sequence->next)
        return ONCE__EFFECT_UNCHANGED;
    if (position.n != (position.epoch == sequence->epoch ? sequence->next : 0))
        return ONCE__EFFECT_GAP;
    if (position.n >= ONCE_VERSION_MAX || position.epoch > ONCE_VERSION_MAX)
        return ONCE__EFFECT_OVERFLOW;
    sequence->epoch = position.epoch;
    sequence->next = position.n + 1;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_bucket(uint64_t *count, uint64_t n)
{
    if (n > ONCE_BUCKET_COUNT_MAX - *count)
        return ONCE__EFFECT_OVERFLOW;
    if (n == 0)
        return ONCE__EFFECT_UNCHANGED;
    *count += n;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_append(uint64_t *version, struct once__append append)
{
    if (append.at.given && append.at.version < *version && append.there)
        return ONCE__EFFECT_UNCHANGED;
    if (append.at.given && append.at.version != *version)
        return ONCE__EFFECT_VERSION;
    if (*version >= ONCE_VERSION_MAX)
        return ONCE__EFFECT_OVERFLOW;
    *version += 1;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_emit(uint64_t *count)
{
    if (*count >= ONCE_VERSION_MAX)
        return ONCE__EFFECT_OVERFLOW;
    *count += 1;
    return ONCE__EFFECT_CHANGED;
}

enum once__effect_word once__effect_sent(bool *there, struct once__receipt receipt)
{
    if (receipt.number == 0 || receipt.number > receipt.emitted)
        return ONCE__EFFECT_NO_MESSAGE;
    if (!*there)
        return ONCE__EFFECT_UNCHANGED;
    *there = false;
    return ONCE__EFFECT_CHANGED;
}

/* Computed again by `once laws` on every run, which stops when a row is wrong. */
#define LAWS(idempotent, commutative, associative, needs_key)                                      \
    {                                                                                              \
        idempotent, commutative, associative, needs_key                                            \
    }

const struct once__effect once__effects[ONCE__EFFECT_COUNT] = {
    [ONCE__ADD] = {"ADD", "ADD name n [MIN m] [MAX m]", "ADD name n",
                   LAWS(false, true, true, true)},
    [ONCE__ADD_BOUNDED] = {"ADD", "ADD name n [MIN m] [MAX m]", "ADD name n MIN m MAX m",
                           LAWS(false, false, false, true)},
    [ONCE__MAX] = {"MAX", "MAX name n", "MAX name n", LAWS(true, true, true, false)},
    [ONCE__MIN] = {"MIN", "MIN name n", "MIN name n", LAWS(true, true, true, false)},
    [ONCE__FLAG] = {"FLAG", "FLAG name", "FLAG name", LAWS(true, true, true, false)},
    [ONCE__UNION] = {"UNION", "UNION name member…", "UNION name member…",
                     LAWS(true, true, true, false)},
    [ONCE__CLOCK] = {"CLOCK", "CLOCK name node n", "CLOCK name node n",
                     LAWS(true, true, true, false)},
    [ONCE__LWW] = {"LWW", "LWW name time node value", "LWW name time node value",
                   LAWS(true, true, true, false)},
    [ONCE__GADD] = {"GADD", "GADD name node n", "GADD name node n", LAWS(false, true, true, true)},
    [ONCE__PNADD] = {"PNADD", "PNADD name node n", "PNADD name node n",
                     LAWS(false, true, true, true)},
    [ONCE__INSERT] = {"INSERT", "INSERT name node member…", "INSERT name node member…",
                      LAWS(false, false, true, true)},
    [ONCE__REMOVE] = {"REMOVE", "REMOVE name member…", "REMOVE name member…",
                      LAWS(true, true, true, true)},
    [ONCE__SET] = {"SET", "SET name value [IF version]", "SET name value",
                   LAWS(false, false, true, true)},
    [ONCE__SET_IF] = {"SET", "SET name value [IF version]", "SET name value IF version",
                      LAWS(true, false, false, false)},
    [ONCE__DELETE] = {"DELETE", "DELETE name [IF version]", "DELETE name",
                      LAWS(true, true, true, true)},
    [ONCE__DELETE_IF] = {"DELETE", "DELETE name [IF version]", "DELETE name IF version",
                         LAWS(true, true, false, false)},
    [ONCE__MACHINE] = {"MACHINE", "MACHINE name from>to…", "MACHINE name from>to…",
                       LAWS(true, false, false, false)},
    [ONCE__MOVE] = {"MOVE", "MOVE name from to", "MOVE name from to",
                    LAWS(true, false, false, true)},
    [ONCE__MOVE_FORWARD] = {"MOVE", "MOVE name from to", "MOVE name from to (no cycle)",
                            LAWS(true, false, false, false)},
    [ONCE__APPEND] = {"APPEND", "APPEND name event_id payload [AT version]",
                      "APPEND name event_id payload", LAWS(false, false, true, true)},
    [ONCE__APPEND_AT] = {"APPEND", "APPEND name event_id payload [AT version]",
                         "APPEND name event_id payload AT version",
                         LAWS(true, false, false, false)},
    [ONCE__GRANT] = {"GRANT", "GRANT name", "GRANT name", LAWS(false, true, true, true)},
    [ONCE__GUARD] = {"GUARD", "GUARD name token", "GUARD name token",
                     LAWS(true, true, false, false)},
    [ONCE__LEASE] = {"LEASE", "LEASE name owner ms", "LEASE name owner ms",
                     LAWS(true, false, false, true)},
    [ONCE__RENEW] = {"RENEW", "RENEW name token ms", "RENEW name token ms",
                     LAWS(true, true, false, false)},
    [ONCE__RELEASE] = {"RELEASE", "RELEASE name token", "RELEASE name token",
                       LAWS(true, true, false, false)},
    [ONCE__HOLD] = {"HOLD", "HOLD name token", "HOLD name token", LAWS(true, true, true, false)},
    [ONCE__SEQ] = {"SEQ", "SEQ name epoch n", "SEQ name epoch n", LAWS(true, false, false, false)},
    [ONCE__BUCKET] = {"BUCKET", "BUCKET name bucket n", "BUCKET name bucket n",
                      LAWS(false, true, true, true)},
    [ONCE__EMIT] = {"EMIT", "EMIT topic payload [GROUP g]", "EMIT topic payload [GROUP g]",
                    LAWS(false, false, true, true)},
    [ONCE__SENT] = {"SENT", "SENT topic number…", "SENT topic number…",
                    LAWS(true, true, false, false)},
};
