/*
 * Blueprints: the kinds of seed that a slot can grow. This is the one table they all come from: parameters, their
 * initial values and the chain of operations. Most seeds are residual chains of convolutions; a new one of that kind is
 * a new row of the table, and its kernels already exist.
 */
#ifndef MORPH_BLUEPRINT_H
#define MORPH_BLUEPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "morph/stage.h"

enum { LAYOUT_TENSORS = 8, LAYOUT_ALIGN = 16, CHAIN_STEPS = 3 };

/* How a tensor is initialised: uniform in +-1/sqrt(fan_in), or a constant. */
struct tensor_layout {
    const char *name;
    int dims, shape[4]; /* conv [cout][kh][kw][cin], depthwise [kh][kw][c], linear [out][in], vectors [c] */
    size_t offset, size;
    int fan_in; /* 0: constant */
    float value;
};

/* The tensors of a seed, a gate net or a host in the order of their random streams, each aligned to 16 floats. */
struct param_layout {
    int count;
    size_t params;  /* real parameters */
    size_t storage; /* including the gaps between tensors, which stay zero */
    struct tensor_layout tensor[40];
};

enum seed_kind { SEED_NOOP, SEED_CHAIN, SEED_NORM, SEED_ATTENTION };
enum step_kind { STEP_CONV3, STEP_CONV1, STEP_DEPTHWISE };
enum step_width { WIDTH_SLOT, WIDTH_NECK }; /* the slot's channels, or the bottleneck's max(8, C / 4) */
enum step_act { ACT_NONE, ACT_RELU, ACT_NORM, ACT_NORM_RELU };

/* A linear operation and what follows it. */
struct chain_step {
    enum step_kind kind;
    enum step_width from, to;
    enum step_act act;
    const char *weight, *gamma, *beta; /* tensor names; gamma and beta where the act normalises */
    bool zero;                         /* weights start at 0: the seed is the identity at birth */
};

struct seed_blueprint {
    enum seed_kind kind;
    int steps;
    struct chain_step step[CHAIN_STEPS]; /* s = x + chain(x) */
};

/* NULL for an index without a CNN blueprint. */
const struct seed_blueprint *blueprint_at(int index);
/* -1 if there is no blueprint with that name. */
int blueprint_find(const char *name);

int blueprint_neck(int channels);    /* max(8, C / 4): bottleneck width and gate hidden size */
int blueprint_squeeze(int channels); /* max(1, C / 4): hidden size of the squeeze-and-excite net */
void blueprint_layout(int index, int channels, struct param_layout *layout);
uint64_t blueprint_macs(int index, int channels, int pixels); /* multiply-accumulates of one forward pass per image */

/* The gate net: p = mean over pixels, Linear(C, hd), ReLU, Linear(hd, 1), sigmoid. */
void gate_layout(int channels, struct param_layout *layout);

/* Append a tensor; dims beyond the given ones are 1. */
void layout_add(struct param_layout *layout, const char *name, int fan_in, float value, int dims, const int shape[]);
/* -1 if there is no such tensor. */
int layout_find(const struct param_layout *layout, const char *name);

/* Initial values: tensor t draws from `stream` at a = a0 + t. */
void layout_init(const struct param_layout *layout, uint64_t seed, int stream, uint32_t round, uint32_t env,
                 uint32_t a0, float *params);

#endif
