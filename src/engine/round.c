/* A round from reset to update: fresh episodes, their outcomes, and what the policy learns from them. */
#include <math.h>

#include "base/clock.h"
#include "engine/pick.h"
#include "engine/ranks.h"

/* The episodes' own, which twins and envs of the same birth share. */
static void draw_conditions(const struct engine *engine)
{
    const struct world *world = engine->world;
    const uint32_t images = (uint32_t)engine->data->count[SPLIT_TRAIN];
    for (int env = 0; env < world->envs; env++) {
        const struct conditions conditions =
            conditions_draw(&world->config, *world->round, world_birth(world, env), images);
        conditions_store(&world->conditions, (size_t)env, &conditions);
        if (world->price_factor)
            world->price_factor[env] = conditions_price_factor(
                &world->config, *world->round, births_group(world->births, world_env_number(world, env)));
    }
}

void engine_reset(struct engine *engine, uint32_t round)
{
    struct world *world = engine->world;
    *world->round = round;
    *world->step = 0;
    ranks_reset(engine);
    draw_conditions(engine);
    lessons_draw(engine);
    if (world->twin_known)
        *world->twin_known = 0;
    engine->backend->reset(engine);
}

bool engine_plays_twins(const struct engine *engine)
{
    return world_plays_twins(engine->world);
}

void engine_twin_step(struct engine *engine)
{
    struct world *world = engine->world;
    engine->backend->train(engine);
    engine->backend->evaluate(engine);
    engine->backend->twin(engine);
    if (*world->step < (uint32_t)world->config.steps)
        return;
    *world->step = 0;
    *world->twin_known = 1;
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

/* How many images there are is the one bound that the table cannot know. */
static enum esper_status check_images(const struct engine *engine, const struct world *world, struct esper_error *error)
{
    const uint32_t images = (uint32_t)engine->data->count[SPLIT_TRAIN];
    for (int env = 0; env < world->envs; env++)
        if (world->conditions.images[env] > images)
            return error_set(error, ESPER_INVALID,
                             "array conditions.images holds %u at [%d], where the data set has %u training images",
                             (unsigned)world->conditions.images[env], env, (unsigned)images);
    return ESPER_OK;
}

static enum esper_status check_world(const struct engine *engine, const struct world *world, struct esper_error *error)
{
    TRY(world_check(world, error));
    return check_images(engine, world, error);
}

enum esper_status engine_restored(struct engine *engine, struct esper_error *error)
{
    const enum esper_status status = engine->whole ? check_world(engine, engine->whole, error) : ESPER_OK;
    TRY(group_check(engine->group, status, error));
    ranks_scatter(engine);
    engine_write(engine);
    return ESPER_OK;
}

enum esper_status engine_took(struct engine *engine, struct esper_error *error)
{
    TRY(check_world(engine, engine->world, error));
    engine_write(engine);
    return ESPER_OK;
}

static void fill_outcome(const struct world *world, int env, double test_accuracy, struct outcome_record *out)
{
    struct episode episode = episode_load(&world->episode, (size_t)env);
    struct conditions conditions = conditions_load(&world->conditions, (size_t)env);
    int recent = episode.rewards < EPISODE_RECENT ? (int)episode.rewards : EPISODE_RECENT;
    double host = (double)world->shape.host.params, added = world_added_params(world, env);
    double committed = world_committed_accuracy(world, env);
    struct reward_state reward_state = reward_state_load(&world->reward_state, (size_t)env);
    struct reward_outcome outcome =
        reward_outcome_of(episode.reward_sum, episode.recent, recent, host, added, committed);
    *out = (struct outcome_record){.round = *world->round,
                                   .env = world_env_number(world, env),
                                   .val_accuracy = committed,
                                   .val_loss = world->val_loss[env],
                                   .test_accuracy = test_accuracy,
                                   .reward = episode.reward_sum,
                                   .stability = outcome.stability,
                                   .host_params = (int64_t)host,
                                   .added_params = (int64_t)added,
                                   .germinated = episode.germinated,
                                   .pruned = episode.pruned,
                                   .rollbacks = episode.rollbacks,
                                   .success = outcome.success,
                                   .twin_accuracy = (double)NAN,
                                   .gain = (double)NAN,
                                   .forward_macs = world_committed_macs(world, env),
                                   .train_work = 1 + reward_state.work,
                                   .images = conditions.images,
                                   .label_noise = (double)conditions.label_noise,
                                   .lr_factor = (double)conditions.lr_factor,
                                   .price = world->config.reward.price * world_price_factor(world, env)};
    if (world->twin_accuracy) {
        out->twin_accuracy = world->twin_accuracy[world_round_row(world, (uint32_t)world->config.steps - 1, env)];
        out->gain = episode.reward_sum;
    }
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        out->fossilized += slot.stage == STAGE_FOSSILIZED;
        out->live += stage_is_live(slot.stage);
    }
}

static void count_episode(struct world *world, const struct episode *episode)
{
    *world->total_germinations += episode->germinated;
    *world->total_fossilizations += episode->fossilized;
    *world->total_prunes += episode->pruned;
    *world->total_rollbacks += episode->rollbacks;
    ++*world->total_episodes;
}

/* The env with the best network of all rounds so far, the first of its equals; -1: it is of an earlier round. */
static int close_episodes(struct engine *engine, const double *accuracy, struct outcome_record *outcomes)
{
    const struct world *whole = engine->whole;
    double most = *engine->world->best.accuracy;
    int best = -1;
    for (int env = 0; env < whole->envs; env++) {
        const struct episode episode = episode_load(&whole->episode, (size_t)env);
        fill_outcome(whole, env, accuracy[env], &outcomes[env]);
        if (follows_schedule(whole, env))
            outcomes[env].schedule = engine->schedule_name[schedule_of(whole, env, engine->schedule_count)];
        count_episode(engine->world, &episode);
        if (isfinite(whole->val_loss[env]) && outcomes[env].val_accuracy > most) {
            most = outcomes[env].val_accuracy;
            best = env;
        }
    }
    return best;
}

void engine_finish(struct engine *engine, struct outcome_record *outcomes)
{
    int best = -1;
    engine_test(engine, engine->test_accuracy);
    engine_reported(engine);
    ranks_gather_outcomes(engine, engine->all_accuracy);
    if (engine->whole)
        best = close_episodes(engine, engine->group ? engine->all_accuracy : engine->test_accuracy, outcomes);
    group_tell(engine->group, &best, sizeof best);
    lessons_keep(engine, outcomes);
    if (best < 0)
        return;
    if (engine->group)
        ranks_gather_network(engine, best);
    else
        engine->backend->fetch_env(engine, best);
    if (engine->whole)
        world_keep_best(engine->world, engine->whole, best);
}

bool engine_update(struct engine *engine, double progress, struct update_report *record,
                   struct head_report heads[HEAD_COUNT])
{
    struct world *world = engine->world;
    double start = clock_seconds();
    if (!world->learns || world->config.evaluate)
        return false;
    ranks_share_rollout(engine);
    if (engine->group)
        engine_span(engine, "gather", start);
    start = clock_seconds();
    engine->backend->update(engine, progress, record, heads);
    engine_span(engine, "update", start);
    return true;
}
