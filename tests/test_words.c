/* What a mistyped word probably meant: near misses only. */
#include "testing.h"

#include <string.h>

#include "base/words.h"

static const char *const names[] = {"train", "eval", "compare", "inspect", "val_accuracy", "host.lr", "sql"};
enum { COUNT = sizeof names / sizeof names[0] };

static void near_misses_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *typed, *meant;
    } cases[] = {
        {"trian", "train"},           {"trai", "train"},      {"evla", "eval"},
        {"evaluate", "eval"},         {"comapre", "compare"}, {"inspekt", "inspect"},
        {"accuracy", "val_accuracy"}, {"host.l", "host.lr"},  {"sq", "sql"},
        {"train", "train"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *found = nearest_word(cases[i].typed, names, COUNT);
        if (!found || strcmp(found, cases[i].meant) != 0)
            fail_msg("%s: %s", cases[i].typed, found ? found : "nothing");
    }
}

static void far_words_are_no_hint(void **state)
{
    (void)state;
    static const char *const far[] = {"version", "x", "", "ls", "run", "tree", "zzzzzzzzzzzz"};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
        if (nearest_word(far[i], names, COUNT))
            fail_msg("%s: %s", far[i], nearest_word(far[i], names, COUNT));
    assert_null(nearest_word("train", names, 0));
}

static void a_hint_offers_one_or_all_or_nothing(void **state)
{
    (void)state;
    const char *many[64];
    for (int i = 0; i < 64; i++)
        many[i] = "conv_light";
    assert_string_equal(word_hint("trian", names, COUNT, "esper help").text, "; did you mean \"train\"?");
    assert_string_equal(word_hint("version", names, 3, NULL).text, "; choose from train, eval, compare");
    assert_string_equal(word_hint("version", names, 3, "esper help").text, "; `esper help` lists them");
    assert_string_equal(word_hint("version", many, 64, NULL).text, "");
    assert_string_equal(word_hint("version", names, 0, NULL).text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_misses_are_found),
        cmocka_unit_test(far_words_are_no_hint),
        cmocka_unit_test(a_hint_offers_one_or_all_or_nothing),
    };
    return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}
