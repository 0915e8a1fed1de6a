/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the table of laws: the effects, then the mergeable types.
 */
#include "laws/laws.h"

#include "base/assert.h"
#include "laws/lattice_states.h"
#include "laws/model.h"

enum {
    TYPE_COUNT = ONCE__LATTICE_TYPE_LAST - ONCE__LATTICE_TYPE_FIRST + 1,
    TYPE_STATES_SMALL = 16
};

const char *once__law_name(enum once__law law)
{
    static const char *const names[ONCE__LAW_COUNT] = {
        [ONCE__LAW_IDEMPOTENT] = "idempotent",
        [ONCE__LAW_COMMUTATIVE] = "commutative",
        [ONCE__LAW_ASSOCIATIVE] = "associative",
        [ONCE__LAW_LATE] = "late duplicates",
    };

    return law < ONCE__LAW_COUNT ? names[law] : "unknown";
}

const char *once__law_meaning(enum once__law law)
{
    static const char *const meanings[ONCE__LAW_COUNT] = {
        [ONCE__LAW_IDEMPOTENT] = "Duplicates change the result: whoever receives the same state "
                                 "twice ends up elsewhere.",
        [ONCE__LAW_COMMUTATIVE] = "Reordering changes the result: two replicas that receive the "
                                  "same states in different orders do not agree.",
        [ONCE__LAW_ASSOCIATIVE] = "Regrouping changes the result: it matters which states were "
                                  "merged before they were passed on.",
        [ONCE__LAW_LATE] = "Late duplicates change the result: an old message that arrives again "
                           "undoes or repeats something.",
    };

    return law < ONCE__LAW_COUNT ? meanings[law] : "unknown";
}

bool once__law_declared(const struct once__laws *laws, enum once__law law)
{
    switch (law) {
    case ONCE__LAW_IDEMPOTENT:
        return laws->idempotent;
    case ONCE__LAW_COMMUTATIVE:
        return laws->commutative;
    case ONCE__LAW_ASSOCIATIVE:
        return laws->associative;
    case ONCE__LAW_LATE:
        return !laws->needs_key;
    case ONCE__LAW_COUNT:
        break;
    }
    ONCE_ASSERT(law < ONCE__LAW_COUNT);
    return false;
}

enum once__law once__law_disagreement(const struct once__law_report *report)
{
    int law = 0;

    while (law < ONCE__LAW_COUNT && report->findings[law].holds ==
                                        once__law_declared(&report->declared, (enum once__law)law))
        law++;
    return (enum once__law)law;
}

size_t once__law_row_count(void)
{
    return ONCE__EFFECT_COUNT + TYPE_COUNT;
}

static enum once_lattice_type type_of(size_t row)
{
    ONCE_ASSERT(row >= ONCE__EFFECT_COUNT);
    ONCE_ASSERT(row < ONCE__EFFECT_COUNT + TYPE_COUNT);
    return (enum once_lattice_type)(row - ONCE__EFFECT_COUNT + ONCE__LATTICE_TYPE_FIRST);
}

const char *once__law_row_name(size_t row)
{
    return row < ONCE__EFFECT_COUNT ? once__effects[row].name
                                    : once_lattice_type_name(type_of(row));
}

static int type_generate(void *context, uint64_t index, struct once_buf *out)
{
    const enum once_lattice_type *type = context;

    return once__lattice_state(*type, index, out);
}

static int type_merge(void *context, struct once_bytes a, struct once_bytes b, struct once_buf *out)
{
    (void)context;
    return once_lattice_merge(a, b, out);
}

static int type_describe(void *context, struct once_bytes state, struct once_buf *out)
{
    (void)context;
    return once_lattice_describe(state, out);
}

static uint64_t small_count(enum once_lattice_type type)
{
    uint64_t count = once__lattice_state_count(type);

    return count < TYPE_STATES_SMALL ? count : TYPE_STATES_SMALL;
}

static int check_type(enum once_lattice_type type, struct once__effort effort,
                      struct once__law_finding *findings)
{
    struct once__mergeable mergeable = {
        .context = &type,
        .small = small_count(type),
        .large = once__lattice_state_count(type),
        .generate = type_generate,
        .merge = type_merge,
        .describe = type_describe,
        .state_size_max = ONCE_LATTICE_SIZE_MAX,
    };

    return once__law_check_merge(&mergeable, effort, ONCE__LAW_COUNT, findings);
}

int once__law_check(size_t row, struct once__effort effort, struct once__law_report *ret_report)
{
    struct once__law_report report = {.is_type = row >= ONCE__EFFECT_COUNT};
    int err;

    ONCE_ASSERT(row < once__law_row_count());
    if (report.is_type) {
        report.name = once__law_row_name(row);
        report.form = report.name;
        report.variant = report.name;
        report.grouping = "the two states are merged first";
        report.states = small_count(type_of(row));
        report.declared = (struct once__laws){
            .idempotent = true, .commutative = true, .associative = true, .needs_key = false};
        err = check_type(type_of(row), effort, report.findings);
    } else {
        const struct once__effect *effect = &once__effects[row];
        const struct once__model *model = once__model_of((enum once__effect_id)row);

        report.name = effect->name;
        report.form = effect->form;
        report.variant = effect->variant;
        report.grouping = model->grouping;
        report.states = model->states.small;
        report.operations = model->operations.small;
        report.declared = effect->laws;
        err = once__law_check_effect((enum once__effect_id)row, effort, report.findings);
    }
    if (err == ONCE_OK)
        *ret_report = report;
    return err;
}
