/*
 * Runs one network on one given batch on the device, from host memory and back: the entry point for golden vectors,
 * whose samples are not those of a data set.
 */
#ifndef MORPH_NET_TRIAL_H
#define MORPH_NET_TRIAL_H

#ifdef __cplusplus
extern "C" {
#endif

#include "base/status.h"
#include "morph/net.h"

struct net_trial {
    const struct net_shape *shape;
    int samples;
    const float *pixels;          /* images: [sample][y][x][4]: red, green, blue, 0 */
    const uint16_t *labels;       /* of images */
    const uint8_t *tokens;        /* text: [sample][context + 1] */
    const uint8_t *targets;       /* [sample][context], or NULL: the tokens one byte later */
    const struct slot_exec *exec; /* [slot] */
    bool learn;                   /* a step of training; otherwise an evaluation with running statistics */
    bool bf16;                    /* by bf16 kernels, which must fit: it learns, and returns no logits */
    struct net_rates rates;

    struct net_params params;
    struct net_memory memory; /* both before the step; updated by it */
    struct net_params grads;  /* of the step, before clipping; without stats */
    float *logits;            /* [target][class] */
    struct net_result result;

    /* If x is given, runs the seed of slot 0 alone instead, in place of its host's output: maps
     * [image][pixel][channel], or [sequence][token][width]. From its input and the gradient of its output to the
     * output, the gradient of the input, and grads. */
    const float *x, *dy;
    float *y, *dx;
};

#ifdef __cplusplus
}
#endif

#endif
