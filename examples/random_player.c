/*
 * Plays an episode at random, within the masks.
 *
 *     cc random_player.c $(pkg-config --cflags --libs esper) -o random_player
 *     ./random_player quickstart envs=4 seed=7
 */
#include <esper.h>
#include <stdio.h>
#include <stdlib.h>

static void check(enum esper_status status, const struct esper_error *error)
{
    if (status == ESPER_OK)
        return;
    fprintf(stderr, "random_player: %s\n", error->text);
    exit(1);
}

/* One of the choices that are allowed. */
static uint8_t draw(const uint8_t *allowed, uint32_t count)
{
    uint32_t legal = 0, i = 0;
    for (uint32_t k = 0; k < count; k++)
        legal += allowed[k];
    if (legal == 0)
        return 0;
    for (uint32_t skip = (uint32_t)rand() % legal; !allowed[i] || skip-- > 0;)
        i++;
    return (uint8_t)i;
}

int main(int argc, char **argv)
{
    const struct esper_abi here = ESPER_ABI_HERE;
    struct esper_error error;
    struct esper_env *env;
    struct esper_env_info info;
    check(esper_abi_check(&here, &error), &error);
    check(esper_env_open(&env, argc > 1 ? argv[1] : "quickstart", (const char *const *)argv + 2,
                         argc > 2 ? (size_t)argc - 2 : 0, &error),
          &error);
    check(esper_env_describe(env, &info, &error), &error);

    const size_t choices = (size_t)info.envs * info.choices, slots = (size_t)info.envs * ESPER_OPS * info.slots;
    uint8_t *mask = malloc(choices), *slot_by_op = malloc(slots), *actions = malloc((size_t)info.envs * ESPER_HEADS);
    struct esper_outcome *outcomes = malloc(info.envs * sizeof *outcomes);
    if (!mask || !slot_by_op || !actions || !outcomes)
        return 1;

    check(esper_env_reset(env, &error), &error);
    for (uint32_t step = 0; step < info.steps; step++) {
        check(esper_env_masks(env, mask, choices, slot_by_op, slots, &error), &error);
        for (uint32_t e = 0; e < info.envs; e++) {
            uint8_t *action = actions + e * ESPER_HEADS;
            const uint8_t *allowed = mask + e * info.choices;
            for (int head = 0; head < ESPER_HEADS; allowed += info.head_size[head++])
                action[head] = draw(allowed, info.head_size[head]);
            /* the legal slots depend on the op */
            action[ESPER_HEAD_SLOT] =
                draw(slot_by_op + (e * ESPER_OPS + action[ESPER_HEAD_OP]) * info.slots, info.slots);
        }
        check(esper_env_step(env, actions, (size_t)info.envs * ESPER_HEADS, NULL, 0, &error), &error);
    }

    check(esper_env_outcomes(env, outcomes, info.envs, &error), &error);
    for (uint32_t e = 0; e < info.envs; e++)
        printf("env %u: validation %.2f, test %.2f, reward %.2f, %u seeds born, %u fossils\n", e, outcomes[e].val_score,
               outcomes[e].test_score, outcomes[e].reward, outcomes[e].germinated, outcomes[e].fossilized);
    free(mask);
    free(slot_by_op);
    free(actions);
    free(outcomes);
    esper_env_close(&env);
    return 0;
}
