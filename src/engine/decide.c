/* decide: the governor's verdict, the slots' bookkeeping, then observe, mask and sample. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/philox.h"
#include "engine/parts.h"
#include "policy/uniform.h"

enum { CLASSES = 10 };

/* The step's measurements, written into the rows that gates and policy read. */
static void record_slots(struct engine *engine, int env, struct slot_state *slot, struct slot_memory *memory)
{
    const struct world *world = engine->world;
    struct subsets subsets = world_subsets(world, env);
    uint32_t images = (uint32_t)world->config.data_val_images;
    for (int j = 0; j < world->shape.slots; j++) {
        const struct slot_grads *grads = &engine->grads[world_slot_row(world, env, j)];
        if (!stage_is_live(slot[j].stage))
            continue;
        slot_record_accuracy(&slot[j], world->val_accuracy[env]);
        if (grads->measured && (slot[j].stage == STAGE_TRAINING || slot[j].stage == STAGE_BLENDING)) {
            struct gradient_sample sample = {.norm = grads->finite ? grads->norm : (double)NAN,
                                             .health = grads->health,
                                             .ratio = grads->ratio,
                                             .vanishing = grads->vanishing,
                                             .exploding = grads->exploding};
            slot_record_gradient(&slot[j], &sample);
        }
        bool measured = (subsets.all >> j) & 1u;
        slot[j].interaction_sum = measured ? subset_interaction(&subsets, j, images) : 0;
        if (measured)
            slot_record_contribution(&slot[j], subset_contribution(&subsets, j, images));
        observe_measured(&memory[j], measured);
    }
}

static void remember_boosts(struct world *world, int env)
{
    struct subsets subsets = world_subsets(world, env);
    struct reward_pairs pairs = world_pairs(world, env);
    reward_measured(world->shape.slots, (int)*world->step + 1, &subsets, (uint32_t)world->config.data_val_images,
                    &pairs);
    world_set_pairs(world, env, &pairs);
}

/* A network the governor throws away leaves no trace in the env's memory. */
static void keep_books(struct engine *engine, int env, struct slot_state *slot, struct slot_memory *memory)
{
    struct world *world = engine->world;
    struct governor governor = governor_load(&world->governor, (size_t)env);
    struct episode episode = episode_load(&world->episode, (size_t)env);
    int verdict = governor_verdict(&governor, &world->config.governor, CLASSES, world->val_loss[env]);
    episode.panicked = (uint8_t)verdict;
    governor_store(&world->governor, (size_t)env, &governor);
    episode_store(&world->episode, (size_t)env, &episode);
    if (verdict != PRUNE_NONE)
        return;

    struct tracker tracker = tracker_load(&world->tracker, (size_t)env);
    tracker_update(&tracker, world->val_loss[env], world->val_accuracy[env]);
    tracker_store(&world->tracker, (size_t)env, &tracker);
    record_slots(engine, env, slot, memory);
    for (int j = 0; j < world->shape.slots; j++) {
        world_set_slot(world, env, j, &slot[j]);
        slot_memory_store(&world->slot_memory, world_slot_row(world, env, j), &memory[j]);
    }
    remember_boosts(world, env);
    bool due = (*world->step + 1) % (uint32_t)world->config.governor.snapshot_steps == 0;
    if (due && governor_may_snapshot(&governor)) /* none while a divergence streak runs (runtime D5) */
        world_snapshot(world, env);
}

