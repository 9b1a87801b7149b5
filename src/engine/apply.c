/* apply: reward from the state before the action, execution and tick - or the governor's rollback; the rollout's row.
 */
#include <math.h>
#include <string.h>

#include "engine/emit.h"
#include "learn/normalise.h"
#include "telemetry/recorder.h"

/* All that the rules keep about one env while its action is carried out. */
struct turn {
    struct world *world;
    int env, slots;
    struct slot_state before[SHAPE_SLOTS], slot[SHAPE_SLOTS];
    struct slot_memory memory[SHAPE_SLOTS];
    struct env_memory env_memory;
    struct tracker tracker;
    struct subsets subsets;
    struct reward_state reward_state;
    struct reward_slot reward_slot[SHAPE_SLOTS];
    struct reward_pairs pairs;
    struct episode episode;
    struct life_log log[SHAPE_SLOTS]; /* what happened to the seeds */
};

static void turn_load(struct turn *turn, struct world *world, int env)
{
    size_t row = (size_t)env;
    turn->world = world;
    turn->env = env;
    turn->slots = world->shape.slots;
    world_slots(world, env, turn->slot);
    memcpy(turn->before, turn->slot, sizeof turn->before);
    for (int j = 0; j < turn->slots; j++) {
        turn->memory[j] = slot_memory_load(&world->slot_memory, world_slot_row(world, env, j));
        turn->reward_slot[j] = reward_slot_load(&world->reward_slot, world_slot_row(world, env, j));
    }
    turn->env_memory = env_memory_load(&world->env_memory, row);
    turn->tracker = tracker_load(&world->tracker, row);
    turn->subsets = world_subsets(world, env);
    turn->reward_state = reward_state_load(&world->reward_state, row);
    turn->pairs = world_pairs(world, env);
    turn->episode = episode_load(&world->episode, row);
    for (int j = 0; j < turn->slots; j++)
        turn->log[j].count = 0;
}

/* The slots themselves go back as they change, because effects act on the world's rows. */
static void turn_store(const struct turn *turn)
{
    struct world *world = turn->world;
    size_t row = (size_t)turn->env;
    for (int j = 0; j < turn->slots; j++) {
        world_set_slot(world, turn->env, j, &turn->slot[j]);
        slot_memory_store(&world->slot_memory, world_slot_row(world, turn->env, j), &turn->memory[j]);
        reward_slot_store(&world->reward_slot, world_slot_row(world, turn->env, j), &turn->reward_slot[j]);
    }
    env_memory_store(&world->env_memory, row, &turn->env_memory);
    reward_state_store(&world->reward_state, row, &turn->reward_state);
    world_set_pairs(world, turn->env, &turn->pairs);
    episode_store(&world->episode, row, &turn->episode);
}

static void forget_recurrent_state(struct world *world, int env)
{
    if (!world->learns)
        return;
    size_t hidden = (size_t)world->config.policy.hidden;
    memset(world->hidden + (size_t)env * hidden, 0, sizeof(float) * hidden);
    memset(world->cell + (size_t)env * hidden, 0, sizeof(float) * hidden);
}

/* ---- rollback ---------------------------------------------------------------------------------------------------- */

/* The last executed row pays: its reward becomes the penalty and its segment ends there. Earlier rewards stay. */
static void blame_last_row(struct turn *turn, struct rollback_record *record)
{
    struct world *world = turn->world;
    struct episode *episode = &turn->episode;
    double penalty = -fmin(world->config.governor.penalty, NORMALISE_CLIP);
    if (episode->last_row == EPISODE_NO_ROW) { /* nothing was done yet: nobody to blame */
        episode->unattributed++;
        return;
    }
    size_t row = (size_t)episode->last_row * (size_t)world->envs + (size_t)turn->env;
    record->blamed_step = (int64_t)episode->last_row + 1;
    record->penalty = penalty;
    record->replaced = episode->last_reward;
    world->rollout.reward[row] = (float)penalty;
    world->rollout.flags[row] |= ROW_DONE;
    episode->reward_sum += penalty - episode->last_reward;
    episode->recent[(episode->rewards - 1) % EPISODE_RECENT] = penalty;
    episode->last_reward = penalty;
}

