/* A learner in a world of noise: random observations, legal ops and rewards, for what an update must do whatever it is
 * given. */
#ifndef TESTS_TESTING_NOISE_H
#define TESTS_TESTING_NOISE_H

#include "testing_learner.h"

enum { ENVS = 5, STEPS = 12, OBS = 7, SLOTS = 3, WIDTH = 16 };

/* ---- a world of noise: random observations, legal ops and rewards ------------------------------------------------ */

static inline void noise_reset(struct world *world, int env, int step)
{
    (void)world, (void)env, (void)step;
}

static inline void noise_observe(const struct world *world, int env, int step, float *raw)
{
    for (uint32_t k = 0; k < OBS; k++)
        raw[k] = (float)(3 * world_unit(world, env, step, k) - 1);
}

static inline struct masks noise_masks(const struct world *world, int env, int step)
{
    return masks_with_ops(SLOTS, 1u | world_word(world, env, step, 20) % 32);
}

static inline double noise_act(struct world *world, int env, int step, const uint8_t choice[HEAD_COUNT], bool *over)
{
    (void)over;
    return world_unit(world, env, step, 21) + 0.3 * choice[HEAD_OP] - 0.1 * choice[HEAD_SLOT];
}

static inline struct world noise(uint64_t seed)
{
    return (struct world){
        .seed = seed, .reset = noise_reset, .observe = noise_observe, .masks = noise_masks, .act = noise_act};
}

static inline void start(struct rig *rig)
{
    rig_configure(rig, ENVS, STEPS, WIDTH);
    rig_start(rig, OBS, SLOTS, 42);
}

static inline void update(struct rig *rig)
{
    learner_update(&rig->learner, NULL, &rig->rollout, 0, &rig->record, rig->heads);
}

static inline void play_one_round(struct rig *rig)
{
    struct world world = noise(9);
    start(rig);
    rig_play(rig, &world);
}

static inline uint64_t state_hash(const struct rig *rig)
{
    return table_hash(&rig->table);
}

static inline uint64_t weights_hash(const struct rig *rig)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < rig->learner.shape.storage; i++) {
        uint32_t bits;
        memcpy(&bits, &rig->learner.w[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001B3u;
    }
    return hash;
}

static inline double norm_of(const struct rig *rig, const float *x, int part) /* part -1: all */
{
    double square = 0;
    for (int k = 0; k < rig->learner.shape.count; k++) {
        const struct policy_tensor *tensor = &rig->learner.shape.tensor[k];
        if (part < 0 || rig->learner.shape.part[k] == part)
            square +=
                rig->learner.kernels->square_norm((size_t)tensor->rows * (size_t)tensor->columns, x + tensor->offset);
    }
    return sqrt(square);
}

#endif
