/* The workspace behind struct net, shared by its source files. */
#ifndef CNN_CPU_WORK_H
#define CNN_CPU_WORK_H

#include "cnn/cpu/seed.h"
#include "cnn/net.h"
#include "nn/channels.h"
#include "nn/conv.h"
#include "nn/norm.h"
#include "nn/plane.h"

enum { EVAL_GROUP = 8 }; /* images evaluated at a time */

/* One block of the host: conv -> BatchNorm -> ReLU -> slot -> pool -> slot. */
struct net_block {
    struct conv conv;
    int slot[SLOT_ROWS];
    bool pool;
    bool plane;          /* this block may be run by plane.h */
    int group;           /* images taken through the convolution at a time: enough pixels to fill the kernels */
    size_t map, out_map; /* reals per image of the raw output, and of the block's output */
    struct norm norm;
    real *in;      /* [batch] inputs, framed for 3x3 kernels */
    real *raw;     /* [batch][map] the convolution's output */
    real *winners; /* [batch][out_map] the value each pool window took from it, where the pool follows at once */
    real *grad;    /* [group] gradient of raw, framed for 3x3 kernels: the frames stay zero */
    real *packed[2], *sums;
};

/* Maps of one group of images while it passes through a block. */
struct net_maps {
    real *host, *blended, *pooled, *out; /* forward: after ReLU, slot r0, pool, slot r1 */
    real *grad[4];
    real *raw; /* evaluation only */
};

struct net {
    const struct cnn_shape *shape;
    int batch, group; /* group: the largest number of images any block processes at a time */
    struct net_block block[SHAPE_BLOCKS];
    struct seed_site site[SHAPE_SLOTS];
    struct seed seed[SHAPE_SLOTS]; /* of the current batch; blueprint NULL where the slot is empty */
    struct seed_scratch scratch;
    struct net_maps maps;
    struct net_maps level[SHAPE_SLOTS + 1]; /* evaluation: one set per branching depth */
    real *grad_map[2];                      /* [batch] gradient after the ReLU, of this block and the one below */
    struct conv fc;
    real *fc_packed[2], *fc_sums;
    int features_p, classes_p;
    real *features, *dfeatures, *logits, *dlogits; /* [batch] */
    uint16_t *labels;                              /* likewise */
    real *gate_grad;                               /* [CONV_BLOCK] */
    struct net_params grads;
};

static inline const real *host_tensor(const struct net *net, const real *host, int tensor)
{
    return host + net->shape->net.host.tensor[tensor].offset;
}

static inline real *host_grad(const struct net *net, int tensor)
{
    return net->grads.host + net->shape->net.host.tensor[tensor].offset;
}

/* Amplitude clamped to [0, 1]. */
static inline real clamp01(real a)
{
    return a < 0 ? 0 : a > 1 ? 1 : a;
}

/* The weight of an image's seed: alpha, scaled by the gate where there is one. */
static inline real net_amplitude(const struct seed_site *site, const struct slot_exec *exec, real a, int image)
{
    return exec->gate ? clamp01(a * *gate_value(site, image)) : a;
}

/* The operator alone, on seed outputs and gate values that are already in the site. */
void net_blend(const struct seed_site *site, const struct slot_exec *exec, real alpha, int first, int images,
               const real *h, real *y);
/* The slot's output for a group of images; s is left in the site. alpha > 0. */
void net_slot_forward(struct net *net, const struct net_params *params, const struct slot_exec *exec, int slot,
                      real alpha, int first, int images, const real *h, real *y);
/* Set up the seeds that `exec` says are in use. */
void net_begin_seeds(struct net *net, const struct net_params *params, const struct slot_exec *exec, bool evaluating);

/* The classifier on `images` rows of features. */
void net_classify(struct net *net, const struct net_params *params, int images, const real *features, real *logits);
void net_pack_host(struct net *net, const struct net_params *params);

#endif
