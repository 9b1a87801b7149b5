/*
 * Convolutions, stride 1, zero padding kernel / 2, no bias, over a block of images.
 *
 * A 3x3 convolution reads *framed* images: the NHWC image with one zero pixel all round, so that a window is three runs
 * of memory and no bounds need checking. A 1x1 convolution reads dense images. Outputs are dense. Backward-data is the
 * forward kernel over the framed output gradient with rotated, transposed weights; backward-weights is a sum of outer
 * products. Each output element is summed in one fixed order, whatever the number of images.
 */
#ifndef NN_CONV_H
#define NN_CONV_H

#include <stdbool.h>
#include <stdint.h>

#include "nn/real.h"

enum { CONV_MAX_TAPS = 9, CONV_BLOCK = 128 }; /* CONV_BLOCK: pixels worth processing at a time */

/* A convolution's geometry and the addresses of its windows; built once, shared by every network of that shape. */
struct conv {
    int height, width, cin, cout, kernel;
    int cin_p, cout_p;                 /* channels as stored */
    int taps;                          /* kernel * kernel */
    bool winograd;                     /* many channels: forward and backward-data use winograd.h */
    int block;                         /* images whose pixels the tables below cover */
    size_t in_image;                   /* reals per input image, framed if kernel is 3 */
    size_t out_image;                  /* reals per dense output image */
    size_t grad_image;                 /* reals per output-gradient image, framed if kernel is 3 */
    ptrdiff_t tap_in[CONV_MAX_TAPS];   /* window offsets in the input */
    ptrdiff_t tap_grad[CONV_MAX_TAPS]; /* the same in the output gradient */
    int32_t *window_in;                /* [block * height * width] top left of a pixel's window in the input */
    int32_t *window_grad;              /* the same in the output gradient, for backward-data */
    int32_t *centre_grad;              /* the pixel itself in the output gradient, for backward-weights */
};

/* Bytes of table memory a convolution of this size needs, and its set-up in that memory. */
size_t conv_table_bytes(int height, int width);
void conv_init(struct conv *conv, int height, int width, int cin, int cout, int kernel, void *table);

/* Master weights are [cout][kh][kw][cin]; the kernels read panels of them. */
size_t conv_packed_size(const struct conv *conv);                               /* reals, either direction */
size_t conv_packed_reals(int height, int width, int cin, int cout, int kernel); /* the same, before the conv exists */
void conv_pack_forward(const struct conv *conv, const real *weight, real *packed);
void conv_pack_backward(const struct conv *conv, const real *weight, real *packed);

void conv_forward(const struct conv *conv, int images, const real *in, const real *packed, real *out);
/* grad is framed like an input; out is the dense input gradient. */
void conv_backward_data(const struct conv *conv, int images, const real *grad, const real *packed, real *out);
/* Adds to sums, [panel][taps][cin_p][panel width]; conv_unpack_weights turns them into the master layout. */
size_t conv_sums_size(const struct conv *conv);
void conv_backward_weights(const struct conv *conv, int images, const real *in, const real *grad, real *sums);
void conv_unpack_weights(const struct conv *conv, const real *sums, real *grad_weight);

/* Copy dense images into framed ones, borders zeroed. */
size_t framed_size(int height, int width, int channels_p);
void frame_images(int images, int height, int width, int channels_p, const real *dense, real *framed);

#endif
