/* A training's lessons (search/lessons.h): which schedule every env plays in a round, and what came of it. */
#include "search/lessons.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "engine/pick.h"
#include "engine/ranks.h"
#include "learn/normalise.h"

enum esper_status lessons_load(struct engine *engine, struct esper_error *error)
{
    struct catalogue *catalogue = memory_alloc(1, sizeof *catalogue, error);
    if (!catalogue)
        return ESPER_FAILED;
    catalogue_make(catalogue, &engine->world->config);
    const int count = catalogue->count;
    engine->schedule_count = count * TEMPO_COUNT;
    engine->schedules = memory_alloc((size_t)engine->schedule_count, sizeof *engine->schedules, error);
    if (engine->schedules)
        lessons_fill(engine->schedules, catalogue);
    engine->step.schedules = engine->schedules;
    engine->step.schedule_count = engine->schedule_count;
    memory_free(catalogue);
    return engine->schedules ? belief_create(&engine->belief, count, TEMPO_COUNT, error) : ESPER_FAILED;
}

/* What is believed after so many rounds, the same on every rank. */
static const struct belief *believed(struct engine *engine, uint32_t rounds)
{
    const struct world *world = engine->world;
    const int tries = world->config.lesson.tries;
    const struct played played = {.count = engine->belief.count,
                                  .tempos = engine->belief.tempos,
                                  .slots = world->config.slot_count,
                                  .schedule = engine->schedules,
                                  .rounds = rounds < (uint32_t)tries ? (int)rounds : tries,
                                  .envs = world->config.envs,
                                  .brood = world->births.brood,
                                  .tried = world->lesson_tried,
                                  .earned = world->lesson_earned,
                                  .cost = world->lesson_cost};
    belief_form(&engine->belief, &played);
    return &engine->belief;
}

void lessons_draw(struct engine *engine)
{
    const struct world *world = engine->world;
    if (!world->lesson_schedule)
        return;
    const struct belief *belief = believed(engine, *world->round);
    for (int env = 0; env < world->envs; env++) {
        const uint64_t number = (uint64_t)*world->round * (uint64_t)world->config.envs + world_env_number(world, env);
        const double share = world_price_factor(world, env);
        const struct random_site site = world_random(world, STREAM_LESSON, env, 0);
        world->lesson_schedule[env] = (uint16_t)(world_lesson(world) == LESSON_TRY
                                                     ? lessons_try(belief, number, share, site)
                                                     : lessons_best(belief, share));
    }
}

/* What an episode would have paid for its parameters at the full price. */
static double full_price(const struct config *config, const struct outcome_record *outcome)
{
    return config->reward.mode == REWARD_GAIN ? config->reward.price * (double)outcome->added_params / 1000 : 0;
}

void lessons_keep(struct engine *engine, const struct outcome_record *outcomes)
{
    const struct world *world = engine->world, *whole = engine->whole;
    const size_t envs = (size_t)world->config.envs;
    if (world_lesson(world) != LESSON_TRY) /* what is recited must not change: it takes some rounds to learn */
        return;
    uint16_t *tried = world->lesson_tried + *world->round * envs;
    double *earned = world->lesson_earned + *world->round * envs, *cost = world->lesson_cost + *world->round * envs;
    for (int env = 0; whole && env < whole->envs; env++) {
        const double price = full_price(&world->config, &outcomes[env]),
                     worth = outcomes[env].reward + world_price_factor(whole, env) * price;
        const bool valid = isfinite(worth); /* one env's failure must not reach the others (E-03) */
        tried[env] = valid ? (uint16_t)schedule_of(whole, env, engine->schedule_count) : LESSONS_MAX;
        earned[env] = valid ? worth : 0;
        cost[env] = price;
    }
    group_tell(engine->group, tried, envs * sizeof *tried); /* every rank draws from it */
    group_tell(engine->group, earned, envs * sizeof *earned);
    group_tell(engine->group, cost, envs * sizeof *cost);
}

/* What a schedule earned at the full price, whatever its tempo, and the standard error of that. */
static void fill_earned(const struct world *world, int schedule, int count, struct lesson_result *out)
{
    const size_t tries = (size_t)world->config.lesson.tries * (size_t)world->config.envs;
    struct moments earned = {0};
    for (size_t i = 0; i < tries; i++)
        if (world->lesson_tried[i] != LESSONS_MAX && world->lesson_tried[i] % count == schedule)
            moments_add(&earned, world->lesson_earned[i] - world->lesson_cost[i]);
    out->plays = (uint32_t)earned.count;
    out->earned = earned.mean;
    out->error = earned.count > 1 ? sqrt(earned.m2 / (earned.count - 1) / earned.count) : 0;
}

bool engine_lessons_end(struct engine *engine, struct lesson_result *out)
{
    const struct world *world = engine->world;
    const struct lesson_config *lesson = &world->config.lesson;
    if (world_lesson(world) == LESSON_NONE || *world->round + 1 < (uint32_t)(lesson->tries + lesson->recitals))
        return false;
    const struct belief *belief = believed(engine, *world->round + 1);
    const int best = lessons_best(belief, 1);
    *out = (struct lesson_result){.best = &engine->schedules[best]};
    fill_earned(world, best % belief->count, belief->count, out);
    for (int i = 0; i < belief->count; i++)
        out->schedules += belief->plays[i] > 0;
    return true;
}
