/* A test rig: a transformer with all its arrays. Compiled into every variant. */
#ifndef CHECK_NUMERIC_TEXT_H
#define CHECK_NUMERIC_TEXT_H

#include "check/numeric_util.h"
#include "transformer/net.h"

struct text_host {
    int vocabulary, width, heads, layers, context, segments, samples;
};

struct text_rig {
    struct config config; /* the shape points at its slot names */
    union {
        struct net_shape shape;
        struct transformer_shape host;
    };
    struct net *net;
    struct net_params params;
    struct net_memory memory;
    struct slot_exec exec[SHAPE_SLOTS];
    struct param_layout seed_layout[SHAPE_SLOTS], gate_layout; /* of the occupied ones */
    int samples;
    uint8_t *targets; /* [samples][context], where they are not the inputs one byte later */
};

/* Whether such a host exists. */
bool text_host_valid(const struct text_host *host);
/* A slot after every segment. Zeroed arrays; the seeds' pools hold NAN, which no empty slot may pass on (I-30). Memory
 * may be short: check the scrap. */
void text_init(struct text_rig *rig, struct scrap *scrap, const struct text_host *host);
/* Put a seed of this blueprint, all parameters zero, into the slot; with a gate net where the operator has one. */
void text_wake(struct text_rig *rig, int slot, int mode, int blueprint, int algorithm, float alpha);
/* Generic parameters in the host and its seeds, and random tokens. */
void text_randomise(struct text_rig *rig, uint32_t key);
struct net_batch text_batch(const struct text_rig *rig);
/* Logits [samples][context][vocabulary] of the slots' own alphas, and the score. */
struct net_score text_logits(struct text_rig *rig, int samples, real *logits);
size_t text_logit_count(const struct text_rig *rig);
real *text_seed(const struct text_rig *rig, int slot);

/* Gradients, their statistics and the step. */
void text_step(struct text_rig *rig, const struct net_rates *rates, struct net_result *result);
/*
 * The seed of slot 0 as the whole of the stream, or the slot's gate net by itself: from what enters and the gradient of
 * the output to the output y and the gradient of x; those of the parameters are the net's. At most so many tokens.
 */
enum { TEXT_SEED_ROWS = 64 };
void text_seed_run(struct text_rig *rig, bool gate, const real *x, const real *dy, real *y, real *dx);

/* Files of golden vectors. */
struct source;
void check_blueprints_transformer(const struct source *source);
void check_host_transformer(const struct source *source);

#endif
