/* A training's lessons (search/lessons.h): which schedule every env plays in a round, and what came of it. */
#include "search/lessons.h"

#include <string.h>

#include "base/memory.h"
#include "engine/ranks.h"
#include "search/catalogue.h"

enum esper_status lessons_load(struct engine *engine, struct esper_error *error)
{
    struct catalogue *catalogue = memory_alloc(1, sizeof *catalogue, error);
    if (!catalogue)
        return ESPER_FAILED;
    catalogue_make(catalogue, &engine->world->config);
    engine->schedules = memory_alloc((size_t)catalogue->count, sizeof *engine->schedules, error);
    if (engine->schedules)
        memcpy(engine->schedules, catalogue->schedule, (size_t)catalogue->count * sizeof *engine->schedules);
    engine->step.schedules = engine->schedules;
    engine->step.schedule_count = engine->schedule_count = catalogue->count;
    memory_free(catalogue);
    return engine->schedules ? belief_create(&engine->belief, engine->schedule_count, error) : ESPER_FAILED;
}

static struct lessons lessons_of(const struct engine *engine)
{
    const struct world *world = engine->world;
    return (struct lessons){.count = engine->schedule_count,
                            .slots = world->config.slot_count,
                            .schedule = engine->schedules,
                            .plays = world->lesson_plays,
                            .mean = world->lesson_mean,
                            .square = world->lesson_square,
                            .cost = world->lesson_cost};
}

/* What is believed at the start of a round, the same on every rank. */
static struct lessons believed(struct engine *engine)
{
    const struct lessons lessons = lessons_of(engine);
    lessons_believe(&lessons, &engine->belief);
    return lessons;
}

void lessons_draw(struct engine *engine)
{
    const struct world *world = engine->world;
    if (!world->lesson_schedule)
        return;
    const struct lessons lessons = believed(engine);
    for (int env = 0; env < world->envs; env++) {
        const uint64_t number = (uint64_t)*world->round * (uint64_t)world->config.envs + world_env_number(world, env);
        const double share = world_price_factor(world, env);
        const struct random_site site = world_random(world, STREAM_LESSON, env, 0);
        world->lesson_schedule[env] = (uint16_t)(world_lesson(world) == LESSON_TRY
                                                     ? lessons_try(&lessons, &engine->belief, number, share, site)
                                                     : lessons_best(&lessons, &engine->belief, share));
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
    const struct lessons lessons = lessons_of(engine);
    const size_t count = (size_t)lessons.count;
    if (world_lesson(world) != LESSON_TRY) /* what is recited must not change: it takes some rounds to learn */
        return;
    for (int env = 0; whole && env < whole->envs; env++)
        lessons_judge(&lessons, whole->lesson_schedule[env] % lessons.count, outcomes[env].reward,
                      world_price_factor(whole, env), full_price(&world->config, &outcomes[env]));
    group_tell(engine->group, lessons.plays, count * sizeof *lessons.plays); /* every rank draws from it */
    group_tell(engine->group, lessons.mean, count * sizeof *lessons.mean);
    group_tell(engine->group, lessons.square, count * sizeof *lessons.square);
    group_tell(engine->group, lessons.cost, count * sizeof *lessons.cost);
}

bool engine_lessons_end(struct engine *engine, struct lesson_result *out)
{
    const struct world *world = engine->world;
    const struct lesson_config *lesson = &world->config.lesson;
    if (world_lesson(world) == LESSON_NONE || *world->round + 1 < (uint32_t)(lesson->tries + lesson->recitals))
        return false;
    const struct lessons lessons = believed(engine);
    const int best = lessons_best(&lessons, &engine->belief, 1);
    *out = (struct lesson_result){.best = &engine->schedules[best],
                                  .plays = lessons.plays[best],
                                  .earned = lessons_mean(&lessons, best, 1),
                                  .error = lessons_error(&lessons, best)};
    for (int i = 0; i < lessons.count; i++)
        out->schedules += lessons.plays[i] > 0;
    return true;
}
