/* SPDX-License-Identifier: Apache-2.0
 *
 * The laws of one effect: each law is a question about a few numbers (search.h), answered by
 * running the model's step, which is the shipping one.
 *
 * Equal means the same object afterwards. What a caller was told may differ: the second of two
 * guarded writes is refused, and the object is as it should be.
 */
#include "base/assert.h"
#include "laws/laws.h"
#include "laws/model.h"

/* Which number is which thing. In LATE a number n of "others" is nothing for 0 and other n - 1
 * else. */
enum { START = 0, X = 1, Y = 2, Z = 3 };

/* One case: the things that the numbers name. */
struct scene {
    union once__value start;
    struct once__operation x;
    struct once__operation y;
    struct once__operation z;
    bool has_y;
    bool has_z;
};

/* What the two sides of a law gave. */
struct sides {
    union once__value left;
    union once__value right;
    bool accepted; /* LATE: x was not rejected the first time */
};

struct check {
    const struct once__model *model;
    enum once__law law;
};

static void other_at(const struct once__model *model, uint64_t index,
                     struct once__operation *ret_operation)
{
    if (model->other != NULL)
        model->other(index, ret_operation);
    else
        model->operation(index, ret_operation);
}

static int make_scene(const struct check *check, const uint64_t *index, struct scene *ret_scene)
{
    const struct once__model *model = check->model;
    struct scene scene = {.has_y = check->law != ONCE__LAW_IDEMPOTENT,
                          .has_z = check->law == ONCE__LAW_ASSOCIATIVE};
    int err = model->state(index[START], &scene.start);

    if (err != ONCE_OK)
        return err;
    model->operation(index[X], &scene.x);
    if (check->law == ONCE__LAW_LATE) {
        scene.has_y = index[Y] > 0;
        scene.has_z = index[Z] > 0;
        if (scene.has_y)
            other_at(model, index[Y] - 1, &scene.y);
        if (scene.has_z)
            other_at(model, index[Z] - 1, &scene.z);
    } else {
        if (scene.has_y)
            model->operation(index[Y], &scene.y);
        if (scene.has_z)
            model->operation(index[Z], &scene.z);
    }
    *ret_scene = scene;
    return ONCE_OK;
}

/* Applies operations one after the other; NULL ends the list. */
static int apply_all(const struct once__model *model, union once__value *value,
                     const struct once__operation *const *operations)
{
    for (; *operations != NULL; operations++) {
        int word = model->apply(value, *operations);

        if (word < 0)
            return word;
    }
    return ONCE_OK;
}

/* Two neighbours handed over as one. */
static int apply_group(const struct once__model *model, union once__value *value,
                       const struct once__operation *first, const struct once__operation *second)
{
    union once__value before = *value;
    int word;

    if (model->apply_folded != NULL) {
        word = model->apply_folded(value, first, second);
        return word < 0 ? word : ONCE_OK;
    }
    word = model->apply(value, first);
    if (word >= 0 && !once__effect_rejected((enum once__effect_word)word))
        word = model->apply(value, second);
    if (word >= 0 && once__effect_rejected((enum once__effect_word)word))
        *value = before;
    return word < 0 ? word : ONCE_OK;
}

static int run_idempotent(const struct once__model *model, const struct scene *scene,
                          struct sides *sides)
{
    int word = model->apply(&sides->left, &scene->x);

    if (word < 0)
        return word;
    sides->right = sides->left;
    word = model->apply(&sides->right, &scene->x);
    return word < 0 ? word : ONCE_OK;
}

static int run_commutative(const struct once__model *model, const struct scene *scene,
                           struct sides *sides)
{
    const struct once__operation *const forth[] = {&scene->x, &scene->y, NULL};
    const struct once__operation *const back[] = {&scene->y, &scene->x, NULL};
    int err = apply_all(model, &sides->left, forth);

    return err != ONCE_OK ? err : apply_all(model, &sides->right, back);
}

static int run_associative(const struct once__model *model, const struct scene *scene,
                           struct sides *sides)
{
    const struct once__operation *const last[] = {&scene->z, NULL};
    const struct once__operation *const first[] = {&scene->x, NULL};
    int err = apply_group(model, &sides->left, &scene->x, &scene->y);

    if (err == ONCE_OK)
        err = apply_all(model, &sides->left, last);
    if (err == ONCE_OK)
        err = apply_all(model, &sides->right, first);
    if (err == ONCE_OK)
        err = apply_group(model, &sides->right, &scene->y, &scene->z);
    return err;
}

/* Left without the repeat, right with it. */
static int run_late(const struct once__model *model, const struct scene *scene, struct sides *sides)
{
    const struct once__operation *between[3] = {NULL};
    size_t count = 0;
    int word = model->apply(&sides->left, &scene->x);

    if (word < 0)
        return word;
    sides->accepted = !once__effect_rejected((enum once__effect_word)word);
    if (scene->has_y)
        between[count++] = &scene->y;
    if (scene->has_z)
        between[count++] = &scene->z;
    word = apply_all(model, &sides->left, between);
    if (word < 0)
        return word;
    sides->right = sides->left;
    word = model->apply(&sides->right, &scene->x);
    return word < 0 ? word : ONCE_OK;
}

