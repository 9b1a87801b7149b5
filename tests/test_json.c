/* JSON: the grammar, all of it and nothing else; typed members. */
#include "testing.h"

#include <string.h>

#include "base/json.h"

static void json_accepts_what_the_grammar_allows(void **state)
{
    (void)state;
    static const char *const good[] = {
        "0",
        "-0",
        "1e5",
        "-12.5E-3",
        "true",
        "null",
        "\"\"",
        " [ ] ",
        "{}",
        "[1,2,[3,{\"a\":null}]]\n",
        "\"\\u00e4\\ud83d\\ude00\\n\\/\"",
        "\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\"",
        "{\"a\":1,\"A\":2}",
        "{\"a\":{\"x\":1},\"b\":{\"x\":1}}",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cJSON *tree = NULL;
        struct esper_error error = {0};
        if (json_parse(good[i], strlen(good[i]), &tree, &error) != ESPER_OK)
            fail_msg("%s: %s", good[i], error.text);
        cJSON_Delete(tree);
    }
}

static void json_refuses_everything_else(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "1:1"},
        {"   \n ", "2:2"},
        {"[1,]", "1:4"},
        {"[1 2]", "1:4"},
        {"{\"a\" 1}", "':'"},
        {"{a:1}", "1:2"},
        {"{\"a\":1,}", "1:8"},
        {"01", "start with 0"},
        {"+1", "1:1"},
        {".5", "1:1"},
        {"1.", "decimal point"},
        {"1e", "exponent"},
        {"-", "digit"},
        {"1e999", "too large"},
        {"NaN", "1:1"},
        {"Infinity", "1:1"},
        {"[1]\n x", "2:2: unexpected text"},
        {"{} {}", "unexpected text"},
        {"truex", "unexpected text"},
        {"tru", "1:1"},
        {"'a'", "1:1"},
        {"\"a", "ends inside a string"},
        {"\"\\x\"", "escape"},
        {"\"\\u12\"", "hexadecimal"},
        {"\"\\u0000\"", "NUL"},
        {"\"\\ud800\"", "surrogate"},
        {"\"\\ud800\\u0041\"", "surrogate"},
        {"\"\\udc00\"", "surrogate"},
        {"\"a\nb\"", "control character"},
        {"\"\xFF\"", "UTF-8"},
        {"\"\xC0\x80\"", "UTF-8"},         /* overlong */
        {"\"\xE0\x80\x80\"", "UTF-8"},     /* overlong */
        {"\"\xED\xA0\x80\"", "UTF-8"},     /* surrogate */
        {"\"\xF4\x90\x80\x80\"", "UTF-8"}, /* beyond U+10FFFF */
        {"\"\xC3\"", "UTF-8"},
        {"\xEF\xBB\xBF{}", "1:1"},
        {"{\"a\":1,\"a\":2}", "\"a\" appears twice"},
        {"{\"a\":1,\"\\u0061\":2}", "\"a\" appears twice"},
        {"[{\"b\":[{\"c\":1,\"d\":2,\"c\":3}]}]", "\"c\" appears twice"},
        {"1111111111111111111111111111111111111111111111111111111111111111", "digits"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cJSON *tree = NULL;
        struct esper_error error = {0};
        if (json_parse(bad[i].text, strlen(bad[i].text), &tree, &error) != ESPER_INVALID)
            fail_msg("accepted: %s", bad[i].text);
        assert_null(tree);
        assert_says(&error, bad[i].says);
    }
    cJSON *tree;
    struct esper_error error;
    assert_int_equal(json_parse("[1]\0", 4, &tree, &error), ESPER_INVALID);
    assert_int_equal(json_parse("\"a\0b\"", 5, &tree, &error), ESPER_INVALID);
}

static void json_depth_is_limited(void **state)
{
    (void)state;
    char text[2 * JSON_MAX_DEPTH + 2];
    cJSON *tree;
    struct esper_error error;
    memset(text, '[', JSON_MAX_DEPTH);
    memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
    assert_int_equal(json_parse(text, (size_t)2 * JSON_MAX_DEPTH, &tree, &error), ESPER_OK);
    cJSON_Delete(tree);
    memset(text, '[', JSON_MAX_DEPTH + 1);
    memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
    assert_int_equal(json_parse(text, sizeof text, &tree, &error), ESPER_INVALID);
    assert_says(&error, "too deeply");
}

static void json_members_are_typed(void **state)
{
    (void)state;
    const char *text = "{\"i\": 7, \"r\": 2.5, \"b\": true, \"s\": \"x\", \"l\": [1], \"o\": {}, \"big\": 1e17}";
    cJSON *o;
    struct esper_error error;
    int64_t i;
    double r;
    bool b;
    const char *s;
    const cJSON *part;
    assert_int_equal(json_parse(text, strlen(text), &o, &error), ESPER_OK);
    assert_int_equal(json_get_integer(o, "i", 0, 7, &i, &error), ESPER_OK);
    assert_int_equal(i, 7);
    assert_int_equal(json_get_integer(o, "i", 0, 6, &i, &error), ESPER_INVALID);
    assert_says(&error, "\"i\" is 7");
    assert_int_equal(json_get_integer(o, "r", 0, 9, &i, &error), ESPER_INVALID);
    assert_says(&error, "whole number");
    assert_int_equal(json_get_integer(o, "big", 0, INT64_MAX, &i, &error), ESPER_INVALID);
    assert_int_equal(json_get_integer(o, "none", 0, 9, &i, &error), ESPER_INVALID);
    assert_says(&error, "\"none\" is missing");
    assert_int_equal(json_get_integer(o, "I", 0, 9, &i, &error), ESPER_INVALID); /* case matters */
    assert_int_equal(json_get_number(o, "r", 0, 3, &r, &error), ESPER_OK);
    assert_true(r == 2.5);
    assert_int_equal(json_get_number(o, "r", 0, 2, &r, &error), ESPER_INVALID);
    assert_int_equal(json_get_number(o, "s", 0, 2, &r, &error), ESPER_INVALID);
    assert_says(&error, "\"s\" must be a number, not a string");
    assert_int_equal(json_get_bool(o, "b", &b, &error), ESPER_OK);
    assert_true(b);
    assert_int_equal(json_get_bool(o, "i", &b, &error), ESPER_INVALID);
    assert_int_equal(json_get_string(o, "s", &s, &error), ESPER_OK);
    assert_string_equal(s, "x");
    assert_int_equal(json_get_string(o, "l", &s, &error), ESPER_INVALID);
    assert_int_equal(json_get_array(o, "l", &part, &error), ESPER_OK);
    assert_int_equal(json_get_array(o, "o", &part, &error), ESPER_INVALID);
    assert_int_equal(json_get_object(o, "o", &part, &error), ESPER_OK);
    assert_int_equal(json_get_object(json_find(o, "l"), "x", &part, &error), ESPER_INVALID);
    assert_null(json_find(o, "none"));

    const char *const known[] = {"i", "r", "b", "s", "l", "object", "big"};
    assert_int_equal(json_check_keys(o, known, 7, &error), ESPER_INVALID);
    assert_says(&error, "unknown key \"o\"");
    cJSON_Delete(o);
    assert_int_equal(json_read_file("/nowhere.json", &o, &error), ESPER_INVALID);
    assert_says(&error, "/nowhere.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_accepts_what_the_grammar_allows),
        cmocka_unit_test(json_refuses_everything_else),
        cmocka_unit_test(json_depth_is_limited),
        cmocka_unit_test(json_members_are_typed),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
