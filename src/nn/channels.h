/*
 * Operations with one coefficient per channel: normalisation, ReLU, pooling, depthwise convolution.
 *
 * All arrays are dense NHWC unless said otherwise; coefficient arrays have cp entries, zero beyond the real channels,
 * so that padding lanes stay zero. `pixels` counts the pixels of all images given.
 *
 * BatchNorm and GroupNorm share their element-wise halves: forward is x * scale + shift; backward is
 * gain * g + slope * x + offset, where g passes the ReLU only if x * scale + shift > 0.
 */
#ifndef NN_CHANNELS_H
#define NN_CHANNELS_H

#include <stdbool.h>

#include "nn/real.h"

/* sum += x, square += (x - centre)^2, per channel, in double. centre may be NULL for 0; sum may be NULL. */
void channel_sums(int pixels, int cp, const real *x, const real *centre, double *sum, double *square);

/* out = relu?(x * scale + shift), plus `residual` where it is given. */
void channel_affine(int pixels, int cp, const real *x, const real *scale, const real *shift, bool relu,
                    const real *residual, real *out);

/* v = g where the ReLU (if any) passed; sum += v, moment += v * (x - centre), per channel, in double. */
void channel_grad_sums(int pixels, int cp, const real *x, const real *g, const real *scale, const real *shift,
                       bool relu, const real *centre, double *sum, double *moment);

/* Where images are written: densely, or into the interior of framed images. */
struct placing {
    real *at;                      /* first pixel */
    size_t row_pitch, image_pitch; /* reals from one row to the next, from one image to the next */
};
struct placing placed_dense(real *at, int height, int width, int cp);
struct placing placed_framed(real *framed, int height, int width, int cp);

/* out = gain * v + slope * x + offset, v as above. */
void channel_grad(int images, int height, int width, int cp, const real *x, const real *g, const real *scale,
                  const real *shift, bool relu, const real *gain, const real *slope, const real *offset,
                  struct placing out);

/* Max pooling 2x2, stride 2, odd edges dropped. On ties the gradient goes to the first maximum in row-major order. */
void pool_forward(int images, int height, int width, int cp, const real *x, real *out);
void pool_backward(int images, int height, int width, int cp, const real *x, const real *g, real *out);

/*
 * The same over relu(x * scale + shift), without storing it. The forward pass also keeps the winning x of each window;
 * as far as the norm's sums are concerned, channel_grad_sums over the winners then equals the same over all of x. The
 * backward pass is channel_grad applied to the gradient that pooling would propagate.
 */
void pool_affine_forward(int images, int height, int width, int cp, const real *x, const real *scale, const real *shift,
                         real *winners, struct placing out);
void pool_affine_grad(int images, int height, int width, int cp, const real *x, const real *winners, const real *g,
                      const real *scale, const real *shift, const real *gain, const real *slope, const real *offset,
                      struct placing out);

/* Mean over the pixels of each image, and its gradient added to (or, if fresh, written over) out. */
void mean_forward(int images, int pixels, int cp, const real *x, real *out);
void mean_backward(int images, int pixels, int cp, const real *g, bool fresh, real *out);

/* Depthwise 3x3 on framed images. weight_p is [9][cp]; sums [9][cp] accumulate. */
void depthwise_forward(int images, int height, int width, int cp, const real *framed, const real *weight_p, real *out);
void depthwise_weights(int images, int height, int width, int cp, const real *framed, const real *g, real *sums);

#endif
