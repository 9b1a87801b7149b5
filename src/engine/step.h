/*
 * A step as its phases see it: the data passed from one to the next, and the report about it afterwards. All of it is
 * plain arrays over envs, on the CPU or on the device; nothing outlives the step.
 */
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include "engine/orders.h"
#include "policy/distribution.h"
#include "policy/masks.h"
#include "policy/schedule.h"
#include "reward/attribution.h"

enum step_result { STEP_DONE, STEP_REFUSED, STEP_VOID, STEP_ROLLED_BACK };

#define STEP_NOBODY 0u /* of a rollback: no step is to blame */

/*
 * All that is recorded about an env's step, as numbers. Rows are made from this alone, so that they are the same when
 * it comes from the device, a step later.
 */
struct step_report {
    uint32_t env, round, step; /* its number; step from 1 */
    uint8_t result;            /* enum step_result */
    uint8_t forced;            /* no choice */
    struct action action;      /* as sampled */
    struct decision decision;  /* of the network */
    float value;
    double train_loss, train_accuracy, val_loss, val_accuracy;
    double reward, components[REWARD_COMPONENT_COUNT]; /* unless it was rolled back */

    /* a rollback */
    uint8_t reason; /* enum prune_reason; 0: there was none */
    uint32_t seeds_lost;
    uint32_t blamed_step; /* from 1 or STEP_NOBODY */
    double penalty, replaced;

    struct subsets subsets;
    struct shapley_sums shares;            /* sampled at the last step; pairs = 0: not sampled */
    struct slot_grads grads[SHAPE_SLOTS];  /* of the step's last batch, in every stage that trains */
    struct slot_state before[SHAPE_SLOTS]; /* as the decision found them */
    struct slot_state after[SHAPE_SLOTS];  /* at the end of the step */
    struct life_log log[SHAPE_SLOTS];      /* what happened to the seeds */
};

struct step {
    const struct world *world;
    struct gate_rules gates;

    /* from the phases before: train, evaluate, the policy's network */
    const struct slot_grads *grads;    /* [env][slot] of the step's last batch */
    const struct shapley_sums *shares; /* [env] */
    const float *logits, *values;      /* [env][logits], [env] */
    const struct action *script;       /* [step][env of the run]; policy.kind = script */
    const struct schedule *schedules;  /* [schedule_count]; policy.kind = schedule */
    int schedule_count;

    struct masks *masks;         /* [env] */
    struct action *actions;      /* [env] */
    struct decision *decisions;  /* [env] of the network */
    struct env_orders *orders;   /* [env] */
    double *rewards;             /* [env] raw */
    float *scaled;               /* [env] */
    uint8_t *executed;           /* [env] */
    struct step_report *reports; /* [env] */
};

/* What progress is shown of, in a world that is behind. */
ESPER_RULE void world_mirror_report(const struct world *world, int env, const struct step_report *report)
{
    world->val_accuracy[env] = report->val_accuracy;
    world->val_loss[env] = report->val_loss;
    world->train_loss[env] = report->train_loss;
    world->train_accuracy[env] = report->train_accuracy;
    for (int j = 0; j < world->shape.slots; j++)
        world_set_slot(world, env, j, &report->after[j]);
}

/* The gates as configured. */
ESPER_RULE struct gate_rules step_gates(const struct config *config)
{
    struct gate_rules gates;
    gates.permissive = config->gates_permissive;
    gates.auto_g1 = config->auto_g1;
    gates.auto_g2 = config->auto_g2;
    gates.auto_g3 = config->auto_g3;
    return gates;
}

/* A step of the twin: all that is kept of it. */
ESPER_RULE void step_keep_twin(const struct world *world, int env)
{
    world->twin_accuracy[world_rollout_row(world, env)] = world->val_accuracy[env];
}

/*
 * The coalitions whose accuracies yield the seeds' shares in an env's outcome. There are none for up to four
 * seeds: all their subsets are measured.
 */
ESPER_RULE void step_draw_coalitions(const struct world *world, int env, struct shapley_plan *plan)
{
    const uint32_t all = world->subset_all[env];
    plan->count = 0;
    if (attribution_bits(all) > SUBSETS_EXACT)
        shapley_plan_draw(plan, all, world_random(world, STREAM_SHAPLEY, env, *world->step + 1));
}

#endif
