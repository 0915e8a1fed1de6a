/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of stages: a table, a stage, and effects given as lines of text that are staged and
 * then put into the table, as the engine does. A twin of the table gets the encoded edits instead,
 * as a recovery does: both must be the same.
 */
#ifndef ONCE_TESTS_STAGE_HELP_H
#define ONCE_TESTS_STAGE_HELP_H

#include <unit/seeded.h>

#include <once/apply.h>

#include "core/deed.h"
#include "object/stage_inner.h"

enum { BENCH_WORDS_MAX = 1 << 15 };

struct bench_tables {
    struct once__objects *objects;
    struct once__recent *recent;
};

struct bench {
    struct once__objects *objects;
    struct once__recent *recent;
    struct bench_tables twin;
    struct once__stage *stage;
    struct once__stage_input input; /* what the next run is given */
    struct once__staged staged;     /* what the last run gave */
    int err;
    uint32_t effect;
    const char *what;
    char result[1 << 13];

    struct once__deed deeds[ONCE_EFFECTS_MAX];
    size_t deed_count;
    struct once_bytes words[BENCH_WORDS_MAX];
    size_t word_count;
    uint8_t scratch[1 << 17];
    size_t scratch_size;
};

static inline struct bench *bench_new(void)
{
    static const uint8_t secret[ONCE__OBJECT_SECRET_SIZE] = {1, 2, 3};
    struct bench *bench = calloc(1, sizeof *bench);

    assert_non_null(bench);
    assert_int_equal(once__objects_new(secret, &bench->objects), ONCE_OK);
    assert_int_equal(once__recent_new(&bench->recent), ONCE_OK);
    assert_int_equal(once__objects_new(secret, &bench->twin.objects), ONCE_OK);
    assert_int_equal(once__recent_new(&bench->twin.recent), ONCE_OK);
    assert_int_equal(once__stage_new(&bench->stage), ONCE_OK);
    bench->input.objects = bench->objects;
    bench->input.deeds = bench->deeds;
    bench->input.has_key = true;
    bench->input.now_ms = 1000000;
    bench->input.version = 1;
    bench->input.memory_max = UINT64_MAX;
    return bench;
}

static inline void bench_start(struct bench *bench)
{
    bench->deed_count = 0;
    bench->word_count = 0;
    bench->scratch_size = 0;
}

/* One more deed for the next run. */
static inline void bench_say(struct bench *bench, const char *line)
{
    struct once_bytes text = once_bytes_of(line), *words = bench->words + bench->word_count;
    struct once_defect defect = {0, ""};
    size_t count;

    assert_true(text.size <= sizeof bench->scratch - bench->scratch_size);
    assert_int_equal(once_do_split(text, bench->scratch + bench->scratch_size, words,
                                   BENCH_WORDS_MAX - bench->word_count, &count, &defect),
                     ONCE_OK);
    if (once__deed_read(words, count, &bench->deeds[bench->deed_count], &defect) != ONCE_OK)
        fail_msg("%s: word %zu: %s", line, defect.offset, defect.what);
    bench->word_count += count;
    bench->scratch_size += text.size;
    bench->deed_count++;
}

/* Runs what was said; nothing is put. */
static inline int bench_stage(struct bench *bench)
{
    bench->input.deed_count = bench->deed_count;
    bench->effect = 0;
    bench->what = NULL;
    memset(&bench->staged, 0, sizeof bench->staged);
    bench->err = once__stage_run(bench->stage, &bench->input, &bench->staged, &bench->effect,
                                 &bench->what);
    bench->result[0] = '\0';
    if (bench->err == ONCE_OK) {
        assert_true(bench->staged.result.size < sizeof bench->result);
        memcpy(bench->result, bench->staged.result.data, bench->staged.result.size);
        bench->result[bench->staged.result.size] = '\0';
    } else {
        assert_non_null(bench->what);
    }
    return bench->err;
}

/* Everything the table holds, as edits: equal tables give equal bytes. */
static inline struct once_buf bench_dump(const struct once__objects *objects)
{
    struct once_buf out;

    once_buf_init(&out, (size_t)1 << 26);
    for (uint64_t i = 0; i < once__objects_count(objects); i++) {
        uint64_t part = 0;

        while (part != UINT64_MAX)
            assert_int_equal(once__object_dump(once__objects_at(objects, i), &part, 4096, &out),
                             ONCE_OK);
    }
    return out;
}

static inline void bench_check_equal(const struct once__objects *a, const struct once__objects *b)
{
    struct once_buf a_dump = bench_dump(a), b_dump = bench_dump(b);

    assert_int_equal(a_dump.size, b_dump.size);
    if (a_dump.size > 0)
        assert_memory_equal(a_dump.data, b_dump.data, a_dump.size);
    once_buf_release(&a_dump);
    once_buf_release(&b_dump);
}

static inline int bench_dump_note(void *user, const struct once__edit *edit)
{
    return once__edit_encode(edit, user);
}

