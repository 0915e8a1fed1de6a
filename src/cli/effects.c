/* SPDX-License-Identifier: Apache-2.0
 *
 * Effects as they are typed. The library would refuse a bad one too; here the message can point at
 * the word, before a store is opened or made.
 */
#include "cli/effects.h"

#include <stdlib.h>
#include <string.h>

#include "cli/echo.h"
#include "core/deed.h"

/* Where in the line the word of this index begins: a split with room for those before it stops
 * there. Past the last word: the end of the line. */
static size_t word_place(struct once_bytes text, size_t index, const struct cli_effects *effects)
{
    struct once_defect defect = {.offset = text.size};
    size_t count;

    if (once_do_split(text, effects->scratch, effects->words, index, &count, &defect) == ONCE_OK)
        return text.size;
    return defect.offset;
}

/* "effect 2, word 3 'x': what", and the line with a caret under the word. */
static int refuse_word(const struct cli_command *command, const struct cli_effects *effects,
                       size_t index, const struct once_defect *defect)
{
    struct once_bytes text = once_bytes_of(effects->texts[index]);
    const struct once_do *effect = &effects->dos[index];

    if (defect->offset < effect->count)
        (void)cli_error(command, CLI_USAGE, "effect %zu, word %zu '%s': %s", index + 1,
                        defect->offset + 1, cli_echo_bytes(effect->words[defect->offset]).text,
                        defect->what);
    else
        (void)cli_error(command, CLI_USAGE, "effect %zu, word %zu: %s", index + 1,
                        effect->count + 1, defect->what);
    cli_point(stderr, text, word_place(text, defect->offset, effects));
    fprintf(stderr, "The forms of effects: once %s --help\n", command->name);
    return CLI_USAGE;
}

static int split_one(const struct cli_command *command, struct cli_effects *effects, size_t index,
                     struct once_bytes *words, uint8_t *scratch)
{
    struct once_bytes text = once_bytes_of(effects->texts[index]);
    struct once_defect defect = {0};
    size_t count = 0;
    int err = once_do_split(text, scratch, words, ONCE_EFFECT_WORDS_MAX, &count, &defect);

    if (err == ONCE_ERR_FULL)
        return cli_usage(command, "effect %zu has more than %d words", index + 1,
                         ONCE_EFFECT_WORDS_MAX);
    if (err != ONCE_OK) {
        (void)cli_error(command, CLI_USAGE, "effect %zu, character %zu: %s", index + 1,
                        defect.offset + 1, defect.what);
        cli_point(stderr, text, defect.offset);
        return CLI_USAGE;
    }
    if (count == 0)
        return cli_usage(command, "effect %zu is empty; write one such as 'ADD visits 1'",
                         index + 1);
    effects->dos[index] = (struct once_do){.words = words, .count = count};
    return CLI_OK;
}

static int read_one(const struct cli_command *command, struct cli_effects *effects, size_t index,
                    struct once_bytes *words, uint8_t *scratch)
{
    struct once__deed deed;
    struct once_defect defect = {0};
    int status = split_one(command, effects, index, words, scratch);

    if (status != CLI_OK)
        return status;
    if (once__deed_read(words, effects->dos[index].count, &deed, &defect) != ONCE_OK)
        return refuse_word(command, effects, index, &defect);
    return CLI_OK;
}

int cli_effects_read(const struct cli_command *command, const char *const *texts, size_t count,
                     struct cli_effects *ret_effects)
{
    size_t word_count = 0, size = 0;
    int status = CLI_OK;

    *ret_effects = (struct cli_effects){.texts = texts, .count = count};
    if (count > ONCE_EFFECTS_MAX)
        return cli_usage(command, "%zu effects are too many for one apply: at most %d", count,
                         ONCE_EFFECTS_MAX);
    for (size_t i = 0; i < count; i++)
        size += strlen(texts[i]);
    if (size > ONCE_EFFECTS_SIZE_MAX)
        return cli_usage(command, "the effects have %zu bytes: at most %d", size,
                         ONCE_EFFECTS_SIZE_MAX);
    /* The last may yet need all of its words; those before it have at most one a byte. */
    ret_effects->words = calloc(size + count + ONCE_EFFECT_WORDS_MAX,
                                sizeof(ret_effects->words[0]));
    ret_effects->scratch = malloc(size + 1);
    if (!ret_effects->words || !ret_effects->scratch)
        return cli_error(command, CLI_INTERNAL, "%s", once_err_text(ONCE_ERR_MEMORY));
    size = 0;
    for (size_t i = 0; i < count && status == CLI_OK; i++) {
        status = read_one(command, ret_effects, i, ret_effects->words + word_count,
                          ret_effects->scratch + size);
        word_count += ret_effects->dos[i].count;
        size += strlen(texts[i]);
    }
    return status;
}

void cli_effects_release(struct cli_effects *effects)
{
    free(effects->words);
    free(effects->scratch);
    *effects = (struct cli_effects){0};
}
