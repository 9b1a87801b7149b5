/* Documents and configuration keys use the words that C lists: all of them, and no other. */
#include "testing.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/config.h"
#include "cnn/blueprint.h"
#include "morph/stage.h"
#include "policy/observe.h"
#include "telemetry/store.h"
#include "telemetry/store_schema.h"

/* ---- documents ----------------------------------------------------------------------------------------------------
 */

/* The file with every run of white space as one space, so that lines may break anywhere. The caller frees it. */
static char *text_of(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s: cannot be read; run this in the root of the sources", path);
    enum { LIMIT = 1 << 18 };
    char *text = malloc(LIMIT);
    assert_non_null(text);
    int used = 0;
    for (int c; (c = fgetc(file)) != EOF && used < LIMIT - 1;)
        if (!isspace(c))
            text[used++] = (char)c;
        else if (used && text[used - 1] != ' ')
            text[used++] = ' ';
    fclose(file);
    text[used] = '\0';
    return text;
}

static void assert_mentions(const char *path, const char *words)
{
    char *text = text_of(path);
    if (!strstr(text, words))
        fail_msg("%s does not say \"%s\"", path, words);
    free(text);
}

static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The next word of a text, and the text after it; false at the end. */
static bool next_word(const char **text, const char *end, char word[64])
{
    while (*text < end && !is_of_word(**text))
        ++*text;
    size_t length = 0;
    while (*text + length < end && is_of_word((*text)[length]))
        length++;
    snprintf(word, 64, "%.*s", (int)length, *text);
    *text += length;
    return length > 0;
}

static const char *seed_stage_name(int i)
{
    static const char *const names[] = {LIVE_STAGES(WORD_NAME, ) COOLDOWN_STAGES(WORD_NAME, )};
    return names[i];
}

/* Between `before` and `after` stand these words and no other, each once, in any order. */
static void documents_list_the_words_of_c(void **state)
{
    (void)state;
    static const struct {
        const char *path, *before, *after;
        const char *(*name_of)(int);
        int count;
    } lists[] = {
        {"README.md", " ops `", "`", op_name, OP_COUNT},
        {"README.md", " blueprints `", "`", blueprint_name, BLUEPRINT_COUNT},
        {"README.md", " styles `", "`", style_name, STYLE_COUNT},
        {"README.md", " curve `", "`", alpha_curve_name, ALPHA_CURVE_COUNT},
        {"docs/export.md", "the table `ppo_head`, for ", " |", head_name, HEAD_COUNT},
        {"docs/glossary.md", "where a seed is in its life: ", " |", seed_stage_name, 8},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char *text = text_of(lists[i].path), word[64];
        const char *at = strstr(text, lists[i].before);
        at = at ? at + strlen(lists[i].before) : NULL;
        const char *end = at ? strstr(at, lists[i].after) : NULL;
        if (!end)
            fail_msg("%s has no list after \"%s\"", lists[i].path, lists[i].before);
        unsigned seen = 0;
        while (next_word(&at, end, word)) {
            int known = 0;
            while (known < lists[i].count && strcmp(lists[i].name_of(known), word) != 0)
                known++;
            if (known == lists[i].count || seen >> known & 1u)
                fail_msg("%s: \"%s\" after \"%s\" is unknown or there twice", lists[i].path, word, lists[i].before);
            seen |= 1u << known;
        }
        for (int k = 0; k < lists[i].count; k++)
            if (!(seen >> k & 1u))
                fail_msg("%s: \"%s\" is missing after \"%s\"", lists[i].path, lists[i].name_of(k), lists[i].before);
        free(text);
    }
}

static void documents_have_the_numbers_of_c(void **state)
{
    (void)state;
    char words[200];
    snprintf(words, sizeof words, "tempo %d, %d, %d · target %.1f, %.1f, %.1f · speed %d, %d, %d, %d", tempo_steps(0),
             tempo_steps(1), tempo_steps(2), (double)alpha_target_value(0), (double)alpha_target_value(1),
             (double)alpha_target_value(2), alpha_speed_steps(0), alpha_speed_steps(1), alpha_speed_steps(2),
             alpha_speed_steps(3));
    assert_mentions("README.md", words);
    snprintf(words, sizeof words, "`p_%s` … `p_%s`", op_name(0), op_name(OP_COUNT - 1));
    assert_mentions("docs/telemetry.md", words);
    snprintf(words, sizeof words, "its %d components, `%s` … `%s`", REWARD_COMPONENT_COUNT, reward_component_name(0),
             reward_component_name(REWARD_COMPONENT_COUNT - 1));
    assert_mentions("docs/telemetry.md", words);
    snprintf(words, sizeof words, "sees %d numbers per env and %d per slot; an empty slot is %d zeros", OBSERVE_BASE,
             OBSERVE_SLOT, OBSERVE_SLOT);
    assert_mentions("docs/rules/policy.md", words);
}

/* Every table has its row, and every column that a row names in `backquotes` exists. */
static void the_documented_columns_exist(void **state)
{
    (void)state;
    char *text = text_of("docs/telemetry.md");
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        char start[80], column[64];
        snprintf(start, sizeof start, " | `%s` | ", store_layouts[kind].name);
        const char *at = strstr(text, start);
        if (!at)
            fail_msg("docs/telemetry.md has no row for the table %s", store_layouts[kind].name);
        at = strstr(at + strlen(start), " | ") + 3;
        const char *end = strstr(at, " |");
        while ((at = strchr(at, '`')) && at < end) {
            next_word(&at, end, column);
            if (!store_help(store_layouts[kind].name, column))
                fail_msg("docs/telemetry.md: the table %s has no column %s", store_layouts[kind].name, column);
            at++;
        }
    }
    free(text);
}

/* ---- configuration ------------------------------------------------------------------------------------------------
 */

/* Sets the key of every word and looks for the number at the word's place. */
static void assert_keys(const char *prefix, const char *(*name_of)(int), int count, size_t offset)
{
    for (int i = 0; i < count; i++) {
        struct config config;
        struct esper_error error;
        char key[80];
        config_defaults(&config);
        snprintf(key, sizeof key, "%s.%s", prefix, name_of(i));
        if (config_set_value(&config, key, "0.40625", ORIGIN_FLAG, &error) != ESPER_OK)
            fail_msg("%s", error.text);
        if (((const double *)(const void *)((const char *)&config + offset))[i] != 0.40625)
            fail_msg("%s is not number %d", key, i);
    }
}

static void keys_by_head_and_op_are_in_the_lists_order(void **state)
{
    (void)state;
    assert_keys("policy.floor", head_name, HEAD_COUNT, offsetof(struct config, policy.floor));
    assert_keys("ppo.entropy_weight", head_name, HEAD_COUNT, offsetof(struct config, ppo.entropy_weight));
    assert_keys("policy.prior", op_name, OP_COUNT, offsetof(struct config, policy.prior));
    assert_keys("policy.rate", op_name, OP_COUNT, offsetof(struct config, policy.rate));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_list_the_words_of_c),
        cmocka_unit_test(documents_have_the_numbers_of_c),
        cmocka_unit_test(the_documented_columns_exist),
        cmocka_unit_test(keys_by_head_and_op_are_in_the_lists_order),
    };
    return cmocka_run_group_tests_name("vocabulary", tests, NULL, NULL);
}