static void observe_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    struct world *world = engine->world;
    const struct config *config = &world->config;
    int slots = world->shape.slots;
    struct slot_state slot[SHAPE_SLOTS];
    struct slot_memory memory[SHAPE_SLOTS];
    (void)thread;
    world_slots(world, env, slot);
    for (int j = 0; j < slots; j++)
        memory[j] = slot_memory_load(&world->slot_memory, world_slot_row(world, env, j));
    keep_books(engine, env, slot, memory);

    size_t row = engine_row(engine, env);
    float *raw = world->rollout.raw + row * (size_t)world->rollout.obs;
    float *state = world->rollout.state + row * (size_t)world->rollout.obs;
    struct tracker tracker = tracker_load(&world->tracker, (size_t)env);
    struct env_memory env_memory = env_memory_load(&world->env_memory, (size_t)env);
    struct observe_env seen = {.step = (int)*world->step + 1,
                               .steps = config->steps,
                               .val_loss = world->val_loss[env],
                               .val_accuracy = world->val_accuracy[env],
                               .tracker = &tracker,
                               .memory = &env_memory};
    observe(&seen, slot, memory, slots, raw, world->rollout.bp + row * (size_t)slots);
    if (world->learns)
        learner_normalise(&world->learner, observe_normalised, raw, state);
    bool automatic = config->auto_g1 && config->auto_g2 && config->auto_g3;
    engine->masks[env] = masks_of_slots(slot, slots, config->max_seeds, automatic);
}

/* The network's choice from its logits. */
static struct action sample_network(struct engine *engine, int env)
{
    const struct world *world = engine->world;
    const struct policy_config *policy = &world->config.policy;
    struct decision *decision = &engine->decisions[env];
    policy_sample(&engine->masks[env], world->shape.slots, policy->floor,
                  engine->logits + (size_t)env * (size_t)world->learner.shape.logits,
                  random_at(world->config.seed, STREAM_ACTION, *world->round, (uint32_t)env, *world->step + 1),
                  policy->greedy, decision);
    return action_of_heads(decision->choice);
}

static struct action decide_heuristic(struct engine *engine, int env)
{
    struct world *world = engine->world;
    struct slot_state slot[SHAPE_SLOTS];
    struct tracker tracker = tracker_load(&world->tracker, (size_t)env);
    struct heuristic heuristic = heuristic_load(&world->heuristic, (size_t)env);
    world_slots(world, env, slot);
    struct action action =
        heuristic_decide(&heuristic, &tracker, (int)*world->step + 1, slot, world->shape.slots, &engine->masks[env]);
    heuristic_store(&world->heuristic, (size_t)env, &heuristic);
    return action;
}

static struct action decide_env(struct engine *engine, int env)
{
    const struct world *world = engine->world;
    struct action wait = {.op = OP_WAIT};
    switch (world->config.policy.kind) {
    case POLICY_PPO:
        return sample_network(engine, env);
    case POLICY_HEURISTIC:
        return world->episode.panicked[env] ? wait : decide_heuristic(engine, env);
    case POLICY_RANDOM:
        return uniform_decide(
            &engine->masks[env], world->shape.slots,
            random_at(world->config.seed, STREAM_RANDOM_POLICY, *world->round, (uint32_t)env, *world->step + 1));
    case POLICY_SCRIPT:
        return script_action(&engine->script, (int)*world->step + 1, env);
    case POLICY_STATIC:
    case POLICY_REPLAY:
        break;
    }
    return wait;
}

static void write_choice(struct engine *engine, int env, const struct action *action)
{
    struct world *world = engine->world;
    size_t row = engine_row(engine, env);
    heads_of_action(action, world->rollout.choice + row * HEAD_COUNT);
    world->rollout.mask[row] = mask_of_op(&engine->masks[env], world->shape.slots, action->op);
    engine->actions[env] = *action;
}

void engine_override(struct engine *engine, int env, const struct action *action)
{
    write_choice(engine, env, action);
}

void engine_decide(struct engine *engine)
{
    struct world *world = engine->world;
    size_t first = engine_row(engine, 0), slots = (size_t)world->shape.slots;
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
        struct action action = decide_env(engine, env);
        write_choice(engine, env, &action);
        memcpy(world->rollout.logp + (first + (size_t)env) * HEAD_COUNT, engine->decisions[env].logp,
               sizeof engine->decisions[env].logp);
        world->rollout.value[first + (size_t)env] = world->learns ? engine->values[env] : 0;
    }
    engine_span(engine, "decide", start);
}
