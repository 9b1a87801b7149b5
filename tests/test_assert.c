/* ESPER_ASSERT: in a debug build, as this program is one, an index or a layout that cannot be ends the process. */
#ifndef ESPER_DEBUG
#define ESPER_DEBUG
#endif
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing_engine.h"

static int evaluated;

/* What `work` ends with in a process of its own, and the line that it leaves. */
static int end_of(void (*work)(struct world *), struct world *world, char line[256])
{
    int pipes[2], status = 0;
    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        work(world);
        _exit(0);
    }
    close(pipes[1]);
    const ssize_t length = read(pipes[0], line, 255);
    line[length > 0 ? length : 0] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void good(struct world *world)
{
    world_slot_row(world, world->envs - 1, world->shape.slots - 1);
    world_round_row(world, (uint32_t)world->config.steps - 1, world->envs - 1);
    world_params(world, 0);
    world_subsets(world, 0);
}

static void beyond_envs(struct world *world)
{
    world_slot_row(world, world->envs, 0);
}

static void beyond_slots(struct world *world)
{
    world_slot_row(world, 0, world->shape.slots);
}

static void beyond_steps(struct world *world)
{
    world_round_row(world, (uint32_t)world->config.steps, 0);
}

static void before_the_first(struct world *world)
{
    world_params(world, -1);
}

static void too_many_subsets(struct world *world)
{
    world->subset_count[0] = SUBSETS_MAX + 1;
    world_subsets(world, 0);
}

static void an_order_beyond(struct world *world)
{
    struct env_orders orders;
    orders_clear(&orders);
    orders_effects(world, 0, world->shape.slots, EFFECT_INIT_SEED, &orders);
}

static void test_assertions(void **state)
{
    void (*const wrong[])(struct world *) = {beyond_envs,      beyond_slots,     beyond_steps,
                                             before_the_first, too_many_subsets, an_order_beyond};
    struct esper_error error = {0};
    const struct config config = small_config(2, 1, 1);
    struct world *world;
    char line[256];
    (void)state;
    assert_int_equal(world_create(&world, &config, &error), ESPER_OK);
    assert_int_equal(end_of(good, world, line), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(end_of(wrong[i], world, line), SIGABRT);
        assert_non_null(strstr(line, " does not hold\n")); /* and where */
        assert_non_null(strstr(line, i == 5 ? "orders.h:" : "world.h:"));
    }
    world_free(world);
}

/* Any other build: the condition is compiled and never evaluated. */
#undef ESPER_DEBUG
#undef BASE_ASSERT_H
#undef ESPER_ASSERT
#include "base/assert.h"

static void test_nothing(void **state)
{
    (void)state;
    ESPER_ASSERT(evaluated++ > 0);
    assert_int_equal(evaluated, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_assertions), cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests_name("assert", tests, NULL, NULL);
}
