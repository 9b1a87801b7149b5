/* An episode with given actions, in C: what bench/python.py compares the Python package with. */
#include <esper.h>

/* `actions` [steps][envs][heads]; the other arrays are as esper.h has them. */
enum esper_status play(struct esper_env *env, uint32_t episode, const uint8_t *actions, float *features,
                       uint8_t *choices, uint8_t *slots, struct esper_step *told, struct esper_outcome *outcomes)
{
    struct esper_env_info info;
    enum esper_status status = esper_env_describe(env, &info, NULL);
    const size_t envs = info.envs, chosen = envs * ESPER_HEADS;
    if (status == ESPER_OK)
        status = esper_env_reset_to(env, episode, NULL);
    for (uint32_t step = 0; status == ESPER_OK && step < info.steps; step++) {
        status = esper_env_observe(env, features, envs * info.features, NULL);
        if (status == ESPER_OK)
            status = esper_env_masks(env, choices, envs * info.choices, slots, envs * ESPER_OPS * info.slots, NULL);
        if (status == ESPER_OK)
            status = esper_env_step(env, actions + step * chosen, chosen, told, envs, NULL);
    }
    return status == ESPER_OK ? esper_env_outcomes(env, outcomes, envs, NULL) : status;
}
