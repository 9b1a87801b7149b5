/* Errors are one printable line, whatever they quote. */
#include "testing.h"

static void a_line_holds_no_control_characters(void **state)
{
    (void)state;
    struct esper_error error;
    assert_int_equal(error_set(&error, ESPER_INVALID, "%s", "a\nb\tc\033[31md\x7F\xC3\xA4"), ESPER_INVALID);
    assert_string_equal(error.text, "a?b?c?[31md?\xC3\xA4");
    assert_int_equal(error_where(&error, "%s", "x\r\n.json"), ESPER_INVALID);
    assert_string_equal(error.text, "x??.json: a?b?c?[31md?\xC3\xA4");
}

static void a_long_line_is_cut(void **state)
{
    (void)state;
    struct esper_error error;
    char text[2 * sizeof error.text];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(error_set(&error, ESPER_FAILED, "%s", text), ESPER_FAILED);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    assert_int_equal(error_where(&error, "where"), ESPER_FAILED);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    assert_memory_equal(error.text, "where: aaa", 10);
    assert_int_equal(error_where(&error, "%s", text), ESPER_FAILED);
    assert_memory_equal(error.text, "aaa", 3);
}

static void nobody_has_to_listen(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, ESPER_UNSUPPORTED, "unheard"), ESPER_UNSUPPORTED);
    assert_int_equal(error_where(NULL, "nowhere"), ESPER_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_holds_no_control_characters),
        cmocka_unit_test(a_long_line_is_cut),
        cmocka_unit_test(nobody_has_to_listen),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
