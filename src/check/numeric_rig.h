/* A test rig: a network with all its arrays. Compiled into every variant. */
#ifndef CHECK_NUMERIC_RIG_H
#define CHECK_NUMERIC_RIG_H

#include "check/networks.h"
#include "check/numeric_util.h"
#include "cnn/net.h"
#include "nn/norm.h"

/* Generic parameters: weights of the usual size, gains and shifts off their initial values, nothing zero. */
void fill_layout(const struct param_layout *layout, uint32_t key, real *params);

struct rig {
    struct config config; /* the shape points at its slot names */
    union {
        struct net_shape shape;
        struct cnn_shape cnn;
    };
    struct net *net;
    struct net_params params;
    struct net_memory memory;
    struct slot_exec exec[SHAPE_SLOTS];
    struct param_layout seed_layout[SHAPE_SLOTS], gate_layout[SHAPE_SLOTS]; /* of the occupied ones */
    int images;
    uint16_t *labels; /* [images] in the net's input */
};

/* Whether such a host exists, and whether it has this slot. */
bool rig_host_valid(const struct rig_host *host);
bool rig_slot_valid(const struct rig_host *host, const char *id);
/* Zeroed arrays; the seeds' pools hold NAN, which no empty slot may pass on (I-30). Memory may be short: check the
 * scrap. */
void rig_init(struct rig *rig, struct scrap *scrap, const struct rig_host *host, const char *const slots[], int count);
/* Put a seed of this blueprint, all parameters zero, into the slot; with a gate net where the operator has one. */
void rig_wake(struct rig *rig, int slot, int mode, int blueprint, int algorithm, float alpha);
/* Generic parameters in the host and its seeds, fresh statistics, random images and labels. */
void rig_randomise(struct rig *rig, uint32_t key, struct scrap *scrap);
/* All of it, for a case of the table. false: memory is short. */
bool rig_build(struct rig *rig, const struct network_case *network, struct scrap *scrap);
/* Dense [images][height][width][3], into the net's input. */
void rig_load(struct rig *rig, int images, const float *pixels);

/* A step of training with gradient statistics, on the CPU or on a device. */
void rig_step(struct rig *rig, const struct net_rates *rates, struct net_result *result);

struct net_batch rig_batch(const struct rig *rig);
/* Layouts of an occupied slot's seed and gate net. */
const struct param_layout *rig_seed_layout(const struct rig *rig, int slot);
const struct param_layout *rig_gate_layout(const struct rig *rig, int slot);

#endif