static void roll_back(struct engine *engine, struct turn *turn)
{
    struct world *world = turn->world;
    struct rollback_record record = {.round = *world->round,
                                     .step = *world->step + 1,
                                     .env = turn->env,
                                     .reason = prune_reason_name(turn->episode.panicked),
                                     .val_loss = world->val_loss[turn->env],
                                     .blamed_step = RECORD_NONE,
                                     .penalty = NAN,
                                     .replaced = NAN};
    uint32_t lost = 0;
    for (int j = 0; j < turn->slots; j++)
        lost += stage_may_follow(turn->slot[j].stage, STAGE_PRUNED) ? 1u : 0u;
    record.seeds_lost = lost;
    blame_last_row(turn, &record);
    recorder_emit(engine->recorder, RECORD_ROLLBACK, &record);
    world_rollback(world, turn->env, turn->episode.panicked, turn->log);
    world_slots(world, turn->env, turn->slot);
    reward_ticked(&world->config.reward, world->config.gamma, turn->slots, turn->slot, &turn->reward_state,
                  turn->reward_slot, &turn->pairs);
    forget_recurrent_state(world, turn->env);
    observe_rolled_back(&turn->env_memory);
    turn->episode.last_row = EPISODE_NO_ROW; /* the segment is closed: a second panic in a row has no row of its own */
    turn->episode.reset_next = 1;
    turn->episode.rollbacks++;
    turn->episode.pruned += lost;
    const struct step_view view = {
        .env = turn->env, .before = turn->before, .subsets = &turn->subsets, .result = "rolled_back"};
    emit_step(engine, &view);
}

/* ---- an ordinary step -------------------------------------------------------------------------------------------- */

static struct reward_env reward_inputs(const struct engine *engine, const struct turn *turn)
{
    const struct world *world = turn->world;
    const struct config *config = &world->config;
    struct reward_env in = {
        .slots = turn->slots,
        .step = (int)*world->step + 1,
        .steps = config->steps,
        .action = engine->actions[turn->env],
        .slot = turn->before,
        .subsets = &turn->subsets,
        .val_images = (uint32_t)config->data_val_images,
        .val_loss = world->val_loss[turn->env],
        .previous_loss = tracker_previous_loss(&turn->tracker),
        .val_accuracy = world->val_accuracy[turn->env],
        .previous_accuracy = tracker_previous_accuracy(&turn->tracker),
        .first_accuracy = turn->tracker.first_accuracy,
        .stable_accuracy = tracker_stable_accuracy(&turn->tracker, (uint32_t)config->reward.escrow_stable_window),
        .host_params = (uint32_t)world->shape.host.params,
        .gates = engine->gates};
    return in;
}

static struct action_result execute(struct engine *engine, struct turn *turn, const struct action *action)
{
    struct world *world = engine->world;
    struct action_result result = {.allowed = true, .success = true};
    if (action->op == OP_WAIT)
        return result;
    struct seed_size size = {0};
    if (action->op == OP_GERMINATE)
        size = world_seed_size(world, action->slot, action->blueprint);
    result = action_apply(&turn->slot[action->slot], action, &engine->gates, size, &turn->log[action->slot]);
    world_set_slot(world, turn->env, action->slot, &turn->slot[action->slot]);
    world_effects(world, turn->env, action->slot, result.effects);
    turn->episode.germinated += action->op == OP_GERMINATE && result.success;
    turn->episode.fossilized += action->op == OP_FOSSILIZE && result.success;
    turn->episode.pruned += (result.effects & EFFECT_DROPPED) != 0;
    turn->episode.refused += result.allowed && !result.success;
    return result;
}

static void tick(struct engine *engine, struct turn *turn)
{
    struct world *world = engine->world;
    for (int j = 0; j < turn->slots; j++) {
        uint32_t effects = slot_tick(&turn->slot[j], &engine->gates, &turn->log[j]);
        world_set_slot(world, turn->env, j, &turn->slot[j]);
        world_effects(world, turn->env, j, effects);
        turn->episode.pruned += (effects & EFFECT_DROPPED) != 0;
    }
    reward_ticked(&world->config.reward, world->config.gamma, turn->slots, turn->slot, &turn->reward_state,
                  turn->reward_slot, &turn->pairs);
}

