/*
 * Blueprints: the kinds of seed that a slot of a transformer can grow, by the table they all come from. All but the
 * norm are branches, s = x + W2 f(W1 x + b1) + b2, that begin with W2 = 0 and b2 = 0: a newborn seed is the identity.
 */
#ifndef TRANSFORMER_BLUEPRINT_H
#define TRANSFORMER_BLUEPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "morph/layout.h"
#include "morph/stage.h"

/* Wire values, shared with the other families where the idea is the same. NOOP is 0, as in every family. */
enum transformer_blueprint {
    TRANSFORMER_ATTENTION = 2,
    TRANSFORMER_NORM = 3,
    TRANSFORMER_LORA = 8,
    TRANSFORMER_LORA_LARGE = 9,
    TRANSFORMER_MLP_SMALL = 10,
    TRANSFORMER_MLP = 11,
    TRANSFORMER_BLUEPRINTS
};

enum {
    SEED_HEADS = 4,    /* of an attention seed, whatever its host has: they divide the width */
    SEED_RANK_MAX = 32 /* of the largest LORA */
};

/* What f is: nothing, GELU, or causal attention over the thirds of what W1 yields. */
enum branch_kind { BRANCH_NONE, BRANCH_LORA, BRANCH_MLP, BRANCH_ATTENTION };

struct seed_plan {
    enum branch_kind kind;
    bool norm; /* no branch: s = x + tanh(sigma) (LayerNorm(x) - x) */
    int rank;  /* rows of W1, where they do not depend on the width; otherwise ... */
    int wider; /* ... this many times the width */
};

/* NULL for a number without a blueprint, and for NOOP. */
const struct seed_plan *transformer_seed(int blueprint);
static inline int seed_hidden(const struct seed_plan *plan, int width)
{
    return plan->rank ? plan->rank : plan->wider * width;
}

/* In the order of the tensors: a branch's, without biases where it is a LORA, or the norm's. */
enum { BRANCH_W1, BRANCH_B1, BRANCH_W2, BRANCH_B2 };
enum { LORA_DOWN, LORA_UP };
enum { NORM_GAMMA, NORM_BETA, NORM_SIGMA };
void transformer_seed_layout(int blueprint, int width, struct param_layout *layout);
/* Multiply-accumulates of a forward pass over a sequence of so many tokens. */
double transformer_seed_macs(int blueprint, int width, int tokens);

/* The gate net, on each token's own features: Linear(C, hidden), ReLU, Linear(hidden, 1), sigmoid. */
enum { GATE_W1, GATE_B1, GATE_W2, GATE_B2 };
int transformer_gate_hidden(int width); /* max(8, C / 4) */
void transformer_gate_layout(int width, struct param_layout *layout);

#endif
