/* A round from reset to update: fresh episodes, their outcomes, and what the policy learns from them. */
#include "base/clock.h"
#include "engine/parts.h"

void engine_reset(struct engine *engine, uint32_t round)
{
    struct world *world = engine->world;
    *world->round = round;
    *world->step = 0;
    engine->backend->reset(engine);
}

void engine_begin(struct engine *engine)
{
    struct world *world = engine->world;
    world_begin(world);
    if (world->learns)
        learner_init(&world->learner, world->config.seed);
    engine_write(engine);
    engine_reset(engine, round_first(world->config.evaluate));
}

void engine_restored(struct engine *engine)
{
    engine_write(engine);
}

static void fill_outcome(const struct engine *engine, int env, struct outcome_record *out)
{
    const struct world *world = engine->world;
    struct episode episode = episode_load(&world->episode, (size_t)env);
    int recent = episode.rewards < EPISODE_RECENT ? (int)episode.rewards : EPISODE_RECENT;
    double host = (double)world->shape.host.params, added = world_added_params(world, env);
    struct reward_outcome outcome =
        reward_outcome_of(episode.reward_sum, episode.recent, recent, host, added, world->val_accuracy[env]);
    *out = (struct outcome_record){.round = *world->round,
                                   .env = env,
                                   .val_accuracy = world->val_accuracy[env],
                                   .val_loss = world->val_loss[env],
                                   .test_accuracy = engine->test_accuracy[env],
                                   .reward = episode.reward_sum,
                                   .stability = outcome.stability,
                                   .host_params = (int64_t)host,
                                   .added_params = (int64_t)added,
                                   .germinated = episode.germinated,
                                   .pruned = episode.pruned,
                                   .rollbacks = episode.rollbacks,
                                   .success = outcome.success};
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        out->fossilized += slot.stage == STAGE_FOSSILIZED;
        out->live += stage_is_live(slot.stage);
    }
}

void engine_finish(struct engine *engine, struct outcome_record *outcomes)
{
    struct world *world = engine->world;
    engine_test(engine, engine->test_accuracy);
    for (int env = 0; env < world->envs; env++) {
        struct episode episode = episode_load(&world->episode, (size_t)env);
        fill_outcome(engine, env, &outcomes[env]);
        /* A network that was just rolled back is not the one that was measured. */
        if (episode.panicked == PRUNE_NONE && world->val_accuracy[env] > *world->best.accuracy) {
            engine->backend->fetch_env(engine, env);
            world_keep_best(world, env);
        }
        *world->total_germinations += episode.germinated;
        *world->total_fossilizations += episode.fossilized;
        *world->total_prunes += episode.pruned;
        *world->total_rollbacks += episode.rollbacks;
    }
    *world->total_episodes += (uint64_t)world->envs;
}

bool engine_update(struct engine *engine, double progress, struct update_report *record,
                   struct head_report heads[HEAD_COUNT])
{
    struct world *world = engine->world;
    double start = clock_seconds();
    if (!world->learns || world->config.evaluate)
        return false;
    engine->backend->update(engine, progress, record, heads);
    engine_span(engine, "update", start);
    return true;
}
