/*
 * Lets the policy of a run play the episodes of `esper eval RUN`, to the same bits.
 *
 *     cc trained_policy.c $(pkg-config --cflags --libs esper) -o trained_policy
 *     ./trained_policy runs/first 2 greedy
 */
#include <esper.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(enum esper_status status, const struct esper_error *error)
{
    if (status == ESPER_OK)
        return;
    fprintf(stderr, "trained_policy: %s\n", error->text);
    exit(1);
}

int main(int argc, char **argv)
{
    struct esper_error error;
    struct esper_env *env;
    struct esper_policy *policy;
    struct esper_env_info info;
    const char *run = argc > 1 ? argv[1] : "latest";
    const int episodes = argc > 2 ? atoi(argv[2]) : 1, greedy = argc > 3 && strcmp(argv[3], "greedy") == 0;
    check(esper_env_open_run(&env, run, NULL, 0, &error), &error);
    check(esper_policy_open(&policy, run, &error), &error);
    check(esper_env_describe(env, &info, &error), &error);

    uint8_t *actions = malloc((size_t)info.envs * ESPER_HEADS);
    struct esper_outcome *outcomes = malloc(info.envs * sizeof *outcomes);
    if (!actions || !outcomes)
        return 1;
    for (int i = 0; i < episodes; i++) {
        check(esper_env_reset(env, &error), &error);
        for (uint32_t step = 0; step < info.steps; step++) {
            check(esper_policy_act(policy, env, greedy, actions, (size_t)info.envs * ESPER_HEADS, &error), &error);
            check(esper_env_step(env, actions, (size_t)info.envs * ESPER_HEADS, NULL, 0, &error), &error);
        }
        check(esper_env_outcomes(env, outcomes, info.envs, &error), &error);
        for (uint32_t e = 0; e < info.envs; e++)
            printf("%u,%u,%.17g,%.17g\n", outcomes[e].episode, e, outcomes[e].test_score, outcomes[e].reward);
    }
    free(actions);
    free(outcomes);
    esper_policy_close(&policy);
    esper_env_close(&env);
    return 0;
}
