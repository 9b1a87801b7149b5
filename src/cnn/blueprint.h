/*
 * Blueprints: the kinds of seed that a slot can grow. This is the one table they all come from: parameters, their
 * initial values and the chain of operations. Most seeds are residual chains of convolutions; a new one of that kind is
 * a new row of the table, and its kernels already exist.
 */
#ifndef CNN_BLUEPRINT_H
#define CNN_BLUEPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "morph/layout.h"
#include "morph/stage.h"

/* In the order of their numbers, which are wire values: a new one comes last. NOOP is 0, as in every family. */
#define BLUEPRINTS(WORD, with)                                                                                         \
    WORD(with, CONV_LIGHT, conv_light)                                                                                 \
    WORD(with, ATTENTION, attention)                                                                                   \
    WORD(with, NORM, norm)                                                                                             \
    WORD(with, DEPTHWISE, depthwise)                                                                                   \
    WORD(with, BOTTLENECK, bottleneck)                                                                                 \
    WORD(with, CONV_SMALL, conv_small)                                                                                 \
    WORD(with, CONV_HEAVY, conv_heavy)

enum blueprint { BLUEPRINTS_BEGIN = BLUEPRINT_NOOP, BLUEPRINTS(WORD_ENUM, BLUEPRINT) BLUEPRINT_COUNT };

const char *blueprint_name(int blueprint); /* "none" for a number that is none of theirs */

enum { CHAIN_STEPS = 3 };

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

#endif
