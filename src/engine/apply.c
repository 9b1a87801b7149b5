/* apply: every env's turn, its orders and its rows; then the step's rewards are scaled, or kept for that. */
#include "engine/emit.h"
#include "engine/ranks.h"
#include "engine/turn.h"

static void apply_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    struct turn turn;
    (void)thread;
    step_apply_env(&engine->step, env, &turn, lanes_alone());
    orders_do(engine->world, env, &engine->step.orders[env]);
    emit_report(engine, &engine->step.reports[env]);
}

static void scale_rewards(const struct world *world, const struct step *step)
{
    const size_t first = world_rollout_row(world, 0);
    learner_scale_rewards(&world->learner, world->envs, step->executed, step->rewards, step->scaled);
    for (int env = 0; env < world->envs; env++)
        if (step->executed[env])
            world->rollout.reward[first + (size_t)env] =
                world_last_step(world) ? step_learned_reward(world, world->episode.reward_sum, env, step->scaled[env])
                                       : step->scaled[env];
}

void apply_cpu(struct engine *engine)
{
    const struct world *world = engine->world;
    const struct step *step = &engine->step;
    engine_run(engine, "apply", apply_env);
    if (step_scales(world) && !world->earned)
        scale_rewards(world, step);
    for (int env = 0; step_scales(world) && world->earned && env < world->envs; env++)
        step_keep_reward(step, env);
    ranks_report(engine, step->reports);
    step_count(world);
}
