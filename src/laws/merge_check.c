/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws of a merge, ours or a user's. States are compared as bytes.
 *
 * A state that came out of a merge is a state like any other, so idempotence is asked of those too:
 * a generator that makes only the simplest states would hide what happens to the rest.
 */
#include <string.h>

#include "base/assert.h"
#include "laws/laws.h"
#include "laws/text.h"

enum { A = 0, B = 1, C = 2, STATE_COUNT = 3 };

/* Which question: the laws, and idempotence of merged states. */
enum question_kind { ASK_IDEMPOTENT, ASK_COMMUTATIVE, ASK_ASSOCIATIVE, ASK_LATE, ASK_MERGED };

struct check {
    const struct once__mergeable *mergeable;
    enum question_kind kind;
    struct once_buf state[STATE_COUNT]; /* a, b, c */
    struct once_buf scratch;
    struct once_buf left;
    struct once_buf right;
};

static size_t dimensions_of(enum question_kind kind)
{
    return kind == ASK_IDEMPOTENT                          ? 1
           : kind == ASK_COMMUTATIVE || kind == ASK_MERGED ? 2
                                                           : STATE_COUNT;
}

/* out = merge(a, b). out is none of them. */
static int merge(struct check *check, const struct once_buf *a, const struct once_buf *b,
                 struct once_buf *out)
{
    once_buf_clear(out);
    return check->mergeable->merge(check->mergeable->context, once_buf_bytes(a), once_buf_bytes(b),
                                   out);
}

/* out = merge(merge(a, b), c), through scratch. */
static int merge_left(struct check *check, const struct once_buf *a, const struct once_buf *b,
                      const struct once_buf *c, struct once_buf *out)
{
    int err = merge(check, a, b, &check->scratch);

    return err != ONCE_OK ? err : merge(check, &check->scratch, c, out);
}

/* Leaves both sides of the law in left and right. */
static int run(struct check *check)
{
    struct once_buf *a = &check->state[A], *b = &check->state[B], *c = &check->state[C];
    int err = ONCE_OK;

    switch (check->kind) {
    case ASK_IDEMPOTENT:
        once_buf_clear(&check->left);
        err = once_buf_append(&check->left, a->data, a->size);
        if (err == ONCE_OK)
            err = merge(check, a, a, &check->right);
        break;
    case ASK_COMMUTATIVE:
        err = merge(check, a, b, &check->left);
        if (err == ONCE_OK)
            err = merge(check, b, a, &check->right);
        break;
    case ASK_ASSOCIATIVE:
        err = merge_left(check, a, b, c, &check->left);
        if (err == ONCE_OK)
            err = merge(check, b, c, &check->scratch);
        if (err == ONCE_OK)
            err = merge(check, a, &check->scratch, &check->right);
        break;
    case ASK_LATE:
        err = merge_left(check, a, b, c, &check->left);
        if (err == ONCE_OK)
            err = merge(check, &check->left, b, &check->right);
        break;
    case ASK_MERGED:
        err = merge(check, a, b, &check->left);
        if (err == ONCE_OK)
            err = merge(check, &check->left, &check->left, &check->right);
        break;
    }
    return err;
}

static int generate(struct check *check, const uint64_t *index)
{
    for (size_t i = 0; i < dimensions_of(check->kind); i++) {
        int err;

        once_buf_clear(&check->state[i]);
        err = check->mergeable->generate(check->mergeable->context, index[i], &check->state[i]);
        if (err != ONCE_OK)
            return err;
    }
    return ONCE_OK;
}

static int question(void *context, const uint64_t *index)
{
    struct check *check = context;
    int err = generate(check, index);

    if (err == ONCE_OK)
        err = run(check);
    if (err != ONCE_OK)
        return err;
    return check->left.size == check->right.size &&
                   (check->left.size == 0 ||
                    memcmp(check->left.data, check->right.data, check->left.size) == 0)
               ? 1
               : 0;
}

