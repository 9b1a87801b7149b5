/* The rollout of a recorded update and the network that it trained, as an update reads them. */
#ifndef CHECK_UPDATE_RIG_H
#define CHECK_UPDATE_RIG_H

#include "base/pool.h"
#include "check/learn_source.h"
#include "learn/loss.h"
#include "policy/network.h"

struct update_rig {
    size_t envs, steps, valid; /* arrays of the network are [step][env]; of the file [env][step], or the valid rows */
    struct policy_shape shape;
    struct pool *pool;
    const struct policy_kernels *policy;
    struct policy_net *net;
    void *memory;
    float *w, *grad, *m, *v;
    float *obs, *logits, *value, *dlogits, *dvalue, *logp, *ref;
    int8_t *bp;
    struct loss_row *row;
    size_t *at; /* [valid] the network's row for the file's i-th valid row */
    const float *rewards, *values, *bootstraps;
};

/* Given the sizes: memory, and a network of the source's kernels. To be freed even after a failure. */
bool update_rig_make(struct learn_source *source, struct update_rig *rig);
void update_rig_free(struct update_rig *rig);
/* The file's weights, and an optimiser that has made no step. */
bool update_rig_weights(struct learn_source *source, struct update_rig *rig);
/* Rows, masks and inputs of the file, turned from [env][step] to [step][env]; `mask` is room for [row]. */
bool update_rig_rollout(struct learn_source *source, struct update_rig *rig, const uint8_t *flags, uint64_t *mask);

#endif
