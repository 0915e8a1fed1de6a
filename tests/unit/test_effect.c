/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/seeded.h"

#include "core/effect.h"

static const struct once__range all = {INT64_MIN, INT64_MAX};
static const struct once__expected any = {false, 0};

static struct once__expected expect(uint64_t version)
{
    return (struct once__expected){true, version};
}

/* --- ADD --- */

static void add__within_its_range__adds(void **state)
{
    int64_t value = 0;

    (void)state;
    assert_int_equal(once__effect_add(&value, 5, all), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_add(&value, -7, all), ONCE__EFFECT_CHANGED);
    assert_int_equal(value, -2);
    assert_int_equal(once__effect_add(&value, 0, all), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(value, -2);
}

static void add__out_of_bounds__is_rejected_and_changes_nothing(void **state)
{
    const struct once__range range = {0, 10};
    int64_t value = 3;

    (void)state;
    assert_int_equal(once__effect_add(&value, -4, range), ONCE__EFFECT_BELOW_MIN);
    assert_int_equal(once__effect_add(&value, 8, range), ONCE__EFFECT_ABOVE_MAX);
    assert_int_equal(value, 3);
    assert_int_equal(once__effect_add(&value, -3, range), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_add(&value, 10, range), ONCE__EFFECT_CHANGED);
    assert_int_equal(value, 10);
}

__extension__ typedef __int128 wide;

/* The reference works in 128 bits, where nothing overflows. */
static void add__any_numbers__agrees_with_wide_arithmetic(void **state)
{
    static const int64_t edges[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1};
    uint64_t random = seeded_start("add");

    (void)state;
    for (int i = 0; i < 20000; i++) {
        int64_t pick[4];

        for (size_t j = 0; j < 4; j++)
            pick[j] = seeded_below(&random, 2) == 0 ? edges[seeded_below(&random, 7)]
                                                    : (int64_t)seeded_next(&random);

        struct once__range range = {pick[2], pick[3]};
        wide sum = (wide)pick[0] + pick[1];
        bool fits = sum >= range.min && sum <= range.max;
        int64_t value = pick[0];
        enum once__effect_word word = once__effect_add(&value, pick[1], range);

        assert_int_equal(once__effect_rejected(word), !fits);
        assert_true(value == (fits ? (int64_t)sum : pick[0]));
    }
}

/* --- MAX, MIN, FLAG --- */

static void max_and_min__first_number__is_taken_whatever_it_is(void **state)
{
    struct once__extreme max = {0}, min = {0};

    (void)state;
    assert_int_equal(once__effect_max(&max, -3), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_min(&min, 3), ONCE__EFFECT_CHANGED);
    assert_true(max.present && max.value == -3);
    assert_true(min.present && min.value == 3);
}

static void max_and_min__further_numbers__keep_the_extreme(void **state)
{
    struct once__extreme max = {true, 5}, min = {true, 5};

    (void)state;
    assert_int_equal(once__effect_max(&max, 5), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(once__effect_max(&max, 4), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(once__effect_max(&max, 6), ONCE__EFFECT_CHANGED);
    assert_int_equal(max.value, 6);
    assert_int_equal(once__effect_min(&min, 5), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(once__effect_min(&min, 6), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(once__effect_min(&min, 4), ONCE__EFFECT_CHANGED);
    assert_int_equal(min.value, 4);
}

static void flag__raised_again__is_a_no_op(void **state)
{
    bool flag = false;

    (void)state;
    assert_int_equal(once__effect_flag(&flag), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_flag(&flag), ONCE__EFFECT_UNCHANGED);
    assert_true(flag);
}

/* --- SET, DELETE --- */

static void set__without_version__always_takes_a_new_version(void **state)
{
    struct once__register reg = {0};

    (void)state;
    assert_int_equal(once__effect_set(&reg, once_bytes_of("a"), any), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_set(&reg, once_bytes_of("a"), any), ONCE__EFFECT_CHANGED);
    assert_int_equal(reg.version, 2);
    assert_true(reg.present);
    assert_memory_equal(reg.value.data, "a", 1);
}

static void set__with_version__writes_once(void **state)
{
    struct once__register reg = {0};

    (void)state;
    assert_int_equal(once__effect_set(&reg, once_bytes_of("a"), expect(0)), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_set(&reg, once_bytes_of("a"), expect(0)), ONCE__EFFECT_VERSION);
    assert_int_equal(once__effect_set(&reg, once_bytes_of("b"), expect(2)), ONCE__EFFECT_VERSION);
    assert_int_equal(reg.version, 1);
    assert_memory_equal(reg.value.data, "a", 1);
}

static void delete__leaves_a_tombstone__that_refuses_an_old_write(void **state)
{
    struct once__register reg = {0};

    (void)state;
    assert_int_equal(once__effect_set(&reg, once_bytes_of("a"), expect(0)), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_delete(&reg, expect(1)), ONCE__EFFECT_CHANGED);
    assert_false(reg.present);
    assert_int_equal(reg.value.size, 0);
    assert_int_equal(reg.version, 2);
    assert_int_equal(once__effect_set(&reg, once_bytes_of("a"), expect(0)), ONCE__EFFECT_VERSION);
    assert_int_equal(once__effect_set(&reg, once_bytes_of("b"), expect(2)), ONCE__EFFECT_CHANGED);
}

static void delete__of_what_is_deleted__is_a_no_op(void **state)
{
    struct once__register reg = {.version = 4};

    (void)state;
    assert_int_equal(once__effect_delete(&reg, any), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(once__effect_delete(&reg, expect(3)), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(reg.version, 4);
}

/* Otherwise: DELETE IF 5 is "done" at version 4, a SET makes version 5, and the late copy
 * deletes it. */
static void delete__expecting_a_version_that_never_was__is_rejected(void **state)
{
    struct once__register reg = {.version = 4};

    (void)state;
    assert_int_equal(once__effect_delete(&reg, expect(5)), ONCE__EFFECT_VERSION);
    assert_int_equal(reg.version, 4);
}

static void register__at_the_last_version__refuses_to_wrap(void **state)
{
    struct once__register reg = {.version = ONCE_VERSION_MAX, .present = true};

    (void)state;
    assert_int_equal(once__effect_set(&reg, once_bytes_of("a"), any), ONCE__EFFECT_OVERFLOW);
    assert_int_equal(once__effect_delete(&reg, any), ONCE__EFFECT_OVERFLOW);
    assert_true(reg.version == ONCE_VERSION_MAX && reg.present);
}

/* --- MACHINE, MOVE --- */

static struct once__machine machine_of(uint32_t state_count, const struct once__move *moves,
                                       size_t move_count)
{
    struct once__machine machine = {.state_count = state_count};

    for (size_t i = 0; i < move_count; i++)
        machine.to[moves[i].from] |= (uint64_t)1 << moves[i].to;
    return machine;
}

static void machine__declared_twice__the_first_stands(void **state)
{
    const struct once__move forth = {0, 1}, back = {1, 0};
    struct once__machine first = machine_of(2, &forth, 1);
    struct once__machine second = machine_of(2, &back, 1);
    struct once__machine machine = {0};

    (void)state;
    assert_int_equal(once__effect_machine(&machine, &first), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_machine(&machine, &first), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(once__effect_machine(&machine, &second), ONCE__EFFECT_REDECLARED);
    assert_memory_equal(&machine, &first, sizeof(machine));
}

static void move__declared__runs_and_arriving_again_is_a_no_op(void **state)
{
    const struct once__move moves[] = {{0, 1}, {1, 63}};
    struct once__machine machine = machine_of(64, moves, 2);
    uint32_t at = 0;

    (void)state;
    assert_int_equal(once__effect_move(&at, moves[0], &machine), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_move(&at, moves[0], &machine), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(at, 1);
    assert_int_equal(once__effect_move(&at, moves[1], &machine), ONCE__EFFECT_CHANGED);
    assert_int_equal(at, 63);
}

static void move__illegal__is_rejected_with_its_reason(void **state)
{
    const struct once__move moves[] = {{0, 1}, {1, 2}};
    struct once__machine machine = machine_of(3, moves, 2);
    uint32_t at = 0;

    (void)state;
    assert_int_equal(once__effect_move(&at, (struct once__move){0, 2}, &machine),
                     ONCE__EFFECT_NO_MOVE);
    assert_int_equal(once__effect_move(&at, (struct once__move){1, 2}, &machine),
                     ONCE__EFFECT_ELSEWHERE);
    assert_int_equal(once__effect_move(&at, (struct once__move){0, 3}, &machine),
                     ONCE__EFFECT_NO_STATE);
    assert_int_equal(once__effect_move(&at, (struct once__move){UINT32_MAX, 0}, &machine),
                     ONCE__EFFECT_NO_STATE);
    assert_int_equal(at, 0);
}

/* Can some state reach itself over another one? By closing the relation, which is slow and
 * plain. */
static bool reaches_itself(const struct once__machine *machine)
{
    uint64_t reach[ONCE_MACHINE_STATES_MAX];
    bool found = false;

    for (uint32_t i = 0; i < machine->state_count; i++)
        reach[i] = machine->to[i] & ~((uint64_t)1 << i);
    for (uint32_t k = 0; k < machine->state_count; k++) {
        for (uint32_t i = 0; i < machine->state_count; i++) {
            if ((reach[i] >> k) & 1)
                reach[i] |= reach[k];
        }
    }
    for (uint32_t i = 0; i < machine->state_count; i++)
        found = found || ((reach[i] >> i) & 1);
    return found;
}

static void has_cycle__all_machines_of_three_and_random_large_ones__agrees(void **state)
{
    uint64_t random = seeded_start("has_cycle");
    int cycles = 0, others = 0;

    (void)state;
    for (uint64_t bits = 0; bits < 512; bits++) {
        struct once__machine machine = {.state_count = 3,
                                        .to = {bits & 7, (bits >> 3) & 7, (bits >> 6) & 7}};

        assert_int_equal(once__machine_has_cycle(&machine), reaches_itself(&machine));
    }
    for (int i = 0; i < 2000; i++) {
        struct once__machine machine = {.state_count = 1 + (uint32_t)seeded_below(&random, 64)};
        uint64_t edges = seeded_below(&random, machine.state_count);
        uint64_t mask = machine.state_count == 64 ? UINT64_MAX
                                                  : ((uint64_t)1 << machine.state_count) - 1;

        for (uint64_t j = 0; j < edges; j++)
            machine.to[seeded_below(&random, machine.state_count)] |=
                ((uint64_t)1 << seeded_below(&random, 64)) & mask;
        assert_int_equal(once__machine_has_cycle(&machine), reaches_itself(&machine));
        if (reaches_itself(&machine))
            cycles++;
        else
            others++;
    }
    assert_true(cycles > 100 && others > 100); /* or the random machines test nothing */
}

static void has_cycle__ring_through_all_states__is_found(void **state)
{
    struct once__machine machine = {.state_count = 64};

    (void)state;
    for (uint32_t i = 0; i + 1 < 64; i++)
        machine.to[i] = (uint64_t)1 << (i + 1);
    assert_false(once__machine_has_cycle(&machine));
    machine.to[63] = 1;
    assert_true(once__machine_has_cycle(&machine));
}

/* --- GRANT, GUARD --- */

static void grant__each__is_larger_until_there_are_no_more(void **state)
{
    uint64_t token = 0;

    (void)state;
    assert_int_equal(once__effect_grant(&token), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_grant(&token), ONCE__EFFECT_CHANGED);
    assert_int_equal(token, 2);
    token = ONCE_FENCE_MAX;
    assert_int_equal(once__effect_grant(&token), ONCE__EFFECT_OVERFLOW);
    assert_true(token == ONCE_FENCE_MAX);
}

static void guard__at_or_below_the_highest__is_rejected(void **state)
{
    uint64_t highest = 0;

    (void)state;
    assert_int_equal(once__effect_guard(&highest, 0), ONCE__EFFECT_STALE);
    assert_int_equal(once__effect_guard(&highest, 5), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_guard(&highest, 5), ONCE__EFFECT_STALE);
    assert_int_equal(once__effect_guard(&highest, 4), ONCE__EFFECT_STALE);
    assert_int_equal(highest, 5);
    assert_int_equal(once__effect_guard(&highest, 6), ONCE__EFFECT_CHANGED);
}

static void guard__token_that_no_grant_gives__does_not_lock_everybody_out(void **state)
{
    uint64_t highest = 1;

    (void)state;
    assert_int_equal(once__effect_guard(&highest, ONCE_FENCE_MAX + 1), ONCE__EFFECT_OVERFLOW);
    assert_int_equal(once__effect_guard(&highest, UINT64_MAX), ONCE__EFFECT_OVERFLOW);
    assert_int_equal(highest, 1);
    assert_int_equal(once__effect_guard(&highest, ONCE_FENCE_MAX), ONCE__EFFECT_CHANGED);
}

/* --- LEASE, RENEW, RELEASE, HOLD --- */

/* From now on for ten. */
static enum once__effect_word lease_for(struct once__lease *lease, const char *owner, int64_t now)
{
    return once__effect_lease(lease, (struct once__claim){once_bytes_of(owner), now, now + 10});
}

static enum once__effect_word renew(struct once__lease *lease, uint64_t token, int64_t until)
{
    return once__effect_renew(lease, (struct once__renewal){token, until});
}

static void assert_lease(const struct once__lease *lease, uint64_t token, int64_t until,
                         const char *owner)
{
    assert_int_equal(lease->token, token);
    assert_int_equal(lease->until_ms, until);
    assert_int_equal(lease->owner.size, strlen(owner));
    if (lease->owner.size > 0)
        assert_memory_equal(lease->owner.data, owner, lease->owner.size);
}

static void lease__while_it_lasts__is_nobody_elses(void **state)
{
    struct once__lease lease = {0};

    (void)state;
    assert_int_equal(lease_for(&lease, "ann", 100), ONCE__EFFECT_CHANGED);
    assert_lease(&lease, 1, 110, "ann");
    assert_int_equal(lease_for(&lease, "bob", 109), ONCE__EFFECT_HELD);
    assert_int_equal(lease_for(&lease, "an", 109), ONCE__EFFECT_HELD);
    assert_lease(&lease, 1, 110, "ann");
    assert_int_equal(lease_for(&lease, "bob", 110), ONCE__EFFECT_CHANGED);
    assert_lease(&lease, 2, 120, "bob");
}

static void lease__same_owner__gets_its_token_again_and_after_the_end_a_new_one(void **state)
{
    struct once__lease lease = {0};
    char other_place[] = "ann";

    (void)state;
    assert_int_equal(lease_for(&lease, "ann", 0), ONCE__EFFECT_CHANGED);
    assert_int_equal(lease_for(&lease, other_place, 9), ONCE__EFFECT_UNCHANGED);
    assert_lease(&lease, 1, 10, "ann");
    assert_int_equal(lease_for(&lease, "ann", 10), ONCE__EFFECT_CHANGED);
    assert_lease(&lease, 2, 20, "ann");
}

/* S4: it wakes up, and is told so whatever it tries. */
static void lease__paused_owner_that_wakes_up__is_refused_everything(void **state)
{
    struct once__lease lease = {0};

    (void)state;
    assert_int_equal(lease_for(&lease, "ann", 0), ONCE__EFFECT_CHANGED);
    assert_int_equal(lease_for(&lease, "bob", 50), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_hold(&lease, 1), ONCE__EFFECT_STALE);
    assert_int_equal(renew(&lease, 1, 1000), ONCE__EFFECT_STALE);
    assert_int_equal(once__effect_release(&lease, 1), ONCE__EFFECT_STALE);
    assert_int_equal(once__effect_hold(&lease, 2), ONCE__EFFECT_UNCHANGED);
    assert_lease(&lease, 2, 60, "bob");
}

static void lease__at_the_last_token__refuses_to_wrap(void **state)
{
    struct once__lease lease = {.token = ONCE_FENCE_MAX};

    (void)state;
    assert_int_equal(lease_for(&lease, "ann", 0), ONCE__EFFECT_OVERFLOW);
    assert_lease(&lease, ONCE_FENCE_MAX, 0, "");
    lease.token = ONCE_FENCE_MAX - 1;
    assert_int_equal(lease_for(&lease, "ann", 0), ONCE__EFFECT_CHANGED);
    assert_int_equal(lease_for(&lease, "ann", 5), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(lease_for(&lease, "ann", 10), ONCE__EFFECT_OVERFLOW);
}

static void renew__newest_token__never_shortens_and_may_come_late(void **state)
{
    struct once__lease lease = {0};

    (void)state;
    assert_int_equal(renew(&lease, 0, 5), ONCE__EFFECT_STALE);
    assert_int_equal(lease_for(&lease, "ann", 0), ONCE__EFFECT_CHANGED);
    assert_int_equal(renew(&lease, 2, 50), ONCE__EFFECT_STALE);
    assert_int_equal(renew(&lease, 1, 9), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(renew(&lease, 1, 10), ONCE__EFFECT_UNCHANGED);
    assert_lease(&lease, 1, 10, "ann");
    /* Store time may be far past 10: nobody asked in between. */
    assert_int_equal(renew(&lease, 1, 500), ONCE__EFFECT_CHANGED);
    assert_lease(&lease, 1, 500, "ann");
    assert_int_equal(lease_for(&lease, "bob", 499), ONCE__EFFECT_HELD);
}

static void release__once__frees_the_lease_and_ends_the_token(void **state)
{
    struct once__lease lease = {0};

    (void)state;
    assert_int_equal(once__effect_release(&lease, 0), ONCE__EFFECT_STALE);
    assert_int_equal(lease_for(&lease, "ann", 0), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_release(&lease, 2), ONCE__EFFECT_STALE);
    assert_int_equal(once__effect_release(&lease, 1), ONCE__EFFECT_CHANGED);
    assert_lease(&lease, 1, 0, "");
    assert_int_equal(once__effect_release(&lease, 1), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(once__effect_hold(&lease, 1), ONCE__EFFECT_STALE);
    assert_int_equal(renew(&lease, 1, 99), ONCE__EFFECT_STALE);
    assert_lease(&lease, 1, 0, "");
    assert_int_equal(lease_for(&lease, "bob", 0), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_release(&lease, 1), ONCE__EFFECT_STALE);
    assert_lease(&lease, 2, 10, "bob");
}

static void hold__lease_never_given__is_refused(void **state)
{
    const struct once__lease lease = {0};

    (void)state;
    assert_int_equal(once__effect_hold(&lease, 0), ONCE__EFFECT_STALE);
    assert_int_equal(once__effect_hold(&lease, 1), ONCE__EFFECT_STALE);
}

/* --- SEQ --- */

static enum once__effect_word seq(struct once__sequence *sequence, uint64_t epoch, uint64_t n)
{
    return once__effect_seq(sequence, (struct once__position){epoch, n});
}

static void seq__new_duplicate_gap_and_zombie__are_told_apart(void **state)
{
    struct once__sequence sequence = {0};

    (void)state;
    assert_int_equal(seq(&sequence, 0, 0), ONCE__EFFECT_CHANGED);
    assert_int_equal(seq(&sequence, 0, 1), ONCE__EFFECT_CHANGED);
    assert_int_equal(seq(&sequence, 0, 0), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(seq(&sequence, 0, 1), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(seq(&sequence, 0, 3), ONCE__EFFECT_GAP);
    assert_int_equal(seq(&sequence, 2, 1), ONCE__EFFECT_GAP);
    assert_int_equal(seq(&sequence, 2, 0), ONCE__EFFECT_CHANGED);
    assert_int_equal(seq(&sequence, 1, 0), ONCE__EFFECT_FENCED);
    assert_int_equal(seq(&sequence, 0, 2), ONCE__EFFECT_FENCED);
    assert_true(sequence.epoch == 2 && sequence.next == 1);
}

static void seq__at_the_last_number__refuses_to_wrap(void **state)
{
    struct once__sequence sequence = {.epoch = 1, .next = ONCE_VERSION_MAX};

    (void)state;
    assert_int_equal(seq(&sequence, 1, ONCE_VERSION_MAX), ONCE__EFFECT_OVERFLOW);
    assert_int_equal(seq(&sequence, UINT64_MAX, 0), ONCE__EFFECT_OVERFLOW);
    assert_true(sequence.epoch == 1 && sequence.next == ONCE_VERSION_MAX);
    assert_int_equal(seq(&sequence, 2, 0), ONCE__EFFECT_CHANGED);
}

/* --- BUCKET, APPEND, EMIT, SENT --- */

static void bucket__beyond_its_bound__is_rejected(void **state)
{
    uint64_t count = 0;

    (void)state;
    assert_int_equal(once__effect_bucket(&count, 0), ONCE__EFFECT_UNCHANGED);
    assert_int_equal(once__effect_bucket(&count, 7), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_bucket(&count, UINT64_MAX), ONCE__EFFECT_OVERFLOW);
    assert_int_equal(once__effect_bucket(&count, ONCE_BUCKET_COUNT_MAX - 6), ONCE__EFFECT_OVERFLOW);
    assert_int_equal(count, 7);
    assert_int_equal(once__effect_bucket(&count, ONCE_BUCKET_COUNT_MAX - 7), ONCE__EFFECT_CHANGED);
}

static void append__blind__appends_every_time(void **state)
{
    uint64_t version = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(once__effect_append(&version, (struct once__append){.at = any}),
                         ONCE__EFFECT_CHANGED);
    assert_int_equal(version, 3);
}

static void append__at_a_version__appends_once(void **state)
{
    struct once__append append = {.at = expect(2)};
    uint64_t version = 2;

    (void)state;
    assert_int_equal(once__effect_append(&version, append), ONCE__EFFECT_CHANGED);
    assert_int_equal(once__effect_append(&version, append),
                     ONCE__EFFECT_VERSION); /* another event */
    append.there = true;
    assert_int_equal(once__effect_append(&version, append), ONCE__EFFECT_UNCHANGED); /* the same */
    assert_int_equal(version, 3);
    /* An event cannot be there already where the log has not come to. */
    append.at.version = 3;
    assert_int_equal(once__effect_append(&version, append), ONCE__EFFECT_CHANGED);
    append.at.version = 9;
    assert_int_equal(once__effect_append(&version, append), ONCE__EFFECT_VERSION);
}

static void append_and_emit__at_the_last_number__refuse_to_wrap(void **state)
{
    uint64_t version = ONCE_VERSION_MAX, count = ONCE_VERSION_MAX;

    (void)state;
    assert_int_equal(once__effect_append(&version, (struct once__append){.at = any}),
                     ONCE__EFFECT_OVERFLOW);
    assert_int_equal(once__effect_emit(&count), ONCE__EFFECT_OVERFLOW);
    count = 0;
    assert_int_equal(once__effect_emit(&count), ONCE__EFFECT_CHANGED);
    assert_int_equal(count, 1);
}

static void sent__message__goes_once(void **state)
{
    const struct once__receipt receipt = {.number = 3, .emitted = 3};
    bool there = true;

    (void)state;
    assert_int_equal(once__effect_sent(&there, receipt), ONCE__EFFECT_CHANGED);
    assert_false(there);
    assert_int_equal(once__effect_sent(&there, receipt), ONCE__EFFECT_UNCHANGED);
    assert_false(there);
}

/* Else a copy of it could take the message away as soon as there is one. */
static void sent__number_that_was_never_given__is_rejected(void **state)
{
    bool there = false;

    (void)state;
    assert_int_equal(once__effect_sent(&there, (struct once__receipt){4, 3}),
                     ONCE__EFFECT_NO_MESSAGE);
    assert_int_equal(once__effect_sent(&there, (struct once__receipt){0, 3}),
                     ONCE__EFFECT_NO_MESSAGE);
    assert_int_equal(once__effect_sent(&there, (struct once__receipt){1, 0}),
                     ONCE__EFFECT_NO_MESSAGE);
    assert_false(there);
}

/* --- The table --- */

/* A3 by name: what is refused without a key, and what is accepted. */
static void table__needs_key__is_what_the_mission_says(void **state)
{
    static const enum once__effect_id refused[] = {
        ONCE__ADD,    ONCE__ADD_BOUNDED, ONCE__GADD,   ONCE__PNADD, ONCE__INSERT,
        ONCE__REMOVE, ONCE__SET,         ONCE__DELETE, ONCE__MOVE,  ONCE__APPEND,
        ONCE__GRANT,  ONCE__LEASE,       ONCE__BUCKET, ONCE__EMIT,
    };
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        assert_true(once__effects[refused[i]].laws.needs_key);
    for (int id = 0; id < ONCE__EFFECT_COUNT; id++)
        count += once__effects[id].laws.needs_key;
    assert_int_equal(count, sizeof(refused) / sizeof(refused[0]));
}

static void table__every_row__is_filled_in_and_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < ONCE__EFFECT_COUNT; i++) {
        const struct once__effect *effect = &once__effects[i];
        size_t size = strlen(effect->name);

        assert_memory_equal(effect->form, effect->name, size);
        assert_memory_equal(effect->variant, effect->name, size);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(effect->variant, once__effects[j].variant);
        /* Not idempotent and safe to repeat: a contradiction. */
        assert_true(effect->laws.idempotent || effect->laws.needs_key);
    }
}

static void words__all__have_a_text(void **state)
{
    (void)state;
    for (int i = 0; i < ONCE__EFFECT_WORD_COUNT; i++) {
        assert_true(strlen(once__effect_word_text((enum once__effect_word)i)) > 0);
        assert_int_equal(once__effect_rejected((enum once__effect_word)i),
                         i != ONCE__EFFECT_CHANGED && i != ONCE__EFFECT_UNCHANGED);
    }
    assert_string_equal(once__effect_word_text(ONCE__EFFECT_WORD_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add__within_its_range__adds),
        cmocka_unit_test(add__out_of_bounds__is_rejected_and_changes_nothing),
        cmocka_unit_test(add__any_numbers__agrees_with_wide_arithmetic),
        cmocka_unit_test(max_and_min__first_number__is_taken_whatever_it_is),
        cmocka_unit_test(max_and_min__further_numbers__keep_the_extreme),
        cmocka_unit_test(flag__raised_again__is_a_no_op),
        cmocka_unit_test(set__without_version__always_takes_a_new_version),
        cmocka_unit_test(set__with_version__writes_once),
        cmocka_unit_test(delete__leaves_a_tombstone__that_refuses_an_old_write),
        cmocka_unit_test(delete__of_what_is_deleted__is_a_no_op),
        cmocka_unit_test(delete__expecting_a_version_that_never_was__is_rejected),
        cmocka_unit_test(register__at_the_last_version__refuses_to_wrap),
        cmocka_unit_test(machine__declared_twice__the_first_stands),
        cmocka_unit_test(move__declared__runs_and_arriving_again_is_a_no_op),
        cmocka_unit_test(move__illegal__is_rejected_with_its_reason),
        cmocka_unit_test(has_cycle__all_machines_of_three_and_random_large_ones__agrees),
        cmocka_unit_test(has_cycle__ring_through_all_states__is_found),
        cmocka_unit_test(grant__each__is_larger_until_there_are_no_more),
        cmocka_unit_test(guard__at_or_below_the_highest__is_rejected),
        cmocka_unit_test(guard__token_that_no_grant_gives__does_not_lock_everybody_out),
        cmocka_unit_test(lease__while_it_lasts__is_nobody_elses),
        cmocka_unit_test(lease__same_owner__gets_its_token_again_and_after_the_end_a_new_one),
        cmocka_unit_test(lease__paused_owner_that_wakes_up__is_refused_everything),
        cmocka_unit_test(lease__at_the_last_token__refuses_to_wrap),
        cmocka_unit_test(renew__newest_token__never_shortens_and_may_come_late),
        cmocka_unit_test(release__once__frees_the_lease_and_ends_the_token),
        cmocka_unit_test(hold__lease_never_given__is_refused),
        cmocka_unit_test(seq__new_duplicate_gap_and_zombie__are_told_apart),
        cmocka_unit_test(seq__at_the_last_number__refuses_to_wrap),
        cmocka_unit_test(bucket__beyond_its_bound__is_rejected),
        cmocka_unit_test(append__blind__appends_every_time),
        cmocka_unit_test(append__at_a_version__appends_once),
        cmocka_unit_test(append_and_emit__at_the_last_number__refuse_to_wrap),
        cmocka_unit_test(sent__message__goes_once),
        cmocka_unit_test(sent__number_that_was_never_given__is_rejected),
        cmocka_unit_test(table__needs_key__is_what_the_mission_says),
        cmocka_unit_test(table__every_row__is_filled_in_and_its_own),
        cmocka_unit_test(words__all__have_a_text),
    };

    return cmocka_run_group_tests_name("effect", tests, NULL, NULL);
}