static inline void bench_check_recent(const struct once__recent *a, const struct once__recent *b)
{
    struct once_buf notes[2];

    once_buf_init(&notes[0], (size_t)1 << 26);
    once_buf_init(&notes[1], (size_t)1 << 26);
    assert_int_equal(once__recent_since(a), once__recent_since(b));
    assert_int_equal(once__recent_walk(a, once__recent_since(a), bench_dump_note, &notes[0]),
                     ONCE_OK);
    assert_int_equal(once__recent_walk(b, once__recent_since(b), bench_dump_note, &notes[1]),
                     ONCE_OK);
    assert_int_equal(notes[0].size, notes[1].size);
    if (notes[0].size > 0)
        assert_memory_equal(notes[0].data, notes[1].data, notes[0].size);
    once_buf_release(&notes[0]);
    once_buf_release(&notes[1]);
}

static inline void bench_free(struct bench *bench)
{
    bench_check_equal(bench->objects, bench->twin.objects);
    bench_check_recent(bench->recent, bench->twin.recent);
    once__stage_free(bench->stage);
    once__objects_free(bench->objects);
    once__recent_free(bench->recent);
    once__objects_free(bench->twin.objects);
    once__recent_free(bench->twin.recent);
    free(bench);
}

static inline int bench_setup(void **state)
{
    *state = bench_new();
    return 0;
}

static inline int bench_teardown(void **state)
{
    bench_free(*state);
    return 0;
}

/* Puts the encoded edits of the last run; how many there were. */
static inline size_t bench_put_into(const struct bench *bench, struct bench_tables into)
{
    struct once__edit edit;
    struct once_defect defect = {0, ""};
    size_t offset = 0, count = 0;

    for (; offset < bench->staged.edits.size; count++) {
        if (once__edit_decode(bench->staged.edits, &offset, &edit, &defect) != ONCE_OK)
            fail_msg("an edit that does not decode, at %zu: %s", defect.offset, defect.what);
        assert_int_equal(once__objects_put(into.objects, &edit), ONCE_OK);
        if (once_object_mergeable(once__edit_type(edit.kind)))
            once__recent_note(into.recent, &edit);
    }
    return count;
}

/* Makes the last run true; how many edits it had. */
static inline size_t bench_put(struct bench *bench)
{
    size_t count = bench_put_into(bench, bench->twin);

    if (bench->staged.changed)
        assert_int_equal(once__stage_put(bench->stage, bench->objects, bench->recent), ONCE_OK);
    assert_int_equal(once__objects_count(bench->objects), once__objects_count(bench->twin.objects));
    assert_int_equal(once__objects_encoded_size(bench->objects),
                     once__objects_encoded_size(bench->twin.objects));
    assert_int_equal(once__objects_memory(bench->objects),
                     once__objects_memory(bench->twin.objects));
    return count;
}

/* Stages and puts. The result must be as expected. Lines end with NULL. How many edits. */
static inline size_t bench_apply(struct bench *bench, const char *expected, ...)
{
    const char *line;
    va_list lines;

    bench_start(bench);
    va_start(lines, expected);
    while ((line = va_arg(lines, const char *)))
        bench_say(bench, line);
    va_end(lines);
    if (bench_stage(bench) != ONCE_OK)
        fail_msg("%s: effect %u: %s", once_err_name(bench->err), bench->effect, bench->what);
    assert_string_equal(bench->result, expected);
    assert_false(bench->staged.rejected);
    assert_int_equal(bench->staged.changed, bench->staged.edits.size > 0);
    return bench_put(bench);
}

/* Stages what must be rejected, in this effect, with this word, and with this in its reason;
 * the table stays as it is. */
static inline void bench_reject(struct bench *bench, uint32_t effect, const char *word,
                                const char *reason, ...)
{
    struct once_buf before = bench_dump(bench->objects), after;
    struct once_rejection rejection;
    const char *line;
    va_list lines;

    bench_start(bench);
    va_start(lines, reason);
    while ((line = va_arg(lines, const char *)))
        bench_say(bench, line);
    va_end(lines);
    if (bench_stage(bench) != ONCE_OK)
        fail_msg("%s: effect %u: %s", once_err_name(bench->err), bench->effect, bench->what);
    assert_true(bench->staged.rejected);
    assert_false(bench->staged.changed);
    assert_int_equal(bench->staged.edits.size, 0);
    assert_int_equal(once_rejection_read(bench->staged.result, &rejection), ONCE_OK);
    assert_int_equal(rejection.effect, effect);
    assert_int_equal(rejection.word.size, strlen(word));
    assert_memory_equal(rejection.word.data, word, strlen(word));
    if (!strstr(bench->result, reason))
        fail_msg("\"%s\" is not in %s", reason, bench->result);
    after = bench_dump(bench->objects);
    assert_int_equal(before.size, after.size);
    if (before.size > 0)
        assert_memory_equal(before.data, after.data, before.size);
    once_buf_release(&before);
    once_buf_release(&after);
}

/* Stages what must fail, because of this effect, with this in the text. */
static inline void bench_fail(struct bench *bench, int err, uint32_t effect, const char *what, ...)
{
    const char *line;
    va_list lines;

    bench_start(bench);
    va_start(lines, what);
    while ((line = va_arg(lines, const char *)))
        bench_say(bench, line);
    va_end(lines);
    assert_int_equal(bench_stage(bench), err);
    assert_int_equal(bench->effect, effect);
    if (!strstr(bench->what, what))
        fail_msg("\"%s\" is not in \"%s\"", what, bench->what);
}

#endif
