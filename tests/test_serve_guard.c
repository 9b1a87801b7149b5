/* What the server checks in a request before it does anything: on texts alone, without a socket. */
#include "testing.h"
#include "view/serve_guard.h"

static void targets(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int code;
    } cases[] = {
        {"/", 0},
        {"/api/run/a.b-c_d/ask/envs?round=1&names=a%2Cb", 0},
        {"/api/run/a%20b", 0},
        {"/api/compare?runs=a..b", 0}, /* no path */
        {"", 400},
        {"api/runs", 400},
        {"http://localhost/api/runs", 400},
        {"*", 400},
        {"/..", 400},
        {"/api/run/../../etc/passwd", 400},
        {"/api/run/%2e%2e/x", 400},
        {"/api/run/.%2E/x", 400},
        {"/api/run/a%2fb", 400},
        {"/api/run/a%2Fb", 400},
        {"/api/run/a%5cb", 400},
        {"/api/run/a\\b", 400},
        {"/api/run/a%00b", 400},
        {"/api/run/a%0ab", 400},
        {"/api/run/a%7f", 400},
        {"/api/run/a%", 400},
        {"/api/run/a%4", 400},
        {"/api/run/a%zz", 400},
        {"/api/run/\xc3\xa4", 400},
        {"/a b", 400},
        {"/a\tb", 400},
        {"/?a=%2f", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (guard_target(cases[i].target) != cases[i].code)
            fail_msg("%s: %d", cases[i].target, guard_target(cases[i].target));
    char longest[GUARD_TARGET + 2];
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[GUARD_TARGET] = '\0';
    assert_int_equal(guard_target(longest), 0);
    longest[GUARD_TARGET] = 'a';
    longest[GUARD_TARGET + 1] = '\0';
    assert_int_equal(guard_target(longest), 414);
}

static void hosts_and_origins(void **state)
{
    (void)state;
    const char *names[] = {"lab.example"};
    static const struct {
        const char *host;
        bool here, beyond;
    } cases[] = {
        {"localhost", true, true},
        {"LOCALHOST:8377", true, true},
        {"127.0.0.1:1", true, true},
        {"127.9.9.9", true, true},
        {"[::1]:8377", true, true},
        {"[::1]", true, true},
        {"evil.example", false, false},
        {"localhost.evil", false, false},
        {"127.0.0.1.evil.example", false, false},
        {"localhost:", false, false},
        {"localhost:x", false, false},
        {"localhost:123456", false, false},
        {"localhost:80@evil", false, false},
        {"", false, false},
        {":80", false, false},
        {"[::1", false, false},
        {"[]", false, false},
        {"192.168.1.2:80", false, true},
        {"0.0.0.0", false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (guard_host(cases[i].host, false, NULL, 0) != cases[i].here)
            fail_msg("%s here", cases[i].host);
        if (guard_host(cases[i].host, true, NULL, 0) != cases[i].beyond)
            fail_msg("%s beyond", cases[i].host);
    }
    assert_false(guard_host(NULL, true, names, 1));
    assert_true(guard_host("LAB.example:80", true, names, 1));
    assert_false(guard_host("lab.example.evil", true, names, 1));
    assert_true(guard_origin("http://localhost:8377", "localhost:8377"));
    assert_true(guard_origin("https://LOCALHOST:8377", "localhost:8377"));
    const char *foreign[] = {"null",
                             "",
                             "http://evil",
                             "http://localhost:1",
                             "localhost:8377",
                             "http://localhost:8377/",
                             "http://localhost:8377.evil",
                             "file://localhost:8377"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        assert_false(guard_origin(foreign[i], "localhost:8377"));
}

static void small_texts(void **state)
{
    (void)state;
    char value[8];
    assert_true(guard_equal("abc", "abc"));
    assert_false(guard_equal("abc", "abd"));
    assert_false(guard_equal("abc", "ab"));
    assert_false(guard_equal("abc", "abcabc"));
    assert_false(guard_equal("abc", ""));
    assert_true(guard_cookie("a=1; b=two;c=3", "b", value, sizeof value));
    assert_string_equal(value, "two");
    assert_false(guard_cookie("ab=1", "b", value, sizeof value));
    assert_false(guard_cookie("b=123456789", "b", value, sizeof value));
    assert_true(guard_form_field("x=1&t=%41+b", "t", value, sizeof value));
    assert_string_equal(value, "A b");
    assert_false(guard_form_field("t=%4", "t", value, sizeof value));
    assert_false(guard_form_field("t=%00", "t", value, sizeof value));
    assert_false(guard_form_field("t=12345678", "t", value, sizeof value));
    assert_true(guard_is_loopback("127.1.2.3") && guard_is_loopback("::1"));
    assert_false(guard_is_loopback("0.0.0.0") || guard_is_loopback("::") || guard_is_loopback("128.0.0.1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets),
        cmocka_unit_test(hosts_and_origins),
        cmocka_unit_test(small_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
