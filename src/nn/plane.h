/*
 * The first block of a host with one channel and 1x1 kernels, from RGB images to the pooled map and back.
 *
 * Elsewhere a pixel is a whole number of vectors; one channel would leave three of four lanes idle in every pass, and
 * such a host does little else than pass over maps. So here the raw output and the winners of its pool windows are
 * *planes*: one real per pixel, four neighbours to a vector. Inputs and outputs have four lanes per pixel, as
 * everywhere. Heights are even and widths multiples of eight.
 */
#ifndef NN_PLANE_H
#define NN_PLANE_H

#include <stdbool.h>

#include "nn/channels.h"
#include "nn/norm.h"

bool plane_fits(int height, int width, int cin, int cout, int kernel);

/* x = w . colours, one image; sum and square are channel_sums of it about `centre`. */
void plane_convolve(int pixels, const real *in, const real weight[3], real centre, real *x, double *sum,
                    double *square);
/* relu(x * scale + shift) pooled; as pool_affine_forward. */
void plane_pool(int height, int width, const real *x, const struct norm *norm, real *winners, struct placing out);
/* As channel_grad_sums over the winners; g has four lanes per window. */
void plane_grad_sums(int windows, const real *winners, const real *g, const struct norm *norm, double *sum,
                     double *moment);
/* From the pooled gradient to that of the three weights, in one pass; adds to sums. */
void plane_weights(int height, int width, const real *x, const real *winners, const real *g, const struct norm *norm,
                   const real *in, double sums[3]);

#endif
