/*
 * 3x3 convolutions with many channels by Winograd's F(2x2, 3x3): four outputs from sixteen products instead of
 * thirty-six. Input tiles, weights and output tiles are transformed; in between are sixteen matrix products. conv.c
 * uses it where there are enough channels to pay for the transforms.
 */
#ifndef NN_WINOGRAD_H
#define NN_WINOGRAD_H

#include <stdbool.h>

#include "nn/real.h"

enum { WINOGRAD_POINTS = 16, WINOGRAD_MAX_CHANNELS = 128 };

/* Whether a 3x3 convolution of this shape is computed this way, in both directions. */
bool winograd_fits(int height, int width, int cin, int cout);

/* The weight of an output channel, an input channel and a tap is at first[to * to_step + from * from_step + tap *
 * tap_step]. */
struct winograd_weights {
    const real *first;
    ptrdiff_t to_step, from_step, tap_step;
};
/* packed holds 16 * from * to. */
void winograd_pack(int from, int to, struct winograd_weights weights, real *packed);

/* in is framed, out dense. */
void winograd_run(int images, int height, int width, int from, int to, const real *in, const real *packed, real *out);

#endif
