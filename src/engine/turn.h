/* apply: reward from the state before the action, execution and tick - or the governor's rollback; then the rollout's
 * row. */
#ifndef ENGINE_TURN_H
#define ENGINE_TURN_H

#include "engine/step.h"
#include "learn/normalise.h"

/* A turn: one env's action within a step. This is all that the rules keep about the env meanwhile, and what its lanes
 * share; its slots are in the report. */
struct turn {
    const struct step *step;
    const struct world *world;
    int env, slots;
    struct step_report *report;
    struct env_orders *orders;
    struct slot_memory memory[SHAPE_SLOTS];
    struct env_memory env_memory;
    struct tracker tracker;
    struct reward_state reward_state;
    struct reward_slot reward_slot[SHAPE_SLOTS];
    struct reward_pairs pairs;
    struct reward_scene scene;
    struct reward_trace trace;
    struct episode episode;
    uint32_t effects[SHAPE_SLOTS]; /* of the slots' tick */
};

/* Ready once the lanes have met. */
ESPER_RULE void turn_load(struct turn *turn, const struct step *step, int env, struct lanes lanes)
{
    const struct world *world = step->world;
    const size_t row = (size_t)env;
    struct step_report *report = &step->reports[env];
    LANES_EACH (j, world->shape.slots, lanes) {
        report->before[j] = report->after[j] = world_slot(world, env, j);
        report->log[j].count = 0;
        report->grads[j] = step->grads[world_slot_row(world, env, j)];
        turn->memory[j] = slot_memory_load(&world->slot_memory, world_slot_row(world, env, j));
        turn->reward_slot[j] = reward_slot_load(&world->reward_slot, world_slot_row(world, env, j));
    }
    world_pairs(world, env, &turn->pairs, lanes);
    world_subsets_by(world, env, &report->subsets, lanes);
    if (!lanes_first(lanes))
        return;
    turn->step = step;
    turn->world = world;
    turn->env = env;
    turn->slots = world->shape.slots;
    turn->report = report;
    turn->orders = &step->orders[env];
    turn->env_memory = env_memory_load(&world->env_memory, row);
    turn->tracker = tracker_load(&world->tracker, row);
    turn->reward_state = reward_state_load(&world->reward_state, row);
    turn->episode = episode_load(&world->episode, row);
}

ESPER_RULE void turn_store(const struct turn *turn, struct lanes lanes)
{
    const struct world *world = turn->world;
    const size_t row = (size_t)turn->env;
    LANES_EACH (j, turn->slots, lanes) {
        world_set_slot(world, turn->env, j, &turn->report->after[j]);
        slot_memory_store(&world->slot_memory, world_slot_row(world, turn->env, j), &turn->memory[j]);
        reward_slot_store(&world->reward_slot, world_slot_row(world, turn->env, j), &turn->reward_slot[j]);
    }
    world_set_pairs(world, turn->env, &turn->pairs, lanes);
    if (!lanes_first(lanes))
        return;
    env_memory_store(&world->env_memory, row, &turn->env_memory);
    reward_state_store(&world->reward_state, row, &turn->reward_state);
    episode_store(&world->episode, row, &turn->episode);
}

/* Fills the report with the step's state before anything is done. */
ESPER_RULE void turn_describe(struct turn *turn)
{
    const struct step *step = turn->step;
    const struct world *world = turn->world;
    const int env = turn->env;
    struct step_report *report = turn->report;
    report->env = world_env_number(world, env);
    report->round = *world->round;
    report->step = *world->step + 1;
    report->result = STEP_ROLLED_BACK;
    report->forced = 0;
    report->action = step->actions[env];
    report->decision = step->decisions[env];
    report->value = world->learns ? step->values[env] : 0;
    report->train_loss = world->train_loss[env];
    report->train_accuracy = world->train_accuracy[env];
    report->val_loss = world->val_loss[env];
    report->val_accuracy = world->val_accuracy[env];
    report->reward = 0;
    report->reason = turn->episode.panicked;
    report->seeds_lost = 0;
    report->blamed_step = STEP_NOBODY;
    report->penalty = report->replaced = 0;
    report->shares.pairs = 0;
    if (step->shares[env].pairs > 0)
        report->shares = step->shares[env];
}

