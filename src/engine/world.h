/*
 * The world: all state of all envs, each array registered once in one table. A phase reads and writes these arrays and
 * nothing else, so the table's saved rows are all that a checkpoint must hold.
 */
#ifndef ENGINE_WORLD_H
#define ENGINE_WORLD_H

#include "base/table.h"
#include "morph/lifecycle.h"
#include "morph/net.h"
#include "morph/subsets.h"

struct world {
    int envs;
    struct config config;
    struct net_shape shape;
    struct table table;

    uint32_t *round, *step; /* [1] the round in progress; steps of it that are done */

    /* parameters [env][layout], momentum alike */
    float *host, *host_momentum;
    float *stats; /* running means and variances */
    float *seed, *seed_momentum;
    float *gate, *gate_momentum;

    struct slot_arrays slots; /* [env][slot] */

    /* what a step measured, [env] */
    double *train_loss, *train_accuracy, *val_loss, *val_accuracy;
    uint32_t *subset_count, *subset_all;    /* [env] */
    uint32_t *subset_mask, *subset_correct; /* [env][SUBSETS_MAX] */

    /* the governor's snapshot: host, and the fossils among the slots */
    float *saved_host, *saved_stats, *saved_seed, *saved_gate;
    struct slot_arrays saved_slots;
};

/* `config` is copied and must have passed config_check. */
enum esper_status world_create(struct world **out, const struct config *config, struct esper_error *error);
void world_free(struct world *world);

/* The pieces of one env. */
struct net_params world_params(const struct world *world, int env);
struct net_params world_momentum(const struct world *world, int env);
struct slot_state world_slot(const struct world *world, int env, int slot);
void world_set_slot(struct world *world, int env, int slot, const struct slot_state *state);
struct subsets world_subsets(const struct world *world, int env);
void world_set_subsets(struct world *world, int env, const struct subsets *subsets);

/* A fresh episode: new host, empty slots, zero momentum, a snapshot of that. */
void world_reset(struct world *world, int env);

/* Carry out what a rule asked for: initialise parameters, zero momentum, snapshot. */
void world_effects(struct world *world, int env, int slot, uint32_t effects);

/* Remember host and fossils; bring them back, prune every other live seed and forget all momentum (kasmina 12.6). */
void world_snapshot(struct world *world, int env);
void world_rollback(struct world *world, int env, enum prune_reason reason, struct life_log *log);

#endif
