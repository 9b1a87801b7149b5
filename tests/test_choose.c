/* Which device a configuration means, and the device selftest with the CPU as the device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/choose.h"
#include "selftest/device.h"

static struct config wishing(enum device_wish device, enum precision_wish precision)
{
    struct config config;
    config_defaults(&config);
    config.device = device;
    config.precision = precision;
    return config;
}

/* A machine without the library: setup arranges that, whatever this one has. */
static int without_library(void **state)
{
    (void)state;
    return setenv("ESPER_CUDA_LIBRARY", "/nowhere/libesper_cuda.so", 1);
}

static void auto_is_the_cpu_where_there_is_no_gpu(void **state)
{
    (void)state;
    struct device_use use;
    struct esper_error error = {0};
    struct config config = wishing(WISH_AUTO, PRECISION_AUTO);
    assert_int_equal(device_choose(&config, &use, &error), ESPER_OK);
    assert_false(use.cuda || use.bf16);
    assert_true(strlen(use.info.why) > 10);
    config = wishing(WISH_CPU, PRECISION_FP32);
    assert_int_equal(device_choose(&config, &use, &error), ESPER_OK);
    assert_false(use.cuda || use.bf16);
}

static void what_was_named_and_is_missing_is_told_in_one_line(void **state)
{
    (void)state;
    struct device_use use;
    struct esper_error error = {0};
    struct config config = wishing(WISH_CUDA, PRECISION_AUTO);
    assert_int_equal(device_choose(&config, &use, &error), ESPER_UNSUPPORTED);
    assert_non_null(strstr(error.text, "device = cuda: "));
    assert_non_null(strstr(error.text, use.info.why));
    assert_null(strchr(error.text, '\n'));
    config = wishing(WISH_AUTO, PRECISION_BF16);
    assert_int_equal(device_choose(&config, &use, &error), ESPER_UNSUPPORTED);
    assert_non_null(strstr(error.text, "precision = bf16: the CPU computes in fp32"));
}

static int failed_checks;

static void count_failures(void *context, enum check_result result, const char *name, double error, double limit,
                           const char *note)
{
    (void)context;
    if (result == CHECK_FAILED) {
        failed_checks++;
        print_message("%s: %g of %g %s\n", name, error, limit, note ? note : "");
    }
}

/* The harness itself: the CPU agrees with the CPU, in every case. */
static void the_cpu_passes_the_selftest_of_devices(void **state)
{
    (void)state;
    struct selftest test = {.report = {.show = count_failures}};
    struct esper_error error = {0};
    assert_int_equal(selftest_device(&test, WISH_CPU, PRECISION_AUTO, &error), ESPER_OK);
    assert_int_equal(failed_checks, 0);
    assert_true(test.report.count[CHECK_PASSED] >= 7 + 4 * 2 * 8);
}

static void the_selftest_needs_its_device(void **state)
{
    (void)state;
    struct selftest test = {.report = {.show = count_failures}};
    struct esper_error error = {0};
    assert_int_equal(selftest_device(&test, WISH_CUDA, PRECISION_AUTO, &error), ESPER_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_is_the_cpu_where_there_is_no_gpu),
        cmocka_unit_test(what_was_named_and_is_missing_is_told_in_one_line),
        cmocka_unit_test(the_cpu_passes_the_selftest_of_devices),
        cmocka_unit_test(the_selftest_needs_its_device),
    };
    return cmocka_run_group_tests(tests, without_library, NULL);
}
