/*
 * The scene of a reward: one env at one step as plain numbers, before the action is executed. The engine and the test
 * vectors each fill it in their own way; the terms of the reward read nothing else.
 *
 * Accuracies and what is derived from them are in points (0 to 100). NAN = not known; comparisons are written so that
 * NAN makes them false.
 */
#ifndef REWARD_SCENE_H
#define REWARD_SCENE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/reward_fields.h"
#include "morph/stage.h"

enum { REWARD_SLOTS = 16 };

/* One slot. Without a live seed only stage, age and contribution can mean anything. */
struct reward_seed {
    bool live;
    bool leaving;    /* its prune has been ordered */
    bool fossilizes; /* it is the target of a FOSSILIZE that the gate will grant */
    int stage, epochs, previous_stage, previous_epochs, age;
    double alpha, params;
    double contribution; /* c: what the network loses without it; NAN unmeasured */
    double gain;         /* K: its share (esper), or what all seeds add (original); NAN unmeasured */
    double improvement;  /* accuracy gained since the stage began */
    double interaction;  /* with all others */
    double birth;        /* accuracy of the network when it germinated; NAN unknown */
    double credit;       /* escrow so far */
    double potential;    /* of the step before */
};

struct reward_scene {
    int slots, target, op; /* op: the one that is credited */
    int step, steps;
    struct reward_seed seed[REWARD_SLOTS];
    double val_accuracy, stable_accuracy;
    double committed_accuracy; /* with the fossils alone; at the last step also with the one that this action makes */
    double committed_params;   /* their parameters */
    double twin_accuracy;      /* gain: of the same host, never grown */
    double price_factor;       /* gain: of the configuration's price */
    double lead, work;         /* gain: the lead that was advanced so far; training work spent on seeds */
    double accuracy_delta;     /* what basic pays at the end */
    double val_loss, loss_delta;
    double host_params, total_params, fossil_params;
    double effective_params; /* those that pay rent; NAN: all that were added */
    double shock;            /* weighted squares of the changes of alpha */
    int active, fossils, contributing;
    double drip_scale[REWARD_SLOTS], drip_left[REWARD_SLOTS], drip_contribution[REWARD_SLOTS]; /* scale 0: none */
};

enum reward_alarm { ALARM_ATTRIBUTION_RATIO = 1u << 0, ALARM_RANSOMWARE = 1u << 1 };

/* What a mode function returns besides the components. */
struct reward_trace {
    double credit[REWARD_SLOTS], potential[REWARD_SLOTS], drip_left[REWARD_SLOTS]; /* to be kept */
    double drip_total, drip_scale; /* the drip that FOSSILIZE offers; NAN: none */
    double lead;                   /* gain: to be kept */
    /* of the target, for display */
    double progress, discount, ratio_penalty, timing, growth_ratio, credit_target, credit_delta;
    uint32_t alarms;
};

ESPER_RULE bool reward_corrected(const struct reward_config *config)
{
    return config->rules == REWARD_RULES_ESPER;
}

ESPER_RULE bool reward_terminal(const struct reward_scene *scene)
{
    return scene->step == scene->steps;
}

ESPER_RULE double reward_clip(double x, double low, double high)
{
    return fmax(low, fmin(high, x));
}

#endif
