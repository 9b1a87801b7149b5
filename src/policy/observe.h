/*
 * What the policy sees of an env and of each slot (P-05), and the state kept from step to step to compute it.
 * Logarithms are taken in f64 and every number is rounded once.
 */
#ifndef POLICY_OBSERVE_H
#define POLICY_OBSERVE_H

#include "base/lanes.h"
#include "morph/alpha.h"
#include "policy/tracker.h"

/*
 * The numbers in their order, COLUMN(name, how many, NORMALISED where the running normaliser scales them: the unbounded
 * ones (P-07); AS_IS pass unchanged). Order and number are part of every saved policy.
 */
#define OBSERVE_ENV_COLUMNS(COLUMN)                                                                                    \
    COLUMN(TIME, 1, AS_IS) /* share of the episode that is over */                                                     \
    COLUMN(VAL_LOSS, 1, NORMALISED)                                                                                    \
    COLUMN(VAL_ACCURACY, 1, AS_IS)                                                                                     \
    COLUMN(LOSSES, TRACKER_HISTORY, NORMALISED) /* validation, oldest first */                                         \
    COLUMN(ACCURACIES, TRACKER_HISTORY, AS_IS)                                                                         \
    COLUMN(TRAINING, 1, AS_IS) /* share of the slots in that stage */                                                  \
    COLUMN(BLENDING, 1, AS_IS)                                                                                         \
    COLUMN(BLENDED, 1, AS_IS) /* HOLDING or FOSSILIZED */                                                              \
    COLUMN(LAST_SUCCESS, 1, AS_IS)                                                                                     \
    COLUMN(LAST_OP, OP_COUNT, AS_IS) /* one-hot */                                                                     \
    COLUMN(TRAIN_LOSS, 1, NORMALISED)                                                                                  \
    COLUMN(TRAIN_ACCURACY, 1, AS_IS)                                                                                   \
    COLUMN(LEAD, 1, AS_IS) /* over the twin */                                                                         \
    COLUMN(PRICE, 1, AS_IS)                                                                                            \
    COLUMN(FLOP_PRICE, 1, AS_IS)                                                                                       \
    COLUMN(WORK, 1, AS_IS)

#define OBSERVE_SLOT_COLUMNS(COLUMN)                                                                                   \
    COLUMN(SLOT_OCCUPIED, 1, AS_IS)                                                                                    \
    COLUMN(SLOT_STAGE, STAGE_LIMIT - 1, AS_IS) /* one-hot: the wire values without the retired one */                  \
    COLUMN(SLOT_ALPHA, 1, AS_IS)                                                                                       \
    COLUMN(SLOT_CONTRIBUTION, 1, NORMALISED)                                                                           \
    COLUMN(SLOT_VELOCITY, 1, NORMALISED) /* of the contribution */                                                     \
    COLUMN(SLOT_TEMPO, 1, AS_IS)                                                                                       \
    COLUMN(SLOT_ALPHA_TARGET, 1, AS_IS)                                                                                \
    COLUMN(SLOT_ALPHA_MODE, 1, AS_IS)                                                                                  \
    COLUMN(SLOT_RAMP_STEPS, 1, AS_IS)                                                                                  \
    COLUMN(SLOT_RAMP_DONE, 1, AS_IS)                                                                                   \
    COLUMN(SLOT_RAMP_LEFT, 1, AS_IS)                                                                                   \
    COLUMN(SLOT_ALPHA_VELOCITY, 1, AS_IS)                                                                              \
    COLUMN(SLOT_ALGORITHM, 1, AS_IS)                                                                                   \
    COLUMN(SLOT_INTERACTION, 1, NORMALISED)                                                                            \
    COLUMN(SLOT_GRAD_NORM, 1, NORMALISED)                                                                              \
    COLUMN(SLOT_GRAD_HEALTH, 1, AS_IS)                                                                                 \
    COLUMN(SLOT_VANISHING, 1, AS_IS)                                                                                   \
    COLUMN(SLOT_EXPLODING, 1, AS_IS)                                                                                   \
    COLUMN(SLOT_HEALTH_BEFORE, 1, AS_IS) /* of the gradient, at the step before */                                     \
    COLUMN(SLOT_STAGE_AGE, 1, AS_IS)                                                                                   \
    COLUMN(SLOT_FRESHNESS, 1, AS_IS) /* of the contribution */                                                         \
    COLUMN(SLOT_AGE, 1, AS_IS)