static void write_row(struct engine *engine, struct turn *turn, int effective_op)
{
    struct world *world = engine->world;
    size_t row = engine_row(engine, turn->env);
    bool last = *world->step + 1 == (uint32_t)world->config.steps;
    bool scripted = world->config.policy.kind != POLICY_PPO;
    bool forced = scripted || mask_is_forced(engine->masks[turn->env].base, turn->slots);
    world->rollout.effective_op[row] = (uint8_t)effective_op;
    world->rollout.flags[row] =
        (uint8_t)(ROW_VALID | (last ? ROW_DONE : 0) | (forced ? ROW_FORCED : 0) |
                  (turn->episode.reset_next ? ROW_RESET : 0)); /* the horizon is part of the task: no bootstrap */
    turn->episode.reset_next = 0;
    turn->episode.last_row = *world->step;
}

/* The sampled op is what the row tells; whether it was done is another column. */
static void describe(struct engine *engine, const struct turn *turn, const struct action_result *result, bool possible)
{
    const struct world *world = turn->world;
    size_t row = engine_row(engine, turn->env);
    const struct step_view view = {.env = turn->env,
                                   .before = turn->before,
                                   .subsets = &turn->subsets,
                                   .result = !possible || !result->allowed ? "void"
                                             : result->success             ? "done"
                                                                           : "refused",
                                   .forced = (world->rollout.flags[row] & ROW_FORCED) != 0,
                                   .components = world->components + (size_t)turn->env * REWARD_COMPONENT_COUNT,
                                   .reward = engine->rewards[turn->env]};
    emit_step(engine, &view);
}

static void take_turn(struct engine *engine, struct turn *turn)
{
    struct world *world = engine->world;
    const struct config *config = &world->config;
    struct reward_env in = reward_inputs(engine, turn);
    struct action action = engine->actions[turn->env];
    double *component = world->components + (size_t)turn->env * REWARD_COMPONENT_COUNT;
    double reward = reward_step(&config->reward, config->gamma, &in, &turn->reward_state, turn->reward_slot, component);
    engine->rewards[turn->env] = reward;
    turn->episode.recent[turn->episode.rewards++ % EPISODE_RECENT] = reward;
    turn->episode.last_reward = reward;
    turn->episode.reward_sum += reward;

    int effective_op = reward_effective_op(&in);
    uint8_t sampled_op = action.op;
    action.op = (uint8_t)effective_op;
    struct action_result result = execute(engine, turn, &action);
    if (effective_op != sampled_op)
        result.success = false;
    reward_executed(&config->reward, config->gamma, &in, &result, &turn->reward_state, turn->reward_slot, &turn->pairs);
    observe_executed(&turn->env_memory, turn->memory, turn->before, turn->slots, sampled_op, result.success);
    write_row(engine, turn, effective_op);
    tick(engine, turn);
    describe(engine, turn, &result, effective_op == sampled_op);
}

static void apply_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    struct turn turn;
    (void)thread;
    turn_load(&turn, engine->world, env);
    engine->executed[env] = turn.episode.panicked == PRUNE_NONE;
    if (engine->executed[env])
        take_turn(engine, &turn);
    else
        roll_back(engine, &turn);
    turn_store(&turn);
    emit_life(engine, env, turn.log, turn.before, turn.slot);
}

void engine_apply(struct engine *engine)
{
    struct world *world = engine->world;
    size_t first = engine_row(engine, 0);
    engine_run(engine, "apply", apply_env);
    if (world->learns && !world->config.evaluate) {
        learner_scale_rewards(&world->learner, world->envs, engine->executed, engine->rewards, engine->scaled);
        for (int env = 0; env < world->envs; env++)
            if (engine->executed[env])
                world->rollout.reward[first + (size_t)env] = engine->scaled[env];
    }
    *world->total_env_steps += (uint64_t)world->envs;
    ++*world->step;
}