/* ---- rollback ---------------------------------------------------------------------------------------------------- */

/* The last executed row pays: its reward becomes the penalty and its segment ends there. Earlier rewards stay. */
ESPER_RULE void turn_blame_last_row(struct turn *turn)
{
    const struct world *world = turn->world;
    struct episode *episode = &turn->episode;
    const double penalty = -fmin(world->config.governor.penalty, NORMALISE_CLIP);
    if (episode->last_row == EPISODE_NO_ROW) { /* nothing was done yet: no step to blame */
        episode->unattributed++;
        return;
    }
    const size_t row = world_round_row(world, episode->last_row, turn->env);
    turn->report->blamed_step = episode->last_row + 1;
    turn->report->penalty = penalty;
    turn->report->replaced = episode->last_reward;
    world->rollout.reward[row] = (float)penalty;
    world->rollout.flags[row] |= ROW_DONE;
    if (world->config.reward.mode == REWARD_GAIN) /* the sum of an episode is J; the learner alone sees this */
        return;
    episode->reward_sum += penalty - episode->last_reward;
    episode->recent[(episode->rewards - 1) % EPISODE_RECENT] = penalty;
    episode->last_reward = penalty;
}

ESPER_RULE void turn_roll_back(struct turn *turn)
{
    const struct world *world = turn->world;
    struct step_report *report = turn->report;
    for (int j = 0; j < turn->slots; j++)
        report->seeds_lost += stage_may_follow(report->after[j].stage, STAGE_PRUNED) ? 1u : 0u;
    turn_blame_last_row(turn);
    orders_rollback(world, turn->env, turn->episode.panicked, report->log, turn->orders);
    world_slots(world, turn->env, report->after);
    reward_ticked(&world->config.reward, world->config.gamma, turn->slots, report->after, &turn->reward_state,
                  turn->reward_slot, &turn->pairs);
    world_forget_recurrent(world, turn->env);
    observe_rolled_back(&turn->env_memory);
    turn->episode.last_row = EPISODE_NO_ROW; /* the segment is closed: a second panic has no row to blame */
    turn->episode.reset_next = 1;
    turn->episode.rollbacks++;
    turn->episode.pruned += report->seeds_lost;
}

/* ---- an ordinary step -------------------------------------------------------------------------------------------- */

ESPER_RULE struct reward_env turn_reward_inputs(const struct turn *turn)
{
    const struct world *world = turn->world;
    const struct config *config = &world->config;
    struct reward_env in;
    in.slots = turn->slots;
    in.step = (int)*world->step + 1;
    in.steps = config->steps;
    in.action = turn->report->action;
    if (world_last_step(world) && in.action.op != OP_FOSSILIZE) /* a script's: masks forbid it (E-19) */
        in.action.op = OP_WAIT;
    in.slot = turn->report->before;
    in.subsets = &turn->report->subsets;
    in.val_loss = world->val_loss[turn->env];
    in.previous_loss = tracker_previous_loss(&turn->tracker);
    in.val_accuracy = world->val_accuracy[turn->env];
    in.previous_accuracy = tracker_previous_accuracy(&turn->tracker);
    in.first_accuracy = turn->tracker.first_accuracy;
    in.stable_accuracy = tracker_stable_accuracy(&turn->tracker, (uint32_t)config->reward.escrow_stable_window);
    in.twin_accuracy = world_twin_accuracy(world, turn->env);
    in.price_factor = world_price_factor(world, turn->env);
    in.step_work = world_step_work(world, turn->report->before);
    in.host_params = (uint32_t)world->shape.host.params;
    in.gates = turn->step->gates;
    return in;
}

