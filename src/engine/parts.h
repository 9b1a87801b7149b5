/* The engine from the inside: what its phases share. */
#ifndef ENGINE_PARTS_H
#define ENGINE_PARTS_H

#include "base/pool.h"
#include "data/gather.h"
#include "engine/engine.h"
#include "policy/distribution.h"
#include "policy/masks.h"
#include "policy/script.h"
#include "reward/attribution.h"
#include "variant/variant.h"

/* What a thread works with while it has an env in hand. */
struct worker {
    struct net *net;
    void *memory;
    uint8_t *labels; /* [batch] */
};

struct engine {
    struct world *world;
    const struct variant *kernels;
    struct dataset *data;
    struct gather_table normalise;
    struct pool *pool;
    struct worker *workers; /* [threads] */
    struct gate_rules gates;
    struct net_rates rates;
    struct script script; /* policy.kind = script */
    uint32_t batches;

    /* the record */
    struct recorder *recorder; /* NULL: none is kept */
    bool spans;                /* every env's part of a phase is a span of its own */
    double zero;               /* clock_seconds when the run was created */

    /* what one phase of a step leaves for the next; nothing of it outlives the step */
    struct slot_grads *grads;    /* [env][slot] of the step's last batch */
    struct masks *masks;         /* [env] */
    struct action *actions;      /* [env] */
    struct decision *decisions;  /* [env] of the network, for the record */
    struct shapley_sums *shares; /* [env] sampled at the last step; pairs = 0: not sampled */
    float *logits, *values;      /* [env][logits], [env] */
    double *rewards;             /* [env] raw */
    float *scaled;               /* [env] */
    uint8_t *executed;           /* [env] */
    double *test_accuracy;       /* [env] */
};

/* Run whole envs on the pool's threads; a phase of that name. */
void engine_run(struct engine *engine, const char *name, void (*work)(void *engine, int env, int thread));

/* Place of (step in progress, env) in the rollout. */
static inline size_t engine_row(const struct engine *engine, int env)
{
    const struct world *world = engine->world;
    return (size_t)*world->step * (size_t)world->envs + (size_t)env;
}

#endif
