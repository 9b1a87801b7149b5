/* What the test programs share: cmocka with the headers it needs first, and how an error line is checked. */
#ifndef TESTS_TESTING_H
#define TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* How many times as long as on an idle machine something with a deadline may take. `scripts/test` asks for patience:
 * its tests run side by side, and the host of a virtual machine may take most of it away. */
static inline double patience(void)
{
    const char *times = getenv("ESPER_PATIENCE");
    return times ? atof(times) : 1;
}

/* One line that contains `word`. */
static inline void assert_says(const struct esper_error *error, const char *word)
{
    assert_null(strchr(error->text, '\n'));
    if (!strstr(error->text, word))
        fail_msg("\"%s\" does not say \"%s\"", error->text, word);
}

/* ESPER_TEST_DEVICE=cuda: the tests that can play on the device do so (or, with ESPER_CUDA_LIBRARY, on its emulation).
 */
static inline bool on_device(void)
{
    const char *device = getenv("ESPER_TEST_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

#endif
