/* The engine from the inside: what its phases share. */
#ifndef ENGINE_PARTS_H
#define ENGINE_PARTS_H

#include "base/pool.h"
#include "data/gather.h"
#include "engine/choose.h"
#include "engine/engine.h"
#include "engine/step.h"
#include "policy/script.h"
#include "variant/variant.h"

/* What a thread works with while it has an env in hand. */
struct worker {
    struct net *net;
    void *memory;
    uint8_t *labels; /* [batch] */
};

struct engine;

/* Where the phases run. Each is a function over all envs; `world` is the host's. */
struct backend {
    void (*reset)(struct engine *engine); /* fresh episodes of *world->round, an empty rollout */
    void (*train)(struct engine *engine);
    void (*evaluate)(struct engine *engine);
    void (*decide)(struct engine *engine);
    void (*apply)(struct engine *engine);
    void (*test)(struct engine *engine); /* fills test_accuracy and brings what outcomes are made from to the host */
    void (*update)(struct engine *engine, double progress, struct update_report *record,
                   struct head_report heads[HEAD_COUNT]);
    void (*fetch_env)(struct engine *engine, int env); /* an env's parameters to the host */
    void (*write)(struct engine *engine);              /* the host's world is the one that counts */
    void (*read)(struct engine *engine);               /* bring the world's saved rows to the host */
    void (*wait)(struct engine *engine);               /* until nothing is under way */
};
extern const struct backend backend_cpu, backend_device;

struct engine {
    struct world *world;
    const struct backend *backend;
    const struct variant *kernels;
    struct dataset *data;
    struct gather_table normalise;
    struct pool *pool;
    struct worker *workers; /* [threads] */
    struct net_rates rates;
    struct script script;          /* policy.kind = script */
    struct action *script_actions; /* [step][env] what it says */
    uint32_t batches;

    struct device_use use; /* where it computes, and in what */
    struct device *device; /* where that is one */
    double device_zero;    /* clock_seconds when it was created */
    uint32_t steps_ahead;  /* steps enqueued whose reports were not taken yet */

    /* the record */
    struct recorder *recorder; /* NULL: none is kept */
    bool spans;                /* every env's part of a phase is a span of its own */
    double zero;               /* clock_seconds when the run was created */

    /* what one phase of a step leaves for the next; nothing of it outlives the step */
    struct step step;
    struct slot_grads *grads;    /* [env][slot] of the step's last batch */
    struct shapley_sums *shares; /* [env] sampled at the last step; pairs = 0: not sampled */
    float *logits, *values;      /* [env][logits], [env] */
    double *test_accuracy;       /* [env] */
};

/* Run whole envs on the pool's threads; a phase of that name. */
void engine_run(struct engine *engine, const char *name, void (*work)(void *engine, int env, int thread));

/* Is the step's evaluation to be followed by shares of the seeds, for the record of a finished episode? */
bool engine_wants_shares(const struct engine *engine);

/* The CPU's phases that have files of their own. */
void decide_cpu(struct engine *engine);
void apply_cpu(struct engine *engine);

#endif
