/* decide: do the bookkeeping, observe and mask; query the policy; record its choice. */
#include "base/clock.h"
#include "engine/books.h"
#include "engine/parts.h"
#include "engine/pick.h"

static void observe_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    struct books books;
    (void)thread;
    step_observe_env(&engine->step, env, &books, lanes_alone());
}

void act_cpu(struct engine *engine, int env, const struct action *action)
{
    step_set_action(&engine->step, env, action);
}

void decide_cpu(struct engine *engine)
{
    struct world *world = engine->world;
    size_t first = world_rollout_row(world, 0), slots = (size_t)world->shape.slots;
    engine_run(engine, "observe", observe_env);
    double start = clock_seconds();
    if (world->learns) {
        struct policy_step step = {.rows = world->envs,
                                   .obs = world->rollout.state + first * (size_t)world->rollout.obs,
                                   .bp = world->rollout.bp + first * slots,
                                   .h = world->hidden,
                                   .c = world->cell,
                                   .logits = engine->logits,
                                   .value = engine->values};
        engine->kernels->policy.act(world->learner.net, &step);
    }
    for (int env = 0; env < world->envs; env++) {
        union pick_room room;
        step_pick_env(&engine->step, env, &room, lanes_alone());
    }
    engine_span(engine, "decide", start);
}