static int run(const struct check *check, const struct scene *scene, struct sides *ret_sides)
{
    struct sides sides = {.left = scene->start, .right = scene->start, .accepted = true};
    int err = ONCE_ERR_INVALID;

    switch (check->law) {
    case ONCE__LAW_IDEMPOTENT:
        err = run_idempotent(check->model, scene, &sides);
        break;
    case ONCE__LAW_COMMUTATIVE:
        err = run_commutative(check->model, scene, &sides);
        break;
    case ONCE__LAW_ASSOCIATIVE:
        err = run_associative(check->model, scene, &sides);
        break;
    case ONCE__LAW_LATE:
        err = run_late(check->model, scene, &sides);
        break;
    case ONCE__LAW_COUNT:
        break;
    }
    if (err == ONCE_OK)
        *ret_sides = sides;
    return err;
}

static int question(void *context, const uint64_t *index)
{
    const struct check *check = context;
    struct scene scene;
    struct sides sides;
    int err = make_scene(check, index, &scene);

    if (err == ONCE_OK)
        err = run(check, &scene, &sides);
    if (err != ONCE_OK)
        return err;
    /* A rejection leaves no effect that a duplicate could double; only a key remembers it. */
    return !sides.accepted || check->model->equal(&sides.left, &sides.right) ? 1 : 0;
}

static struct once__domain domain_of(const struct check *check)
{
    const struct once__model *model = check->model;
    struct once__extent others = model->other != NULL ? model->others : model->operations;
    struct once__domain domain = {0};

    domain.small[START] = model->states.small;
    domain.large[START] = model->states.large;
    for (size_t i = X; i <= Z; i++) {
        bool between = check->law == ONCE__LAW_LATE && i != X;

        domain.small[i] = between ? others.small + 1 : model->operations.small;
        domain.large[i] = between ? others.large + 1 : model->operations.large;
    }
    domain.dimensions = check->law == ONCE__LAW_IDEMPOTENT    ? X + 1
                        : check->law == ONCE__LAW_COMMUTATIVE ? Y + 1
                                                              : Z + 1;
    return domain;
}

static void describe_start(struct once__text *text, const struct once__model *model,
                           const struct scene *scene, uint64_t index)
{
    if (index == 0)
        return;
    once__text_add(text, "from ");
    if (model->describe_start != NULL)
        model->describe_start(text, &scene->start);
    else
        model->describe(text, &scene->start);
    once__text_add(text, ": ");
}

/* Text with two sides, such as "ADD 1 twice: 1, then 2": %x, %y, %z are the operations, %l and
 * %r what the left and the right side gave. */
static void describe_case(struct once__text *text, const struct once__model *model,
                          const struct scene *scene, const struct sides *sides, const char *pattern)
{
    for (; *pattern != '\0'; pattern++) {
        if (*pattern != '%') {
            once__text_add(text, "%c", *pattern);
            continue;
        }
        pattern++;
        if (*pattern == 'x')
            model->describe_operation(text, &scene->x);
        else if (*pattern == 'y')
            model->describe_operation(text, &scene->y);
        else if (*pattern == 'z')
            model->describe_operation(text, &scene->z);
        else
            model->describe(text, *pattern == 'l' ? &sides->left : &sides->right);
    }
}

static const char *pattern_of(enum once__law law, const struct scene *scene)
{
    switch (law) {
    case ONCE__LAW_IDEMPOTENT:
        return "%x twice: %l, then %r";
    case ONCE__LAW_COMMUTATIVE:
        return "%x, %y: %l; %y, %x: %r";
    case ONCE__LAW_ASSOCIATIVE:
        return "(%x, %y), %z: %l; %x, (%y, %z): %r";
    case ONCE__LAW_LATE:
    case ONCE__LAW_COUNT:
        break;
    }
    if (!scene->has_y && !scene->has_z)
        return "%x again: %r; without the repeat: %l";
    if (!scene->has_z)
        return "%x, %y, %x again: %r; without the repeat: %l";
    if (!scene->has_y)
        return "%x, %z, %x again: %r; without the repeat: %l";
    return "%x, %y, %z, %x again: %r; without the repeat: %l";
}

static int describe(const struct check *check, const uint64_t *index, char *ret_example)
{
    struct once__text text = once__text_in(ret_example, ONCE__EXAMPLE_SIZE);
    struct scene scene;
    struct sides sides;
    int err = make_scene(check, index, &scene);

    if (err == ONCE_OK)
        err = run(check, &scene, &sides);
    if (err != ONCE_OK)
        return err;
    describe_start(&text, check->model, &scene, index[START]);
    describe_case(&text, check->model, &scene, &sides, pattern_of(check->law, &scene));
    return ONCE_OK;
}

int once__law_check_effect(enum once__effect_id id, struct once__effort effort,
                           struct once__law_finding *findings)
{
    for (int law = 0; law < ONCE__LAW_COUNT; law++) {
        struct check check = {.model = once__model_of(id), .law = (enum once__law)law};
        struct once__domain domain = domain_of(&check);
        struct once__law_finding *finding = &findings[law];
        struct once__found found;
        int err = once__search(&domain, question, &check, effort, &found);

        if (err != ONCE_OK)
            return err;
        finding->holds = found.holds;
        finding->checks = found.checks;
        finding->example[0] = '\0';
        if (!found.holds)
            err = describe(&check, found.index, finding->example);
        if (err != ONCE_OK)
            return err;
    }
    return ONCE_OK;
}