#define OBSERVE_PLACE(name, count, scaling) OBSERVE_##name, OBSERVE_##name##_LAST = OBSERVE_##name + (count)-1,
enum { OBSERVE_ENV_COLUMNS(OBSERVE_PLACE) OBSERVE_BASE };
enum { OBSERVE_SLOT_COLUMNS(OBSERVE_PLACE) OBSERVE_SLOT };
#undef OBSERVE_PLACE

#define OBSERVE_UNKNOWN    (-1.0f) /* a history, health or age that does not exist yet; never a measured value */
#define OBSERVE_LOG_SCALE  7.0
#define OBSERVE_BAD_LOSS   1e3   /* shown for a loss that is not finite (P-08); the governor acts on it */
#define OBSERVE_FADE       0.995 /* of a contribution's freshness, per step */
#define OBSERVE_POINTS     10.0  /* percentage points that count as 1 */
#define OBSERVE_PRICE_UNIT 0.1   /* points: higher prices are shown on a logarithmic scale */
#define OBSERVE_TEMPO      12.0

ESPER_RULE int observe_size(int slots)
{
    return OBSERVE_BASE + OBSERVE_SLOT * slots;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

#define SLOT_MEMORY_FIELDS(FIELD)                                                                                      \
    FIELD(double, health_prev) /* gradient health of the step before, once known */                                    \
    FIELD(uint32_t, cf_age)    /* steps since the contribution was measured, once known */                             \
    FIELD(uint8_t, health_known)                                                                                       \
    FIELD(uint8_t, cf_known)

#define ENV_MEMORY_FIELDS(FIELD)                                                                                       \
    FIELD(uint8_t, last_op)                                                                                            \
    FIELD(uint8_t, last_success)

#define MEMORY_MEMBER(type, name) type name;
struct slot_memory {
    SLOT_MEMORY_FIELDS(MEMORY_MEMBER)
};
struct env_memory {
    ENV_MEMORY_FIELDS(MEMORY_MEMBER)
};
#undef MEMORY_MEMBER

ESPER_RULE void slot_memory_clear(struct slot_memory *memory)
{
#define MEMORY_ZERO(type, name) memory->name = 0;
    SLOT_MEMORY_FIELDS(MEMORY_ZERO)
#undef MEMORY_ZERO
}

/* The start of an episode. */
ESPER_RULE void env_memory_clear(struct env_memory *memory)
{
    memory->last_op = OP_WAIT;
    memory->last_success = 1;
}

/* Before the features of a step: whether this step measured the slot's contribution. */
ESPER_RULE void observe_measured(struct slot_memory *memory, bool measured)
{
    if (measured) {
        memory->cf_age = 0;
        memory->cf_known = 1;
    }
}

/* After an action was executed. `slot` holds the slots as they were before it, so the memory of an empty slot is
   cleared here at the latest, whether it has just been freed or is being germinated. An age that was never measured
   stays unknown (P-06).
 */
ESPER_RULE void observe_executed(struct env_memory *env, struct slot_memory *memory, const struct slot_state *slot,
                                 int slots, int op, bool success)
{
    env->last_op = (uint8_t)op;
    env->last_success = success;
    for (int s = 0; s < slots; s++) {
        if (slot[s].stage == STAGE_DORMANT) {
            slot_memory_clear(&memory[s]);
            continue;
        }
        if (slot_has(&slot[s], SLOT_GRAD_MEASURED)) {
            memory[s].health_prev = slot[s].grad_health;
            memory[s].health_known = 1;
        }
        memory[s].cf_age += memory[s].cf_known;
    }
}

/* Called instead when the env was rolled back: the sampled action was never executed. */
ESPER_RULE void observe_rolled_back(struct env_memory *env)
{
    env->last_op = OP_WAIT;
    env->last_success = 0;
}

/* ---- features -------------------------------------------------------------------------------------------------- */

struct observe_env {
    int step, steps; /* from 1; of an episode */
    double train_loss, train_accuracy, val_loss, val_accuracy;
    double lead;                   /* over the twin, points; 0 where there is none */
    double price, flop_price;      /* of the objective */
    double work;                   /* training work spent on seeds before this step */
    const struct tracker *tracker; /* already updated by this step */
    const struct env_memory *memory;
};

ESPER_RULE float observe_symlog(double value)
{
    return (float)(copysign(log1p(fabs(value)), value) / OBSERVE_LOG_SCALE);
}

ESPER_RULE float observe_loss(double loss)
{
    return observe_symlog(isfinite(loss) ? loss : OBSERVE_BAD_LOSS);
}

ESPER_RULE float observe_clamp(double value)
{
    return (float)fmin(fmax(value, -1.0), 1.0);
}

/* Percentage points, however many: a seed that brings thirty must not look like one that brings ten. */
ESPER_RULE float observe_points(double points)
{
    return (float)asinh(points / OBSERVE_POINTS);
}

/* A price as points. What suits one of 0.1 does not suit one of 0.3, nor what suits 10 one of 30: a policy must see the
 * one difference as well as the other. */
ESPER_RULE double observe_price(double price)
{
    return price * (OBSERVE_POINTS / OBSERVE_PRICE_UNIT);
}

/* A number of steps as a fraction of the episode. */
ESPER_RULE float observe_time(uint32_t count, int steps)
{
    return count >= (uint32_t)steps ? 1.0f : (float)((double)count / steps);
}

/* Position of a stage in its one-hot code. */
ESPER_RULE int observe_stage(int stage)
{
    return stage > STAGE_BLENDING ? stage - 1 : stage;
}

/* The env's numbers, except those that take a logarithm. */
ESPER_RULE void observe_base(const struct observe_env *env, const struct slot_state *slot, int slots, float *obs)
{
    int training = 0, blending = 0, blended = 0;
    for (int s = 0; s < slots; s++) {
        training += slot[s].stage == STAGE_TRAINING;
        blending += slot[s].stage == STAGE_BLENDING;
        blended += slot[s].stage == STAGE_HOLDING || slot[s].stage == STAGE_FOSSILIZED;
    }
    obs[OBSERVE_TIME] = observe_time((uint32_t)env->step, env->steps);
    obs[OBSERVE_VAL_ACCURACY] = (float)(env->val_accuracy / 100.0);
    for (uint32_t i = 0; i < TRACKER_HISTORY; i++) { /* oldest first */
        uint32_t back = TRACKER_HISTORY - 1u - i;
        bool known = back < env->tracker->count;
        obs[OBSERVE_ACCURACIES + i] = known ? (float)(tracker_accuracy(env->tracker, back) / 100.0) : OBSERVE_UNKNOWN;
    }
    obs[OBSERVE_TRAINING] = (float)((double)training / slots);
    obs[OBSERVE_BLENDING] = (float)((double)blending / slots);
    obs[OBSERVE_BLENDED] = (float)((double)blended / slots);
    obs[OBSERVE_LAST_SUCCESS] = env->memory->last_success ? 1.0f : 0.0f;
    for (int op = 0; op < OP_COUNT; op++)
        obs[OBSERVE_LAST_OP + op] = op == env->memory->last_op ? 1.0f : 0.0f;
    obs[OBSERVE_TRAIN_ACCURACY] = (float)(env->train_accuracy / 100.0);
}

/* The alpha controller. A ramp that is over has no time left (D-14). */
ESPER_RULE void observe_ramp(const struct slot_state *slot, int steps, float *obs)
{
    bool moving = slot->alpha_mode != ALPHA_HOLD && slot->steps_total > 0;
    bool ahead = moving && slot->steps_done < slot->steps_total;
    obs[OBSERVE_SLOT_ALPHA_TARGET] = slot->alpha_target;
    obs[OBSERVE_SLOT_ALPHA_MODE] = (float)slot->alpha_mode / 2.0f;
    obs[OBSERVE_SLOT_RAMP_STEPS] = observe_time(slot->steps_total, steps);
    obs[OBSERVE_SLOT_RAMP_DONE] = observe_time(slot->steps_done, steps);
    obs[OBSERVE_SLOT_RAMP_LEFT] = observe_time(ahead ? alpha_time_to_target(slot) : 0, steps);
    obs[OBSERVE_SLOT_ALPHA_VELOCITY] = moving ? observe_clamp((double)alpha_velocity(slot)) : 0.0f;
}

/* A slot's numbers, likewise; zero where nothing is said. */
ESPER_RULE void observe_slot(const struct slot_state *slot, const struct slot_memory *memory, int steps, float *obs)
{
    for (int i = 0; i < OBSERVE_SLOT; i++)
        obs[i] = 0.0f;
    if (slot->stage == STAGE_DORMANT)
        return;
    obs[OBSERVE_SLOT_OCCUPIED] = 1.0f;
    obs[OBSERVE_SLOT_STAGE + observe_stage(slot->stage)] = 1.0f;
    obs[OBSERVE_SLOT_ALPHA] = slot->alpha;
    obs[OBSERVE_SLOT_TEMPO] = (float)(slot->tempo / OBSERVE_TEMPO);
    observe_ramp(slot, steps, obs);
    obs[OBSERVE_SLOT_ALGORITHM] = (float)(slot->algorithm - ALGORITHM_ADD) / 2.0f;
    if (slot_has(slot, SLOT_GRAD_MEASURED)) {
        obs[OBSERVE_SLOT_GRAD_HEALTH] = observe_clamp(slot->grad_health);
        obs[OBSERVE_SLOT_VANISHING] = slot_has(slot, SLOT_VANISHING) ? 1.0f : 0.0f;
        obs[OBSERVE_SLOT_EXPLODING] = slot_has(slot, SLOT_EXPLODING) ? 1.0f : 0.0f;
    }
    obs[OBSERVE_SLOT_HEALTH_BEFORE] = memory->health_known ? (float)memory->health_prev : OBSERVE_UNKNOWN;
    obs[OBSERVE_SLOT_STAGE_AGE] = observe_time(slot->epochs_in_stage, steps);
    obs[OBSERVE_SLOT_FRESHNESS] = memory->cf_known ? (float)pow(OBSERVE_FADE, (double)memory->cf_age) : OBSERVE_UNKNOWN;
    obs[OBSERVE_SLOT_AGE] = observe_time(slot->epochs_total, steps);
}

/* Logarithms take most of the time of an observation, so that each has a lane: first of losses and gradients. */
ESPER_RULE void observe_logs(const struct observe_env *env, const struct slot_state *slot, int slots, float *obs,
                             struct lanes lanes)
{
    enum { VAL, TRAIN, HISTORY, LOSSES = HISTORY + TRACKER_HISTORY };
    LANES_EACH (i, LOSSES + slots, lanes) {
        const int s = i - LOSSES;
        if (s >= 0) {
            if (slot[s].stage != STAGE_DORMANT && slot_has(&slot[s], SLOT_GRAD_MEASURED)) /* 0 if it was not finite */
                obs[OBSERVE_BASE + OBSERVE_SLOT * s + OBSERVE_SLOT_GRAD_NORM] = observe_symlog(slot[s].grad_norm);
            continue;
        }
        const uint32_t back = (uint32_t)(LOSSES - 1 - i); /* oldest first */
        const bool known = i < HISTORY || back < env->tracker->count;
        const double loss = i == VAL     ? env->val_loss
                            : i == TRAIN ? env->train_loss
                            : known      ? tracker_loss(env->tracker, back)
                                         : 0.0;
        obs[i == VAL     ? (int)OBSERVE_VAL_LOSS
            : i == TRAIN ? (int)OBSERVE_TRAIN_LOSS
                         : OBSERVE_LOSSES + i - HISTORY] = known ? observe_loss(loss) : OBSERVE_UNKNOWN;
    }
}

/* Then of points: the env's, and three of each slot. */
ESPER_RULE void observe_all_points(const struct observe_env *env, const struct slot_state *slot, int slots, float *obs,
                                   struct lanes lanes)
{
    enum { ENV = 4, EACH = 3 };
    LANES_EACH (i, ENV + EACH * slots, lanes) {
        const int s = (i - ENV) / EACH, kind = i < ENV ? i : ENV + (i - ENV) % EACH;
        if (i >= ENV && (slot[s].stage == STAGE_DORMANT || (kind == ENV && !slot_has(&slot[s], SLOT_CF_MEASURED))))
            continue;
        /* the velocity is 0 before the second measurement (D-13) */
        const double points = kind == 0   ? env->lead
                              : kind == 1 ? observe_price(env->price)
                              : kind == 2 ? observe_price(env->flop_price)
                              : kind == 3 ? env->work
                              : kind == 4 ? slot[s].contribution
                              : kind == 5 ? slot[s].contribution_velocity
                                          : slot[s].interaction_sum;
        const int columns[ENV + EACH] = {
            OBSERVE_LEAD,          OBSERVE_PRICE,           OBSERVE_FLOP_PRICE, OBSERVE_WORK, OBSERVE_SLOT_CONTRIBUTION,
            OBSERVE_SLOT_VELOCITY, OBSERVE_SLOT_INTERACTION};
        obs[columns[kind] + (i < ENV ? 0 : OBSERVE_BASE + OBSERVE_SLOT * s)] = observe_points(points);
    }
}

/* obs: observe_size(slots) numbers; bp: the blueprint of each slot, -1 where it is empty. The lanes meet once. */
ESPER_RULE void observe_by(const struct observe_env *env, const struct slot_state *slot,
                           const struct slot_memory *memory, int slots, float *obs, int8_t *bp, struct lanes lanes)
{
    if (lanes.lane == lanes.count - 1) /* not one of the first, which have slots */
        observe_base(env, slot, slots, obs);
    LANES_EACH (s, slots, lanes) {
        observe_slot(&slot[s], &memory[s], env->steps, obs + OBSERVE_BASE + OBSERVE_SLOT * s);
        bp[s] = (int8_t)(slot[s].stage == STAGE_DORMANT ? -1 : slot[s].blueprint);
    }
    lanes_meet(lanes);
    observe_logs(env, slot, slots, obs, lanes);
    observe_all_points(env, slot, slots, obs, lanes);
}

ESPER_RULE void observe(const struct observe_env *env, const struct slot_state *slot, const struct slot_memory *memory,
                        int slots, float *obs, int8_t *bp)
{
    observe_by(env, slot, memory, slots, obs, bp, lanes_alone());
}

ESPER_RULE bool observe_normalised(int column)
{
    enum { AS_IS, NORMALISED };
    const int place = column < OBSERVE_BASE ? column : (column - OBSERVE_BASE) % OBSERVE_SLOT;
#define OBSERVE_IS(name, count, scaling) || (scaling && place >= OBSERVE_##name && place <= OBSERVE_##name##_LAST)
    return column < OBSERVE_BASE ? false OBSERVE_ENV_COLUMNS(OBSERVE_IS) : false OBSERVE_SLOT_COLUMNS(OBSERVE_IS);
#undef OBSERVE_IS
}

#endif
