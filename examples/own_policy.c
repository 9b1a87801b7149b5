/*
 * A policy by hand: plant a seed of one blueprint wherever that is allowed, and fossilise what holds.
 *
 *     cc own_policy.c $(pkg-config --cflags --libs esper) -o own_policy
 *     ./own_policy conv_heavy
 */
#include <esper.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(enum esper_status status, const struct esper_error *error)
{
    if (status == ESPER_OK)
        return;
    fprintf(stderr, "own_policy: %s\n", error->text);
    exit(1);
}

static uint8_t blueprint_named(const struct esper_env *env, const struct esper_env_info *info, const char *name)
{
    for (uint32_t b = 0; b < info->head_size[ESPER_HEAD_BLUEPRINT]; b++)
        if (esper_env_blueprint_name(env, b) && strcmp(esper_env_blueprint_name(env, b), name) == 0)
            return (uint8_t)b;
    fprintf(stderr, "own_policy: there is no blueprint %s\n", name);
    exit(1);
}

/* Fossilise if possible, plant otherwise, or wait. `slots` [ESPER_OPS][slots] are the legal ones. */
static void decide(const uint8_t *slots, uint32_t count, uint8_t blueprint, uint8_t action[ESPER_HEADS])
{
    static const uint8_t wishes[] = {ESPER_OP_FOSSILIZE, ESPER_OP_GERMINATE};
    memset(action, 0, ESPER_HEADS); /* wait */
    action[ESPER_HEAD_BLUEPRINT] = blueprint;
    action[ESPER_HEAD_ALPHA_TARGET] = 2; /* of the full strength */
    for (size_t i = 0; i < sizeof wishes; i++)
        for (uint32_t slot = 0; slot < count; slot++)
            if (slots[wishes[i] * count + slot]) {
                action[ESPER_HEAD_OP] = wishes[i];
                action[ESPER_HEAD_SLOT] = (uint8_t)slot;
                return;
            }
}

int main(int argc, char **argv)
{
    struct esper_error error;
    struct esper_env *env;
    struct esper_env_info info;
    const char *task = argc > 2 ? argv[2] : "quickstart";
    check(esper_env_open(&env, task, (const char *const *)argv + 3, argc > 3 ? (size_t)argc - 3 : 0, &error), &error);
    check(esper_env_describe(env, &info, &error), &error);
    const uint8_t blueprint = blueprint_named(env, &info, argc > 1 ? argv[1] : "conv_heavy");

    const size_t count = (size_t)info.envs * ESPER_OPS * info.slots;
    uint8_t *slots = malloc(count), *actions = malloc((size_t)info.envs * ESPER_HEADS);
    struct esper_step *steps = malloc(info.envs * sizeof *steps);
    if (!slots || !actions || !steps)
        return 1;

    check(esper_env_reset(env, &error), &error);
    for (uint32_t step = 1; step <= info.steps; step++) {
        check(esper_env_masks(env, NULL, 0, slots, count, &error), &error);
        for (uint32_t e = 0; e < info.envs; e++)
            decide(slots + e * ESPER_OPS * info.slots, info.slots, blueprint, actions + e * ESPER_HEADS);
        check(esper_env_step(env, actions, (size_t)info.envs * ESPER_HEADS, steps, info.envs, &error), &error);
        if (actions[ESPER_HEAD_OP] != ESPER_OP_WAIT)
            printf("step %u: env 0 did %s in %s%s, score %.2f, reward %.3f\n", step,
                   esper_op_name(actions[ESPER_HEAD_OP]), esper_env_slot_name(env, actions[ESPER_HEAD_SLOT]),
                   steps[0].result == ESPER_DONE ? "" : " in vain", steps[0].val_score, steps[0].reward);
    }
    printf("score of env 0 at the end: %.2f\n", steps[0].val_score);
    free(slots);
    free(actions);
    free(steps);
    esper_env_close(&env);
    return 0;
}
