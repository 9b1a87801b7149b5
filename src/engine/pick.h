/* decide, second part: every policy's choice of an action, and its row of the rollout. */
#ifndef ENGINE_PICK_H
#define ENGINE_PICK_H

#include "engine/step.h"
#include "policy/uniform.h"

/* What a choice is worked out in; lanes share it. */
union pick_room {
    struct slot_state slot[SHAPE_SLOTS];
    struct decision_work work;
};

/* The network's choice from its logits. Floors are there to explore: an evaluation plays what was learned. */
ESPER_RULE struct action pick_network(const struct step *step, int env, struct decision_work *work, struct lanes lanes)
{
    const struct world *world = step->world;
    const struct policy_config *policy = &world->config.policy;
    struct decision *decision = &step->decisions[env];
    double floor[HEAD_COUNT];
    for (int head = 0; head < HEAD_COUNT; head++)
        floor[head] = world->config.evaluate ? 0.0 : policy->floor[head];
    const struct decision_input in = {&step->masks[env],
                                      world->shape.slots,
                                      floor,
                                      step->logits + (size_t)env * (size_t)world->learner.shape.logits,
                                      world_random(world, STREAM_ACTION, env, *world->step + 1),
                                      policy->greedy,
                                      world->config.evaluate ? policy->temperature : 1.0};
    decision_sample(&in, work, decision, lanes);
    return action_of_heads(decision->choice);
}

/* `slot` is working memory for the slots. */
ESPER_RULE struct action pick_heuristic(const struct step *step, int env, struct slot_state slot[SHAPE_SLOTS])
{
    const struct world *world = step->world;
    struct tracker tracker = tracker_load(&world->tracker, (size_t)env);
    struct heuristic heuristic = heuristic_load(&world->heuristic, (size_t)env);
    world_slots(world, env, slot);
    struct action action = heuristic_decide(&heuristic, &tracker, (int)*world->step + 1, slot, world->shape.slots,
                                            &step->masks[env], &world->growth.rotation);
    heuristic_store(&world->heuristic, (size_t)env, &heuristic);
    return action;
}

/* Envs take turns at the schedules, or each has its lesson. */
ESPER_RULE uint32_t schedule_of(const struct world *world, int env, int count)
{
    return (world->lesson_schedule ? world->lesson_schedule[env] : world_env_number(world, env)) % (uint32_t)count;
}

/* Whether the env follows it, whatever the policy. */
ESPER_RULE bool follows_schedule(const struct world *world, int env)
{
    return world->config.policy.kind == POLICY_SCHEDULE || world_lesson_of(world, env) != LESSON_NONE;
}

/* `slot` is working memory for the slots. */
ESPER_RULE struct action pick_schedule(const struct step *step, int env, struct slot_state slot[SHAPE_SLOTS])
{
    const struct world *world = step->world;
    const struct schedule *schedule = &step->schedules[schedule_of(world, env, step->schedule_count)];
    world_slots(world, env, slot);
    return schedule_decide(schedule, (int)*world->step + 1, slot, world->shape.slots, &step->masks[env]);
}

/* Of every policy but the network, in one lane. */
ESPER_RULE struct action pick_action(const struct step *step, int env, struct slot_state slot[SHAPE_SLOTS])
{
    const struct world *world = step->world;
    struct action wait = {OP_WAIT, 0, 0, 0, 0, 0, 0, 0};
    switch (world->config.policy.kind) {
    case POLICY_HEURISTIC:
        return world->episode.panicked[env] ? wait : pick_heuristic(step, env, slot);
    case POLICY_RANDOM:
        return uniform_decide(&step->masks[env], world->shape.slots, world->config.policy.rate,
                              world_random(world, STREAM_RANDOM_POLICY, env, *world->step + 1));
    case POLICY_SCRIPT:
        return step->script[world_rollout_row(world, env)];
    case POLICY_SCHEDULE:
        return pick_schedule(step, env, slot);
    case POLICY_PPO:
    case POLICY_STATIC:
    case POLICY_REPLAY:
        break;
    }
    return wait;
}

/* Sets the action that the env takes. */
ESPER_RULE void step_set_action(const struct step *step, int env, const struct action *action)
{
    const struct world *world = step->world;
    const size_t row = world_rollout_row(world, env);
    heads_of_action(action, world->rollout.choice + row * HEAD_COUNT);
    world->rollout.mask[row] = mask_of_op(&step->masks[env], world->shape.slots, action->op);
    step->actions[env] = *action;
}

/* The lanes are done with `room` when they return. */
ESPER_RULE void step_pick_env(const struct step *step, int env, union pick_room *room, struct lanes lanes)
{
    const struct world *world = step->world;
    const size_t row = world_rollout_row(world, env);
    struct action action = {OP_WAIT, 0, 0, 0, 0, 0, 0, 0};
    if (world->config.policy.kind == POLICY_PPO)
        action = pick_network(step, env, &room->work, lanes);
    else if (lanes_first(lanes))
        action = pick_action(step, env, room->slot);
    if (world_lesson_of(world, env) != LESSON_NONE) { /* instead, while it learns what others do */
        lanes_meet(lanes);
        if (lanes_first(lanes))
            action = pick_schedule(step, env, room->slot);
    }
    LANES_EACH (head, HEAD_COUNT, lanes)
        world->rollout.logp[row * HEAD_COUNT + (size_t)head] = step->decisions[env].logp[head];
    if (!lanes_first(lanes))
        return;
    step_set_action(step, env, &action);
    world->rollout.value[row] = world->learns ? step->values[env] : 0;
}

#endif