static int describe_state(struct check *check, struct once__text *text, const char *label,
                          const struct once_buf *state)
{
    int err;

    once_buf_clear(&check->scratch);
    err = check->mergeable->describe(check->mergeable->context, once_buf_bytes(state),
                                     &check->scratch);
    if (err != ONCE_OK)
        return err;
    once__text_add(text, "%s", label);
    once__text_add_bytes(text, once_buf_bytes(&check->scratch));
    return ONCE_OK;
}

/* "a=… b=… c=…  merge(merge(a,b),c)=…  merge(a,merge(b,c))=…" */
static int describe(struct check *check, const uint64_t *index, char *ret_example)
{
    static const char *const state_labels[STATE_COUNT] = {"a=", " b=", " c="};
    static const char *const left_labels[] = {NULL, "  merge(a,b)=", "  merge(merge(a,b),c)=",
                                              "  merge(merge(a,b),c)=", "  m=merge(a,b)="};
    static const char *const right_labels[] = {
        "  merge(a,a)=", "  merge(b,a)=", "  merge(a,merge(b,c))=",
        "  merge(merge(merge(a,b),c),b)=", "  merge(m,m)="};
    struct once__text text = once__text_in(ret_example, ONCE__EXAMPLE_SIZE);
    int err = generate(check, index);

    if (err == ONCE_OK)
        err = run(check);
    for (size_t i = 0; err == ONCE_OK && i < dimensions_of(check->kind); i++)
        err = describe_state(check, &text, state_labels[i], &check->state[i]);
    if (err == ONCE_OK && left_labels[check->kind] != NULL)
        err = describe_state(check, &text, left_labels[check->kind], &check->left);
    if (err == ONCE_OK)
        err = describe_state(check, &text, right_labels[check->kind], &check->right);
    return err;
}

static int ask(struct check *check, enum question_kind kind, struct once__effort effort,
               struct once__law_finding *ret_finding)
{
    struct once__domain domain = {.dimensions = dimensions_of(kind)};
    struct once__found found;
    int err;

    for (size_t i = 0; i < domain.dimensions; i++) {
        domain.small[i] = check->mergeable->small;
        domain.large[i] = check->mergeable->large;
    }
    check->kind = kind;
    err = once__search(&domain, question, check, effort, &found);
    if (err != ONCE_OK)
        return err;
    ret_finding->holds = found.holds;
    ret_finding->checks += found.checks;
    return found.holds ? ONCE_OK : describe(check, found.index, ret_finding->example);
}

int once__law_check_merge(const struct once__mergeable *mergeable, struct once__effort effort,
                          size_t law_count, struct once__law_finding *findings)
{
    static const enum question_kind kinds[ONCE__LAW_COUNT] = {
        [ONCE__LAW_IDEMPOTENT] = ASK_IDEMPOTENT,
        [ONCE__LAW_COMMUTATIVE] = ASK_COMMUTATIVE,
        [ONCE__LAW_ASSOCIATIVE] = ASK_ASSOCIATIVE,
        [ONCE__LAW_LATE] = ASK_LATE,
    };
    struct check check = {.mergeable = mergeable};
    struct once_buf *bufs[] = {&check.state[A], &check.state[B], &check.state[C],
                               &check.scratch,  &check.left,     &check.right};
    int err = ONCE_OK;

    ONCE_ASSERT(law_count <= ONCE__LAW_COUNT);
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
        once_buf_init(bufs[i], mergeable->state_size_max);
    for (size_t law = 0; err == ONCE_OK && law < law_count; law++) {
        struct once__law_finding *finding = &findings[law];

        finding->checks = 0;
        finding->example[0] = '\0';
        err = ask(&check, kinds[law], effort, finding);
        if (err == ONCE_OK && law == ONCE__LAW_IDEMPOTENT && finding->holds)
            err = ask(&check, ASK_MERGED, effort, finding);
    }
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
        once_buf_release(bufs[i]);
    return err;
}
