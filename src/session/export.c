#include "session/export.h"

#include <stdio.h>

static struct model_source source_of(const struct world *world, const char *run)
{
    struct model_source source = {.round = (uint32_t)round_shown(*world->round), .step = *world->step};
    snprintf(source.run, sizeof source.run, "%s", run);
    snprintf(source.task, sizeof source.task, "%s", world->config.task);
    return source;
}

enum esper_status export_env(const struct world *world, int env, const char *run, struct model **out,
                             struct esper_error *error)
{
    struct slot_state slots[SHAPE_SLOTS];
    struct model_source source = source_of(world, run);
    if (env < 0 || env >= world->envs)
        return error_set(error, ESPER_INVALID, "env %d: the run has envs 0 to %d", env, world->envs - 1);
    if (*world->step == 0)
        return error_set(error, ESPER_INVALID,
                         "env %d: the newest checkpoint is between two rounds, where every host is new; take the "
                         "best network (--env best)",
                         env);
    world_slots(world, env, slots);
    struct net_params params = world_params(world, env);
    source.env = world_env_number(world, env);
    source.val_accuracy = world->val_accuracy[env];
    return model_take(out, &world->config, &world->shape, &params, slots, &source, error);
}

enum esper_status export_best(const struct world *world, const char *run, struct model **out, struct esper_error *error)
{
    struct slot_state slots[SHAPE_SLOTS];
    const struct world_best *best = &world->best;
    struct model_source source = source_of(world, run);
    if (*best->accuracy < 0)
        return error_set(error, ESPER_INVALID,
                         "no episode has ended, so there is no best network yet; take the network of an env (--env N)");
    for (int j = 0; j < world->shape.slots; j++)
        slots[j] = slot_load(&best->slots, (size_t)j);
    const struct net_params params = {best->host, best->stats, best->seed, best->gate};
    source.best = true;
    source.round = (uint32_t)round_shown(*best->round);
    source.step = (uint32_t)world->config.steps;
    source.env = *best->env;
    source.val_accuracy = *best->accuracy;
    return model_take(out, &world->config, &world->shape, &params, slots, &source, error);
}
