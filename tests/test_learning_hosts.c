/* Whether hosts learn, and learn more with a seed: scripted rounds of the quick start at its full size. */
#include "testing_engine.h"

#include <math.h>

/* Mean test accuracy of 16 hosts after a quick-start round with conv_light in `slot` from step 1 on, or bare. */
static double quickstart_accuracy(int slot)
{
    struct config config = quickstart_config(16);
    double accuracy[16], mean = 0;
    config.policy.kind = POLICY_STATIC;
    struct engine *engine = start(&config);
    step_all(engine,
             slot < 0 ? (struct action){.op = OP_WAIT} : germinate(slot, BLUEPRINT_CONV_LIGHT, STYLE_LINEAR_ADD));
    wait_steps(engine, config.steps - 2);
    step_all(engine,
             slot < 0 ? (struct action){.op = OP_WAIT} : (struct action){.op = OP_FOSSILIZE, .slot = (uint8_t)slot});
    engine_test(engine, accuracy);
    for (int env = 0; env < 16; env++)
        mean += accuracy[env] / 16;
    engine_free(engine);
    return mean;
}

/* Growth pays, and the slot matters. */
static void test_quickstart(void **state)
{
    (void)state;
    double bare = quickstart_accuracy(-1), early = quickstart_accuracy(0), late = quickstart_accuracy(2);
    print_message("quick start, means of 16: bare %.1f %%, r0c0 %.1f %%, r0c2 %.1f %%\n", bare, early, late);
    assert_true(bare >= 25 && bare <= 36);
    assert_true(early >= 55);
    assert_true(fabs(late - bare) <= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quickstart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