/* The seeds have been looked at. */
ESPER_RULE void turn_reward(struct turn *turn, const struct reward_env *in)
{
    const struct world *world = turn->world;
    const struct config *config = &world->config;
    double *component = world->components + (size_t)turn->env * REWARD_COMPONENT_COUNT;
    reward_look_env(&config->reward, in, &turn->scene);
    double reward = reward_settle(&config->reward, config->gamma, &turn->scene, &turn->reward_state, turn->reward_slot,
                                  component, &turn->trace);
    turn->step->rewards[turn->env] = turn->report->reward = reward;
    turn->episode.recent[turn->episode.rewards++ % EPISODE_RECENT] = reward;
    turn->episode.last_reward = reward;
    turn->episode.reward_sum += reward;
}

/* The rows change at once; what an effect requests for the parameters becomes an order. */
ESPER_RULE void turn_set_slot(struct turn *turn, int slot, uint32_t effects)
{
    world_set_slot(turn->world, turn->env, slot, &turn->report->after[slot]);
    orders_effects(turn->world, turn->env, slot, effects, turn->orders);
    turn->episode.pruned += (effects & EFFECT_DROPPED) != 0;
}

ESPER_RULE struct action_result turn_execute(struct turn *turn, const struct action *action)
{
    struct action_result result = {true, true, 0};
    struct seed_size size = {0, 0};
    if (action->op == OP_WAIT)
        return result;
    if (action->op == OP_GERMINATE)
        size = world_seed_size(turn->world, action->slot, action->blueprint);
    result = action_apply(&turn->report->after[action->slot], action, &turn->step->gates, size,
                          &turn->report->log[action->slot]);
    turn_set_slot(turn, action->slot, result.effects);
    turn->episode.germinated += action->op == OP_GERMINATE && result.success;
    turn->episode.fossilized += action->op == OP_FOSSILIZE && result.success;
    turn->episode.refused += result.allowed && !result.success;
    return result;
}

/* A slot's tick makes no fossil, so that it asks for no snapshot, which would be one of all slots. */
ESPER_RULE void turn_tick_slots(struct turn *turn, struct lanes lanes)
{
    const bool moves = !world_last_step(turn->world); /* after the last validation nothing does */
    struct step_report *report = turn->report;
    LANES_EACH (j, turn->slots, lanes) {
        turn->effects[j] = moves ? slot_tick(&report->after[j], &turn->step->gates, &report->log[j]) : 0;
        ESPER_ASSERT(!(turn->effects[j] & EFFECT_SNAPSHOT));
        turn->orders->slot[j] |= turn->effects[j];
    }
}

/* What follows from it for the env, in one lane. */
ESPER_RULE void turn_ticked(struct turn *turn)
{
    const struct world *world = turn->world;
    struct step_report *report = turn->report;
    for (int j = 0; j < turn->slots; j++)
        turn->episode.pruned += (turn->effects[j] & EFFECT_DROPPED) != 0;
    reward_ticked(&world->config.reward, world->config.gamma, turn->slots, report->after, &turn->reward_state,
                  turn->reward_slot, &turn->pairs);
}

ESPER_RULE void turn_write_row(struct turn *turn, int effective_op)
{
    const struct world *world = turn->world;
    const size_t row = world_rollout_row(world, turn->env);
    const enum lesson lesson = world_lesson_of(world, turn->env);
    const bool scripted = world->config.policy.kind != POLICY_PPO || lesson == LESSON_TRY;
    const bool forced = scripted || mask_is_forced(turn->step->masks[turn->env].base, turn->slots);
    world->rollout.effective_op[row] = (uint8_t)effective_op;
    world->rollout.flags[row] =
        (uint8_t)(ROW_VALID | (world_last_step(world) ? ROW_DONE : 0) | (forced ? ROW_FORCED : 0) |
                  (turn->episode.reset_next ? ROW_RESET : 0) |
                  (lesson != LESSON_NONE ? ROW_SHOWN : 0)); /* the horizon is part of the task: no bootstrap */
    turn->report->forced = forced;
    turn->episode.reset_next = 0;
    turn->episode.last_row = *world->step;
}

