/*
 * Forward and backward of the seeds, over a range of the images of a batch. Compiled once per variant.
 *
 * A seed works image by image (GroupNorm, no running statistics), so any range of images can be run alone; what the
 * backward pass needs of the forward pass is kept per image in the site's `saved` arrays. Parameter gradients
 * accumulate over ranges between seed_begin and seed_end.
 */
#ifndef CNN_CPU_SEED_H
#define CNN_CPU_SEED_H

#include "cnn/blueprint.h"
#include "nn/bump.h"
#include "nn/conv.h"
#include "nn/norm.h"

enum { SEED_NORMS = 2 }; /* no chain normalises more often */

/* Buffers for the images of one range, shared by all slots of a net. */
struct seed_scratch {
    real *framed_in, *framed_grad;
    real *act, *grad_a, *grad_b;
};

/* One slot's static part: geometry and memory, suitable for any blueprint. */
struct seed_site {
    int channels, cp, neck, neck_p, height, width, pixels, batch;
    struct conv slot3, slot1, down, neck3, up; /* building blocks of chains */
    struct param_layout layout[BLUEPRINT_COUNT], gate_layout;
    size_t map;              /* reals of a dense image */
    size_t wide_map;         /* the same at the larger of slot and neck width */
    real *packed[2], *sums;  /* weights for forward and backward, and their gradient sums, of all steps */
    double *dgamma, *dbeta;  /* [SEED_NORMS][cp] */
    real *pre[CHAIN_STEPS];  /* saved: outputs of the linear steps, [batch][map of that step] */
    real *norms[SEED_NORMS]; /* saved: [batch][NORM_ARRAYS][cp] */
    real *out;               /* saved: the seed's output s, [batch][map] */
    real *gates;             /* saved: per image mean [cp], hidden [neck_p] and q of the gate net */
    struct seed_scratch *scratch;
};

void seed_site_init(struct seed_site *site, int channels, int height, int width, int batch,
                    struct seed_scratch *scratch, struct bump *bump);

/* A live seed during one batch. */
struct seed {
    const struct seed_site *site;
    const struct seed_blueprint *blueprint;
    const struct param_layout *layout;
    const real *w;
    real *g;
    bool train;    /* gradients are computed */
    bool backward; /* the pass includes a backward pass; an evaluation does not */
};

/* Pack the weights and clear the gradient sums; finish the gradients. g has the layout of w. */
void seed_begin(const struct seed *seed);
void seed_end(const struct seed *seed);

/* Images first .. first + images - 1 of the batch; x and the result are dense blocks of only those images. */
void seed_forward(const struct seed *seed, int first, int images, const real *x, real *s);
/* u = dL/ds. dx, if given, receives dL/dx. Gradients are summed only where seed->train. */
void seed_backward(const struct seed *seed, int first, int images, const real *x, const real *u, real *dx);

/* The gate net: one q per image, left in the site. Backward: dx += its input gradient where dx is given. */
void gate_forward(const struct seed_site *site, const real *w, int first, int images, const real *x);
void gate_backward(const struct seed_site *site, const real *w, int first, int images, const real *dq, real *g,
                   real *dx);

/* The kinds, each in its own file. */
void chain_begin(const struct seed *seed);
void chain_end(const struct seed *seed);
void chain_forward(const struct seed *seed, int first, int images, const real *x, real *s);
void chain_backward(const struct seed *seed, int first, int images, const real *x, const real *u, real *dx);
void scale_begin(const struct seed *seed);
void scale_end(const struct seed *seed);
void scale_forward(const struct seed *seed, int first, int images, const real *x, real *s);
void scale_backward(const struct seed *seed, int first, int images, const real *x, const real *u, real *dx);
void attention_begin(const struct seed *seed);
void attention_forward(const struct seed *seed, int first, int images, const real *x, real *s);
void attention_backward(const struct seed *seed, int first, int images, const real *x, const real *u, real *dx);

/* Coefficients of image n saved by norm number k. */
static inline struct norm seed_norm(const struct seed_site *site, int k, int n)
{
    return norm_in(site->norms[k] + (size_t)n * NORM_ARRAYS * site->cp, site->cp);
}

/* Saved by the gate net for image n: mean of the input, hidden layer, and its value q. */
static inline real *gate_mean(const struct seed_site *site, int n)
{
    return site->gates + (size_t)n * (size_t)(site->cp + site->neck_p + 1);
}

static inline real *gate_hidden(const struct seed_site *site, int n)
{
    return gate_mean(site, n) + site->cp;
}

static inline real *gate_value(const struct seed_site *site, int n)
{
    return gate_hidden(site, n) + site->neck_p;
}

static inline const real *seed_tensor(const struct seed *seed, int tensor)
{
    return seed->w + seed->layout->tensor[tensor].offset;
}

static inline real *seed_grad(const struct seed *seed, int tensor)
{
    return seed->g + seed->layout->tensor[tensor].offset;
}

#endif