/* Reward and action, in one lane. The row holds the sampled op; another column says whether it was executed. */
ESPER_RULE void turn_act(struct turn *turn, const struct reward_env *in)
{
    const struct config *config = &turn->world->config;
    struct step_report *report = turn->report;
    struct action action = report->action;
    turn_reward(turn, in);

    const int effective_op = reward_effective_op(in);
    const bool possible = effective_op == action.op;
    const uint8_t sampled_op = action.op;
    action.op = (uint8_t)effective_op;
    struct action_result result = turn_execute(turn, &action);
    if (!possible)
        result.success = false;
    reward_executed(&config->reward, config->gamma, in, &result, &turn->reward_state, turn->reward_slot, &turn->pairs);
    observe_executed(&turn->env_memory, turn->memory, report->before, turn->slots, sampled_op, result.success);
    turn_write_row(turn, effective_op);
    report->result = (uint8_t)(!possible || !result.allowed ? STEP_VOID : result.success ? STEP_DONE : STEP_REFUSED);
}

ESPER_RULE void turn_take(struct turn *turn, struct lanes lanes)
{
    const double *component = turn->world->components + (size_t)turn->env * REWARD_COMPONENT_COUNT;
    const struct reward_env in = turn_reward_inputs(turn);
    reward_look_seeds(&turn->world->config.reward, &in, &turn->scene, lanes);
    lanes_meet(lanes);
    if (lanes_first(lanes))
        turn_act(turn, &in);
    lanes_meet(lanes);
    LANES_EACH (i, REWARD_COMPONENT_COUNT, lanes)
        turn->report->components[i] = component[i];
    turn_tick_slots(turn, lanes);
    lanes_meet(lanes);
    if (lanes_first(lanes))
        turn_ticked(turn);
}

/* The whole turn; `turn` is working memory that the env's lanes share. Its orders are executed later. */
ESPER_RULE void step_apply_env(const struct step *step, int env, struct turn *turn, struct lanes lanes)
{
    turn_load(turn, step, env, lanes);
    lanes_meet(lanes);
    const bool executed = turn->episode.panicked == PRUNE_NONE;
    if (lanes_first(lanes)) {
        turn_describe(turn);
        step->executed[env] = executed;
    }
    lanes_meet(lanes);
    if (executed)
        turn_take(turn, lanes);
    else if (lanes_first(lanes))
        turn_roll_back(turn);
    lanes_meet(lanes);
    turn_store(turn, lanes);
}

/* ---- all envs ---------------------------------------------------------------------------------------------------- */

/* Where a network learns, the step's rewards are scaled with statistics that include them. */
ESPER_RULE bool step_scales(const struct world *world)
{
    return world->learns && !world->config.evaluate;
}

/* Where other processes play some of the run's envs, their rewards are not known yet: kept until they are. */
ESPER_RULE void step_keep_reward(const struct step *step, int env)
{
    if (step->executed[env])
        step->world->earned[world_rollout_row(step->world, env)] = step->rewards[env];
}

/*
 * What the learner is paid: at the end of an episode relative to what the others of the group earned (L-23). Their
 * births are the env's own and their actions are not, so this takes the luck of birth out of the gradient and nothing
 * else. `env` is its number, `sums` what the episodes of all envs of the run earned.
 */
ESPER_RULE float step_learned_reward(const struct world *world, const double *sums, int env, float scaled)
{
    const struct learner *learner = &world->learner;
    const int envs = world->config.envs, group = world->config.group;
    const int first = (int)births_group(world->births, (uint32_t)env);
    const int last = first + group < envs ? first + group : envs; /* the last group may be smaller */
    struct moments moments = {*learner->reward_count, *learner->reward_mean, *learner->reward_m2};
    double others = 0;
    if (last - first < 2)
        return scaled;
    for (int i = first; i < last; i++)
        others += i == env ? 0.0 : sums[i] / (last - first - 1);
    return (float)((double)scaled - others / reward_scale(moments));
}

/* The end of a step; one thread, after all envs. */
ESPER_RULE void step_count(const struct world *world)
{
    *world->total_env_steps += (uint64_t)world->config.envs;
    ++*world->step;
}

#endif
